//! Reads the changes below a prefix from etcd: the watch that feeds a hub, and the short ones for watches that are behind.
//!
//! How far a quiet prefix has come is asked for: etcd answers a progress request once the stream has been given every event
//! up to the revision it names. Before 3.4.25 and 3.5.8 such an answer could overtake events; it is a sign of life then, no more.

use std::{sync::Arc, time::Duration};

use etcd_client::{WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};
use futures::{StreamExt, stream::BoxStream};
use tokio::time::Instant;

use super::{
    Shared, convert,
    errors::CallError,
    feeds::{Feed, Scope},
    members::Effect,
};
use crate::engine::{Event, Result, Revision, StorageError, WatchBatch};

const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Between two questions for progress; the member may be behind the one that named the revision.
const FIRST_PACE: Duration = Duration::from_millis(5);
const LAST_PACE: Duration = Duration::from_millis(200);
/// A member that does not answer such questions for so long is left.
const STALLED: Duration = Duration::from_secs(2);

/// Events of one answer, and the revision up to which nothing is missing; 0: the answer does not tell.
type Answer = (Vec<Event>, Revision);

/// Publishes everything that happens below a feed's prefix, until it is aborted. After a lost connection it goes on from where
/// it was; if etcd has compacted that away meanwhile, every watch ends with `Compacted`.
pub(super) async fn run(shared: Arc<Shared>, feed: Arc<Feed>) {
    let mut retry = FIRST_RETRY;
    loop {
        let Err(error) = pump(&shared, &feed, &mut retry).await else {
            continue;
        };
        let scope = &feed.scope;
        tracing::warn!(?scope, %error, "etcd: a watch was interrupted, going on soon");
        if let StorageError::Compacted { .. } = error {
            match shared.current_revision().await {
                Ok(current) => feed.hub.break_watches(&error, current),
                Err(error) => tracing::warn!(%error, "etcd: cannot read the current revision"),
            }
        }
        tokio::time::sleep(retry).await;
        retry = LAST_RETRY.min(retry * 2);
    }
}

async fn pump(shared: &Shared, feed: &Feed, retry: &mut Duration) -> Result<()> {
    let mut watch = Watch::open(shared, &feed.scope, feed.hub.published()).await?;
    loop {
        let missing = feed.is_behind();
        tokio::select! {
            answer = watch.answers.next(shared) => {
                let (events, revision) = answer?;
                *retry = FIRST_RETRY;
                watch.asking.answered(revision > feed.hub.published());
                feed.hub.publish(&events, revision);
            }
            asked = watch.asking.ask(shared), if missing => asked?,
            () = feed.asked(), if !missing => watch.asking.hurry(),
        }
    }
}

/// See [`crate::hub::Source::replay`].
pub(super) fn replay(
    shared: Arc<Shared>,
    prefix: Arc<str>,
    after: Revision,
    upto: Revision,
) -> BoxStream<'static, Result<WatchBatch>> {
    let scope = match shared.has_progress {
        true => Scope::Prefix(prefix.clone()),
        false => Scope::Everything,
    };
    let replay = Replay {
        shared,
        scope,
        watch: None,
        reached: after,
    };
    Box::pin(futures::stream::try_unfold(replay, move |mut replay| {
        let prefix = prefix.clone();
        async move {
            while replay.reached < upto {
                let (mut events, revision) = replay.next().await?;
                replay.reached = replay.reached.max(revision.min(upto));
                events.retain(|e| e.kv.mod_revision <= upto && e.kv.key.starts_with(&*prefix));
                if !events.is_empty() {
                    let batch = WatchBatch {
                        revision: replay.reached,
                        events,
                    };
                    return Ok(Some((batch, replay)));
                }
            }
            Ok(None)
        }
    }))
}

/// A history that is being read again.
struct Replay {
    shared: Arc<Shared>,
    scope: Scope,
    watch: Option<Watch>,
    reached: Revision,
}

impl Replay {
    /// The next answer. After a lost connection it goes on from where it was, as a feed does, for as long as a request may take.
    async fn next(&mut self) -> Result<Answer> {
        let deadline = Instant::now() + self.shared.members.timeout();
        let mut retry = FIRST_RETRY;
        loop {
            match self.attempt().await {
                Err(StorageError::Unavailable(_)) if Instant::now() + retry < deadline => {
                    self.watch = None;
                    tokio::time::sleep(retry).await;
                    retry = LAST_RETRY.min(retry * 2);
                }
                answered => return answered,
            }
        }
    }

    async fn attempt(&mut self) -> Result<Answer> {
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => Watch::open(&self.shared, &self.scope, self.reached).await?,
        };
        self.watch.insert(watch).next(&self.shared).await
    }
}

