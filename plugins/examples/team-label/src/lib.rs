//! An admission plugin: every new ConfigMap says which team it belongs to. One without the label `team` gets the configured
//! default; without a default it is refused.

use std::collections::BTreeMap;

use pilothouse_sdk::{
    admission::{Admission, Denial, Entry, Mutation, Request},
    cluster::Cluster,
    host, json,
    patch::Patch,
};
use serde::Deserialize;

pub struct TeamLabel;

/// `spec.config` of the Plugin object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    default_team: Option<String>,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
}

impl Admission for TeamLabel {
    fn entry(&self) -> Entry {
        Entry::new("TeamLabel").on(&["CREATE"], "", &["configmaps"])
    }

    fn mutate(&self, _: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
        let config: Config = host::config().map_err(Denial::internal)?;
        let labels = request.object::<Object>()?.metadata.labels;
        let mut patch = Patch::new();
        match (labels, config.default_team) {
            (None, Some(team)) => {
                patch.add(&["metadata", "labels"], json!({"team": team}));
            }
            (Some(labels), Some(team)) if !labels.contains_key("team") => {
                patch.add(&["metadata", "labels", "team"], team);
            }
            _ => {}
        }
        Ok(patch.into())
    }

    fn validate(&self, _: &dyn Cluster, request: &Request) -> Result<Vec<String>, Denial> {
        let labels = request
            .object::<Object>()?
            .metadata
            .labels
            .unwrap_or_default();
        match labels.contains_key("team") {
            true => Ok(Vec::new()),
            false => Err(request
                .forbidden("the label \"team\" is missing; add it, for example team=payments")),
        }
    }
}

pilothouse_sdk::export! {
    admission(mutate, validate): [TeamLabel],
}
