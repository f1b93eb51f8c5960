//! `--config FILE`: one YAML file whose keys are flags. What stands on the command line wins.

use std::{collections::BTreeMap, ffi::OsString, fs};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Puts the flags of the file named by `--config` before the other flags, right behind the role.
pub(crate) fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    let Some(path) = config_path(&arguments) else {
        return Ok(arguments);
    };
    let text = fs::read_to_string(&path)
        .with_context(|| format!("reading the configuration file {}", path.display()))?;
    let file: BTreeMap<String, Value> = serde_saphyr::from_str(&text).with_context(|| {
        format!(
            "{} must be a YAML map from flag names to values",
            path.display()
        )
    })?;
    let mut flags = Vec::new();
    for (name, value) in &file {
        flags.extend(flag(name, value).with_context(|| format!("in {}", path.display()))?);
    }
    let mut expanded: Vec<OsString> = arguments.iter().take(2).cloned().collect();
    expanded.extend(flags.into_iter().map(OsString::from));
    expanded.extend(arguments.into_iter().skip(2));
    Ok(expanded)
}

fn config_path(arguments: &[OsString]) -> Option<std::path::PathBuf> {
    let at = arguments.iter().position(|a| {
        a.to_str()
            .is_some_and(|a| a == "--config" || a.starts_with("--config="))
    })?;
    match arguments[at].to_str()?.strip_prefix("--config=") {
        Some(path) => Some(path.into()),
        None => arguments.get(at + 1).map(Into::into),
    }
}

fn flag(name: &str, value: &Value) -> Result<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(switch) => Ok(switch.to_string()),
        other => bail!("`{name}` is {other}: give text, a number, true, false, or a list of these"),
    };
    match value {
        Value::Array(values) => values
            .iter()
            .map(|v| Ok(format!("--{name}={}", text(v)?)))
            .collect(),
        value => Ok(vec![format!("--{name}={}", text(value)?)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_with(yaml: &str, command_line: &[&str]) -> Result<Vec<String>> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), yaml)?;
        let mut arguments: Vec<OsString> = command_line.iter().map(Into::into).collect();
        arguments.extend(["--config".into(), file.path().into()]);
        let expanded = expand(arguments)?;
        Ok(expanded
            .into_iter()
            .take(5)
            .map(|a| a.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn flags_of_the_file_come_first_so_that_the_command_line_wins() -> Result<()> {
        let expanded = expand_with(
            "nodes: 3\netcd-servers: [a, b]\n",
            &["pilothouse", "up", "--nodes=5"],
        )?;
        assert_eq!(
            expanded,
            [
                "pilothouse",
                "up",
                "--etcd-servers=a",
                "--etcd-servers=b",
                "--nodes=3"
            ]
        );
        Ok(())
    }

    #[test]
    fn a_file_that_is_no_map_of_flags_is_refused() {
        for yaml in ["- a\n", "nodes: {a: 1}\n", "text"] {
            assert!(expand_with(yaml, &["pilothouse", "up"]).is_err(), "{yaml}");
        }
    }
}
