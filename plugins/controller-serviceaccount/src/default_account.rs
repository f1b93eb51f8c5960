//! The ServiceAccount `default` of each active namespace: created again when it is deleted, otherwise left alone.

use pilothouse_sdk::{
    Value,
    cluster::{
        ClusterExt,
        resources::{NAMESPACES, SERVICE_ACCOUNTS},
    },
    controller::{Context, Entry, Error, Key, Outcome, Reconciler, Watch},
    json,
};
use serde::de::IgnoredAny;

use crate::namespace;

const NAME: &str = "default";

/// The controller. Keys are namespaces.
pub(crate) struct DefaultAccount;

impl Reconciler for DefaultAccount {
    fn entry(&self) -> Entry {
        let accounts = Watch::by_namespace(&SERVICE_ACCOUNTS).fields("metadata.name=default");
        Entry::new("serviceaccount-controller")
            .watch(Watch::own(&NAMESPACES))
            .watch(accounts)
            .may(&["get", "list", "watch"], "", &["namespaces"])
            .may(
                &["get", "list", "watch", "create"],
                "",
                &["serviceaccounts"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        if !namespace::is_active(cluster, &key.name)? {
            return Ok(Outcome::Done);
        }
        let account = cluster.get::<IgnoredAny>(&SERVICE_ACCOUNTS, &key.name, NAME)?;
        if account.is_some() {
            return Ok(Outcome::Done);
        }
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": NAME, "namespace": key.name},
        });
        match cluster.create::<Value>(&SERVICE_ACCOUNTS, &key.name, &account) {
            Err(refusal) if !namespace::is_harmless(&refusal) => Err(refusal.into()),
            _ => Ok(Outcome::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::{
        cluster::{Cluster, DeleteOptions, Status},
        testing::{FakeCluster, settle},
    };

    use super::*;

    fn with_namespace() -> FakeCluster {
        let cluster = FakeCluster::new();
        cluster.add(
            &NAMESPACES,
            json!({"metadata": {"name": "ns"}, "spec": {"finalizers": ["kubernetes"]}}),
        );
        cluster
    }

    fn run(cluster: &FakeCluster) -> Vec<String> {
        settle(&DefaultAccount, cluster, &json!({}), &Key::new("", "ns"), 5).errors
    }

    #[test]
    fn is_created_once_and_again_after_a_deletion() {
        let cluster = with_namespace();
        for _ in 0..2 {
            run(&cluster);
            assert!(cluster.object(&SERVICE_ACCOUNTS, "ns", "default").is_some());
            assert_eq!(cluster.take_actions().len(), 1);
            run(&cluster);
            assert_eq!(cluster.take_actions(), []);
            cluster.remove(&SERVICE_ACCOUNTS, "ns", "default");
        }
    }

    #[test]
    fn a_deleting_or_missing_namespace_gets_none() {
        let cluster = with_namespace();
        assert_eq!(
            cluster.delete(&NAMESPACES, "", "ns", &DeleteOptions::default()),
            Ok(())
        );
        cluster.take_actions();
        run(&cluster);
        assert_eq!(cluster.take_actions(), []);
        let cluster = FakeCluster::new();
        run(&cluster);
        assert_eq!(cluster.take_actions(), []);
    }

    #[test]
    fn being_late_is_no_error_and_being_refused_is() {
        let cases = [
            (Status::new(409, "AlreadyExists", "exists"), 0),
            (
                Status::new(
                    403,
                    "Forbidden",
                    "unable to create new content in namespace ns because it is being terminated",
                ),
                0,
            ),
            (Status::new(403, "Forbidden", "no quota"), 1),
        ];
        for (refusal, errors) in cases {
            let cluster = with_namespace();
            cluster.fail_next("create", &SERVICE_ACCOUNTS, refusal);
            assert_eq!(run(&cluster).len(), errors);
        }
    }
}
