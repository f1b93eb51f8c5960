//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations,
        ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{info, rules, webhook_client};
use crate::registry::{
    kinds::{cells, checks, fill},
    printing::Column,
    strategy::Strategy,
};

const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
pub(super) const REINVOCATION: [&str; 2] = ["IfNeeded", "Never"];
const LONGEST_SECONDS: i32 = 30;

pub(in crate::registry::kinds) struct ValidatingWebhooksStrategy;
pub(in crate::registry::kinds) struct MutatingWebhooksStrategy;

impl Strategy for ValidatingWebhooksStrategy {
    type Object = ValidatingWebhookConfiguration;

    fn resource(&self) -> ResourceInfo {
        info(
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
        )
    }

    fn default(&self, configuration: &mut ValidatingWebhookConfiguration) {
        for hook in configuration.webhooks.iter_mut().flatten() {
            fill::pointer(&mut hook.failure_policy, "Fail".to_owned());
            fill::pointer(&mut hook.match_policy, "Equivalent".to_owned());
            fill::pointer(&mut hook.timeout_seconds, 10);
            hook.namespace_selector.get_or_insert_default();
            hook.object_selector.get_or_insert_default();
            rules::fill_rules(&mut hook.rules);
            fill_port(&mut hook.client_config);
        }
    }

    fn generation_changed(
        &self,
        new: &ValidatingWebhookConfiguration,
        old: &ValidatingWebhookConfiguration,
    ) -> Option<bool> {
        Some(new.webhooks != old.webhooks)
    }

    fn validate(&self, configuration: &ValidatingWebhookConfiguration) -> ErrorList {
        validate(configuration.webhooks.iter().flatten().map(Hook::from))
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn row(&self, object: &ValidatingWebhookConfiguration, now: jiff::Timestamp) -> Vec<Value> {
        row(
            &object.metadata,
            object.webhooks.as_ref().map_or(0, Vec::len),
            now,
        )
    }
}

impl Strategy for MutatingWebhooksStrategy {
    type Object = MutatingWebhookConfiguration;

    fn resource(&self) -> ResourceInfo {
        info(
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
        )
    }

    fn default(&self, configuration: &mut MutatingWebhookConfiguration) {
        for hook in configuration.webhooks.iter_mut().flatten() {
            fill::pointer(&mut hook.failure_policy, "Fail".to_owned());
            fill::pointer(&mut hook.match_policy, "Equivalent".to_owned());
            fill::pointer(&mut hook.reinvocation_policy, "Never".to_owned());
            fill::pointer(&mut hook.timeout_seconds, 10);
            hook.namespace_selector.get_or_insert_default();
            hook.object_selector.get_or_insert_default();
            rules::fill_rules(&mut hook.rules);
            fill_port(&mut hook.client_config);
        }
    }

    fn generation_changed(
        &self,
        new: &MutatingWebhookConfiguration,
        old: &MutatingWebhookConfiguration,
    ) -> Option<bool> {
        Some(new.webhooks != old.webhooks)
    }

    fn validate(&self, configuration: &MutatingWebhookConfiguration) -> ErrorList {
        validate(configuration.webhooks.iter().flatten().map(Hook::from))
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        columns()
    }

    fn row(&self, object: &MutatingWebhookConfiguration, now: jiff::Timestamp) -> Vec<Value> {
        row(
            &object.metadata,
            object.webhooks.as_ref().map_or(0, Vec::len),
            now,
        )
    }
}

/// What is validated alike in both kinds.
struct Hook<'a> {
    name: &'a str,
    client: &'a WebhookClientConfig,
    rules: Option<&'a [RuleWithOperations]>,
    failure_policy: Option<&'a str>,
    match_policy: Option<&'a str>,
    side_effects: &'a str,
    timeout_seconds: Option<i32>,
    namespaces: Option<&'a LabelSelector>,
    objects: Option<&'a LabelSelector>,
    conditions: Option<&'a [MatchCondition]>,
    review_versions: &'a [String],
    /// Only of mutating ones.
    reinvocation_policy: Option<&'a str>,
}

