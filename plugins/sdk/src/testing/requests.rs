//! Admission requests for native tests of admission plugins.

use serde_json::Value;

use crate::{
    admission::{
        Denial, GroupVersionKind, GroupVersionResource, Mutation, Operation, Request, User,
    },
    cluster::{PatchType, Resource},
};

use super::fake_patch;

/// A request of user `alice` about an object; on update the old object is the same.
pub fn admission_request(of: &Resource, operation: Operation, object: &Value) -> Request {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let bytes = object.to_string().into_bytes();
    Request {
        uid: "11111111-2222-4333-8444-555555555555".to_owned(),
        kind: GroupVersionKind {
            group: of.group.clone().into_owned(),
            version: of.version.clone().into_owned(),
            kind: object["kind"].as_str().unwrap_or_default().to_owned(),
        },
        resource: GroupVersionResource {
            group: of.group.clone().into_owned(),
            version: of.version.clone().into_owned(),
            resource: of.name.clone().into_owned(),
        },
        subresource: String::new(),
        name: text("name"),
        namespace: text("namespace"),
        operation,
        user: User {
            name: "alice".to_owned(),
            uid: String::new(),
            groups: vec!["system:authenticated".to_owned()],
            extra: Vec::new(),
        },
        dry_run: false,
        object: (operation != Operation::Delete).then(|| bytes.clone()),
        old_object: matches!(operation, Operation::Update | Operation::Delete).then_some(bytes),
        options: Vec::new(),
    }
}

/// The object after a mutation. Panics if the patch does not apply.
pub fn mutated(object: &Value, mutation: Result<Mutation, Denial>) -> Value {
    let mut object = object.clone();
    let mutation = mutation.unwrap_or_else(|denial| panic!("refused: {}", denial.message));
    let patch = mutation.patch.to_json();
    if !patch.is_empty() {
        let applied = fake_patch::apply(PatchType::Json, object, patch.as_bytes());
        object = applied.unwrap_or_else(|why| panic!("{patch} does not apply: {}", why.message));
    }
    object
}
