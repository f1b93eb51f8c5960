//! `metadata` of an object, without what only the server minds.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::Time;

/// `metav1.ObjectMeta`. Empty fields are absent in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub labels: BTreeMap<String, String>,
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub annotations: BTreeMap<String, String>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub owner_references: Vec<OwnerReference>,
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub finalizers: Vec<String>,
}

impl ObjectMeta {
    /// The owner reference that is the object's controller, of which there is at most one.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }

    /// Whether the object with this uid is the controller.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner.uid == uid)
    }

    /// Whether deletion has begun.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// `metav1.OwnerReference`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// A reference that makes `owner` the controller and lets its foreground deletion wait for the dependent.
    pub fn controller_to(api_version: &str, kind: &str, owner: &ObjectMeta) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// Reads an explicit JSON null as the empty value, as Kubernetes' own decoder does.
pub fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_read_as_empty_and_empty_is_not_written() {
        let meta: ObjectMeta = serde_json::from_str(
            r#"{"name":"a","creationTimestamp":null,"labels":null,"ownerReferences":null,"managedFields":[{"manager":"m"}]}"#,
        )
        .unwrap();
        assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"name":"a"}"#);
    }

    #[test]
    fn only_the_controller_reference_controls() {
        let meta: ObjectMeta = serde_json::from_str(
            r#"{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"},
                {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"2","controller":true}]}"#,
        )
        .unwrap();
        assert!(meta.is_controlled_by("2"));
        assert!(!meta.is_controlled_by("1"));
    }
}
