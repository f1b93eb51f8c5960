//! The reconcile: registration under the singleton key, everything about one node under its name.

use std::{collections::BTreeSet, net::Ipv4Addr};

use pilothouse_sdk::{
    cluster::{
        Cluster, ClusterExt, DeleteOptions, ListOptions, PatchType, Write,
        resources::{LEASES, NODES, PODS},
    },
    controller::{Context, Entry, Error, Key, Outcome, Reconciler, Watch},
    objects::{Time, fnv1a_32},
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::{
    addresses::PodRange,
    config::Config,
    node::{self, LEASE_NAMESPACE, Lease, Node},
    pod::{Pod, Step},
    pod_status,
};

/// So many nodes are registered in one call, so that no call takes long.
const REGISTER_AT_ONCE: usize = 100;

/// The controller.
pub(crate) struct Kubelet;

impl Reconciler for Kubelet {
    fn entry(&self) -> Entry {
        let simulated = format!("{}=true", node::SIMULATED);
        Entry::new("simulated-kubelet")
            .singleton()
            .workers(8)
            .watch(Watch::own(&NODES).labels(&simulated))
            .watch(Watch::by_field(&PODS, "spec.nodeName").fields("spec.nodeName!="))
            .watch(Watch::cached(&LEASES))
            .may(&["get", "list", "watch", "create", "patch"], "", &["nodes"])
            .may(&["patch"], "", &["nodes/status", "pods/status"])
            .may(&["get", "list", "watch", "delete"], "", &["pods"])
            .may(
                &["get", "list", "watch", "create", "patch"],
                "coordination.k8s.io",
                &["leases"],
            )
    }

    fn reconcile(&self, context: &Context<'_>, key: &Key) -> Result<Outcome, Error> {
        let run = Run {
            cluster: context.cluster,
            config: Config::read(context.config)?,
            now: Time::from_ms(context.cluster.now_ms()),
        };
        if key.name.is_empty() {
            return run.register();
        }
        match run.cluster.get::<Node>(&NODES, "", &key.name)? {
            Some(node) if node.is_simulated() && !node.is_silent() => run.node(node),
            Some(_) => Ok(Outcome::Done),
            None if run.config.reregister => run.register(),
            None => Ok(Outcome::Done),
        }
    }
}

struct Run<'a> {
    cluster: &'a dyn Cluster,
    config: Config,
    now: Time,
}

