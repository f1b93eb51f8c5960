//! Three real members of one etcd, any of which can be killed, started again, stopped in its tracks and let go on.

use std::{
    io::BufReader,
    net::TcpListener,
    process::{Child, Command, Stdio},
};

use etcd_client::Client;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::etcd_server::{address, binary};

const MEMBERS: usize = 3;

pub(crate) struct EtcdCluster {
    dir: TempDir,
    client_ports: [u16; MEMBERS],
    peer_ports: [u16; MEMBERS],
    running: [Option<Child>; MEMBERS],
}

impl EtcdCluster {
    pub(crate) fn start() -> Self {
        let listeners: Vec<TcpListener> = (0..2 * MEMBERS)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let port = |i: usize| listeners[i].local_addr().expect("its address").port();
        let mut cluster = Self {
            dir: tempfile::tempdir().expect("temporary directory"),
            client_ports: std::array::from_fn(port),
            peer_ports: std::array::from_fn(|i| port(MEMBERS + i)),
            running: Default::default(),
        };
        drop(listeners);
        cluster.start_all();
        cluster
    }

    /// Their URLs, this member's first.
    pub(crate) fn endpoints(&self, first: usize) -> Vec<String> {
        let member = |i| self.endpoint((first + i) % MEMBERS);
        (0..MEMBERS).map(member).collect()
    }

    pub(crate) fn endpoint(&self, member: usize) -> String {
        format!("http://127.0.0.1:{}", self.client_ports[member])
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
        let peer = |i: usize| format!("http://127.0.0.1:{}", self.peer_ports[i]);
        let cluster: Vec<String> = (0..MEMBERS).map(|i| format!("m{i}={}", peer(i))).collect();
        let mut command = Command::new(binary());
        command
            .args(["--name", &format!("m{member}")])
            .arg("--data-dir")
            .arg(self.dir.path().join(format!("m{member}")))
            .args(["--listen-client-urls", &self.endpoint(member)])
            .args(["--advertise-client-urls", &self.endpoint(member)])
            .args(["--listen-peer-urls", &peer(member)])
            .args(["--initial-advertise-peer-urls", &peer(member)])
            .args(["--initial-cluster", &cluster.join(",")])
            // so that a leader is followed quickly
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
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
