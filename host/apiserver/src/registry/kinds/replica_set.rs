//! ReplicaSets. Source: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/>

use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetSpec, ReplicaSetStatus},
    core::v1::PodTemplateSpec,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::{cells, describe, fill, pod::template, replicas};
use crate::registry::{
    printing::Column,
    strategy::{Context, Scale, Strategy},
};

pub(super) struct ReplicaSetStrategy;

impl Strategy for ReplicaSetStrategy {
    type Object = ReplicaSet;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["rs"]),
            categories: describe::all(),
            selectable_fields: describe::texts(&["status.replicas"]),
            ..describe::namespaced("apps", "v1", "replicasets", "ReplicaSet")
        }
    }

    fn default(&self, set: &mut ReplicaSet) {
        let spec = set.spec.get_or_insert_default();
        fill::pointer(&mut spec.replicas, 1);
        template::fill_defaults(spec.template.get_or_insert_default());
    }

    fn prepare_for_create(&self, _context: &Context, set: &mut ReplicaSet) {
        set.status = Some(ReplicaSetStatus::default());
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut ReplicaSet, old: &ReplicaSet) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut ReplicaSet, &ReplicaSet)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(&self, new: &ReplicaSet, old: &ReplicaSet) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, set: &ReplicaSet) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = (ReplicaSetSpec::default(), PodTemplateSpec::default());
        let spec = set.spec.as_ref().unwrap_or(&empty.0);
        let path = Path::new("spec");
        let selector = &spec.selector;
        replicas::validate_common(
            &mut errors,
            &path,
            spec.replicas,
            spec.min_ready_seconds,
            selector,
            "deployment", // upstream's word, for replica sets too
        );
        let pods = spec.template.as_ref().unwrap_or(&empty.1);
        let path = path.child("template");
        template::validate_of_replicas(&mut errors, &path, pods, selector, "ReplicaSet");
        errors
    }

    fn validate_update(&self, new: &ReplicaSet, old: &ReplicaSet) -> ErrorList {
        let mut errors = ErrorList::new();
        let selector = |set: &ReplicaSet| set.spec.as_ref().map(|s| s.selector.clone());
        replicas::validate_selector_kept(&mut errors, selector(new), selector(old));
        errors
    }

    fn validate_status_update(&self, new: &ReplicaSet, _old: &ReplicaSet) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = ReplicaSetStatus::default();
        let status = new.status.as_ref().unwrap_or(&empty);
        replicas::Counts {
            observed_generation: status.observed_generation,
            replicas: Some(status.replicas),
            ready: status.ready_replicas,
            available: status.available_replicas,
            others: &[("fullyLabeledReplicas", status.fully_labeled_replicas)],
        }
        .validate(&mut errors, &Path::new("status"));
        errors
    }

    fn warnings(&self, set: &ReplicaSet) -> Vec<String> {
        template::warnings_of_spec(set.spec.as_ref().and_then(|s| s.template.as_ref()))
    }

    fn scale(&self) -> Option<Scale<ReplicaSet>> {
        Some(Scale {
            replicas: |set| {
                set.spec
                    .as_ref()
                    .and_then(|s| s.replicas)
                    .unwrap_or_default()
            },
            set_replicas: |set, n| set.spec.get_or_insert_default().replicas = Some(n),
            status_replicas: |set| set.status.as_ref().map_or(0, |s| s.replicas),
            selector: |set| replicas::selector_text(set.spec.as_ref().map(|s| &s.selector)),
        })
    }

    fn columns(&self) -> Vec<Column> {
        replicas::columns()
    }

    fn row(&self, set: &ReplicaSet, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (ReplicaSetSpec::default(), ReplicaSetStatus::default());
        let spec = set.spec.as_ref().unwrap_or(&empty.0);
        let status = set.status.as_ref().unwrap_or(&empty.1);
        let (names, images) = replicas::containers(spec.template.as_ref());
        vec![
            json!(set.metadata.name),
            json!(spec.replicas.unwrap_or_default()),
            json!(status.replicas),
            json!(status.ready_replicas.unwrap_or_default()),
            json!(cells::since(set.metadata.creation_timestamp.as_ref(), now)),
            json!(names),
            json!(images),
            json!(cells::selector(&spec.selector)),
        ]
    }
}
