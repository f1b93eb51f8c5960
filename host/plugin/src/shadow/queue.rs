//! Work that nobody waits for, one after the other, so that a shadow uses one core at most.

use std::sync::OnceLock;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

/// What may wait; what comes then is dropped.
const WAITING: usize = 256;

type Work = BoxFuture<'static, ()>;

/// A bounded queue with one worker, which ends when the queue is dropped.
#[derive(Default)]
pub(super) struct Queue(OnceLock<mpsc::Sender<Work>>);

impl Queue {
    /// Does it some time; answers whether there was room for it. Within a tokio runtime only.
    pub(super) fn offer<W: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce() -> W,
    ) -> bool {
        let queue = self.0.get_or_init(|| {
            let (queue, mut waiting) = mpsc::channel::<Work>(WAITING);
            tokio::spawn(async move {
                while let Some(work) = waiting.recv().await {
                    work.await;
                    tokio::task::yield_now().await; // those that are waited for come first
                }
            });
            queue
        });
        match queue.try_reserve() {
            Ok(place) => {
                place.send(Box::pin(work()));
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_is_turned_down_at_once() {
        let (queue, gate) = (Queue::default(), Arc::new(Semaphore::new(0)));
        let offer = || {
            let gate = Arc::clone(&gate);
            queue.offer(|| async move { drop(gate.acquire().await) })
        };
        assert!((0..WAITING).all(|_| offer()));
        tokio::task::yield_now().await; // one is being worked on
        assert!(offer());
        assert!(!offer());
        gate.add_permits(1);
        while !offer() {
            tokio::task::yield_now().await;
        }
    }
}
