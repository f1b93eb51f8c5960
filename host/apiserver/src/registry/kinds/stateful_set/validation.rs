//! The rules of StatefulSets.

use std::collections::HashSet;

use k8s_openapi::api::{
    apps::v1::{
        RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetStatus,
        StatefulSetUpdateStrategy,
    },
    core::v1::{PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume},
};
use pilothouse_api::field::{ErrorList, FieldError, Path};
use serde_json::{Value, json};

use super::{DELETE, ON_DELETE, ORDERED_READY, PARALLEL, RETAIN, ROLLING_UPDATE};
use crate::registry::kinds::{
    checks, int_or_percent, persistent_volume_claim::spec as claim, pod::template, replicas,
    semantic,
};

const CHANGEABLE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub(super) fn validate(errors: &mut ErrorList, path: &Path, spec: &StatefulSetSpec) {
    let policy_path = path.child("podManagementPolicy");
    match spec.pod_management_policy.as_deref().unwrap_or_default() {
        "" => errors.push(FieldError::required(&policy_path, "")),
        ORDERED_READY | PARALLEL => {}
        other => errors.push(FieldError::invalid(
            &policy_path,
            other,
            &format!("must be '{ORDERED_READY}' or '{PARALLEL}'"),
        )),
    }
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    validate_strategy(errors, &path.child("updateStrategy"), &strategy);
    if let Some(policy) = &spec.persistent_volume_claim_retention_policy {
        let path = path.child("persistentVolumeClaimRetentionPolicy");
        for (field, value) in [
            ("whenDeleted", &policy.when_deleted),
            ("whenScaled", &policy.when_scaled),
        ] {
            let value = value.as_deref().unwrap_or_default();
            checks::one_of(errors, &path.child(field), value, &[RETAIN, DELETE]);
        }
    }
    if let Some(ordinals) = &spec.ordinals {
        let start = ordinals.start.map(i64::from);
        checks::not_negative(errors, &path.child("ordinals.start"), start);
    }
    let service = spec.service_name.as_deref().unwrap_or_default();
    if !service.is_empty() {
        checks::dns_label(errors, &path.child("serviceName"), service);
    }
    replicas::validate_common(
        errors,
        path,
        spec.replicas,
        spec.min_ready_seconds,
        &spec.selector,
        "statefulset",
    );
    template::validate_of_replicas(
        errors,
        &path.child("template"),
        &with_claims(spec),
        &spec.selector,
        "StatefulSet",
    );
    validate_claims(errors, &path.child("volumeClaimTemplates"), spec);
}

/// The template with the volumes that its pods get from claims, so that containers may mount them.
fn with_claims(spec: &StatefulSetSpec) -> PodTemplateSpec {
    let mut template = spec.template.clone();
    let claims = spec.volume_claim_templates.iter().flatten();
    let names = claims.filter_map(|claim| claim.metadata.name.clone());
    let volumes = template
        .spec
        .get_or_insert_default()
        .volumes
        .get_or_insert_default();
    for name in names.filter(|name| !name.is_empty()) {
        // a claim takes the place of a volume of the same name
        volumes.retain(|volume| volume.name != name);
        volumes.push(Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: name.clone(),
                read_only: None,
            }),
            name,
            ..Volume::default()
        });
    }
    template
}

fn validate_claims(errors: &mut ErrorList, path: &Path, spec: &StatefulSetSpec) {
    let mut names = HashSet::new();
    for (i, template) in spec.volume_claim_templates.iter().flatten().enumerate() {
        let path = path.index(i);
        let name = template.metadata.name.as_deref().unwrap_or_default();
        let name_path = path.child("metadata").child("name");
        checks::required_label(errors, &name_path, name);
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(&name_path, name));
        }
        let wanted = template.spec.clone().unwrap_or_default();
        claim::validate(errors, &path.child("spec"), &wanted);
    }
}

