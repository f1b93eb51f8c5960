//! What stands between a plugin and the host while a call is recorded or replayed.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use pilothouse_api::Status;
use serde_json::{Value, json};

use super::Asked;
use crate::{
    clock::Clock,
    cluster::{
        CallingPlugin, Cluster, DeleteOptions, EventSubject, GroupVersionResource, PatchType,
    },
};

/// Passes on and notes, or answers with what was noted. The owner graph and discovery are not on the tape: only what ships with
/// the host uses them.
pub(crate) struct Tape {
    side: Side,
    state: Mutex<State>,
}

enum Side {
    Recording {
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
    },
    Replaying,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    /// In a replay, what was asked that nobody had asked before.
    unheard: Vec<String>,
}

impl Tape {
    /// An empty tape in front of these.
    pub(super) fn over(cluster: Arc<dyn Cluster>, clock: Arc<dyn Clock>) -> Self {
        Self {
            side: Side::Recording { cluster, clock },
            state: Mutex::default(),
        }
    }

    /// A tape that answers.
    pub(super) fn of(asked: Vec<Asked>) -> Self {
        let state = State {
            asked,
            unheard: Vec::new(),
        };
        Self {
            side: Side::Replaying,
            state: Mutex::new(state),
        }
    }

    /// What is on it; in a replay what was not asked again.
    pub(super) fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().asked)
    }

    /// What a replay was asked in vain.
    pub(super) fn unheard(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unheard)
    }

    fn recall(&self, ask: &str) -> Option<Asked> {
        let mut state = self.state.lock();
        match state.asked.iter().position(|asked| asked.ask == ask) {
            Some(at) => Some(state.asked.remove(at)),
            None => {
                state.unheard.push(ask.to_owned());
                None
            }
        }
    }

    async fn ask<'a, T, F>(
        &'a self,
        ask: String,
        live: impl FnOnce(&'a dyn Cluster) -> F,
    ) -> Result<T, Status>
    where
        T: OnTape,
        F: Future<Output = Result<T, Status>>,
    {
        let Side::Recording { cluster, .. } = &self.side else {
            let asked = self.recall(&ask).ok_or_else(|| not_recorded(&ask))?;
            if asked.status.is_null() {
                return Ok(T::read(asked.answer));
            }
            let text = |field: &str| asked.status[field].as_str().unwrap_or_default().to_owned();
            let code = asked.status["code"].as_u64().unwrap_or(500);
            let code = u16::try_from(code).unwrap_or(500);
            return Err(Status::new(code, &text("reason"), text("message")));
        };
        let answer = live(&**cluster).await;
        let (value, status) = match &answer {
            Ok(value) => (value.written(), Value::Null),
            Err(status) => (
                Value::Null,
                json!({ "code": status.code, "reason": status.reason, "message": status.message }),
            ),
        };
        self.state.lock().asked.push(Asked {
            ask,
            answer: value,
            status,
        });
        answer
    }

    fn time(&self, ask: &str, live: impl FnOnce(&dyn Clock) -> u64) -> u64 {
        let Side::Recording { clock, .. } = &self.side else {
            let asked = self.recall(ask);
            return asked.and_then(|asked| asked.answer.as_u64()).unwrap_or(0);
        };
        let time = live(&**clock);
        self.state.lock().asked.push(Asked {
            ask: ask.to_owned(),
            answer: time.into(),
            status: Value::Null,
        });
        time
    }
}

impl Clock for Tape {
    fn now_ms(&self) -> u64 {
        self.time("now", Clock::now_ms)
    }

    fn monotonic(&self) -> Duration {
        let nanos = self.time("monotonic", |clock| {
            u64::try_from(clock.monotonic().as_nanos()).unwrap_or(u64::MAX)
        });
        Duration::from_nanos(nanos)
    }
}

fn not_recorded(ask: &str) -> Status {
    Status::new(
        404,
        "NotRecorded",
        format!("the record has no answer to: {ask}"),
    )
}

/// What answers become on the tape.
trait OnTape {
    fn written(&self) -> Value;
    fn read(value: Value) -> Self;
}

impl OnTape for () {
    fn written(&self) -> Value {
        Value::Null
    }

    fn read(_: Value) -> Self {}
}

impl OnTape for Bytes {
    fn written(&self) -> Value {
        document(self)
    }

    fn read(value: Value) -> Self {
        value.to_string().into()
    }
}

