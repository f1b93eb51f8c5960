use std::{collections::HashSet, pin::Pin};

use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::{
    capability::{Grant, Rule},
    cluster::{CallingPlugin, Cluster, DeleteOptions, PatchType},
};

const BY: CallingPlugin<'static> = CallingPlugin {
    name: "replicas",
    component: "replicas",
};

/// How the controller under test misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    Traps,
    WritesForEver,
    WritesTheSameAgain,
    ReadsSecrets,
    DeletesByLabel,
    RemembersWhatItMade,
    FailsForEver,
}

/// Keeps as many pods for a set as it asks for.
struct Replicas {
    world: Arc<World>,
    flaw: Flaw,
    made: Mutex<HashSet<String>>,
}

fn resource(group: &str, name: &str) -> GroupVersionResource {
    GroupVersionResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: name.to_owned(),
    }
}

fn decode(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), pilothouse_api::Status>> + Send + 'a>>;

impl Replicas {
    fn run<'a>(&'a self, key: &'a Key) -> Answer<'a> {
        Box::pin(async move {
            let (sets, pods) = (resource("apps", "sets"), resource("", "pods"));
            let world = &self.world;
            let set = match world.get(BY, &sets, &key.namespace, &key.name).await {
                Ok(bytes) => decode(&bytes),
                Err(status) if status.is_not_found() => return Ok(()),
                Err(status) => return Err(status),
            };
            let uid = set["metadata"]["uid"].as_str().unwrap();
            if self.flaw == Flaw::ReadsSecrets {
                world
                    .list(BY, &resource("", "secrets"), &key.namespace, "", "")
                    .await?;
            }
            let children = match self.flaw {
                Flaw::DeletesByLabel => {
                    let selector = format!("set={}", key.name);
                    world.list(BY, &pods, &key.namespace, &selector, "").await?
                }
                _ => world.list_owned(BY, &pods, &key.namespace, uid).await?,
            };
            let wanted = set["spec"]["replicas"].as_u64().unwrap() as usize;
            let known = match self.flaw {
                Flaw::RemembersWhatItMade => self.made.lock().len(),
                _ => children.len(),
            };
            for _ in known..wanted {
                let pod = json!({"metadata": {
                    "generateName": "x-",
                    "labels": {"set": key.name},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Set", "name": key.name, "uid": uid, "controller": true}],
                }});
                let made = world
                    .create(BY, &pods, &key.namespace, pod.to_string().into())
                    .await?;
                let name = decode(&made)["metadata"]["name"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                self.made.lock().insert(name);
            }
            for child in children.iter().rev().skip(wanted) {
                let child = decode(child);
                let name = child["metadata"]["name"].as_str().unwrap();
                let uid = child["metadata"]["uid"].as_str().map(str::to_owned);
                let options = DeleteOptions {
                    propagation: None,
                    grace_period_seconds: None,
                    uid,
                    resource_version: None,
                };
                match world.delete(BY, &pods, &key.namespace, name, options).await {
                    Err(status) if !status.is_not_found() => return Err(status),
                    _ => {}
                }
            }
            let ready = json!({"status": {"replicas": wanted}});
            if set["status"] != ready["status"] || self.flaw == Flaw::WritesTheSameAgain {
                let patch = ready.to_string().into();
                world
                    .patch(
                        BY,
                        &sets,
                        &key.namespace,
                        &key.name,
                        "status",
                        PatchType::Merge,
                        patch,
                    )
                    .await?;
            }
            if self.flaw == Flaw::WritesForEver {
                let count = set["metadata"]["annotations"]["n"].as_u64().unwrap_or(0) + 1;
                let patch = json!({"metadata": {"annotations": {"n": count}}})
                    .to_string()
                    .into();
                world
                    .patch(
                        BY,
                        &sets,
                        &key.namespace,
                        &key.name,
                        "",
                        PatchType::Merge,
                        patch,
                    )
                    .await?;
            }
            Ok(())
        })
    }
}

#[async_trait]
impl Subject for Replicas {
    async fn reconcile(&self, key: &Key) -> Result<Reconciled, CallError> {
        match self.flaw {
            Flaw::Traps => Err(CallError::Trap {
                plugin: "replicas".into(),
                interface: "controller/reconcile",
                cause: "unreachable".to_owned(),
            }),
            Flaw::FailsForEver => Ok(Err("I do not want to".to_owned())),
            _ => Ok(self
                .run(key)
                .await
                .map(|()| None)
                .map_err(|status| status.to_string())),
        }
    }
}

async fn verdict(flaw: Flaw) -> Result<(), Violation> {
    let rule = |verbs: &[&str], group: &str, resources: &[&str]| Rule {
        verbs: verbs.iter().map(|s| (*s).to_owned()).collect(),
        api_groups: vec![group.to_owned()],
        resources: resources.iter().map(|s| (*s).to_owned()).collect(),
        resource_names: Vec::new(),
    };
    let rules = vec![
        rule(
            &["get", "list", "watch", "patch"],
            "apps",
            &["sets", "sets/status"],
        ),
        rule(&["get", "list", "watch", "create", "delete"], "", &["pods"]),
    ];
    let world = World::new(Capabilities::new(rules, Grant::Asked));
    let settings: ControllerSettings = serde_json::from_value(json!({"watches": [
        {"group": "apps", "version": "v1", "resource": "sets", "map": "self"},
        {"version": "v1", "resource": "pods", "map": {"owner": {"apiVersion": "apps/v1", "kind": "Set"}}},
    ]}))
    .unwrap();
    let fixture = |name: &str, replicas: u32| Fixture {
        resource: resource("apps", "sets"),
        object: json!({"metadata": {"namespace": "a", "name": name}, "spec": {"replicas": replicas}}),
    };
    let subject = Replicas {
        world: world.clone(),
        flaw,
        made: Mutex::default(),
    };
    check(
        "replicas",
        &subject,
        &settings,
        &world,
        &[fixture("one", 3), fixture("two", 5)],
        1..20,
    )
    .await
}

#[tokio::test]
async fn a_good_controller_passes() {
    assert_eq!(verdict(Flaw::None).await, Ok(()));
}

#[tokio::test]
async fn every_clause_catches_a_bad_controller() {
    for (flaw, clause) in [
        (Flaw::Traps, "does-not-trap"),
        (Flaw::WritesForEver, "converges"),
        (Flaw::FailsForEver, "converges"),
        (Flaw::RemembersWhatItMade, "converges"),
        (Flaw::WritesTheSameAgain, "second-reconcile-writes-nothing"),
        (Flaw::ReadsSecrets, "stays-within-its-capabilities"),
        (Flaw::DeletesByLabel, "touches-only-what-it-owns"),
    ] {
        let violation = verdict(flaw)
            .await
            .expect_err(&format!("{flaw:?} is caught"));
        assert_eq!(violation.clause, clause, "{flaw:?}: {violation}");
    }
}

#[tokio::test]
async fn a_seed_replays_a_violation() {
    let first = verdict(Flaw::DeletesByLabel).await;
    assert_eq!(first, verdict(Flaw::DeletesByLabel).await);
}

#[tokio::test]
async fn the_world_refuses_what_is_no_object() {
    let everything = Rule {
        verbs: vec!["*".to_owned()],
        api_groups: vec!["*".to_owned()],
        resources: vec!["*".to_owned()],
        resource_names: Vec::new(),
    };
    let world = World::new(Capabilities::new(vec![everything], Grant::Asked));
    let pods = resource("", "pods");
    for nonsense in [
        "[]",
        "3",
        r#"{"metadata":3}"#,
        r#"{"metadata":{},"spec":[]}"#,
    ] {
        let made = world.create(BY, &pods, "a", nonsense.into()).await;
        assert_eq!(made.unwrap_err().code, 400, "{nonsense}");
    }
    let pod = json!({"metadata": {"name": "x"}, "spec": {}}).to_string();
    world.create(BY, &pods, "a", pod.into()).await.unwrap();
    for (patch_type, patch) in [
        (PatchType::Merge, r#"{"metadata":null,"spec":7}"#),
        (PatchType::Merge, "[]"),
        (
            PatchType::Json,
            r#"[{"op":"replace","path":"","value":[]}]"#,
        ),
        (
            PatchType::Json,
            r#"[{"op":"replace","path":"/metadata","value":0}]"#,
        ),
    ] {
        let patched = world.patch(BY, &pods, "a", "x", "", patch_type, patch.into());
        assert!(patched.await.is_err(), "{patch}");
    }
}
