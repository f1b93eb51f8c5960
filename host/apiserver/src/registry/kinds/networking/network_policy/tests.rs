use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{create_errors, created, json, row, update_errors, with};

fn base() -> Value {
    json!({"metadata": {"name": "deny", "namespace": "a"}, "spec": {"podSelector": {}}})
}

#[test]
fn defaults() {
    let made = json(&created(&NetworkPolicyStrategy, &base()));
    assert_eq!(
        made["spec"],
        json!({"podSelector": {}, "policyTypes": ["Ingress"]})
    );
    let both = with(
        &base(),
        &[
            ("/spec/ingress", json!([{"ports": [{"port": 80}]}])),
            (
                "/spec/egress",
                json!([{"ports": [{"port": "dns", "protocol": "UDP"}]}]),
            ),
        ],
    );
    let made = json(&created(&NetworkPolicyStrategy, &both));
    assert_eq!(made["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(made["spec"]["ingress"][0]["ports"][0]["protocol"], "TCP");
    assert_eq!(made["spec"]["egress"][0]["ports"][0]["protocol"], "UDP");
}

#[test]
fn fields() {
    for (rule, expected) in [
        (
            json!({"ports": [{"port": 80, "endPort": 90}], "from": [{"podSelector": {}}]}),
            vec![],
        ),
        (
            json!({"from": [{"podSelector": {}, "namespaceSelector": {}}]}),
            vec![],
        ),
        (
            json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}),
            vec![],
        ),
        (
            json!({"ports": [{"port": 80, "endPort": 70}]}),
            vec![
                "spec.ingress[0].ports[0].endPort: Invalid value: 70: must be greater than or equal to `port`",
            ],
        ),
        (
            json!({"ports": [{"endPort": 70}]}),
            vec![
                "spec.ingress[0].ports[0].endPort: Invalid value: 70: may not be specified when `port` is not specified",
            ],
        ),
        (
            json!({"ports": [{"port": "web", "endPort": 70}]}),
            vec![
                "spec.ingress[0].ports[0].endPort: Invalid value: 70: may not be specified when `port` is non-numeric",
            ],
        ),
        (
            json!({"ports": [{"port": 0, "protocol": "ICMP"}]}),
            vec![
                "spec.ingress[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
                "spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            json!({"from": [{}]}),
            vec!["spec.ingress[0].from[0]: Required value: must specify a peer"],
        ),
        (
            json!({"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}),
            vec![
                "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
            ],
        ),
        (
            json!({"from": [{"ipBlock": {"cidr": ""}}]}),
            vec!["spec.ingress[0].from[0].ipBlock.cidr: Required value"],
        ),
        (
            json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.0.0.1/9"]}}]}),
            vec![
                "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
                "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"10.0.0.1/9\": must not have bits set beyond the prefix length",
            ],
        ),
    ] {
        let policy = with(&base(), &[("/spec/ingress", json!([rule]))]);
        assert_eq!(create_errors(&NetworkPolicyStrategy, &policy), expected);
    }
    for (types, expected) in [
        (
            json!(["Ingress", "Sideways"]),
            "spec.policyTypes[1]: Unsupported value: \"Sideways\": supported values: \"Ingress\", \"Egress\"",
        ),
        (
            json!(["Ingress", "Egress", "Ingress"]),
            "spec.policyTypes: Invalid value: [\"Ingress\",\"Egress\",\"Ingress\"]: may not specify more than two policyTypes",
        ),
    ] {
        let policy = with(&base(), &[("/spec/policyTypes", types)]);
        assert_eq!(create_errors(&NetworkPolicyStrategy, &policy), [expected]);
    }
}

#[test]
fn ranges_that_were_there_stay_valid() {
    let with_range = |cidr| {
        with(
            &base(),
            &[(
                "/spec/egress",
                json!([{"to": [{"ipBlock": {"cidr": cidr}}]}]),
            )],
        )
    };
    let old = with_range("10.0.0.1/8");
    assert_eq!(update_errors(&NetworkPolicyStrategy, &old, &old), [""; 0]);
    assert_eq!(
        update_errors(&NetworkPolicyStrategy, &old, &with_range("10.0.0.2/8")),
        [
            "spec.egress[0].to[0].ipBlock.cidr: Invalid value: \"10.0.0.2/8\": must not have bits set beyond the prefix length"
        ]
    );
}

#[test]
fn rows() {
    let policy = with(
        &base(),
        &[("/spec/podSelector", json!({"matchLabels": {"app": "web"}}))],
    );
    for (policy, selector) in [(&base(), "<none>"), (&policy, "app=web")] {
        assert_eq!(
            row(&NetworkPolicyStrategy, policy),
            [
                ("Name", json!("deny")),
                ("Pod-Selector", json!(selector)),
                ("Age", json!("<unknown>")),
            ]
        );
    }
}
