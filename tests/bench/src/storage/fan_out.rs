//! One change and many watches of the cache that want to know of it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use pilothouse_storage::{Storage, WatchCache};
use tokio::{sync::Notify, task::JoinSet};

use super::{create, open, pod, pods};
use crate::print;

const CHANGES: usize = 100;

/// From the write until the last watch has its event.
pub(super) async fn fan_out(dir: &Path) -> Result<()> {
    let storage: Arc<dyn Storage> = Arc::new(open(&dir.join("fan-out"))?);
    let cache = WatchCache::start(storage.clone(), pods());
    cache.ready(Duration::from_secs(60)).await?;
    let mut written = 0;
    for watches in [10, 100, 1000, 10_000] {
        let seen = Arc::new((AtomicUsize::new(0), Notify::new()));
        let mut tasks = JoinSet::new();
        for _ in 0..watches {
            let (mut watch, seen) = (cache.subscribe(None, None)?, seen.clone());
            tasks.spawn(async move {
                let mut events = 0;
                while events < CHANGES {
                    let batch = watch.next().await?;
                    events += batch.events.len();
                    if seen.0.fetch_add(batch.events.len(), Ordering::Relaxed) + 1 >= watches {
                        seen.1.notify_one();
                    }
                }
                anyhow::Ok(())
            });
        }
        let mut times = Vec::new();
        for _ in 0..CHANGES {
            let before = Instant::now();
            create(&*storage, written, pod(written, 2000)).await?;
            written += 1;
            while seen.0.load(Ordering::Relaxed) < watches {
                seen.1.notified().await;
            }
            seen.0.store(0, Ordering::Relaxed);
            times.push(before.elapsed());
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        ensure!(times.len() == CHANGES, "a change is missing");
        times.sort_unstable();
        print(
            &format!("write until {watches} watches of the cache have it"),
            times[CHANGES / 2].as_secs_f64() * 1e6,
            "µs",
            &format!("p50; p99 {:?}", times[CHANGES * 99 / 100]),
        );
    }
    Ok(())
}
