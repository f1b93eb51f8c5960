//! `pilothouse plugin disable` and `enable`: the emergency brake. It is a file in the plugin directory, so that it works when the
//! plugin has locked its owner out of the API, or no server runs.

use std::{fs, io::ErrorKind, path::PathBuf};

use anyhow::{Context, Result, bail};
use pilothouse_plugin::component_name;

use super::say;
use crate::{builtins::BUILTIN_PLUGINS, flags::CommonFlags};

pub(super) fn disable(common: &CommonFlags, name: &str) -> Result<()> {
    let known = known(common)?;
    if !known.iter().any(|known| known == name) {
        bail!("there is no plugin {name}; there are {}", known.join(", "));
    }
    let brake = brake(common, name);
    fs::write(&brake, "").with_context(|| format!("writing {}", brake.display()))?;
    say(&format!(
        "plugin {name} is not called any more; `pilothouse plugin enable {name}` lets it ({})\n",
        brake.display()
    ))
}

pub(super) fn enable(common: &CommonFlags, name: &str) -> Result<()> {
    let brake = brake(common, name);
    match fs::remove_file(&brake) {
        Ok(()) => say(&format!("plugin {name} is called again\n")),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("plugin {name} is not disabled"),
        Err(error) => Err(error).with_context(|| format!("removing {}", brake.display())),
    }
}

fn brake(common: &CommonFlags, name: &str) -> PathBuf {
    common.plugin_dir().join(format!("{name}.disabled"))
}

/// What ships, and what is in the plugin directory.
fn known(common: &CommonFlags) -> Result<Vec<String>> {
    let dir = common.plugin_dir();
    let entries = fs::read_dir(&dir).with_context(|| {
        let dir = dir.display();
        format!("reading {dir}; give the --data-dir or --plugin-dir of the control plane")
    })?;
    let mut known: Vec<String> = BUILTIN_PLUGINS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "wasm") {
            known.extend(component_name(&path));
        }
    }
    known.sort();
    known.dedup();
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::common;

    #[test]
    fn a_brake_is_a_file_and_only_known_plugins_have_one() {
        let dir = tempfile::tempdir().unwrap();
        let common = common(dir.path());
        fs::create_dir_all(common.plugin_dir()).unwrap();
        fs::write(common.plugin_dir().join("My_Filter.wasm"), "").unwrap();
        for name in ["my-filter", "controller-deployment"] {
            disable(&common, name).unwrap();
            assert!(
                common
                    .plugin_dir()
                    .join(format!("{name}.disabled"))
                    .exists()
            );
            enable(&common, name).unwrap();
            assert!(enable(&common, name).is_err());
        }
        let error = disable(&common, "nobody").unwrap_err().to_string();
        assert!(
            error.contains("my-filter") && error.contains("there is no plugin nobody"),
            "{error}"
        );
    }
}
