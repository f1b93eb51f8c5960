//! `--snapshot-every`: snapshots in a directory, of which the newest are kept.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use pilothouse_storage::{Storage, snapshot};
use tokio_util::sync::CancellationToken;

use crate::flags::ApiServerFlags;

/// What our files are called: `snapshot-2026-01-31T12-00-00Z.snap`. Names are in the order of time.
const PREFIX: &str = "snapshot-";
const SUFFIX: &str = ".snap";

/// Takes snapshots as the flags want them, until the process stops.
pub(crate) fn schedule(
    storage: &Arc<dyn Storage>,
    flags: &ApiServerFlags,
    stopping: &CancellationToken,
) {
    let Some(every) = flags.snapshot_every else {
        return;
    };
    let dir = flags.snapshot_dir.clone();
    let dir = dir.unwrap_or_else(|| flags.common.data_dir.join("snapshots"));
    let (storage, keep) = (Arc::downgrade(storage), flags.snapshot_keep.max(1));
    let stopping = stopping.clone();
    tokio::spawn(async move {
        let running = async {
            loop {
                tokio::time::sleep(every.max(Duration::from_secs(1))).await;
                let Some(storage) = storage.upgrade() else {
                    return;
                };
                match save(&*storage, &dir, SystemTime::now(), keep).await {
                    Ok(file) => tracing::info!(file = %file.display(), "snapshot saved"),
                    Err(error) => {
                        tracing::error!("snapshot: {error:#}; the next attempt is in {every:?}")
                    }
                }
            }
        };
        stopping.run_until_cancelled(running).await;
    });
}

/// Saves one, and removes the oldest beyond `keep` once it is there.
async fn save(storage: &dyn Storage, dir: &Path, now: SystemTime, keep: usize) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let time = humantime::format_rfc3339_seconds(now).to_string();
    let file = dir.join(format!("{PREFIX}{}{SUFFIX}", time.replace(':', "-")));
    let parts = storage.snapshot().await?;
    snapshot::write_file(parts, &file).await?;
    for old in beyond(dir, keep)? {
        fs::remove_file(&old).with_context(|| format!("removing {}", old.display()))?;
    }
    Ok(file)
}

/// Our own files but the newest `keep`.
fn beyond(dir: &Path, keep: usize) -> Result<Vec<PathBuf>> {
    let mut ours = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            ours.push(entry.path());
        }
    }
    ours.sort_unstable();
    ours.truncate(ours.len().saturating_sub(keep));
    Ok(ours)
}

#[cfg(test)]
mod tests {
    use pilothouse_storage::{Embedded, EmbeddedOptions};

    use super::*;

    #[tokio::test]
    async fn the_newest_are_kept_and_other_files_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let storage = Embedded::open(EmbeddedOptions::new(dir.path().join("db"))).unwrap();
        let snapshots = dir.path().join("snapshots");
        fs::create_dir_all(&snapshots).unwrap();
        for other in ["notes.snap", "snapshot-of-mine.db"] {
            fs::write(snapshots.join(other), "").unwrap();
        }
        for minute in 0..5 {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(60 * minute);
            let saved = save(&storage, &snapshots, now, 2).await.unwrap();
            snapshot::status(&saved).unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(&snapshots)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "notes.snap",
                "snapshot-1970-01-01T00-03-00Z.snap",
                "snapshot-1970-01-01T00-04-00Z.snap",
                "snapshot-of-mine.db",
            ]
        );
    }
}
