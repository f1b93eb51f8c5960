//! `pilothouse plugin build`: calls the ordinary tools of a project's language; what is missing is said with how to get it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    c_component,
    kit::{self, Language},
};

/// Builds the project to `build/<name>.wasm` and returns that path.
pub(super) fn run(project: &Path) -> Result<PathBuf> {
    let language = Language::of(project)?;
    let project = project.canonicalize()?;
    kit::lay(&project, language)?;
    match language {
        Language::Rust => rust(&project),
        Language::Python => python(&project),
        Language::Js => javascript(&project),
        Language::C => c(&project),
    }
}

const WASM_TARGET: &str = "wasm32-wasip2";

fn rust(project: &Path) -> Result<PathBuf> {
    let cargo = tool(project, "cargo", "install Rust from https://rustup.rs")?;
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let target = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(WASM_TARGET);
    ensure!(
        target.is_dir(),
        "the target {WASM_TARGET} is not installed: run `rustup target add {WASM_TARGET}`"
    );
    let messages = output(Command::new(cargo).current_dir(project).args([
        "build",
        "--release",
        "--target",
        WASM_TARGET,
        "--message-format=json-render-diagnostics",
    ]))?;
    let built = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let files = message["filenames"].as_array()?;
        let wasm = files
            .iter()
            .filter_map(|file| file.as_str())
            .find(|file| file.ends_with(".wasm"))?;
        Some((
            message["target"]["name"].as_str()?.to_owned(),
            PathBuf::from(wasm),
        ))
    });
    let (name, wasm) =
        built.context("cargo made no component: Cargo.toml needs `crate-type = [\"cdylib\"]`")?;
    let to = component(project, &name.replace('_', "-"));
    fs::copy(&wasm, &to).with_context(|| format!("copying {}", wasm.display()))?;
    Ok(to)
}

fn python(project: &Path) -> Result<PathBuf> {
    let componentize = tool(
        project,
        "componentize-py",
        "run `pip install componentize-py==0.25.1`",
    )?;
    let to = component(project, &world_name(project)?);
    call(
        Command::new(componentize)
            .current_dir(project)
            .args(["--quiet", "--wit-path", "build/wit", "componentize"])
            .args(["--python-path", ".", "--python-path", "build/sdk"])
            .arg("--output")
            .arg(&to)
            .arg("plugin"),
    )?;
    Ok(to)
}

fn javascript(project: &Path) -> Result<PathBuf> {
    let componentize = tool(
        project,
        "componentize-qjs",
        "run `npm install` in the project, whose package.json asks for it",
    )?;
    let to = component(project, &world_name(project)?);
    call(
        Command::new(componentize)
            .current_dir(project)
            .args(["--wit", "build/wit", "--js", "plugin.js"])
            .args(["--module-root", ".", "--sync", "--output"])
            .arg(&to)
            .stdout(Stdio::null()),
    )?;
    Ok(to)
}

/// The bindings and the component are made here, by the libraries of `wit-bindgen c` and `wasm-tools component new`, so that
/// a C compiler is all that is asked for.
fn c(project: &Path) -> Result<PathBuf> {
    let (compiler, words) = c_compiler(project)?;
    let generated = project.join("build/c");
    c_component::write_bindings(&project.join("build/wit"), &generated)?;
    let module = project.join("build/module.wasm");
    call(
        Command::new(compiler)
            .current_dir(project)
            .args(words)
            .args(["-mexec-model=reactor", "-O2", "-s", "-Wall", "-Wextra"])
            .args(["-Ibuild/c", "-Ibuild/sdk", "-o"])
            .arg(&module)
            .args(files(project, "c")?)
            .args(files(&generated, "c")?)
            .args(files(&generated, "o")?),
    )?;
    let to = component(project, &world_name(project)?);
    kit::write(&to, &c_component::encode(&module)?)?;
    Ok(to)
}

/// A C compiler for WebAssembly with a C library, and the words it begins with: wasi-sdk's, zig's (also as the Python package
/// that carries it), or clang where the distribution's wasi-libc is installed.
fn c_compiler(project: &Path) -> Result<(PathBuf, &'static [&'static str])> {
    const TARGET: &str = "--target=wasm32-wasi";
    if let Some(sdk) = env::var_os("WASI_SDK_PATH") {
        let clang = Path::new(&sdk).join("bin/clang");
        ensure!(
            clang.is_file(),
            "WASI_SDK_PATH is set, but there is no {}",
            clang.display()
        );
        return Ok((clang, &["--target=wasm32-wasip1"]));
    }
    for name in ["zig", "python-zig"] {
        if let Some(zig) = find(project, name) {
            return Ok((zig, &["cc", TARGET]));
        }
    }
    match find(project, "clang") {
        Some(clang) if Path::new("/usr/include/wasm32-wasi").is_dir() => Ok((clang, &[TARGET])),
        _ => bail!(
            "no C compiler for WebAssembly is found: run `pip install ziglang`, or set WASI_SDK_PATH to a wasi-sdk, or install \
             clang, lld, wasi-libc and libclang-rt-dev-wasm32"
        ),
    }
}

/// `build/<name>.wasm`
fn component(project: &Path, name: &str) -> PathBuf {
    project.join("build").join(format!("{name}.wasm"))
}

/// The name of the project: that of the WIT package of its world, `package plugin:<name>;`.
fn world_name(project: &Path) -> Result<String> {
    let world = project.join("world.wit");
    let text =
        fs::read_to_string(&world).with_context(|| format!("reading {}", world.display()))?;
    let name = text.lines().find_map(|line| {
        let package = line.trim().strip_prefix("package ")?;
        let (_, name) = package.trim_end_matches(';').split_once(':')?;
        name.split('@').next()
    });
    name.map(str::to_owned)
        .with_context(|| format!("{} names no package", world.display()))
}

/// The files right in a folder with this extension, in the order of their names.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A program of the project (`.venv`, `node_modules`) or of the path; an error that says how to get it.
fn tool(project: &Path, name: &str, how: &str) -> Result<PathBuf> {
    find(project, name).with_context(|| format!("{name} is not found: {how}"))
}

fn find(project: &Path, name: &str) -> Option<PathBuf> {
    let own = project
        .ancestors()
        .flat_map(|folder| [folder.join(".venv/bin"), folder.join("node_modules/.bin")]);
    let path = env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = env::split_paths(&path).collect();
    own.chain(path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Runs a tool to its end, what it prints shown.
fn call(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(
        status.success(),
        "{} failed",
        command.get_program().display()
    );
    Ok(())
}

/// What a tool prints on its standard output; its errors are shown.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{} failed",
        command.get_program().display()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_how_to_get_it() {
        let project = tempfile::tempdir().unwrap();
        let error = tool(project.path(), "no-such-tool", "run `get it`").unwrap_err();
        assert_eq!(error.to_string(), "no-such-tool is not found: run `get it`");
        let own = project.path().join(".venv/bin");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("no-such-tool"), "").unwrap();
        let found = tool(project.path(), "no-such-tool", "").unwrap();
        assert_eq!(found, own.join("no-such-tool"));
    }

    #[test]
    fn a_project_is_named_by_its_world() {
        let project = tempfile::tempdir().unwrap();
        for (world, expected) in [
            (
                "package plugin:team-label;\n\nworld plugin {}",
                Some("team-label"),
            ),
            ("// ours\npackage acme:check@1.2.0;", Some("check")),
            ("world plugin {}", None),
        ] {
            fs::write(project.path().join("world.wit"), world).unwrap();
            assert_eq!(world_name(project.path()).ok().as_deref(), expected);
        }
    }
}
