//! What the registry shows to Prometheus, computed when it is asked for. Labels are components, which their owner names; what a
//! plugin itself chooses is only the names of its counters, of which there are few.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::{PluginRegistry, PluginState, PluginStatus};
use crate::stats::Distribution;

/// The metrics of all components of a registry, named `pilothouse_plugin_…`.
pub struct PluginMetrics(pub PluginRegistry);

impl fmt::Debug for PluginMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PluginMetrics")
    }
}

const STATES: [PluginState; 7] = [
    PluginState::Serving,
    PluginState::Shadow,
    PluginState::Degraded,
    PluginState::RolledBack,
    PluginState::Quarantined,
    PluginState::Failed,
    PluginState::Disabled,
];

type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Collector for PluginMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let components = self.0.status();
        let component = |status: &PluginStatus| status.name.to_string();
        let mut counter = |name: &str, help: &str, samples: &[(Labels, u64)]| -> fmt::Result {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            each(&mut metric, samples, |metric, value| {
                metric.encode_counter::<NoLabelSet, _, u64>(value, None)
            })
        };
        let names: Vec<String> = components.iter().map(component).collect();
        let named = || names.iter().map(String::as_str).zip(&components);
        let samples: Vec<_> = named()
            .map(|(name, status)| (vec![("component", name)], status.figures.calls))
            .collect();
        counter(
            "pilothouse_plugin_calls",
            "Calls of a component that ended",
            &samples,
        )?;
        let samples: Vec<_> = named()
            .map(|(name, status)| (vec![("component", name)], status.figures.reloads))
            .collect();
        counter(
            "pilothouse_plugin_reloads",
            "Times that a version took another's place",
            &samples,
        )?;
        let samples: Vec<_> = named()
            .flat_map(|(name, status)| {
                let traps = status.figures.traps.iter();
                traps.map(move |(cause, count)| {
                    (vec![("component", name), ("cause", *cause)], *count)
                })
            })
            .collect();
        counter(
            "pilothouse_plugin_failures",
            "Calls that failed by the component's fault, by cause: trap, time, memory …",
            &samples,
        )?;
        let samples: Vec<_> = named()
            .flat_map(|(name, status)| {
                let own = status.figures.counters.iter();
                own.map(move |(counter, value)| {
                    (
                        vec![("component", name), ("name", counter.as_str())],
                        *value,
                    )
                })
            })
            .collect();
        counter(
            "pilothouse_plugin_own",
            "What a component counts itself",
            &samples,
        )?;

        let samples: Vec<_> = named()
            .flat_map(|(name, status)| {
                let differences = status.figures.differences.iter();
                differences
                    .map(move |(kind, count)| (vec![("component", name), ("kind", *kind)], *count))
            })
            .collect();
        counter(
            "pilothouse_plugin_shadow_differences",
            "Answers that did not act and differ from what was done, by kind: decision, object …",
            &samples,
        )?;
        let samples: Vec<_> = named()
            .map(|(name, status)| (vec![("component", name)], status.figures.compared))
            .collect();
        counter(
            "pilothouse_plugin_shadow_compared",
            "Answers that did not act and were compared with what was done",
            &samples,
        )?;
        let samples: Vec<_> = named()
            .map(|(name, status)| (vec![("component", name)], status.figures.shadow_dropped))
            .collect();
        counter(
            "pilothouse_plugin_shadow_dropped",
            "Calls of shadows that were not made, because too many waited",
            &samples,
        )?;
        let beside =
            || named().filter_map(|(name, status)| Some((name, status.candidate.as_ref()?)));
        let samples: Vec<_> = beside()
            .map(|(name, candidate)| (vec![("component", name)], candidate.figures.calls))
            .collect();
        counter(
            "pilothouse_plugin_candidate_calls",
            "Calls of the version beside the one that serves",
            &samples,
        )?;
        let samples: Vec<_> = beside()
            .flat_map(|(name, candidate)| {
                let traps = candidate.figures.traps.iter();
                traps.map(move |(cause, count)| {
                    (vec![("component", name), ("cause", *cause)], *count)
                })
            })
            .collect();
        counter(
            "pilothouse_plugin_candidate_failures",
            "Calls of the version beside the one that serves that failed, by cause",
            &samples,
        )?;

        let mut gauge = |name: &str, help: &str, samples: &[(Labels, u64)]| -> fmt::Result {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            each(&mut metric, samples, |metric, value| {
                metric.encode_gauge(&value.cast_signed())
            })
        };
        let samples: Vec<_> = named()
            .map(|(name, status)| (vec![("component", name)], status.figures.memory_peak))
            .collect();
        gauge(
            "pilothouse_plugin_memory_peak_bytes",
            "The most linear memory that an instance had",
            &samples,
        )?;
        let samples: Vec<_> = named()
            .flat_map(|(name, status)| {
                STATES.map(|state| {
                    let labels = vec![("component", name), ("state", state.as_str())];
                    (labels, u64::from(status.state == state))
                })
            })
            .collect();
        gauge(
            "pilothouse_plugin_state",
            "1 for the state that it is in",
            &samples,
        )?;

        let durations = self.0.durations();
        let mut histogram = |name: &str, help: &str, of: &[(Labels, &Distribution)]| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            each(&mut metric, of, |metric, of| {
                metric.encode_histogram::<NoLabelSet>(of.sum, of.count, &of.buckets, None)
            })
        };
        let samples: Vec<_> = durations
            .iter()
            .map(|(name, latencies, _)| (vec![("component", &**name)], latencies))
            .collect();
        histogram(
            "pilothouse_plugin_call_duration_microseconds",
            "Time of a call, waits for the host included",
            &samples,
        )?;
        let samples: Vec<_> = durations
            .iter()
            .map(|(name, _, shares)| (vec![("component", &**name)], shares))
            .collect();
        histogram(
            "pilothouse_plugin_deadline_share",
            "Part that a call took of the time that its request had left, which all plugins share",
            &samples,
        )
    }
}

fn each<T>(
    metric: &mut MetricEncoder<'_>,
    samples: &[(Labels<'_>, T)],
    encode: impl Fn(&mut MetricEncoder<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    samples
        .iter()
        .try_for_each(|(labels, value)| encode(&mut metric.encode_family(labels)?, value))
}