fn validate_strategy(errors: &mut ErrorList, path: &Path, strategy: &StatefulSetUpdateStrategy) {
    let rolling_path = path.child("rollingUpdate");
    let rolling = strategy.rolling_update.as_ref();
    match strategy.type_.as_deref().unwrap_or_default() {
        "" => errors.push(FieldError::required(path, "")),
        ON_DELETE => {
            if let Some(rolling) = rolling {
                errors.push(FieldError::invalid(
                    &rolling_path,
                    shown(rolling),
                    &format!("only allowed for updateStrategy '{ROLLING_UPDATE}'"),
                ));
            }
        }
        ROLLING_UPDATE => {
            if let Some(rolling) = rolling {
                validate_rolling_update(errors, &rolling_path, rolling);
            }
        }
        other => errors.push(FieldError::invalid(
            path,
            json!({"Type": other, "RollingUpdate": rolling.map(shown)}),
            &format!("must be '{ROLLING_UPDATE}' or '{ON_DELETE}'"),
        )),
    }
}

fn validate_rolling_update(
    errors: &mut ErrorList,
    path: &Path,
    rolling: &RollingUpdateStatefulSetStrategy,
) {
    let partition = rolling.partition.map(i64::from);
    checks::not_negative(errors, &path.child("partition"), partition);
    let Some(unavailable) = &rolling.max_unavailable else {
        return;
    };
    let path = path.child("maxUnavailable");
    int_or_percent::validate(errors, &path, unavailable);
    if int_or_percent::is_zero(unavailable) {
        let value = int_or_percent::shown(unavailable);
        errors.push(FieldError::invalid(&path, value, "cannot be 0"));
    }
    int_or_percent::validate_at_most_all(errors, &path, unavailable);
}

fn shown(rolling: &RollingUpdateStatefulSetStrategy) -> Value {
    json!({
        "Partition": rolling.partition.unwrap_or_default(),
        "MaxUnavailable": rolling.max_unavailable.as_ref().map(int_or_percent::shown),
    })
}

pub(super) fn validate_update(new: &StatefulSet, old: &StatefulSet) -> ErrorList {
    let (Some(new_spec), Some(old_spec)) = (&new.spec, &old.spec) else {
        return ErrorList::new();
    };
    let kept = StatefulSetSpec {
        pod_management_policy: new_spec.pod_management_policy.clone(),
        selector: new_spec.selector.clone(),
        service_name: new_spec.service_name.clone(),
        volume_claim_templates: new_spec.volume_claim_templates.clone(),
        ..old_spec.clone()
    };
    let with_spec = |spec: &StatefulSetSpec| StatefulSet {
        spec: Some(spec.clone()),
        ..StatefulSet::default()
    };
    match semantic::differences(&with_spec(&kept), &with_spec(old_spec), "spec").is_empty() {
        true => ErrorList::new(),
        false => vec![FieldError::forbidden(&Path::new("spec"), CHANGEABLE)],
    }
}

pub(super) fn validate_status(new: &StatefulSet, old: &StatefulSet) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let empty = StatefulSetStatus::default();
    let status = new.status.as_ref().unwrap_or(&empty);
    let ready = status.ready_replicas.unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let counts = [
        ("readyReplicas", ready),
        (
            "currentReplicas",
            status.current_replicas.unwrap_or_default(),
        ),
        (
            "updatedReplicas",
            status.updated_replicas.unwrap_or_default(),
        ),
        ("availableReplicas", available),
    ];
    checks::not_negative(
        &mut errors,
        &path.child("replicas"),
        Some(status.replicas.into()),
    );
    for (field, count) in counts {
        checks::not_negative(&mut errors, &path.child(field), Some(count.into()));
    }
    let observed = status.observed_generation;
    checks::not_negative(&mut errors, &path.child("observedGeneration"), observed);
    for (field, count) in counts {
        if count > status.replicas {
            let path = path.child(field);
            let why = "cannot be greater than status.replicas";
            errors.push(FieldError::invalid(&path, count, why));
        }
    }
    if available > ready {
        errors.push(FieldError::invalid(
            &path.child("availableReplicas"),
            available,
            "cannot be greater than status.readyReplicas",
        ));
    }
    let before = old.status.as_ref().and_then(|s| s.collision_count);
    replicas::validate_collisions(&mut errors, &path, status.collision_count, before);
    errors
}
