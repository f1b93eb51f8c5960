//! The distribution: one tarball with the binary, its licence of use and the example plugins.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::{command::run, plugins};

/// Packs `target/dist/pilothouse-<version>.tar.gz`.
pub(crate) fn pack() -> Result<()> {
    let name = format!("pilothouse-{}", env!("CARGO_PKG_VERSION"));
    let folder = Path::new("target/dist").join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("plugins"))?;
    fs::copy(plugins::pilothouse(), folder.join("pilothouse")).context("copying the binary")?;
    fs::copy("README.md", folder.join("README.md")).context("copying README.md")?;
    for component in plugins::examples()? {
        let file = component
            .file_name()
            .context("a component without a name")?;
        fs::copy(&component, folder.join("plugins").join(file))
            .with_context(|| format!("copying {}", component.display()))?;
    }
    let archive = format!("target/dist/{name}.tar.gz");
    run(
        "tar",
        [
            "--create",
            "--gzip",
            "--file",
            &archive,
            "--directory",
            "target/dist",
            &name,
        ],
        &[],
    )?;
    println!("{archive}");
    Ok(())
}
