//! Server-side apply as kubectl and the kube crate use it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use pilothouse_e2e::{Cluster, ClusterOptions};
use serde_json::{Value, json};

use crate::bad_input::administrator;

/// The API server alone: nothing else writes.
fn api_server() -> Result<Cluster> {
    Cluster::start_with(ClusterOptions {
        role: "apiserver",
        ..ClusterOptions::default()
    })
}

fn map(data: &[(&str, &str)]) -> String {
    let data: BTreeMap<&str, &str> = data.iter().copied().collect();
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
        .to_string()
}

/// `<manager> <operation>[ <subresource>]` of an object.
fn owners(cluster: &Cluster, object: &str) -> Result<Vec<String>> {
    let shown = cluster.kubectl(&format!("get {object} -o json --show-managed-fields"))?;
    let object: Value = serde_json::from_str(&shown)?;
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let owner = |entry: &Value| {
        let subresource = text(entry, "subresource");
        let owner = format!(
            "{} {} {subresource}",
            text(entry, "manager"),
            text(entry, "operation")
        );
        owner.trim().to_owned()
    };
    let mut owners: Vec<String> = entries.unwrap_or_default().iter().map(owner).collect();
    owners.sort();
    Ok(owners)
}

#[test]
fn kubectl_applies_on_the_server() -> Result<()> {
    let cluster = api_server()?;
    let apply = |flags: &str, data: &[(&str, &str)]| {
        cluster.kubectl_with_input(&format!("apply --server-side -f - {flags}"), &map(data))
    };
    let applied = apply("", &[("x", "1"), ("y", "2")])?.ok()?;
    ensure!(
        applied.contains("configmap/a serverside-applied"),
        "{applied}"
    );
    assert_eq!(owners(&cluster, "configmap a")?, ["kubectl Apply"]);
    let hidden = cluster.kubectl("get configmap a -o yaml")?;
    ensure!(!hidden.contains("managedFields"), "{hidden}");

    let version = "get configmap a -o jsonpath={.metadata.resourceVersion}";
    let before = cluster.kubectl(version)?;
    apply("", &[("x", "1"), ("y", "2")])?.ok()?;
    assert_eq!(
        cluster.kubectl(version)?,
        before,
        "an apply of the same took a revision"
    );

    let refused = apply("--field-manager=other", &[("x", "9")])?.refused()?;
    ensure!(
        refused.contains("Apply failed with 1 conflict: conflict with \"kubectl\": .data.x"),
        "{refused}"
    );
    apply("--field-manager=other --force-conflicts", &[("x", "9")])?.ok()?;
    assert_eq!(
        owners(&cluster, "configmap a")?,
        ["kubectl Apply", "other Apply"]
    );
    // kubectl owns y alone and gives it up
    apply("", &[])?.ok()?;
    assert_eq!(
        cluster.kubectl("get configmap a -o jsonpath={.data}")?,
        r#"{"x":"9"}"#
    );

    let unknown = map(&[]).replace("\"data\":{}", "\"dta\":{}");
    let refused = cluster
        .kubectl_with_input("apply --server-side --validate=false -f -", &unknown)?
        .refused()?;
    ensure!(
        refused.contains(".dta: field not declared in schema"),
        "{refused}"
    );
    Ok(())
}

#[test]
fn what_was_applied_on_the_client_goes_over_to_the_server() -> Result<()> {
    let cluster = api_server()?;
    cluster
        .kubectl_with_input("apply -f -", &map(&[("x", "1"), ("y", "2")]))?
        .ok()?;
    assert_eq!(
        owners(&cluster, "configmap a")?,
        ["kubectl-client-side-apply Update"]
    );
    // no conflict: it was kubectl's own
    cluster
        .kubectl_with_input("apply --server-side -f -", &map(&[("x", "3")]))?
        .ok()?;
    assert_eq!(
        cluster.kubectl("get configmap a -o jsonpath={.data}")?,
        r#"{"x":"3"}"#
    );
    // kubectl keeps its annotation under a name of its own
    assert_eq!(
        owners(&cluster, "configmap a")?,
        ["kubectl Apply", "kubectl-last-applied Apply"]
    );
    let last = cluster.kubectl("apply view-last-applied configmap a -o json")?;
    let last: Value = serde_json::from_str(&last)?;
    assert_eq!(last["data"], json!({ "x": "3" }));
    // and back again
    cluster
        .kubectl_with_input("apply -f -", &map(&[("z", "4")]))?
        .ok()?;
    assert_eq!(
        cluster.kubectl("get configmap a -o jsonpath={.data}")?,
        r#"{"z":"4"}"#
    );
    Ok(())
}

