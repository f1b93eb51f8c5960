//! `NodeResourcesFit`: keeps pods off nodes that have not enough left of what they ask for, and prefers the emptier ones.
//! Source: <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/> and
//! <https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/>

use pilothouse_sdk::{
    Value,
    scheduler::{
        Begin, ClusterEvent, MAX_NODE_SCORE, Need, NodeInfo, Nodes, Pod, Point, Refusal, Resources,
        SchedulerPlugin, Verdict,
    },
};
use serde::Deserialize;

/// The plugin, with its arguments.
#[derive(Default)]
pub struct NodeResourcesFit {
    args: Args,
}

/// `NodeResourcesFitArgs`, as far as it goes with the `LeastAllocated` strategy.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Args {
    /// Extended resources that the filter passes over.
    ignored_resources: Vec<String>,
    /// The same by what stands before the slash.
    ignored_resource_groups: Vec<String>,
    scoring_strategy: Strategy,
}

#[derive(Deserialize)]
#[serde(default)]
struct Strategy {
    resources: Vec<Weighted>,
}

#[derive(Clone, Deserialize)]
struct Weighted {
    name: String,
    #[serde(default = "one")]
    weight: i64,
}

fn one() -> i64 {
    1
}

impl Default for Strategy {
    fn default() -> Self {
        let resources = ["cpu", "memory"].map(|name| Weighted {
            name: name.to_owned(),
            weight: 1,
        });
        Self {
            resources: resources.into(),
        }
    }
}

// Bits of a verdict's reason: what there is not enough of. Scalars follow, in the order of the pod's requests; the last bit
// stands for all that find no place.
const PODS: u32 = 1;
const CPU: u32 = 1 << 1;
const MEMORY: u32 = 1 << 2;
const EPHEMERAL_STORAGE: u32 = 1 << 3;
const FIRST_SCALAR: u32 = 4;
const LAST_SCALAR: u32 = 29;

/// What one pod asks for.
#[derive(Clone)]
pub struct Asked {
    requests: Resources,
    nonzero_cpu: i64,
    nonzero_memory: i64,
    /// Whether there is anything but the pod itself to fit in.
    only_itself: bool,
}

impl SchedulerPlugin for NodeResourcesFit {
    const NAME: &'static str = "NodeResourcesFit";
    const ORDER: i32 = -750;
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score];
    const NEEDS: &'static [Need] = &[Need::Allocatable, Need::Pods];
    const EVENTS: &'static [ClusterEvent] = &[
        ClusterEvent::NodeAdd,
        ClusterEvent::NodeUpdateAllocatable,
        ClusterEvent::PodRelease,
    ];
    type Cycle = Asked;

    fn configure(&mut self, config: &Value) -> Result<(), String> {
        self.args = Args::deserialize(config).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<Asked>, Refusal> {
        let mut requests = Resources::from_quantities(&pod.requests);
        requests
            .scalars
            .retain(|(name, value)| *value > 0 && !self.ignores(name));
        let nonzero = Resources::from_quantities(&pod.nonzero_requests);
        Ok(Begin::with(Asked {
            only_itself: requests == Resources::default(),
            requests,
            nonzero_cpu: nonzero.milli_cpu,
            nonzero_memory: nonzero.memory,
        }))
    }

    fn filter(&self, asked: &Asked, node: &NodeInfo) -> Verdict {
        let mut lacking = 0;
        let mut hopeless = false;
        if node.pod_count + 1 > node.allocatable.pods {
            lacking |= PODS;
        }
        if asked.only_itself {
            return match lacking {
                0 => Verdict::PASS,
                lacking => Verdict::unschedulable(lacking),
            };
        }
        let mut check = |bit: u32, asked: i64, allocatable: i64, used: i64| {
            if asked > 0 && asked > allocatable.saturating_sub(used) {
                lacking |= bit;
                hopeless |= asked > allocatable;
            }
        };
        let (wanted, has, used) = (&asked.requests, &node.allocatable, &node.requested);
        check(CPU, wanted.milli_cpu, has.milli_cpu, used.milli_cpu);
        check(MEMORY, wanted.memory, has.memory, used.memory);
        check(
            EPHEMERAL_STORAGE,
            wanted.ephemeral_storage,
            has.ephemeral_storage,
            used.ephemeral_storage,
        );
        for (i, (name, value)) in wanted.scalars.iter().enumerate() {
            let bit = 1 << (FIRST_SCALAR + i as u32).min(LAST_SCALAR);
            check(bit, *value, has.get(name), used.get(name));
        }
        match (lacking, hopeless) {
            (0, _) => Verdict::PASS,
            (lacking, false) => Verdict::unschedulable(lacking),
            (lacking, true) => Verdict::unresolvable(lacking),
        }
    }

    fn reasons(&self, asked: &Asked, verdict: Verdict) -> Vec<String> {
        let has = |bit: u32| verdict.reason() & bit != 0;
        let named = [
            (PODS, "Too many pods"),
            (CPU, "Insufficient cpu"),
            (MEMORY, "Insufficient memory"),
            (EPHEMERAL_STORAGE, "Insufficient ephemeral-storage"),
        ];
        let mut reasons: Vec<String> = named
            .iter()
            .filter(|(bit, _)| has(*bit))
            .map(|(_, text)| (*text).to_owned())
            .collect();
        let scalars = &asked.requests.scalars;
        for bit in FIRST_SCALAR..=LAST_SCALAR {
            let at = (bit - FIRST_SCALAR) as usize;
            if has(1 << bit)
                && let Some((name, _)) = scalars.get(at)
            {
                reasons.push(format!("Insufficient {name}"));
            }
        }
        reasons
    }

    /// How much would be left, averaged over the resources of the strategy.
    fn score(&self, asked: &Asked, node: &NodeInfo) -> i64 {
        let (mut total, mut weights) = (0, 0);
        for resource in &self.args.scoring_strategy.resources {
            let (allocatable, requested) = allocation(&resource.name, asked, node);
            if allocatable <= 0 {
                continue;
            }
            weights += resource.weight;
            if requested <= allocatable {
                let left = i128::from(allocatable) - i128::from(requested.max(0));
                let score = left * i128::from(MAX_NODE_SCORE) / i128::from(allocatable);
                total += score as i64 * resource.weight;
            }
        }
        match weights {
            0 => 0,
            weights => total / weights,
        }
    }
}

impl NodeResourcesFit {
    fn ignores(&self, name: &str) -> bool {
        let group = name.split_once('/').map(|(group, _)| group);
        self.args.ignored_resources.iter().any(|n| n == name)
            || group.is_some_and(|g| self.args.ignored_resource_groups.iter().any(|n| n == g))
    }
}

/// What a node has of a resource, and what would be in use with the pod. A resource that the pod does not ask for counts for
/// nothing, but for CPU and memory.
fn allocation(name: &str, asked: &Asked, node: &NodeInfo) -> (i64, i64) {
    let (has, used) = (&node.allocatable, &node.nonzero_requested);
    match name {
        "cpu" => (
            has.milli_cpu,
            used.milli_cpu.saturating_add(asked.nonzero_cpu),
        ),
        "memory" => (has.memory, used.memory.saturating_add(asked.nonzero_memory)),
        name => match asked.requests.get(name) {
            0 => (0, 0),
            wanted => (
                has.get(name),
                node.requested.get(name).saturating_add(wanted),
            ),
        },
    }
}

#[cfg(test)]
mod tests;
