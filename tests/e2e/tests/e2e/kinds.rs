//! Kinds of workloads, batch, autoscaling, policy and storage, each through kubectl's verbs.

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions, root};

/// Resource and name, as kubectl names them, in namespace `yard` unless cluster-scoped.
const OBJECTS: [&str; 13] = [
    "resourcequota/share",
    "limitrange/bounds",
    "poddisruptionbudget.policy/cranes",
    "persistentvolume/shed",
    "persistentvolumeclaim/tools",
    "service/crane",
    "statefulset.apps/crane",
    "daemonset.apps/lamp",
    "podtemplate/spare",
    "job.batch/sweep",
    "cronjob.batch/patrol",
    "horizontalpodautoscaler.autoscaling/crane",
    "horizontalpodautoscaler.autoscaling/old-crane",
];

fn yard() -> Result<Cluster> {
    let cluster = Cluster::start_with(ClusterOptions {
        nodes: 1,
        ..ClusterOptions::default()
    })?;
    let manifests = root().join("tests/fixtures/yard").display().to_string();
    let applied = cluster.kubectl_words(&["apply", "-f", &manifests])?;
    for object in OBJECTS {
        let line = format!("{object} created");
        ensure!(
            applied.contains(&line),
            "{line:?} is missing in:\n{applied}"
        );
    }
    // Quantities in other words and lists that are replaced as a whole look to kubectl as if they had changed.
    let looks_changed = [
        "share",
        "bounds",
        "cranes",
        "shed",
        "statefulset.apps/crane",
    ];
    let again = cluster.kubectl_words(&["apply", "-f", &manifests])?;
    for object in OBJECTS {
        if looks_changed.iter().any(|name| object.ends_with(name)) {
            continue;
        }
        let line = format!("{object} unchanged");
        ensure!(again.contains(&line), "{line:?} is missing in:\n{again}");
    }
    Ok(cluster)
}

/// White space made one.
fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_kind_is_shown_as_kubernetes_shows_it() -> Result<()> {
    let cluster = yard()?;
    // what is asked for, the header and what the first row begins with, white space made one
    for (asked, header, row) in [
        ("statefulset", "NAME READY AGE", "crane 0/2"),
        (
            "daemonset",
            "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE",
            "lamp 0 0 0 0 0 light=dim",
        ),
        ("job", "NAME STATUS COMPLETIONS DURATION AGE", "sweep "),
        (
            "cj",
            "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE",
            "patrol 0 */2 * * * Europe/Paris True 0 <none>",
        ),
        (
            "pdb",
            "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE",
            "cranes 50% N/A 0",
        ),
        (
            "hpa",
            "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE",
            "crane StatefulSet/crane <unknown>/10 2 6 0",
        ),
        (
            "horizontalpodautoscalers.v1.autoscaling old-crane",
            "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE",
            "old-crane StatefulSet/crane cpu: <unknown>/60% 1 3 0",
        ),
        (
            "pv",
            "NAME CAPACITY ACCESS MODES RECLAIM POLICY STATUS CLAIM STORAGECLASS VOLUMEATTRIBUTESCLASS REASON AGE",
            "shed 1Gi RWO Retain Pending manual <unset>",
        ),
        (
            "pvc",
            "NAME STATUS VOLUME CAPACITY ACCESS MODES STORAGECLASS VOLUMEATTRIBUTESCLASS AGE",
            "tools Pending manual <unset>",
        ),
        ("quota", "NAME REQUEST LIMIT AGE", "share "),
        ("limits", "NAME CREATED AT", "bounds 2"),
        (
            "podtemplate",
            "NAME CONTAINERS IMAGES POD LABELS",
            "spare spare spare:1 app=spare",
        ),
        (
            "statefulset -o wide",
            "NAME READY AGE CONTAINERS IMAGES",
            "crane 0/2",
        ),
    ] {
        let shown = cluster.kubectl(&format!("-n yard get {asked}"))?;
        let mut lines = shown.lines().map(single_spaced);
        assert_eq!(lines.next().as_deref(), Some(header), "{asked}");
        let first = lines.next().unwrap_or_default();
        ensure!(first.starts_with(row), "{asked}: {first:?} is not {row:?}…");
    }
    let all = cluster.kubectl("-n yard get all")?;
    for name in [
        "service/crane",
        "daemonset.apps/lamp",
        "statefulset.apps/crane",
        "horizontalpodautoscaler.autoscaling/crane",
        "cronjob.batch/patrol",
        "job.batch/sweep",
    ] {
        ensure!(all.contains(name), "{name} is missing in:\n{all}");
    }
    for (object, text) in [
        ("statefulset/crane", "Update Strategy: RollingUpdate"),
        ("daemonset/lamp", "Node-Selector: light=dim"),
        ("job/sweep", "Suspend: true"),
        ("cronjob/patrol", "Time Zone: Europe/Paris"),
        ("pdb/cranes", "Min available: 50%"),
        ("hpa/crane", "\"lifts\" on pods: <unknown> / 10"),
        ("pv/shed", "HostPath (bare host directory volume)"),
        ("pvc/tools", "StorageClass: manual"),
        ("quota/share", "Name:"),
        ("limits/bounds", "Container cpu"),
        ("podtemplate/spare", "spare:1"),
    ] {
        let described = single_spaced(&cluster.kubectl(&format!("-n yard describe {object}"))?);
        ensure!(
            described.contains(text),
            "{text:?} is missing in:\n{described}"
        );
    }
    Ok(())
}

