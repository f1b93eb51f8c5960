//! PriorityClasses. Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>

use k8s_openapi::api::scheduling::v1::PriorityClass;
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe, fill, pod::spec::validate_preemption_policy};
use crate::registry::{printing::Column, strategy::Strategy};

/// Users' classes are at most this important.
const HIGHEST_OF_USERS: i32 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
/// The system's own classes and their values.
const OF_SYSTEM: [(&str, i32); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

pub(super) struct PriorityClassStrategy;

impl Strategy for PriorityClassStrategy {
    type Object = PriorityClass;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["pc"]),
            ..describe::cluster_scoped(
                "scheduling.k8s.io",
                "v1",
                "priorityclasses",
                "PriorityClass",
            )
        }
    }

    fn default(&self, class: &mut PriorityClass) {
        fill::pointer(
            &mut class.preemption_policy,
            "PreemptLowerPriority".to_owned(),
        );
    }

    /// It is 1 from the creation on: nothing that matters may change.
    fn generation_changed(&self, _new: &PriorityClass, _old: &PriorityClass) -> Option<bool> {
        Some(false)
    }

    fn validate(&self, class: &PriorityClass) -> ErrorList {
        let mut errors = ErrorList::new();
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let value = class.value.unwrap_or_default();
        if name.starts_with(SYSTEM_PREFIX) {
            if let Some(why) = refuses_system_class(class, name, value) {
                let path = Path::new("metadata").child("name");
                let why = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                );
                errors.push(FieldError::forbidden(&path, &why));
            }
        } else if value > HIGHEST_OF_USERS {
            errors.push(FieldError::forbidden(
                &Path::new("value"),
                &format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"),
            ));
        }
        if let Some(policy) = &class.preemption_policy {
            validate_preemption_policy(&mut errors, &Path::new("preemptionPolicy"), policy);
        }
        errors
    }

    fn validate_update(&self, new: &PriorityClass, old: &PriorityClass) -> ErrorList {
        let mut errors = ErrorList::new();
        if new.value.unwrap_or_default() != old.value.unwrap_or_default() {
            errors.push(FieldError::forbidden(
                &Path::new("value"),
                "may not be changed in an update.",
            ));
        }
        checks::immutable(
            &mut errors,
            &Path::new("preemptionPolicy"),
            new.preemption_policy == old.preemption_policy,
            json!(new.preemption_policy),
        );
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::integer("Value", "Importance of pods of this class."),
            Column {
                column_type: "boolean",
                ..Column::string(
                    "Global-Default",
                    "Whether pods without a class are of this one.",
                )
            },
            Column::AGE,
            Column::string(
                "PreemptionPolicy",
                "Whether its pods may push others off a node.",
            ),
        ]
    }

    fn row(&self, class: &PriorityClass, now: jiff::Timestamp) -> Vec<Value> {
        vec![
            json!(class.metadata.name),
            json!(class.value.unwrap_or_default()),
            json!(class.global_default.unwrap_or_default()),
            json!(cells::since(
                class.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(class.preemption_policy.as_deref().unwrap_or_default()),
        ]
    }
}

fn refuses_system_class(class: &PriorityClass, name: &str, value: i32) -> Option<String> {
    let known = OF_SYSTEM.iter().find(|(known, _)| *known == name);
    match known {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, right)) if *right != value => {
            Some(format!("value of {name} PriorityClass must be {right}"))
        }
        Some(_) if class.global_default == Some(true) => Some(format!(
            "globalDefault of {name} PriorityClass must be false"
        )),
        Some(_) => None,
    }
}
