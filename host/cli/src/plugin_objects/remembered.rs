//! The specs of users' plugins as they were last in force, kept beside their versions: at the next start a plugin serves with
//! them before the API, which has the objects, can be asked. A plugin in shadow, or narrowed to a namespace, stays so.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use pilothouse_api::plugin_kind::{Plugin, PluginSpec};
use pilothouse_plugin::Settings;

use super::settings;

/// `<dir>/<plugin>/spec.json`; cheap to clone.
#[derive(Clone)]
pub(crate) struct Remembered {
    dir: PathBuf,
    /// What was written since the start.
    written: Arc<Mutex<BTreeMap<String, PluginSpec>>>,
}

impl Remembered {
    /// The directory in which the versions of plugins are kept, too, so that it goes with them.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            written: Arc::default(),
        }
    }

    /// Notes what is in force. That it cannot be noted is no reason to do without it.
    pub(super) fn keep(&self, name: &str, spec: &PluginSpec) {
        let mut written = self.written.lock();
        if written.get(name) == Some(spec) {
            return;
        }
        let file = self.file(name);
        match write(&file, spec) {
            Ok(()) => _ = written.insert(name.to_owned(), spec.clone()),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the settings of a plugin are not kept for the next start");
            }
        }
    }

    /// The settings that a plugin had last.
    pub(crate) fn settings(&self, name: &str) -> Option<Settings> {
        let json = fs::read(self.file(name)).ok()?;
        let object = Plugin {
            spec: serde_json::from_slice(&json).ok()?,
            ..Plugin::default()
        };
        Some(settings::of(&object))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("spec.json")
    }
}

fn write(file: &Path, spec: &PluginSpec) -> io::Result<()> {
    let json = serde_json::to_vec(spec)?;
    if fs::read(file).is_ok_and(|old| old == json) {
        return Ok(());
    }
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir)?;
    }
    let new = file.with_extension("json.new");
    fs::write(&new, json)?;
    fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use pilothouse_api::plugin_kind::PluginMode;
    use pilothouse_plugin::Mode;

    use super::*;

    #[test]
    fn the_next_process_has_the_settings_of_the_last() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let remembered = || Remembered::new(dir.path().to_owned());
        let spec = PluginSpec {
            mode: Some(PluginMode::Shadow),
            ..PluginSpec::default()
        };
        remembered().keep("judge", &spec);
        let mode = |name: &str| remembered().settings(name).map(|settings| settings.mode);
        assert_eq!(mode("judge"), Some(Mode::Shadow));
        assert_eq!(mode("other"), None);
        fs::write(dir.path().join("judge/spec.json"), "{")?;
        assert_eq!(mode("judge"), None);
        Ok(())
    }
}
