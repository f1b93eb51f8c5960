//! Admission plugins that break every promise, each in its own way: the configuration says which. Tests hold against them that
//! limits are enforced and that contracts catch what they are for.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use pilothouse_sdk::{
    Value,
    admission::{Admission, Denial, Entry, Mutation, Request},
    cluster::{
        Cluster, ClusterExt,
        resources::{CONFIG_MAPS, SECRETS},
    },
    host, json,
    patch::Patch,
};
use serde::Deserialize;

/// The plugin.
pub struct Bad;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Behaviour {
    /// The one that is well-behaved: it labels the object.
    #[default]
    Good,
    Spin,
    Trap,
    /// Traps on objects that are named `trap-…` only, so that no contract finds out.
    TrapByName,
    Recurse,
    Allocate,
    Flood,
    Sleep,
    CallHostForever,
    Chatter,
    /// Appends at every call.
    Append,
    /// Removes what is not there.
    PatchNowhere,
    /// Answers with the number of calls that its instance has had.
    CountCalls,
    /// Writes even on a dry run.
    WriteAlways,
    WriteWhileValidating,
    /// Takes every object for a pod.
    TrustInput,
    /// Writes what it has no capability for, and refuses with what it was told.
    Overreach,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    behaviour: Behaviour,
    /// The label's value, to tell two versions apart.
    label: Option<String>,
}

impl Admission for Bad {
    fn entry(&self) -> Entry {
        Entry::new("Bad")
            .on(&["CREATE", "UPDATE"], "", &["pods"])
            .may(&["create"], "", &["configmaps"])
    }

    fn mutate(&self, cluster: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let calls = CALLS.fetch_add(1, Relaxed);
        let config: Config = host::config().map_err(Denial::internal)?;
        let mut patch = Patch::new();
        match config.behaviour {
            Behaviour::Good => label(
                request,
                config.label.as_deref().unwrap_or("good"),
                &mut patch,
            )?,
            Behaviour::Spin => spin(),
            Behaviour::Trap => panic!("on purpose"),
            Behaviour::TrapByName => assert!(!request.name.starts_with("trap-"), "on purpose"),
            Behaviour::Recurse => _ = recurse(1),
            Behaviour::Allocate => allocate(),
            Behaviour::Flood => _ = patch.add(&["metadata", "annotations"], "x".repeat(4 << 20)),
            Behaviour::Sleep => host::sleep_ms(3_600_000),
            Behaviour::CallHostForever => while host::now_ms() != 1 {},
            Behaviour::Chatter => (0..1000).for_each(|_| eprintln!("{}", "chatter ".repeat(100))),
            Behaviour::Append => {
                let object: Value = request.object()?;
                match object["spec"]["tolerations"].is_array() {
                    true => patch.add(&["spec", "tolerations", "-"], json!({ "key": "again" })),
                    false => patch.add(&["spec", "tolerations"], json!([{ "key": "first" }])),
                };
            }
            Behaviour::PatchNowhere => _ = patch.remove(&["spec", "nowhere", "at", "all"]),
            Behaviour::CountCalls => label(request, &format!("n{calls}"), &mut patch)?,
            Behaviour::WriteAlways => write(cluster)?,
            Behaviour::TrustInput => trust(request),
            Behaviour::Overreach => {
                cluster.create(
                    &SECRETS,
                    "kube-system",
                    &json!({ "metadata": { "name": "mine" } }),
                )?;
            }
            Behaviour::WriteWhileValidating => {}
        }
        Ok(patch.into())
    }

    fn validate(&self, cluster: &dyn Cluster, _: &Request) -> Result<Vec<String>, Denial> {
        let config: Config = host::config().map_err(Denial::internal)?;
        if config.behaviour == Behaviour::WriteWhileValidating {
            write(cluster)?;
        }
        Ok(Vec::new())
    }
}

fn label(request: &Request, value: &str, patch: &mut Patch) -> Result<(), Denial> {
    let object: Value = request.object()?;
    if object["metadata"]["labels"]["example.com/judged"] == value {
        return Ok(());
    }
    match object["metadata"]["labels"].is_object() {
        true => patch.add(&["metadata", "labels", "example.com/judged"], value),
        false if object["metadata"].is_object() => patch.add(
            &["metadata", "labels"],
            json!({ "example.com/judged": value }),
        ),
        false => return Err(Denial::bad_request("no metadata")),
    };
    Ok(())
}

fn spin() {
    let mut n = 0_u64;
    while black_box(n) != u64::MAX {
        n = n.wrapping_add(1);
    }
}

fn recurse(depth: u64) -> u64 {
    let here = black_box([depth; 64]);
    match black_box(depth) {
        0 => 0,
        depth => recurse(depth + 1) + here[0],
    }
}

fn allocate() {
    let mut held = Vec::new();
    loop {
        held.push(black_box(vec![1_u8; 1 << 20]));
    }
}

fn write(cluster: &dyn Cluster) -> Result<(), Denial> {
    let object = json!({ "metadata": { "name": "trace", "namespace": "default" } });
    cluster.create(&CONFIG_MAPS, "default", &object)?;
    Ok(())
}

fn trust(request: &Request) {
    let object: Value = request
        .object()
        .unwrap_or_else(|denial| panic!("{}", denial.message));
    let containers = object["spec"]["containers"].as_array().map_or(0, Vec::len);
    assert!(containers > 0, "a pod has containers");
}

pilothouse_sdk::export! {
    admission(mutate, validate): [Bad],
}
