//! Node selectors: `nodeSelector` and the terms of node affinity.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/>

use super::{
    bindings::types::{NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm},
    nodes::NodeInfo,
};

/// Whether the node carries all these labels with these values.
pub fn matches_labels(selector: &[(String, String)], node: &NodeInfo) -> bool {
    selector
        .iter()
        .all(|(key, value)| node.label(key) == Some(value))
}

/// Whether a term matches a node. A term without requirements, or with one that makes no sense, matches nothing.
pub fn matches_term(term: &NodeSelectorTerm, node: &NodeInfo) -> bool {
    let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    !empty
        && term.match_expressions.iter().all(valid_expression)
        && term.match_fields.iter().all(valid_field)
        && term
            .match_expressions
            .iter()
            .all(|r| matches_expression(r, node.label(&r.key)))
        && term.match_fields.iter().all(|r| matches_field(r, node))
}

fn valid_expression(requirement: &NodeSelectorRequirement) -> bool {
    use NodeSelectorOperator as Op;
    let values = &requirement.values;
    match requirement.operator {
        Op::In | Op::NotIn => !values.is_empty(),
        Op::Exists | Op::DoesNotExist => values.is_empty(),
        Op::Gt | Op::Lt => values.len() == 1 && values[0].parse::<i64>().is_ok(),
        Op::Unknown => false,
    }
}

fn valid_field(requirement: &NodeSelectorRequirement) -> bool {
    use NodeSelectorOperator as Op;
    requirement.key == "metadata.name"
        && requirement.values.len() == 1
        && matches!(requirement.operator, Op::In | Op::NotIn)
}

fn matches_expression(requirement: &NodeSelectorRequirement, label: Option<&str>) -> bool {
    use NodeSelectorOperator as Op;
    let listed = || label.is_some_and(|value| requirement.values.iter().any(|v| v == value));
    let numbers = || {
        let wanted: i64 = requirement.values.first()?.parse().ok()?;
        let found: i64 = label?.parse().ok()?;
        Some((found, wanted))
    };
    match requirement.operator {
        Op::In => listed(),
        Op::NotIn => !listed(),
        Op::Exists => label.is_some(),
        Op::DoesNotExist => label.is_none(),
        Op::Gt => numbers().is_some_and(|(found, wanted)| found > wanted),
        Op::Lt => numbers().is_some_and(|(found, wanted)| found < wanted),
        Op::Unknown => false,
    }
}

fn matches_field(requirement: &NodeSelectorRequirement, node: &NodeInfo) -> bool {
    let listed = requirement.values.contains(&node.name);
    listed == (requirement.operator == NodeSelectorOperator::In)
}

#[cfg(test)]
mod tests {
    use super::super::bindings::types::Node;
    use super::*;
    use NodeSelectorOperator as Op;

    fn requirement(key: &str, operator: Op, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement {
            key: key.into(),
            operator,
            values: values.iter().map(|&v| v.to_owned()).collect(),
        }
    }

    fn node() -> NodeInfo {
        NodeInfo::new(Node {
            name: "node-1".into(),
            labels: vec![
                ("cores".into(), "16".into()),
                ("disk".into(), "ssd".into()),
                ("zone".into(), String::new()),
            ],
            ..Node::default()
        })
    }

    #[test]
    fn expressions() {
        let cases = [
            ("disk", Op::In, &["hdd", "ssd"][..], true),
            ("disk", Op::In, &["hdd"], false),
            ("absent", Op::In, &[""], false),
            ("disk", Op::In, &[], false),
            ("disk", Op::NotIn, &["hdd"], true),
            ("disk", Op::NotIn, &["ssd"], false),
            ("absent", Op::NotIn, &["ssd"], true),
            ("zone", Op::Exists, &[], true),
            ("absent", Op::Exists, &[], false),
            ("disk", Op::Exists, &["ssd"], false),
            ("absent", Op::DoesNotExist, &[], true),
            ("zone", Op::DoesNotExist, &[], false),
            ("cores", Op::Gt, &["15"], true),
            ("cores", Op::Gt, &["16"], false),
            ("cores", Op::Lt, &["17"], true),
            ("cores", Op::Lt, &["x"], false),
            ("disk", Op::Gt, &["1"], false),
            ("absent", Op::Lt, &["1"], false),
            ("cores", Op::Gt, &["1", "2"], false),
            ("disk", Op::Unknown, &["ssd"], false),
        ];
        for (key, operator, values, expected) in cases {
            let term = NodeSelectorTerm {
                match_expressions: vec![requirement(key, operator, values)],
                match_fields: vec![],
            };
            assert_eq!(
                matches_term(&term, &node()),
                expected,
                "{key} {operator:?} {values:?}"
            );
        }
    }

    #[test]
    fn fields() {
        let cases = [
            ("metadata.name", Op::In, &["node-1"][..], true),
            ("metadata.name", Op::In, &["node-2"], false),
            ("metadata.name", Op::NotIn, &["node-2"], true),
            ("metadata.name", Op::NotIn, &["node-1"], false),
            ("metadata.name", Op::In, &["node-1", "node-2"], false),
            ("metadata.name", Op::Exists, &[], false),
            ("spec.name", Op::NotIn, &["node-2"], false),
        ];
        for (key, operator, values, expected) in cases {
            let term = NodeSelectorTerm {
                match_expressions: vec![],
                match_fields: vec![requirement(key, operator, values)],
            };
            assert_eq!(
                matches_term(&term, &node()),
                expected,
                "{key} {operator:?} {values:?}"
            );
        }
    }

    #[test]
    fn requirements_of_a_term_are_anded_and_an_empty_term_matches_nothing() {
        let yes = requirement("disk", Op::Exists, &[]);
        let no = requirement("disk", Op::DoesNotExist, &[]);
        let term = |match_expressions| NodeSelectorTerm {
            match_expressions,
            match_fields: vec![],
        };
        assert!(matches_term(&term(vec![yes.clone()]), &node()));
        assert!(!matches_term(&term(vec![yes, no]), &node()));
        assert!(!matches_term(&term(vec![]), &node()));
    }

    #[test]
    fn labels_must_all_be_equal() {
        let selector = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        assert!(matches_labels(&selector(&[]), &node()));
        assert!(matches_labels(
            &selector(&[("disk", "ssd"), ("zone", "")]),
            &node()
        ));
        assert!(!matches_labels(&selector(&[("disk", "hdd")]), &node()));
        assert!(!matches_labels(&selector(&[("absent", "")]), &node()));
    }
}
