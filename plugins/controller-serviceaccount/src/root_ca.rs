//! The ConfigMap `kube-root-ca.crt` of each active namespace. The certificate comes from the configuration, `rootCA`, in PEM;
//! without it nothing is published.

use pilothouse_sdk::{
    Value,
    cluster::{
        Cluster, ClusterExt,
        resources::{CONFIG_MAPS, NAMESPACES},
    },
    controller::{Context, Entry, Error, Key, Outcome, Reconciler, Watch},
    json,
};
use serde::de::IgnoredAny;

use crate::namespace;

const NAME: &str = "kube-root-ca.crt";
const DATA_KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str =
    "The CA certificate by which clients inside the cluster know this cluster's API server.";

/// The controller. Keys are namespaces.
pub(crate) struct RootCa;

impl Reconciler for RootCa {
    fn entry(&self) -> Entry {
        let maps = Watch::by_namespace(&CONFIG_MAPS).fields("metadata.name=kube-root-ca.crt");
        Entry::new("root-ca-certificate-publisher-controller")
            .watch(Watch::own(&NAMESPACES))
            .watch(maps)
            .may(&["get", "list", "watch"], "", &["namespaces"])
            .may(
                &["get", "list", "watch", "create", "patch"],
                "",
                &["configmaps"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let Some(certificate) = context.config["rootCA"].as_str() else {
            return Ok(Outcome::Done);
        };
        if namespace::is_active(cluster, &key.name)? {
            publish(cluster, &key.name, certificate)?;
        }
        Ok(Outcome::Done)
    }
}

fn publish(cluster: &dyn Cluster, namespace: &str, certificate: &str) -> Result<(), Error> {
    let data = json!({DATA_KEY: certificate});
    let annotations = json!({DESCRIPTION: DESCRIPTION_TEXT});
    let Some(present) = cluster.get::<Value>(&CONFIG_MAPS, namespace, NAME)? else {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": namespace, "annotations": annotations},
            "data": data,
        });
        return match cluster.create::<Value>(&CONFIG_MAPS, namespace, &map) {
            Err(refusal) if !namespace::is_harmless(&refusal) => Err(refusal.into()),
            _ => Ok(()),
        };
    };
    if present["data"] == data && !present["metadata"]["annotations"][DESCRIPTION].is_null() {
        return Ok(());
    }
    let mut wanted = data;
    for key in present["data"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if key != DATA_KEY {
            wanted[key] = Value::Null; // a merge patch takes keys away by null
        }
    }
    let patch = json!({"metadata": {"annotations": annotations}, "data": wanted});
    cluster.merge_patch::<IgnoredAny>(&CONFIG_MAPS, namespace, NAME, &patch)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::testing::{FakeCluster, settle};

    use super::*;

    fn run(cluster: &FakeCluster, config: Value) -> usize {
        settle(&RootCa, cluster, &config, &Key::new("", "ns"), 5);
        cluster.take_actions().len()
    }

    #[test]
    fn is_published_repaired_and_renewed() {
        let cluster = FakeCluster::new();
        cluster.add(&NAMESPACES, json!({"metadata": {"name": "ns"}}));
        let data = || cluster.object(&CONFIG_MAPS, "ns", NAME).unwrap()["data"].clone();
        assert_eq!(run(&cluster, json!({"rootCA": "PEM 1"})), 1);
        assert_eq!(data(), json!({"ca.crt": "PEM 1"}));
        assert_eq!(run(&cluster, json!({"rootCA": "PEM 1"})), 0);
        let mut spoilt = cluster.object(&CONFIG_MAPS, "ns", NAME).unwrap();
        spoilt["data"] = json!({"ca.crt": "theirs", "more": "x"});
        cluster.set(&CONFIG_MAPS, spoilt);
        assert_eq!(run(&cluster, json!({"rootCA": "PEM 1"})), 1);
        assert_eq!(data(), json!({"ca.crt": "PEM 1"}));
        assert_eq!(run(&cluster, json!({"rootCA": "PEM 2"})), 1);
        assert_eq!(data(), json!({"ca.crt": "PEM 2"}));
    }

    #[test]
    fn without_a_certificate_or_namespace_nothing_is_published() {
        let cluster = FakeCluster::new();
        assert_eq!(run(&cluster, json!({"rootCA": "PEM"})), 0);
        cluster.add(&NAMESPACES, json!({"metadata": {"name": "ns"}}));
        assert_eq!(run(&cluster, json!({})), 0);
    }
}
