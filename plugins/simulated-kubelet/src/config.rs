//! What nodes there are and how they behave.

use std::collections::BTreeMap;

use pilothouse_sdk::controller::Error;
use serde::Deserialize;
use serde_json::Value;

/// The plugin's `spec.config`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Config {
    /// How many nodes are registered, besides those named: `node-0`, `node-1` …
    pub(crate) nodes: usize,
    /// Nodes with names of their own.
    pub(crate) names: Vec<String>,
    /// Capacity and allocatable of each node.
    pub(crate) capacity: BTreeMap<String, String>,
    /// Further labels of each node.
    pub(crate) labels: BTreeMap<String, String>,
    /// Seconds that containers take to stop when their pod says nothing else.
    pub(crate) termination_seconds: u32,
    /// Whether a deleted node is registered again at once instead of at the next start.
    pub(crate) reregister: bool,
    /// Whether pods get the events that a kubelet records.
    pub(crate) events: bool,
}

impl Default for Config {
    fn default() -> Self {
        let capacity = [
            ("cpu", "32"),
            ("memory", "256Gi"),
            ("pods", "110"),
            ("ephemeral-storage", "1Ti"),
        ];
        Self {
            nodes: 0,
            names: Vec::new(),
            capacity: capacity
                .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
                .into(),
            labels: BTreeMap::new(),
            termination_seconds: 0,
            reregister: false,
            events: true,
        }
    }
}

impl Config {
    pub(crate) fn read(config: &Value) -> Result<Self, Error> {
        Self::deserialize(config).map_err(|error| Error::other(format!("configuration: {error}")))
    }

    /// The names of the nodes to register, in order.
    pub(crate) fn node_names(&self) -> Vec<String> {
        let numbered = (0..self.nodes).map(|number| format!("node-{number}"));
        self.names.iter().cloned().chain(numbered).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_has_its_default() {
        let config = Config::read(&json!({"nodes": 2, "names": ["edge"]})).unwrap();
        assert_eq!(config.node_names(), ["edge", "node-0", "node-1"]);
        assert_eq!(
            (config.capacity["cpu"].as_str(), config.events),
            ("32", true)
        );
        assert_eq!(Config::read(&json!({})).unwrap(), Config::default());
    }

    #[test]
    fn a_misspelt_field_is_an_error_in_words() {
        let error = Config::read(&json!({"node": 2})).unwrap_err().to_string();
        assert!(
            error.contains("configuration: unknown field `node`"),
            "{error}"
        );
    }
}
