//! A controller that breaks every promise, each in its own way: the configuration says which. When good, it keeps one Secret for
//! each ConfigMap.

use std::hint::black_box;

use pilothouse_sdk::{
    Value,
    cluster::{
        Cluster, ClusterExt, DeleteOptions, ListOptions,
        resources::{CONFIG_MAPS, NODES, SECRETS},
    },
    controller::{Context, Entry, Error, Key, Outcome, Reconciler, Watch},
    json,
};
use serde::Deserialize;

/// The plugin.
pub struct Bad;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Behaviour {
    /// The one that is well-behaved.
    #[default]
    Good,
    Spin,
    Trap,
    Allocate,
    /// Counts its runs in an annotation.
    WriteForEver,
    /// Patches what is so already.
    WriteAgain,
    /// Reads what it has no capability for.
    Overreach,
    /// Deletes the Secrets of others.
    DeleteStrangers,
    FailForEver,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    behaviour: Behaviour,
}

impl Reconciler for Bad {
    fn entry(&self) -> Entry {
        Entry::new("bad-controller")
            .watch(Watch::own(&CONFIG_MAPS))
            .watch(Watch::owned_by(&SECRETS, "v1", "ConfigMap"))
            .may(&["get", "list", "watch", "patch"], "", &["configmaps"])
            .may(
                &["get", "list", "watch", "create", "delete"],
                "",
                &["secrets"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let cluster = context.cluster;
        let config = Config::deserialize(context.config)?;
        let map: Option<Value> = cluster.get(&CONFIG_MAPS, &key.namespace, &key.name)?;
        let Some(map) = map else {
            return Ok(Outcome::Done);
        };
        match config.behaviour {
            Behaviour::Good => {}
            Behaviour::Spin => spin(),
            Behaviour::Trap => panic!("on purpose"),
            Behaviour::Allocate => allocate(),
            Behaviour::WriteForEver => {
                let runs = map["metadata"]["annotations"]["runs"].as_str();
                let runs: u64 = runs.and_then(|runs| runs.parse().ok()).unwrap_or(0);
                annotate(cluster, key, &(runs + 1).to_string())?;
            }
            Behaviour::WriteAgain => annotate(cluster, key, "1")?,
            Behaviour::Overreach => {
                cluster.list::<Value>(&NODES, "", &ListOptions::default())?;
            }
            Behaviour::DeleteStrangers => delete_strangers(cluster, key)?,
            Behaviour::FailForEver => return Err(Error::other("I do not want to")),
        }
        keep_secret(cluster, key, &map)?;
        Ok(Outcome::Done)
    }
}

fn keep_secret(cluster: &dyn Cluster, key: &Key, map: &Value) -> Result<(), Error> {
    let uid = &map["metadata"]["uid"];
    let owned: Vec<Value> =
        cluster.list_owned(&SECRETS, &key.namespace, uid.as_str().unwrap_or_default())?;
    if owned.is_empty() {
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": key.name, "uid": uid, "controller": true,
        });
        let secret = json!({ "metadata": { "generateName": "kept-", "ownerReferences": [owner] } });
        cluster.create(&SECRETS, &key.namespace, &secret)?;
    }
    Ok(())
}

fn annotate(cluster: &dyn Cluster, key: &Key, runs: &str) -> Result<(), Error> {
    let patch = json!({ "metadata": { "annotations": { "runs": runs } } });
    cluster.merge_patch::<Value>(&CONFIG_MAPS, &key.namespace, &key.name, &patch)?;
    Ok(())
}

fn delete_strangers(cluster: &dyn Cluster, key: &Key) -> Result<(), Error> {
    let secrets: Vec<Value> = cluster.list(&SECRETS, &key.namespace, &ListOptions::default())?;
    let strangers = secrets
        .iter()
        .filter(|secret| secret["metadata"]["ownerReferences"][0]["kind"] != "ConfigMap");
    for secret in strangers {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        cluster.delete(&SECRETS, &key.namespace, name, &DeleteOptions::default())?;
    }
    Ok(())
}

fn spin() {
    let mut n = 0_u64;
    while black_box(n) != u64::MAX {
        n = n.wrapping_add(1);
    }
}

fn allocate() {
    let mut held = Vec::new();
    loop {
        held.push(black_box(vec![1_u8; 1 << 20]));
    }
}

pilothouse_sdk::export! {
    controller(reconcile): [Bad],
}
