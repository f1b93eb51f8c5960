//! `pilothouse plugin run`: one call of a plugin with its answer, time, memory and log.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result, ensure};
use pilothouse_plugin::Level;
use serde_json::{Value, json};

use super::{name, read, say, settings, trial::Bench};
use crate::{
    flags::{CommonFlags, OutputFormat, TrialFlags},
    plugins,
};

/// Calls whatever the input reaches, each on a fresh instance. Fails if one of the calls did.
pub(super) async fn run(
    common: &CommonFlags,
    flags: &TrialFlags,
    output: OutputFormat,
    file: &Path,
) -> Result<()> {
    ensure!(
        flags.input.is_some(),
        "give the object that the call is about with --input FILE (YAML or JSON; - is standard input)"
    );
    let wasm = read(file)?;
    let engine = plugins::engine_for(common, &wasm)?;
    let settings = settings(flags.plugin_config.as_deref())?;
    let bench = Bench::load(&engine, flags, settings, &name(file), &wasm)
        .await
        .with_context(|| file.display().to_string())?;
    let (mut calls, mut failed) = (Vec::new(), 0);
    for mut trial in bench.trials()? {
        let started = Instant::now();
        let answer = trial.call().await;
        let took = started.elapsed();
        let figures = trial.revision().figures();
        let mut call = json!({ "plugin": trial.plugin(), "interface": trial.interface() });
        match answer {
            Ok(answer) => call["answer"] = answer,
            Err(error) => {
                failed += 1;
                call["error"] = format!("{error:#}").into();
            }
        }
        call["timeMicros"] = json!(took.as_micros() as u64);
        call["memoryBytes"] = json!(figures.memory_peak);
        call["log"] = log(trial.revision());
        calls.push(call);
    }
    say(&output.text(&calls)?)?;
    ensure!(failed == 0, "{failed} of {} calls failed", calls.len());
    Ok(())
}

fn log(revision: &pilothouse_plugin::Revision) -> Value {
    let lines = revision.log().lines().into_iter();
    lines
        .map(|line| {
            let level = match line.level {
                Level::Error => "error",
                Level::Warn => "warn",
                Level::Info => "info",
                Level::Debug => "debug",
            };
            format!("{level}: {}", line.message)
        })
        .collect()
}
