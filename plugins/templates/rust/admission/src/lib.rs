//! An admission plugin: every new ConfigMap has the label `team`.

use pilothouse_sdk::{
    Value,
    admission::{Admission, Denial, Entry, Mutation, Request},
    cluster::Cluster,
    host, json,
    patch::Patch,
};

struct Plugin;

impl Admission for Plugin {
    fn entry(&self) -> Entry {
        Entry::new("plugin-name").on(&["CREATE"], "", &["configmaps"])
    }

    /// Adds the configured default, if there is one: `{"defaultTeam": "payments"}`.
    fn mutate(&self, _: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
        let config: Value = host::config().map_err(Denial::internal)?;
        let labels = labels(request)?;
        let mut patch = Patch::new();
        match (labels.as_object(), config["defaultTeam"].as_str()) {
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
        match labels(request)?.get("team") {
            Some(_) => Ok(Vec::new()),
            None => Err(request
                .forbidden("the label \"team\" is missing; add it, for example team=payments")),
        }
    }
}

/// The labels of the object; null if it has none.
fn labels(request: &Request) -> Result<Value, Denial> {
    let mut object: Value = request.object()?;
    match object.get_mut("metadata") {
        Some(Value::Object(metadata)) => Ok(metadata.remove("labels").unwrap_or_default()),
        _ => Err(Denial::bad_request("the object has no metadata")),
    }
}

pilothouse_sdk::export! {
    admission(mutate, validate): [Plugin],
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::{
        admission::Operation,
        cluster::resources::CONFIG_MAPS,
        testing::{FakeCluster, admission_request},
    };

    use super::*;

    #[test]
    fn the_label_is_required() {
        for (labels, allowed) in [(json!({"team": "a"}), true), (json!({}), false)] {
            let object = json!({"metadata": {"name": "settings", "labels": labels}});
            let request = admission_request(&CONFIG_MAPS, Operation::Create, &object);
            let answer = Plugin.validate(&FakeCluster::new(), &request);
            assert_eq!(answer.is_ok(), allowed, "{labels}");
        }
    }
}
