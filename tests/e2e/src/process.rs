//! Child processes of a test: ended with it, their output kept for the failure message.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// How long a process may take to say that it is ready; generous, because the machine may be busy.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The target directory: this binary lies in `<target>/release`, or below it.
fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let profile = own.ancestors().find(|folder| folder.ends_with("release"));
    profile
        .and_then(Path::parent)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A client or server that `cargo xtask test` fetches: `kubectl`, `helm`, `etcd`.
pub fn tool(name: &str) -> Result<PathBuf> {
    existing(root().join("target/tools").join(name))
}

/// A folder of packages that `cargo xtask test` fetches, which must have this one in it.
pub fn tools(folder: &str, package: &str) -> Result<PathBuf> {
    let folder = root().join("target/tools").join(folder);
    match folder.join(package).is_dir() {
        true => Ok(folder),
        false => bail!(
            "{package} is missing in {}: run `cargo xtask test`, which fetches it",
            folder.display()
        ),
    }
}

/// A command that runs the built host binary.
pub fn pilothouse_command() -> Result<Command> {
    Ok(Command::new(existing(target().join("release/pilothouse"))?))
}

/// A component built by `cargo xtask build`, by its crate's name.
pub fn component(name: &str) -> Result<PathBuf> {
    existing(
        target()
            .join("wasm32-wasip2/plugin")
            .join(format!("{}.wasm", name.replace('-', "_"))),
    )
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    match path.is_file() {
        true => Ok(path),
        false => bail!(
            "{} is missing: run `cargo xtask test`, which builds and fetches it",
            path.display()
        ),
    }
}

/// A running child; dropping it kills it.
pub struct Process {
    child: Child,
    output: Arc<Mutex<Vec<String>>>,
    lines: mpsc::Receiver<String>,
    _stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts `command` with its output captured.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let (sender, lines) = mpsc::channel();
        let streams: [Option<Box<dyn std::io::Read + Send>>; 2] = [
            child.stdout.take().map(|s| Box::new(s) as _),
            child.stderr.take().map(|s| Box::new(s) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let (output, sender) = (output.clone(), sender.clone());
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    output
                        .lock()
                        .unwrap_or_else(|e| e.into_inner())
                        .push(line.clone());
                    drop(sender.send(line)); // nobody may be waiting any more
                }
            });
        }
        let stdin = child.stdin.take();
        Ok(Self {
            child,
            output,
            lines,
            _stdin: stdin,
        })
    }

    /// Waits for the first line that contains `text` and returns it; fails with the output if the process ends before.
    pub fn wait_for_line(&self, text: &str) -> Result<String> {
        loop {
            match self.lines.recv_timeout(START_TIMEOUT) {
                Ok(line) if line.contains(text) => return Ok(line),
                Ok(_) => {}
                Err(_) => bail!("no line with {text:?} came:\n{}", self.output()),
            }
        }
    }

    /// Everything printed so far.
    pub fn output(&self) -> String {
        self.output
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .join("\n")
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends an interrupt, as ctrl-C does, and waits; returns the exit code.
    pub fn interrupt(&mut self) -> Result<Option<i32>> {
        let status = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status()?;
        anyhow::ensure!(status.success(), "kill -INT failed");
        Ok(self.child.wait()?.code())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if thread::panicking() {
            eprintln!(
                "--- output of process {} ---\n{}",
                self.child.id(),
                self.output()
            );
        }
    }
}
