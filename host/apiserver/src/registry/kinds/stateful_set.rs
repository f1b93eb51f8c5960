//! StatefulSets. Source: <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/>

#[cfg(test)]
mod tests;
mod validation;

use k8s_openapi::{
    api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus},
    apimachinery::pkg::util::intstr::IntOrString,
};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::{cells, describe, fill, persistent_volume_claim, pod::template, replicas};
use crate::registry::{
    printing::Column,
    strategy::{Context, NameFormat, Scale, Strategy},
};

const ROLLING_UPDATE: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
const ORDERED_READY: &str = "OrderedReady";
const PARALLEL: &str = "Parallel";
const RETAIN: &str = "Retain";
const DELETE: &str = "Delete";

pub(super) struct StatefulSetStrategy;

impl Strategy for StatefulSetStrategy {
    type Object = StatefulSet;

    fn resource(&self) -> ResourceInfo {
        ResourceInfo {
            short_names: describe::texts(&["sts"]),
            categories: describe::all(),
            ..describe::namespaced("apps", "v1", "statefulsets", "StatefulSet")
        }
    }

    fn default(&self, set: &mut StatefulSet) {
        let spec = set.spec.get_or_insert_default();
        fill::text(&mut spec.pod_management_policy, ORDERED_READY);
        let strategy = spec.update_strategy.get_or_insert_default();
        fill::text(&mut strategy.type_, ROLLING_UPDATE);
        if strategy.type_.as_deref() == Some(ROLLING_UPDATE) {
            let rolling = strategy.rolling_update.get_or_insert_default();
            fill::pointer(&mut rolling.partition, 0);
            fill::pointer(&mut rolling.max_unavailable, IntOrString::Int(1));
        }
        let retention = spec
            .persistent_volume_claim_retention_policy
            .get_or_insert_default();
        fill::text(&mut retention.when_deleted, RETAIN);
        fill::text(&mut retention.when_scaled, RETAIN);
        fill::pointer(&mut spec.replicas, 1);
        fill::pointer(&mut spec.revision_history_limit, 10);
        // Kubernetes writes these two even if they say nothing
        fill::pointer(&mut spec.service_name, String::new());
        if let Some(status) = &mut set.status {
            fill::pointer(&mut status.available_replicas, 0);
        }
        template::fill_defaults(&mut spec.template);
        for claim in spec.volume_claim_templates.iter_mut().flatten() {
            persistent_volume_claim::fill_defaults(claim);
        }
    }

    fn prepare_for_create(&self, _context: &Context, set: &mut StatefulSet) {
        set.status = Some(StatefulSetStatus {
            available_replicas: Some(0),
            ..StatefulSetStatus::default()
        });
    }

    fn prepare_for_update(&self, _context: &Context, new: &mut StatefulSet, old: &StatefulSet) {
        new.status = old.status.clone();
    }

    fn prepare_for_status_update(&self) -> Option<fn(&mut StatefulSet, &StatefulSet)> {
        Some(|new, old| new.spec = old.spec.clone())
    }

    fn generation_changed(&self, new: &StatefulSet, old: &StatefulSet) -> Option<bool> {
        Some(new.spec != old.spec)
    }

    fn validate(&self, set: &StatefulSet) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = StatefulSetSpec::default();
        let spec = set.spec.as_ref().unwrap_or(&empty);
        validation::validate(&mut errors, &Path::new("spec"), spec);
        errors
    }

    fn validate_update(&self, new: &StatefulSet, old: &StatefulSet) -> ErrorList {
        validation::validate_update(new, old)
    }

    fn validate_status_update(&self, new: &StatefulSet, old: &StatefulSet) -> ErrorList {
        validation::validate_status(new, old)
    }

    fn warnings(&self, set: &StatefulSet) -> Vec<String> {
        let mut warnings = template::warnings_of_spec(set.spec.as_ref().map(|s| &s.template));
        let limit = set.spec.as_ref().and_then(|s| s.revision_history_limit);
        if limit.is_some_and(|limit| limit < 0) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                    .to_owned(),
            );
        }
        warnings
    }

    fn name_format(&self) -> NameFormat {
        NameFormat::DnsLabel // pods are called after it
    }

    fn scale(&self) -> Option<Scale<StatefulSet>> {
        Some(Scale {
            replicas: |set| {
                let spec = set.spec.as_ref();
                spec.and_then(|s| s.replicas).unwrap_or_default()
            },
            set_replicas: |set, n| set.spec.get_or_insert_default().replicas = Some(n),
            status_replicas: |set| set.status.as_ref().map_or(0, |s| s.replicas),
            selector: |set| replicas::selector_text(set.spec.as_ref().map(|s| &s.selector)),
        })
    }

    fn columns(&self) -> Vec<Column> {
        let [containers, images, _] = cells::template_columns();
        vec![
            Column::NAME,
            Column::string("Ready", "Pods that are ready, and how many are wanted."),
            Column::AGE,
            containers,
            images,
        ]
    }

    fn row(&self, set: &StatefulSet, now: jiff::Timestamp) -> Vec<Value> {
        let empty = (StatefulSetSpec::default(), StatefulSetStatus::default());
        let spec = set.spec.as_ref().unwrap_or(&empty.0);
        let status = set.status.as_ref().unwrap_or(&empty.1);
        let ready = status.ready_replicas.unwrap_or_default();
        let wanted = spec.replicas.unwrap_or_default();
        let (names, images) = replicas::containers(Some(&spec.template));
        vec![
            json!(set.metadata.name),
            json!(format!("{ready}/{wanted}")),
            json!(cells::since(set.metadata.creation_timestamp.as_ref(), now)),
            json!(names),
            json!(images),
        ]
    }
}
