//! Two API servers, two schedulers and two controller managers on one etcd of three members: any of them may be killed.

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions, Etcd, Process, pilothouse_command, root};

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"lone"},"status":{
    "allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"capacity":{"cpu":"4","memory":"8Gi","pods":"110"}}}"#;

/// An API server on the etcd, reached by others under an address of its own.
fn api_server(etcd: &Etcd, address: &str, first: Option<&Cluster>) -> Result<Cluster> {
    let flags = [
        "--etcd-servers",
        &etcd.endpoints(),
        "--advertise-address",
        address,
    ];
    Cluster::start_with(ClusterOptions {
        role: "apiserver",
        flags: flags.map(str::to_owned).to_vec(),
        authority_of: first.map(Cluster::data_dir),
        ..ClusterOptions::default()
    })
}

/// A scheduler or controller manager for one of the servers. The leader is followed within 4 seconds.
fn role(name: &str, server: &Cluster) -> Result<Process> {
    let mut command = pilothouse_command()?;
    command
        .arg(name)
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .arg("--data-dir")
        .arg(server.home().join(name))
        .arg("--cache-dir")
        .arg(root().join("target/tmp/compiled-plugins"))
        .args(["--leader-elect-lease-duration", "4s"])
        .args(["--leader-elect-renew-deadline", "3s"])
        .args(["--leader-elect-retry-period", "500ms"]);
    let process = Process::start(&mut command)?;
    process.wait_for_line("is ready")?;
    Ok(process)
}

/// All pods are bound, and there is none too many.
fn check_pods(server: &Cluster, wanted: usize) -> Result<()> {
    let nodes = server.kubectl("get pods -o jsonpath={.items[*].spec.nodeName}")?;
    let nodes: Vec<&str> = nodes.split_whitespace().collect();
    assert_eq!(nodes, vec!["lone"; wanted]);
    Ok(())
}

#[test]
fn whoever_is_killed_the_cluster_goes_on() -> Result<()> {
    let mut etcd = Etcd::of(3)?;
    let mut one = api_server(&etcd, "192.0.2.1", None)?;
    let two = api_server(&etcd, "192.0.2.2", Some(&one))?;
    let endpoints = "get endpoints kubernetes -o jsonpath={.subsets[0].addresses[*].ip}";
    assert_eq!(two.kubectl(endpoints)?, "192.0.2.1 192.0.2.2");

    two.kubectl_with_input("create -f -", NODE)?.ok()?;
    let mut leaders = [role("controller-manager", &one)?, role("scheduler", &one)?];
    two.kubectl("create deployment web --image=nginx --replicas=3")?;
    let ready = |n: usize| {
        let bound =
            format!("wait deployment/web --for=jsonpath={{.status.replicas}}={n} --timeout=60s");
        two.kubectl(&bound)?;
        two.kubectl("wait pod -l app=web --for=jsonpath={.spec.nodeName}=lone --timeout=60s")
    };
    ready(3)?;
    let _standby = [role("controller-manager", &two)?, role("scheduler", &two)?];

    // a list here, the watch that follows it there
    let list: serde_json::Value =
        serde_json::from_str(&one.kubectl("get --raw /api/v1/namespaces/default/pods")?)?;
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned();

    etcd.kill(0);
    one.process.kill()?;
    for leader in &mut leaders {
        leader.kill()?;
    }
    two.kubectl("scale deployment web --replicas=6")?;
    ready(6)?;
    let watch = format!(
        "get --raw /api/v1/namespaces/default/pods?watch=1&resourceVersion={version}&timeoutSeconds=1"
    );
    let added = two.kubectl(&watch)?;
    let added = added
        .lines()
        .filter(|line| line.contains(r#"{"type":"ADDED""#));
    assert_eq!(
        added.count(),
        3,
        "what came after the list of a killed server"
    );

    etcd.restart(0)?;
    etcd.kill(1);
    two.kubectl("scale deployment web --replicas=8")?;
    ready(8)?;
    check_pods(&two, 8)?;
    for gone in [
        "wait endpoints/kubernetes --for=jsonpath={.subsets[0].addresses[0].ip}=192.0.2.2 --timeout=60s",
        "wait endpointslice/kubernetes --for=jsonpath={.endpoints[0].addresses[0]}=192.0.2.2 --timeout=60s",
    ] {
        two.kubectl(gone)?;
    }
    assert_eq!(two.kubectl(endpoints)?, "192.0.2.2");

    // without a majority nothing is written, and what is to blame is named
    etcd.kill(0);
    etcd.kill(2);
    let refused = two.try_kubectl("create configmap lost")?.refused()?;
    ensure!(refused.contains("etcd at http://127."), "{refused}");
    for member in 0..3 {
        etcd.restart_later(member)?;
    }
    etcd.serves()?;
    two.kubectl("create configmap kept")?;
    Ok(())
}
