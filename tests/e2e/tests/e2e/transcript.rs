//! A table of kubectl commands and what they do, run in one order on one cluster: `tests/fixtures/kubectl.txt`, whose head
//! says how it is read.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pilothouse_e2e::{Cluster, Outcome, root};

/// How long a command may be repeated until the rest of its entry is true.
const PATIENCE: Duration = Duration::from_secs(60);

/// One command and what is expected of it.
#[derive(Debug, Default)]
struct Entry {
    line_number: usize,
    command: String,
    input: String,
    /// By the sign that they begin with; a blank for plain ones.
    expected: Vec<(char, String)>,
    repeated: bool,
}

fn read(text: &str) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            entries.push(Entry {
                line_number: index + 1,
                command: command.to_owned(),
                ..Entry::default()
            });
            continue;
        }
        let entry = entries.last_mut().context("a line before any command")?;
        match line.split_at_checked(2) {
            Some(("< ", input)) => entry.input.push_str(&format!("{input}\n")),
            Some(("= " | "- " | "? " | "! ", rest)) => {
                let sign = line.chars().next().unwrap_or(' ');
                entry.expected.push((sign, rest.to_owned()));
            }
            _ if line == "~" => entry.repeated = true,
            _ => entry.expected.push((' ', line.to_owned())),
        }
    }
    Ok(entries)
}

/// Splits at blanks; quotes keep them.
fn words(command: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c == ' ' => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    ensure!(quote.is_none(), "an open quote in {command}");
    words.extend(word);
    Ok(words)
}

impl Entry {
    fn run(&self, cluster: &Cluster) -> Result<Outcome> {
        let words = words(&self.command)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        cluster.client("kubectl", &words, &self.input, &[])
    }

    /// What is not as expected, if anything.
    fn judge(&self, outcome: &Outcome) -> Option<String> {
        let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
        let must_fail = self.expected.iter().any(|(sign, _)| *sign == '!');
        if outcome.success == must_fail {
            let ended = if must_fail { "did not fail" } else { "failed" };
            return Some(format!("it {ended}"));
        }
        let wrong = |(sign, text): &&(char, String)| match sign {
            '=' => !stdout
                .lines()
                .any(|line| line.trim_end() == text.trim_end()),
            '-' => stdout.contains(text),
            '?' => !stderr.contains(text),
            '!' => !stderr.contains(text) && !stdout.contains(text),
            _ => !stdout.contains(text),
        };
        let wrong = self.expected.iter().find(wrong);
        wrong.map(|(sign, text)| format!("expected: {sign} {text}"))
    }

    /// Runs the command, more than once if that is asked for.
    fn check(&self, cluster: &Cluster) -> Result<()> {
        let begin = Instant::now();
        loop {
            let outcome = self.run(cluster)?;
            match self.judge(&outcome) {
                None => return Ok(()),
                Some(_) if self.repeated && begin.elapsed() < PATIENCE => {}
                Some(why) => bail!(
                    "line {}: kubectl {}\n  {why}\n--- stdout\n{}--- stderr\n{}",
                    self.line_number,
                    self.command,
                    outcome.stdout,
                    outcome.stderr
                ),
            }
        }
    }
}

#[test]
fn every_command_does_what_it_should() -> Result<()> {
    let cluster = Cluster::start()?;
    let text = std::fs::read_to_string(root().join("tests/fixtures/kubectl.txt"))?;
    let entries = read(&text)?;
    ensure!(entries.len() > 150, "only {} commands", entries.len());
    let failures: Vec<String> = entries
        .iter()
        .filter_map(|entry| entry.check(&cluster).err())
        .map(|error| format!("{error:#}"))
        .collect();
    ensure!(
        failures.is_empty(),
        "{} of {} commands:\n\n{}",
        failures.len(),
        entries.len(),
        failures.join("\n\n")
    );
    Ok(())
}

#[test]
fn commands_are_split_as_a_shell_does() -> Result<()> {
    let split = words(r#"patch a -p '{"x": 1}' -l "b c"'d' ''"#)?;
    assert_eq!(split, ["patch", "a", "-p", r#"{"x": 1}"#, "-l", "b cd", ""]);
    ensure!(words("get 'pods").is_err());
    Ok(())
}
