//! PodTemplates. Source: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-template-v1/>

use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use pilothouse_api::{
    ResourceInfo,
    field::{ErrorList, Path},
};
use serde_json::{Value, json};

use super::{cells, describe, pod::template, replicas};
use crate::registry::{printing::Column, strategy::Strategy};

pub(super) struct PodTemplateStrategy;

impl Strategy for PodTemplateStrategy {
    type Object = PodTemplate;

    fn resource(&self) -> ResourceInfo {
        describe::namespaced("", "v1", "podtemplates", "PodTemplate")
    }

    fn default(&self, pods: &mut PodTemplate) {
        template::fill_defaults(pods.template.get_or_insert_default());
    }

    fn generation_changed(&self, new: &PodTemplate, old: &PodTemplate) -> Option<bool> {
        Some(new.template != old.template)
    }

    fn validate(&self, pods: &PodTemplate) -> ErrorList {
        let mut errors = ErrorList::new();
        let empty = PodTemplateSpec::default();
        let spec = pods.template.as_ref().unwrap_or(&empty);
        template::validate(&mut errors, &Path::new("template"), spec);
        errors
    }

    fn warnings(&self, pods: &PodTemplate) -> Vec<String> {
        let path = Path::new("template");
        let template = pods.template.as_ref();
        template.map_or_else(Vec::new, |template| template::warnings(&path, template))
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::NAME,
            Column::string("Containers", "Names of each container in the template."),
            Column::string(
                "Images",
                "Images referenced by each container in the template.",
            ),
            Column::string("Pod Labels", "The labels of pods made from the template."),
        ]
    }

    fn row(&self, pods: &PodTemplate, _now: jiff::Timestamp) -> Vec<Value> {
        let (names, images) = replicas::containers(pods.template.as_ref());
        let metadata = pods.template.as_ref().and_then(|t| t.metadata.as_ref());
        vec![
            json!(pods.metadata.name),
            json!(names),
            json!(images),
            json!(cells::labels(metadata.and_then(|m| m.labels.as_ref()))),
        ]
    }
}