impl Run<'_> {
    /// Creates the configured nodes that do not exist. One of that name that is not simulated is left alone.
    fn register(&self) -> Result<Outcome, Error> {
        let nodes: Vec<Node> = self.cluster.list(&NODES, "", &ListOptions::default())?;
        let present: BTreeSet<&str> = nodes.iter().map(|node| &*node.metadata.name).collect();
        let mut taken: BTreeSet<String> = nodes
            .iter()
            .map(|node| node.spec.pod_cidr.clone())
            .collect();
        let names = self.config.node_names();
        let missing = names
            .iter()
            .enumerate()
            .filter(|(_, name)| !present.contains(name.as_str()));
        let missing: Vec<(usize, &String)> = missing.collect();
        for (number, name) in missing.iter().take(REGISTER_AT_ONCE) {
            let first = u32::try_from(*number).unwrap_or(0);
            let pod_cidr = PodRange::choose(first, &taken).ok_or_else(no_range_left)?;
            let node = node::registration(name, &pod_cidr, &self.config);
            match self.cluster.create::<Value>(&NODES, "", &node) {
                Err(refusal) if !refusal.is_already_exists() => return Err(refusal.into()),
                _ => taken.insert(pod_cidr),
            };
        }
        Ok(match missing.len() > REGISTER_AT_ONCE {
            true => Outcome::RequeueAfterMs(1),
            false => Outcome::Done,
        })
    }

    /// Heartbeats and pods of one simulated node; runs again when the next of them is due.
    fn node(&self, node: Node) -> Result<Outcome, Error> {
        let node = self.with_range(node)?;
        let range = PodRange::parse(&node.spec.pod_cidr).ok_or_else(|| {
            Error::other(format!(
                "podCIDR {:?} is no IPv4 range for pods",
                node.spec.pod_cidr
            ))
        })?;
        let lease_due_ms = self.renew_lease(&node)?;
        let status_due_ms = self.post_status(&node, range.node_address())?;
        let pods_due_ms = self.pods(&node, range)?;
        let due = [Some(lease_due_ms), Some(status_due_ms), pods_due_ms];
        Ok(due
            .into_iter()
            .flatten()
            .min()
            .map_or(Outcome::Done, Outcome::RequeueAfterMs))
    }

    /// Gives a node that joined without a range of pod addresses one.
    fn with_range(&self, node: Node) -> Result<Node, Error> {
        if !node.spec.pod_cidr.is_empty() {
            return Ok(node);
        }
        let nodes: Vec<Node> = self.cluster.list(&NODES, "", &ListOptions::default())?;
        let taken = nodes.into_iter().map(|node| node.spec.pod_cidr).collect();
        let first = fnv1a_32(node.metadata.uid.as_bytes());
        let pod_cidr = PodRange::choose(first, &taken).ok_or_else(no_range_left)?;
        let patch = json!({
            "metadata": {"uid": node.metadata.uid},
            "spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]},
        });
        Ok(self
            .cluster
            .merge_patch(&NODES, "", &node.metadata.name, &patch)?)
    }

    /// Answers in how many milliseconds it is due again.
    fn renew_lease(&self, node: &Node) -> Result<u64, Error> {
        let name = &node.metadata.name;
        let lease = self.cluster.get::<Lease>(&LEASES, LEASE_NAMESPACE, name)?;
        match lease.as_ref().map(|lease| lease.due_ms(name, self.now)) {
            Some(ms) if ms > 0 => return Ok(ms),
            Some(_) => {
                let patch = json!({"spec": node.lease(self.now)["spec"]});
                self.cluster
                    .merge_patch::<IgnoredAny>(&LEASES, LEASE_NAMESPACE, name, &patch)?;
            }
            None => {
                self.cluster
                    .create::<Value>(&LEASES, LEASE_NAMESPACE, &node.lease(self.now))?;
            }
        }
        Ok(node::RENEW_MS)
    }

    fn post_status(&self, node: &Node, address: Ipv4Addr) -> Result<u64, Error> {
        let due_ms = node.status_due_ms(self.now);
        if due_ms > 0 {
            return Ok(due_ms);
        }
        let patch = node.status_patch(&self.config, address, self.now);
        self.cluster
            .merge_patch_status::<IgnoredAny>(&NODES, "", &node.metadata.name, &patch)?;
        Ok(node::STATUS_MS)
    }

    /// Moves every pod of the node on. A refused write of one pod does not keep the others waiting; the first is reported.
    fn pods(&self, node: &Node, range: PodRange) -> Result<Option<u64>, Error> {
        let of_node = ListOptions::fields(format!("spec.nodeName={}", node.metadata.name));
        let pods: Vec<Pod> = self.cluster.list(&PODS, "", &of_node)?;
        let finished = |pod: &&Pod| matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        let mut taken: BTreeSet<Ipv4Addr> = pods
            .iter()
            .filter(|pod| !finished(pod))
            .flat_map(|pod| &pod.status.pod_ips)
            .filter_map(|address| address.ip.parse().ok())
            .collect();
        let mut due_ms: Option<u64> = None;
        let mut failure = None;
        let mut moves: Vec<(&Pod, Move)> = Vec::new();
        for pod in &pods {
            match pod.step(&self.config, self.now) {
                Step::Start => match self.start(pod, range, &mut taken) {
                    Ok(status) => moves.push((pod, Move::Start(status))),
                    Err(error) => failure = failure.or(Some(error)),
                },
                Step::UpdateReadiness => {
                    moves.push((pod, Move::Update(pod_status::readiness(pod, self.now))));
                }
                Step::Succeed => {
                    moves.push((pod, Move::Update(pod_status::succeeded(pod, self.now))));
                }
                Step::Remove => moves.push((pod, Move::Remove)),
                Step::Wait(ms) => due_ms = Some(due_ms.map_or(ms, |due| due.min(ms))),
                Step::Rest => {}
            }
        }
        let writes = moves.iter().map(|(pod, next)| next.write(pod)).collect();
        let answers = self.cluster.write_all(writes);
        for ((pod, next), answer) in moves.iter().zip(answers) {
            match answer {
                Ok(_) => self.tell(pod, next),
                Err(refusal) if refusal.is_not_found() => {}
                Err(refusal) => failure = failure.or(Some(refusal.into())),
            }
        }
        failure.map_or(Ok(due_ms), Err)
    }

    /// The patch that makes a pod run, with an address that is then taken.
    fn start(
        &self,
        pod: &Pod,
        range: PodRange,
        taken: &mut BTreeSet<Ipv4Addr>,
    ) -> Result<Value, Error> {
        let host_address = range.node_address();
        let address = match pod.spec.host_network {
            true => host_address,
            false => range
                .pod_address(&pod.metadata.uid, taken)
                .ok_or_else(|| Error::other("no pod address is left on the node"))?,
        };
        taken.insert(address);
        Ok(pod_status::running(pod, address, host_address, self.now))
    }

    /// The events that a kubelet records for a move.
    fn tell(&self, pod: &Pod, next: &Move) {
        if !self.config.events {
            return;
        }
        let subject = pod.subject();
        for container in &pod.spec.containers {
            let (name, image) = (&container.name, &container.image);
            let event = |reason: &str, action: &str, note: String| {
                self.cluster.event(&subject, reason, action, &note);
            };
            match next {
                Move::Start(_) => {
                    let note = format!("Container image {image:?} already present on machine");
                    event("Pulled", "Pull", note);
                    event("Created", "Create", format!("Created container: {name}"));
                    event("Started", "Start", format!("Started container {name}"));
                }
                Move::Remove => event("Killing", "Kill", format!("Stopping container {name}")),
                Move::Update(_) => {}
            }
        }
    }
}

/// A write that moves a pod on.
enum Move {
    Start(Value),
    Update(Value),
    Remove,
}

impl Move {
    fn write(&self, pod: &Pod) -> Write {
        let meta = &pod.metadata;
        let (of, namespace, name) = (PODS.clone(), meta.namespace.clone(), meta.name.clone());
        match self {
            Self::Start(status) | Self::Update(status) => Write::Patch {
                of,
                namespace,
                name,
                subresource: "status".to_owned(),
                kind: PatchType::Merge,
                patch: status.to_string().into_bytes(),
            },
            Self::Remove => Write::Delete {
                of,
                namespace,
                name,
                options: DeleteOptions {
                    grace_period_seconds: Some(0),
                    ..DeleteOptions::uid(&meta.uid)
                },
            },
        }
    }
}

fn no_range_left() -> Error {
    Error::other("no range of pod addresses is left")
}

#[cfg(test)]
mod tests;
