//! `cargo xtask`: prepares what the build needs, then builds, runs and tests.

use std::{fs, path::Path};

use anyhow::{Context, Result};

fn main() -> Result<()> {
    install_protoc(Path::new("target/tools/protoc"))
}

/// Puts protoc where `.cargo/config.toml` points; the etcd client compiles its protocol with it.
/// protoc finds its own well-known types in `../include`.
fn install_protoc(to: &Path) -> Result<()> {
    let binary = protoc_bin_vendored::protoc_bin_path()
        .context("no protoc for this machine in protoc-bin-vendored")?;
    let include = protoc_bin_vendored::include_path()
        .context("no protobuf includes in protoc-bin-vendored")?;
    fs::create_dir_all(to.join("bin"))?;
    fs::copy(&binary, to.join("bin/protoc"))
        .with_context(|| format!("copying {}", binary.display()))?;
    copy_tree(&include, &to.join("include"))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_tree(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}
