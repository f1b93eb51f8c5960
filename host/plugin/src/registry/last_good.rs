//! The last version of each user's component that was active, kept on disk: if its file is broken at the next start, it serves.

use std::{fs, io, path::PathBuf};

use crate::cache::replace;

pub(super) struct LastGood {
    dir: PathBuf,
}

impl LastGood {
    pub(super) fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    pub(super) async fn keep(&self, name: &str, wasm: &[u8]) {
        let (path, wasm) = (self.path(name), wasm.to_vec());
        let kept = tokio::task::spawn_blocking(move || match fs::read(&path) {
            Ok(old) if old == wasm => Ok(()),
            _ => replace(&path, &wasm),
        });
        match kept.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(component = name, %error, "cannot keep a good version")
            }
            Err(error) => tracing::warn!(component = name, %error, "cannot keep a good version"),
        }
    }

    pub(super) async fn read(&self, name: &str) -> Option<Vec<u8>> {
        tokio::fs::read(self.path(name)).await.ok()
    }

    /// Nothing to forget is fine.
    pub(super) async fn forget(&self, name: &str) {
        if let Err(error) = tokio::fs::remove_file(self.path(name)).await
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(component = name, %error, "cannot forget a removed plugin");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.wasm"))
    }
}
