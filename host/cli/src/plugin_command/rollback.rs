//! `pilothouse plugin history` and `rollback`: they work on the data directory, so that they need no API server.

use std::{fmt::Write as _, fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use pilothouse_plugin::{History, PastRevision, component_name};

use super::say;
use crate::flags::CommonFlags;

/// One line for each version that is kept.
pub(super) fn history(common: &CommonFlags, name: &str) -> Result<()> {
    let mut text = format!("{:<8} DIGEST\n", "");
    for (n, revision) in revisions(common, name)?.iter().enumerate() {
        let word = if n == 0 { "active" } else { "" };
        writeln!(text, "{word:<8} {}", revision.digest)?;
    }
    say(&text)
}

/// Puts the version before the newest, or the one whose digest begins with `to`, in the place of the plugin's file. The control
/// plane takes it from there, as any other new version.
pub(super) fn rollback(common: &CommonFlags, name: &str, to: Option<&str>) -> Result<()> {
    let revisions = revisions(common, name)?;
    let chosen = match to {
        None => revisions.get(1),
        Some(to) => {
            let begins = |revision: &&PastRevision| {
                let hexadecimal = revision.digest.trim_start_matches("sha256:");
                revision.digest.starts_with(to) || hexadecimal.starts_with(to)
            };
            revisions.iter().find(begins)
        }
    };
    let Some(chosen) = chosen else {
        bail!(
            "plugin {name} has no {} among the {} that are kept; `pilothouse plugin history {name}` lists them",
            to.map_or_else(
                || "earlier version".to_owned(),
                |to| format!("version {to}")
            ),
            revisions.len()
        );
    };
    let file = file_of(common, name)?;
    let beside = file.with_extension("wasm.rollback");
    fs::copy(&chosen.path, &beside)
        .and_then(|_| fs::rename(&beside, &file))
        .with_context(|| format!("writing {}", file.display()))?;
    say(&format!("{} is {} again\n", file.display(), chosen.digest))
}

fn revisions(common: &CommonFlags, name: &str) -> Result<Vec<PastRevision>> {
    let dir = common.history_dir();
    let reading = || format!("reading {}", dir.display());
    if !dir.is_dir() {
        bail!(
            "{} is not there; give the --data-dir of the control plane",
            dir.display()
        );
    }
    let history = History::open(dir.clone()).with_context(reading)?;
    history.list(name).with_context(reading)
}

/// The file of the plugin directory that a component comes from; one under its name if there is none.
pub(super) fn file_of(common: &CommonFlags, name: &str) -> Result<PathBuf> {
    let dir = common.plugin_dir();
    let entries = fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        let component = path.extension().is_some_and(|e| e == "wasm");
        if component && component_name(&path).as_deref() == Some(name) {
            return Ok(path);
        }
    }
    Ok(dir.join(format!("{name}.wasm")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::common;

    #[test]
    fn the_version_before_or_a_named_one_takes_the_files_place() {
        let dir = tempfile::tempdir().unwrap();
        let common = common(dir.path());
        let kept = common.history_dir().join("my-filter");
        fs::create_dir_all(&kept).unwrap();
        for (number, digest) in ["aa11", "bb22", "cc33"].into_iter().enumerate() {
            fs::write(kept.join(format!("{number:06}-{digest}.wasm")), digest).unwrap();
        }
        fs::create_dir_all(common.plugin_dir()).unwrap();
        let file = common.plugin_dir().join("My_Filter.wasm");
        fs::write(&file, "cc33").unwrap();
        let cases = [
            (None, "bb22"),
            (Some("aa"), "aa11"),
            (Some("sha256:cc33"), "cc33"),
        ];
        for (to, expected) in cases {
            rollback(&common, "my-filter", to).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), expected, "{to:?}");
        }
        let error = rollback(&common, "my-filter", Some("dd")).unwrap_err();
        assert!(
            error.to_string().contains("no version dd among the 3"),
            "{error}"
        );
        assert!(rollback(&common, "other", None).is_err());
    }
}
