//! What the registry shows to Prometheus, computed when it is asked for. Labels are components, which their owner names; what a
//! plugin itself chooses is only the names of its counters, of which there are few.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::{PluginRegistry, PluginState, PluginStatus};
use crate::stats::Latencies;

/// The metrics of all components of a registry, named `pilothouse_plugin_…`.
pub struct PluginMetrics(pub PluginRegistry);

impl fmt::Debug for PluginMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PluginMetrics")
    }
}

const STATES: [PluginState; 6] = [
    PluginState::Serving,
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

        let mut metric = encoder.encode_descriptor(
            "pilothouse_plugin_call_duration_microseconds",
            "Time of a call, waits for the host included",
            None,
            MetricType::Histogram,
        )?;
        let latencies = self.0.latencies();
        let samples: Vec<_> = latencies
            .iter()
            .map(|(name, latencies)| (vec![("component", &**name)], latencies))
            .collect();
        each(&mut metric, &samples, |metric, latencies: &&Latencies| {
            let Latencies {
                sum_us,
                count,
                buckets,
            } = latencies;
            metric.encode_histogram::<NoLabelSet>(*sum_us, *count, buckets, None)
        })
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
