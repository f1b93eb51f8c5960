//! Child processes: a failing one ends the task with its command line.

use std::{
    ffi::OsStr,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// Runs cargo with these words, its output shown.
pub(crate) fn cargo<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<()> {
    run(env!("CARGO"), words, &[])
}

/// Runs a program to its end with additional environment variables.
pub(crate) fn run<'a>(
    program: impl AsRef<OsStr>,
    words: impl IntoIterator<Item = &'a str>,
    env: &[(&str, &str)],
) -> Result<()> {
    let mut command = Command::new(program);
    command.args(words).envs(env.iter().copied());
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?} failed: {status}"),
    }
}

/// What a program prints on its standard output, if it succeeds.
pub(crate) fn output(program: &str, words: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(words).stderr(Stdio::inherit());
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => bail!("{command:?} failed: {}", output.status),
    }
}

/// Replaces this process, so that signals reach the program itself.
pub(crate) fn become_process<'a>(
    program: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    let error = Command::new(program).args(words).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