impl OnTape for Vec<Bytes> {
    fn written(&self) -> Value {
        self.iter().map(|object| document(object)).collect()
    }

    fn read(value: Value) -> Self {
        let Value::Array(objects) = value else {
            return Self::new();
        };
        objects.into_iter().map(Bytes::read).collect()
    }
}

fn document(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

/// `deployments.v1.apps default/web`.
fn place(of: &GroupVersionResource, namespace: &str, name: &str) -> String {
    let resource = format!("{}.{}.{}", of.resource, of.version, of.group);
    format!("{} {namespace}/{name}", resource.trim_end_matches('.'))
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

#[async_trait]
impl Cluster for Tape {
    async fn get(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        let ask = format!("get {}", place(of, namespace, name));
        self.ask(ask, |live| live.get(by, of, namespace, name))
            .await
    }

    async fn get_live(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
    ) -> Result<Bytes, Status> {
        let ask = format!("get-live {}", place(of, namespace, name));
        self.ask(ask, |live| live.get_live(by, of, namespace, name))
            .await
    }

    async fn list(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        labels: &str,
        fields: &str,
    ) -> Result<Vec<Bytes>, Status> {
        let ask = format!(
            "list {} labels={labels} fields={fields}",
            place(of, namespace, "")
        );
        self.ask(ask, |live| live.list(by, of, namespace, labels, fields))
            .await
    }

    async fn list_owned(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        owner: &str,
    ) -> Result<Vec<Bytes>, Status> {
        let ask = format!("list-owned {} owner={owner}", place(of, namespace, ""));
        self.ask(ask, |live| live.list_owned(by, of, namespace, owner))
            .await
    }

    async fn create(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let ask = format!("create {} {}", place(of, namespace, ""), text(&object));
        self.ask(ask, |live| live.create(by, of, namespace, object))
            .await
    }

    async fn update(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let ask = format!("update {} {}", place(of, namespace, name), text(&object));
        self.ask(ask, |live| live.update(by, of, namespace, name, object))
            .await
    }

    async fn update_status(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let ask = format!(
            "update-status {} {}",
            place(of, namespace, name),
            text(&object)
        );
        self.ask(ask, |live| {
            live.update_status(by, of, namespace, name, object)
        })
        .await
    }

    async fn update_subresource(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let place = place(of, namespace, name);
        let ask = format!("update {place} {subresource} {}", text(&object));
        self.ask(ask, |live| {
            live.update_subresource(by, of, namespace, name, subresource, object)
        })
        .await
    }

    async fn patch(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch_type: PatchType,
        patch: Bytes,
    ) -> Result<Bytes, Status> {
        let place = place(of, namespace, name);
        let ask = format!(
            "patch {place} {subresource} {patch_type:?} {}",
            text(&patch)
        );
        self.ask(ask, |live| {
            live.patch(by, of, namespace, name, subresource, patch_type, patch)
        })
        .await
    }

    async fn delete(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        let ask = format!("delete {} {options:?}", place(of, namespace, name));
        self.ask(ask, |live| live.delete(by, of, namespace, name, options))
            .await
    }

    async fn delete_collection(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        labels: &str,
        fields: &str,
        options: DeleteOptions,
    ) -> Result<(), Status> {
        let place = place(of, namespace, "");
        let ask = format!("delete-collection {place} labels={labels} fields={fields} {options:?}");
        self.ask(ask, |live| {
            live.delete_collection(by, of, namespace, labels, fields, options)
        })
        .await
    }

    async fn create_subresource(
        &self,
        by: CallingPlugin<'_>,
        of: &GroupVersionResource,
        namespace: &str,
        name: &str,
        subresource: &str,
        object: Bytes,
    ) -> Result<Bytes, Status> {
        let place = place(of, namespace, name);
        let ask = format!("create {place} {subresource} {}", text(&object));
        self.ask(ask, |live| {
            live.create_subresource(by, of, namespace, name, subresource, object)
        })
        .await
    }

    /// Events are told, not asked: a replay tells nobody.
    async fn record_event(
        &self,
        by: CallingPlugin<'_>,
        regarding: EventSubject,
        event_type: &str,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        if let Side::Recording { cluster, .. } = &self.side {
            let told = cluster.record_event(by, regarding, event_type, reason, action, note);
            told.await;
        }
    }

    fn refused(&self, by: CallingPlugin<'_>, why: &Status) {
        if let Side::Recording { cluster, .. } = &self.side {
            cluster.refused(by, why);
        }
    }
}
