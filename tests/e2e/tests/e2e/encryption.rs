//! Encryption at rest: what lies on the disk, keys that come and go, a key that is missing.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use pilothouse_e2e::{Cluster, ClusterOptions};
use tempfile::TempDir;

const OLD: &str =
    "secretbox: {keys: [{name: old, secret: YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=}]}";
const NEW: &str = "aesgcm: {keys: [{name: new, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}";
/// In base64, as Secrets are kept.
const SECRET: &str = "c3dvcmRmaXNoLWluLXRoZS1ub3J0aC1zZWE=";
const OPEN: &str = "swordfish-in-the-south-sea";

/// An EncryptionConfiguration for Secrets with these providers, in a directory of its own.
struct Config(TempDir);

impl Config {
    fn new(providers: &[&str]) -> Result<Self> {
        let config = Self(TempDir::with_prefix("pilothouse-encryption")?);
        config.write(providers)?;
        Ok(config)
    }

    fn write(&self, providers: &[&str]) -> Result<()> {
        let providers: Vec<String> = providers.iter().map(|p| format!("{{{p}}}")).collect();
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: [{}]\n",
            providers.join(", ")
        );
        let written = self.0.path().join("next");
        fs::write(&written, text)?;
        Ok(fs::rename(written, self.path())?)
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("encryption.yaml")
    }

    fn flags(&self) -> Vec<String> {
        let path = self.path().display().to_string();
        vec!["--encryption-provider-config".to_owned(), path]
    }
}

/// Whether a text lies in a file below a folder.
fn lies_in(folder: &Path, text: &str) -> Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = match path.is_dir() {
            true => lies_in(&path, text)?,
            false => {
                let bytes = fs::read(&path)?;
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            }
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is kept under a Secret's key in etcd.
fn in_etcd(cluster: &Cluster, name: &str) -> Result<String> {
    let etcd = cluster.etcd().context("the data is in etcd")?;
    let key = format!("/registry/secrets/default/{name}");
    etcd.etcdctl(&["get", &key, "--print-value-only"])
}

fn version(cluster: &Cluster) -> Result<String> {
    cluster.kubectl("get secret db -o jsonpath={.metadata.resourceVersion}")
}

fn secret_and_rotation(etcd: bool) -> Result<()> {
    let config = Config::new(&[OLD])?;
    let mut cluster = Cluster::start_with(ClusterOptions {
        role: "apiserver",
        etcd,
        flags: config.flags(),
        ..ClusterOptions::default()
    })?;
    cluster
        .kubectl("create secret generic db --from-literal=password=swordfish-in-the-north-sea")?;
    cluster.kubectl(&format!("create configmap open --from-literal=key={OPEN}"))?;
    let shown = |cluster: &Cluster| cluster.kubectl("get secret db -o jsonpath={.data.password}");
    assert_eq!(shown(&cluster)?, SECRET);
    match etcd {
        true => {
            let stored = in_etcd(&cluster, "db")?;
            ensure!(stored.starts_with("k8s:enc:secretbox:v1:old:"), "{stored}");
        }
        false => {
            let data = cluster.data_dir().join("storage");
            ensure!(lies_in(&data, OPEN)?, "the test finds nothing on this disk");
            ensure!(!lies_in(&data, SECRET)?, "the secret lies open on the disk");
        }
    }

    // the old key behind a new one: what is rewritten, also without a change, is the new one's
    config.write(&[NEW, OLD])?;
    cluster.restart_with(config.flags())?;
    assert_eq!(shown(&cluster)?, SECRET);
    let before = version(&cluster)?;
    let all = cluster.kubectl("get secrets --all-namespaces -o json")?;
    cluster.kubectl_with_input("replace -f -", &all)?.ok()?;
    let rewritten = version(&cluster)?;
    ensure!(rewritten != before, "a stale value was not written again");
    if etcd {
        let stored = in_etcd(&cluster, "db")?;
        ensure!(stored.starts_with("k8s:enc:aesgcm:v1:new:"), "{stored:?}");
    }
    let all = cluster.kubectl("get secrets --all-namespaces -o json")?;
    cluster.kubectl_with_input("replace -f -", &all)?.ok()?;
    assert_eq!(
        version(&cluster)?,
        rewritten,
        "what is not stale was written"
    );

    // the old key can go
    config.write(&[NEW])?;
    cluster.restart_with(config.flags())?;
    assert_eq!(shown(&cluster)?, SECRET);

    // the new one cannot: reads say what is missing, the others go on
    config.write(&["identity: {}", OLD])?;
    cluster.restart_with(config.flags())?;
    for line in ["get secret db", "get secrets", "delete secret db"] {
        let said = cluster.try_kubectl(line)?.refused()?;
        ensure!(
            said.contains("/registry/secrets/default/db")
                && said.contains(r#"by provider aesgcm with key "new""#),
            "{line}: {said}"
        );
    }
    cluster.restart_with(Vec::new())?;
    let said = cluster.try_kubectl("get secret db")?.refused()?;
    ensure!(
        said.contains("no --encryption-provider-config is given"),
        "{said}"
    );
    assert_eq!(
        cluster.kubectl("get configmap open -o jsonpath={.data.key}")?,
        OPEN
    );
    Ok(())
}

#[test]
fn secrets_are_unreadable_on_disk_and_keys_rotate() -> Result<()> {
    secret_and_rotation(false)
}

#[test]
fn secrets_are_unreadable_in_etcd_and_keys_rotate() -> Result<()> {
    secret_and_rotation(true)
}

#[test]
fn a_changed_configuration_is_taken_over_while_serving() -> Result<()> {
    const ATTEMPTS: usize = 500;
    let config = Config::new(&[OLD])?;
    let mut flags = config.flags();
    flags.push("--encryption-provider-config-automatic-reload".to_owned());
    let cluster = Cluster::start_with(ClusterOptions {
        role: "apiserver",
        etcd: true,
        flags,
        ..ClusterOptions::default()
    })?;
    cluster.kubectl("create secret generic db --from-literal=password=x")?;
    fs::write(config.path(), "kind: nothing")?;
    cluster
        .process
        .wait_for_line("encryption at rest goes on as it was")?;
    cluster.kubectl("label secret db at=first")?;
    ensure!(in_etcd(&cluster, "db")?.starts_with("k8s:enc:secretbox:"));
    config.write(&[NEW, OLD])?;
    for attempt in 0..ATTEMPTS {
        cluster.kubectl(&format!("label secret db --overwrite at=n{attempt}"))?;
        if in_etcd(&cluster, "db")?.starts_with("k8s:enc:aesgcm:") {
            return Ok(());
        }
    }
    anyhow::bail!("the new configuration was not taken over")
}

#[test]
fn a_configuration_that_cannot_be_meant_stops_the_start() -> Result<()> {
    let cases = [
        (
            "kms: {apiVersion: v2, name: cloud, endpoint: 'unix:///kms.sock'}",
            "no client of KMS plugins. Choose aesgcm or secretbox",
        ),
        (
            "aesgcm: {keys: [{name: a, secret: c2hvcnQ=}]}",
            "expected one of [16, 24, 32]",
        ),
    ];
    for (provider, why) in cases {
        let config = Config::new(&[provider])?;
        let data = TempDir::with_prefix("pilothouse")?;
        let output = pilothouse_e2e::pilothouse_command()?
            .args(["apiserver", "--secure-port", "0", "--data-dir"])
            .arg(data.path().join("data"))
            .args(config.flags())
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success(), "started with {provider}");
        ensure!(said.contains(why), "{said}");
    }
    Ok(())
}
