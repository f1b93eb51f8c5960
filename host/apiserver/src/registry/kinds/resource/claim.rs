//! ResourceClaims and ResourceClaimTemplates.

use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation::{self, FIELD_IS_IMMUTABLE},
};
use serde_json::{Value, json};

use super::{GROUP, claims, status};
use crate::registry::{
    kinds::{cells, describe, semantic},
    printing::Column,
    strategy::{Context, Keep, Strategy},
};

pub(in crate::registry::kinds) struct ResourceClaimStrategy;
pub(in crate::registry::kinds) struct ResourceClaimTemplateStrategy;

impl Strategy for ResourceClaimStrategy {
    type Object = ResourceClaim;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced(GROUP, "v1", "resourceclaims", "ResourceClaim")
    }

    fn default(&self, claim: &mut ResourceClaim) {
        claims::fill_defaults(&mut claim.spec);
    }

    fn prepare_for_create(&self, _context: &Context, claim: &mut ResourceClaim) {
        claim.status = Some(ResourceClaimStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut ResourceClaim, old: &ResourceClaim) {
        new.status.clone_from(&old.status);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<ResourceClaim>> {
        Some(|new, old| {
            new.spec.clone_from(&old.spec);
            describe::keep_metadata_for_status(&mut new.metadata, &old.metadata);
        })
    }

    fn validate_create(&self, claim: &ResourceClaim) -> ErrorList {
        let mut errors = ErrorList::new();
        claims::validate(&mut errors, &Path::new("spec"), &claim.spec);
        errors
    }

    fn validate_update(&self, new: &ResourceClaim, old: &ResourceClaim) -> ErrorList {
        same_spec(new, old)
    }

    fn validate_status_update(&self, new: &ResourceClaim, old: &ResourceClaim) -> ErrorList {
        status::validate(new, old)
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("State", "Whether devices are allocated, and for whom."),
            Column::AGE,
        ]
    }

    fn row(&self, claim: &ResourceClaim, now: jiff::Timestamp) -> Vec<Value> {
        let status = claim.status.clone().unwrap_or_default();
        let deleted = claim.metadata.deletion_timestamp.is_some();
        let reserved = status.reserved_for.is_some_and(|users| !users.is_empty());
        let states = [
            ("deleted", deleted),
            ("pending", status.allocation.is_none() && !deleted),
            ("allocated", status.allocation.is_some()),
            ("reserved", status.allocation.is_some() && reserved),
        ];
        let states: Vec<&str> = states
            .iter()
            .filter(|(_, is)| *is)
            .map(|(s, _)| *s)
            .collect();
        vec![
            json!(claim.metadata.name),
            json!(states.join(",")),
            json!(cells::since(
                claim.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

impl Strategy for ResourceClaimTemplateStrategy {
    type Object = ResourceClaimTemplate;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced(
            GROUP,
            "v1",
            "resourceclaimtemplates",
            "ResourceClaimTemplate",
        )
    }

    fn default(&self, template: &mut ResourceClaimTemplate) {
        claims::fill_defaults(&mut template.spec.spec);
    }

    fn validate_create(&self, template: &ResourceClaimTemplate) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        if let Some(metadata) = &template.spec.metadata {
            let path = path.child("metadata");
            let (labels, annotations) = (metadata.labels.as_ref(), metadata.annotations.as_ref());
            errors.extend(validation::validate_annotations(
                annotations,
                &path.child("annotations"),
            ));
            errors.extend(validation::validate_labels(labels, &path.child("labels")));
        }
        claims::validate(&mut errors, &path.child("spec"), &template.spec.spec);
        errors
    }

    fn validate_update(
        &self,
        new: &ResourceClaimTemplate,
        old: &ResourceClaimTemplate,
    ) -> ErrorList {
        same_spec(new, old)
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// A spec that is never updated.
fn same_spec<K: pilothouse_api::Kind>(new: &K, old: &K) -> ErrorList {
    match semantic::differences(new, old, "spec").is_empty() {
        true => ErrorList::new(),
        false => {
            let shown = semantic::value_at(new, "/spec");
            vec![FieldError::invalid(
                &Path::new("spec"),
                shown,
                FIELD_IS_IMMUTABLE,
            )]
        }
    }
}
