//! Pod templates: which ReplicaSet belongs to a Deployment's template, and what a new one is called.

use pilothouse_sdk::objects::{canonical_json, fnv1a_32, safe_encode};
use serde_json::{Value, json};

/// The label that keeps the pods of a Deployment's ReplicaSets apart.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Whether two templates ask for the same pods, whatever their hash labels.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    canonical_json(&without_hash(a)) == canonical_json(&without_hash(b))
}

/// A short name for the template. A collision count makes it another one.
pub(crate) fn hash(template: &Value, collision_count: Option<i32>) -> String {
    let mut bytes = canonical_json(&without_hash(template)).into_bytes();
    if let Some(count) = collision_count {
        bytes.extend(count.to_le_bytes());
    }
    safe_encode(&fnv1a_32(&bytes).to_string())
}

/// The template with the hash label.
pub(crate) fn with_hash(template: &Value, hash: &str) -> Value {
    let mut template = template.clone();
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    if !template["metadata"]["labels"].is_object() {
        template["metadata"]["labels"] = json!({});
    }
    template["metadata"]["labels"][HASH_LABEL] = hash.into();
    template
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(HASH_LABEL);
        if labels.is_empty() {
            template["metadata"]["labels"] = Value::Null;
        }
    }
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(image: &str) -> Value {
        json!({"metadata": {"creationTimestamp": null, "labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}})
    }

    #[test]
    fn the_hash_label_does_not_count() {
        let plain = template("nginx");
        let labelled = with_hash(&plain, "abc");
        assert_eq!(
            labelled["metadata"]["labels"],
            json!({"app": "web", HASH_LABEL: "abc"})
        );
        assert!(same(&plain, &labelled));
        assert_eq!(hash(&plain, None), hash(&labelled, None));
        assert!(!same(&plain, &template("nginx:2")));
        assert_ne!(hash(&plain, None), hash(&template("nginx:2"), None));
    }

    #[test]
    fn absent_null_and_label_free_metadata_are_the_same() {
        let bare = json!({"spec": {}});
        assert!(same(
            &json!({"metadata": {}, "spec": {}}),
            &with_hash(&bare, "abc")
        ));
    }

    #[test]
    fn a_collision_gives_another_name_and_the_same_one_each_time() {
        let names: Vec<_> = [None, Some(1), Some(2)]
            .map(|count| hash(&template("nginx"), count))
            .into();
        assert_eq!(
            names,
            [None, Some(1), Some(2)].map(|count| hash(&template("nginx"), count))
        );
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert!(names.iter().all(|name| name.len() <= 10));
    }
}
