//! The watched directory: a `.wasm` file in it is a component under the file's name; overwriting swaps, deleting removes.
//! A new version takes over the settings of the one that it replaces. A file `<name>.disabled`, whatever is in it, forbids that the
//! component of that name is called, also one that ships with the host: it works when nothing else does.
//!
//! Events of the file system only say that it is time to look; what is done follows from looking. A file is loaded once two
//! looks in a row see the same size and time, so that half of one is not taken for the whole; without events a look is taken
//! every two seconds, for file systems that give none.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use notify::{RecursiveMode, Watcher};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{PluginRegistry, Source};
use crate::error::LoadError;

/// Between two looks at a file that changes.
const SETTLE: Duration = Duration::from_millis(20);
/// Between looks without an event.
const POLL: Duration = Duration::from_secs(2);
/// Larger files are not read.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    stamp: Stamp,
    loaded: bool,
}

/// Keeps a registry in step with a directory.
pub struct PluginDirectory {
    dir: PathBuf,
    registry: PluginRegistry,
    seen: BTreeMap<PathBuf, Seen>,
    /// One a file at most. A load is given up when its file changes or goes, so that one that takes long holds up nothing.
    loads: BTreeMap<PathBuf, AbortOnDropHandle<()>>,
}

impl PluginDirectory {
    /// Makes the directory if it is not there.
    pub fn open(dir: impl Into<PathBuf>, registry: PluginRegistry) -> io::Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir)?;
        Ok(Self {
            dir,
            registry,
            seen: BTreeMap::new(),
            loads: BTreeMap::new(),
        })
    }

    /// Loads what is there, for a start: files are taken as they are.
    pub async fn load_all(&mut self) {
        self.look().await;
        self.look().await;
        for (_, load) in std::mem::take(&mut self.loads) {
            _ = load.await; // one that panicked has said so
        }
    }

    /// Follows the directory until cancelled; also ends the quarantines of the registry when they are over.
    pub async fn run(mut self, stop: CancellationToken) {
        let (wake, mut woken) = mpsc::channel(1);
        let watcher = watch(&self.dir, wake);
        if let Err(error) = &watcher {
            let dir = self.dir.display();
            tracing::warn!(%dir, %error, "no events of the plugin directory; it is looked at every two seconds");
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timeout(POLL, woken.recv()) => {}
            }
            while self.look().await {
                sleep(SETTLE).await;
            }
            self.registry.release_quarantined();
        }
    }

    /// Compares the directory with what was seen last, and acts. Answers whether some file has to settle.
    async fn look(&mut self) -> bool {
        let now = match list(&self.dir) {
            Ok((now, disabled)) => {
                self.registry.disable_only(disabled);
                now
            }
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot read the plugin directory");
                return false;
            }
        };
        let gone: Vec<PathBuf> = self
            .seen
            .keys()
            .filter(|path| !now.contains_key(*path))
            .cloned()
            .collect();
        for path in gone {
            self.seen.remove(&path);
            self.give_up(&path).await;
            if let Some(name) = component_name(&path) {
                self.registry.remove(&name).await;
            }
        }
        let mut settling = false;
        for (path, stamp) in now {
            match self.seen.get(&path) {
                Some(seen) if seen.stamp == stamp && seen.loaded => {}
                Some(seen) if seen.stamp == stamp => {
                    self.seen.insert(
                        path.clone(),
                        Seen {
                            stamp,
                            loaded: true,
                        },
                    );
                    self.give_up(&path).await;
                    let load = load(self.registry.clone(), path.clone(), stamp);
                    let load = AbortOnDropHandle::new(tokio::spawn(load));
                    self.loads.insert(path, load);
                }
                _ => {
                    self.seen.insert(
                        path,
                        Seen {
                            stamp,
                            loaded: false,
                        },
                    );
                    settling = true;
                }
            }
        }
        settling
    }

    /// Ends the load of a file that is on its way, if one is.
    async fn give_up(&mut self, path: &Path) {
        if let Some(load) = self.loads.remove(path) {
            load.abort();
            _ = load.await;
        }
    }
}

/// Failures are in the registry's conditions.
async fn load(registry: PluginRegistry, path: PathBuf, stamp: Stamp) {
    let Some(name) = component_name(&path) else {
        tracing::warn!(path = %path.display(), "the file's name is no name for a plugin");
        return;
    };
    let source = Source::File(path.clone());
    if stamp.len > MAX_FILE_BYTES {
        let error = LoadError::Io(format!("it is larger than {MAX_FILE_BYTES} bytes"));
        registry.unreadable(&name, source, error);
        return;
    }
    match tokio::fs::read(&path).await {
        Ok(wasm) => {
            let settings = registry.user_settings(&name).unwrap_or_default();
            _ = registry.put(&name, &wasm, source, settings).await;
        }
        Err(error) => {
            let error = LoadError::Io(error.to_string());
            registry.unreadable(&name, source, error);
        }
    }
}

/// The `.wasm` files, without hidden ones, and the components that are disabled.
fn list(dir: &Path) -> io::Result<(BTreeMap<PathBuf, Stamp>, BTreeSet<String>)> {
    let (mut found, mut disabled) = (BTreeMap::new(), BTreeSet::new());
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        match path.extension().and_then(OsStr::to_str) {
            _ if hidden => continue,
            Some("wasm") => {}
            Some("disabled") => {
                disabled.extend(component_name(&path));
                continue;
            }
            _ => continue,
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => _ = found.insert(path, stamp(&metadata)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {} // it went while we looked
            Err(error) => {
                // one that cannot be looked at, such as a link to itself, holds up no other
                tracing::warn!(path = %path.display(), %error, "a file of the plugin directory is passed over");
            }
        }
    }
    Ok((found, disabled))
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    Stamp {
        len: metadata.len(),
        modified: metadata.modified().ok(),
        #[cfg(unix)]
        inode: std::os::unix::fs::MetadataExt::ino(metadata),
    }
}

/// The name of a component from its file's: a DNS label, as its Plugin object needs one. `My_Filter.wasm` is `my-filter`.
pub fn component_name(path: &Path) -> Option<String> {
    let name = path
        .file_stem()?
        .to_str()?
        .to_ascii_lowercase()
        .replace('_', "-");
    let valid = !name.is_empty()
        && name.len() <= 63
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    valid.then_some(name)
}

/// Wakes the receiver at any event; one wake is enough for many events.
fn watch(dir: &Path, wake: mpsc::Sender<()>) -> notify::Result<notify::RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let read_only = event.is_ok_and(|event| {
            let closed = notify::event::AccessKind::Close(notify::event::AccessMode::Write);
            event.kind.is_access() && event.kind != notify::EventKind::Access(closed)
        });
        if !read_only {
            _ = wake.try_send(()); // full: it wakes already; closed: nobody looks any more
        }
    })?;
    watcher.watch(dir, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_files() {
        let cases = [
            ("my-filter.wasm", Some("my-filter")),
            ("dir/My_Filter.wasm", Some("my-filter")),
            ("a.b.wasm", None),
            ("-.wasm", None),
            ("föhn.wasm", None),
        ];
        for (path, expected) in cases {
            assert_eq!(
                component_name(Path::new(path)).as_deref(),
                expected,
                "{path}"
            );
        }
    }
}