#[test]
fn a_diff_shows_what_an_apply_would_do() -> Result<()> {
    let cluster = api_server()?;
    let diff = |data: &[(&str, &str)], flags: &str| {
        cluster.kubectl_with_input(&format!("diff --server-side -f - {flags}"), &map(data))
    };
    let new = diff(&[("x", "1")], "")?;
    ensure!(
        !new.success && new.stdout.contains("+  x: \"1\""),
        "{new:?}"
    );
    cluster
        .kubectl("get configmap a")
        .err()
        .context("a diff created the object")?;
    cluster
        .kubectl_with_input("apply --server-side -f -", &map(&[("x", "1")]))?
        .ok()?;
    assert_eq!(diff(&[("x", "1")], "")?.ok()?, "");
    let changed = diff(&[("x", "2")], "")?;
    ensure!(
        changed.stdout.contains("-  x: \"1\"") && changed.stdout.contains("+  x: \"2\""),
        "{changed:?}"
    );
    let other = diff(&[("x", "2")], "--field-manager=other")?;
    ensure!(other.stderr.contains("conflict"), "{other:?}");
    Ok(())
}

#[tokio::test]
async fn a_rust_client_applies_shares_and_takes_over() -> Result<()> {
    let cluster = api_server()?;
    let client = administrator(&cluster).await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let config = |replicas: Option<i32>| {
        let labels = json!({ "app": "web" });
        let mut config = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "nginx", "ports": [{ "containerPort": 80 }] }] } },
            },
        });
        if let Some(replicas) = replicas {
            config["spec"]["replicas"] = json!(replicas);
        }
        config
    };
    let params = PatchParams::apply("ann");
    let created = deployments
        .patch("web", &params, &Patch::Apply(config(Some(1))))
        .await?;
    let same = deployments
        .patch("web", &params, &Patch::Apply(config(Some(1))))
        .await?;
    assert_eq!(created, same);

    cluster.kubectl("scale deployment web --replicas=3")?;
    assert_eq!(
        owners(&cluster, "deployment web")?,
        ["ann Apply", "kubectl Update scale"]
    );
    let refused = deployments
        .patch("web", &params, &Patch::Apply(config(Some(1))))
        .await;
    match refused {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, &*status.reason), (409, "Conflict"));
            let causes = status.details.context("no details")?.causes;
            let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, [".spec.replicas"]);
        }
        other => anyhow::bail!("{other:?} is no conflict"),
    }
    // who gives the field up lets the other have it
    let left = deployments
        .patch("web", &params, &Patch::Apply(config(None)))
        .await?;
    assert_eq!(left.spec.context("no spec")?.replicas, Some(3));
    let forced = deployments
        .patch(
            "web",
            &params.clone().force(),
            &Patch::Apply(config(Some(2))),
        )
        .await?;
    assert_eq!(forced.spec.context("no spec")?.replicas, Some(2));
    assert_eq!(owners(&cluster, "deployment web")?, ["ann Apply"]);

    // a sidecar of somebody else stays when the owner of the rest applies again
    let sidecar = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "template": { "spec": { "containers": [{ "name": "side", "image": "busybox" }, { "name": "main", "ports": [{ "containerPort": 80, "protocol": "TCP", "name": "http" }] }] } } },
    });
    deployments
        .patch("web", &PatchParams::apply("bob"), &Patch::Apply(sidecar))
        .await?;
    let after = deployments
        .patch("web", &params, &Patch::Apply(config(Some(2))))
        .await?;
    let pod = after
        .spec
        .and_then(|spec| spec.template.spec)
        .context("no pod")?;
    let names: Vec<&str> = pod.containers.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["side", "main"]);
    let ports = pod.containers[1].ports.as_ref().context("no ports")?;
    assert_eq!((ports.len(), ports[0].name.as_deref()), (1, Some("http")));

    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut typed = ConfigMap::default();
    typed.metadata.name = Some("typed".to_owned());
    typed.data = Some(BTreeMap::from([("k".to_owned(), "v".to_owned())]));
    let applied = maps.patch("typed", &params, &Patch::Apply(&typed)).await?;
    assert_eq!(applied.data, typed.data);
    Ok(())
}