macro_rules! hook_of {
    ($kind:ty, $hook:ident => $reinvocation:expr) => {
        impl<'a> From<&'a $kind> for Hook<'a> {
            fn from($hook: &'a $kind) -> Self {
                Self {
                    name: &$hook.name,
                    client: &$hook.client_config,
                    rules: $hook.rules.as_deref(),
                    failure_policy: $hook.failure_policy.as_deref(),
                    match_policy: $hook.match_policy.as_deref(),
                    side_effects: &$hook.side_effects,
                    timeout_seconds: $hook.timeout_seconds,
                    namespaces: $hook.namespace_selector.as_ref(),
                    objects: $hook.object_selector.as_ref(),
                    conditions: $hook.match_conditions.as_deref(),
                    review_versions: &$hook.admission_review_versions,
                    reinvocation_policy: $reinvocation,
                }
            }
        }
    };
}

hook_of!(ValidatingWebhook, hook => None);
hook_of!(MutatingWebhook, hook => hook.reinvocation_policy.as_deref());

fn fill_port(client: &mut WebhookClientConfig) {
    if let Some(service) = &mut client.service {
        fill::pointer(&mut service.port, 443);
    }
}

fn validate<'a>(hooks: impl Iterator<Item = Hook<'a>>) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut names = BTreeSet::new();
    for (i, hook) in hooks.enumerate() {
        let path = Path::new("webhooks").index(i);
        validate_hook(&mut errors, &path, &hook);
        let versions_path = path.child("admissionReviewVersions");
        validate_review_versions(&mut errors, &versions_path, hook.review_versions);
        if !hook.name.is_empty() && !names.insert(hook.name) {
            errors.push(FieldError::duplicate(&path.child("name"), hook.name));
        }
    }
    errors
}

fn validate_hook(errors: &mut ErrorList, path: &Path, hook: &Hook<'_>) {
    checks::fully_qualified_name(errors, &path.child("name"), hook.name);
    for (i, rule) in hook.rules.unwrap_or_default().iter().enumerate() {
        rules::validate_rule(errors, &path.child("rules").index(i), rule);
    }
    rules::validate_failure_policy(errors, path, hook.failure_policy);
    rules::validate_match_policy(errors, path, hook.match_policy);
    let side_effects_path = path.child("sideEffects");
    match hook.side_effects {
        "" => {
            let why = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
            errors.push(FieldError::required(&side_effects_path, &why));
        }
        effects => checks::one_of(errors, &side_effects_path, effects, &SIDE_EFFECTS),
    }
    let seconds = hook.timeout_seconds;
    if let Some(seconds) = seconds.filter(|s| !(1..=LONGEST_SECONDS).contains(s)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(
            &path.child("timeoutSeconds"),
            seconds,
            why,
        ));
    }
    checks::label_selector(errors, &path.child("namespaceSelector"), hook.namespaces);
    checks::label_selector(errors, &path.child("objectSelector"), hook.objects);
    if let Some(policy) = hook.reinvocation_policy {
        checks::one_of(
            errors,
            &path.child("reinvocationPolicy"),
            policy,
            &REINVOCATION,
        );
    }
    let service = hook
        .client
        .service
        .as_ref()
        .map(|service| webhook_client::Service {
            name: &service.name,
            namespace: &service.namespace,
            path: service.path.as_deref(),
            port: service.port.unwrap_or_default(),
        });
    let client_path = path.child("clientConfig");
    webhook_client::validate(errors, &client_path, hook.client.url.as_deref(), service);
    rules::validate_conditions(errors, &path.child("matchConditions"), hook.conditions);
}

fn validate_review_versions(errors: &mut ErrorList, path: &Path, versions: &[String]) {
    match versions.is_empty() {
        true => {
            let ours = webhook_client::REVIEW_VERSIONS.join(", ");
            let why = format!("must specify one of {ours}");
            errors.push(FieldError::required(path, &why));
        }
        false => webhook_client::validate_review_versions(errors, path, versions),
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::NAME,
        Column::integer("Webhooks", "How many webhooks the configuration has."),
        Column::AGE,
    ]
}

fn row(metadata: &ObjectMeta, count: usize, now: jiff::Timestamp) -> Vec<Value> {
    vec![
        json!(metadata.name),
        json!(count),
        json!(cells::since(metadata.creation_timestamp.as_ref(), now)),
    ]
}
