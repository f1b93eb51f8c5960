//! The scheduler and the controllers as processes of their own, against an API server reached over HTTPS.

use std::process::Command;

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions, Process, pilothouse_command};

/// A `pilothouse apiserver` and nothing else, then the other roles one by one.
#[test]
fn three_processes_make_a_cluster() -> Result<()> {
    let cluster = Cluster::start_with(ClusterOptions {
        role: "apiserver",
        ..ClusterOptions::default()
    })?;
    cluster.kubectl_with_input("create -f -", NODE)?.ok()?;
    cluster.kubectl("create deployment web --image=nginx --replicas=2")?;
    assert_eq!(
        cluster.kubectl("get replicasets -o name")?,
        "",
        "no controller runs yet"
    );

    let role = |name: &str| -> Result<Process> {
        let mut command: Command = pilothouse_command()?;
        command
            .arg(name)
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig());
        command.arg("--data-dir").arg(cluster.home().join(name));
        let process = Process::start(&mut command)?;
        process.wait_for_line("is ready")?;
        Ok(process)
    };
    let mut controllers = role("controller-manager")?;
    cluster.kubectl("wait deployment/web --for=jsonpath={.status.replicas}=2 --timeout=60s")?;
    let nodes = cluster.kubectl("get pods -o jsonpath={.items[*].spec.nodeName}")?;
    assert_eq!(nodes, "", "no scheduler runs yet");

    let mut scheduler = role("scheduler")?;
    cluster.kubectl("wait pod -l app=web --for=jsonpath={.spec.nodeName}=lone --timeout=60s")?;
    let leases = cluster.kubectl("-n kube-system get leases -o name")?;
    ensure!(
        leases.contains("kube-scheduler") && leases.contains("kube-controller-manager"),
        "{leases}"
    );
    assert_eq!(
        controllers.interrupt()?,
        Some(0),
        "{}",
        controllers.output()
    );
    assert_eq!(scheduler.interrupt()?, Some(0), "{}", scheduler.output());
    Ok(())
}

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"lone"},"status":{
    "allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"capacity":{"cpu":"4","memory":"8Gi","pods":"110"}}}"#;
