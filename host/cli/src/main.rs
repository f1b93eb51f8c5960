//! The `pilothouse` binary: reads flags, composes the layers, runs a role.

mod banner;
mod builtins;
mod config_file;
mod encryption;
mod engines;
mod flags;
mod plugin_command;
mod plugin_objects;
mod plugins;
mod roles;
mod snapshot_command;
mod snapshots;
mod stop;
mod storage_command;

use std::{io::IsTerminal, process::ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::flags::{Cli, CommonFlags, Role};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    use_small_pages();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pilothouse: {}", causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// The allocator asks for memory in large pieces, of which little is touched; in huge pages that little is rounded up to 2 MiB each.
/// Without them an idle control plane needs less than half the memory, and serves no slower.
fn use_small_pages() {
    #[cfg(target_os = "linux")]
    // SAFETY: it changes how the kernel backs this process's memory, not what is in it
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
}

/// An error and its causes in one line; a cause that the error has quoted already is not said again.
fn causes(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

fn run() -> Result<()> {
    let arguments = config_file::expand(std::env::args_os().collect())?;
    let role = Cli::parse_from(arguments).role;
    log_as_asked(role.common())?;
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        match role {
            Role::Up(flags) => roles::up::run(flags).await,
            Role::Apiserver(flags) => roles::apiserver::run(flags).await,
            Role::Scheduler(flags) => roles::scheduler::run(flags).await,
            Role::ControllerManager(flags) => roles::controller_manager::run(flags).await,
            Role::Plugin(command) => plugin_command::run(command).await,
            Role::Snapshot(command) => snapshot_command::run(command).await,
            Role::Storage(command) => storage_command::run(command).await,
        }
    });
    runtime.shutdown_background(); // what is left only waits for events that no longer matter
    result
}

/// Every connection is a file, and shells allow few: takes as many as the administrator permits.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it was");
    }
}

fn log_as_asked(flags: &CommonFlags) -> Result<()> {
    let filter = EnvFilter::try_new(&flags.log)
        .with_context(|| format!("--log {:?} is not a filter", flags.log))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match flags.log_json {
        true => lines.json().try_init(),
        false => lines.try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::causes;

    #[test]
    fn causes_are_said_once() {
        let cases = [
            (
                anyhow!("no such file").context("reading a"),
                "reading a: no such file",
            ),
            (
                anyhow!("no such file").context("reading a: no such file"),
                "reading a: no such file",
            ),
            (anyhow!("c").context("b: c").context("a"), "a: b: c"),
        ];
        for (error, expected) in cases {
            assert_eq!(causes(&error), expected);
        }
    }
}
