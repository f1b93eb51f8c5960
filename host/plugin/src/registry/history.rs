//! The versions of each user's component that were active, kept on disk: the newest serves if its file is broken at the next
//! start, the older ones are what `pilothouse plugin rollback` goes back to.
//!
//! `<dir>/<component>/<number>-<digest>.wasm`; the highest number was active last.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{cache::replace, revision::Digest};

/// The history of all components of a process.
#[derive(Clone, Debug)]
pub struct History {
    dir: PathBuf,
}

/// One version that was active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRevision {
    /// `sha256:…`
    pub digest: String,
    pub path: PathBuf,
    number: u64,
}

impl History {
    /// Makes the directory.
    pub fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// The versions of a component, the one that was active last first.
    pub fn list(&self, name: &str) -> io::Result<Vec<PastRevision>> {
        let entries = match fs::read_dir(self.dir.join(name)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            found.extend(PastRevision::at(entry?.path()));
        }
        found.sort_by_key(|revision| std::cmp::Reverse(revision.number));
        Ok(found)
    }

    /// Notes that a version is active now, and forgets all but `limit` of those before it. Answers the digests that are kept, the newest
    /// first.
    pub(super) async fn keep(&self, name: &str, wasm: &[u8], limit: usize) -> Vec<String> {
        let (history, component, wasm) = (self.clone(), name.to_owned(), wasm.to_vec());
        let kept =
            tokio::task::spawn_blocking(move || history.keep_now(&component, &wasm, limit)).await;
        match kept.map_err(io::Error::other).flatten() {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(component = name, %error, "cannot keep a good version");
                Vec::new()
            }
        }
    }

    fn keep_now(&self, name: &str, wasm: &[u8], limit: usize) -> io::Result<Vec<String>> {
        let digest = Digest::of(wasm).to_string();
        let mut revisions = self.list(name)?;
        let newest = revisions.first();
        if newest.is_none_or(|newest| newest.digest != digest) {
            let number = newest.map_or(1, |newest| newest.number + 1);
            let dir = self.dir.join(name);
            fs::create_dir_all(&dir)?;
            let hexadecimal = digest.trim_start_matches(DIGEST_PREFIX);
            let path = dir.join(format!("{number:06}-{hexadecimal}.wasm"));
            replace(&path, wasm)?;
            let known = revisions.iter().position(|old| old.digest == digest);
            if let Some(again) = known {
                fs::remove_file(&revisions.remove(again).path)?;
            }
            let revision = PastRevision {
                digest,
                path,
                number,
            };
            revisions.insert(0, revision);
        }
        while revisions.len() > limit + 1 {
            if let Some(oldest) = revisions.pop() {
                fs::remove_file(&oldest.path)?;
            }
        }
        Ok(revisions.into_iter().map(|kept| kept.digest).collect())
    }

    /// The bytes of the versions but `but`, what was active last first; those that are damaged are left out.
    pub(super) async fn versions(&self, name: &str, but: Option<Digest>) -> Vec<Vec<u8>> {
        let but = but.map(|digest| digest.to_string());
        let mut versions = Vec::new();
        for past in self.list(name).unwrap_or_default() {
            if but.as_ref() == Some(&past.digest) {
                continue;
            }
            match tokio::fs::read(&past.path).await {
                Ok(wasm) if Digest::of(&wasm).to_string() == past.digest => versions.push(wasm),
                _ => {
                    tracing::warn!(component = name, path = %past.path.display(), "a version that was kept is damaged");
                }
            }
        }
        versions
    }

    /// Nothing to forget is fine.
    pub(super) async fn forget(&self, name: &str) {
        if let Err(error) = tokio::fs::remove_dir_all(self.dir.join(name)).await
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(component = name, %error, "cannot forget a removed plugin");
        }
    }
}

const DIGEST_PREFIX: &str = "sha256:";

impl PastRevision {
    /// From a file's name; other files are none of ours.
    fn at(path: PathBuf) -> Option<Self> {
        let name = Path::new(path.file_name()?);
        let stem = name
            .extension()
            .filter(|e| *e == "wasm")
            .and(name.file_stem())?;
        let (number, digest) = stem.to_str()?.split_once('-')?;
        Some(Self {
            digest: format!("{DIGEST_PREFIX}{digest}"),
            number: number.parse().ok()?,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_come_first_each_once_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let history = History::open(dir.path().join("revisions")).unwrap();
        let kept = |versions: &str, limit| {
            let mut kept = Vec::new();
            for version in versions.chars() {
                kept = history
                    .keep_now("it", version.to_string().as_bytes(), limit)
                    .unwrap();
            }
            kept
        };
        let digests = |versions: &str| -> Vec<String> {
            let digest = |version: char| Digest::of(version.to_string().as_bytes()).to_string();
            versions.chars().map(digest).collect()
        };
        assert_eq!(kept("abc", 5), digests("cba"));
        assert_eq!(kept("cc", 5), digests("cba"));
        assert_eq!(kept("a", 5), digests("acb"));
        assert_eq!(kept("de", 2), digests("eda"));
        let listed = history.list("it").unwrap();
        assert_eq!(fs::read(&listed[1].path).unwrap(), b"d");
        assert_eq!(history.list("other").unwrap(), []);
    }
}
