//! API Priority and Fairness: each request belongs to a FlowSchema and to its priority level; a level that is busy makes its
//! requests wait, and refuses those that would wait too long.
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>
//!
//! Requests of this process take no seat: a request that is being served may need them to be answered. Nor does what stays
//! open. All requests take one seat, whatever they cost.

mod classify;
mod seats;

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use http::{HeaderValue, Response};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use pilothouse_api::Status;
use pilothouse_client::{Body, UserInfo};
use tokio_util::sync::CancellationToken;

use crate::{
    registry::{Registry, Resource, errors},
    request_info::RequestInfo,
    response,
};
use classify::{Classifier, LevelOf};
pub(crate) use seats::Seat;
use seats::{Level, Seats};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Of a request's time so much may be spent in line.
const PART_TO_WAIT: u32 = 4;

/// Classifies requests and seats them.
pub(crate) struct FlowControl {
    classifier: ArcSwap<Classifier>,
    seats: Arc<Seats>,
}

/// What a request is charged to, for its answer to tell.
#[derive(Clone, Debug)]
pub(crate) struct Charged {
    schema: HeaderValue,
    level: HeaderValue,
}

impl Charged {
    /// Names schema and level in an answer.
    pub(crate) fn mark(&self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        headers.insert("x-kubernetes-pf-flowschema-uid", self.schema.clone());
        headers.insert("x-kubernetes-pf-prioritylevel-uid", self.level.clone());
    }
}

impl FlowControl {
    /// So many requests are served at a time, exempt ones aside. Before the first [`Self::follow`] there are no levels.
    pub(crate) fn new(total: u32) -> Self {
        Self {
            classifier: ArcSwap::default(),
            seats: Seats::new(total),
        }
    }

    /// What a request is charged to, and its seat if it needs one (`takes_seat`), or the answer to a request for which there is
    /// none. `time` is all that the request may take.
    pub(crate) async fn admit(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
        takes_seat: bool,
        time: Duration,
    ) -> (Option<Charged>, Result<Option<Seat>, Response<Body>>) {
        let (charged, level, flow) = {
            let classifier = self.classifier.load();
            let Some(schema) = classifier.of(user, info) else {
                return (None, Ok(None)); // nothing is known yet
            };
            let charged = Charged {
                schema: schema.uid.clone(),
                level: schema.level_uid.clone(),
            };
            if schema.is_exempt || !takes_seat {
                return (Some(charged), Ok(None));
            }
            (charged, schema.level.clone(), schema.flow(user, info))
        };
        let seat = self.seats.acquire(&level, &flow, time / PART_TO_WAIT).await;
        (Some(charged), seat.map(Some).map_err(|_| too_many()))
    }

    /// Takes over what a registry has now.
    pub(crate) async fn begin(&self, registry: &Registry) -> Result<(), Status> {
        let resource = |name| registry.resource(GROUP, "v1", name);
        if let (Some(schemas), Some(levels)) = (
            resource("flowschemas"),
            resource("prioritylevelconfigurations"),
        ) {
            schemas.catch_up(None).await?;
            levels.catch_up(None).await?;
            self.read(schemas, levels)?;
        }
        Ok(())
    }

    /// Keeps in step with the FlowSchemas and priority levels of a registry, until told to stop.
    pub(crate) async fn follow(&self, registry: Arc<Registry>, stopping: CancellationToken) {
        let resource = |name| registry.resource(GROUP, "v1", name).cloned();
        let (Some(schemas), Some(levels)) = (
            resource("flowschemas"),
            resource("prioritylevelconfigurations"),
        ) else {
            return;
        };
        loop {
            let following = self.follow_both(&schemas, &levels);
            tokio::select! {
                () = stopping.cancelled() => return,
                ended = following => match ended {
                    Err(status) if !status.is_expired() => {
                        return tracing::warn!(%status, "flow control stays as it is");
                    }
                    _ => {} // it was too slow: from the beginning
                },
            }
        }
    }

    async fn follow_both(&self, schemas: &Resource, levels: &Resource) -> Result<(), Status> {
        let mut changes = [schemas, levels].into_iter().map(|resource| {
            let now = resource.cache.revision();
            resource.subscribe("", now)
        });
        let (Some(of_schemas), Some(of_levels)) = (changes.next(), changes.next()) else {
            return Ok(());
        };
        let (mut of_schemas, mut of_levels) = (of_schemas?, of_levels?);
        loop {
            self.read(schemas, levels)?;
            let changed = tokio::select! {
                changed = of_schemas.next() => changed,
                changed = of_levels.next() => changed,
            };
            changed.map_err(errors::from_cache)?;
        }
    }

    /// Takes over what is there.
    fn read(&self, schemas: &Resource, levels: &Resource) -> Result<(), Status> {
        let levels = levels.cache.list(None).map_err(errors::from_cache)?;
        let levels: Vec<PriorityLevelConfiguration> = levels
            .iter()
            .filter_map(|object| serde_json::from_slice(&object.bytes).ok())
            .collect();
        let limited: Vec<Level> = levels.iter().filter_map(limits).collect();
        self.seats.configure(&limited);
        let by_name: HashMap<&str, &PriorityLevelConfiguration> = levels
            .iter()
            .filter_map(|level| Some((level.metadata.name.as_deref()?, level)))
            .collect();
        let schemas = schemas.cache.list(None).map_err(errors::from_cache)?;
        let schemas: Vec<FlowSchema> = schemas
            .iter()
            .filter_map(|object| serde_json::from_slice(&object.bytes).ok())
            .collect();
        let classifier = Classifier::new(schemas.into_iter(), |name| {
            let level = by_name.get(name)?;
            Some(LevelOf {
                uid: level.metadata.uid.as_deref()?,
                is_exempt: limits(level).is_none(),
            })
        });
        self.classifier.store(Arc::new(classifier));
        Ok(())
    }
}

/// The limits of a level; `None`: it has none.
fn limits(level: &PriorityLevelConfiguration) -> Option<Level> {
    let limited = level.spec.as_ref()?.limited.as_ref()?;
    let number = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
    let queuing = limited
        .limit_response
        .as_ref()
        .and_then(|r| r.queuing.as_ref());
    let may_wait = queuing.map_or(0, |queuing| {
        let [queues, length] = [queuing.queues, queuing.queue_length_limit];
        u64::from(number(queues).unwrap_or(0)) * u64::from(number(length).unwrap_or(0))
    });
    Some(Level {
        name: level.metadata.name.clone()?,
        shares: number(limited.nominal_concurrency_shares).unwrap_or(0),
        lendable_percent: number(limited.lendable_percent).unwrap_or(0),
        may_wait: usize::try_from(may_wait).unwrap_or(usize::MAX),
    })
}

/// 429, as text: there is no `Status` here in Kubernetes either.
fn too_many() -> Response<Body> {
    let mut response = response::text(429, "Too many requests, please try again later.\n");
    let second = HeaderValue::from_static("1");
    response
        .headers_mut()
        .insert(http::header::RETRY_AFTER, second);
    response
}
