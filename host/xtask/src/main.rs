//! `cargo xtask`: prepares what the build needs, then builds, runs and tests.

use std::{fs, path::Path};

use anyhow::{Context, Result};

fn main() -> Result<()> {
    install_protoc(Path::new("target/tools"))
}

/// Puts protoc where `.cargo/config.toml` points; the etcd client compiles its protocol with it.
fn install_protoc(tools: &Path) -> Result<()> {
    let from = protoc_bin_vendored::protoc_bin_path().context("no protoc for this machine in protoc-bin-vendored")?;
    fs::create_dir_all(tools)?;
    fs::copy(&from, tools.join("protoc")).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}
