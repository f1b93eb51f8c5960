//! `DefaultTolerationSeconds`: pods tolerate a not-ready or unreachable node for five minutes, unless they say otherwise.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds>

use pilothouse_sdk::{
    admission::{Admission, Denial, Entry, Mutation, Request},
    host, json,
    patch::Patch,
};
use serde::Deserialize;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The plugin.
pub struct DefaultTolerationSeconds;

/// The API server's flags of the same names, as configuration.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    default_not_ready_toleration_seconds: i64,
    default_unreachable_toleration_seconds: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default_not_ready_toleration_seconds: 300,
            default_unreachable_toleration_seconds: 300,
        }
    }
}

#[derive(Deserialize)]
struct Pod {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    tolerations: Option<Vec<Toleration>>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Toleration {
    key: String,
    effect: String,
}

impl Toleration {
    /// An empty key tolerates every taint, an empty effect every effect.
    fn covers(&self, key: &str) -> bool {
        (self.key == key || self.key.is_empty())
            && (self.effect == "NoExecute" || self.effect.is_empty())
    }
}

impl Admission for DefaultTolerationSeconds {
    fn entry(&self) -> Entry {
        Entry::new("DefaultTolerationSeconds")
            .on(&["CREATE", "UPDATE"], "", &["pods"])
            .order(-600)
            .mutate_only()
    }

    fn mutate(&self, request: &Request) -> Result<Mutation, Denial> {
        let config: Config = host::config().map_err(Denial::internal)?;
        let pod: Pod = request.object()?;
        let tolerations = pod.spec.tolerations.unwrap_or_default();
        let missing = [
            (NOT_READY, config.default_not_ready_toleration_seconds),
            (UNREACHABLE, config.default_unreachable_toleration_seconds),
        ]
        .into_iter()
        .filter(|(key, _)| !tolerations.iter().any(|t| t.covers(key)))
        .map(|(key, seconds)| {
            json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds })
        });
        let mut patch = Patch::new();
        if tolerations.is_empty() {
            patch.add(&["spec", "tolerations"], missing.collect::<Vec<_>>());
        } else {
            for toleration in missing {
                patch.add(&["spec", "tolerations", "-"], toleration);
            }
        }
        Ok(patch.into())
    }
}

pilothouse_sdk::export! {
    admission(mutate): [DefaultTolerationSeconds],
}
