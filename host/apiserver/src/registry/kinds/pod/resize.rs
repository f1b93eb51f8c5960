//! `pods/resize`: CPU and memory of a running pod's containers, and of the pod as a whole if it has them.
//! Source: <https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/>

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use pilothouse_api::{
    apply::Scope,
    field::{ErrorList, FieldError, Path},
};

use super::{
    Owner,
    ephemeral::{is_static, keep_all},
    resources::{self, ResourceList, is_sidecar},
    spec,
};
use crate::registry::{kinds::semantic, strategy::Part};

const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// What a resize may change.
pub(super) const OWNED: Scope = Scope::Only(&[
    &["spec", "containers", "*", "resources"],
    &["spec", "containers", "*", "resizePolicy"],
    &["spec", "initContainers", "*", "resources"],
    &["spec", "initContainers", "*", "resizePolicy"],
]);

pub(super) fn part() -> Part<Pod> {
    Part {
        name: "resize",
        keep: |_, new, old| keep(new, old),
        validate,
    }
}

/// Takes the resources of what exists, and keeps everything else.
fn keep(new: &mut Pod, old: &Pod) {
    let sent = new.spec.take().unwrap_or_default();
    keep_all(new, old);
    let spec = new.spec.get_or_insert_default();
    if spec.resources.is_some() {
        spec.resources = sent.resources.clone();
    }
    let take = |containers: &mut [Container], sent: &[Container]| {
        for container in containers {
            if let Some(sent) = sent.iter().find(|c| c.name == container.name) {
                container.resources = sent.resources.clone();
                container.resize_policy = sent.resize_policy.clone();
            }
        }
    };
    take(&mut spec.containers, &sent.containers);
    if let (Some(init), Some(sent)) = (&mut spec.init_containers, &sent.init_containers) {
        take(init, sent);
    }
}

fn validate(new: &Pod, old: &Pod) -> ErrorList {
    let empty = PodSpec::default();
    let (spec, before) = (
        new.spec.as_ref().unwrap_or(&empty),
        old.spec.as_ref().unwrap_or(&empty),
    );
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let owner = Owner {
        pod_name: new.metadata.name.as_deref(),
        pod: true,
        has_service_account: spec
            .service_account_name
            .as_deref()
            .is_some_and(|name| !name.is_empty()),
    };
    spec::validate(&mut errors, &path, spec, &owner);
    if is_static(old) {
        let why = "static pods cannot be resized";
        errors.push(FieldError::forbidden(&Path::default(), why));
    }
    let windows = |spec: &PodSpec| spec.os.as_ref().is_some_and(|os| os.name == "windows");
    if windows(spec) || windows(before) {
        errors.push(FieldError::forbidden(
            &path,
            "windows pods cannot be resized",
        ));
    }
    if resources::qos_class(spec) != resources::qos_class(before) {
        let class = new.status.as_ref().and_then(|s| s.qos_class.as_deref());
        errors.push(FieldError::invalid(
            &path,
            class.unwrap_or_default(),
            "Pod QOS Class may not change as a result of resizing",
        ));
    }
    validate_removals(&mut errors, &path.child("containers"), spec, before);
    let kept = Pod {
        spec: Some(with_old_amounts(spec, before)),
        ..Pod::default()
    };
    let before = Pod {
        spec: Some(before.clone()),
        ..Pod::default()
    };
    let differences = semantic::differences(&kept, &before, "spec");
    if !differences.is_empty() {
        let why = format!(
            "only cpu and memory resources are mutable\n{}",
            differences.join("\n")
        );
        errors.push(FieldError::forbidden(&path, &why));
    }
    errors
}

/// What was asked for or bounded stays so, by another amount.
fn validate_removals(errors: &mut ErrorList, path: &Path, new: &PodSpec, old: &PodSpec) {
    let lists = |container: &Container| {
        let requirements = container.resources.clone().unwrap_or_default();
        [
            ("limits", requirements.limits),
            ("requests", requirements.requests),
        ]
    };
    for (i, (new, old)) in new.containers.iter().zip(&old.containers).enumerate() {
        for ((field, now), (_, before)) in lists(new).into_iter().zip(lists(old)) {
            let (now, before) = (now.unwrap_or_default(), before.unwrap_or_default());
            let mut resizable = before.keys().filter(|n| RESIZABLE.contains(&n.as_str()));
            if resizable.any(|name| !now.contains_key(name)) {
                let path = path.index(i).child("resources").child(field);
                let why = format!("resource {field} cannot be removed");
                errors.push(FieldError::forbidden(&path, &why));
            }
        }
    }
}

/// The new specification with the old amounts of what may be resized.
fn with_old_amounts(new: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut spec = new.clone();
    if let (Some(now), Some(before)) = (&mut spec.resources, &old.resources) {
        put_back_amounts(now, before);
    }
    for (container, old) in spec.containers.iter_mut().zip(&old.containers) {
        put_back(container, old);
    }
    let init = spec.init_containers.iter_mut().flatten();
    for (container, old) in init.zip(old.init_containers.iter().flatten()) {
        if is_sidecar(old) {
            put_back(container, old);
        }
    }
    spec
}

fn put_back(container: &mut Container, old: &Container) {
    let before = old.resources.clone().unwrap_or_default();
    put_back_amounts(container.resources.get_or_insert_default(), &before);
}

fn put_back_amounts(now: &mut ResourceRequirements, before: &ResourceRequirements) {
    restore(&mut now.limits, before.limits.as_ref());
    restore(&mut now.requests, before.requests.as_ref());
}

fn restore(list: &mut Option<ResourceList>, before: Option<&ResourceList>) {
    let amounts = list.get_or_insert_default();
    for name in RESIZABLE {
        match before.and_then(|before| before.get(name)) {
            Some(amount) => {
                amounts.insert(name.to_owned(), amount.clone());
            }
            None => {
                amounts.remove(name);
            }
        }
    }
    list.take_if(|amounts| amounts.is_empty());
}
