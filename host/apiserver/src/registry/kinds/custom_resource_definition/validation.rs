//! What makes a CustomResourceDefinition valid. Paths are those that clients see: what all versions have in common is
//! reported once, where the first version of this API had it (`spec.validation`).

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinitionNames,
    CustomResourceDefinitionVersion, CustomResourceSubresources,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    validation::{is_dns1035_label, is_dns1123_subdomain},
};
use serde_json::Value;

use super::{Definition, schema};
use crate::registry::kinds::{admission::webhook_client, checks, semantic};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const MAX_SELECTABLE_FIELDS: usize = 8;
const APPROVAL: &str = "api-approved.kubernetes.io";

pub(super) fn validate(definition: &Definition) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = &definition.spec;
    let name = definition.metadata.name.as_deref().unwrap_or_default();
    if name != format!("{}.{}", spec.names.plural, spec.group) {
        let why = r#"must be spec.names.plural+"."+spec.group"#;
        errors.push(FieldError::invalid(
            &Path::new("metadata").child("name"),
            name,
            why,
        ));
    }
    validate_group(&mut errors, &path.child("group"), &spec.group);
    let scope = Some(spec.scope.as_str());
    checks::required_one_of(
        &mut errors,
        &path.child("scope"),
        scope,
        &["Cluster", "Namespaced"],
    );
    validate_versions(&mut errors, &path, definition);
    for (field, value) in [
        ("plural", Some(&spec.names.plural)),
        ("singular", spec.names.singular.as_ref()),
        ("kind", Some(&spec.names.kind)),
        ("listKind", spec.names.list_kind.as_ref()),
    ] {
        let value = value.map(String::as_str).unwrap_or_default();
        checks::required(&mut errors, &path.child("names").child(field), value);
    }
    validate_names(&mut errors, &path.child("names"), &spec.names);
    if let Some(conversion) = &spec.conversion {
        validate_conversion(&mut errors, &path.child("conversion"), conversion);
    }
    if spec.preserve_unknown_fields == Some(true) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(
            &path.child("preserveUnknownFields"),
            true,
            why,
        ));
    }
    errors
}

fn joined(errors: &mut ErrorList, path: &Path, value: &str, complaints: &[String], before: &str) {
    if !complaints.is_empty() {
        let why = format!("{before}{}", complaints.join(","));
        errors.push(FieldError::invalid(path, value, &why));
    }
}

fn validate_group(errors: &mut ErrorList, path: &Path, group: &str) {
    let complaints = is_dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !complaints.is_empty() {
        joined(errors, path, group, &complaints, "");
    } else if !group.contains('.') {
        let why = "should be a domain with at least one dot";
        errors.push(FieldError::invalid(path, group, why));
    }
}

/// What every version has, and what is reported once if it is the same in all of them.
fn validate_versions(errors: &mut ErrorList, path: &Path, definition: &Definition) {
    let versions = &definition.spec.versions;
    let versions_path = path.child("versions");
    let tree = semantic::value_at(definition, "/spec");
    let schema_of = |i: usize| &tree["versions"][i]["schema"]["openAPIV3Schema"];
    let same_schema = (1..versions.len()).all(|i| schema_of(i) == schema_of(0));
    let same_columns = versions
        .windows(2)
        .all(|pair| pair[0].additional_printer_columns == pair[1].additional_printer_columns);
    let same_subresources = versions
        .windows(2)
        .all(|pair| pair[0].subresources == pair[1].subresources);
    let names: BTreeSet<&str> = versions.iter().map(|v| v.name.as_str()).collect();
    let unique = names.len() == versions.len();

    for (i, version) in versions.iter().enumerate() {
        let own = versions_path.index(i);
        if schema_of(i).is_null() {
            let path = own.child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(&path, ""));
        }
        let complaints = is_dns1035_label(&version.name);
        joined(errors, &own.child("name"), &version.name, &complaints, "");
        validate_deprecation(errors, &own.child("deprecationWarning"), version);
        let where_is = |same: bool, field: &str, hoisted: &str| match same {
            true if i > 0 => None,
            true => Some(path.child(hoisted)),
            false => Some(own.child(field)),
        };
        let with_status = version
            .subresources
            .as_ref()
            .is_some_and(|s| s.status.is_some());
        if let Some(path) = where_is(same_schema, "schema", "validation") {
            let path = path.child("openAPIV3Schema");
            schema::validate(errors, &path, schema_of(i), with_status);
        }
        if let Some(path) = where_is(same_subresources, "subresources", "subresources") {
            validate_subresources(errors, &path, version.subresources.as_ref());
        }
        let columns = "additionalPrinterColumns";
        if let Some(path) = where_is(same_columns, columns, columns) {
            let all = version
                .additional_printer_columns
                .as_deref()
                .unwrap_or_default();
            for (i, column) in all.iter().enumerate() {
                validate_column(errors, &path.index(i), column);
            }
        }
        validate_selectable_fields(
            errors,
            &own.child("selectableFields"),
            version,
            schema_of(i),
        );
    }
    let mut refuse = |why: &str| {
        let shown = tree["versions"].clone();
        errors.push(FieldError::invalid(&versions_path, shown, why));
    };
    if !unique {
        refuse("must contain unique version names");
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    if let Some(first) = versions.first() {
        let complaints = is_dns1035_label(&first.name);
        joined(errors, &path.child("version"), &first.name, &complaints, "");
    }
}

