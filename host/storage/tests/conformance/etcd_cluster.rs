//! Three real members of one etcd, any of which can be killed, started again, stopped in its tracks and let go on.

use std::{
    io::BufReader,
    process::{Child, Command, Stdio},
};

use etcd_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    etcd_server::{address, binary},
    loopback::{free_port, own_host},
};

const MEMBERS: usize = 3;

pub(crate) struct EtcdCluster {
    dir: TempDir,
    clients: [String; MEMBERS],
    peers: [String; MEMBERS],
    running: [Option<Child>; MEMBERS],
}

impl EtcdCluster {
    pub(crate) fn start() -> Self {
        let url = |_| {
            let host = own_host();
            format!("http://{host}:{}", free_port(&host))
        };
        let mut cluster = Self {
            dir: tempfile::tempdir().expect("temporary directory"),
            clients: std::array::from_fn(url),
            peers: std::array::from_fn(url),
            running: Default::default(),
        };
        cluster.start_all();
        cluster
    }

    /// Their URLs, this member's first.
    pub(crate) fn endpoints(&self, first: usize) -> Vec<String> {
        let member = |i| self.endpoint((first + i) % MEMBERS);
        (0..MEMBERS).map(member).collect()
    }

    pub(crate) fn endpoint(&self, member: usize) -> String {
        self.clients[member].clone()
    }

    /// Kills a member.
    pub(crate) fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.running[member].take() {
            child.kill().expect("kill etcd");
            child.wait().expect("wait for etcd");
        }
    }

    /// Starts a member on the data it had, and waits until it serves; a majority must be running.
    pub(crate) fn restart(&mut self, member: usize) {
        let mut child = self.spawn(member);
        serves(&mut child);
        self.running[member] = Some(child);
    }

    /// Starts all that do not run, together.
    pub(crate) fn start_all(&mut self) {
        let mut children: Vec<(usize, Child)> = (0..MEMBERS)
            .filter(|member| self.running[*member].is_none())
            .map(|member| (member, self.spawn(member)))
            .collect();
        for (_, child) in &mut children {
            serves(child);
        }
        for (member, child) in children {
            self.running[member] = Some(child);
        }
    }

    /// Stops a member in its tracks: it neither answers nor closes anything.
    pub(crate) fn freeze(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    /// Which member leads.
    pub(crate) async fn leader(&self) -> usize {
        loop {
            for member in (0..MEMBERS).filter(|m| self.running[*m].is_some()) {
                let endpoint = self.endpoint(member);
                let Ok(client) = Client::connect([endpoint], None).await else {
                    continue;
                };
                let Ok(status) = client.maintenance_client().status().await else {
                    continue;
                };
                let own = status.header().map(etcd_client::ResponseHeader::member_id);
                if own == Some(status.leader()) {
                    return member;
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn spawn(&self, member: usize) -> Child {
        let peers = self.peers.iter().enumerate();
        let cluster: Vec<String> = peers.map(|(i, peer)| format!("m{i}={peer}")).collect();
        let mut command = Command::new(binary());
        command
            .args(["--name", &format!("m{member}")])
            .arg("--data-dir")
            .arg(self.dir.path().join(format!("m{member}")))
            .args(["--listen-client-urls", &self.clients[member]])
            .args(["--advertise-client-urls", &self.clients[member]])
            .args(["--listen-peer-urls", &self.peers[member]])
            .args(["--initial-advertise-peer-urls", &self.peers[member]])
            .args(["--initial-cluster", &cluster.join(",")])
            .arg("--unsafe-no-fsync");
        command.stderr(Stdio::piped()).spawn().expect("start etcd")
    }

    fn signal(&self, member: usize, signal: Signal) {
        let child = self.running[member].as_ref().expect("it runs");
        let id = Pid::from_raw(child.id().cast_signed()).expect("its id");
        kill_process(id, signal).expect("signal etcd");
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for member in 0..MEMBERS {
            self.kill(member); // also one that is frozen
        }
    }
}

/// Waits until a member serves clients; its log goes on being read, or it would stop at a full pipe.
fn serves(child: &mut Child) {
    let mut log = BufReader::new(child.stderr.take().expect("its log"));
    address(&mut log);
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
}
