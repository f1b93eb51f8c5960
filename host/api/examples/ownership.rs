//! What managed fields cost a write, in microseconds: the best of many rounds, one thread.
//!
//! `cargo run --release -p pilothouse-api --example ownership`

use std::{hint::black_box, time::Instant};

use pilothouse_api::{
    GroupVersionKind,
    apply::{
        BuiltIn, OneVersion, Scope, Value, Writer, created, empty_object, join, split, updated,
    },
    facts,
};
use serde_json::json;

const ROUNDS: usize = 2_000;

fn best(name: &str, mut run: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64() * 1e6);
    }
    println!("{name:<44} {best:>8.2} µs");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-7d4b9c6f5-x2x7k", "generateName": "web-7d4b9c6f5-", "namespace": "default", "uid": "u",
            "labels": { "app": "web", "pod-template-hash": "7d4b9c6f5" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5", "uid": "r", "controller": true, "blockOwnerDeletion": true }],
        },
        "spec": {
            "containers": [{
                "name": "main", "image": "nginx:1.27", "imagePullPolicy": "IfNotPresent",
                "ports": [{ "containerPort": 80, "protocol": "TCP" }],
                "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
                "resources": { "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "100m", "memory": "128Mi" } },
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [{ "mountPath": "/data", "name": "data" }],
            }],
            "volumes": [{ "name": "data", "emptyDir": {} }],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "serviceAccountName": "default", "securityContext": {}, "terminationGracePeriodSeconds": 30,
        },
        "status": { "phase": "Pending", "qosClass": "Burstable" },
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "node-1", "namespace": "kube-node-lease", "uid": "u" },
        "spec": { "holderIdentity": "node-1", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z" },
    });
    measure("", "v1", "Pod", &pod, |new| {
        new["status"] = json!({
            "phase": "Running", "qosClass": "Burstable", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }],
            "conditions": [{ "type": "Ready", "status": "True" }, { "type": "PodScheduled", "status": "True" }],
        });
    })?;
    measure("coordination.k8s.io", "v1", "Lease", &lease, |new| {
        new["spec"]["renewTime"] = json!("2026-01-01T00:00:10.000000Z");
    })
}

fn measure(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    object: &serde_json::Value,
    change: impl Fn(&mut serde_json::Value),
) -> Result<(), Box<dyn std::error::Error>> {
    let gvk = GroupVersionKind::of(group, version, kind);
    let of = facts::by_kind(&gvk).ok_or("no such kind")?;
    let (schema, empty) = (BuiltIn::kind(of), empty_object(of));
    let api_version = gvk.api_version();
    let mut writer = Writer {
        manager: "kube-controller-manager",
        api_version: &api_version,
        subresource: "",
        scope: Scope::Without(&[&["status"]]),
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let json = serde_json::to_vec(object)?;
    let mut new = object.clone();
    change(&mut new);
    let changed = serde_json::to_vec(&new)?;

    best(&format!("{kind} of {} bytes: read", json.len()), || {
        let _ = black_box(Value::parse(black_box(&json)));
    });
    let managed = created(schema, &writer, &empty, &Value::parse(&json)?).unwrap_or_default();
    let bytes = managed.len();
    best(&format!("{kind}: create ({bytes} bytes of text)"), || {
        if let Ok(value) = Value::parse(&json) {
            black_box(created(schema, &writer, &empty, &value));
        }
    });
    let stored = join(json.clone(), &managed);
    best(&format!("{kind}: put into the document"), || {
        black_box(join(black_box(json.clone()), &managed));
    });
    best(&format!("{kind}: take out of the document"), || {
        black_box(split(black_box(&stored)));
    });
    if kind == "Pod" {
        (writer.subresource, writer.scope) = ("status", Scope::Without(&[&["spec"]]));
        writer.manager = "kubelet";
    }
    let update = |managed: &str| {
        let (old, new) = (Value::parse(&json).ok()?, Value::parse(&changed).ok()?);
        let old = (&old, Some(managed));
        updated(schema, &writer, old, (&new, None), &OneVersion).ok()?
    };
    let after = update(&managed).unwrap_or_default();
    best(&format!("{kind}: update, first by its manager"), || {
        black_box(update(&managed));
    });
    best(&format!("{kind}: update of what is its own"), || {
        black_box(update(&after));
    });
    Ok(())
}
