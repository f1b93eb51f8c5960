use pilothouse_sdk::{
    Value,
    admission::Operation,
    cluster::resources::PODS,
    testing::{FakeCluster, admission_request, mutated},
};

use super::*;

fn account(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name, "namespace": "default" } })
}

fn pod(spec: Value) -> Value {
    json!({ "kind": "Pod", "metadata": { "name": "web", "namespace": "default" }, "spec": spec })
}

fn cluster_with(accounts: &[Value]) -> FakeCluster {
    let cluster = FakeCluster::new();
    for account in accounts {
        cluster.add(&SERVICE_ACCOUNTS, account.clone());
    }
    cluster
}

fn created(cluster: &FakeCluster, pod: &Value) -> Result<Value, Denial> {
    let request = admission_request(&PODS, Operation::Create, pod);
    let mutation = ServiceAccountPlugin.mutate(cluster, &request)?;
    Ok(mutated(pod, Ok(mutation)))
}

fn validated(cluster: &FakeCluster, pod: &Value) -> Result<Vec<String>, Denial> {
    ServiceAccountPlugin.validate(cluster, &admission_request(&PODS, Operation::Create, pod))
}

#[test]
fn a_pod_gets_the_default_account_with_its_token_in_every_container() {
    let cluster = cluster_with(&[account("default")]);
    let before = pod(json!({
        "initContainers": [{ "name": "init" }],
        "containers": [
            { "name": "a", "volumeMounts": [{ "name": "x", "mountPath": "/x" }] },
            { "name": "b", "volumeMounts": [{ "name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" }] },
        ],
        "volumes": [{ "name": "x", "emptyDir": {} }],
    }));
    let after = created(&cluster, &before).unwrap();
    let spec = &after["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    let volume = &spec["volumes"][1];
    let name = volume["name"].as_str().unwrap();
    assert!(
        name.starts_with("kube-api-access-") && name.len() == "kube-api-access-".len() + 5,
        "{name}"
    );
    assert_eq!(volume["projected"]["defaultMode"], 420);
    let sources = &volume["projected"]["sources"];
    assert_eq!(
        sources[0]["serviceAccountToken"],
        json!({ "expirationSeconds": 3607, "path": "token" })
    );
    assert_eq!(sources[1]["configMap"]["name"], "kube-root-ca.crt");
    assert_eq!(
        sources[2]["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"],
        "metadata.namespace"
    );
    let mount = json!({ "name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" });
    assert_eq!(spec["initContainers"][0]["volumeMounts"], json!([mount]));
    assert_eq!(spec["containers"][0]["volumeMounts"][1], mount);
    assert_eq!(
        spec["containers"][1]["volumeMounts"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(created(&cluster, &after).unwrap(), after);
    assert!(validated(&cluster, &after).is_ok());
}

#[test]
fn pod_then_account_say_whether_the_token_is_mounted() {
    let mut shy = account("shy");
    shy["automountServiceAccountToken"] = false.into();
    let cluster = cluster_with(&[account("default"), shy]);
    // account, the pod's own wish, mounted
    let cases = [
        ("default", json!(null), true),
        ("default", json!(false), false),
        ("shy", json!(null), false),
        ("shy", json!(true), true),
    ];
    for (name, wish, expected) in cases {
        let pod = pod(json!({
            "serviceAccountName": name, "automountServiceAccountToken": wish, "containers": [{ "name": "a" }],
        }));
        let after = created(&cluster, &pod).unwrap();
        assert_eq!(
            after["spec"]["volumes"].is_array(),
            expected,
            "{name} {wish}"
        );
    }
}

#[test]
fn a_missing_account_is_forbidden_and_the_default_one_is_waited_for() {
    host::fake::reset();
    let cluster = cluster_with(&[]);
    let refused = created(&cluster, &pod(json!({ "serviceAccountName": "ghost" }))).unwrap_err();
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message,
        "pods \"web\" is forbidden: error looking up service account default/ghost: serviceaccount \"ghost\" not found"
    );
    assert_eq!(host::now_ms(), 0);
    assert!(created(&cluster, &pod(json!({}))).is_err());
    assert_eq!(host::now_ms(), 900);
}

#[test]
fn image_pull_secrets_come_from_the_account_unless_the_pod_has_its_own() {
    let mut puller = account("default");
    puller["imagePullSecrets"] = json!([{ "name": "registry" }]);
    let cluster = cluster_with(&[puller]);
    let after = created(&cluster, &pod(json!({}))).unwrap();
    assert_eq!(
        after["spec"]["imagePullSecrets"],
        json!([{ "name": "registry" }])
    );
    let own = json!([{ "name": "mine" }]);
    let after = created(&cluster, &pod(json!({ "imagePullSecrets": own }))).unwrap();
    assert_eq!(after["spec"]["imagePullSecrets"], own);
}

#[test]
fn the_old_field_names_the_account_too() {
    let cluster = cluster_with(&[account("builder")]);
    let after = created(&cluster, &pod(json!({ "serviceAccount": "builder" }))).unwrap();
    assert_eq!(after["spec"]["serviceAccountName"], "builder");
}

#[test]
fn mirror_pods_are_left_alone_and_refer_to_nothing() {
    let cluster = cluster_with(&[]);
    let mirror = |spec: Value| {
        let mut pod = pod(spec);
        pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "hash" });
        pod
    };
    let plain = mirror(json!({ "containers": [{ "name": "a" }] }));
    assert_eq!(created(&cluster, &plain).unwrap(), plain);
    assert!(validated(&cluster, &plain).is_ok());
    let cases = [
        (
            json!({ "serviceAccountName": "default" }),
            "service accounts",
        ),
        (
            json!({ "volumes": [{ "name": "s", "secret": { "secretName": "s" } }] }),
            "secrets",
        ),
        (
            json!({ "containers": [{ "name": "a", "env": [{ "name": "X", "valueFrom": { "secretKeyRef": { "name": "s" } } }] }] }),
            "secrets",
        ),
        (
            json!({ "volumes": [{ "name": "t", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } }] }),
            "ServiceAccountToken volume projections",
        ),
    ];
    for (spec, expected) in cases {
        let refused = validated(&cluster, &mirror(spec)).unwrap_err();
        assert!(refused.message.ends_with(expected), "{}", refused.message);
    }
}

#[test]
fn an_account_can_limit_the_secrets_of_its_pods() {
    let mut strict = account("strict");
    strict["metadata"]["annotations"] =
        json!({ "kubernetes.io/enforce-mountable-secrets": "true" });
    strict["secrets"] = json!([{ "name": "allowed" }]);
    let cluster = cluster_with(&[strict]);
    let with = |volumes: Value| pod(json!({ "serviceAccountName": "strict", "volumes": volumes }));
    let secret = |name: &str| json!([{ "name": "s", "secret": { "secretName": name } }]);
    assert!(validated(&cluster, &with(secret("allowed"))).is_ok());
    let refused = validated(&cluster, &with(secret("other"))).unwrap_err();
    assert!(
        refused
            .message
            .contains("secret.secretName=\"other\" is not allowed because service account strict")
    );
}
