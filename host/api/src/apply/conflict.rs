//! Conflicts: fields that an apply would change and somebody else owns.
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts>

use super::{managed::Manager, set::FieldSet};
use crate::status::{Cause, Details, Status};

/// The fields of one other owner that are in the way.
#[derive(Clone, Debug)]
pub(super) struct Conflict<'a> {
    pub manager: Manager<'a>,
    pub fields: FieldSet<'a>,
}

/// 409 with a cause for each field.
pub(super) fn refusal(mut conflicts: Vec<Conflict<'_>>) -> Status {
    conflicts.sort_by(|a, b| a.manager.cmp(&b.manager));
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for conflict in &conflicts {
        let manager = conflict.manager.describe();
        lines.push(format!("conflicts with {manager}:"));
        for field in conflict.fields.paths() {
            lines.push(format!("- {field}"));
            causes.push(Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {manager}"),
                field,
            });
        }
    }
    let message = match causes.as_slice() {
        [one] => format!(
            "Apply failed with 1 conflict: {}: {}",
            one.message, one.field
        ),
        many => format!(
            "Apply failed with {} conflicts: {}",
            many.len(),
            lines.join("\n")
        ),
    };
    let mut status = Status::new(409, "Conflict", message);
    status.details = Some(Box::new(Details {
        causes,
        ..Details::default()
    }));
    status
}
