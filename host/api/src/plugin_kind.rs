//! `Plugin`, the kind by which plugins are installed, configured and watched: `plugins.pilothouse.dev/v1alpha1`,
//! cluster-scoped. A file in the plugin directory becomes such an object too. `facts/pilothouse.txt` names the same fields.

use k8s_openapi::{
    Metadata, Resource,
    api::{admissionregistration::v1::RuleWithOperations, rbac::v1::PolicyRule},
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta},
};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Map, Value, json};

/// A component and what it may do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.Plugin", transform = add_type_meta)]
pub struct Plugin {
    /// Standard object's metadata. The name is that of the user `system:plugin:<name>` as whom the plugin acts.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: PluginSpec,
    /// What is; written by the host alone.
    #[schemars(with = "PluginStatus")]
    pub status: Option<PluginStatus>,
}

/// What the plugin is, when it is called, and what it may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginSpec")]
pub struct PluginSpec {
    /// Where the component comes from.
    pub source: PluginSource,
    /// Handed to the plugin as it is.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Map<String, Value>,
    /// Narrows which requests an admission plugin sees; all that its manifest names if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MatchRules")]
    pub match_rules: Option<MatchRules>,
    /// What a trap, a limit or an unloaded plugin means for the call: Fail or Ignore. The manifest's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FailurePolicy")]
    pub failure_policy: Option<FailurePolicy>,
    /// The same for single extension points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["extensionPoint"]))]
    pub failure_policies: Vec<PointFailurePolicy>,
    /// What a call may use; the host's defaults for what is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PluginLimits")]
    pub limits: Option<PluginLimits>,
    /// The reads and writes of the cluster that the plugin may make, as RBAC rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<PolicyRule>,
    /// How many versions to keep for a rollback besides the active one; 5 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub revision_history_limit: Option<i32>,
    /// `Enforce`, or `Shadow`: it is asked, but its answers are only compared with what is done. Enforce if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PluginMode")]
    pub mode: Option<PluginMode>,
    /// A version beside the one that serves, to prove itself before it takes its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PluginCandidate")]
    pub candidate: Option<PluginCandidate>,
    /// When the plugin is rolled back to the version before, or paused if there is none; the host's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PluginRollback")]
    pub rollback: Option<PluginRollback>,
}

/// Whether what a plugin answers is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum PluginMode {
    #[default]
    Enforce,
    Shadow,
}

/// A version beside the one that serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginCandidate")]
pub struct PluginCandidate {
    /// Where the component comes from; a file in a subdirectory of the plugin directory, so that it is no plugin itself.
    pub source: PluginSource,
    /// Handed to it in place of spec.config.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub config: Map<String, Value>,
    /// Of a hundred calls, those that it decides. 0: it is asked what the other one is asked, and its answers do not act.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub weight: Option<i32>,
}

/// How many failures are too many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginRollback")]
pub struct PluginRollback {
    /// So many; 5 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub failures: Option<i32>,
    /// Within so many seconds; 10 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub within_seconds: Option<i32>,
}

/// Where a component comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginSource")]
pub struct PluginSource {
    /// A file, relative to the plugin directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// `sha256:` and 64 hexadecimal digits that the component must have; anything if absent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
}

/// Which requests reach an admission plugin, as webhook configurations say it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.MatchRules")]
pub struct MatchRules {
    /// Operations, groups, versions and resources; one of the rules must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleWithOperations>,
    /// Labels of the object's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Labels of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub object_selector: Option<LabelSelector>,
}

/// What a failed call of one extension point means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PointFailurePolicy")]
pub struct PointFailurePolicy {
    /// The interface: `admission/mutate`, `admission/validate`, `scheduler/filter` and the like.
    pub extension_point: String,
    /// Fail or Ignore.
    pub failure_policy: FailurePolicy,
}

/// What a failed call means: the request is refused (`Fail`), or the plugin is passed over (`Ignore`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

/// What a call may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginLimits")]
pub struct PluginLimits {
    /// Running time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub time_ms: Option<i64>,
    /// Memory of an instance in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub memory_bytes: Option<i64>,
    /// Bytes handed to the host in one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub output_bytes: Option<i64>,
    /// Calls of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub host_calls: Option<i64>,
    /// Objects written a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub writes_per_second: Option<i64>,
    /// Running time and waits for the host in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub wait_ms: Option<i64>,
    /// WebAssembly instructions; not counted, and so faster, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub instructions: Option<i64>,
    /// Elements of an instance's tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub table_elements: Option<i64>,
    /// Core instances within one component instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub instances: Option<i64>,
    /// Bytes of log lines; the rest is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub log_bytes: Option<i64>,
}

