//! Building the plugin crates to components.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::command::cargo;

/// Folders of crates that are built to components: what ships, the examples, and the ones that tests load.
const FOLDERS: [&str; 3] = ["plugins", "plugins/examples", "tests/bad-plugins"];

/// Every plugin crate, in one cargo call so that they share what they depend on.
pub(crate) fn build() -> Result<()> {
    let mut words = vec![
        "build".to_owned(),
        "--target=wasm32-wasip2".to_owned(),
        "--profile=plugin".to_owned(),
    ];
    for folder in FOLDERS {
        words.extend(
            plugin_crates(Path::new(folder))?
                .iter()
                .map(|name| format!("--package={name}")),
        );
    }
    if words.len() == 3 {
        return Ok(()); // no plugin crate: cargo would build the whole workspace for WebAssembly
    }
    cargo(words.iter().map(String::as_str))
}

/// The built host binary.
pub(crate) fn pilothouse() -> PathBuf {
    PathBuf::from("target/release/pilothouse")
}

/// The built components of the example plugins.
pub(crate) fn examples() -> Result<Vec<PathBuf>> {
    let names = plugin_crates(Path::new("plugins/examples"))?;
    let component = |name: String| {
        PathBuf::from(format!(
            "target/wasm32-wasip2/plugin/{}.wasm",
            name.replace('-', "_")
        ))
    };
    Ok(names.into_iter().map(component).collect())
}

/// Names of the crates right below `folder` whose library is a `cdylib`.
fn plugin_crates(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    if !folder.is_dir() {
        return Ok(names);
    }
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let manifest = entry?.path().join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&manifest) else {
            continue;
        };
        if text.contains("\"cdylib\"") {
            names.push(
                package_name(&text)
                    .with_context(|| format!("no package name in {}", manifest.display()))?,
            );
        }
    }
    names.sort();
    Ok(names)
}

fn package_name(manifest: &str) -> Option<String> {
    let line = manifest.lines().find(|line| line.starts_with("name = "))?;
    Some(
        line.trim_start_matches("name = ")
            .trim_matches('"')
            .to_owned(),
    )
}
