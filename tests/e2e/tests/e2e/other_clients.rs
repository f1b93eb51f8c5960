//! Clients in other languages: each script does what programs with that client do and ends with an error if the server answers
//! otherwise.

use std::process::Command;

use anyhow::{Result, ensure};
use pilothouse_e2e::{Cluster, root, tools};

fn run(cluster: &Cluster, command: &mut Command) -> Result<()> {
    let output = command
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("HOME", cluster.home())
        .output()?;
    ensure!(
        output.status.success(),
        "{command:?} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[test]
fn the_python_client() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut python = Command::new("python3");
    python
        .arg(root().join("tests/fixtures/clients/everything.py"))
        .env("PYTHONPATH", tools("python", "kubernetes")?);
    run(&cluster, &mut python)
}

#[test]
fn the_javascript_client() -> Result<()> {
    let cluster = Cluster::start()?;
    let modules = tools("node/node_modules", "@kubernetes/client-node")?;
    let mut node = Command::new("node");
    node.arg(root().join("tests/fixtures/clients/everything.cjs"))
        .env("NODE_PATH", modules);
    run(&cluster, &mut node)
}
