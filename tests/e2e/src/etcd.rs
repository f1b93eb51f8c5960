//! A real etcd for a test: of one member, or of three that can be killed one by one.

use std::{
    net::TcpListener,
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::process::{Process, tool};

/// A running etcd; dropping it ends it.
pub struct Etcd {
    members: Vec<Member>,
    directory: TempDir,
}

struct Member {
    name: String,
    client: String,
    peer: String,
    process: Option<Process>,
}

impl Etcd {
    /// What etcdctl prints for these words; it must succeed.
    pub fn etcdctl(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(tool("etcdctl")?);
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.endpoints()])
            .args(words);
        let output = command
            .output()
            .with_context(|| format!("cannot start {command:?}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?} failed: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts an etcd of one member and waits until it serves.
    pub fn start() -> Result<Self> {
        Self::of(1)
    }

    /// Starts an etcd of so many members and waits until it serves.
    pub fn of(members: usize) -> Result<Self> {
        let member = |n: usize| -> Result<Member> {
            Ok(Member {
                name: format!("m{n}"),
                client: own_url()?,
                peer: own_url()?,
                process: None,
            })
        };
        let mut etcd = Self {
            members: (0..members).map(member).collect::<Result<_>>()?,
            directory: TempDir::with_prefix("pilothouse-etcd")?,
        };
        let initial = etcd.initial_cluster();
        for member in &mut etcd.members {
            member.start(etcd.directory.path(), &initial)?;
        }
        etcd.serves()?;
        Ok(etcd)
    }

    /// Waits until every member that was started serves.
    pub fn serves(&self) -> Result<()> {
        self.members.iter().try_for_each(Member::serves)
    }

    /// The URLs of all members, separated by commas.
    pub fn endpoints(&self) -> String {
        let urls: Vec<&str> = self.members.iter().map(|m| m.client.as_str()).collect();
        urls.join(",")
    }

    /// Kills a member.
    pub fn kill(&mut self, member: usize) {
        self.members[member].process = None;
    }

    /// Starts a member again on the data it had.
    pub fn restart(&mut self, member: usize) -> Result<()> {
        self.restart_later(member)?;
        self.members[member].serves()
    }

    /// The same without waiting, for members that are needed for a majority.
    pub fn restart_later(&mut self, member: usize) -> Result<()> {
        let initial = self.initial_cluster();
        self.members[member].start(self.directory.path(), &initial)
    }

    fn initial_cluster(&self) -> String {
        let members = self.members.iter();
        let members: Vec<String> = members.map(|m| format!("{}={}", m.name, m.peer)).collect();
        members.join(",")
    }
}

impl Member {
    fn start(&mut self, directory: &Path, initial_cluster: &str) -> Result<()> {
        let mut command = Command::new(tool("etcd")?);
        command
            .args(["--name", &self.name, "--unsafe-no-fsync", "--logger", "zap"])
            .arg("--data-dir")
            .arg(directory.join(&self.name))
            .args(["--listen-client-urls", &self.client])
            .args(["--advertise-client-urls", &self.client])
            .args(["--listen-peer-urls", &self.peer])
            .args(["--initial-advertise-peer-urls", &self.peer])
            .args(["--initial-cluster", initial_cluster])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
        self.process = Some(Process::start(&mut command)?);
        Ok(())
    }

    fn serves(&self) -> Result<()> {
        if let Some(process) = &self.process {
            process.wait_for_line("ready to serve client requests")?;
        }
        Ok(())
    }
}

/// A URL that nobody else uses, also while the member is away: on Linux, which answers to all of 127.0.0.0/8, a host of its own,
/// for a port of 127.0.0.1 may be taken meanwhile, as a client's end of a connection for one.
pub fn own_url() -> Result<String> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let process = std::process::id() as usize;
    let host = match cfg!(target_os = "linux") {
        true => {
            let nth = NEXT.fetch_add(1, Ordering::Relaxed);
            let [a, b, c] = [process / 254, process, nth].map(|n| n % 254 + 1);
            format!("127.{a}.{b}.{c}")
        }
        false => "127.0.0.1".to_owned(),
    };
    let port = TcpListener::bind((host.as_str(), 0))?.local_addr()?.port();
    Ok(format!("http://{host}:{port}"))
}
