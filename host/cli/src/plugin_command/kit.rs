//! What a plugin project is made of, carried in the binary: the interfaces, the SDKs, the templates of `plugin new`.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

/// Path below the repository's root, and content.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/kit.rs"));

/// The languages that a project can be made and built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    Rust,
    Python,
    Js,
    C,
}

impl Language {
    /// The language of a project, by its main file.
    pub(super) fn of(project: &Path) -> Result<Self> {
        let all = Self::value_variants();
        let found = all.iter().find(|l| project.join(l.main_file()).is_file());
        match found {
            Some(language) => Ok(*language),
            None => bail!(
                "{} is no plugin project: it has none of {}",
                project.display(),
                all.iter()
                    .map(|l| l.main_file())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        }
    }

    /// What tells a project of this language.
    pub(super) fn main_file(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "plugin.py",
            Self::Js => "plugin.js",
            Self::C => "plugin.c",
        }
    }

    /// As `--lang` and the folder of templates call it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Js => "js",
            Self::C => "c",
        }
    }
}

/// The files below a folder of the kit, by their paths in it.
pub(super) fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let prefix = format!("{folder}/");
    FILES
        .iter()
        .filter_map(move |(path, content)| Some((path.strip_prefix(&prefix)?, *content)))
}

/// Lays what the project builds on into its `build/`: the SDK of its language in `build/sdk`, the interfaces with the project's
/// own `world.wit` in `build/wit`. Files that are as they should be are left alone, so that nothing is built again.
pub(super) fn lay(project: &Path, language: Language) -> Result<()> {
    let build = project.join("build");
    let sdk = build.join("sdk");
    if language == Language::Rust {
        write(&sdk.join("Cargo.toml"), sdk_workspace()?.as_bytes())?;
        copy("plugins/sdk", &sdk.join("plugins/sdk"))?;
        return copy("wit", &sdk.join("wit"));
    }
    copy(&format!("plugins/sdk-{}", language.word()), &sdk)?;
    copy("wit", &build.join("wit/deps"))?;
    let world = project.join("world.wit");
    let text = fs::read(&world).with_context(|| format!("reading {}", world.display()))?;
    write(&build.join("wit/world.wit"), &text)
}

fn copy(folder: &str, to: &Path) -> Result<()> {
    for (path, content) in below(folder) {
        write(&to.join(path), content)?;
    }
    Ok(())
}

/// Writes a file unless it has this content already.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// The workspace that the SDK's manifest inherits from: this repository's, with the SDK as its only member.
fn sdk_workspace() -> Result<String> {
    let (_, root) = FILES
        .iter()
        .find(|(path, _)| *path == "Cargo.toml")
        .context("the kit has no Cargo.toml")?;
    let root = std::str::from_utf8(root)?;
    let inherited = root
        .find("[workspace.package]")
        .zip(root.find("[profile."))
        .and_then(|(from, to)| root.get(from..to))
        .context("the workspace's manifest has not its usual order")?;
    Ok(format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"plugins/sdk\"]\n\n{inherited}"
    ))
}
