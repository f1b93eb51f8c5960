//! `NodePorts`: two pods on a node cannot have the same host port.
//! Source: <https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins>

use pilothouse_sdk::scheduler::{
    Begin, ClusterEvent, HostPort, Need, NodeInfo, Nodes, Pod, Point, Refusal, SchedulerPlugin,
    Verdict,
};

/// The plugin.
pub struct NodePorts;

/// The address that stands for all addresses of a node.
const ANY: &str = "0.0.0.0";

impl SchedulerPlugin for NodePorts {
    const NAME: &'static str = "NodePorts";
    const ORDER: i32 = -760;
    const POINTS: &'static [Point] = &[Point::Filter];
    const NEEDS: &'static [Need] = &[Need::Pods];
    const EVENTS: &'static [ClusterEvent] = &[ClusterEvent::NodeAdd, ClusterEvent::PodRelease];
    /// The ports that the pod wants.
    type Cycle = Vec<HostPort>;

    fn begin(&self, _nodes: &Nodes, pod: &Pod) -> Result<Begin<Self::Cycle>, Refusal> {
        Ok(match pod.host_ports.is_empty() {
            true => Begin::skip(),
            false => Begin::with(pod.host_ports.clone()),
        })
    }

    fn filter(&self, wanted: &Self::Cycle, node: &NodeInfo) -> Verdict {
        let taken = wanted
            .iter()
            .any(|port| node.host_ports.iter().any(|used| conflict(port, used)));
        match taken {
            true => Verdict::unschedulable(0),
            false => Verdict::PASS,
        }
    }

    fn reasons(&self, _wanted: &Self::Cycle, _verdict: Verdict) -> Vec<String> {
        vec!["node(s) didn't have free ports for the requested pod ports".to_owned()]
    }
}

fn conflict(a: &HostPort, b: &HostPort) -> bool {
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || a.ip == ANY || b.ip == ANY)
}

#[cfg(test)]
mod tests {
    use pilothouse_sdk::scheduler::{AssignedPod, Node};

    use super::*;

    fn port((protocol, ip, port): (&str, &str, u16)) -> HostPort {
        HostPort {
            protocol: protocol.into(),
            ip: ip.into(),
            port,
        }
    }

    #[test]
    fn ports_conflict_by_number_protocol_and_address() {
        let cases = [
            (("TCP", ANY, 80), ("TCP", ANY, 80), false),
            (("TCP", ANY, 80), ("TCP", ANY, 81), true),
            (("TCP", ANY, 80), ("UDP", ANY, 80), true),
            (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.2", 80), true),
            (("TCP", "10.0.0.1", 80), ("TCP", "10.0.0.1", 80), false),
            (("TCP", "10.0.0.1", 80), ("TCP", ANY, 80), false),
            (("TCP", ANY, 80), ("TCP", "10.0.0.1", 80), false),
        ];
        for (used, wanted, passes) in cases {
            let mut node = NodeInfo::new(Node::default());
            let pod = AssignedPod {
                host_ports: vec![port(used)],
                ..AssignedPod::default()
            };
            node.add_pod(&pod);
            let wanted = vec![port(wanted)];
            assert_eq!(
                NodePorts.filter(&wanted, &node) == Verdict::PASS,
                passes,
                "{used:?}"
            );
            node.remove_pod(&pod);
            assert_eq!(NodePorts.filter(&wanted, &node), Verdict::PASS);
        }
    }
}
