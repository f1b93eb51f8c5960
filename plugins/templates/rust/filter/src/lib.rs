//! A scheduler filter: no new pods on nodes with the label `quarantine=true`.

use pilothouse_sdk::scheduler::{
    Begin, Need, NodeInfo, Nodes, Pod, Point, Refusal, SchedulerPlugin, Verdict,
};

pub struct Filter;

impl SchedulerPlugin for Filter {
    const NAME: &'static str = "plugin-name";
    const POINTS: &'static [Point] = &[Point::Filter];
    const NEEDS: &'static [Need] = &[Need::Labels];
    type Cycle = ();

    fn begin(&self, _nodes: &Nodes, _pod: &Pod) -> Result<Begin<()>, Refusal> {
        Ok(Begin::with(()).scoring(false))
    }

    fn filter(&self, (): &(), node: &NodeInfo) -> Verdict {
        match node.label("quarantine") {
            Some("true") => Verdict::unresolvable(0),
            _ => Verdict::PASS,
        }
    }

    fn reasons(&self, (): &(), _verdict: Verdict) -> Vec<String> {
        vec!["node(s) were in quarantine".to_owned()]
    }
}

pilothouse_sdk::export! {
    scheduler(nodes, cycle, filter): [Filter],
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::scheduler::Node;

    use super::*;

    #[test]
    fn only_a_quarantined_node_is_refused() {
        for (value, verdict) in [("true", Verdict::unresolvable(0)), ("false", Verdict::PASS)] {
            let node = NodeInfo::new(Node {
                labels: vec![("quarantine".to_owned(), value.to_owned())],
                ..Node::default()
            });
            assert_eq!(Filter.filter(&(), &node), verdict, "{value}");
        }
    }
}
