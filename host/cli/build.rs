//! Embeds the built-in plugins: every `cdylib` crate right below `plugins/` must have been built to a component before.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn main() {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let components = target_directory().join("wasm32-wasip2/plugin");
    println!("cargo:rerun-if-changed={}", plugins.display());
    let mut table = String::from("&[\n");
    for name in plugin_crates(&plugins) {
        let file = components.join(format!("{}.wasm", name.replace('-', "_")));
        println!("cargo:rerun-if-changed={}", file.display());
        if !file.is_file() {
            println!(
                "cargo:error=the plugin {name} has not been built to {}: run `cargo xtask build`",
                file.display()
            );
            continue;
        }
        table.push_str(&format!("    ({name:?}, include_bytes!({file:?})),\n"));
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(error) = fs::write(out.join("builtin_plugins.rs"), table) {
        println!("cargo:error=cannot write the table of built-in plugins: {error}");
    }
}

/// `OUT_DIR` is `<target>/<profile>/build/<package>/out`.
fn target_directory() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    out.ancestors()
        .nth(4)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

fn plugin_crates(plugins: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(plugins)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).ok()?;
            let line = manifest.lines().find(|line| line.starts_with("name = "))?;
            let is_plugin = manifest.contains("\"cdylib\"");
            is_plugin.then(|| {
                line.trim_start_matches("name = ")
                    .trim_matches('"')
                    .to_owned()
            })
        })
        .collect();
    names.sort();
    names
}
