//! Why a pod was not scheduled, in Kubernetes' words.
//! Form: `0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.`

use std::collections::BTreeMap;

/// Events are cut to this many bytes.
const EVENT_LIMIT: usize = 1024;

/// Why no node will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rejections {
    /// Nodes there are.
    pub nodes: usize,
    /// A refusal before any node was looked at.
    pub pod: Option<String>,
    /// How many nodes were turned down for a reason; a node counts for each of its reasons.
    pub reasons: BTreeMap<String, usize>,
}

impl Rejections {
    /// Adds nodes to a reason.
    pub(crate) fn count(&mut self, reason: String, nodes: usize) {
        *self.reasons.entry(reason).or_default() += nodes;
    }

    /// The message of the condition.
    pub(crate) fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let head = format!("0/{} nodes are available:", self.nodes);
        if let Some(reason) = &self.pod {
            return format!("{head} {reason}.");
        }
        let mut counted: Vec<String> = self
            .reasons
            .iter()
            .map(|(reason, nodes)| format!("{nodes} {reason}"))
            .collect();
        counted.sort_unstable();
        match counted.is_empty() {
            true => head,
            false => format!("{head} {}.", counted.join(", ")),
        }
    }
}

/// Cut for an event.
pub(crate) fn truncate(message: &str) -> String {
    const TAIL: &str = " ...";
    if message.len() <= EVENT_LIMIT {
        return message.to_owned();
    }
    let mut end = EVENT_LIMIT - TAIL.len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{TAIL}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_kubernetes_form() {
        let counted = |nodes, reasons: &[(&str, usize)]| Rejections {
            nodes,
            pod: None,
            reasons: reasons.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect(),
        };
        let refused = Rejections {
            nodes: 3,
            pod: Some("pod affinity terms conflict".into()),
            ..Rejections::default()
        };
        let cases = [
            (counted(0, &[]), "no nodes available to schedule pods"),
            (
                counted(
                    3,
                    &[
                        ("Insufficient cpu", 2),
                        ("node(s) had untolerated taint(s)", 1),
                    ],
                ),
                "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.",
            ),
            (
                counted(12, &[("a", 10), ("b", 2)]),
                "0/12 nodes are available: 10 a, 2 b.",
            ),
            (
                refused,
                "0/3 nodes are available: pod affinity terms conflict.",
            ),
        ];
        for (rejections, expected) in cases {
            assert_eq!(rejections.message(), expected);
        }
    }

    #[test]
    fn events_are_cut_at_whole_characters() {
        assert_eq!(truncate("short"), "short");
        let long = "é".repeat(600);
        let cut = truncate(&long);
        assert!(cut.len() <= 1024 && cut.ends_with(" ..."), "{}", cut.len());
        assert_eq!(truncate(&"x".repeat(1024)).len(), 1024);
    }
}