#[test]
fn every_kind_is_patched_scaled_and_deleted() -> Result<()> {
    let cluster = yard()?;
    for object in OBJECTS {
        cluster.kubectl(&format!("-n yard label {object} seen=yes"))?;
        let patch = r#"{"metadata":{"annotations":{"note":"patched"}}}"#;
        let line = format!("-n yard patch {object} --type=merge -p {patch}");
        cluster.kubectl(&line)?;
        let note = format!("-n yard get {object} -o jsonpath={{.metadata.annotations.note}}");
        assert_eq!(cluster.kubectl(&note)?, "patched", "{object}");
    }
    cluster.kubectl("-n yard scale statefulset crane --replicas=4")?;
    let replicas = cluster.kubectl("-n yard get statefulset crane -o jsonpath={.spec.replicas}")?;
    assert_eq!(replicas, "4");
    cluster.kubectl("-n yard set image daemonset/lamp lamp=lamp:2")?;
    let generations = cluster.kubectl(
        r"-n yard get ds lamp -o jsonpath={.metadata.generation}/{.metadata.annotations.deprecated\.daemonset\.template\.generation}",
    )?;
    assert_eq!(generations, "2/2");

    let refused = cluster
        .try_kubectl("-n yard set image job/sweep broom=broom:2")?
        .refused()?;
    ensure!(refused.contains("field is immutable"), "{refused}");
    let refused = cluster
        .try_kubectl(
            r#"-n yard patch statefulset crane --type=merge -p {"spec":{"serviceName":"other"}}"#,
        )?
        .refused()?;
    ensure!(
        refused.contains("updates to statefulset spec for fields other than"),
        "{refused}"
    );
    cluster.kubectl(r#"-n yard patch job sweep --type=merge -p {"spec":{"suspend":false}}"#)?;
    let finished =
        cluster.kubectl("-n yard get jobs --field-selector status.successful=0 -o name")?;
    assert_eq!(finished, "job.batch/sweep\n");
    cluster.kubectl("-n yard create job by-hand --from=cronjob/patrol")?;
    cluster.kubectl("-n yard autoscale statefulset crane --min=1 --max=2 --name=auto")?;
    let old = cluster.kubectl(
        r"-n yard get horizontalpodautoscalers.v1.autoscaling crane -o jsonpath={.metadata.annotations.autoscaling\.alpha\.kubernetes\.io/metrics}",
    )?;
    ensure!(old.contains("lifts"), "{old:?}");

    for object in OBJECTS {
        let deleted = cluster.kubectl(&format!("-n yard delete {object} --timeout=60s"))?;
        ensure!(deleted.contains("deleted"), "{object}: {deleted}");
        let gone = cluster.try_kubectl(&format!("-n yard get {object}"))?;
        ensure!(gone.refused()?.contains("not found"), "{object} is left");
    }
    cluster.kubectl("delete namespace yard --timeout=60s")?;
    Ok(())
}

#[test]
fn a_drain_waits_for_the_pods_budget() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("create deployment web --image=nginx --replicas=1")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    cluster.kubectl("create poddisruptionbudget web --selector=app=web --min-available=1")?;
    let allow = |disruptions: u32| {
        let status = format!(
            r#"{{"status":{{"observedGeneration":1,"disruptionsAllowed":{disruptions},"currentHealthy":1,"desiredHealthy":1,"expectedPods":1}}}}"#
        );
        cluster.kubectl(&format!(
            "patch pdb web --subresource=status --type=merge -p {status}"
        ))
    };
    allow(0)?;
    let node = cluster.kubectl("get pods -l app=web -o jsonpath={.items[0].spec.nodeName}")?;
    let refused = cluster
        .try_kubectl(&format!("drain {node} --timeout=2s"))?
        .refused()?;
    ensure!(
        refused.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{refused}"
    );
    allow(1)?;
    let drained = cluster.kubectl(&format!("drain {node} --timeout=60s"))?;
    ensure!(
        drained.contains(&format!("node/{node} drained")),
        "{drained}"
    );
    let left = cluster.kubectl("get pdb web -o jsonpath={.status.disruptionsAllowed}")?;
    assert_eq!(left, "0");
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    let moved = cluster.kubectl("get pods -l app=web -o jsonpath={.items[0].spec.nodeName}")?;
    ensure!(moved != node, "the new pod is on the drained node");
    Ok(())
}
