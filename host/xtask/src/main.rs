//! `cargo xtask`: prepares what the build needs, then builds, runs, tests, measures and packs.
//!
//! Dependencies stay few: this crate is compiled before anything else, and before protoc is there.

mod command;
mod dist;
mod plugins;
mod tools;

use std::{env, path::Path};

use anyhow::{Result, bail};

use crate::command::cargo;

const USAGE: &str = "\
cargo xtask <word>

  build              prepare the tools, build the plugins, then the `pilothouse` binary
  up [flags]         build, then run `pilothouse up` with these flags (try: --nodes 3)
  test [filter]      build, fetch clients and servers, check format and lints, run every test
  tools              fetch the clients and servers that the tests need into target/tools
  bench [name]       build, then print the figures of tests/bench
  dist               build, then pack target/dist/pilothouse-<version>.tar.gz
";

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    env::set_current_dir(&root)?;
    let words: Vec<String> = env::args().skip(1).collect();
    let rest = words.get(1..).unwrap_or_default();
    match words.first().map(String::as_str) {
        None | Some("help" | "--help" | "-h") => print!("{USAGE}"),
        Some("build") => build()?,
        Some("up") => up(rest)?,
        Some("test") => test(rest)?,
        Some("tools") => fetch()?,
        Some("bench") => bench(rest)?,
        Some("dist") => {
            build()?;
            dist::pack()?;
        }
        Some(word) => bail!("`{word}` is not a word of xtask\n\n{USAGE}"),
    }
    Ok(())
}

fn fetch() -> Result<()> {
    tools::install_clients_and_servers()?;
    tools::install_client_libraries()?;
    tools::install_plugin_tools()
}

fn build() -> Result<()> {
    tools::install_protoc()?;
    tools::add_wasm_target()?;
    plugins::build()?;
    cargo(["build", "--release", "--package", "pilothouse"])
}

/// Compiles the plugins ahead, so that even the first start compiles nothing, and becomes `pilothouse up`.
fn up(flags: &[String]) -> Result<()> {
    build()?;
    command::run(plugins::pilothouse(), ["plugin", "precompile"], &[])?;
    command::become_process(
        &plugins::pilothouse(),
        ["up"].into_iter().chain(flags.iter().map(String::as_str)),
    )
}

fn test(filter: &[String]) -> Result<()> {
    cargo(["fmt", "--all", "--check"])?;
    build()?;
    fetch()?;
    cargo([
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ])?;
    // Not one process a test: the tests of a binary share the components that they compile.
    let words = ["test", "--release", "--workspace", "--no-fail-fast"];
    cargo(words.into_iter().chain(filter.iter().map(String::as_str)))
}

fn bench(names: &[String]) -> Result<()> {
    build()?;
    let words = ["run", "--release", "--package", "pilothouse-bench", "--"];
    cargo(words.into_iter().chain(names.iter().map(String::as_str)))
}
