use serde_json::json;

use super::*;
use crate::{
    cluster::resources::{PODS, REPLICA_SETS},
    controller::ObjectExt,
    testing::FakeCluster,
};

#[derive(Deserialize)]
struct Child {
    metadata: ObjectMeta,
}

impl HasMeta for Child {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

fn owner(cluster: &FakeCluster) -> ObjectMeta {
    let set = json!({"metadata": {"name": "web", "namespace": "default"}});
    let set = cluster.add(&REPLICA_SETS, set);
    Child::deserialize(set).unwrap().metadata
}

fn pod(cluster: &FakeCluster, name: &str, app: &str, controller: Option<&str>) {
    let owners = controller.map(|uid| {
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true}])
    });
    let metadata = json!({"name": name, "namespace": "default", "labels": {"app": app}, "ownerReferences": owners});
    cluster.add(&PODS, json!({"metadata": metadata}));
}

fn claim(cluster: &FakeCluster, owner: &ObjectMeta) -> Result<Vec<String>, Error> {
    let selector = Selector::from_map(&json!({"app": "web"}));
    let owning = Owning {
        cluster,
        owner,
        owner_resource: &REPLICA_SETS,
        owner_kind: "ReplicaSet",
        child_resource: &PODS,
        selector: &selector,
    };
    let pods: Vec<Child> = cluster.list(&PODS, "default", &Default::default())?;
    let claimed = owning.claim(pods, |pod| pod.metadata.name != "finished")?;
    Ok(claimed.into_iter().map(|pod| pod.metadata.name).collect())
}

#[test]
fn keeps_its_own_adopts_orphans_releases_the_unselected_and_leaves_others() {
    let cluster = FakeCluster::new();
    let owner = owner(&cluster);
    pod(&cluster, "adopted", "web", None);
    pod(&cluster, "another-s", "web", Some("somebody"));
    pod(&cluster, "finished", "web", None);
    pod(&cluster, "kept", "web", Some(&owner.uid));
    pod(&cluster, "released", "db", Some(&owner.uid));
    pod(&cluster, "unrelated", "db", None);

    assert_eq!(claim(&cluster, &owner).unwrap(), ["adopted", "kept"]);
    let controller = |name| {
        let pod = cluster.object(&PODS, "default", name).unwrap();
        pod.controller().map(|owner| owner.uid)
    };
    assert_eq!(controller("adopted"), Some(owner.uid.clone()));
    assert_eq!(controller("another-s"), Some("somebody".to_owned()));
    assert_eq!(controller("released"), None);
    assert_eq!(controller("finished"), None);
    assert_eq!(cluster.take_actions().len(), 2);

    assert_eq!(claim(&cluster, &owner).unwrap(), ["adopted", "kept"]);
    assert_eq!(cluster.take_actions(), [], "a second claim writes nothing");
}

#[test]
fn an_owner_that_is_gone_adopts_nothing_although_the_cache_still_has_it() {
    let cluster = FakeCluster::new();
    let old = owner(&cluster);
    cluster.remove(&REPLICA_SETS, "default", "web");
    owner(&cluster); // the same name, another uid
    pod(&cluster, "orphan", "web", None);

    assert_eq!(claim(&cluster, &old).unwrap(), [""; 0]);
    assert_eq!(cluster.take_actions(), []);
}

#[test]
fn a_child_changed_since_it_was_judged_is_a_conflict() {
    let cluster = FakeCluster::new();
    let owner = owner(&cluster);
    pod(&cluster, "orphan", "web", None);
    cluster.freeze_cache();
    let mut pod = cluster.object(&PODS, "default", "orphan").unwrap();
    pod["metadata"]["labels"]["app"] = json!("db");
    cluster.set(&PODS, pod);

    assert!(claim(&cluster, &owner).unwrap_err().is_conflict());
    cluster.thaw();
    assert_eq!(claim(&cluster, &owner).unwrap(), [""; 0]);
}
