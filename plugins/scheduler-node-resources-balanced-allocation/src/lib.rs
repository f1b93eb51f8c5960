//! `NodeResourcesBalancedAllocation`: prefers nodes whose resources the pod would leave more evenly used than before.
//! Source: <https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins>

use pilothouse_sdk::{
    Value,
    scheduler::{
        Begin, MAX_NODE_SCORE, Need, NodeInfo, Nodes, Pod, Point, Refusal, Resources,
        SchedulerPlugin,
    },
};
use serde::Deserialize;

/// The plugin, with its arguments.
#[derive(Default)]
pub struct NodeResourcesBalancedAllocation {
    args: Args,
}

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Deserialize)]
#[serde(default)]
struct Args {
    resources: Vec<Name>,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

impl Default for Args {
    fn default() -> Self {
        let resources = ["cpu", "memory"].map(|name| Name {
            name: name.to_owned(),
        });
        Self {
            resources: resources.into(),
        }
    }
}

impl SchedulerPlugin for NodeResourcesBalancedAllocation {
    const NAME: &'static str = "NodeResourcesBalancedAllocation";
    const ORDER: i32 = -740;
    const POINTS: &'static [Point] = &[Point::Score];
    const NEEDS: &'static [Need] = &[Need::Allocatable, Need::Pods];
    /// What the pod asks for, in the order of the arguments.
    type Cycle = Vec<i64>;

    fn configure(&mut self, config: &Value) -> Result<(), String> {
        self.args = Args::deserialize(config).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// A pod that asks for nothing changes no balance.
    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<Self::Cycle>, Refusal> {
        let requests = Resources::from_quantities(&pod.requests);
        let asked: Vec<i64> = self
            .args
            .resources
            .iter()
            .map(|resource| requests.get(&resource.name))
            .collect();
        Ok(match asked.iter().all(|&amount| amount == 0) {
            true => Begin::skip(),
            false => Begin::with(asked).filtering(false),
        })
    }

    /// 75 for no change; up to 25 more for a better balance than without the pod, up to 25 less for a worse one.
    fn score(&self, asked: &Self::Cycle, node: &NodeInfo) -> i64 {
        let (mut before, mut after) = (Fractions::default(), Fractions::default());
        for (resource, asked) in self.args.resources.iter().zip(asked) {
            let allocatable = node.allocatable.get(&resource.name);
            // A resource that neither the pod asks for nor every node has says nothing about the node.
            let counts = *asked > 0 || matches!(resource.name.as_str(), "cpu" | "memory");
            if allocatable > 0 && counts {
                let used = node.requested.get(&resource.name);
                before.add(used, allocatable);
                after.add(used.saturating_add(*asked), allocatable);
            }
        }
        let half = MAX_NODE_SCORE / 2;
        half + (half + after.evenness() - before.evenness()) / 2
    }
}

/// Used shares of several resources, as sums from which their standard deviation follows.
#[derive(Default)]
struct Fractions {
    shares: [f64; 8],
    count: usize,
}

impl Fractions {
    fn add(&mut self, used: i64, allocatable: i64) {
        if let Some(slot) = self.shares.get_mut(self.count) {
            *slot = (used as f64 / allocatable as f64).clamp(0.0, 1.0);
            self.count += 1;
        }
    }

    /// 100 for equal shares, 50 for one full and one empty resource.
    fn evenness(&self) -> i64 {
        let shares = &self.shares[..self.count];
        let deviation = match shares {
            [] | [_] => 0.0,
            [a, b] => ((a - b) / 2.0).abs(),
            many => {
                let mean = many.iter().sum::<f64>() / many.len() as f64;
                let squares: f64 = many.iter().map(|share| (share - mean).powi(2)).sum();
                (squares / many.len() as f64).sqrt()
            }
        };
        ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::{
        json,
        scheduler::{AssignedPod, Node, Quantity},
    };

    use super::*;

    type Amounts = &'static [(&'static str, i64)];

    fn quantities(amounts: Amounts) -> Vec<Quantity> {
        amounts.iter().copied().map(Quantity::from).collect()
    }

    fn score(
        plugin: &NodeResourcesBalancedAllocation,
        has: Amounts,
        used: Amounts,
        wanted: Amounts,
    ) -> Option<i64> {
        let mut node = NodeInfo::new(Node {
            allocatable: quantities(has),
            ..Node::default()
        });
        node.add_pod(&AssignedPod {
            requests: quantities(used),
            ..AssignedPod::default()
        });
        let pod = Pod {
            requests: quantities(wanted),
            ..Pod::default()
        };
        let begin = plugin.begin(&Nodes::default(), &pod).expect("not refused");
        begin.state.map(|state| plugin.score(&state, &node))
    }

    #[test]
    fn scores_the_change_of_balance() {
        const HAS: Amounts = &[("cpu", 1000), ("memory", 1000)];
        let cases: [(Amounts, Amounts, Amounts, Option<i64>); 7] = [
            (HAS, &[], &[], None),
            (HAS, &[], &[("cpu", 500), ("memory", 500)], Some(75)),
            // from perfectly balanced to one full and one empty, and back
            (HAS, &[], &[("cpu", 1000)], Some(50)),
            (HAS, &[("cpu", 1000)], &[("memory", 1000)], Some(100)),
            // evenness 75 -> 90
            (HAS, &[("cpu", 500)], &[("memory", 300)], Some(82)),
            // over-full counts as full
            (HAS, &[("cpu", 5000)], &[("memory", 1000)], Some(100)),
            (&[("cpu", 1000)], &[], &[("cpu", 500)], Some(75)),
        ];
        let plugin = NodeResourcesBalancedAllocation::default();
        for (has, used, wanted, expected) in cases {
            assert_eq!(
                score(&plugin, has, used, wanted),
                expected,
                "{used:?} {wanted:?}"
            );
        }
    }

    #[test]
    fn more_than_two_resources_use_the_standard_deviation() {
        let mut plugin = NodeResourcesBalancedAllocation::default();
        let config = json!({ "resources": [
            { "name": "cpu" }, { "name": "memory" }, { "name": "example.com/gpu" },
        ] });
        plugin.configure(&config).expect("valid");
        const HAS: Amounts = &[("cpu", 100), ("memory", 100), ("example.com/gpu", 100)];
        // shares 0.9, 0, 0.3: deviation 0.3742, evenness 62; before: 100
        let wanted: Amounts = &[("cpu", 90), ("example.com/gpu", 30)];
        assert_eq!(score(&plugin, HAS, &[], wanted), Some(56));
    }
}