/// What became of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginStatus")]
pub struct PluginStatus {
    /// `sha256:…` of the component that serves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The interfaces that it exports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// `Compiled`, `ContractPassed`, `Ready`, `Degraded`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The digest that serves.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub active_revision: String,
    /// The digest that served before it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub previous_revision: String,
    /// The digests of the versions that are kept for a rollback, the one that was active last first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
    /// One word for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Calls since the plugin was loaded.
    pub calls: i64,
    /// Traps since the plugin was loaded.
    pub traps: i64,
    /// The median of a call in microseconds.
    pub p50_micros: i64,
    /// The time in microseconds that 99 of 100 calls do not exceed.
    pub p99_micros: i64,
    /// When the active revision was loaded.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("format" = "date-time"))]
    pub loaded_at: String,
    /// The generation of the object that this status speaks of.
    pub observed_generation: i64,
    /// The names of the plugins that the component carries, as its manifest has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// `BuiltIn`, `Directory` or `Object`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// How the version beside the one that serves fares.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PluginCandidateStatus")]
    pub candidate: Option<PluginCandidateStatus>,
    /// What answers that did not act, of a candidate or in mode Shadow, differed in from what was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PluginShadowStatus")]
    pub shadow: Option<PluginShadowStatus>,
}

/// How a candidate fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginCandidateStatus")]
pub struct PluginCandidateStatus {
    /// `sha256:…` of its component.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// `Shadow`, `Weighted`, `Withdrawn` after too many failures, or `Failed` to load.
    pub state: String,
    /// Why it is not called.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Of a hundred calls, those that it decides.
    pub weight: i32,
    /// Calls of it.
    pub calls: i64,
    /// Those that failed.
    pub traps: i64,
    /// The median of a call in microseconds.
    pub p50_micros: i64,
    /// The time in microseconds that 99 of 100 calls do not exceed.
    pub p99_micros: i64,
}

/// What came of comparing answers that did not act.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginShadowStatus")]
pub struct PluginShadowStatus {
    /// Answers that were compared.
    pub compared: i64,
    /// Calls that were not made, because too many waited.
    pub dropped: i64,
    /// Differences, and writes that were not made.
    pub differences: i64,
    /// The last differences, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub samples: Vec<PluginDifference>,
}

/// One difference between what was done and what would have been done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(rename = "dev.pilothouse.plugins.v1alpha1.PluginDifference")]
pub struct PluginDifference {
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// `decision`, `object`, `warnings`, `failure` or `write`.
    pub kind: String,
    /// The request, or the write.
    pub about: String,
    /// What was done.
    pub acted: String,
    /// What would have been done.
    pub shadow: String,
}

impl Resource for Plugin {
    const API_VERSION: &'static str = "plugins.pilothouse.dev/v1alpha1";
    const GROUP: &'static str = "plugins.pilothouse.dev";
    const KIND: &'static str = "Plugin";
    const VERSION: &'static str = "v1alpha1";
    const URL_PATH_SEGMENT: &'static str = "plugins";
    type Scope = k8s_openapi::ClusterResourceScope;
}

impl k8s_openapi::ListableResource for Plugin {
    const LIST_KIND: &'static str = "PluginList";
}

impl Metadata for Plugin {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Serialize for Plugin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 4 + usize::from(self.status.is_some());
        let mut state = serializer.serialize_struct(Self::KIND, fields)?;
        state.serialize_field("apiVersion", Self::API_VERSION)?;
        state.serialize_field("kind", Self::KIND)?;
        state.serialize_field("metadata", &self.metadata)?;
        state.serialize_field("spec", &self.spec)?;
        if let Some(status) = &self.status {
            state.serialize_field("status", status)?;
        }
        state.end()
    }
}

fn add_type_meta(schema: &mut Schema) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for name in ["apiVersion", "kind"] {
            properties.insert(name.to_owned(), json!({ "type": "string" }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_manifest_is_read_and_written() {
        let manifest = json!({
            "apiVersion": "plugins.pilothouse.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {"name": "deny-latest"},
            "spec": {
                "source": {"path": "deny-latest.wasm"},
                "config": {"any": [1, {"thing": null}]},
                "matchRules": {
                    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                    "namespaceSelector": {"matchLabels": {"a": "b"}},
                },
                "failurePolicy": "Ignore",
                "limits": {"timeMs": 50, "memoryBytes": 1048576},
                "capabilities": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            },
        });
        let plugin = Plugin::decode(manifest.to_string().as_bytes()).unwrap();
        assert_eq!(plugin.spec.failure_policy, Some(FailurePolicy::Ignore));
        assert_eq!(
            plugin.spec.limits.as_ref().and_then(|l| l.time_ms),
            Some(50)
        );
        let written: Value = serde_json::from_slice(&plugin.encode()).unwrap();
        assert_eq!(written, manifest);
    }

    #[test]
    fn wrong_types_are_bad_requests() {
        for spec in [
            json!({"config": []}),
            json!({"failurePolicy": "Maybe"}),
            json!({"limits": {"timeMs": "1"}}),
        ] {
            let manifest = json!({"metadata": {"name": "x"}, "spec": spec});
            let status = Plugin::decode(manifest.to_string().as_bytes()).unwrap_err();
            assert_eq!(status.code, 400, "{manifest}");
        }
    }
}
