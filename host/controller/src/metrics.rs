//! Figures of controllers, named as upstream names those of its work queues.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// `{name="replicaset-controller"}`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Name {
    name: String,
}

/// `{name="replicaset-controller",result="success"}`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct NameAndResult {
    name: String,
    result: &'static str,
}

/// A cheap clone.
#[derive(Clone)]
pub struct Metrics {
    depth: Family<Name, Gauge>,
    reconciles: Family<NameAndResult, Counter>,
    duration: Family<Name, Histogram, fn() -> Histogram>,
    behind: Family<Name, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || {
            let bounds = (0..14).map(|n| 0.0001 * f64::from(1 << n));
            Histogram::new(bounds)
        };
        Self {
            depth: Family::default(),
            reconciles: Family::default(),
            duration: Family::new_with_constructor(histogram),
            behind: Family::default(),
        }
    }
}

impl Metrics {
    /// Publishes them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("workqueue_depth", "Keys ready to run", self.depth.clone());
        registry.register(
            "pilothouse_controller_reconciles",
            "Reconciles by result: success, requeue, error, trap",
            self.reconciles.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Time of a reconcile",
            self.duration.clone(),
        );
        registry.register(
            "pilothouse_controller_caches_behind",
            "Runs whose writes the caches did not see in time",
            self.behind.clone(),
        );
    }

    pub(crate) fn depth(&self, controller: &str, depth: usize) {
        let gauge = self.depth.get_or_create(&name(controller));
        gauge.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    pub(crate) fn reconciled(&self, controller: &str, result: &'static str, seconds: f64) {
        let labels = NameAndResult {
            name: controller.to_owned(),
            result,
        };
        self.reconciles.get_or_create(&labels).inc();
        self.duration
            .get_or_create(&name(controller))
            .observe(seconds);
    }

    pub(crate) fn behind(&self, controller: &str) {
        self.behind.get_or_create(&name(controller)).inc();
    }

    /// Reconciles of a controller with one result so far.
    pub fn reconciles(&self, controller: &str, result: &'static str) -> u64 {
        let labels = NameAndResult {
            name: controller.to_owned(),
            result,
        };
        self.reconciles.get_or_create(&labels).get()
    }
}

fn name(controller: &str) -> Name {
    Name {
        name: controller.to_owned(),
    }
}
