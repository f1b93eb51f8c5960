//! A `pilothouse up` process with its data directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{
    etcd::Etcd,
    process::{Process, component, pilothouse_command, root},
};

/// How to start a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// `up`, or `apiserver` for the API server alone.
    pub role: &'static str,
    /// Simulated nodes, for `up`.
    pub nodes: u32,
    /// Keep the data in a real etcd instead of the embedded engine.
    pub etcd: bool,
    /// Further flags of `pilothouse up`.
    pub flags: Vec<String>,
    /// A data directory whose certificate authority this one shares.
    pub authority_of: Option<PathBuf>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            role: "up",
            nodes: 3,
            etcd: false,
            flags: Vec::new(),
            authority_of: None,
        }
    }
}

/// A running control plane; dropping it ends its processes and removes its data.
pub struct Cluster {
    pub process: Process,
    options: ClusterOptions,
    etcd: Option<Etcd>,
    directory: TempDir,
}

impl Cluster {
    /// Three simulated nodes on the embedded engine.
    pub fn start() -> Result<Self> {
        Self::start_with(ClusterOptions::default())
    }

    /// Starts and waits until it says that it is ready.
    pub fn start_with(options: ClusterOptions) -> Result<Self> {
        let directory = TempDir::with_prefix("pilothouse")?;
        let etcd = match options.etcd {
            true => Some(Etcd::start()?),
            false => None,
        };
        if let Some(other) = &options.authority_of {
            let pki = directory.path().join("data/pki");
            std::fs::create_dir_all(&pki)?;
            for file in ["ca.crt", "ca.key", "sa.key", "sa.pub"] {
                std::fs::copy(other.join("pki").join(file), pki.join(file))?;
            }
        }
        let process = launch(directory.path(), &options, etcd.as_ref())?;
        Ok(Self {
            process,
            options,
            etcd,
            directory,
        })
    }

    /// Kills the process and starts again on the same data with other flags.
    pub fn restart_with(&mut self, flags: Vec<String>) -> Result<()> {
        self.process.kill()?;
        self.options.flags = flags;
        self.restart()
    }

    /// Starts again on the same data, after the process has ended.
    pub fn restart(&mut self) -> Result<()> {
        self.process = launch(self.directory.path(), &self.options, self.etcd.as_ref())?;
        Ok(())
    }

    /// The etcd that keeps the data, if one does.
    pub fn etcd(&self) -> Option<&Etcd> {
        self.etcd.as_ref()
    }

    /// `<data-dir>/admin.kubeconfig`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A directory for clients' caches and the test's own files.
    pub fn home(&self) -> &Path {
        self.directory.path()
    }

    /// Copies a built component into the plugin directory under a name.
    pub fn drop_plugin(&self, crate_name: &str, file: &str) -> Result<()> {
        let to = self.data_dir().join("plugins").join(file);
        std::fs::copy(component(crate_name)?, &to)
            .with_context(|| format!("copying to {}", to.display()))?;
        Ok(())
    }

    /// Runs the `pilothouse` binary itself with this cluster's data directory.
    pub fn pilothouse(&self, line: &str) -> Result<std::process::Output> {
        let mut command = pilothouse_command()?;
        command
            .args(line.split_whitespace())
            .arg("--data-dir")
            .arg(self.data_dir());
        command
            .output()
            .with_context(|| format!("cannot start {command:?}"))
    }
}

fn launch(directory: &Path, options: &ClusterOptions, etcd: Option<&Etcd>) -> Result<Process> {
    let mut command = pilothouse_command()?;
    command.args([options.role, "--secure-port", "0", "--data-dir"]);
    command.arg(directory.join("data")).args(&options.flags);
    command.arg("--cache-dir").arg(compiled_plugins());
    if options.role == "up" {
        command.args(["--nodes", &options.nodes.to_string()]);
    }
    if let Some(etcd) = etcd {
        command.args(["--etcd-servers", &etcd.endpoints()]);
    }
    let process = Process::start(&mut command)?;
    process.wait_for_line("is ready")?;
    Ok(process)
}

/// Where compiled plugins are kept, shared by all clusters of all tests; each file in it is complete when it is there.
pub fn compiled_plugins() -> PathBuf {
    root().join("target/tmp/compiled-plugins")
}
