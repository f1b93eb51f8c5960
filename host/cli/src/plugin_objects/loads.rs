//! The loads that Plugin objects ask for, each in a task of its own: one that takes long, such as a plugin that sleeps in its
//! contract, holds up no other.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pilothouse_plugin::{Digest, Settings};
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::AbortOnDropHandle;

/// How long the same is not tried again.
const PAUSE: Duration = Duration::from_secs(5);

/// One task a component at most; the newest wish counts.
pub(super) struct Loads {
    tasks: BTreeMap<String, Load>,
    /// Woken when a load has ended, whichever way.
    wake: Arc<Notify>,
}

struct Load {
    wish: Wish,
    begun: Instant,
    ended: Arc<AtomicBool>,
    task: AbortOnDropHandle<()>,
}

/// What a load is for: these settings in place of what serves now.
#[derive(Clone, PartialEq)]
pub(super) struct Wish {
    pub(super) settings: Settings,
    pub(super) active: Option<Digest>,
    /// Of a candidate.
    pub(super) weight: Option<u8>,
}

impl Loads {
    pub(super) fn new(wake: Arc<Notify>) -> Self {
        Self {
            tasks: BTreeMap::new(),
            wake,
        }
    }

    /// Begins a load, and gives up one for another wish. The same wish is left alone while its load runs, and for a while after.
    pub(super) fn begin<L>(&mut self, name: &str, wish: Wish, load: impl FnOnce() -> L)
    where
        L: Future<Output = ()> + Send + 'static,
    {
        if self.tasks.get(name).is_some_and(|load| {
            load.wish == wish && (load.is_running() || load.begun.elapsed() < PAUSE)
        }) {
            return;
        }
        self.tasks.remove(name); // given up before the next begins
        let ended = Arc::new(AtomicBool::new(false));
        let (load, end, wake) = (load(), Arc::clone(&ended), Arc::clone(&self.wake));
        let task = tokio::spawn(async move {
            load.await;
            end.store(true, Ordering::Release);
            wake.notify_one();
        });
        let load = Load {
            wish,
            begun: Instant::now(),
            ended,
            task: AbortOnDropHandle::new(task),
        };
        self.tasks.insert(name.to_owned(), load);
    }

    /// Gives up what is on its way: nobody wants it any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.tasks.remove(name);
    }

    /// Whether a load is on its way, so that what serves is not yet what is wanted.
    pub(super) fn is_loading(&self, name: &str) -> bool {
        self.tasks.get(name).is_some_and(Load::is_running)
    }
}

impl Load {
    fn is_running(&self) -> bool {
        !self.ended.load(Ordering::Acquire) && !self.task.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn wish(time_ms: u64) -> Wish {
        let mut settings = Settings::default();
        settings.limits.time_ms = time_ms;
        Wish {
            settings,
            active: None,
            weight: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_holds_up_no_other_and_gives_way_to_a_newer_wish() {
        let wake = Arc::new(Notify::new());
        let mut loads = Loads::new(Arc::clone(&wake));
        loads.begin("slow", wish(1), std::future::pending);
        loads.begin("quick", wish(1), || async {});
        wake.notified().await;
        assert!(loads.is_loading("slow") && !loads.is_loading("quick"));
        loads.begin("slow", wish(2), || async {});
        wake.notified().await;
        assert!(!loads.is_loading("slow"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_is_tried_again_after_a_pause() {
        let wake = Arc::new(Notify::new());
        let mut loads = Loads::new(Arc::clone(&wake));
        let tries = Arc::new(AtomicU32::new(0));
        let load = || {
            let tries = Arc::clone(&tries);
            async move { _ = tries.fetch_add(1, Ordering::SeqCst) }
        };
        loads.begin("it", wish(1), load);
        wake.notified().await;
        loads.begin("it", wish(1), load);
        tokio::task::yield_now().await;
        assert_eq!(tries.load(Ordering::SeqCst), 1);
        tokio::time::advance(PAUSE).await;
        loads.begin("it", wish(1), load);
        wake.notified().await;
        assert_eq!(tries.load(Ordering::SeqCst), 2);
    }
}
