//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies.
//! Source: <https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/>

use std::collections::BTreeSet;

use k8s_openapi::{
    api::admissionregistration::v1::{
        AuditAnnotation, MatchResources, MutatingAdmissionPolicy, Mutation, ParamKind,
        ValidatingAdmissionPolicy, Validation, Variable,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::{info, rules, webhook::REINVOCATION};
use crate::registry::{
    kinds::{cells, checks, describe, fill},
    printing::Column,
    strategy::{Context, Keep, Strategy},
};

const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_AUDIT_EXPRESSION_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
/// Words that are no names in the Common Expression Language.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(in crate::registry::kinds) struct ValidatingPolicyStrategy;
pub(in crate::registry::kinds) struct MutatingPolicyStrategy;

impl Strategy for ValidatingPolicyStrategy {
    type Object = ValidatingAdmissionPolicy;

    fn resource(&self) -> ResourceInfo {
        info("validatingadmissionpolicies", "ValidatingAdmissionPolicy")
    }

    fn default(&self, policy: &mut ValidatingAdmissionPolicy) {
        let spec = policy.spec.get_or_insert_default();
        fill::pointer(&mut spec.failure_policy, "Fail".to_owned());
        if let Some(matched) = &mut spec.match_constraints {
            rules::fill_match_resources(matched);
        }
    }

    fn prepare_for_create(&self, _context: &Context, policy: &mut ValidatingAdmissionPolicy) {
        policy.status = Some(Default::default());
    }

    fn prepare_for_update(
        &self,
        _context: &Context,
        new: &mut ValidatingAdmissionPolicy,
        old: &ValidatingAdmissionPolicy,
    ) {
        new.status.clone_from(&old.status);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<ValidatingAdmissionPolicy>> {
        Some(|new, old| {
            new.spec.clone_from(&old.spec);
            describe::keep_metadata_for_status(&mut new.metadata, &old.metadata);
        })
    }

    fn generation_changed(
        &self,
        new: &ValidatingAdmissionPolicy,
        old: &ValidatingAdmissionPolicy,
    ) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, policy: &ValidatingAdmissionPolicy) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = policy.spec.clone().unwrap_or_default();
        rules::validate_failure_policy(&mut errors, &path, spec.failure_policy.as_deref());
        if let Some(kind) = &spec.param_kind {
            validate_param_kind(&mut errors, &path.child("paramKind"), kind);
        }
        validate_constraints(&mut errors, &path, spec.match_constraints.as_ref());
        let conditions = spec.match_conditions.as_deref();
        rules::validate_conditions(&mut errors, &path.child("matchConditions"), conditions);
        let variables = spec.variables.as_deref().unwrap_or_default();
        validate_variables(&mut errors, &path.child("variables"), variables);
        let validations = spec.validations.as_deref().unwrap_or_default();
        let annotations = spec.audit_annotations.as_deref().unwrap_or_default();
        let annotations_path = path.child("auditAnnotations");
        if validations.is_empty() && annotations.is_empty() {
            let why = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(&path.child("validations"), why));
            errors.push(FieldError::required(&annotations_path, why));
        }
        for (i, validation) in validations.iter().enumerate() {
            let path = path.child("validations").index(i);
            validate_validation(&mut errors, &path, validation);
        }
        let name = policy.metadata.name.as_deref().unwrap_or_default();
        validate_annotations(&mut errors, &annotations_path, annotations, name);
        errors
    }

    fn validate_status_update(
        &self,
        new: &ValidatingAdmissionPolicy,
        _old: &ValidatingAdmissionPolicy,
    ) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status")
            .child("typeChecking")
            .child("expressionWarnings");
        let checking = new.status.as_ref().and_then(|s| s.type_checking.as_ref());
        let warnings = checking.and_then(|c| c.expression_warnings.as_deref());
        for (i, warning) in warnings.unwrap_or_default().iter().enumerate() {
            let path = path.index(i);
            checks::required(&mut errors, &path.child("warning"), &warning.warning);
            checks::required(
                &mut errors,
                &path.child("fieldRef"),
                warning.field_ref.trim(),
            );
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns(Column::integer(
            "Validations",
            "How many expressions must hold.",
        ))
    }

    fn row(&self, policy: &ValidatingAdmissionPolicy, now: jiff::Timestamp) -> Vec<Value> {
        let spec = policy.spec.as_ref();
        let count = spec
            .and_then(|s| s.validations.as_ref())
            .map_or(0, Vec::len);
        row(
            &policy.metadata,
            count,
            spec.and_then(|s| s.param_kind.as_ref()),
            now,
        )
    }
}

impl Strategy for MutatingPolicyStrategy {
    type Object = MutatingAdmissionPolicy;

