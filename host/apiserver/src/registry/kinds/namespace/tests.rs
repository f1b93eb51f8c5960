use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, defaulted, json, object, row, status_errors,
};

#[test]
fn a_create_adds_finalizer_phase_and_the_label_with_its_name() {
    let namespace = json!({"metadata": {"name": "web"}, "status": {"phase": "Terminating"}});
    assert_eq!(
        json(&created(&NamespaceStrategy, &namespace)),
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "web", "labels": {"kubernetes.io/metadata.name": "web"}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        })
    );
}

#[test]
fn the_label_waits_for_a_generated_name_and_cannot_be_another() {
    let unnamed = json!({"metadata": {"generateName": "web-"}});
    let before = defaulted(&NamespaceStrategy, &unnamed);
    assert_eq!(before.metadata.labels, None);
    let lying =
        json!({"metadata": {"name": "web", "labels": {"kubernetes.io/metadata.name": "x"}}});
    let labels = defaulted(&NamespaceStrategy, &lying).metadata.labels;
    assert_eq!(
        labels.unwrap_or_default()["kubernetes.io/metadata.name"],
        "web"
    );
}

#[test]
fn only_finalize_changes_finalizers() {
    let old: Namespace = object(
        &json!({"metadata": {"name": "web"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
    );
    let asked: Namespace = object(
        &json!({"metadata": {"name": "web"}, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}),
    );
    let kept = |n: &Namespace| (finalizers(n).len(), n.status.clone().and_then(|s| s.phase));

    let mut new = asked.clone();
    NamespaceStrategy.prepare_for_update(
        &crate::registry::kinds::testing::context(),
        &mut new,
        &old,
    );
    assert_eq!(kept(&new), (1, Some("Active".to_owned())));

    let mut new = asked.clone();
    NamespaceStrategy
        .prepare_for_status_update()
        .expect("a status")(&mut new, &old);
    assert_eq!(kept(&new), (1, Some("Terminating".to_owned())));

    let mut new = asked;
    NamespaceStrategy.prepare_for_finalize().expect("finalize")(&mut new, &old);
    assert_eq!(kept(&new), (0, Some("Active".to_owned())));
    assert!(NamespaceStrategy.has_own_finalizers(&old));
    assert!(!NamespaceStrategy.has_own_finalizers(&new));
}

#[test]
fn deletion_makes_it_terminating_and_the_phase_must_fit() {
    let mut namespace: Namespace = object(&json!({"metadata": {"name": "web"}}));
    NamespaceStrategy.prepare_for_deletion(&mut namespace);
    assert_eq!(
        namespace.status.and_then(|s| s.phase).as_deref(),
        Some("Terminating")
    );

    let deleting = json!({"metadata": {"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Active"}});
    let active = json!({"metadata": {"name": "web"}, "status": {"phase": "Terminating"}});
    for (object, error) in [
        (
            deleting,
            "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty",
        ),
        (
            active,
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
        ),
    ] {
        assert_eq!(status_errors(&NamespaceStrategy, &object, &object), [error]);
    }
}

#[test]
fn system_namespaces_are_not_deleted() {
    for (name, message) in [
        (
            "default",
            Some("namespaces \"default\" is forbidden: this namespace may not be deleted"),
        ),
        (
            "kube-system",
            Some("namespaces \"kube-system\" is forbidden: this namespace may not be deleted"),
        ),
        (
            "kube-public",
            Some("namespaces \"kube-public\" is forbidden: this namespace may not be deleted"),
        ),
        ("kube-node-lease", None),
        ("web", None),
    ] {
        let namespace = object(&json!({"metadata": {"name": name}}));
        let refused = NamespaceStrategy.validate_delete(&namespace).err();
        assert_eq!(
            refused.as_ref().map(|s| s.code),
            message.map(|_| 403),
            "{name}"
        );
        assert_eq!(refused.map(|s| s.message).as_deref(), message);
    }
}

#[test]
fn finalizers_are_names() {
    let namespace = json!({"metadata": {"name": "web"}, "spec": {"finalizers": ["Bad Name"]}});
    let errors = create_errors(&NamespaceStrategy, &namespace);
    assert!(!errors.is_empty());
    assert!(
        errors.iter().all(|e| e.starts_with("spec.finalizers")),
        "{errors:?}"
    );
}

#[test]
fn rows() {
    let namespace = json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-02T03:00:00Z"}, "status": {"phase": "Active"}});
    assert_eq!(
        row(&NamespaceStrategy, &namespace),
        [
            ("Name", json!("web")),
            ("Status", json!("Active")),
            ("Age", json!("4m5s"))
        ]
    );
}
