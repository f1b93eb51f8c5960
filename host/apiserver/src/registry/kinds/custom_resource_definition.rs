//! CustomResourceDefinitions. They are kept, filled in and judged; what they define is not served yet, and expressions in
//! their schemas are not compiled.
//! Source: <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/>

mod schema;
#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionStatus,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::Value;

use super::{describe, fill};
use crate::registry::{
    printing::{self, Column},
    strategy::{Context, Keep, Strategy},
};

const ESTABLISHED: &str = "Established";

pub(super) struct CustomResourceDefinitionStrategy;

type Definition = CustomResourceDefinition;

impl Strategy for CustomResourceDefinitionStrategy {
    type Object = Definition;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["crd", "crds"]),
            categories: describe::texts(&["api-extensions"]),
            storage_prefix: "apiextensions.k8s.io/customresourcedefinitions".into(),
            ..describe::cluster_scoped(
                "apiextensions.k8s.io",
                "v1",
                "customresourcedefinitions",
                "CustomResourceDefinition",
            )
        }
    }

    fn default(&self, definition: &mut Definition) {
        let spec = &mut definition.spec;
        let names = &mut spec.names;
        fill::text(&mut names.singular, &names.kind.to_lowercase());
        if !names.kind.is_empty() {
            fill::text(&mut names.list_kind, &format!("{}List", names.kind));
        }
        let conversion = spec
            .conversion
            .get_or_insert_with(|| CustomResourceConversion {
                strategy: "None".to_owned(),
                webhook: None,
            });
        let client = conversion
            .webhook
            .as_mut()
            .and_then(|w| w.client_config.as_mut());
        if let Some(service) = client.and_then(|c| c.service.as_mut()) {
            fill::pointer(&mut service.port, 443);
        }
        let stored = definition
            .status
            .as_ref()
            .and_then(|s| s.stored_versions.as_ref());
        if stored.is_none_or(Vec::is_empty) {
            note_stored_version(definition);
        }
    }

    fn prepare_for_create(&self, _context: &Context, definition: &mut Definition) {
        definition.status = Some(CustomResourceDefinitionStatus::default());
        note_stored_version(definition);
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Definition, old: &Definition) {
        new.status.clone_from(&old.status);
        note_stored_version(new);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<Definition>> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(&self, new: &Definition, old: &Definition) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, definition: &Definition) -> ErrorList {
        let mut errors = validation::validate(definition);
        errors.extend(validation::validate_stored_versions(definition));
        errors
    }

    fn validate_create(&self, definition: &Definition) -> ErrorList {
        validation::validate_approval(definition, None)
    }

    fn validate_update(&self, new: &Definition, old: &Definition) -> ErrorList {
        let mut errors = validation::validate_update(new, old, is_established(old));
        errors.extend(validation::validate_approval(new, Some(old)));
        errors
    }

    fn validate_status_update(&self, new: &Definition, _old: &Definition) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(names) = new.status.as_ref().and_then(|s| s.accepted_names.as_ref()) {
            let path = Path::new("status").child("acceptedNames");
            validation::validate_names(&mut errors, &path, names);
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        printing::created_at_columns()
    }

    fn row(&self, definition: &Definition, _now: jiff::Timestamp) -> Vec<Value> {
        printing::created_at_row(definition)
    }
}

/// The version that objects are stored in from now on is among those that they may be stored in.
fn note_stored_version(definition: &mut Definition) {
    let stored = definition
        .spec
        .versions
        .iter()
        .find(|version| version.storage);
    let Some(name) = stored.map(|version| version.name.clone()) else {
        return;
    };
    let status = definition.status.get_or_insert_default();
    let versions = status.stored_versions.get_or_insert_default();
    if !versions.contains(&name) {
        versions.push(name);
    }
}

fn is_established(definition: &Definition) -> bool {
    let conditions = definition
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|c| c.type_ == ESTABLISHED && c.status == "True")
}
