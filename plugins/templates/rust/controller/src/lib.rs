//! A controller: every namespace with the label `welcome=true` has a ConfigMap `welcome`.

use pilothouse_sdk::{
    Value,
    cluster::{ClusterExt, resources},
    controller::{Context, Entry, Error, Key, ObjectExt, Outcome, Reconciler, Watch},
    json,
};

pub struct Welcome;

impl Reconciler for Welcome {
    fn entry(&self) -> Entry {
        Entry::new("plugin-name")
            .watch(Watch::own(&resources::NAMESPACES))
            .watch(Watch::by_namespace(&resources::CONFIG_MAPS))
            .may(&["get", "list", "watch"], "", &["namespaces"])
            .may(&["get", "list", "watch", "create"], "", &["configmaps"])
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let Some(namespace) = cluster.get::<Value>(&resources::NAMESPACES, "", &key.name)? else {
            return Ok(Outcome::Done);
        };
        let wanted = namespace.label("welcome") == Some("true") && !namespace.is_deleting();
        if wanted
            && cluster
                .get::<Value>(&resources::CONFIG_MAPS, &key.name, "welcome")?
                .is_none()
        {
            let text = format!("welcome to {}", key.name);
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "welcome"},
                "data": {"text": text},
            });
            cluster.create(&resources::CONFIG_MAPS, &key.name, &map)?;
        }
        Ok(Outcome::Done)
    }
}

pilothouse_sdk::export! {
    controller(reconcile): [Welcome],
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::FakeCluster;

    use super::*;

    fn run(labels: &Value) -> (FakeCluster, Result<Outcome, Error>) {
        let cluster = FakeCluster::new();
        cluster.add(&resources::NAMESPACES, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}));
        let context = Context {
            cluster: &cluster,
            config: &json!({}),
        };
        let outcome = Welcome.reconcile(&context, &Key::new("", "shop"));
        (cluster, outcome)
    }

    #[test]
    fn only_a_labelled_namespace_is_welcomed() {
        for (labels, expected) in [(json!({"welcome": "true"}), true), (json!({}), false)] {
            let (cluster, outcome) = run(&labels);
            assert_eq!(outcome, Ok(Outcome::Done));
            let map = cluster.get::<Value>(&resources::CONFIG_MAPS, "shop", "welcome");
            assert_eq!(map.map(|m| m.is_some()), Ok(expected), "{labels}");
        }
    }
}
