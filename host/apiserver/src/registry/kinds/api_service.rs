//! APIServices: who serves which group and version. Those of other servers are kept, and nothing is sent to them yet.
//! Source: <https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/>

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    kube_aggregator::pkg::apis::apiregistration::v1::{
        APIService, APIServiceCondition, APIServiceSpec, APIServiceStatus,
    },
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
    validation,
};
use serde_json::{Value, json};

use super::{cells, checks, describe, fill};
use crate::registry::{
    printing::Column,
    strategy::{Context, Keep, NameFormat, Strategy},
};

const GROUP: &str = "apiregistration.k8s.io";
const AVAILABLE: &str = "Available";
const HIGHEST_GROUP_PRIORITY: i32 = 20_000;
const HIGHEST_VERSION_PRIORITY: i32 = 1_000;

pub(super) struct ApiServiceStrategy;

impl Strategy for ApiServiceStrategy {
    type Object = APIService;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            categories: describe::texts(&["api-extensions"]),
            storage_prefix: "apiregistration.k8s.io/apiservices".into(),
            ..describe::cluster_scoped(GROUP, "v1", "apiservices", "APIService")
        }
    }

    fn default(&self, service: &mut APIService) {
        if let Some(reference) = service.spec.as_mut().and_then(|s| s.service.as_mut()) {
            fill::pointer(&mut reference.port, 443);
        }
    }

    /// What this server serves by itself is available at once.
    fn prepare_for_create(&self, context: &Context, service: &mut APIService) {
        let local = service
            .spec
            .as_ref()
            .is_none_or(|spec| spec.service.is_none());
        service.status = Some(APIServiceStatus {
            conditions: local.then(|| {
                vec![APIServiceCondition {
                    type_: AVAILABLE.to_owned(),
                    status: "True".to_owned(),
                    last_transition_time: Some(Time(context.now)),
                    reason: Some("Local".to_owned()),
                    message: Some("Local APIServices are always available".to_owned()),
                }]
            }),
        });
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut APIService, old: &APIService) {
        new.status.clone_from(&old.status);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<APIService>> {
        Some(|new, old| {
            new.spec.clone_from(&old.spec);
            describe::keep_metadata_for_status(&mut new.metadata, &old.metadata);
        })
    }

    fn validate(&self, service: &APIService) -> ErrorList {
        validate(service)
    }

    fn validate_status_update(&self, new: &APIService, _old: &APIService) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status").child("conditions");
        for (i, condition) in conditions(new).iter().enumerate() {
            let path = path.index(i).child("status");
            checks::one_of(
                &mut errors,
                &path,
                &condition.status,
                &["True", "False", "Unknown"],
            );
        }
        errors
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Service", "The service that serves it, or Local."),
            Column::string("Available", "Whether it answers."),
            Column::AGE,
        ]
    }

    fn row(&self, service: &APIService, now: jiff::Timestamp) -> Vec<Value> {
        let reference = service.spec.as_ref().and_then(|s| s.service.as_ref());
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let shown = reference.map(|r| format!("{}/{}", text(&r.namespace), text(&r.name)));
        let condition = conditions(service).iter().find(|c| c.type_ == AVAILABLE);
        let available = match condition {
            None => "Unknown".to_owned(),
            Some(condition) => match condition.reason.as_deref().unwrap_or_default() {
                reason if condition.status != "True" && !reason.is_empty() => {
                    format!("{} ({reason})", condition.status)
                }
                _ => condition.status.clone(),
            },
        };
        vec![
            json!(service.metadata.name),
            json!(shown.as_deref().unwrap_or("Local")),
            json!(available),
            json!(cells::since(
                service.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn conditions(service: &APIService) -> &[APIServiceCondition] {
    let status = service.status.as_ref();
    status
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default()
}

fn validate(service: &APIService) -> ErrorList {
    let mut errors = ErrorList::new();
    let empty = APIServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&empty);
    let group = spec.group.as_deref().unwrap_or_default();
    let version = spec.version.as_deref().unwrap_or_default();
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let required = format!("{version}.{group}");
    if name != required {
        let why = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        errors.push(FieldError::invalid(
            &Path::new("metadata").child("name"),
            name,
            &why,
        ));
    }
    let path = Path::new("spec");
    match group {
        "" if version != "v1" => errors.push(FieldError::required(
            &path.child("group"),
            "only v1 may have an empty group and it better be legacy kube",
        )),
        "" => {}
        group => checks::dns_subdomain(&mut errors, &path.child("group"), group),
    }
    let complaints = validation::is_dns1035_label(version);
    checks::invalid_each(&mut errors, &path.child("version"), version, complaints);
    let mut in_range = |field: &str, value: i32, highest: i32| {
        if !(1..=highest).contains(&value) {
            let why = format!("must be positive and less than {highest}");
            errors.push(FieldError::invalid(&path.child(field), value, &why));
        }
    };
    in_range(
        "groupPriorityMinimum",
        spec.group_priority_minimum,
        HIGHEST_GROUP_PRIORITY,
    );
    in_range(
        "versionPriority",
        spec.version_priority,
        HIGHEST_VERSION_PRIORITY,
    );
    let bundle = spec.ca_bundle.as_ref().map_or(0, |bundle| bundle.0.len());
    let insecure = spec.insecure_skip_tls_verify == Some(true);
    let insecure_path = path.child("insecureSkipTLSVerify");
    let Some(reference) = &spec.service else {
        if bundle > 0 {
            let why = "local APIServices may not have a caBundle";
            let shown = format!("{bundle} bytes");
            errors.push(FieldError::invalid(&path.child("caBundle"), shown, why));
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(&insecure_path, true, why));
        }
        return errors;
    };
    let path = path.child("service");
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    checks::required(
        &mut errors,
        &path.child("namespace"),
        &text(&reference.namespace),
    );
    checks::required(&mut errors, &path.child("name"), &text(&reference.name));
    let port = reference.port.unwrap_or_default();
    for why in validation::is_port_number(port.into()) {
        let why = format!("port is not valid: {why}");
        errors.push(FieldError::invalid(&path.child("port"), port, &why));
    }
    if insecure && bundle > 0 {
        let why = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(&insecure_path, true, why));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, created, json, row, status_errors, with};

    fn local() -> Value {
        json!({
            "metadata": {"name": "v1.apps"},
            "spec": {"group": "apps", "version": "v1", "groupPriorityMinimum": 17800, "versionPriority": 15},
        })
    }

    fn remote() -> Value {
        with(
            &local(),
            &[(
                "/spec/service",
                json!({"namespace": "kube-system", "name": "metrics"}),
            )],
        )
    }

    #[test]
    fn local_ones_are_available_at_once() {
        let made = json(&created(&ApiServiceStrategy, &local()));
        let condition = &made["status"]["conditions"][0];
        assert_eq!(
            (
                &condition["type"],
                &condition["status"],
                &condition["reason"]
            ),
            (&json!("Available"), &json!("True"), &json!("Local"))
        );
        let made = json(&created(&ApiServiceStrategy, &remote()));
        assert_eq!(made["status"], json!({}));
        assert_eq!(made["spec"]["service"]["port"], 443);
    }

    #[test]
    fn fields() {
        for (base, changes, expected) in [
            (local(), vec![], vec![]),
            (remote(), vec![], vec![]),
            (
                local(),
                vec![("/metadata/name", json!("apps"))],
                vec![
                    "metadata.name: Invalid value: \"apps\": must be `spec.version+\".\"+spec.group`: \"v1.apps\"",
                ],
            ),
            (
                local(),
                vec![
                    ("/metadata/name", json!("v2.")),
                    ("/spec/group", json!("")),
                    ("/spec/version", json!("v2")),
                ],
                vec![
                    "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
                ],
            ),
            (
                local(),
                vec![
                    ("/spec/groupPriorityMinimum", json!(0)),
                    ("/spec/versionPriority", json!(1001)),
                ],
                vec![
                    "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                    "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
                ],
            ),
            (
                local(),
                vec![
                    ("/spec/caBundle", json!("eA==")),
                    ("/spec/insecureSkipTLSVerify", json!(true)),
                ],
                vec![
                    "spec.caBundle: Invalid value: \"1 bytes\": local APIServices may not have a caBundle",
                    "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
                ],
            ),
            (
                remote(),
                vec![
                    ("/spec/service", json!({"port": 0})),
                    ("/spec/caBundle", json!("eA==")),
                    ("/spec/insecureSkipTLSVerify", json!(true)),
                ],
                vec![
                    "spec.service.namespace: Required value",
                    "spec.service.name: Required value",
                    "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                    "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
                ],
            ),
        ] {
            assert_eq!(
                create_errors(&ApiServiceStrategy, &with(&base, &changes)),
                expected
            );
        }
        let odd = with(
            &remote(),
            &[(
                "/status/conditions",
                json!([{"type": "A", "status": "Maybe"}]),
            )],
        );
        assert_eq!(
            status_errors(&ApiServiceStrategy, &remote(), &odd),
            [
                "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"True\", \"False\", \"Unknown\""
            ]
        );
    }

    #[test]
    fn rows() {
        let condition = |status: &str, reason: &str| json!([{"type": "Available", "status": status, "reason": reason}]);
        for (base, conditions, service, available) in [
            (local(), condition("True", "Local"), "Local", "True"),
            (remote(), json!([]), "kube-system/metrics", "Unknown"),
            (
                remote(),
                condition("False", "Gone"),
                "kube-system/metrics",
                "False (Gone)",
            ),
            (
                remote(),
                condition("False", ""),
                "kube-system/metrics",
                "False",
            ),
        ] {
            let service_object = with(&base, &[("/status/conditions", conditions)]);
            assert_eq!(
                row(&ApiServiceStrategy, &service_object),
                [
                    ("Name", json!("v1.apps")),
                    ("Service", json!(service)),
                    ("Available", json!(available)),
                    ("Age", json!("<unknown>")),
                ]
            );
        }
    }
}