/// The revision up to which etcd has compacted, if `asked` is before it.
pub(super) async fn compacted(shared: &Shared, asked: Revision) -> Option<Revision> {
    let before = Revision(asked.0.saturating_sub(1));
    let refused = async {
        let scope = match shared.has_progress {
            true => Scope::Prefix("".into()),
            false => Scope::Everything,
        };
        let mut watch = Watch::open(shared, &scope, before).await?;
        while watch.next(shared).await?.1 <= before {}
        Ok(())
    };
    match tokio::time::timeout(shared.members.timeout(), refused).await {
        Ok(Err(StorageError::Compacted { oldest, .. })) => Some(oldest),
        _ => None,
    }
}

/// A watch of a prefix at one member.
struct Watch {
    answers: Answers,
    asking: Asking,
}

/// What the member says, answer by answer.
struct Answers {
    stream: WatchResponseStream,
    after: Revision,
    member: usize,
    believes_progress: bool,
}

/// The questions for progress.
struct Asking {
    requests: WatchRequestSender,
    member: usize,
    next: Instant,
    pace: Duration,
    /// Since when there has been no answer.
    unanswered: Option<Instant>,
}

impl Watch {
    async fn open(shared: &Shared, scope: &Scope, after: Revision) -> Result<Self> {
        let (start, options) = match scope {
            Scope::Prefix(prefix) => {
                let (start, end) = shared.keys.range_of(prefix);
                (start, WatchOptions::new().with_range(end))
            }
            Scope::Everything => (String::new(), WatchOptions::new().with_all_keys()),
        };
        let options = options
            .with_start_revision(convert::number(after) + 1)
            .with_progress_notify();
        let member = shared.members.current();
        let watch = |client: etcd_client::Client| {
            let (start, options) = (start.clone(), options.clone());
            async move {
                let mut client = client.watch_client().max_decoding_message_size(usize::MAX);
                client.watch(start, Some(options)).await
            }
        };
        let stream = shared.members.call(Effect::Reads, watch).await;
        let (requests, stream) = stream.map_err(CallError::without_context)?.split();
        Ok(Self {
            answers: Answers {
                stream,
                after,
                member,
                believes_progress: *scope != Scope::Everything,
            },
            asking: Asking {
                requests,
                member,
                next: Instant::now(),
                pace: FIRST_PACE,
                unanswered: None,
            },
        })
    }

    /// The next answer; asks for progress until it comes.
    async fn next(&mut self, shared: &Shared) -> Result<Answer> {
        loop {
            tokio::select! {
                answer = self.answers.next(shared) => {
                    self.asking.answered(false);
                    return answer;
                }
                asked = self.asking.ask(shared) => asked?,
            }
        }
    }
}

impl Answers {
    /// The next answer with events or progress. Answers are whole revisions, because fragments were not asked for. Nothing is
    /// lost if the future is dropped before it is ready.
    async fn next(&mut self, shared: &Shared) -> Result<Answer> {
        loop {
            let answer = match self.stream.next().await {
                Some(Ok(answer)) => answer,
                ended => {
                    shared.members.leave(self.member);
                    let why = match ended {
                        Some(Err(error)) => error.to_string(),
                        _ => "it ended".to_owned(),
                    };
                    return Err(StorageError::Unavailable(format!("etcd: the watch: {why}")));
                }
            };
            self.check(&answer)?;
            if answer.created() {
                continue; // says how far etcd is, not the watch
            }
            let last = answer.events().last().and_then(|event| event.kv());
            let revision = match last {
                Some(last) => Revision(last.mod_revision().cast_unsigned()),
                None if self.believes_progress => convert::revision(answer.header()),
                None => Revision(0),
            };
            let events = answer.events().iter();
            let events = events.filter_map(|e| shared.keys.event(e)).collect();
            return Ok((events, revision));
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

impl Asking {
    /// Asks once, when it is time. Fails when the member has been silent for too long.
    async fn ask(&mut self, shared: &Shared) -> Result<()> {
        tokio::time::sleep_until(self.next).await;
        let now = Instant::now();
        let since = *self.unanswered.get_or_insert(now);
        if now - since > STALLED {
            shared.members.leave(self.member);
            let why = format!(
                "etcd: the watch: no sign of progress in {:.1?}",
                now - since
            );
            return Err(StorageError::Unavailable(why));
        }
        let asked = self.requests.request_progress().await;
        asked.map_err(|error| StorageError::Unavailable(format!("etcd: the watch: {error}")))?;
        self.next = now + self.pace;
        self.pace = LAST_PACE.min(self.pace * 2);
        Ok(())
    }

    /// Notes a sign of life. If it told something new, the next question is not held back.
    fn answered(&mut self, is_new: bool) {
        self.unanswered = None;
        if is_new {
            self.hurry();
        }
    }

    fn hurry(&mut self) {
        self.next = Instant::now();
        self.pace = FIRST_PACE;
    }
}
