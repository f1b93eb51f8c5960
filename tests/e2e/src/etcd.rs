//! A real etcd of one node for a test.

use std::{net::TcpListener, process::Command};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::process::{Process, tool};

/// A running etcd; dropping it ends it.
pub struct Etcd {
    pub endpoint: String,
    _process: Process,
    _directory: TempDir,
}

impl Etcd {
    /// What etcdctl prints for these words; it must succeed.
    pub fn etcdctl(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(tool("etcdctl")?);
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.endpoint])
            .args(words);
        let output = command
            .output()
            .with_context(|| format!("cannot start {command:?}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?} failed: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts etcd on free ports and waits until it serves.
    pub fn start() -> Result<Self> {
        let directory = TempDir::with_prefix("pilothouse-etcd")?;
        let endpoint = format!("http://127.0.0.1:{}", free_port()?);
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let process = Process::start(
            Command::new(tool("etcd")?)
                .args(["--name", "test", "--unsafe-no-fsync", "--logger", "zap"])
                .arg("--data-dir")
                .arg(directory.path())
                .args([
                    "--listen-client-urls",
                    &endpoint,
                    "--advertise-client-urls",
                    &endpoint,
                ])
                .args([
                    "--listen-peer-urls",
                    &peer,
                    "--initial-advertise-peer-urls",
                    &peer,
                ])
                .args(["--initial-cluster", &format!("test={peer}")]),
        )?;
        process.wait_for_line("ready to serve client requests")?;
        Ok(Self {
            endpoint,
            _process: process,
            _directory: directory,
        })
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
