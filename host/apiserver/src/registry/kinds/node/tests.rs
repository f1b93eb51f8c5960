use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, defaulted, json, row, status_errors, update_errors, with,
};

#[test]
fn defaults() {
    let node = json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "0.5", "memory": "1024Mi"}}});
    let filled = json(&defaulted(&NodeStrategy, &node));
    assert_eq!(
        filled["spec"],
        json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]})
    );
    assert_eq!(
        filled["status"]["allocatable"],
        json!({"cpu": "500m", "memory": "1Gi"})
    );
}

#[test]
fn validation() {
    let base = json!({"metadata": {"name": "n"}});
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    for (changes, expected) in [
        (
            vec![(
                "/spec/taints",
                json!([taint("a", "NoSchedule"), taint("a", "NoExecute")]),
            )],
            vec![],
        ),
        (
            vec![(
                "/spec/taints",
                json!([taint("a", "NoSchedule"), taint("a", "NoSchedule")]),
            )],
            vec![
                "metadata.taints[1]: Duplicate value: {\"Effect\":\"NoSchedule\",\"Key\":\"a\",\"TimeAdded\":null,\"Value\":\"\"}: taints must be unique by key and effect pair",
            ],
        ),
        (
            vec![("/spec/taints", json!([taint("a", "Never")]))],
            vec![
                "metadata.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
        (
            vec![("/spec/taints", json!([taint("a", "")]))],
            vec!["metadata.taints[0].effect: Required value"],
        ),
        (
            vec![("/status/capacity/cpu", json!("-1"))],
            vec![
                "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                "status.allocatable.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            vec![("/spec/podCIDRs", json!(["10.0.0.0/24", "fd00::/64"]))],
            vec![],
        ),
        (
            vec![("/spec/podCIDRs", json!(["10.0.0.0/24", "10.1.0.0/24"]))],
            vec![
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one CIDR for each IP family",
            ],
        ),
        (
            vec![("/spec/podCIDRs", json!(["nonsense"]))],
            vec![
                "spec.podCIDRs[0]: Invalid value: \"nonsense\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ],
        ),
    ] {
        assert_eq!(
            create_errors(&NodeStrategy, &with(&base, &changes)),
            expected
        );
    }
}

#[test]
fn what_is_set_once_stays() {
    let old = json!({"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "sim://n"}});
    for (changes, expected) in [
        (vec![("/spec/unschedulable", json!(true))], vec![]),
        (vec![("/metadata/labels/a", json!("b"))], vec![]),
        (
            vec![("/spec/podCIDRs", json!(["10.1.0.0/24"]))],
            vec![
                "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
            ],
        ),
        (
            vec![("/spec/providerID", json!("sim://m"))],
            vec![
                "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            ],
        ),
    ] {
        assert_eq!(
            update_errors(&NodeStrategy, &old, &with(&old, &changes)),
            expected
        );
    }
}

#[test]
fn addresses_are_listed_once() {
    let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
    let node = json!({"metadata": {"name": "n"}, "status": {"addresses": [address, address]}});
    assert_eq!(
        status_errors(&NodeStrategy, &node, &node),
        [
            "status.addresses[1]: Duplicate value: {\"Address\":\"10.0.0.1\",\"Type\":\"InternalIP\"}"
        ]
    );
}

#[test]
fn rows() {
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    let node = json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": ready("True"),
            "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Simulated", "kernelVersion": "", "containerRuntimeVersion": "sim://1"},
        },
    });
    assert_eq!(
        row(&NodeStrategy, &node),
        [
            ("Name", json!("n")),
            ("Status", json!("Ready,SchedulingDisabled")),
            ("Roles", json!("control-plane,worker")),
            ("Age", json!("<unknown>")),
            ("Version", json!("v1.36.0")),
            ("Internal-IP", json!("10.0.0.1")),
            ("External-IP", json!("<none>")),
            ("OS-Image", json!("Simulated")),
            ("Kernel-Version", json!("<unknown>")),
            ("Container-Runtime", json!("sim://1")),
        ]
    );
    for (conditions, status) in [
        (ready("False"), "NotReady"),
        (ready("Unknown"), "NotReady"),
        (json!([]), "Unknown"),
    ] {
        let node = json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
        assert_eq!(row(&NodeStrategy, &node)[1].1, json!(status));
        assert_eq!(row(&NodeStrategy, &node)[2].1, json!("<none>"));
    }
}
