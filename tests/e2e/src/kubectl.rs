//! Running kubectl and helm and looking at what they said.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{cluster::Cluster, process::tool};

/// What a client printed and how it ended.
#[derive(Debug)]
pub struct Outcome {
    pub command: String,
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The standard output of a command that must succeed.
    pub fn ok(self) -> Result<String> {
        match self.success {
            true => Ok(self.stdout),
            false => bail!("`{}` failed:\n{}{}", self.command, self.stdout, self.stderr),
        }
    }

    /// The error text of a command that must fail.
    pub fn refused(self) -> Result<String> {
        match self.success {
            true => bail!(
                "`{}` should have failed but printed:\n{}",
                self.command,
                self.stdout
            ),
            false => Ok(self.stderr),
        }
    }
}

impl Cluster {
    /// Runs kubectl with words separated by blanks.
    pub fn try_kubectl(&self, line: &str) -> Result<Outcome> {
        self.client(
            "kubectl",
            &line.split_whitespace().collect::<Vec<_>>(),
            "",
            &[],
        )
    }

    /// Runs kubectl; it must succeed; returns what it printed.
    pub fn kubectl(&self, line: &str) -> Result<String> {
        self.try_kubectl(line)?.ok()
    }

    /// Runs kubectl with these words as they are; it must succeed.
    pub fn kubectl_words(&self, words: &[&str]) -> Result<String> {
        self.client("kubectl", words, "", &[])?.ok()
    }

    /// Runs kubectl with `input` on its standard input.
    pub fn kubectl_with_input(&self, line: &str, input: &str) -> Result<Outcome> {
        self.client(
            "kubectl",
            &line.split_whitespace().collect::<Vec<_>>(),
            input,
            &[],
        )
    }

    /// Runs helm with words separated by blanks.
    pub fn try_helm(&self, line: &str) -> Result<Outcome> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.client("helm", &words, "", &[])
    }

    /// Runs helm; it must succeed.
    pub fn helm(&self, line: &str) -> Result<String> {
        self.try_helm(line)?.ok()
    }

    /// Runs a client with the cluster's kubeconfig, a home of its own and further environment variables.
    pub fn client(
        &self,
        name: &str,
        words: &[&str],
        input: &str,
        env: &[(&str, &str)],
    ) -> Result<Outcome> {
        let mut command = Command::new(tool(name)?);
        command
            .args(words)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.home())
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        Ok(Outcome {
            command: format!("{name} {}", words.join(" ")),
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}
