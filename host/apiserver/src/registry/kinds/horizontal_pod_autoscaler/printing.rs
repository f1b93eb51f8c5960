//! What `kubectl get hpa` shows.

use k8s_openapi::{
    api::autoscaling::v2::{
        HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::{Value, json};

use crate::registry::{kinds::cells, printing::Column};

const UNKNOWN: &str = "<unknown>";
/// Of more metrics than these only their number is shown.
const SHOWN: usize = 2;

pub(super) fn columns() -> Vec<Column> {
    vec![
        Column::NAME,
        Column::string("Reference", "What is scaled."),
        Column::string("Targets", "Metrics as they are and as they should be."),
        Column::string("MinPods", "Replicas that there are at least."),
        Column::string("MaxPods", "Replicas that there are at most."),
        Column::string("Replicas", "Replicas that there are."),
        Column::AGE,
    ]
}

pub(super) fn row(autoscaler: &HorizontalPodAutoscaler, now: jiff::Timestamp) -> Vec<Value> {
    let spec = &autoscaler.spec;
    let status = autoscaler.status.clone().unwrap_or_default();
    let reference = &spec.scale_target_ref;
    let min = spec.min_replicas.map(|min| min.to_string());
    vec![
        json!(autoscaler.metadata.name),
        json!(format!("{}/{}", reference.kind, reference.name)),
        json!(targets(
            spec.metrics.as_deref().unwrap_or_default(),
            status.current_metrics.as_deref().unwrap_or_default(),
        )),
        json!(cells::or_unset(min.as_deref())),
        json!(spec.max_replicas),
        json!(status.current_replicas.unwrap_or_default()),
        json!(cells::since(
            autoscaler.metadata.creation_timestamp.as_ref(),
            now
        )),
    ]
}

fn targets(specs: &[MetricSpec], statuses: &[MetricStatus]) -> String {
    if specs.is_empty() {
        return cells::NONE.to_owned();
    }
    let texts: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(i, spec)| target(spec, statuses.get(i)))
        .collect();
    let shown = texts[..texts.len().min(SHOWN)].join(", ");
    match texts.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// One metric: what it is and what it should be.
fn target(spec: &MetricSpec, status: Option<&MetricStatus>) -> String {
    if let Some(source) = &spec.external {
        let current = status.and_then(|s| s.external.as_ref()).map(|s| &s.current);
        value_or_average(&source.target, current)
    } else if let Some(source) = &spec.object {
        let current = status.and_then(|s| s.object.as_ref()).map(|s| &s.current);
        value_or_average(&source.target, current)
    } else if let Some(source) = &spec.pods {
        let current = status.and_then(|s| s.pods.as_ref()).map(|s| &s.current);
        let current = current.and_then(|c| c.average_value.as_ref());
        let wanted = source.target.average_value.as_ref();
        format!("{}/{}", amount(current), amount(wanted))
    } else if let Some(source) = &spec.resource {
        let current = status.and_then(|s| s.resource.as_ref()).map(|s| &s.current);
        utilization(&source.name, &source.target, current)
    } else if let Some(source) = &spec.container_resource {
        let current = status.and_then(|s| s.container_resource.as_ref());
        let current = current.map(|s| &s.current);
        utilization(&source.name, &source.target, current)
    } else {
        "<unknown type>".to_owned()
    }
}

fn value_or_average(target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    match &target.average_value {
        Some(wanted) => {
            let current = current.and_then(|c| c.average_value.as_ref());
            format!("{}/{} (avg)", amount(current), wanted.0)
        }
        None => {
            let current = current.and_then(|c| c.value.as_ref());
            format!("{}/{}", amount(current), amount(target.value.as_ref()))
        }
    }
}

fn utilization(name: &str, target: &MetricTarget, current: Option<&MetricValueStatus>) -> String {
    if let Some(wanted) = &target.average_value {
        let current = current.and_then(|c| c.average_value.as_ref());
        return format!("{name}: {}/{}", amount(current), wanted.0);
    }
    let percent = |percent: Option<i32>, none: &str| {
        percent.map_or_else(|| none.to_owned(), |percent| format!("{percent}%"))
    };
    let current = percent(current.and_then(|c| c.average_utilization), UNKNOWN);
    let wanted = percent(target.average_utilization, "<auto>");
    format!("{name}: {current}/{wanted}")
}

fn amount(amount: Option<&Quantity>) -> &str {
    amount.map_or(UNKNOWN, |amount| &amount.0)
}
