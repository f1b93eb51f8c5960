//! FlowSchemas: which requests belong to which priority level.

use std::collections::BTreeSet;

use k8s_openapi::api::flowcontrol::v1::{
    FlowSchema, FlowSchemaStatus, NonResourcePolicyRule, PolicyRulesWithSubjects,
    ResourcePolicyRule, Subject,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::{EXEMPT, GROUP, mandatory};
use crate::registry::{
    kinds::{cells, checks, describe, fill, semantic},
    printing::Column,
    strategy::{Context, Keep, Strategy},
};

const LOWEST_PRECEDENCE: i32 = 10_000;
const METHODS: [&str; 2] = ["ByNamespace", "ByUser"];
const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
const DANGLING: &str = "Dangling";

pub(in crate::registry::kinds) struct FlowSchemaStrategy;

impl Strategy for FlowSchemaStrategy {
    type Object = FlowSchema;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "flowschemas", "FlowSchema")
    }

    fn default(&self, schema: &mut FlowSchema) {
        let spec = schema.spec.get_or_insert_default();
        fill::number(&mut spec.matching_precedence, 1000);
    }

    fn prepare_for_create(&self, _context: &Context, schema: &mut FlowSchema) {
        schema.status = Some(FlowSchemaStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut FlowSchema, old: &FlowSchema) {
        new.status.clone_from(&old.status);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<FlowSchema>> {
        Some(|new, old| {
            new.spec.clone_from(&old.spec);
            describe::keep_metadata_for_status(&mut new.metadata, &old.metadata);
        })
    }

    fn generation_changed(&self, new: &FlowSchema, old: &FlowSchema) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, schema: &FlowSchema) -> ErrorList {
        let mut errors = validate(schema);
        errors.extend(validate_status(schema));
        errors
    }

    fn validate_status_update(&self, new: &FlowSchema, _old: &FlowSchema) -> ErrorList {
        validate_status(new)
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("PriorityLevel", "The level that its requests belong to."),
            Column::string(
                "MatchingPrecedence",
                "Of several that match, the lowest counts.",
            ),
            Column::string("DistinguisherMethod", "What makes a flow of requests."),
            Column::AGE,
            Column::string("MissingPL", "Whether the level does not exist."),
        ]
    }

    fn row(&self, schema: &FlowSchema, now: jiff::Timestamp) -> Vec<Value> {
        let spec = schema.spec.clone().unwrap_or_default();
        let method = spec.distinguisher_method.as_ref().map(|m| m.type_.as_str());
        let conditions = schema.status.as_ref().and_then(|s| s.conditions.as_deref());
        let mut conditions = conditions.unwrap_or_default().iter();
        let dangling = conditions.find(|c| c.type_.as_deref() == Some(DANGLING));
        let dangling = dangling.and_then(|c| c.status.as_deref());
        vec![
            json!(schema.metadata.name),
            json!(spec.priority_level_configuration.name),
            json!(spec.matching_precedence.unwrap_or_default()),
            json!(method.unwrap_or(cells::NONE)),
            json!(cells::since(
                schema.metadata.creation_timestamp.as_ref(),
                now
            )),
            json!(dangling.unwrap_or("?")),
        ]
    }
}

fn validate(schema: &FlowSchema) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let name = schema.metadata.name.as_deref().unwrap_or_default();
    let spec = schema.spec.clone().unwrap_or_default();
    let precedence = spec.matching_precedence.unwrap_or_default();
    let mut refuse = |bad: bool, why: &str| {
        if bad {
            let path = path.child("matchingPrecedence");
            errors.push(FieldError::invalid(&path, precedence, why));
        }
    };
    refuse(precedence <= 0, "must be a positive value");
    refuse(
        precedence > LOWEST_PRECEDENCE,
        "must not be greater than 10000",
    );
    refuse(
        precedence == 1 && name != EXEMPT,
        "only the schema named 'exempt' may have matchingPrecedence 1",
    );
    if let Some(method) = &spec.distinguisher_method {
        let path = path.child("distinguisherMethod").child("type");
        checks::one_of(&mut errors, &path, &method.type_, &METHODS);
    }
    let level = spec.priority_level_configuration.name.as_str();
    let level_path = path.child("priorityLevelConfiguration").child("name");
    match level {
        "" => errors.push(FieldError::required(
            &level_path,
            "must reference a priority level",
        )),
        level => checks::dns_subdomain(&mut errors, &level_path, level),
    }
    for (i, rule) in spec.rules.iter().flatten().enumerate() {
        validate_rule(&mut errors, &path.child("rules").index(i), rule);
    }
    if let Some(fixed) = mandatory::flow_schema(name) {
        let shown = semantic::value_at(schema, "/spec");
        if shown != fixed {
            let why = format!("spec of '{name}' must equal the fixed value");
            errors.push(FieldError::invalid(&path, shown, &why));
        }
    }
    errors
}

fn validate_rule(errors: &mut ErrorList, path: &Path, rule: &PolicyRulesWithSubjects) {
    if rule.subjects.is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(FieldError::required(&path.child("subjects"), why));
    }
    for (i, subject) in rule.subjects.iter().enumerate() {
        validate_subject(errors, &path.child("subjects").index(i), subject);
    }
    let resources = rule.resource_rules.as_deref().unwrap_or_default();
    let others = rule.non_resource_rules.as_deref().unwrap_or_default();
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, why));
    }
    for (i, rule) in resources.iter().enumerate() {
        validate_resource_rule(errors, &path.child("resourceRules").index(i), rule);
    }
    for (i, rule) in others.iter().enumerate() {
        validate_path_rule(errors, &path.child("nonResourceRules").index(i), rule);
    }
}

