//! A scheduler plugin that breaks every promise, each in its own way: the configuration says which. Tests hold against it that
//! the contract catches what it is for.

use std::cell::Cell;

use pilothouse_sdk::{
    Value,
    scheduler::{Begin, Need, NodeInfo, Nodes, Pod, Point, Refusal, SchedulerPlugin, Verdict},
};
use serde::Deserialize;

/// The plugin.
#[derive(Default)]
pub struct Bad {
    behaviour: Behaviour,
    /// Nodes judged since the cycle began.
    judged: Cell<u32>,
    /// The node judged before.
    before: Cell<u32>,
    /// Cycles begun.
    cycles: Cell<u32>,
    reserved: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Behaviour {
    /// The one that is well-behaved.
    #[default]
    Good,
    /// Judges by how many nodes it has seen.
    CountNodes,
    /// Judges a node by the one before it.
    LookBack,
    /// Judges by how many pods it has seen.
    CountCycles,
    /// Says no in a way that has no meaning.
    OddWord,
    /// Says no without a reason.
    NoReason,
    ScoreTooHigh,
    ScoreBelowZero,
    /// Scores by the order of the nodes.
    ScoreByOrder,
    /// Keeps what it reserved.
    KeepReserved,
    /// Trusts that a pod asks for something.
    TrustPods,
    /// Trusts that numbers can be added.
    TrustNumbers,
    Spin,
    /// Is slow for each node, so that a small cluster hides it.
    Slow,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Config {
    behaviour: Behaviour,
}

impl SchedulerPlugin for Bad {
    const NAME: &'static str = "Bad";
    const POINTS: &'static [Point] = &[Point::Filter, Point::Score, Point::Reserve];
    const NEEDS: &'static [Need] = &[Need::Allocatable, Need::Pods];
    type Cycle = ();

    fn configure(&mut self, config: &Value) -> Result<(), String> {
        let config = Config::deserialize(config).map_err(|error| error.to_string())?;
        self.behaviour = config.behaviour;
        Ok(())
    }

    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<()>, Refusal> {
        self.cycles.set(self.cycles.get() + 1);
        self.judged.set(0);
        if self.behaviour == Behaviour::TrustPods {
            assert!(
                !pod.nonzero_requests.is_empty(),
                "every pod asks for something"
            );
        }
        Ok(Begin::with(()))
    }

    fn filter(&self, (): &(), node: &NodeInfo) -> Verdict {
        let judged = self.judged.replace(self.judged.get() + 1);
        let before = self.before.replace(node.index);
        let no = match self.behaviour {
            Behaviour::CountNodes => judged >= 3,
            Behaviour::LookBack => before > node.index,
            Behaviour::CountCycles => self.cycles.get().is_multiple_of(2),
            Behaviour::KeepReserved => self.reserved.contains(&node.name),
            Behaviour::OddWord => return Verdict(4),
            Behaviour::NoReason => true,
            Behaviour::TrustNumbers => {
                let used = node.requested.milli_cpu.checked_mul(100);
                used.expect("it fits") > node.allocatable.milli_cpu.saturating_mul(90)
            }
            Behaviour::Spin => loop {
                std::hint::black_box(());
            },
            Behaviour::Slow => {
                (0..2_000_000u64).fold(0, |sum, i| std::hint::black_box(sum ^ i)) == 7
            }
            _ => false,
        };
        match no {
            true => Verdict::unschedulable(0),
            false => Verdict::PASS,
        }
    }

    fn reasons(&self, (): &(), _verdict: Verdict) -> Vec<String> {
        match self.behaviour {
            Behaviour::NoReason => Vec::new(),
            _ => vec!["node(s) were bad".to_owned()],
        }
    }

    fn score(&self, (): &(), _node: &NodeInfo) -> i64 {
        let judged = self.judged.replace(self.judged.get() + 1);
        match self.behaviour {
            Behaviour::ScoreTooHigh => 101,
            Behaviour::ScoreBelowZero => -1,
            Behaviour::ScoreByOrder => i64::from(judged % 100),
            _ => 50,
        }
    }

    fn reserve(&mut self, (): &(), node: &NodeInfo) -> Result<Vec<u8>, Refusal> {
        self.reserved.push(node.name.clone());
        Ok(Vec::new())
    }

    fn unreserve(&mut self, _pod_uid: &str, node_name: &str, _carry: &[u8]) {
        if self.behaviour != Behaviour::KeepReserved {
            self.reserved.retain(|name| name != node_name);
        }
    }
}

pilothouse_sdk::export! {
    scheduler(nodes, cycle, filter, score, reserve): [Bad::default()],
}
