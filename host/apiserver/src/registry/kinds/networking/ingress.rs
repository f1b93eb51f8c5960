//! Ingresses. Source: <https://kubernetes.io/docs/concepts/services-networking/ingress/>

#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::api::networking::v1::{Ingress, IngressStatus};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, FieldError, Path},
};
use serde_json::{Value, json};

use super::GROUP;
use crate::registry::{
    kinds::{cells, describe},
    printing::Column,
    strategy::{Context, Keep, Strategy},
};

/// Says what `spec.ingressClassName` does now.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// How many hosts a row shows.
const SHOWN_HOSTS: usize = 3;

pub(in crate::registry::kinds) struct IngressStrategy;

impl Strategy for IngressStrategy {
    type Object = Ingress;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["ing"]),
            storage_prefix: "ingress".into(),
            ..describe::namespaced(GROUP, "v1", "ingresses", "Ingress")
        }
    }

    fn prepare_for_create(&self, _context: &Context, ingress: &mut Ingress) {
        ingress.status = Some(IngressStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut Ingress, old: &Ingress) {
        new.status.clone_from(&old.status);
    }

    fn prepare_for_status_update(&self) -> Option<Keep<Ingress>> {
        Some(|new, old| new.spec.clone_from(&old.spec))
    }

    fn generation_changed(&self, new: &Ingress, old: &Ingress) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, ingress: &Ingress) -> ErrorList {
        validation::validate(ingress)
    }

    fn validate_create(&self, ingress: &Ingress) -> ErrorList {
        let class = ingress
            .spec
            .as_ref()
            .and_then(|s| s.ingress_class_name.as_ref());
        match (class_annotation(ingress), class) {
            (Some(annotation), Some(class)) if annotation != class => {
                let path = Path::new("annotations").child(CLASS_ANNOTATION);
                let why = "must match `ingressClassName` when both are specified";
                vec![FieldError::invalid(&path, annotation, why)]
            }
            _ => ErrorList::new(),
        }
    }

    fn validate_status_update(&self, new: &Ingress, old: &Ingress) -> ErrorList {
        validation::validate_status(new, old)
    }

    fn warnings(&self, ingress: &Ingress) -> Vec<String> {
        let class = ingress
            .spec
            .as_ref()
            .and_then(|s| s.ingress_class_name.as_ref());
        match (class_annotation(ingress), class) {
            (Some(_), None) => vec![format!(
                "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
            )],
            _ => Vec::new(),
        }
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Class", "The class whose controller serves the ingress."),
            Column::string("Hosts", "Hosts that the rules name."),
            Column::string("Address", "Where the ingress is reached."),
            Column::string("Ports", "443 as well if TLS is terminated."),
            Column::AGE,
        ]
    }

    fn row(&self, ingress: &Ingress, now: jiff::Timestamp) -> Vec<Value> {
        let spec = ingress.spec.clone().unwrap_or_default();
        let tls = spec.tls.is_some_and(|tls| !tls.is_empty());
        let hosts = spec
            .rules
            .into_iter()
            .flatten()
            .filter_map(|rule| rule.host);
        let hosts = hosts.filter(|host| !host.is_empty());
        let created = ingress.metadata.creation_timestamp.as_ref();
        vec![
            json!(ingress.metadata.name),
            json!(spec.ingress_class_name.as_deref().unwrap_or(cells::NONE)),
            json!(cells::at_most(hosts, SHOWN_HOSTS, "*")),
            json!(addresses(ingress)),
            json!(if tls { "80, 443" } else { "80" }),
            json!(cells::since(created, now)),
        ]
    }
}

fn class_annotation(ingress: &Ingress) -> Option<&str> {
    let annotations = ingress.metadata.annotations.as_ref()?;
    annotations.get(CLASS_ANNOTATION).map(String::as_str)
}

/// Addresses or else host names, each once, in order.
fn addresses(ingress: &Ingress) -> String {
    let status = ingress
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref());
    let points = status
        .and_then(|s| s.ingress.as_deref())
        .unwrap_or_default();
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut shown: Vec<String> = points
        .iter()
        .filter_map(|point| filled(&point.ip).or_else(|| filled(&point.hostname)))
        .collect();
    shown.sort_unstable();
    shown.dedup();
    shown.join(",")
}
