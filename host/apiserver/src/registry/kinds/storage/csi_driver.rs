//! CSIDrivers: what a storage driver can do. Source: <https://kubernetes-csi.github.io/docs/csi-driver-object.html>

use std::collections::BTreeSet;

use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec, TokenRequest};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{cells, checks, describe, fill},
    printing::Column,
    strategy::{Context, Strategy},
};

const FS_GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const SHORTEST_TOKEN_SECONDS: i64 = 600;
const LONGEST_TOKEN_SECONDS: i64 = 1 << 32;
const SHORTEST_PERIOD_SECONDS: i64 = 10;

pub(in crate::registry::kinds) struct CsiDriverStrategy;

impl Strategy for CsiDriverStrategy {
    type Object = CSIDriver;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "csidrivers", "CSIDriver")
    }

    fn default(&self, driver: &mut CSIDriver) {
        let spec = &mut driver.spec;
        fill::pointer(&mut spec.attach_required, true);
        fill::pointer(&mut spec.pod_info_on_mount, false);
        fill::pointer(&mut spec.storage_capacity, false);
        fill::pointer(&mut spec.requires_republish, false);
        fill::pointer(&mut spec.se_linux_mount, false);
        fill::pointer(&mut spec.fs_group_policy, FS_GROUP_POLICIES[2].to_owned());
        if spec
            .volume_lifecycle_modes
            .as_ref()
            .is_none_or(Vec::is_empty)
        {
            spec.volume_lifecycle_modes = Some(vec![MODES[0].to_owned()]);
        }
    }

    /// What v1.36 has only as an alpha feature is dropped.
    fn prepare_for_create(&self, _context: &Context, driver: &mut CSIDriver) {
        driver.spec.prevent_pod_scheduling_if_missing = None;
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut CSIDriver, old: &CSIDriver) {
        if old.spec.prevent_pod_scheduling_if_missing.is_none() {
            new.spec.prevent_pod_scheduling_if_missing = None;
        }
    }

    fn generation_changed(&self, new: &CSIDriver, old: &CSIDriver) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, driver: &CSIDriver) -> ErrorList {
        validate(&driver.spec)
    }

    fn validate_update(&self, new: &CSIDriver, old: &CSIDriver) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let (new, old) = (&new.spec, &old.spec);
        checks::immutable(
            &mut errors,
            &path.child("attachedRequired"),
            new.attach_required == old.attach_required,
            json!(new.attach_required),
        );
        checks::immutable(
            &mut errors,
            &path.child("volumeLifecycleModes"),
            new.volume_lifecycle_modes == old.volume_lifecycle_modes,
            json!(new.volume_lifecycle_modes),
        );
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::boolean("AttachRequired", "Whether volumes are attached to nodes."),
            Column::boolean("PodInfoOnMount", "Whether mounts are told of their pods."),
            Column::boolean(
                "StorageCapacity",
                "Whether the scheduler asks for free capacity.",
            ),
            Column::string("TokenRequests", "Audiences of the tokens that mounts get."),
            Column::boolean(
                "RequiresRepublish",
                "Whether mounts are called again and again.",
            ),
            Column::string("Modes", "Kinds of volumes that the driver has."),
            Column::AGE,
        ]
    }

    fn row(&self, driver: &CSIDriver, now: jiff::Timestamp) -> Vec<Value> {
        let spec = &driver.spec;
        let modes = spec.volume_lifecycle_modes.as_deref().unwrap_or_default();
        let tokens = spec.token_requests.as_deref().map(|tokens| {
            let audiences: Vec<&str> = tokens.iter().map(|t| t.audience.as_str()).collect();
            audiences.join(",")
        });
        vec![
            json!(driver.metadata.name),
            json!(spec.attach_required.unwrap_or(true)),
            json!(spec.pod_info_on_mount.unwrap_or_default()),
            json!(spec.storage_capacity.unwrap_or_default()),
            json!(tokens.as_deref().unwrap_or("<unset>")),
            json!(spec.requires_republish.unwrap_or_default()),
            json!(cells::or_none(&modes.join(","))),
            json!(cells::since(
                driver.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn validate(spec: &CSIDriverSpec) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    if let Some(policy) = &spec.fs_group_policy {
        checks::one_of(
            &mut errors,
            &path.child("fsGroupPolicy"),
            policy,
            &FS_GROUP_POLICIES,
        );
    }
    let tokens = spec.token_requests.as_deref().unwrap_or_default();
    validate_tokens(&mut errors, &path.child("tokenRequests"), tokens);
    for mode in spec.volume_lifecycle_modes.iter().flatten() {
        checks::one_of(
            &mut errors,
            &path.child("volumeLifecycleModes"),
            mode,
            &MODES,
        );
    }
    let period = spec.node_allocatable_update_period_seconds;
    if let Some(seconds) = period.filter(|seconds| *seconds < SHORTEST_PERIOD_SECONDS) {
        errors.push(FieldError::invalid(
            &path.child("nodeAllocatableUpdatePeriodSeconds"),
            seconds,
            "must be greater than or equal to 10 seconds",
        ));
    }
    if spec.service_account_token_in_secrets.is_some() && tokens.is_empty() {
        errors.push(FieldError::invalid(
            &path.child("serviceAccountTokenInSecrets"),
            json!(spec.service_account_token_in_secrets),
            "must only be set when tokenRequests is specified",
        ));
    }
    errors
}

fn validate_tokens(errors: &mut ErrorList, path: &Path, tokens: &[TokenRequest]) {
    let mut audiences = BTreeSet::new();
    for (i, token) in tokens.iter().enumerate() {
        let path = path.index(i);
        if !audiences.insert(token.audience.as_str()) {
            errors.push(FieldError::duplicate(
                &path.child("audience"),
                token.audience.as_str(),
            ));
            continue;
        }
        let why = match token.expiration_seconds {
            Some(seconds) if seconds < SHORTEST_TOKEN_SECONDS => {
                "may not specify a duration less than 10 minutes"
            }
            Some(seconds) if seconds > LONGEST_TOKEN_SECONDS => {
                "may not specify a duration larger than 2^32 seconds"
            }
            _ => continue,
        };
        let seconds = json!(token.expiration_seconds);
        errors.push(FieldError::invalid(
            &path.child("expirationSeconds"),
            seconds,
            why,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, created, json, row, update_errors, with};

    fn base() -> Value {
        json!({"metadata": {"name": "d.example.com"}, "spec": {}})
    }

    #[test]
    fn defaults() {
        let sent = with(
            &base(),
            &[("/spec/preventPodSchedulingIfMissing", json!(true))],
        );
        assert_eq!(
            json(&created(&CsiDriverStrategy, &sent))["spec"],
            json!({
                "attachRequired": true,
                "podInfoOnMount": false,
                "storageCapacity": false,
                "requiresRepublish": false,
                "seLinuxMount": false,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "volumeLifecycleModes": ["Persistent"],
            })
        );
    }

    #[test]
    fn fields() {
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![("/spec/fsGroupPolicy", json!("Some"))],
                vec![
                    "spec.fsGroupPolicy: Unsupported value: \"Some\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
                ],
            ),
            (
                vec![("/spec/volumeLifecycleModes", json!(["Forever"]))],
                vec![
                    "spec.volumeLifecycleModes: Unsupported value: \"Forever\": supported values: \"Persistent\", \"Ephemeral\"",
                ],
            ),
            (
                vec![(
                    "/spec/tokenRequests",
                    json!([
                        {"audience": "a", "expirationSeconds": 599},
                        {"audience": "a"},
                        {"audience": "b", "expirationSeconds": 4294967297i64},
                    ]),
                )],
                vec![
                    "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                    "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
                    "spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
                ],
            ),
            (
                vec![("/spec/nodeAllocatableUpdatePeriodSeconds", json!(9))],
                vec![
                    "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
                ],
            ),
        ] {
            assert_eq!(
                create_errors(&CsiDriverStrategy, &with(&base(), &changes)),
                expected
            );
        }
    }

    #[test]
    fn what_a_driver_is_stays() {
        for (changes, expected) in [
            (vec![("/spec/podInfoOnMount", json!(true))], vec![]),
            (
                vec![("/spec/attachRequired", json!(false))],
                vec!["spec.attachedRequired: Invalid value: false: field is immutable"],
            ),
            (
                vec![("/spec/volumeLifecycleModes", json!(["Ephemeral"]))],
                vec![
                    "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
                ],
            ),
        ] {
            let new = with(&base(), &changes);
            assert_eq!(update_errors(&CsiDriverStrategy, &base(), &new), expected);
        }
    }

    #[test]
    fn rows() {
        let driver = with(
            &base(),
            &[(
                "/spec/tokenRequests",
                json!([{"audience": "a"}, {"audience": "b"}]),
            )],
        );
        for (driver, tokens) in [(&base(), "<unset>"), (&driver, "a,b")] {
            let cells: Vec<Value> = row(&CsiDriverStrategy, driver)
                .into_iter()
                .map(|(_, v)| v)
                .collect();
            assert_eq!(
                cells,
                [
                    json!("d.example.com"),
                    json!(true),
                    json!(false),
                    json!(false),
                    json!(tokens),
                    json!(false),
                    json!("<none>"),
                    json!("<unknown>"),
                ]
            );
        }
    }
}
