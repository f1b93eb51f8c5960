//! `/healthz`, `/livez`, `/readyz` and their single checks.
//! Source: <https://kubernetes.io/docs/reference/using-api/health-checks/>

use std::{fmt::Write, sync::Arc};

use http::Response;
use pilothouse_client::Body;

use super::Request;
use crate::{response, state::State};

/// The names of the checks in their order; `readyz` has all of them.
const CHECKS: [&str; 3] = ["ping", "storage", "shutdown"];

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
        "healthz" | "livez" => &CHECKS[..2],
        _ => return None,
    };
    if let Some(check) = check {
        let known = checks.iter().find(|known| **known == check)?;
        return Some(match run(state, known).await {
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
            false => run(state, check).await.map(|()| "ok"),
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
    Some(match (failed, request.query.optional_flag("verbose")) {
        (true, _) => response::text(500, format!("{report}{endpoint} check failed\n")),
        (false, Some(true)) => response::text(200, format!("{report}{endpoint} check passed\n")),
        (false, _) => response::text(200, "ok"),
    })
}

async fn run(state: &State, check: &str) -> Result<(), String> {
    match check {
        "storage" => state.registry.health().await,
        "shutdown" if state.stopping.is_cancelled() => {
            Err("the server is shutting down".to_owned())
        }
        _ => Ok(()),
    }
}
