//! A scheduler score: pods go where the energy is green, which nodes say in the label `renewable-percent`.

use pilothouse_sdk::scheduler::{
    Begin, MAX_NODE_SCORE, Need, NodeInfo, Nodes, Pod, Point, Refusal, SchedulerPlugin,
};

pub struct Score;

impl SchedulerPlugin for Score {
    const NAME: &'static str = "plugin-name";
    const POINTS: &'static [Point] = &[Point::Score];
    const NEEDS: &'static [Need] = &[Need::Labels];
    type Cycle = ();

    fn begin(&self, _nodes: &Nodes, _pod: &Pod) -> Result<Begin<()>, Refusal> {
        Ok(Begin::with(()))
    }

    fn score(&self, (): &(), node: &NodeInfo) -> i64 {
        let percent = node.label("renewable-percent").unwrap_or_default();
        percent
            .parse::<i64>()
            .unwrap_or_default()
            .clamp(0, MAX_NODE_SCORE)
    }
}

pilothouse_sdk::export! {
    scheduler(nodes, cycle, score): [Score],
}
