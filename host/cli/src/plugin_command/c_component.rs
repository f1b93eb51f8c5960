//! What C needs on the way to a component besides a compiler: bindings before it, the component's frame after it.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use wit_bindgen_core::{Files, wit_parser::Resolve};
use wit_component::ComponentEncoder;

/// Writes `plugin.h`, `plugin.c` and the object with the component's type for the world `plugin` of the packages in `wit`.
pub(super) fn write_bindings(wit: &Path, to: &Path) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(wit)
        .context("reading the interfaces and world.wit")?;
    let world = resolve.select_world(&[package], Some("plugin"))?;
    let mut files = Files::default();
    wit_bindgen_c::Opts::default()
        .build()
        .generate(&mut resolve, world, &mut files)?;
    fs::create_dir_all(to)?;
    for (name, content) in files.iter() {
        super::kit::write(&to.join(name), content)?;
    }
    Ok(())
}

/// The component around a core module that was linked with the bindings.
pub(super) fn encode(module: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(module).with_context(|| format!("reading {}", module.display()))?;
    ComponentEncoder::default()
        .module(&bytes)
        .and_then(|encoder| encoder.validate(true).encode())
        .context(
            "the module does not fit a component; an import of wasi_snapshot_preview1 comes from files, streams or clocks of \
             the C library, which a plugin has not",
        )
}
