//! Resource requests and limits: their defaults, their rules, and the quality of service that follows from them.
//! Source: <https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/> and
//! <https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/>

mod names;
mod totals;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
};

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, ResourceClaim, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use pilothouse_api::{
    field::{ErrorList, FieldError, Path},
    quantity,
};

use self::{
    names::{
        CPU, HUGE_PAGES, MEMORY, is_extended, is_native, is_page_multiple, is_pod_level,
        is_standard_container_resource, is_standard_resource, is_whole_only,
    },
    totals::container_requests,
};
use crate::registry::kinds::checks;

/// Amounts by resource name.
pub(in crate::registry::kinds) type ResourceList = BTreeMap<String, Quantity>;

/// Writes quantities the way they are stored: `1024Mi` as `1Gi`. Malformed ones are left to validation.
pub(in crate::registry::kinds) fn canonicalize(list: &mut Option<ResourceList>) {
    for quantity in list.iter_mut().flat_map(BTreeMap::values_mut) {
        if let Ok(canonical) = quantity::Quantity::canonical(&quantity.0) {
            quantity.0 = canonical;
        }
    }
}

/// The same for limits and requests.
pub(super) fn canonicalize_requirements(requirements: Option<&mut ResourceRequirements>) {
    if let Some(requirements) = requirements {
        canonicalize(&mut requirements.limits);
        canonicalize(&mut requirements.requests);
    }
}

/// A limit without a request is its request, in pods but not in templates.
pub(super) fn requests_from_limits(requirements: Option<&mut ResourceRequirements>) {
    let Some(requirements) = requirements else {
        return;
    };
    let Some(limits) = &requirements.limits else {
        return;
    };
    let requests = requirements.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests
            .entry(name.clone())
            .or_insert_with(|| limit.clone());
    }
}

/// Requests of the pod as a whole, if it has limits as a whole: the containers' together, else the limit.
pub(super) fn pod_level_requests(spec: &mut PodSpec) {
    let Some(limits) = spec.resources.as_ref().and_then(|r| r.limits.clone()) else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let together = container_requests(spec);
    let requests = spec.resources.get_or_insert_default();
    let requests = requests.requests.get_or_insert_default();
    for (name, quantity) in together {
        if (name == CPU || name == MEMORY) && !requests.contains_key(&name) {
            requests.insert(name, Quantity(quantity.to_string()));
        }
    }
    for (name, limit) in limits {
        if is_pod_level(&name) {
            requests.entry(name).or_insert(limit);
        }
    }
    if requests.is_empty()
        && let Some(resources) = &mut spec.resources
    {
        resources.requests = None;
    }
}