/// A subject has what its kind says, and nothing else.
fn validate_subject(errors: &mut ErrorList, path: &Path, subject: &Subject) {
    let parts = [
        (
            "ServiceAccount",
            "serviceAccount",
            subject.service_account.is_some(),
        ),
        ("User", "user", subject.user.is_some()),
        ("Group", "group", subject.group.is_some()),
    ];
    let kind = subject.kind.as_str();
    if !parts.iter().any(|(known, ..)| *known == kind) {
        let kinds = ["Group", "ServiceAccount", "User"];
        errors.push(FieldError::not_supported(&path.child("kind"), kind, &kinds));
        return;
    }
    for (of, field, set) in parts {
        let path = path.child(field);
        match (of == kind, set) {
            (true, false) => {
                let why = format!("{field} is required when subject kind is '{of}'");
                errors.push(FieldError::required(&path, &why));
            }
            (false, true) => {
                let why = format!("{field} is forbidden when subject kind is not '{of}'");
                errors.push(FieldError::forbidden(&path, &why));
            }
            _ => {}
        }
    }
    match kind {
        "ServiceAccount" => {
            let Some(account) = &subject.service_account else {
                return;
            };
            let path = path.child("serviceAccount");
            match account.name.as_str() {
                "" => errors.push(FieldError::required(&path.child("name"), "")),
                "*" => {}
                name => checks::dns_subdomain(errors, &path.child("name"), name),
            }
            let namespace_path = path.child("namespace");
            match account.namespace.as_str() {
                "" => errors.push(FieldError::required(
                    &namespace_path,
                    "must specify namespace for service account",
                )),
                namespace => checks::dns_label(errors, &namespace_path, namespace),
            }
        }
        "User" => {
            if let Some(user) = &subject.user {
                checks::required(errors, &path.child("user").child("name"), &user.name);
            }
        }
        _ => {
            if let Some(group) = &subject.group {
                checks::required(errors, &path.child("group").child("name"), &group.name);
            }
        }
    }
}

/// There is something, and nothing stands beside `*`. Whether `*` is there.
fn alone(
    errors: &mut ErrorList,
    path: &Path,
    values: &[String],
    missing: &str,
    others: &str,
) -> bool {
    let all = values.iter().any(|value| value == "*");
    if values.is_empty() {
        errors.push(FieldError::required(path, missing));
    } else if all && values.len() > 1 {
        let why = format!("if '*' is present, must not specify other {others}");
        errors.push(FieldError::invalid(path, values.to_vec(), &why));
    }
    all
}

fn validate_verbs(errors: &mut ErrorList, path: &Path, verbs: &[String]) {
    let path = path.child("verbs");
    let missing = "verbs must contain at least one value";
    let all = alone(errors, &path, verbs, missing, "verbs");
    if !all && !verbs.iter().all(|verb| VERBS.contains(&verb.as_str())) {
        errors.push(FieldError::not_supported(&path, verbs.to_vec(), &VERBS));
    }
}

fn validate_resource_rule(errors: &mut ErrorList, path: &Path, rule: &ResourcePolicyRule) {
    validate_verbs(errors, path, &rule.verbs);
    alone(
        errors,
        &path.child("apiGroups"),
        &rule.api_groups,
        "resource rules must supply at least one api group",
        "api groups",
    );
    alone(
        errors,
        &path.child("resources"),
        &rule.resources,
        "resource rules must supply at least one resource",
        "resources",
    );
    let path = path.child("namespaces");
    let namespaces = rule.namespaces.as_deref().unwrap_or_default();
    if namespaces.is_empty() && rule.cluster_scope == Some(true) {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if alone(errors, &path, namespaces, missing, "namespaces") {
        return;
    }
    for (i, namespace) in namespaces.iter().enumerate() {
        for complaint in validation::is_dns1123_label(namespace) {
            let why =
                format!("each member of this list must be '*' or a DNS-1123 label; {complaint}");
            errors.push(FieldError::invalid(
                &path.index(i),
                namespace.as_str(),
                &why,
            ));
        }
    }
}

fn validate_path_rule(errors: &mut ErrorList, path: &Path, rule: &NonResourcePolicyRule) {
    validate_verbs(errors, path, &rule.verbs);
    let path = path.child("nonResourceURLs");
    let missing = "nonResourceURLs must contain at least one value";
    if alone(
        errors,
        &path,
        &rule.non_resource_urls,
        missing,
        "non-resource URLs",
    ) {
        return;
    }
    for (i, url) in rule.non_resource_urls.iter().enumerate() {
        let stars = url.matches('*').count();
        let why = match url.as_str() {
            "" => "must not be empty",
            "/" => continue,
            url if !url.starts_with('/') => "must start with slash",
            url if url.contains(' ') => "must not contain white-space",
            url if url.contains("//") => "must not contain double slash",
            url if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
                "wildcard can only do suffix matching"
            }
            _ => continue,
        };
        errors.push(FieldError::invalid(&path.index(i), url.as_str(), why));
    }
}

fn validate_status(schema: &FlowSchema) -> ErrorList {
    let conditions = schema.status.as_ref().and_then(|s| s.conditions.as_deref());
    let kinds = conditions
        .unwrap_or_default()
        .iter()
        .map(|c| c.type_.as_deref());
    validate_condition_types(kinds)
}

/// Conditions have different types.
pub(super) fn validate_condition_types<'a>(
    types: impl Iterator<Item = Option<&'a str>>,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut seen = BTreeSet::new();
    for (i, kind) in types.enumerate() {
        let path = Path::new("status")
            .child("conditions")
            .index(i)
            .child("type");
        let kind = kind.unwrap_or_default();
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&path, kind));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(&path, "must not be empty"));
        }
    }
    errors
}
