//! kubectl's verbs on one small cluster.

use anyhow::{Result, ensure};
use pilothouse_e2e::Cluster;

#[test]
fn reads_show_what_kubernetes_shows() -> Result<()> {
    let cluster = Cluster::start()?;
    let nodes = cluster.kubectl("get nodes")?;
    let header: Vec<&str> = nodes
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(header, ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    cluster.kubectl("wait node --all --for=condition=Ready --timeout=60s")?;
    assert_eq!(
        cluster.kubectl("get nodes -o name")?,
        "node/node-0\nnode/node-1\nnode/node-2\n"
    );

    cluster.kubectl("run web --image=nginx --labels=app=web --port=80")?;
    cluster.kubectl("wait pod/web --for=condition=Ready --timeout=60s")?;
    let wide = cluster.kubectl("get pods -o wide")?;
    let header: Vec<&str> = wide
        .lines()
        .next()
        .unwrap_or_default()
        .split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect();
    assert_eq!(
        header,
        [
            "NAME",
            "READY",
            "STATUS",
            "RESTARTS",
            "AGE",
            "IP",
            "NODE",
            "NOMINATED NODE",
            "READINESS GATES"
        ]
    );
    ensure!(wide.contains("1/1") && wide.contains("Running"), "{wide}");

    let described = cluster.kubectl("describe pod web")?;
    for text in [
        "Successfully assigned default/web to node-",
        "Status:",
        "Running",
        "QoS Class:",
        "BestEffort",
    ] {
        ensure!(
            described.contains(text),
            "{text:?} is missing in:\n{described}"
        );
    }
    let events = cluster.kubectl("get events --field-selector reason=Scheduled")?;
    ensure!(
        events.contains("Successfully assigned default/web"),
        "{events}"
    );
    ensure!(
        cluster
            .kubectl("describe node node-0")?
            .contains("Allocatable:")
    );

    let explained = cluster.kubectl("explain pod.spec.containers")?;
    for text in ["KIND:", "Pod", "FIELD: containers", "imagePullPolicy"] {
        ensure!(
            explained.contains(text),
            "{text:?} is missing in:\n{explained}"
        );
    }
    let resources = cluster.kubectl("api-resources")?;
    for line in [
        "deployments",
        "po ",
        "svc ",
        "plugins.pilothouse.dev/v1alpha1",
        "events.k8s.io/v1",
    ] {
        ensure!(
            resources.contains(line),
            "{line:?} is missing in:\n{resources}"
        );
    }
    ensure!(cluster.kubectl("api-versions")?.contains("apps/v1\n"));
    assert_eq!(cluster.kubectl("get --raw /readyz")?, "ok");
    ensure!(
        cluster
            .kubectl("get --raw /readyz?verbose")?
            .contains("readyz check passed")
    );
    ensure!(
        cluster
            .kubectl("version")?
            .contains("Server Version: v1.36")
    );
    ensure!(cluster.kubectl("cluster-info")?.contains("is running at"));
    ensure!(
        cluster
            .kubectl("get all -A")?
            .contains("service/kubernetes")
    );
    ensure!(
        cluster
            .kubectl("get --raw /metrics")?
            .contains("apiserver_request_total")
    );
    Ok(())
}

#[test]
fn labels_annotations_edits_and_patches() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl(
        "create configmap settings --from-literal=colour=blue --from-literal=size=small",
    )?;
    cluster.kubectl("label configmap settings tier=front")?;
    cluster.kubectl("annotate configmap settings note=hello")?;
    assert_eq!(
        cluster.kubectl("get configmaps -l tier=front -o name")?,
        "configmap/settings\n"
    );
    assert_eq!(
        cluster.kubectl("get configmaps -l tier!=front,colour -o name")?,
        ""
    );
    let refused = cluster
        .try_kubectl("label configmap settings tier=back")?
        .refused()?;
    ensure!(refused.contains("already has a value (front)"), "{refused}");
    cluster.kubectl("label configmap settings tier-")?;

    let data = "get configmap settings -o jsonpath={.data}";
    cluster.kubectl_words(&[
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"size":null,"shape":"round"}}"#,
    ])?;
    assert_eq!(
        cluster.kubectl(data)?,
        r#"{"colour":"blue","shape":"round"}"#
    );
    let json_patch = r#"[{"op":"test","path":"/data/colour","value":"blue"},{"op":"replace","path":"/data/colour","value":"red"}]"#;
    cluster.kubectl_words(&[
        "patch",
        "configmap",
        "settings",
        "--type=json",
        "-p",
        json_patch,
    ])?;
    assert_eq!(
        cluster.kubectl(data)?,
        r#"{"colour":"red","shape":"round"}"#
    );
    let failed = cluster.client(
        "kubectl",
        &[
            "patch",
            "configmap",
            "settings",
            "--type=json",
            "-p",
            json_patch,
        ],
        "",
        &[],
    )?;
    ensure!(
        failed
            .refused()?
            .contains("the server rejected our request")
    );

    cluster.kubectl("create deployment web --image=nginx --replicas=1")?;
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"},{"name":"nginx","image":"nginx:2"}]}}}}"#;
    cluster.kubectl_words(&["patch", "deployment", "web", "-p", strategic])?;
    let images = cluster
        .kubectl("get deployment web -o jsonpath={.spec.template.spec.containers[*].image}")?;
    let mut images: Vec<&str> = images.split(' ').collect();
    images.sort_unstable();
    assert_eq!(
        images,
        ["busybox", "nginx:2"],
        "the strategic merge patch did not merge by name"
    );

    let edit = [("EDITOR", "sed -i s/round/square/")];
    cluster
        .client("kubectl", &["edit", "configmap", "settings"], "", &edit)?
        .ok()?;
    assert_eq!(
        cluster.kubectl(data)?,
        r#"{"colour":"red","shape":"square"}"#
    );

    let replaced = cluster
        .kubectl("get configmap settings -o json")?
        .replace("square", "oval");
    cluster
        .kubectl_with_input("replace -f -", &replaced)?
        .ok()?;
    let stale = cluster
        .kubectl_with_input("replace -f -", &replaced.replace("oval", "flat"))?
        .refused()?;
    ensure!(
        stale.contains(
            "the object has been modified; please apply your changes to the latest version"
        ),
        "{stale}"
    );

    cluster.kubectl("delete configmap settings")?;
    let gone = cluster
        .try_kubectl("delete configmap settings")?
        .refused()?;
    ensure!(
        gone.contains(r#"Error from server (NotFound): configmaps "settings" not found"#),
        "{gone}"
    );
    Ok(())
}

#[test]
fn watches_follow_a_pod_to_running() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("create deployment web --image=nginx --replicas=3")?;
    cluster.kubectl("wait deployment/web --for=condition=Available --timeout=60s")?;
    let watched = cluster.kubectl("get pods -l app=web -w --request-timeout=2s -o name")?;
    assert_eq!(
        watched
            .lines()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        3,
        "{watched}"
    );
    Ok(())
}

#[test]
fn eviction_drain_and_cordon() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("create deployment web --image=nginx --replicas=6")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    cluster.kubectl("drain node-0 --force --ignore-daemonsets --timeout=90s")?;
    let shown = cluster.kubectl("get node node-0 --no-headers")?;
    ensure!(shown.contains("Ready,SchedulingDisabled"), "{shown}");
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    assert_eq!(
        cluster.kubectl("get pods --field-selector spec.nodeName=node-0 -o name")?,
        ""
    );
    cluster.kubectl("uncordon node-0")?;
    Ok(())
}