/// Whether an init container goes on running beside the others.
pub(in crate::registry::kinds) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What `status.qosClass` is, for good, from the creation of a pod on.
pub(super) fn qos_class(spec: &PodSpec) -> &'static str {
    let pod_level = spec.resources.as_ref().filter(|r| {
        r.limits.as_ref().is_some_and(|l| !l.is_empty())
            || r.requests.as_ref().is_some_and(|l| !l.is_empty())
    });
    let empty = ResourceRequirements::default();
    let all: Vec<&ResourceRequirements> = match pod_level {
        Some(requirements) => vec![requirements],
        None => spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
            .map(|c| c.resources.as_ref().unwrap_or(&empty))
            .collect(),
    };
    let mut any = false;
    let mut guaranteed = true;
    for requirements in all {
        for name in [CPU, MEMORY] {
            let positive = |list: &Option<ResourceList>| {
                let quantity = list.as_ref()?.get(name).and_then(parse)?;
                (quantity > quantity::Quantity::ZERO).then_some(quantity)
            };
            let (request, limit) = (
                positive(&requirements.requests),
                positive(&requirements.limits),
            );
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn parse(amount: &Quantity) -> Option<quantity::Quantity> {
    quantity::Quantity::parse(&amount.0).ok()
}

/// Which names a list may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Container,
    Pod,
}

/// Requests and limits of a container.
pub(super) fn validate_container(
    errors: &mut ErrorList,
    path: &Path,
    requirements: &ResourceRequirements,
    claims: &HashSet<&str>,
) {
    validate(errors, path, requirements, Level::Container);
    validate_claims(
        errors,
        &path.child("claims"),
        requirements.claims.as_deref().unwrap_or_default(),
        claims,
    );
}

/// Requests and limits of a pod as a whole.
pub(super) fn validate_pod_level(errors: &mut ErrorList, path: &Path, spec: &PodSpec) {
    let Some(requirements) = &spec.resources else {
        return;
    };
    if requirements.claims.is_some() {
        errors.push(FieldError::forbidden(
            &path.child("claims"),
            "claims cannot be set for Resources at pod-level",
        ));
    }
    validate(errors, path, requirements, Level::Pod);
    let none = ResourceList::new();
    let of_pod = requirements.requests.as_ref().unwrap_or(&none);
    for (name, together) in container_requests(spec) {
        let of_pod = of_pod.get(&name);
        let amount = of_pod.and_then(parse).unwrap_or_default();
        if together > amount {
            errors.push(FieldError::invalid(
                &path.child("requests").key(&name),
                of_pod.map_or("0", |q| &q.0),
                &format!(
                    "must be greater than or equal to aggregate container requests of {together}"
                ),
            ));
        }
    }
    for (i, container) in spec.containers.iter().enumerate() {
        let limits = container.resources.as_ref().and_then(|r| r.limits.as_ref());
        for (name, limit) in limits.into_iter().flatten() {
            let of_pod = requirements.limits.as_ref().and_then(|l| l.get(name));
            if let (Some(of_pod), Some(amount)) = (of_pod, parse(limit))
                && parse(of_pod).is_some_and(|of_pod| amount > of_pod)
            {
                let path = path.child("containers").index(i).key(name).child("limits");
                let why = format!("must be less than or equal to pod limits of {}", of_pod.0);
                errors.push(FieldError::invalid(&path, limit.0.as_str(), &why));
            }
        }
    }
}

/// Overhead is written like limits.
pub(in crate::registry::kinds) fn validate_overhead(
    errors: &mut ErrorList,
    path: &Path,
    overhead: &ResourceList,
) {
    let as_limits = ResourceRequirements {
        limits: Some(overhead.clone()),
        ..ResourceRequirements::default()
    };
    validate(errors, path, &as_limits, Level::Container);
}

fn validate(
    errors: &mut ErrorList,
    path: &Path,
    requirements: &ResourceRequirements,
    level: Level,
) {
    let none = ResourceList::new();
    let limits = requirements.limits.as_ref().unwrap_or(&none);
    let requests = requirements.requests.as_ref().unwrap_or(&none);
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (list, path) in [(limits, &limits_path), (requests, &requests_path)] {
        for (name, quantity) in list {
            let path = path.key(name);
            validate_name(errors, &path, name, level);
            validate_quantity(errors, &path, name, quantity);
            if name.starts_with(HUGE_PAGES) && !is_page_multiple(name, quantity) {
                let why = format!("{} is not positive integer multiple of {name}", quantity.0);
                errors.push(FieldError::invalid(&path, quantity.0.as_str(), &why));
            }
        }
    }
    for (name, request) in requests {
        compare_to_limit(
            errors,
            (&requests_path, &limits_path),
            name,
            request,
            limits.get(name),
        );
    }
    let any = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|n| wanted(n));
    if any(|name| name.starts_with(HUGE_PAGES)) && !any(|name| name == CPU || name == MEMORY) {
        errors.push(FieldError::forbidden(
            path,
            "HugePages require cpu or memory",
        ));
    }
}

fn compare_to_limit(
    errors: &mut ErrorList,
    (requests_path, limits_path): (&Path, &Path),
    name: &str,
    request: &Quantity,
    limit: Option<&Quantity>,
) {
    let overcommit = is_overcommit_allowed(name);
    let Some(limit) = limit else {
        if !overcommit {
            errors.push(FieldError::required(
                limits_path,
                "Limit must be set for non overcommitable resources",
            ));
        }
        return;
    };
    let (Some(amount), Some(bound)) = (parse(request), parse(limit)) else {
        return;
    };
    let why = match amount.cmp(&bound) {
        Ordering::Equal => return,
        _ if !overcommit => format!("must be equal to {name} limit of {}", limit.0),
        Ordering::Greater => format!("must be less than or equal to {name} limit of {}", limit.0),
        Ordering::Less => return,
    };
    errors.push(FieldError::invalid(requests_path, request.0.as_str(), &why));
}

