//! IngressClasses. Source: <https://kubernetes.io/docs/concepts/services-networking/ingress/#ingress-class>

use k8s_openapi::api::networking::v1::{IngressClass, IngressClassParametersReference};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{cells, checks, describe, fill},
    printing::Column,
    strategy::Strategy,
};

const CONTROLLER_MAX_BYTES: usize = 250;
const CLUSTER: &str = "Cluster";
const NAMESPACE: &str = "Namespace";

pub(in crate::registry::kinds) struct IngressClassStrategy;

impl Strategy for IngressClassStrategy {
    type Object = IngressClass;

    fn resource(&self) -> ResourceInfo {
        describe::cluster_scoped(GROUP, "v1", "ingressclasses", "IngressClass")
    }

    fn default(&self, class: &mut IngressClass) {
        if let Some(parameters) = class.spec.as_mut().and_then(|s| s.parameters.as_mut()) {
            fill::pointer(&mut parameters.scope, CLUSTER.to_owned());
        }
    }

    fn generation_changed(&self, new: &IngressClass, old: &IngressClass) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, class: &IngressClass) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let controller = controller(class);
        if controller.len() > CONTROLLER_MAX_BYTES {
            errors.push(FieldError::too_long(
                &path.child("controller"),
                CONTROLLER_MAX_BYTES,
            ));
        }
        checks::domain_prefixed_path(&mut errors, &path.child("controller"), controller);
        if let Some(parameters) = class.spec.as_ref().and_then(|s| s.parameters.as_ref()) {
            validate_parameters(&mut errors, &path.child("parameters"), parameters);
        }
        errors
    }

    fn validate_update(&self, new: &IngressClass, old: &IngressClass) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec").child("controller");
        let (new, old) = (controller(new), controller(old));
        checks::immutable(&mut errors, &path, new == old, new);
        errors
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Controller", "Who serves ingresses of this class."),
            Column::string("Parameters", "What further configures the controller."),
            Column::AGE,
        ]
    }

    fn row(&self, class: &IngressClass, now: jiff::Timestamp) -> Vec<Value> {
        let parameters = class.spec.as_ref().and_then(|s| s.parameters.as_ref());
        let shown = parameters.map(|p| match &p.api_group {
            Some(group) => format!("{}.{group}/{}", p.kind, p.name),
            None => format!("{}/{}", p.kind, p.name),
        });
        vec![
            json!(class.metadata.name),
            json!(controller(class)),
            json!(shown.as_deref().unwrap_or(cells::NONE)),
            json!(cells::since(
                class.metadata.creation_timestamp.as_ref(),
                now
            )),
        ]
    }
}

fn controller(class: &IngressClass) -> &str {
    let spec = class.spec.as_ref();
    spec.and_then(|s| s.controller.as_deref())
        .unwrap_or_default()
}

fn validate_parameters(
    errors: &mut ErrorList,
    path: &Path,
    parameters: &IngressClassParametersReference,
) {
    if let Some(group) = &parameters.api_group {
        checks::dns_subdomain(errors, &path.child("apiGroup"), group);
    }
    checks::required_path_segment(errors, &path.child("kind"), &parameters.kind);
    checks::required_path_segment(errors, &path.child("name"), &parameters.name);
    let namespace_path = path.child("namespace");
    match (parameters.scope.as_deref(), parameters.namespace.as_deref()) {
        (None, _) => errors.push(FieldError::required(&path.child("scope"), "")),
        (Some(NAMESPACE), None) => errors.push(FieldError::required(
            &namespace_path,
            "`parameters.scope` is set to 'Namespace'",
        )),
        (Some(NAMESPACE), Some(namespace)) => {
            checks::dns_label(errors, &namespace_path, namespace);
        }
        (Some(CLUSTER), None) => {}
        (Some(CLUSTER), Some(_)) => errors.push(FieldError::forbidden(
            &namespace_path,
            "`parameters.scope` is set to 'Cluster'",
        )),
        (Some(other), _) => {
            let path = path.child("scope");
            errors.push(FieldError::not_supported(
                &path,
                other,
                &[CLUSTER, NAMESPACE],
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::testing::{create_errors, created, json, row, update_errors, with};

    fn base() -> Value {
        json!({
            "metadata": {"name": "nginx"},
            "spec": {
                "controller": "example.com/nginx",
                "parameters": {"apiGroup": "k8s.example.com", "kind": "Settings", "name": "x"},
            },
        })
    }

    #[test]
    fn parameters_are_of_the_cluster_by_default() {
        let made = json(&created(&IngressClassStrategy, &base()));
        assert_eq!(made["spec"]["parameters"]["scope"], "Cluster");
    }

    #[test]
    fn fields() {
        let long = format!("example.com/{}", "x".repeat(250));
        for (changes, expected) in [
            (vec![], vec![]),
            (
                vec![("/spec/controller", json!(null))],
                vec!["spec.controller: Required value"],
            ),
            (
                vec![("/spec/controller", json!("nginx"))],
                vec![
                    "spec.controller: Invalid value: \"nginx\": must be a domain-prefixed path (such as \"acme.io/foo\")",
                ],
            ),
            (
                vec![("/spec/controller", json!(long))],
                vec!["spec.controller: Too long: may not be more than 250 bytes"],
            ),
            (
                vec![("/spec/parameters", json!({"kind": "", "name": "a/b"}))],
                vec![
                    "spec.parameters.kind: Required value",
                    "spec.parameters.name: Invalid value: \"a/b\": may not contain '/'",
                ],
            ),
            (
                vec![("/spec/parameters/scope", json!("Namespace"))],
                vec![
                    "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
                ],
            ),
            (
                vec![("/spec/parameters/namespace", json!("a"))],
                vec![
                    "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
                ],
            ),
            (
                vec![("/spec/parameters/scope", json!("Node"))],
                vec![
                    "spec.parameters.scope: Unsupported value: \"Node\": supported values: \"Cluster\", \"Namespace\"",
                ],
            ),
        ] {
            assert_eq!(
                create_errors(&IngressClassStrategy, &with(&base(), &changes)),
                expected
            );
        }
        let other = with(&base(), &[("/spec/controller", json!("example.com/other"))]);
        assert_eq!(
            update_errors(&IngressClassStrategy, &base(), &other),
            ["spec.controller: Invalid value: \"example.com/other\": field is immutable"]
        );
    }

    #[test]
    fn rows() {
        let cells: Vec<Value> = row(&IngressClassStrategy, &base())
            .into_iter()
            .map(|(_, v)| v)
            .collect();
        assert_eq!(
            cells,
            [
                "nginx",
                "example.com/nginx",
                "Settings.k8s.example.com/x",
                "<unknown>"
            ]
        );
    }
}
