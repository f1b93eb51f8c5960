//! From a manifest to running pods, and what kubectl shows of it.

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions, root};

fn applies_a_directory_of_manifests(options: ClusterOptions) -> Result<()> {
    let cluster = Cluster::start_with(options)?;
    let manifests = root().join("tests/fixtures/shop").display().to_string();
    let applied = cluster.kubectl_words(&["apply", "-f", &manifests])?;
    for line in [
        "namespace/shop created",
        "configmap/settings created",
        "secret/credentials created",
        "serviceaccount/shopkeeper created",
        "service/front created",
        "deployment.apps/front created",
        "pod/lone created",
    ] {
        ensure!(applied.contains(line), "{line:?} is missing in:\n{applied}");
    }
    cluster.kubectl("-n shop rollout status deployment/front --timeout=60s")?;
    cluster.kubectl("-n shop wait --for=condition=Ready pod --all --timeout=60s")?;

    let node =
        cluster.kubectl("-n shop get pod lone -o jsonpath={.spec.nodeName}/{.status.phase}")?;
    assert_eq!(node, "node-1/Running");
    let account = cluster
        .kubectl("-n shop get pods -l app=front -o jsonpath={.items[*].spec.serviceAccountName}")?;
    assert_eq!(account, "shopkeeper shopkeeper shopkeeper shopkeeper");
    let password =
        cluster.kubectl("-n shop get secret credentials -o jsonpath={.data.password}")?;
    assert_eq!(password, "Y29ycmVjdC1ob3JzZQ==");

    let ready = "jsonpath={.items[*].endpoints[*].conditions.ready}";
    cluster.kubectl("-n shop wait endpointslice -l kubernetes.io/service-name=front --for=jsonpath={.endpoints[3].conditions.ready}=true --timeout=30s")?;
    let slices = cluster.kubectl(&format!(
        "-n shop get endpointslice -l kubernetes.io/service-name=front -o {ready}"
    ))?;
    assert_eq!(slices, "true true true true");

    // The Secret's stringData is never returned and the Pod's tolerations get company: kubectl sends these two again.
    let again = cluster.kubectl_words(&["apply", "-f", &manifests])?;
    for line in [
        "namespace/shop unchanged",
        "configmap/settings unchanged",
        "serviceaccount/shopkeeper unchanged",
        "service/front unchanged",
        "deployment.apps/front unchanged",
    ] {
        ensure!(again.contains(line), "{line:?} is missing in:\n{again}");
    }

    cluster.kubectl("delete namespace shop --timeout=60s")?;
    let gone = cluster.try_kubectl("get namespace shop")?.refused()?;
    ensure!(gone.contains("namespaces \"shop\" not found"), "{gone}");
    Ok(())
}

#[test]
fn a_directory_of_manifests_on_the_embedded_engine() -> Result<()> {
    applies_a_directory_of_manifests(ClusterOptions::default())
}

#[test]
fn a_directory_of_manifests_on_etcd() -> Result<()> {
    applies_a_directory_of_manifests(ClusterOptions {
        etcd: true,
        ..ClusterOptions::default()
    })
}

#[test]
fn a_deployment_scales_rolls_out_and_rolls_back() -> Result<()> {
    let cluster = Cluster::start()?;
    let created = cluster.kubectl("create deployment web --image=nginx --replicas=5")?;
    assert_eq!(created.trim(), "deployment.apps/web created");
    let rolled = cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    ensure!(rolled.contains("successfully rolled out"), "{rolled}");

    cluster.kubectl("scale deployment web --replicas=7")?;
    cluster
        .kubectl("wait deployment/web --for=jsonpath={.status.readyReplicas}=7 --timeout=60s")?;
    cluster.kubectl("scale deployment web --replicas=2")?;
    cluster.kubectl("wait deployment/web --for=jsonpath={.status.replicas}=2 --timeout=60s")?;

    cluster.kubectl("set image deployment/web nginx=nginx:1.27")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    let image = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(cluster.kubectl(image)?, "nginx:1.27");
    let sets =
        cluster.kubectl("get replicasets -l app=web -o jsonpath={.items[*].status.replicas}")?;
    let mut counts: Vec<&str> = sets.split(' ').collect();
    counts.sort_unstable();
    assert_eq!(counts, ["0", "2"]);

    let history = cluster.kubectl("rollout history deployment/web")?;
    ensure!(
        history.contains("1 ") && history.contains("2 "),
        "{history}"
    );
    cluster.kubectl("rollout undo deployment/web")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    assert_eq!(cluster.kubectl(image)?, "nginx");

    cluster.kubectl("rollout pause deployment/web")?;
    cluster.kubectl("set image deployment/web nginx=nginx:1.28")?;
    let paused = cluster.kubectl("get deployment web -o jsonpath={.spec.paused}")?;
    assert_eq!(paused, "true");
    cluster.kubectl("rollout resume deployment/web")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    cluster.kubectl("rollout restart deployment/web")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;

    cluster.kubectl("delete deployment web --timeout=60s")?;
    cluster.kubectl("wait pod -l app=web --for=delete --timeout=60s")?;
    let left = cluster.kubectl("get replicasets,pods -l app=web -o name")?;
    assert_eq!(left, "", "the garbage collector left dependents");
    Ok(())
}

