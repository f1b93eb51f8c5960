//! `pilothouse plugin bench`: what a call of a plugin costs.

use std::{
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::{
    name, read, say, settings,
    trial::{Bench, Trial},
};
use crate::{
    flags::{CommonFlags, TrialFlags},
    plugins,
};

/// A fresh instance for each call takes longer; so many calls are enough.
const FRESH_SHARE: u32 = 10;

/// Calls whatever the input reaches so many times, warm and fresh.
pub(super) async fn run(
    common: &CommonFlags,
    flags: &TrialFlags,
    calls: u32,
    file: &Path,
) -> Result<()> {
    ensure!(calls > 0, "--calls 0 measures nothing");
    let wasm = read(file)?;
    let engine = plugins::engine_for(common, &wasm)?;
    let plain = settings(flags.plugin_config.as_deref())?;
    let mut metered = plain.clone();
    metered.limits.instructions = Some(u64::MAX);
    let bench = Bench::load(&engine, flags, plain, &name(file), &wasm)
        .await
        .with_context(|| file.display().to_string())?;
    let counting = Bench::load(&engine, flags, metered, &name(file), &wasm)
        .await
        .with_context(|| file.display().to_string())?;
    let mut text = format!(
        "{:<32} {:<22} {:>10} {:>10} {:>10} {:>10} {:>14} {:>12}\n",
        "PLUGIN", "INTERFACE", "WARM P50", "P99", "FRESH P50", "P99", "INSTRUCTIONS", "MEMORY"
    );
    for (mut trial, mut counted) in bench.trials()?.into_iter().zip(counting.trials()?) {
        trial.call().await?;
        let warm = measure(trial.as_mut(), calls, false).await?;
        let fresh = measure(trial.as_mut(), calls.div_ceil(FRESH_SHARE), true).await?;
        counted.call().await?;
        counted.call().await?;
        let figures = trial.revision().figures();
        writeln!(
            text,
            "{:<32} {:<22} {:>10} {:>10} {:>10} {:>10} {:>14} {:>12}",
            trial.plugin(),
            trial.interface(),
            micros(&warm, 0.5),
            micros(&warm, 0.99),
            micros(&fresh, 0.5),
            micros(&fresh, 0.99),
            counted.revision().figures().instructions,
            format!("{} kB", figures.memory_peak >> 10),
        )?;
    }
    say(&text)
}

/// Nanoseconds a call.
async fn measure(trial: &mut dyn Trial, calls: u32, fresh: bool) -> Result<Histogram<u64>> {
    const LONGEST: Duration = Duration::from_secs(60);
    let mut histogram = Histogram::new_with_max(LONGEST.as_nanos() as u64, 3)?;
    for _ in 0..calls {
        if fresh {
            trial.renew();
        }
        let started = Instant::now();
        trial.call().await?;
        histogram.saturating_record(started.elapsed().as_nanos() as u64);
    }
    Ok(histogram)
}

fn micros(histogram: &Histogram<u64>, quantile: f64) -> String {
    let nanos = histogram.value_at_quantile(quantile) as f64;
    format!("{:.1} µs", nanos / 1000.0)
}
