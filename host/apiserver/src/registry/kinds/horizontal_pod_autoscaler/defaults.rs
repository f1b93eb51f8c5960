//! Defaults: 80 % of the CPU that pods asked for, and Kubernetes' pace of scaling where a pace is given in part.
//! Source: <https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#configurable-scaling-behavior>

use k8s_openapi::{
    api::autoscaling::v2::{
        HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler, MetricSpec, MetricTarget,
        ResourceMetricSource,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use pilothouse_api::quantity;

use super::metrics::target_mut;
use crate::registry::kinds::fill;

pub(super) const DEFAULT_CPU_UTILIZATION: i32 = 80;
const PERIOD_SECONDS: i32 = 15;

pub(super) fn fill(autoscaler: &mut HorizontalPodAutoscaler) {
    let spec = &mut autoscaler.spec;
    fill::pointer(&mut spec.min_replicas, 1);
    let metrics = spec.metrics.get_or_insert_default();
    if metrics.is_empty() {
        metrics.push(cpu_utilization());
    }
    for target in metrics.iter_mut().filter_map(target_mut) {
        canonicalize(&mut target.value);
        canonicalize(&mut target.average_value);
    }
    if let Some(behavior) = &mut spec.behavior {
        let up = behavior.scale_up.get_or_insert_default();
        fill::pointer(&mut up.stabilization_window_seconds, 0);
        let (pods, percent) = (policy("Pods", 4), policy("Percent", 100));
        fill_rules(up, vec![pods, percent]);
        let down = behavior.scale_down.get_or_insert_default();
        fill_rules(down, vec![policy("Percent", 100)]);
    }
}

fn cpu_utilization() -> MetricSpec {
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: "Utilization".to_owned(),
                average_utilization: Some(DEFAULT_CPU_UTILIZATION),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn policy(kind: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy {
        type_: kind.to_owned(),
        value,
        period_seconds: PERIOD_SECONDS,
    }
}

fn fill_rules(rules: &mut HPAScalingRules, policies: Vec<HPAScalingPolicy>) {
    fill::pointer(&mut rules.select_policy, "Max".to_owned());
    fill::pointer(&mut rules.policies, policies);
    canonicalize(&mut rules.tolerance);
}

fn canonicalize(amount: &mut Option<Quantity>) {
    if let Some(amount) = amount
        && let Ok(canonical) = quantity::Quantity::canonical(&amount.0)
    {
        amount.0 = canonical;
    }
}
