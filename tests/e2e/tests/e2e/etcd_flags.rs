//! The flags that say who to be in etcd and how much of its history to keep.

use std::fs;

use anyhow::{Result, bail, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions, Etcd, pilothouse_command};
use tempfile::TempDir;

const ROOT: [&str; 2] = ["--user", "root:rootly"];

fn as_root(etcd: &Etcd, words: &[&str]) -> Result<String> {
    etcd.etcdctl(&[&ROOT, words].concat())
}

/// An etcd that lets in who has a password. The watch of all keys that old versions of it need takes a permission for all.
fn etcd_with_users() -> Result<Etcd> {
    let etcd = Etcd::start()?;
    for words in [
        &["user", "add", "root:rootly"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "cluster:pass word"],
        &["role", "add", "cluster"],
        &[
            "role",
            "grant-permission",
            "--prefix",
            "cluster",
            "readwrite",
            "",
        ],
        &["user", "grant-role", "cluster", "cluster"],
        &["auth", "enable"],
    ] {
        etcd.etcdctl(words)?;
    }
    Ok(etcd)
}

#[test]
fn a_user_of_etcd_has_a_password_file() -> Result<()> {
    let etcd = etcd_with_users()?;
    let folder = TempDir::with_prefix("pilothouse-etcd-user")?;
    let file = |name: &str, password: &str| -> Result<String> {
        let path = folder.path().join(name);
        fs::write(&path, password)?;
        Ok(path.display().to_string())
    };
    let flags = |password_file: String| -> Vec<String> {
        let servers = etcd.endpoints();
        let flags = ["--etcd-servers", &servers, "--etcd-username", "cluster"];
        let mut flags = flags.map(str::to_owned).to_vec();
        flags.extend(["--etcd-password-file".to_owned(), password_file]);
        flags
    };
    let refused = |flags: &[String]| -> Result<String> {
        let data = TempDir::with_prefix("pilothouse")?;
        let output = pilothouse_command()?
            .args(["apiserver", "--secure-port", "0", "--data-dir"])
            .arg(data.path().join("data"))
            .args(flags)
            .output()?;
        ensure!(!output.status.success(), "started with {flags:?}");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let wrong = refused(&flags(file("wrong", "guessed")?))?;
    ensure!(wrong.contains("authentication failed"), "{wrong}");
    let missing = refused(&flags(folder.path().join("none").display().to_string()))?;
    ensure!(
        missing.contains("reading the password of etcd"),
        "{missing}"
    );
    let nobody = refused(&flags(String::new())[..2])?;
    ensure!(nobody.contains("user name is empty"), "{nobody}");

    let cluster = Cluster::start_with(ClusterOptions {
        role: "apiserver",
        flags: flags(file("right", "pass word\n")?),
        ..ClusterOptions::default()
    })?;
    cluster.kubectl("create configmap kept --from-literal=key=value")?;
    assert_eq!(
        cluster.kubectl("get configmap kept -o jsonpath={.data.key}")?,
        "value"
    );
    let stored = as_root(&etcd, &["get", "/registry/configmaps/default/kept"])?;
    ensure!(stored.contains(r#""key":"value""#), "{stored}");
    Ok(())
}

#[test]
fn etcds_history_is_compacted_as_often_as_the_flag_says() -> Result<()> {
    const ATTEMPTS: usize = 2000;
    let etcd = Etcd::start()?;
    let server = |interval: &str| {
        let servers = etcd.endpoints();
        let flags = [
            "--etcd-servers",
            &servers,
            "--etcd-compaction-interval",
            interval,
        ];
        Cluster::start_with(ClusterOptions {
            role: "apiserver",
            flags: flags.map(str::to_owned).to_vec(),
            ..ClusterOptions::default()
        })
    };
    let key = "/registry/configmaps/default/old";
    let never = server("0s")?;
    never.kubectl("create configmap old --from-literal=n=1")?;
    let version = never.kubectl("get configmap old -o jsonpath={.metadata.resourceVersion}")?;
    never.kubectl("delete configmap old")?;
    let revision = format!("--rev={version}");
    let past = || etcd.etcdctl(&["get", key, &revision]);
    ensure!(past()?.contains(r#""n":"1""#), "the past can be read");
    assert_eq!(
        etcd.etcdctl(&["get", "compact_rev_key"])?,
        "",
        "nobody compacts"
    );
    drop(never);

    let often = server("1s")?;
    for _ in 0..ATTEMPTS {
        if let Err(error) = past() {
            let error = error.to_string();
            ensure!(error.contains("has been compacted"), "{error}");
            let agreed = etcd.etcdctl(&["get", "compact_rev_key", "--print-value-only"])?;
            let (agreed, version): (u64, u64) = (agreed.trim().parse()?, version.parse()?);
            ensure!(
                agreed > version,
                "compacted to {agreed}, but {version} is gone"
            );
            often.kubectl("create configmap new")?;
            return Ok(());
        }
    }
    bail!("the history was not compacted")
}