    fn resource(&self) -> ResourceInfo {
        info("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
    }

    fn default(&self, policy: &mut MutatingAdmissionPolicy) {
        let spec = policy.spec.get_or_insert_default();
        fill::pointer(&mut spec.failure_policy, "Fail".to_owned());
        if let Some(matched) = &mut spec.match_constraints {
            rules::fill_match_resources(matched);
        }
    }

    fn generation_changed(
        &self,
        new: &MutatingAdmissionPolicy,
        old: &MutatingAdmissionPolicy,
    ) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, policy: &MutatingAdmissionPolicy) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = policy.spec.clone().unwrap_or_default();
        rules::validate_failure_policy(&mut errors, &path, spec.failure_policy.as_deref());
        let reinvocation = spec.reinvocation_policy.as_deref();
        let reinvocation_path = path.child("reinvocationPolicy");
        checks::required_one_of(&mut errors, &reinvocation_path, reinvocation, &REINVOCATION);
        if let Some(kind) = &spec.param_kind {
            validate_param_kind(&mut errors, &path.child("paramKind"), kind);
        }
        validate_constraints(&mut errors, &path, spec.match_constraints.as_ref());
        let conditions = spec.match_conditions.as_deref();
        rules::validate_conditions(&mut errors, &path.child("matchConditions"), conditions);
        let variables = spec.variables.as_deref().unwrap_or_default();
        validate_variables(&mut errors, &path.child("variables"), variables);
        let path = path.child("mutations");
        let mutations = spec.mutations.as_deref().unwrap_or_default();
        if mutations.is_empty() {
            let why = "mutations must contain at least one item";
            errors.push(FieldError::required(&path, why));
        }
        for (i, mutation) in mutations.iter().enumerate() {
            validate_mutation(&mut errors, &path.index(i), mutation);
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns(Column::integer("Mutations", "How many changes are made."))
    }

    fn row(&self, policy: &MutatingAdmissionPolicy, now: jiff::Timestamp) -> Vec<Value> {
        let spec = policy.spec.as_ref();
        let count = spec.and_then(|s| s.mutations.as_ref()).map_or(0, Vec::len);
        row(
            &policy.metadata,
            count,
            spec.and_then(|s| s.param_kind.as_ref()),
            now,
        )
    }
}

/// The kind of the objects that parameterise a policy.
fn validate_param_kind(errors: &mut ErrorList, path: &Path, kind: &ParamKind) {
    let version_path = path.child("apiVersion");
    let api_version = kind.api_version.as_deref().unwrap_or_default();
    let parts: Vec<&str> = api_version.split('/').collect();
    let mut refuse = |shown: &str, complaints: Vec<String>| {
        if !complaints.is_empty() {
            let why = complaints.join(",");
            errors.push(FieldError::invalid(&version_path, shown, &why));
        }
    };
    match parts.as_slice() {
        [""] => errors.push(FieldError::required(&version_path, "")),
        [version] => refuse(version, validation::is_dns1035_label(version)),
        [group, version] => {
            if !group.is_empty() {
                refuse(group, validation::is_dns1123_subdomain(group));
            }
            match *version {
                "" => refuse(api_version, vec!["version must be specified".to_owned()]),
                version => refuse(version, validation::is_dns1035_label(version)),
            }
        }
        _ => refuse(
            api_version,
            vec![format!("unexpected GroupVersion string: {api_version}")],
        ),
    }
    let name = kind.kind.as_deref().unwrap_or_default();
    let kind_path = path.child("kind");
    if name.is_empty() {
        errors.push(FieldError::required(&kind_path, ""));
        return;
    }
    let complaints = validation::is_dns1035_label(&name.to_lowercase());
    if !complaints.is_empty() {
        let why = format!(
            "may have mixed case, but should otherwise match: {}",
            complaints.join(",")
        );
        errors.push(FieldError::invalid(&kind_path, name, &why));
    }
}

/// A policy says what it is about, so that the types are known.
fn validate_constraints(errors: &mut ErrorList, path: &Path, matched: Option<&MatchResources>) {
    let path = path.child("matchConstraints");
    let Some(matched) = matched else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    rules::validate_match_resources(errors, &path, matched);
    if matched.resource_rules.as_ref().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(&path.child("resourceRules"), ""));
    }
}

fn validate_variables(errors: &mut ErrorList, path: &Path, variables: &[Variable]) {
    for (i, variable) in variables.iter().enumerate() {
        let path = path.index(i);
        let name = variable.name.as_str();
        let name_path = path.child("name");
        if name.trim().is_empty() {
            errors.push(FieldError::required(&name_path, "name is not specified"));
        } else if !is_identifier(name) {
            let why = "name is not a valid CEL identifier";
            errors.push(FieldError::invalid(&name_path, name, why));
        }
        validate_expression(errors, &path, &variable.expression);
    }
}

