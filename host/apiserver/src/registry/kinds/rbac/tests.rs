use serde_json::json;

use super::*;
use crate::registry::{
    kinds::testing::{create_errors, created, json, row, update_errors, with},
    strategy::Strategy,
};

#[test]
fn rules() {
    let base = json!({
        "metadata": {"name": "reader", "namespace": "a"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    });
    // changes; what a Role is refused for; what a ClusterRole is
    let both = |errors: &[&'static str]| (errors.to_vec(), errors.to_vec());
    for (changes, (role, cluster_role)) in [
        (vec![], both(&[])),
        (vec![("/rules", json!(null))], both(&[])),
        (vec![("/rules", json!([]))], both(&[])),
        (
            vec![("/rules/0/verbs", json!([]))],
            both(&["rules[0].verbs: Required value: verbs must contain at least one value"]),
        ),
        (
            vec![
                ("/rules/0/apiGroups", json!(null)),
                ("/rules/0/resources", json!([])),
            ],
            both(&[
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ]),
        ),
        (
            vec![(
                "/rules/-",
                json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
            )],
            (
                vec![
                    "rules[1].nonResourceURLs: Invalid value: [\"/metrics\"]: namespaced rules cannot apply to non-resource URLs",
                ],
                vec![],
            ),
        ),
        (
            vec![("/rules/0/nonResourceURLs", json!(["/x"]))],
            (
                vec![
                    "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
                    "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
                ],
                vec![
                    "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
                ],
            ),
        ),
    ] {
        let object = with(&base, &changes);
        assert_eq!(create_errors(&RoleStrategy, &object), role);
        assert_eq!(create_errors(&ClusterRoleStrategy, &object), cluster_role);
    }
}

#[test]
fn aggregation_needs_selectors() {
    let base = json!({"metadata": {"name": "all"}});
    for (rule, expected) in [
        (
            json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
            vec![],
        ),
        (
            json!({}),
            vec![
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ],
        ),
        (
            json!({"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Has"}]}]}),
            vec![
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \"Has\": not a valid selector operator",
            ],
        ),
    ] {
        let object = with(&base, &[("/aggregationRule", rule)]);
        assert_eq!(create_errors(&ClusterRoleStrategy, &object), expected);
    }
}

#[test]
fn bindings_default_their_groups() {
    let binding = json!({
        "metadata": {"name": "x", "namespace": "a"},
        "roleRef": {"kind": "Role", "name": "reader"},
        "subjects": [
            {"kind": "User", "name": "alice"},
            {"kind": "Group", "name": "dev"},
            {"kind": "ServiceAccount", "name": "bot", "namespace": "a"},
        ],
    });
    let made = json(&created(&RoleBindingStrategy, &binding));
    assert_eq!(made["roleRef"]["apiGroup"], GROUP);
    assert_eq!(made["subjects"][0]["apiGroup"], GROUP);
    assert_eq!(made["subjects"][1]["apiGroup"], GROUP);
    assert_eq!(made["subjects"][2].get("apiGroup"), None);
}

#[test]
fn bindings_name_a_role_and_subjects() {
    let base = json!({
        "metadata": {"name": "x"},
        "roleRef": {"kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": "a"}],
    });
    let both = |errors: &[&'static str]| (errors.to_vec(), errors.to_vec());
    for (changes, (binding, cluster_binding)) in [
        (vec![], both(&[])),
        (vec![("/roleRef/name", json!("system:x:y"))], both(&[])),
        (
            vec![("/roleRef/name", json!("a/b"))],
            both(&["roleRef.name: Invalid value: \"a/b\": may not contain '/'"]),
        ),
        (
            vec![("/roleRef/name", json!(""))],
            both(&["roleRef.name: Required value"]),
        ),
        (
            vec![("/roleRef/kind", json!("Role"))],
            (
                vec![],
                vec![
                    "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                ],
            ),
        ),
        (
            vec![("/roleRef/apiGroup", json!("apps"))],
            both(&[
                "roleRef.apiGroup: Unsupported value: \"apps\": supported values: \"rbac.authorization.k8s.io\"",
            ]),
        ),
        (
            vec![("/subjects/0/namespace", json!(null))],
            (vec![], vec!["subjects[0].namespace: Required value"]),
        ),
        (
            vec![("/subjects/0/apiGroup", json!("x"))],
            both(&["subjects[0].apiGroup: Unsupported value: \"x\": supported values: \"\""]),
        ),
        (
            vec![("/subjects/0", json!({"kind": "Robot", "name": ""}))],
            both(&[
                "subjects[0].name: Required value",
                "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
            ]),
        ),
        (
            vec![(
                "/subjects/0",
                json!({"kind": "User", "name": "a", "apiGroup": "x"}),
            )],
            both(&[
                "subjects[0].apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
            ]),
        ),
    ] {
        let object = with(&base, &changes);
        assert_eq!(create_errors(&RoleBindingStrategy, &object), binding);
        assert_eq!(
            create_errors(&ClusterRoleBindingStrategy, &object),
            cluster_binding
        );
    }
}

#[test]
fn a_binding_keeps_its_role() {
    let old = json!({
        "metadata": {"name": "x", "namespace": "a"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
    });
    let new = with(&old, &[("/roleRef/name", json!("admin"))]);
    let expected = [
        "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\",\"name\":\"admin\"}: cannot change roleRef",
    ];
    assert_eq!(update_errors(&RoleBindingStrategy, &old, &new), expected);
    assert_eq!(
        update_errors(&ClusterRoleBindingStrategy, &old, &new),
        expected
    );
    let other_subjects = with(
        &old,
        &[("/subjects", json!([{"kind": "User", "name": "bob"}]))],
    );
    assert_eq!(
        update_errors(&RoleBindingStrategy, &old, &other_subjects),
        [""; 0]
    );
}

#[test]
fn rows_and_rules_of_writing() {
    let role = json!({"metadata": {"name": "r", "creationTimestamp": "2026-01-02T03:04:00Z"}});
    assert_eq!(
        row(&RoleStrategy, &role),
        [
            ("Name", json!("r")),
            ("Created At", json!("2026-01-02T03:04:00Z"))
        ]
    );
    let binding = json!({
        "metadata": {"name": "b", "creationTimestamp": "2026-01-02T03:04:00Z"},
        "roleRef": {"kind": "ClusterRole", "name": "admin"},
        "subjects": [
            {"kind": "User", "name": "alice"},
            {"kind": "User", "name": "bob"},
            {"kind": "ServiceAccount", "name": "bot", "namespace": "a"},
        ],
    });
    assert_eq!(
        row(&ClusterRoleBindingStrategy, &binding),
        [
            ("Name", json!("b")),
            ("Role", json!("ClusterRole/admin")),
            ("Age", json!("5s")),
            ("Users", json!("alice, bob")),
            ("Groups", json!("")),
            ("ServiceAccounts", json!("a/bot")),
        ]
    );
    for creates in [
        RoleStrategy.allow_create_on_update(),
        ClusterRoleStrategy.allow_create_on_update(),
        RoleBindingStrategy.allow_create_on_update(),
        ClusterRoleBindingStrategy.allow_create_on_update(),
    ] {
        assert!(creates);
    }
}
