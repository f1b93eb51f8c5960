//! The `pilothouse` binary: reads flags, composes the layers, runs a role.

mod banner;
mod builtins;
mod config_file;
mod flags;
mod plugin_command;
mod plugin_objects;
mod plugins;
mod roles;
mod stop;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::flags::{Cli, CommonFlags, Role};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pilothouse: {error:#}");
            ExitCode::FAILURE
        }
    }
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
        .with_writer(std::io::stderr);
    let started = match flags.log_json {
        true => lines.json().try_init(),
        false => lines.try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))
}
