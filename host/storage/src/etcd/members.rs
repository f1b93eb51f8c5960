//! The members of the etcd cluster, and how a request finds one that answers.
//!
//! All requests of this process go to one member until it fails one, then to the next: which member an error is about is
//! known, and a member that hangs holds up requests once, not now and then for ever.
//!
//! Reads are tried elsewhere after any failure that another member may not have. A write is tried again only if it certainly
//! was not proposed: one that may have happened must not happen twice, and is answered `OutcomeUnknown`.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use etcd_client::{Client, KvClient};
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout_at},
};

use super::{
    errors::{CallError, Failure},
    options::Connector,
};

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(200);
/// A member that leaves a read unanswered for this part of a write's time is left.
const ATTEMPTS_IN_TIME: u32 = 4;
/// A read has this part of a write's time: who waits for it should learn in time that it failed.
const READS_SHARE: u32 = 2;

/// Whether a request may be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Writes,
}

/// A member's client, made when it is first needed.
struct Member {
    endpoint: String,
    client: OnceCell<Client>,
}

pub(super) struct Members {
    members: Vec<Member>,
    connector: Connector,
    current: AtomicUsize,
    timeout: Duration,
}

impl Members {
    /// `endpoints` are not empty.
    pub(super) fn new(endpoints: Vec<String>, connector: Connector, timeout: Duration) -> Self {
        let member = |endpoint| Member {
            endpoint,
            client: OnceCell::new(),
        };
        Self {
            members: endpoints.into_iter().map(member).collect(),
            connector,
            current: AtomicUsize::new(0),
            timeout,
        }
    }

    /// How long one request may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The member that requests go to now, for [`Members::leave`].
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Sends the next requests elsewhere, unless somebody has done so already.
    pub(super) fn leave(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let left = self
            .current
            .compare_exchange(member, next, success, failure);
        if left.is_ok() && self.members.len() > 1 {
            let (from, to) = (&self.members[member].endpoint, &self.members[next].endpoint);
            tracing::info!(from, to, "etcd: going on with another member");
        }
    }

    /// Makes a request until a member answers it, for as long as a request may take. Ends at once when no member can be reached.
    pub(super) async fn call<T, F>(
        &self,
        effect: Effect,
        request: impl Fn(Client) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let deadline = Instant::now() + self.time_for(effect);
        let mut pause = FIRST_PAUSE;
        let mut unreached = 0;
        loop {
            let at = self.current();
            let error = match self.attempt(at, effect, deadline, &request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let failure = error.failure();
            if failure == Failure::Final {
                return Err(error);
            }
            self.leave(at);
            unreached = match failure {
                Failure::Unreached => unreached + 1,
                _ => 0,
            };
            let hopeless = unreached >= self.members.len() || Instant::now() + pause >= deadline;
            if hopeless || (failure == Failure::Unknown && effect == Effect::Writes) {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = LAST_PAUSE.min(pause * 2);
        }
    }

    fn time_for(&self, effect: Effect) -> Duration {
        match effect {
            Effect::Reads => self.timeout / READS_SHARE,
            Effect::Writes => self.timeout,
        }
    }

    /// A key-value request, see [`Members::call`]. Answers may be of any size.
    pub(super) async fn kv<T, F>(
        &self,
        effect: Effect,
        request: impl Fn(KvClient) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let request =
            |client: Client| request(client.kv_client().max_decoding_message_size(usize::MAX));
        self.call(effect, request).await
    }

    async fn attempt<T, F>(
        &self,
        at: usize,
        effect: Effect,
        deadline: Instant,
        request: &impl Fn(Client) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let member = &self.members[at];
        let elsewhere = effect == Effect::Reads && self.members.len() > 1;
        let began = Instant::now();
        let until = match elsewhere {
            true => deadline.min(began + self.timeout / ATTEMPTS_IN_TIME),
            false => deadline,
        };
        let failed = |error| CallError::new(&member.endpoint, error);
        let connecting = async {
            let connect = || self.connector.connect(&member.endpoint);
            member.client.get_or_try_init(connect).await.cloned()
        };
        let client = match timeout_at(until, connecting).await {
            Ok(client) => client.map_err(|error| failed(error).before_sending())?,
            Err(_) => {
                let late = CallError::late(&member.endpoint, began.elapsed());
                return Err(late.before_sending());
            }
        };
        match timeout_at(until, request(client)).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(CallError::late(&member.endpoint, began.elapsed())),
        }
    }
}
