//! Metrics under the names that upstream gives them.
//! Source: <https://kubernetes.io/docs/reference/instrumentation/metrics/>

mod exposition;

use std::{sync::atomic::AtomicU64, time::Instant};

use http::HeaderMap;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry as Exposed,
};

use pilothouse_storage::Size;

use crate::{
    body::content_type, query::Query, registry::Registry, request_info::RequestInfo, state::State,
};
pub(crate) use exposition::Form;

/// What a request is counted under. Names that are not served are left out: they are the clients' to choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Labels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

/// The same for finished requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    verb: &'static str,
    dry_run: &'static str,
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

/// A resource of a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Watched {
    group: String,
    version: String,
    resource: String,
}

/// A resource as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kept {
    group: String,
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    major: &'static str,
    minor: &'static str,
    git_version: &'static str,
}

/// The version of Kubernetes whose API is served, with ours as build metadata.
pub(crate) const GIT_VERSION: &str = concat!("v1.36.0+pilothouse.", env!("CARGO_PKG_VERSION"));

const SUBRESOURCES: [&str; 14] = [
    "approval",
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "proxy",
    "resize",
    "scale",
    "status",
    "token",
];
const PATHS: [&str; 10] = [
    "/",
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
];

impl Labels {
    /// The labels of a request.
    pub(crate) fn new(state: &State, info: &RequestInfo, headers: &HeaderMap) -> Self {
        let mut labels = Self {
            verb: verb(info, headers),
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
            component: "apiserver",
        };
        let known = |all: &[&str], name: &str| {
            let found = all.iter().find(|known| **known == name);
            found.map(|known| (*known).to_owned()).unwrap_or_default()
        };
        if !info.is_resource {
            labels.subresource = known(&PATHS, &info.path);
            return labels;
        }
        let registry = &state.registry;
        let served = registry.resource(&info.group, &info.version, &info.resource);
        if served.is_none() {
            return labels;
        }
        labels.group.clone_from(&info.group);
        labels.version.clone_from(&info.version);
        labels.resource.clone_from(&info.resource);
        labels.subresource = known(&SUBRESOURCES, &info.subresource);
        labels.scope = match (info.name.is_empty(), info.namespace.is_empty()) {
            _ if info.verb == "create" => "resource",
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        labels
    }

    /// Whether the size of answers is measured.
    fn is_read(&self) -> bool {
        matches!(self.verb, "GET" | "LIST")
    }
}

fn verb(info: &RequestInfo, headers: &HeaderMap) -> &'static str {
    match info.verb {
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" if content_type(headers).starts_with("application/apply-patch+") => "APPLY",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// All of the server's metrics.
pub(crate) struct Metrics {
    exposed: Exposed,
    /// Those of other parts of the process.
    others: Mutex<Vec<Exposed>>,
    requests: Family<Answered, Counter>,
    durations: Histograms,
    sizes: Histograms,
    in_flight: Family<RequestKind, Gauge>,
    long_running: Family<Labels, Gauge>,
    watch_events: Family<Watched, Counter>,
    objects: Family<Kept, Gauge>,
    storage_writable: Gauge,
    storage: StorageSize,
    pub(crate) handshake_errors: Counter,
}

/// Seconds.
fn duration_buckets() -> Histogram {
    Histogram::new([
        0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
        10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
    ])
}

/// Bytes, from 1 kB to 1 GB.
fn size_buckets() -> Histogram {
    Histogram::new(exponential_buckets(1000.0, 10.0, 7))
}

impl Metrics {
    /// Nothing has been counted yet; `now` is when the process began to serve.
    pub(crate) fn new(now: jiff::Timestamp) -> Self {
        let durations: Histograms = Family::new_with_constructor(duration_buckets);
        let sizes: Histograms = Family::new_with_constructor(size_buckets);
        let mut metrics = Self {
            exposed: Exposed::default(),
            others: Mutex::default(),
            requests: Family::default(),
            durations,
            sizes,
            in_flight: Family::default(),
            long_running: Family::default(),
            watch_events: Family::default(),
            objects: Family::default(),
            storage_writable: Gauge::default(),
            storage: StorageSize::default(),
            handshake_errors: Counter::default(),
        };
        metrics.expose(now);
        metrics
    }

    fn expose(&mut self, now: jiff::Timestamp) {
        let exposed = &mut self.exposed;
        exposed.register(
            "apiserver_request",
            "Requests by verb, resource and response code",
            self.requests.clone(),
        );
        exposed.register(
            "apiserver_request_duration_seconds",
            "Time to the response's head, of watches to their begin",
            self.durations.clone(),
        );
        exposed.register(
            "apiserver_response_sizes",
            "Bytes of the answers to reads",
            self.sizes.clone(),
        );
        exposed.register(
            "apiserver_current_inflight_requests",
            "Requests being served, by kind",
            self.in_flight.clone(),
        );
        exposed.register(
            "apiserver_longrunning_requests",
            "Open watches",
            self.long_running.clone(),
        );
        exposed.register(
            "apiserver_watch_events",
            "Events sent to watches",
            self.watch_events.clone(),
        );
        exposed.register(
            "apiserver_resource_objects",
            "Stored objects by resource",
            self.objects.clone(),
        );
        self.storage.expose(exposed);
        exposed.register(
            "pilothouse_storage_writable",
            "Whether storage takes writes; 0 while its disk or quota is full or damage was found",
            self.storage_writable.clone(),
        );
        exposed.register(
            "apiserver_tls_handshake_errors",
            "Connections that ended before any request",
            self.handshake_errors.clone(),
        );
        let build: Family<Build, Gauge> = Family::default();
        let of = Build {
            major: "1",
            minor: "36",
            git_version: GIT_VERSION,
        };
        build.get_or_create(&of).set(1);
        exposed.register("kubernetes_build_info", "What is running", build);
        let since: Gauge<f64, AtomicU64> = Gauge::default();
        since.set(now.as_millisecond() as f64 / 1000.0);
        exposed.register(
            "process_start_time_seconds",
            "When the server began, since the epoch",
            since,
        );
    }

    /// A request begins.
    pub(crate) fn begin<'a>(
        &'a self,
        labels: &'a Labels,
        query: &Query,
        mutating: bool,
    ) -> Measured<'a> {
        let kind = RequestKind {
            request_kind: if mutating { "mutating" } else { "readOnly" },
        };
        let in_flight = self.in_flight.get_or_create(&kind).clone();
        in_flight.inc();
        let dry_run = query.all("dryRun").any(|value| value == "All");
        Measured {
            metrics: self,
            labels,
            dry_run: if dry_run { "All" } else { "" },
            in_flight,
            since: Instant::now(),
        }
    }

