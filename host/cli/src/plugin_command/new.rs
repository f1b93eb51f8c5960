//! `pilothouse plugin new`: a project that builds and passes its contract as it stands.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::kit::{self, Language};

/// What the plugin of a new project is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PluginKind {
    /// Changes and judges objects before they are stored.
    Admission,
    /// Says which nodes a pod may go to.
    Filter,
    /// Says which nodes a pod had better go to.
    Score,
    /// Brings the cluster nearer to what objects ask.
    Controller,
}

impl PluginKind {
    fn word(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Filter => "filter",
            Self::Score => "score",
            Self::Controller => "controller",
        }
    }
}

/// What the templates call the plugin.
const PLACEHOLDER: &str = "plugin-name";

/// Makes the folder `path`, whose last part is the plugin's name, and says how to go on.
pub(super) fn run(kind: PluginKind, language: Language, path: &Path) -> Result<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    check_name(&name)?;
    ensure!(
        !path.exists(),
        "{} exists already; nothing was changed",
        path.display()
    );
    fs::create_dir_all(path)?;
    let common = format!("plugins/templates/{}/common", language.word());
    let own = format!("plugins/templates/{}/{}", language.word(), kind.word());
    for (file, content) in kit::below(&common).chain(kit::below(&own)) {
        let text = std::str::from_utf8(content)?.replace(PLACEHOLDER, &name);
        kit::write(&path.join(file), text.as_bytes())?;
    }
    kit::write(
        &path.join(".gitignore"),
        b"/build\n/target\n/node_modules\n",
    )?;
    kit::lay(path, language)?;
    let shown = path.display();
    Ok(format!(
        "{shown} is a project of its own. Next:\n\n    pilothouse plugin build {shown}\n    pilothouse plugin test {shown}/build/{name}.wasm\n    cp {shown}/build/{name}.wasm <data-dir>/plugins/\n"
    ))
}

/// It becomes the name of a crate, a WIT package and a Plugin object.
fn check_name(name: &str) -> Result<()> {
    let legal = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    ensure!(
        name.len() <= 63 && name.split('-').all(legal),
        "{name:?} is no name for a plugin: at most 63 lower-case letters and digits in words that begin with a letter and are \
         joined by \"-\", such as team-label"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_crates_packages_and_objects() {
        let cases = [
            ("team-label", true),
            ("a", true),
            ("v2-check", true),
            ("", false),
            ("Team", false),
            ("team_label", false),
            ("-team", false),
            ("team-2", false), // no word of a WIT name begins with a digit
            ("a.b", false),
        ];
        for (name, legal) in cases {
            assert_eq!(check_name(name).is_ok(), legal, "{name:?}");
        }
        assert!(check_name(&"a".repeat(64)).is_err());
    }

    #[test]
    fn every_kind_has_a_template_in_every_language() {
        for language in Language::value_variants() {
            for kind in PluginKind::value_variants() {
                let folder = tempfile::tempdir().unwrap();
                let project = folder.path().join("my-plugin");
                run(*kind, *language, &project).unwrap();
                assert_eq!(Language::of(&project).unwrap(), *language);
                let main = fs::read_to_string(project.join(language.main_file())).unwrap();
                assert!(!main.contains(PLACEHOLDER), "{language:?} {kind:?}");
                assert!(run(*kind, *language, &project).is_err());
            }
        }
    }
}
