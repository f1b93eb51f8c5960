//! The one watch over all keys that feeds the hub, and the short ones for watches that are behind.

use std::{sync::Arc, time::Duration};

use etcd_client::{WatchOptions, WatchResponse};
use futures::{StreamExt, stream::BoxStream};

use super::{
    Shared, convert,
    errors::{CallError, call},
};
use crate::engine::{Event, Result, Revision, StorageError, WatchBatch};

const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// Events of one answer, and the revision up to which nothing is missing.
type Answer = (Vec<Event>, Revision);

/// Publishes everything that happens, until it is aborted. After a lost connection it goes on from where it was; if etcd has
/// compacted that away meanwhile, every watch ends with `Compacted`.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut retry = FIRST_RETRY;
    loop {
        let Err(error) = pump(&shared, &mut retry).await else {
            continue;
        };
        tracing::warn!(%error, "etcd: the watch was interrupted, going on soon");
        if let StorageError::Compacted { .. } = error {
            match shared.current_revision().await {
                Ok(current) => shared.hub.break_watches(&error, current),
                Err(error) => tracing::warn!(%error, "etcd: cannot read the current revision"),
            }
        }
        tokio::time::sleep(retry).await;
        retry = LAST_RETRY.min(retry * 2);
    }
}

async fn pump(shared: &Shared, retry: &mut Duration) -> Result<()> {
    let mut answers = Answers::open(shared, shared.hub.published()).await?;
    loop {
        let (events, revision) = answers.next(shared).await?;
        *retry = FIRST_RETRY;
        shared.hub.publish(&events, revision);
    }
}

/// See [`crate::hub::Source::replay`]. Watches all keys too: `upto` is a revision that has an event, which ends the replay.
pub(super) fn replay(
    shared: Arc<Shared>,
    prefix: Arc<str>,
    after: Revision,
    upto: Revision,
) -> BoxStream<'static, Result<WatchBatch>> {
    let start = (None::<Answers>, after);
    Box::pin(futures::stream::try_unfold(
        start,
        move |(answers, reached)| {
            let (shared, prefix) = (shared.clone(), prefix.clone());
            async move {
                let (mut answers, mut reached) = (answers, reached);
                while reached < upto {
                    let open = match answers.take() {
                        Some(open) => open,
                        None => Answers::open(&shared, reached).await?,
                    };
                    let open = answers.insert(open);
                    let (mut events, revision) = open.next(&shared).await?;
                    reached = revision.min(upto);
                    events.retain(|e| e.kv.mod_revision <= upto && e.kv.key.starts_with(&*prefix));
                    if !events.is_empty() {
                        let batch = WatchBatch {
                            revision: reached,
                            events,
                        };
                        return Ok(Some((batch, (answers, reached))));
                    }
                }
                Ok(None)
            }
        },
    ))
}

/// The revision up to which etcd has compacted, if `asked` is before it.
pub(super) async fn compacted(shared: &Shared, asked: Revision) -> Option<Revision> {
    let before = Revision(asked.0.saturating_sub(1));
    let next = async { Answers::open(shared, before).await?.next(shared).await };
    match tokio::time::timeout(shared.timeout, next).await {
        Ok(Err(StorageError::Compacted { oldest, .. })) => Some(oldest),
        _ => None,
    }
}

/// A watch of all keys, answer by answer.
struct Answers {
    stream: etcd_client::WatchStream,
    after: Revision,
}

impl Answers {
    async fn open(shared: &Shared, after: Revision) -> Result<Self> {
        let mut client = shared
            .client
            .watch_client()
            .max_decoding_message_size(usize::MAX);
        let options = WatchOptions::new()
            .with_all_keys()
            .with_start_revision(convert::number(after) + 1)
            .with_progress_notify();
        let stream = call(shared.timeout, client.watch("", Some(options))).await;
        let stream = stream.map_err(|e| e.without_context())?;
        Ok(Self { stream, after })
    }

    /// The next answer with events. Answers are whole revisions, because fragments were not asked for.
    async fn next(&mut self, shared: &Shared) -> Result<Answer> {
        loop {
            let answer = match self.stream.next().await {
                Some(Ok(answer)) => answer,
                Some(Err(error)) => return Err(CallError::Etcd(error).without_context()),
                None => {
                    return Err(StorageError::Unavailable(
                        "etcd: the watch ended".to_owned(),
                    ));
                }
            };
            self.check(&answer)?;
            let last = answer.events().last().and_then(|event| event.kv());
            if let Some(last) = last.map(|kv| Revision(kv.mod_revision().cast_unsigned())) {
                let events = answer.events().iter();
                let events = events.filter_map(|e| shared.keys.event(e)).collect();
                return Ok((events, last));
            }
        }
    }

    fn check(&self, answer: &WatchResponse) -> Result<()> {
        match (answer.compact_revision(), answer.canceled()) {
            (0, false) => Ok(()),
            (0, true) => Err(StorageError::Unavailable(format!(
                "etcd: the watch was refused: {}",
                answer.cancel_reason()
            ))),
            (compacted, _) => Err(StorageError::Compacted {
                asked: self.after,
                oldest: Revision(compacted.cast_unsigned()),
            }),
        }
    }
}
