//! `/healthz`, `/livez`, `/readyz` and their single checks.
//! Source: <https://kubernetes.io/docs/reference/using-api/health-checks/>

use std::{fmt::Write, sync::Arc};

use http::Response;
use pilothouse_client::Body;

use super::Request;
use crate::{response, state::State};

/// The names of the checks in their order, which are upstream's: probes exclude them by name. `readyz` has all of them.
/// `etcd` is the storage, whichever engine it is.
const CHECKS: [&str; 4] = ["ping", "etcd", "informer-sync", "shutdown"];
const ALIVE: usize = 2;

/// The answer to a health path; `None`: it is not one.
pub(crate) async fn answer(
    state: &Arc<State>,
    path: &str,
    request: &Request<'_>,
) -> Option<Response<Body>> {
    let (endpoint, check) = match path.trim_start_matches('/').split_once('/') {
        Some((endpoint, check)) => (endpoint, Some(check)),
        None => (path.trim_start_matches('/'), None),
    };
    let checks: &[&str] = match endpoint {
        "readyz" => &CHECKS,
        "healthz" | "livez" => &CHECKS[..ALIVE],
        _ => return None,
    };
    let ready = checks.len() > ALIVE;
    if let Some(check) = check {
        let known = checks.iter().find(|known| **known == check)?;
        return Some(match run(state, known, ready).await {
            Ok(()) => response::text(200, "ok"),
            Err(why) => response::text(500, format!("internal server error: {why}\n")),
        });
    }
    let excluded: Vec<&str> = request.query.all("exclude").collect();
    let mut report = String::new();
    let mut failed = false;
    for check in checks {
        let outcome = match excluded.contains(check) {
            true => Ok("excluded: ok"),
            false => run(state, check, ready).await.map(|()| "ok"),
        };
        // the reason of a failure is in the log, not in an answer that anybody may read
        match outcome {
            Ok(text) => _ = writeln!(report, "[+]{check} {text}"),
            Err(why) => {
                tracing::warn!(check, why, "a health check failed");
                failed = true;
                _ = writeln!(report, "[-]{check} failed: reason withheld");
            }
        }
    }
    report.push_str(&unknown(&excluded, checks));
    let verbose = request.query.all("verbose").next().is_some();
    Some(match (failed, verbose) {
        (true, _) => response::text(500, format!("{report}{endpoint} check failed\n")),
        (false, true) => response::text(200, format!("{report}{endpoint} check passed\n")),
        (false, false) => response::text(200, "ok"),
    })
}

/// A line about what cannot be excluded, if anything.
fn unknown(excluded: &[&str], checks: &[&str]) -> String {
    let mut names: Vec<String> = excluded
        .iter()
        .filter(|name| !checks.contains(name))
        .map(|name| format!("{name:?}"))
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        ),
    }
}

async fn run(state: &State, check: &str, ready: bool) -> Result<(), String> {
    match check {
        "etcd" if ready => state.registry.health().await,
        "etcd" => state.registry.alive().await,
        "informer-sync" => state.registry.filled(),
        "shutdown" if state.leaving.is_cancelled() => Err("the server is shutting down".to_owned()),
        _ => Ok(()),
    }
}
