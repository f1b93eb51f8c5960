//! ControllerRevisions.
//! Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/controller-revision-v1/>

use k8s_openapi::api::apps::v1::ControllerRevision;
use pilothouse_api::{
    GroupVersionKind, ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{cells, checks, describe};
use crate::registry::{printing::Column, strategy::Strategy};

pub(super) struct ControllerRevisionStrategy;

impl Strategy for ControllerRevisionStrategy {
    type Object = ControllerRevision;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision")
    }

    fn validate(&self, revision: &ControllerRevision) -> ErrorList {
        let mut errors = ErrorList::new();
        if revision.data.is_none() {
            errors.push(FieldError::required(
                &Path::new("data"),
                "data is mandatory",
            ));
        }
        let path = Path::new("revision");
        checks::not_negative(&mut errors, &path, Some(revision.revision));
        errors
    }

    fn validate_update(&self, new: &ControllerRevision, old: &ControllerRevision) -> ErrorList {
        let mut errors = ErrorList::new();
        let data = |r: &ControllerRevision| r.data.as_ref().map(|d| d.0.clone());
        checks::immutable(
            &mut errors,
            &Path::new("data"),
            new.data == old.data,
            json!(data(new)),
        );
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Controller", "Which workload the revision belongs to."),
            Column::integer("Revision", "Number of the revision."),
            Column::AGE,
        ]
    }

    fn row(&self, revision: &ControllerRevision, now: jiff::Timestamp) -> Vec<Value> {
        let mut owners = revision.metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let controller = controller.map_or(cells::NONE.to_owned(), |owner| {
            let gvk = GroupVersionKind::parse(&owner.api_version, &owner.kind);
            let kind = gvk.kind.to_lowercase();
            match &*gvk.group {
                "" => format!("{kind}/{}", owner.name),
                group => format!("{kind}.{group}/{}", owner.name),
            }
        });
        vec![
            json!(revision.metadata.name),
            json!(controller),
            json!(revision.revision),
            json!(cells::since(
                revision.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}
