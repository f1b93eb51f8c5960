//! A real etcd on free ports, in a directory of its own, killed when dropped.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

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
        let server = Self::start_in(dir.path(), 0, None);
        (server, dir)
    }

    /// On a given port, or on a free one if it is zero.
    pub(crate) fn start_in(dir: &Path, port: u16, tls: Option<&TlsFiles>) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut command = Command::new(binary());
        command
            .arg("--data-dir")
            .arg(dir.join("etcd"))
            .args([
                "--listen-client-urls",
                &format!("{scheme}://127.0.0.1:{port}"),
            ])
            .args([
                "--advertise-client-urls",
                &format!("{scheme}://127.0.0.1:{port}"),
            ])
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

    pub(crate) fn port(&self) -> u16 {
        let port = self
            .endpoint
            .rsplit(':')
            .next()
            .and_then(|p| p.parse().ok());
        port.expect("an endpoint ends in its port")
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