    /// A watch is open as long as what comes back is kept.
    pub(crate) fn open_watch(&self, labels: &Labels) -> OpenWatch {
        let open = self.long_running.get_or_create(labels).clone();
        open.inc();
        let watched = Watched {
            group: labels.group.clone(),
            version: labels.version.clone(),
            resource: labels.resource.clone(),
        };
        OpenWatch {
            open,
            events: self.watch_events.get_or_create(&watched).clone(),
        }
    }

    /// Shows the metrics of another part of the process too.
    pub(crate) fn also(&self, others: Exposed) {
        self.others.lock().push(others);
    }

    /// The text form; what is stored is counted now.
    pub(crate) async fn text(
        &self,
        registry: &Registry,
        size: Option<&Size>,
        form: Form,
    ) -> Result<String, std::fmt::Error> {
        let writable = registry.writable().await.is_ok();
        self.storage_writable.set(i64::from(writable));
        if let Some(size) = size {
            self.storage.set(size);
        }
        for resource in registry.resources() {
            if resource.strategy.conversion().is_some() {
                continue; // counted where it is kept
            }
            let kept = Kept {
                group: resource.info.gvr.group.to_string(),
                resource: resource.info.gvr.resource.to_string(),
            };
            let count = i64::try_from(resource.cache.len()).unwrap_or(i64::MAX);
            self.objects.get_or_create(&kept).set(count);
        }
        exposition::text(&self.exposed, &self.others.lock(), form)
    }
}

/// How much storage takes, and whether it calls for help.
#[derive(Default)]
struct StorageSize {
    on_disk: Family<StorageCluster, Gauge>,
    in_use: Family<StorageCluster, Gauge>,
    quota: Family<StorageCluster, Gauge>,
    alarms: Family<StorageCluster, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StorageCluster {
    storage_cluster_id: &'static str,
}

impl StorageSize {
    fn expose(&self, exposed: &mut Exposed) {
        exposed.register(
            "apiserver_storage_size_bytes",
            "What storage takes on disk",
            self.on_disk.clone(),
        );
        exposed.register(
            "pilothouse_storage_in_use_bytes",
            "What storage would take on disk without what compaction has freed",
            self.in_use.clone(),
        );
        exposed.register(
            "pilothouse_storage_quota_bytes",
            "What storage may take on disk before it refuses writes; 0: it does not say",
            self.quota.clone(),
        );
        exposed.register(
            "pilothouse_storage_alarms",
            "Alarms that etcd has raised and nobody has disarmed",
            self.alarms.clone(),
        );
    }

    /// An engine that does not know its size has none.
    fn set(&self, size: &Size) {
        if *size == Size::default() {
            return;
        }
        let cluster = StorageCluster {
            storage_cluster_id: "etcd-0", // as upstream counts them
        };
        for (gauge, number) in [
            (&self.on_disk, size.on_disk),
            (&self.in_use, size.in_use),
            (&self.quota, size.quota.unwrap_or(0)),
            (&self.alarms, size.alarms.len() as u64),
        ] {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            gauge.get_or_create(&cluster).set(number);
        }
    }
}

/// A request being served. Dropped early (the client went away), it only leaves the gauge.
pub(crate) struct Measured<'a> {
    metrics: &'a Metrics,
    labels: &'a Labels,
    dry_run: &'static str,
    in_flight: Gauge,
    since: Instant,
}

impl Measured<'_> {
    /// It has been answered, with a body of so many bytes if that is known.
    pub(crate) fn end(self, code: u16, bytes: Option<u64>) {
        let labels = self.labels;
        let durations = &self.metrics.durations;
        durations
            .get_or_create(labels)
            .observe(self.since.elapsed().as_secs_f64());
        if let Some(bytes) = bytes.filter(|_| labels.is_read()) {
            let sizes = &self.metrics.sizes;
            sizes.get_or_create(labels).observe(bytes as f64);
        }
        let labels = labels.clone();
        let answered = Answered {
            verb: labels.verb,
            dry_run: self.dry_run,
            group: labels.group,
            version: labels.version,
            resource: labels.resource,
            subresource: labels.subresource,
            scope: labels.scope,
            component: labels.component,
            code,
        };
        self.metrics.requests.get_or_create(&answered).inc();
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    open: Gauge,
    events: Counter,
}

impl OpenWatch {
    /// So many events have been sent.
    pub(crate) fn sent(&self, events: u64) {
        self.events.inc_by(events);
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.open.dec();
    }
}
