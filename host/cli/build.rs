//! Embeds the built-in plugins: every `cdylib` crate right below `plugins/` must have been built to a component before. Embeds
//! the sources that `plugin new` and `plugin build` make projects of.

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Err(error) = fs::write(out.join("kit.rs"), kit(&root)) {
        println!("cargo:error=cannot write the table of sources: {error}");
    }
}

/// The interfaces, the SDKs, the templates, and the manifest that the Rust SDK inherits from.
fn kit(root: &Path) -> String {
    let mut files = vec![root.join("Cargo.toml")];
    for folder in [
        "wit",
        "plugins/sdk",
        "plugins/sdk-c",
        "plugins/sdk-js",
        "plugins/sdk-python",
        "plugins/templates",
    ] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), &mut files);
    }
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file);
        println!("cargo:rerun-if-changed={}", file.display());
        table.push_str(&format!("    ({name:?}, include_bytes!({file:?})),\n"));
    }
    table.push(']');
    table
}

/// The sources below a folder, without what tools leave behind.
fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let generated = path.extension().is_some_and(|e| e == "pyc")
            || ["__pycache__", "build", "target", "node_modules"]
                .iter()
                .any(|name| path.ends_with(name));
        if generated {
            continue;
        }
        match path.is_dir() {
            true => collect(&path, into),
            false => into.push(path),
        }
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