fn validate_deprecation(
    errors: &mut ErrorList,
    path: &Path,
    version: &CustomResourceDefinitionVersion,
) {
    let Some(warning) = &version.deprecation_warning else {
        return;
    };
    let mut refuse = |why: &str| errors.push(FieldError::invalid(path, warning.as_str(), why));
    if version.deprecated != Some(true) {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

fn validate_subresources(
    errors: &mut ErrorList,
    path: &Path,
    subresources: Option<&CustomResourceSubresources>,
) {
    let Some(scale) = subresources.and_then(|s| s.scale.as_ref()) else {
        return;
    };
    let mut below = |field: &str, value: &str, roots: &[&str], place: &str| {
        let path = path.child(&format!("scale.{field}"));
        match value.chars().next() {
            None => errors.push(FieldError::required(&path, "")),
            Some('.') if roots.iter().any(|root| value.starts_with(root)) => {}
            Some('.') => {
                let why = format!("should be a json path under {place}");
                errors.push(FieldError::invalid(&path, value, &why));
            }
            Some(_) => {
                let why = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(&path, value, why));
            }
        }
    };
    below(
        "specReplicasPath",
        &scale.spec_replicas_path,
        &[".spec."],
        ".spec",
    );
    below(
        "statusReplicasPath",
        &scale.status_replicas_path,
        &[".status."],
        ".status",
    );
    if let Some(selector) = scale
        .label_selector_path
        .as_deref()
        .filter(|s| !s.is_empty())
    {
        let roots = [".spec.", ".status."];
        below(
            "labelSelectorPath",
            selector,
            &roots,
            "either .spec or .status",
        );
    }
}

fn validate_column(errors: &mut ErrorList, path: &Path, column: &CustomResourceColumnDefinition) {
    checks::required(errors, &path.child("name"), &column.name);
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    let type_path = path.child("type");
    match column.type_.as_str() {
        "" => errors.push(FieldError::required(&type_path, &types)),
        known if COLUMN_TYPES.contains(&known) => {}
        other => errors.push(FieldError::invalid(&type_path, other, &types)),
    }
    let format = column.format.as_deref().unwrap_or_default();
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let why = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(&path.child("format"), format, &why));
    }
    let path = path.child("JSONPath");
    match column.json_path.as_str() {
        "" => errors.push(FieldError::required(&path, "")),
        value if value.starts_with('.') => {}
        value => errors.push(FieldError::invalid(
            &path,
            value,
            "must be a simple json path starting with .",
        )),
    }
}

/// Fields outside of metadata with values that can be compared.
fn validate_selectable_fields(
    errors: &mut ErrorList,
    path: &Path,
    version: &CustomResourceDefinitionVersion,
    schema: &Value,
) {
    let fields = version.selectable_fields.as_deref().unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let path = path.index(i).child("jsonPath");
        let value = field.json_path.as_str();
        let mut refuse = |why: &str| errors.push(FieldError::invalid(&path, value, why));
        let Some(steps) = value.strip_prefix('.') else {
            match value {
                "" => errors.push(FieldError::required(&path, "")),
                _ => refuse("is an invalid path: must begin with '.'"),
            }
            continue;
        };
        let found = steps
            .split('.')
            .try_fold(schema, |at, step| at["properties"].get(step));
        let kind = found.map(|found| found["type"].as_str().unwrap_or_default());
        match kind {
            None => refuse("is an invalid path: does not refer to a valid field"),
            Some(_) if steps.starts_with("metadata") => {
                refuse("must not point to fields in metadata");
            }
            Some("string" | "boolean" | "integer") => {}
            Some(_) => refuse(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.",
            ),
        }
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(&path, value));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(
            path,
            seen.len(),
            MAX_SELECTABLE_FIELDS,
        ));
    }
}

