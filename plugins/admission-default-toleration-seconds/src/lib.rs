//! `DefaultTolerationSeconds`: pods tolerate a not-ready or unreachable node for five minutes, unless they say otherwise.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds>

use pilothouse_sdk::{
    admission::{Admission, Denial, Entry, Mutation, Request},
    cluster::Cluster,
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

    fn mutate(&self, _: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
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

#[cfg(test)]
mod tests {
    use pilothouse_sdk::{
        Value,
        admission::Operation,
        cluster::resources::PODS,
        testing::{FakeCluster, admission_request, mutated},
    };

    use super::*;

    fn tolerations_after(tolerations: Value) -> Value {
        let pod = json!({
            "kind": "Pod", "metadata": { "name": "web", "namespace": "default" },
            "spec": { "tolerations": tolerations },
        });
        let request = admission_request(&PODS, Operation::Create, &pod);
        let mutation = DefaultTolerationSeconds.mutate(&FakeCluster::new(), &request);
        mutated(&pod, mutation)["spec"]["tolerations"].clone()
    }

    fn default_for(key: &str, seconds: i64) -> Value {
        json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds })
    }

    #[test]
    fn what_is_missing_is_added_and_nothing_else() {
        host::fake::reset();
        let not_ready = default_for(NOT_READY, 300);
        let unreachable = default_for(UNREACHABLE, 300);
        let other = json!({ "key": "dedicated", "operator": "Exists", "effect": "NoSchedule" });
        let own = json!({ "key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10 });
        let no_schedule = json!({ "key": NOT_READY, "operator": "Exists", "effect": "NoSchedule" });
        let all = json!({ "operator": "Exists" });
        let cases = [
            (json!(null), json!([not_ready, unreachable])),
            (json!([]), json!([not_ready, unreachable])),
            (json!([other]), json!([other, not_ready, unreachable])),
            (json!([own]), json!([own, unreachable])),
            (
                json!([no_schedule]),
                json!([no_schedule, not_ready, unreachable]),
            ),
            (json!([all]), json!([all])),
        ];
        for (before, after) in cases {
            assert_eq!(tolerations_after(before.clone()), after, "{before}");
            assert_eq!(tolerations_after(after.clone()), after, "a second time");
        }
    }

    #[test]
    fn the_seconds_are_configurable() {
        host::fake::reset();
        host::fake::set_config(json!({ "defaultUnreachableTolerationSeconds": 5 }));
        let expected = json!([default_for(NOT_READY, 300), default_for(UNREACHABLE, 5)]);
        assert_eq!(tolerations_after(json!([])), expected);
        host::fake::reset();
    }
}
