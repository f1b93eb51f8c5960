//! Backups of a running control plane, restoring them, and moving between the engines.

use std::{fs, path::Path, process::Output};

use anyhow::{Context, Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions, Etcd, pilothouse_command};
use tempfile::TempDir;

fn api_server(etcd: bool, flags: &[&str]) -> Result<Cluster> {
    Cluster::start_with(ClusterOptions {
        role: "apiserver",
        etcd,
        flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        ..ClusterOptions::default()
    })
}

/// What a command printed; it must succeed.
fn said(output: Output) -> Result<String> {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "failed: {out}{err}");
    Ok(out.into_owned())
}

fn refused(output: Output) -> Result<String> {
    ensure!(!output.status.success(), "should have failed");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The value of a line of `snapshot status`.
fn field<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    value.with_context(|| format!("no {name} in {text}"))
}

fn maps(cluster: &Cluster) -> Result<String> {
    cluster.kubectl("get configmaps -o jsonpath={.items[*].data.n}")
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_restored_cluster_has_the_objects_and_refuses_what_clients_knew() -> Result<()> {
    let mut cluster = api_server(false, &[])?;
    for n in 1..=3 {
        cluster.kubectl(&format!("create configmap m{n} --from-literal=n={n}"))?;
    }
    let page: serde_json::Value =
        serde_json::from_str(&cluster.kubectl(&format!("get --raw {MAPS}?limit=1"))?)?;
    let token = page["metadata"]["continue"]
        .as_str()
        .context("a continue token")?;
    let file = cluster.home().join("backup.snap");
    let path = file.display().to_string();
    let saved = said(cluster.pilothouse(&format!("snapshot save {path}"))?)?;
    let status = said(cluster.pilothouse(&format!("snapshot status {path}"))?)?;
    for name in ["hash", "revision", "keys", "size"] {
        assert_eq!(field(&saved, name)?, field(&status, name)?);
    }
    cluster.kubectl("create configmap lost --from-literal=n=4")?;
    let lost = cluster.kubectl("get configmap lost -o jsonpath={.metadata.resourceVersion}")?;
    ensure!(lost.parse::<u64>()? > field(&status, "revision")?.parse()?);
    let bystander = cluster.pilothouse(&format!("snapshot restore {path}"))?;
    ensure!(refused(bystander)?.contains("is not empty"));

    cluster.process.kill()?;
    fs::rename(
        cluster.data_dir().join("storage"),
        cluster.home().join("lost"),
    )?;
    said(cluster.pilothouse(&format!("snapshot restore {path}"))?)?;
    cluster.restart()?;
    ensure!(maps(&cluster)?.ends_with("1 2 3"), "{}", maps(&cluster)?);
    for past in [lost.as_str(), field(&status, "revision")?] {
        let watch = format!("get --raw {MAPS}?watch=true&resourceVersion={past}&timeoutSeconds=5");
        let told = cluster.kubectl(&watch)?;
        ensure!(
            told.contains(r#""type":"ERROR""#) && told.contains(r#""code":410"#),
            "{told}"
        );
    }
    let next = cluster.try_kubectl(&format!("get --raw {MAPS}?limit=1&continue={token}"))?;
    let next = next.refused()?;
    ensure!(next.contains("too old"), "{next}");
    cluster.kubectl("create configmap new --from-literal=n=5")?;
    let new = cluster.kubectl("get configmap new -o jsonpath={.metadata.resourceVersion}")?;
    ensure!(new.parse::<u64>()? > lost.parse()?);

    // nobody is using the directory: it can be saved without a server
    cluster.process.kill()?;
    let offline = said(cluster.pilothouse(&format!("snapshot save {path}"))?)?;
    ensure!(field(&offline, "revision")?.parse::<u64>()? >= new.parse()?);
    Ok(())
}

#[test]
fn on_etcd_the_file_is_etcds_own() -> Result<()> {
    let cluster = api_server(true, &[])?;
    cluster.kubectl("create configmap m1 --from-literal=n=1")?;
    let path = cluster.home().join("etcd.snap").display().to_string();
    let kubeconfig = cluster.kubeconfig();
    let save = format!("snapshot save {path} --kubeconfig {}", kubeconfig.display());
    let saved = said(cluster.pilothouse(&save)?)?;
    let etcd = cluster.etcd().context("an etcd")?;
    let theirs = etcd.etcdctl(&["snapshot", "status", &path, "--write-out", "simple"])?;
    let theirs: Vec<&str> = theirs.trim().split(", ").collect();
    assert_eq!(theirs[0], field(&saved, "hash")?);
    assert_eq!(theirs[1], field(&saved, "revision")?);
    assert_eq!(theirs[2], field(&saved, "keys")?);
    Ok(())
}

#[test]
fn snapshots_are_taken_by_the_clock_and_the_newest_kept() -> Result<()> {
    let flags = [
        "--snapshot-every",
        "1s",
        "--snapshot-keep",
        "2",
        "--log",
        "info",
    ];
    let mut cluster = api_server(false, &flags)?;
    for _ in 0..4 {
        cluster.process.wait_for_line("snapshot saved")?;
    }
    cluster.process.kill()?;
    let mut files: Vec<_> = fs::read_dir(cluster.data_dir().join("snapshots"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "snap")
    });
    ensure!((2..=3).contains(&files.len()), "{files:?}"); // it may have died before it removed one
    for file in files {
        said(cluster.pilothouse(&format!("snapshot status {}", file.display()))?)?;
    }
    Ok(())
}

#[test]
fn a_cluster_moves_to_etcd_and_back() -> Result<()> {
    let mut cluster = api_server(false, &[])?;
    for n in 1..=3 {
        cluster.kubectl(&format!("create configmap m{n} --from-literal=n={n}"))?;
    }
    let before = cluster.kubectl("get configmap m3 -o jsonpath={.metadata.resourceVersion}")?;
    let data = cluster.data_dir();
    let etcd = Etcd::start()?;
    let migrate = |from: &str, to: &str| -> Result<Output> {
        let mut command = pilothouse_command()?;
        command.args(["storage", "migrate", "--from", from, "--to", to]);
        Ok(command.output()?)
    };
    let directory = |path: &Path| path.display().to_string();
    let in_use = refused(migrate(&directory(&data), &etcd.endpoints())?)?;
    ensure!(in_use.contains("in use"), "{in_use}");

    cluster.process.interrupt()?;
    said(migrate(&directory(&data), &etcd.endpoints())?)?;
    cluster.restart_with(vec!["--etcd-servers".to_owned(), etcd.endpoints()])?;
    ensure!(maps(&cluster)?.ends_with("1 2 3"), "{}", maps(&cluster)?);
    let watch = format!("get --raw {MAPS}?watch=true&resourceVersion={before}&timeoutSeconds=5");
    let told = cluster.kubectl(&watch)?;
    ensure!(told.contains(r#""code":410"#), "{told}");
    cluster.kubectl("create configmap m4 --from-literal=n=4")?;
    let in_etcd = cluster.kubectl("get configmap m4 -o jsonpath={.metadata.resourceVersion}")?;
    ensure!(in_etcd.parse::<u64>()? > before.parse()?);
    let again = refused(migrate(&directory(&data), &etcd.endpoints())?)?;
    ensure!(again.contains("is not empty"), "{again}");

    cluster.process.interrupt()?;
    let back = TempDir::with_prefix("pilothouse-back")?;
    said(migrate(&etcd.endpoints(), &directory(back.path()))?)?;
    fs::rename(data.join("storage"), data.join("storage-before"))?;
    fs::rename(back.path().join("storage"), data.join("storage"))?;
    cluster.restart_with(Vec::new())?;
    ensure!(maps(&cluster)?.ends_with("1 2 3 4"), "{}", maps(&cluster)?);
    let kept = cluster.kubectl("get configmap m4 -o jsonpath={.metadata.resourceVersion}")?;
    assert_eq!(kept, in_etcd);
    Ok(())
}