fn is_identifier(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let first = name.bytes().next().is_some_and(letter);
    first && name.bytes().all(|b| letter(b) || b.is_ascii_digit()) && !RESERVED.contains(&name)
}

fn validate_expression(errors: &mut ErrorList, path: &Path, expression: &str) {
    if expression.trim().is_empty() {
        let why = "expression is not specified";
        errors.push(FieldError::required(&path.child("expression"), why));
    }
}

fn validate_validation(errors: &mut ErrorList, path: &Path, validation: &Validation) {
    validate_expression(errors, path, &validation.expression);
    let message = validation.message.as_deref().unwrap_or_default();
    let expression = validation.message_expression.as_deref().unwrap_or_default();
    if !expression.is_empty() && expression.trim().is_empty() {
        let path = path.child("messageExpression");
        errors.push(FieldError::invalid(
            &path,
            expression,
            "must be non-empty if specified",
        ));
    }
    let message_path = path.child("message");
    if !message.is_empty() && message.trim().is_empty() {
        let why = "message must be non-empty if specified";
        errors.push(FieldError::invalid(&message_path, message, why));
    } else if message.trim().contains(['\n', '\r']) {
        let why = "message must not contain line breaks";
        errors.push(FieldError::invalid(&message_path, message, why));
    }
    if let Some(reason) = &validation.reason {
        checks::one_of(errors, &path.child("reason"), reason, &REASONS);
    }
}

fn validate_annotations(
    errors: &mut ErrorList,
    path: &Path,
    annotations: &[AuditAnnotation],
    policy: &str,
) {
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        let keys: Vec<&str> = annotations.iter().map(|a| a.key.as_str()).collect();
        errors.push(FieldError::invalid(path, keys, &why));
    }
    let mut seen = BTreeSet::new();
    for (i, annotation) in annotations.iter().enumerate() {
        let path = path.index(i);
        let key = annotation.key.as_str();
        let whole = format!("{policy}/{key}");
        checks::qualified_name(errors, &path.child("key"), &whole);
        let expression = annotation.value_expression.trim();
        let expression_path = path.child("valueExpression");
        if expression.is_empty() {
            let why = "valueExpression is not specified";
            errors.push(FieldError::required(&expression_path, why));
        } else if expression.len() > MAX_AUDIT_EXPRESSION_BYTES {
            let why = format!("must not exceed {MAX_AUDIT_EXPRESSION_BYTES} bytes in length");
            errors.push(FieldError::required(&expression_path, &why));
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&path.child("key"), key));
        }
    }
}

/// A change is written in one of two ways.
fn validate_mutation(errors: &mut ErrorList, path: &Path, mutation: &Mutation) {
    let patch_type = Some(mutation.patch_type.as_str());
    checks::required_one_of(errors, &path.child("patchType"), patch_type, &PATCH_TYPES);
    let apply = mutation
        .apply_configuration
        .as_ref()
        .map(|c| c.expression.as_deref());
    let json_patch = mutation
        .json_patch
        .as_ref()
        .map(|p| p.expression.as_deref());
    let (wanted, field, other, other_field) = match mutation.patch_type.as_str() {
        "ApplyConfiguration" => (apply, "applyConfiguration", json_patch, "jsonPatch"),
        "JSONPatch" => (json_patch, "jsonPatch", apply, "applyConfiguration"),
        _ => return,
    };
    match wanted {
        None => errors.push(FieldError::required(&path.child(field), "")),
        Some(expression) => {
            validate_expression(errors, &path.child(field), expression.unwrap_or_default());
        }
    }
    if other.is_some() {
        let why = format!("may not be set if patchType is {}", mutation.patch_type);
        errors.push(FieldError::forbidden(&path.child(other_field), &why));
    }
}

fn columns(count: Column) -> Vec<Column> {
    vec![
        Column::NAME,
        count,
        Column::string(
            "ParamKind",
            "The kind of the objects that parameterise the policy.",
        ),
        Column::AGE,
    ]
}

fn row(
    metadata: &ObjectMeta,
    count: usize,
    kind: Option<&ParamKind>,
    now: jiff::Timestamp,
) -> Vec<Value> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let kind = kind.map(|kind| format!("{}/{}", text(&kind.api_version), text(&kind.kind)));
    vec![
        json!(metadata.name),
        json!(count),
        json!(kind.as_deref().unwrap_or("<unset>")),
        json!(cells::since(metadata.creation_timestamp.as_ref(), now)),
    ]
}
