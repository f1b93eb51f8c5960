//! Bindings: where a policy holds, and with which parameters.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchResources, MutatingAdmissionPolicyBinding, ParamRef, ValidatingAdmissionPolicyBinding,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{info, rules};
use crate::registry::{
    kinds::{cells, checks},
    printing::Column,
    strategy::Strategy,
};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const EXCLUSIVE: &str = "name and selector are mutually exclusive";

pub(in crate::registry::kinds) struct ValidatingBindingStrategy;
pub(in crate::registry::kinds) struct MutatingBindingStrategy;

impl Strategy for ValidatingBindingStrategy {
    type Object = ValidatingAdmissionPolicyBinding;

    fn resource(&self) -> ResourceInfo {
        info(
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
        )
    }

    fn default(&self, binding: &mut ValidatingAdmissionPolicyBinding) {
        if let Some(matched) = &mut binding.spec.match_resources {
            rules::fill_match_resources(matched);
        }
    }

    fn generation_changed(
        &self,
        new: &ValidatingAdmissionPolicyBinding,
        old: &ValidatingAdmissionPolicyBinding,
    ) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, binding: &ValidatingAdmissionPolicyBinding) -> ErrorList {
        let spec = &binding.spec;
        let mut errors = validate(
            &spec.policy_name,
            spec.param_ref.as_ref(),
            spec.match_resources.as_ref(),
        );
        let path = Path::new("spec").child("validationActions");
        validate_actions(&mut errors, &path, &spec.validation_actions);
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn row(&self, binding: &ValidatingAdmissionPolicyBinding, now: jiff::Timestamp) -> Vec<Value> {
        let spec = &binding.spec;
        row(
            &binding.metadata,
            &spec.policy_name,
            spec.param_ref.as_ref(),
            now,
        )
    }
}

impl Strategy for MutatingBindingStrategy {
    type Object = MutatingAdmissionPolicyBinding;

    fn resource(&self) -> ResourceInfo {
        info(
            "mutatingadmissionpolicybindings",
            "MutatingAdmissionPolicyBinding",
        )
    }

    fn default(&self, binding: &mut MutatingAdmissionPolicyBinding) {
        let spec = binding.spec.get_or_insert_default();
        if let Some(matched) = &mut spec.match_resources {
            rules::fill_match_resources(matched);
        }
    }

    fn generation_changed(
        &self,
        new: &MutatingAdmissionPolicyBinding,
        old: &MutatingAdmissionPolicyBinding,
    ) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, binding: &MutatingAdmissionPolicyBinding) -> ErrorList {
        let spec = binding.spec.clone().unwrap_or_default();
        validate(
            spec.policy_name.as_deref().unwrap_or_default(),
            spec.param_ref.as_ref(),
            spec.match_resources.as_ref(),
        )
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn row(&self, binding: &MutatingAdmissionPolicyBinding, now: jiff::Timestamp) -> Vec<Value> {
        let spec = binding.spec.as_ref();
        let policy = spec
            .and_then(|s| s.policy_name.as_deref())
            .unwrap_or_default();
        row(
            &binding.metadata,
            policy,
            spec.and_then(|s| s.param_ref.as_ref()),
            now,
        )
    }
}

fn validate(
    policy: &str,
    parameters: Option<&ParamRef>,
    matched: Option<&MatchResources>,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    checks::required_subdomain(&mut errors, &path.child("policyName"), policy);
    if let Some(parameters) = parameters {
        validate_parameters(&mut errors, &path.child("paramRef"), parameters);
    }
    if let Some(matched) = matched {
        rules::validate_match_resources(&mut errors, &path.child("matchResources"), matched);
    }
    errors
}

/// By name or by labels, not by both.
fn validate_parameters(errors: &mut ErrorList, path: &Path, parameters: &ParamRef) {
    let name = parameters.name.as_deref().unwrap_or_default();
    let selector = parameters.selector.as_ref();
    let (name_path, selector_path) = (path.child("name"), path.child("selector"));
    checks::path_segment(errors, &name_path, name);
    if !name.is_empty() && selector.is_some() {
        errors.push(FieldError::forbidden(&name_path, EXCLUSIVE));
    }
    checks::label_selector(errors, &selector_path, selector);
    if !name.is_empty() && selector.is_some() {
        errors.push(FieldError::forbidden(&selector_path, EXCLUSIVE));
    }
    if name.is_empty() && selector.is_none() {
        let why = "one of name or selector must be specified";
        errors.push(FieldError::required(path, why));
    }
    let action = parameters.parameter_not_found_action.as_deref();
    let path = path.child("parameterNotFoundAction");
    checks::required_one_of(errors, &path, action, &["Deny", "Allow"]);
}

/// What happens if an expression does not hold.
fn validate_actions(errors: &mut ErrorList, path: &Path, actions: &[String]) {
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        checks::one_of(errors, &path.index(i), action, &ACTIONS);
        if !seen.insert(action.as_str()) {
            errors.push(FieldError::duplicate(&path.index(i), action.as_str()));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, actions.to_vec(), why));
    }
    if seen.is_empty() {
        let why = "at least one validation action is required";
        errors.push(FieldError::required(path, why));
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::NAME,
        Column::string("PolicyName", "The policy that holds."),
        Column::string("ParamRef", "The object that parameterises it here."),
        Column::AGE,
    ]
}

fn row(
    metadata: &ObjectMeta,
    policy: &str,
    parameters: Option<&ParamRef>,
    now: jiff::Timestamp,
) -> Vec<Value> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let shown = parameters.map(|p| match (text(&p.namespace), text(&p.name)) {
        (_, name) if name.is_empty() => cells::selector(&p.selector.clone().unwrap_or_default()),
        (namespace, name) if namespace.is_empty() => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    });
    vec![
        json!(metadata.name),
        json!(policy),
        json!(shown.as_deref().unwrap_or("<unset>")),
        json!(cells::since(metadata.creation_timestamp.as_ref(), now)),
    ]
}