/// A quantity that is well formed, not negative, and whole where halves make no sense.
pub(in crate::registry::kinds) fn validate_quantity(
    errors: &mut ErrorList,
    path: &Path,
    name: &str,
    quantity: &Quantity,
) {
    let text = quantity.0.as_str();
    match quantity::Quantity::parse(text) {
        Err(error) => errors.push(FieldError::invalid(path, text, &error.to_string())),
        Ok(amount) => {
            if amount.is_negative() {
                errors.push(FieldError::invalid(path, text, checks::NOT_NEGATIVE));
            }
            if is_whole_only(name) && amount.milli_value() % 1000 != 0 {
                errors.push(FieldError::invalid(path, text, "must be an integer"));
            }
        }
    }
}

/// Whether more of a resource may be promised than there is.
pub(in crate::registry::kinds) fn is_overcommit_allowed(name: &str) -> bool {
    names::is_overcommit_allowed(name)
}

/// The name of any resource: one that Kubernetes knows, or one below a domain.
pub(in crate::registry::kinds) fn validate_resource_name(
    errors: &mut ErrorList,
    path: &Path,
    name: &str,
) {
    let before = errors.len();
    checks::qualified_name(errors, path, name);
    if errors.len() == before && !name.contains('/') && !is_standard_resource(name) {
        errors.push(FieldError::invalid(
            path,
            name,
            "must be a standard resource type or fully qualified",
        ));
    }
}

/// The name of a resource that containers ask for.
pub(in crate::registry::kinds) fn validate_container_resource_name(
    errors: &mut ErrorList,
    path: &Path,
    name: &str,
) {
    validate_name(errors, path, name, Level::Container);
}

fn validate_name(errors: &mut ErrorList, path: &Path, name: &str, level: Level) {
    let before = errors.len();
    checks::qualified_name(errors, path, name);
    if errors.len() > before {
        return;
    }
    let standard = is_standard_container_resource(name);
    if level == Level::Pod {
        if !is_pod_level(name) {
            errors.push(FieldError::not_supported(
                path,
                name,
                &[CPU, HUGE_PAGES, MEMORY],
            ));
        }
        return;
    }
    let why = match name.contains('/') {
        false if standard => return,
        false => {
            if !is_standard_resource(name) {
                errors.push(FieldError::invalid(
                    path,
                    name,
                    "must be a standard resource type or fully qualified",
                ));
            }
            "must be a standard resource for containers"
        }
        true if is_native(name) || is_extended(name) => return,
        true => "doesn't follow extended resource name standard",
    };
    errors.push(FieldError::invalid(path, name, why));
}

fn validate_claims(
    errors: &mut ErrorList,
    path: &Path,
    claims: &[ResourceClaim],
    known: &HashSet<&str>,
) {
    let mut seen = HashSet::new();
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        if claim.name.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let request = claim.request.as_deref().unwrap_or_default();
        if !request.is_empty() {
            checks::dns_label(errors, &path.child("request"), request);
        }
        let whole = seen.contains(&(claim.name.as_str(), ""));
        let overlaps = request.is_empty() && seen.iter().any(|(name, _)| *name == claim.name);
        if whole || overlaps || !seen.insert((claim.name.as_str(), request)) {
            errors.push(FieldError::duplicate(&path, claim.name.as_str()));
        }
        if !known.contains(claim.name.as_str()) {
            let mut error = FieldError::not_found(&path, claim.name.as_str());
            let mut names: Vec<&str> = known.iter().copied().collect();
            names.sort_unstable();
            let names = match names.is_empty() {
                true => " which is empty".to_owned(),
                false => format!(": {}", names.join(", ")),
            };
            error.message = format!(
                "{}: must be one of the names in pod.spec.resourceClaims{names}",
                error.message
            );
            errors.push(error);
        }
    }
}
