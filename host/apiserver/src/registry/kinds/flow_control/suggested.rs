//! What is there at first and may be changed: levels for the system, for workloads and for everybody else.
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/flow-control/#suggested-configuration-objects>

use serde_json::{Value, json};

/// Name and spec of each suggested PriorityLevelConfiguration.
pub(super) fn priority_levels() -> Vec<(&'static str, Value)> {
    // name, shares, lendable percent, queues, hand size
    [
        ("system", 30, 33, 64, 6),
        ("node-high", 40, 25, 64, 6),
        ("leader-election", 10, 0, 16, 4),
        ("workload-high", 40, 50, 128, 6),
        ("workload-low", 100, 90, 128, 6),
        ("global-default", 20, 50, 128, 6),
    ]
    .into_iter()
    .map(|(name, shares, lendable, queues, hand)| {
        let spec = json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": shares,
                "lendablePercent": lendable,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": { "queues": queues, "handSize": hand, "queueLengthLimit": 50 },
                },
            },
        });
        (name, spec)
    })
    .collect()
}

/// Name and spec of each suggested FlowSchema.
pub(super) fn flow_schemas() -> Vec<(&'static str, Value)> {
    let group = |name: &str| json!({ "kind": "Group", "group": { "name": name } });
    let user = |name: &str| json!({ "kind": "User", "user": { "name": name } });
    let everybody = [
        group("system:unauthenticated"),
        group("system:authenticated"),
    ];
    let system_accounts = json!({ "kind": "ServiceAccount", "serviceAccount": { "namespace": "kube-system", "name": "*" } });
    let (manager, scheduler) = (
        user("system:kube-controller-manager"),
        user("system:kube-scheduler"),
    );
    let leases = |verbs: &[&str]| {
        json!({
            "verbs": verbs,
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "namespaces": ["*"],
        })
    };
    let all = |subjects: Vec<Value>| json!([super::mandatory::everything(subjects)]);
    let spec = |level: &str, precedence: i32, method: &str, rules: Value| {
        let mut spec = json!({
            "priorityLevelConfiguration": { "name": level },
            "matchingPrecedence": precedence,
            "rules": rules,
        });
        if !method.is_empty() {
            spec["distinguisherMethod"] = json!({ "type": method });
        }
        spec
    };
    let probes = json!([{
        "subjects": everybody,
        "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"] }],
    }]);
    let elections = json!([{
        "subjects": [manager, scheduler, system_accounts],
        "resourceRules": [leases(&["get", "create", "update"])],
    }]);
    let nodes = json!([{
        "subjects": [group("system:nodes")],
        "resourceRules": [
            {
                "verbs": ["*"],
                "apiGroups": [""],
                "resources": ["nodes", "nodes/status"],
                "clusterScope": true,
                "namespaces": ["*"],
            },
            leases(&["*"]),
        ],
    }]);
    let (by_user, by_namespace) = ("ByUser", "ByNamespace");
    vec![
        ("probes", spec("exempt", 2, "", probes)),
        (
            "system-leader-election",
            spec("leader-election", 100, by_user, elections),
        ),
        ("system-node-high", spec("node-high", 400, by_user, nodes)),
        (
            "system-nodes",
            spec("system", 500, by_user, all(vec![group("system:nodes")])),
        ),
        (
            "kube-controller-manager",
            spec("workload-high", 800, by_namespace, all(vec![manager])),
        ),
        (
            "kube-scheduler",
            spec("workload-high", 800, by_namespace, all(vec![scheduler])),
        ),
        (
            "kube-system-service-accounts",
            spec(
                "workload-high",
                900,
                by_namespace,
                all(vec![system_accounts]),
            ),
        ),
        (
            "service-accounts",
            spec(
                "workload-low",
                9000,
                by_user,
                all(vec![group("system:serviceaccounts")]),
            ),
        ),
        (
            "global-default",
            spec("global-default", 9900, by_user, all(everybody.to_vec())),
        ),
    ]
}