/// Names are labels; kinds may have mixed case.
pub(super) fn validate_names(
    errors: &mut ErrorList,
    path: &Path,
    names: &CustomResourceDefinitionNames,
) {
    const MIXED: &str = "may have mixed case, but should otherwise match: ";
    let mut label = |field: &Path, value: &str, mixed: bool| {
        if value.is_empty() {
            return;
        }
        let (complaints, before) = match mixed {
            true => (is_dns1035_label(&value.to_lowercase()), MIXED),
            false => (is_dns1035_label(value), ""),
        };
        joined(errors, field, value, &complaints, before);
    };
    let list_kind = names.list_kind.as_deref().unwrap_or_default();
    label(&path.child("plural"), &names.plural, false);
    label(
        &path.child("singular"),
        names.singular.as_deref().unwrap_or_default(),
        false,
    );
    label(&path.child("kind"), &names.kind, true);
    label(&path.child("listKind"), list_kind, true);
    for (i, name) in names.short_names.iter().flatten().enumerate() {
        label(&path.child("shortNames").index(i), name, false);
    }
    for (i, category) in names.categories.iter().flatten().enumerate() {
        label(&path.child("categories").index(i), category, false);
    }
    if !list_kind.is_empty() && names.kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), list_kind, why));
    }
}

fn validate_conversion(errors: &mut ErrorList, path: &Path, conversion: &CustomResourceConversion) {
    let strategy = Some(conversion.strategy.as_str());
    checks::required_one_of(
        errors,
        &path.child("strategy"),
        strategy,
        &["None", "Webhook"],
    );
    let client_path = path.child("webhookClientConfig");
    let versions_path = path.child("conversionReviewVersions");
    let webhook = conversion.webhook.as_ref();
    let client = webhook.and_then(|w| w.client_config.as_ref());
    let versions = webhook
        .map(|w| w.conversion_review_versions.as_slice())
        .unwrap_or_default();
    if conversion.strategy != "Webhook" {
        const ONLY: &str = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(&client_path, ONLY));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(&versions_path, ONLY));
        }
        return;
    }
    match client {
        None => {
            let why = "required when strategy is set to Webhook";
            errors.push(FieldError::required(&client_path, why));
        }
        Some(client) => {
            let service = client
                .service
                .as_ref()
                .map(|service| webhook_client::Service {
                    name: &service.name,
                    namespace: &service.namespace,
                    path: service.path.as_deref(),
                    port: service.port.unwrap_or_default(),
                });
            webhook_client::validate(errors, &client_path, client.url.as_deref(), service);
        }
    }
    if versions.is_empty() {
        errors.push(FieldError::required(&versions_path, ""));
        return;
    }
    webhook_client::validate_review_versions(errors, &versions_path, versions);
}

/// A version that objects may be stored in stays.
pub(super) fn validate_stored_versions(definition: &Definition) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status").child("storedVersions");
    let status = definition.status.as_ref();
    let stored = status
        .and_then(|s| s.stored_versions.as_deref())
        .unwrap_or_default();
    if stored.is_empty() {
        let why = "must have at least one stored version";
        return vec![FieldError::invalid(&path, stored.to_vec(), why)];
    }
    let versions = &definition.spec.versions;
    for version in versions
        .iter()
        .filter(|v| v.storage && !stored.contains(&v.name))
    {
        let why = format!("must have the storage version {}", version.name);
        errors.push(FieldError::invalid(&path, stored.to_vec(), &why));
    }
    for (i, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.name == *name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(i), name.as_str(), &why));
        }
    }
    errors
}

/// What keys in storage are made of stays; so do scope and kind, once something may be stored.
pub(super) fn validate_update(new: &Definition, old: &Definition, established: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let names = path.child("names");
    let (new, old) = (&new.spec, &old.spec);
    if established {
        let same = new.scope == old.scope;
        checks::immutable(&mut errors, &path.child("scope"), same, new.scope.as_str());
        let same = new.names.kind == old.names.kind;
        checks::immutable(
            &mut errors,
            &names.child("kind"),
            same,
            new.names.kind.as_str(),
        );
    }
    let same = new.group == old.group;
    checks::immutable(&mut errors, &path.child("group"), same, new.group.as_str());
    let same = new.names.plural == old.names.plural;
    checks::immutable(
        &mut errors,
        &names.child("plural"),
        same,
        new.names.plural.as_str(),
    );
    errors
}

/// Groups below `k8s.io` and `kubernetes.io` belong to the community, which must have agreed.
pub(super) fn validate_approval(new: &Definition, old: Option<&Definition>) -> ErrorList {
    let group = &new.spec.group;
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == domain || group.ends_with(&format!(".{domain}")));
    let approval = |definition: &Definition| {
        let annotations = definition.metadata.annotations.as_ref();
        annotations
            .and_then(|a| a.get(APPROVAL))
            .cloned()
            .unwrap_or_default()
    };
    let value = approval(new);
    let fine = value.starts_with("unapproved")
        || value
            .split_once("://")
            .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    if !protected || fine || old.is_some_and(|old| approval(old) == value) {
        return ErrorList::new();
    }
    let path = Path::new("metadata").child("annotations").key(APPROVAL);
    vec![match value.as_str() {
        "" => FieldError::required(
            &path,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ),
        value => FieldError::invalid(
            &path,
            value,
            "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        ),
    }]
}
