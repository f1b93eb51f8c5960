//! A real etcd at an address and in a directory of its own, killed when dropped.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::loopback::own_host;

/// PEM files of a server that asks for client certificates.
pub(crate) struct TlsFiles {
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

pub(crate) struct EtcdServer {
    pub(crate) endpoint: String,
    child: Child,
}

impl EtcdServer {
    /// With its own data directory.
    pub(crate) fn start() -> (Self, TempDir) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let server = Self::start_in(dir.path());
        (server, dir)
    }

    /// In a directory that others may share.
    pub(crate) fn start_in(dir: &Path) -> Self {
        Self::start_at(dir, &format!("http://{}:0", own_host()), None)
    }

    /// At a URL, such as where it was before; port 0 is any that is free.
    pub(crate) fn start_at(dir: &Path, url: &str, tls: Option<&TlsFiles>) -> Self {
        let mut command = Command::new(binary());
        command
            .arg("--data-dir")
            .arg(dir.join("etcd"))
            .args(["--listen-client-urls", url])
            .args(["--advertise-client-urls", url])
            .args(["--listen-peer-urls", "http://127.0.0.1:0"])
            .args(["--initial-advertise-peer-urls", "http://127.0.0.1:0"])
            .args(["--initial-cluster", "default=http://127.0.0.1:0"])
            .arg("--unsafe-no-fsync");
        if let Some(tls) = tls {
            command.arg("--client-cert-auth");
            command.arg("--trusted-ca-file").arg(&tls.ca);
            command.arg("--cert-file").arg(&tls.cert);
            command.arg("--key-file").arg(&tls.key);
        }
        let (scheme, _) = url.split_once("://").expect("a URL");
        let mut child = command.stderr(Stdio::piped()).spawn().expect("start etcd");
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        let address = address(&mut log);
        // Its log must go on being read, or it would stop at a full pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self {
            endpoint: format!("{scheme}://{address}"),
            child,
        }
    }
}

impl EtcdServer {
    /// Ends it in an orderly way. Killed, an etcd of one member before 3.5.5 may lose what it has answered (etcd-io/etcd#14370), and
    /// gives the same revisions to other writes when it comes back.
    pub(crate) fn stop(mut self) {
        let id = Pid::from_raw(self.child.id().cast_signed()).expect("its id");
        kill_process(id, Signal::TERM).expect("signal etcd");
        self.child.wait().expect("wait for etcd");
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.child.kill().expect("kill etcd");
        self.child.wait().expect("wait for etcd");
    }
}

/// Reads the log until etcd says where it serves.
pub(crate) fn address(log: &mut impl BufRead) -> String {
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        if log.read_line(&mut line).expect("read etcd's log") == 0 {
            panic!("etcd did not start:\n{seen}");
        }
        if line.contains(r#""msg":"serving client traffic"#) {
            let (_, rest) = line.split_once(r#""address":""#).expect("an address");
            return rest.split('"').next().unwrap_or_default().to_owned();
        }
        seen.push_str(&line);
    }
}

pub(crate) fn binary() -> PathBuf {
    let path = env::var_os("PILOTHOUSE_TEST_ETCD").map(PathBuf::from);
    path.unwrap_or_else(|| tool("etcd"))
}

/// A program that comes with etcd.
pub(crate) fn tool(name: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = workspace.join("target/tools").join(name);
    assert!(
        path.exists(),
        "no {name} at {}: run `cargo xtask test`, which gets it, or set PILOTHOUSE_TEST_ETCD",
        path.display()
    );
    path
}
