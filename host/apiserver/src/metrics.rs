//! Metrics under the names that upstream gives them.
//! Source: <https://kubernetes.io/docs/reference/instrumentation/metrics/>

use std::{sync::atomic::AtomicI64, time::Instant};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{request_info::RequestInfo, state::State};

/// What a request is counted under. Names that are not served are left out: they are the clients' to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Labels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKind {
    request_kind: &'static str,
}

impl Labels {
    /// The labels of a request.
    pub(crate) fn new(state: &State, info: &RequestInfo) -> Self {
        let verb = match info.verb {
            "get" | "head" => "GET",
            "list" => "LIST",
            "watch" => "WATCH",
            "create" | "post" => "POST",
            "update" | "put" => "PUT",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            _ => "other",
        };
        if state
            .registry
            .resource(&info.group, &info.version, &info.resource)
            .is_none()
        {
            return Self {
                verb,
                ..Self::default()
            };
        }
        let known = ["status", "scale", "binding", "eviction", "finalize"];
        Self {
            verb,
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource: known
                .iter()
                .find(|known| info.subresource == **known)
                .map(|known| (*known).to_owned())
                .unwrap_or_default(),
            scope: match (info.name.is_empty(), info.namespace.is_empty()) {
                (false, _) => "resource",
                (true, false) => "namespace",
                (true, true) => "cluster",
            },
        }
    }
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// All of the server's metrics.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<CodeLabels, Counter>,
    durations: Histograms,
    in_flight: Family<RequestKind, Gauge>,
    watchers: Gauge<i64, AtomicI64>,
}

fn duration_buckets() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
        60.0,
    ])
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests: Family<CodeLabels, Counter> = Family::default();
        let durations: Histograms = Family::new_with_constructor(duration_buckets);
        let in_flight: Family<RequestKind, Gauge> = Family::default();
        let watchers = Gauge::default();
        registry.register(
            "apiserver_request",
            "Requests by verb, resource and response code",
            requests.clone(),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to the response's head, of watches to their begin",
            durations.clone(),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests being served, by kind",
            in_flight.clone(),
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Open watches",
            watchers.clone(),
        );
        Self {
            registry,
            requests,
            durations,
            in_flight,
            watchers,
        }
    }
}

impl Metrics {
    /// A request begins.
    pub(crate) fn begin<'a>(&'a self, labels: &'a Labels, mutating: bool) -> Measured<'a> {
        let kind = RequestKind {
            request_kind: if mutating { "mutating" } else { "readOnly" },
        };
        let in_flight = self.in_flight.get_or_create(&kind).clone();
        in_flight.inc();
        Measured {
            metrics: self,
            labels,
            in_flight,
            since: Instant::now(),
        }
    }

    /// A watch is open as long as what comes back is kept.
    pub(crate) fn open_watch(&self) -> OpenWatch {
        self.watchers.inc();
        OpenWatch(self.watchers.clone())
    }

    /// The text form.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// A request being served. Dropped early (the client went away), it only leaves the gauge.
pub(crate) struct Measured<'a> {
    metrics: &'a Metrics,
    labels: &'a Labels,
    in_flight: Gauge,
    since: Instant,
}

impl Measured<'_> {
    /// It has been answered.
    pub(crate) fn end(self, code: u16) {
        let labels = self.labels.clone();
        self.metrics
            .durations
            .get_or_create(&labels)
            .observe(self.since.elapsed().as_secs_f64());
        let labels = CodeLabels {
            verb: labels.verb,
            group: labels.group,
            version: labels.version,
            resource: labels.resource,
            subresource: labels.subresource,
            scope: labels.scope,
            component: "apiserver",
            code,
        };
        self.metrics.requests.get_or_create(&labels).inc();
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct OpenWatch(Gauge<i64, AtomicI64>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.dec();
    }
}