#[test]
fn an_orphaning_delete_leaves_the_pods_and_a_new_owner_adopts_them() -> Result<()> {
    let cluster = Cluster::start()?;
    cluster.kubectl("create deployment web --image=nginx --replicas=2")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    cluster.kubectl("delete deployment web --cascade=orphan --timeout=60s")?;
    let owners = cluster
        .kubectl("get replicasets -l app=web -o jsonpath={.items[*].metadata.ownerReferences}")?;
    assert_eq!(owners, "");
    let before = cluster.kubectl("get pods -l app=web -o name")?;
    assert_eq!(before.lines().count(), 2);

    cluster.kubectl("create deployment web --image=nginx --replicas=2")?;
    cluster.kubectl("rollout status deployment/web --timeout=60s")?;
    assert_eq!(
        cluster.kubectl("get pods -l app=web -o name")?,
        before,
        "the pods were not adopted"
    );

    cluster.kubectl("delete deployment web --cascade=foreground --timeout=60s")?;
    assert_eq!(
        cluster.kubectl("get replicasets,pods -l app=web -o name")?,
        ""
    );
    Ok(())
}

#[test]
fn a_pod_that_fits_nowhere_says_why() -> Result<()> {
    let cluster = Cluster::start()?;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"huge"},"spec":{"containers":[
        {"name":"c","image":"i","resources":{"requests":{"cpu":"1000"}}}]}}"#;
    cluster.kubectl_with_input("create -f -", pod)?.ok()?;
    cluster.kubectl(
        "wait pod/huge --for=jsonpath={.status.conditions[0].reason}=Unschedulable --timeout=60s",
    )?;
    let message = cluster.kubectl("get pod huge -o jsonpath={.status.conditions[0].message}")?;
    ensure!(
        message.starts_with("0/3 nodes are available: 3 Insufficient cpu."),
        "{message}"
    );
    cluster.kubectl("wait events --for=jsonpath={.reason}=FailedScheduling --field-selector reason=FailedScheduling --timeout=30s")?;
    let described = cluster.kubectl("describe pod huge")?;
    ensure!(described.contains("FailedScheduling"), "{described}");

    cluster.kubectl("taint nodes --all dedicated=shop:NoSchedule")?;
    cluster.kubectl("run small --image=nginx")?;
    cluster.kubectl(
        "wait pod/small --for=jsonpath={.status.conditions[0].reason}=Unschedulable --timeout=60s",
    )?;
    let message = cluster.kubectl("get pod small -o jsonpath={.status.conditions[0].message}")?;
    ensure!(
        message.starts_with("0/3 nodes are available: 3 node(s) had untolerated taint"),
        "{message}"
    );
    cluster.kubectl("taint nodes node-2 dedicated-")?;
    cluster.kubectl("wait pod/small --for=condition=Ready --timeout=60s")?;
    assert_eq!(
        cluster.kubectl("get pod small -o jsonpath={.spec.nodeName}")?,
        "node-2"
    );
    Ok(())
}

#[test]
fn a_pod_that_never_restarts_succeeds() -> Result<()> {
    let cluster = Cluster::start()?;
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"once","annotations":{"pilothouse.dev/run-seconds":"1"}},
        "spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}"#;
    cluster.kubectl_with_input("create -f -", pod)?.ok()?;
    cluster.kubectl("wait pod/once --for=jsonpath={.status.phase}=Succeeded --timeout=60s")?;
    let shown = cluster.kubectl("get pod once --no-headers")?;
    ensure!(
        shown.contains("0/1") && shown.contains("Completed"),
        "{shown}"
    );
    Ok(())
}
