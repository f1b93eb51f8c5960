//! RuntimeClasses. Source: <https://kubernetes.io/docs/concepts/containers/runtime-class/>

use k8s_openapi::api::node::v1::RuntimeClass;
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::{
    cells, checks, describe,
    pod::{
        resources::{canonicalize, validate_overhead},
        tolerations,
    },
};
use crate::registry::{printing::Column, strategy::Strategy};

pub(super) struct RuntimeClassStrategy;

impl Strategy for RuntimeClassStrategy {
    type Object = RuntimeClass;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass")
    }

    fn default(&self, class: &mut RuntimeClass) {
        if let Some(overhead) = &mut class.overhead {
            canonicalize(&mut overhead.pod_fixed);
        }
    }

    fn validate_create(&self, class: &RuntimeClass) -> ErrorList {
        let mut errors = ErrorList::new();
        checks::dns_label(&mut errors, &Path::new("handler"), &class.handler);
        if let Some(fixed) = class.overhead.as_ref().and_then(|o| o.pod_fixed.as_ref()) {
            validate_overhead(&mut errors, &Path::new("overhead"), fixed);
        }
        if let Some(scheduling) = &class.scheduling {
            let path = Path::new("scheduling");
            let selector = scheduling.node_selector.as_ref();
            checks::labels(&mut errors, &path.child("nodeSelector"), selector);
            let accepted = scheduling.tolerations.as_deref().unwrap_or_default();
            tolerations::validate(&mut errors, &path.child("tolerations"), accepted);
        }
        errors
    }

    fn validate_update(&self, new: &RuntimeClass, old: &RuntimeClass) -> ErrorList {
        let mut errors = ErrorList::new();
        let same = new.handler == old.handler;
        checks::immutable(
            &mut errors,
            &Path::new("handler"),
            same,
            new.handler.as_str(),
        );
        errors
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Handler", "How nodes name what runs such pods."),
            Column::AGE,
        ]
    }

    fn row(&self, class: &RuntimeClass, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            json!(class.metadata.name),
            json!(class.handler),
            json!(cells::since(
                class.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, row, update_errors, with};

    fn base() -> Value {
        json!({"metadata": {"name": "sandboxed"}, "handler": "kata"})
    }

    #[test]
    fn fields() {
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![("/handler", json!("a.b"))],
                vec!["handler: Invalid value: \"a.b\": must not contain dots"],
            ),
            (
                vec![(
                    "/overhead/podFixed",
                    json!({"cpu": "250m", "memory": "120Mi"}),
                )],
                vec![],
            ),
            (
                vec![("/overhead/podFixed", json!({"cpu": "-1"}))],
                vec![
                    "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
            (
                vec![(
                    "/scheduling",
                    json!({"nodeSelector": {"a": "b c"}, "tolerations": [{}]}),
                )],
                vec![
                    "scheduling.nodeSelector: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                    "scheduling.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
                ],
            ),
        ] {
            assert_eq!(
                create_errors(&RuntimeClassStrategy, &with(&base(), &changes)),
                expected
            );
        }
        let other = with(&base(), &[("/handler", json!("runsc"))]);
        assert_eq!(
            update_errors(&RuntimeClassStrategy, &base(), &other),
            ["handler: Invalid value: \"runsc\": field is immutable"]
        );
    }

    #[test]
    fn rows() {
        assert_eq!(
            row(&RuntimeClassStrategy, &base()),
            [
                ("Name", json!("sandboxed")),
                ("Handler", json!("kata")),
                ("Age", json!("<unknown>")),
            ]
        );
    }
}
