//! `pilothouse plugin record` and `replay`: the calls of a running control plane, made again of another version.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use pilothouse_client::{HttpsTransport, Transport, UserInfo};
use pilothouse_plugin::{
    Revision, Settings,
    cluster::NoCluster,
    record::{RecordedCall, replay},
};
use serde_json::{Value, json};

use super::{name, read, say, settings};
use crate::{
    flags::{CommonFlags, OutputFormat},
    plugins,
};

/// Writes the calls of a component down, a JSON document a line, until the time is up or `at_most` calls are there.
pub(super) async fn record(
    kubeconfig: &Path,
    component: &str,
    length: Duration,
    at_most: u64,
    to: Option<&Path>,
) -> Result<()> {
    let transport = HttpsTransport::from_kubeconfig(kubeconfig)
        .await
        .with_context(|| format!("reading {}", kubeconfig.display()))?;
    let mut file: Box<dyn Write + Send> = match to {
        Some(path) => {
            Box::new(private(path).with_context(|| format!("making {}", path.display()))?)
        }
        None => Box::new(std::io::stdout()),
    };
    let seconds = length.as_secs().max(1);
    let path = format!("/pilothouse/v1/plugins/{component}/calls?timeoutSeconds={seconds}");
    let request = http::Request::get(path).body(Bytes::new())?;
    let response = transport.send(&UserInfo::default(), request).await;
    let (head, mut body) = response.map_err(anyhow::Error::msg)?.into_parts();
    if !head.status.is_success() {
        let said = body.collect().await?.to_bytes();
        let message = serde_json::from_slice::<Value>(&said).unwrap_or_default();
        let message = message["message"].as_str().map(str::to_owned);
        bail!(
            "the API server refused: {}",
            message.unwrap_or_else(|| head.status.to_string())
        );
    }
    let mut calls = 0;
    let mut rest = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the API server broke off")?.into_data() else {
            continue;
        };
        rest.extend_from_slice(&data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            file.write_all(&line).context("writing the calls down")?;
            calls += 1;
            if calls == at_most {
                break;
            }
        }
        if calls == at_most {
            break;
        }
    }
    file.flush().context("writing the calls down")?;
    eprintln!("pilothouse: {calls} calls of {component} recorded");
    Ok(())
}

/// A new file for its owner alone: whole objects will be in it, Secrets too.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes recorded calls again of the component in `file`; fails if an answer or a write differs.
pub(super) async fn run(
    common: &CommonFlags,
    config: Option<&str>,
    calls: &Path,
    output: OutputFormat,
    file: &Path,
) -> Result<()> {
    let wasm = read(file)?;
    let engine = plugins::engine_for(common, &wasm)?;
    let chosen = settings(config)?.config;
    let records = File::open(calls).with_context(|| format!("reading {}", calls.display()))?;
    let (mut all, mut differences) = (0, Vec::new());
    let mut loaded: Option<Revision> = None;
    for (number, line) in (1..).zip(BufReader::new(records).lines()) {
        let at = || format!("{}, line {number}", calls.display());
        let line = line.with_context(at)?;
        if line.trim().is_empty() {
            continue;
        }
        let call: RecordedCall = serde_json::from_str(&line).with_context(at)?;
        let recorded = (!call.config.is_null()).then(|| call.config.clone());
        let config = chosen.clone().or(recorded);
        let revision = match loaded.take() {
            Some(revision) if revision.settings().config == config => revision,
            _ => {
                let settings = Settings {
                    config,
                    ..Settings::default()
                };
                let nobody = Arc::new(NoCluster);
                let revision = Revision::load(&engine, &name(file), &wasm, settings, nobody).await;
                revision.with_context(|| file.display().to_string())?
            }
        };
        let replayed = replay(&revision, &call).await.with_context(at)?;
        loaded = Some(revision);
        all += 1;
        if !replayed.is_same(&call) {
            let mut difference = json!({
                "line": number,
                "plugin": call.plugin,
                "interface": call.interface,
                "about": about(&call),
                "recorded": call.answer,
                "replayed": replayed.answer,
            });
            if !replayed.unheard.is_empty() {
                difference["askedWithoutAnswer"] = json!(replayed.unheard);
            }
            if !replayed.not_asked.is_empty() {
                difference["notAskedAgain"] = json!(replayed.not_asked);
            }
            differences.push(difference);
        }
    }
    ensure!(all > 0, "there is no call in {}", calls.display());
    say(&output.text(&differences)?)?;
    ensure!(
        differences.is_empty(),
        "{} of {all} calls went otherwise",
        differences.len()
    );
    say(&format!("{all} calls went as they were recorded\n"))
}

/// What the call was about: `CREATE configmaps default/settings`, or the key.
fn about(call: &RecordedCall) -> String {
    let text = |pointer: &str| {
        let found = call.input.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    match call.input["request"].is_null() {
        true => format!("{}/{}", text("/namespace"), text("/name")),
        false => format!(
            "{} {} {}/{}",
            text("/request/operation"),
            text("/request/resource/resource"),
            text("/request/namespace"),
            text("/request/name")
        ),
    }
}
