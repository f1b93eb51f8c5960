//! PriorityLevelConfigurations: how many requests of a level are served at once, and what becomes of the others.

use k8s_openapi::api::flowcontrol::v1::{
    ExemptPriorityLevelConfiguration, LimitResponse, LimitedPriorityLevelConfiguration,
    PriorityLevelConfiguration, PriorityLevelConfigurationStatus, QueuingConfiguration,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::{EXEMPT, GROUP, flow_schema::validate_condition_types, mandatory};
use crate::registry::{
    kinds::{cells, describe, fill, semantic},
    printing::Column,
    strategy::{Context, Keep, Strategy},
};

const MAX_QUEUES: i32 = 10_000_000;
/// Choosing a hand of queues takes so many bits of a hash at most.
const MAX_HASH_BITS: i32 = 60;
const NOT_NEGATIVE: &str = "must be a non-negative integer";
const PERCENT: &str = "must be between 0 and 100, inclusive";
const POSITIVE: &str = "must be positive";

pub(in crate::registry::kinds) struct PriorityLevelStrategy;

type Level = PriorityLevelConfiguration;

impl Strategy for PriorityLevelStrategy {
    type Object = Level;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(
            GROUP,
            "v1",
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
        )
    }

    fn default(&self, level: &mut Level) {
        let spec = level.spec.get_or_insert_default();
        if let Some(exempt) = &mut spec.exempt {
            fill::pointer(&mut exempt.nominal_concurrency_shares, 0);
            fill::pointer(&mut exempt.lendable_percent, 0);
        }
        if let Some(limited) = &mut spec.limited {
            fill::pointer(&mut limited.nominal_concurrency_shares, 30);
            fill::pointer(&mut limited.lendable_percent, 0);
            let response = limited.limit_response.as_mut();
            if let Some(queuing) = response.and_then(|r| r.queuing.as_mut()) {
                fill::number(&mut queuing.hand_size, 8);
                fill::number(&mut queuing.queues, 64);
                fill::number(&mut queuing.queue_length_limit, 50);
            }
        }
    }

    fn prepare_for_create(&self, _context: &Context, level: &mut Level) {
        level.status = Some(PriorityLevelConfigurationStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Level, old: &Level) {
        new.status.clone_from(&old.status);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<Level>> {
        Some(|new, old| {
            new.spec.clone_from(&old.spec);
            describe::keep_metadata_for_status(&mut new.metadata, &old.metadata);
        })
    }

    fn generation_changed(&self, new: &Level, old: &Level) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, level: &Level) -> ErrorList {
        let mut errors = validate(level);
        errors.extend(validate_status(level));
        errors
    }

    fn validate_status_update(&self, new: &Level, _old: &Level) -> ErrorList {
        validate_status(new)
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Type", "Whether there is a limit."),
            Column::string(
                "NominalConcurrencyShares",
                "The level's part of the server.",
            ),
            Column::string("Queues", "How many queues there are."),
            Column::string("HandSize", "How many queues a flow may use."),
            Column::string(
                "QueueLengthLimit",
                "How many requests wait in a queue at most.",
            ),
            Column::AGE,
        ]
    }

    fn row(&self, level: &Level, now: jiff::Timestamp) -> Vec<Value> {
        let spec = level.spec.clone().unwrap_or_default();
        let limited = spec.limited.as_ref();
        let shares = limited.map(|l| l.nominal_concurrency_shares.unwrap_or_default());
        let response = limited.and_then(|l| l.limit_response.as_ref());
        let queuing = response.and_then(|r| r.queuing.as_ref());
        let cell = |number: Option<i32>| match number {
            Some(number) => json!(number),
            None => json!(cells::NONE),
        };
        vec![
            json!(level.metadata.name),
            json!(spec.type_),
            cell(shares),
            cell(queuing.map(|q| q.queues.unwrap_or_default())),
            cell(queuing.map(|q| q.hand_size.unwrap_or_default())),
            cell(queuing.map(|q| q.queue_length_limit.unwrap_or_default())),
            json!(cells::since(
                level.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn validate(level: &Level) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let name = level.metadata.name.as_deref().unwrap_or_default();
    let spec = level.spec.clone().unwrap_or_default();
    let kind = spec.type_.as_str();
    if (name == EXEMPT) != (kind == "Exempt") {
        let why = "type must be 'Exempt' if and only if name is 'exempt'";
        errors.push(FieldError::invalid(&path.child("type"), kind, why));
    }
    let (exempt_path, limited_path) = (path.child("exempt"), path.child("limited"));
    match kind {
        "Exempt" => {
            if spec.limited.is_some() {
                let why = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(&limited_path, why));
            }
            if let Some(exempt) = &spec.exempt {
                validate_exempt(&mut errors, &exempt_path, exempt);
            }
        }
        "Limited" => {
            if spec.exempt.is_some() {
                let why = "must be nil if the type is Limited";
                errors.push(FieldError::forbidden(&exempt_path, why));
            }
            match &spec.limited {
                None => {
                    let why = "must not be empty when type is Limited";
                    errors.push(FieldError::required(&limited_path, why));
                }
                Some(limited) => validate_limited(&mut errors, &limited_path, limited),
            }
        }
        other => errors.push(FieldError::not_supported(
            &path.child("type"),
            other,
            &["Exempt", "Limited"],
        )),
    }
    if let Some(mut fixed) = mandatory::priority_level(name) {
        let mut shown = semantic::value_at(level, "/spec");
        let mut which = "";
        if name == EXEMPT {
            which = " except the 'spec.exempt' field";
            fixed["exempt"] = shown["exempt"].take();
            shown["exempt"] = fixed["exempt"].clone();
        }
        if shown != fixed {
            let why = format!("spec of '{name}'{which} must equal the fixed value");
            errors.push(FieldError::invalid(&path, shown, &why));
        }
    }
    errors
}

fn validate_exempt(errors: &mut ErrorList, path: &Path, exempt: &ExemptPriorityLevelConfiguration) {
    if let Some(shares) = exempt.nominal_concurrency_shares.filter(|s| *s < 0) {
        let path = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(&path, shares, NOT_NEGATIVE));
    }
    percent(
        errors,
        &path.child("lendablePercent"),
        exempt.lendable_percent,
    );
}

fn percent(errors: &mut ErrorList, path: &Path, value: Option<i32>) {
    if let Some(value) = value.filter(|value| !(0..=100).contains(value)) {
        errors.push(FieldError::invalid(path, value, PERCENT));
    }
}

fn validate_limited(
    errors: &mut ErrorList,
    path: &Path,
    limited: &LimitedPriorityLevelConfiguration,
) {
    if let Some(shares) = limited.nominal_concurrency_shares.filter(|s| *s < 0) {
        let path = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(&path, shares, NOT_NEGATIVE));
    }
    let none = LimitResponse::default();
    let response = limited.limit_response.as_ref().unwrap_or(&none);
    validate_response(errors, &path.child("limitResponse"), response);
    percent(
        errors,
        &path.child("lendablePercent"),
        limited.lendable_percent,
    );
    if let Some(limit) = limited.borrowing_limit_percent.filter(|limit| *limit < 0) {
        let path = path.child("borrowingLimitPercent");
        let why = format!("if specified, {NOT_NEGATIVE}");
        errors.push(FieldError::invalid(&path, limit, &why));
    }
}

fn validate_response(errors: &mut ErrorList, path: &Path, response: &LimitResponse) {
    let queuing_path = path.child("queuing");
    match (response.type_.as_str(), &response.queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => errors.push(FieldError::forbidden(
            &queuing_path,
            "must be nil if limited.limitResponse.type is not Limited",
        )),
        ("Queue", None) => errors.push(FieldError::required(
            &queuing_path,
            "must not be empty if limited.limitResponse.type is Limited",
        )),
        ("Queue", Some(queuing)) => validate_queuing(errors, &queuing_path, queuing),
        (other, _) => errors.push(FieldError::not_supported(
            &path.child("type"),
            other,
            &["Queue", "Reject"],
        )),
    }
}

fn validate_queuing(errors: &mut ErrorList, path: &Path, queuing: &QueuingConfiguration) {
    let length = queuing.queue_length_limit.unwrap_or_default();
    let queues = queuing.queues.unwrap_or_default();
    let hand = queuing.hand_size.unwrap_or_default();
    let mut refuse = |field: &str, value: i32, why: &str| {
        errors.push(FieldError::invalid(&path.child(field), value, why));
    };
    if length <= 0 {
        refuse("queueLengthLimit", length, POSITIVE);
    }
    if queues <= 0 {
        refuse("queues", queues, POSITIVE);
    } else if queues > MAX_QUEUES {
        refuse(
            "queues",
            queues,
            &format!("must not be greater than {MAX_QUEUES}"),
        );
    }
    if hand <= 0 {
        refuse("handSize", hand, POSITIVE);
    } else if hand > queues {
        let why = format!("should not be greater than queues ({queues})");
        refuse("handSize", hand, &why);
    } else if hash_bits(queues, hand) > MAX_HASH_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        refuse("handSize", hand, &why);
    }
}

/// How many bits of a hash it takes to choose `hand` out of `queues`, a little on the safe side.
fn hash_bits(queues: i32, hand: i32) -> i32 {
    (f64::from(queues).log2() * f64::from(hand)).ceil() as i32
}

fn validate_status(level: &Level) -> ErrorList {
    let conditions = level.status.as_ref().and_then(|s| s.conditions.as_deref());
    let kinds = conditions
        .unwrap_or_default()
        .iter()
        .map(|c| c.type_.as_deref());
    validate_condition_types(kinds)
}
