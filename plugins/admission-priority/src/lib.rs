//! `Priority`: a pod's priority and preemption policy come from its priority class; one class at most is the default.
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/>

use pilothouse_sdk::{
    admission::{Admission, Denial, Entry, Mutation, Operation, Request},
    cluster::{Cluster, ClusterExt, ListOptions, resources::PRIORITY_CLASSES},
    patch::Patch,
};
use serde::Deserialize;

/// Classes that exist even where their objects have not been created yet.
const SYSTEM_CLASSES: [(&str, i32); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];
const PREEMPT_LOWER: &str = "PreemptLowerPriority";

/// The plugin.
pub struct Priority;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    priority_class_name: Option<String>,
    priority: Option<i32>,
    preemption_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Class {
    metadata: Metadata,
    value: i32,
    global_default: bool,
    preemption_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

/// What a class gives to a pod.
struct Given {
    class_name: String,
    priority: i32,
    preemption_policy: String,
}

impl Admission for Priority {
    fn entry(&self) -> Entry {
        Entry::new("Priority")
            .on(&["CREATE", "UPDATE"], "", &["pods"])
            .on(
                &["CREATE", "UPDATE"],
                "scheduling.k8s.io",
                &["priorityclasses"],
            )
            .order(-700)
            .may(&["get", "list"], "scheduling.k8s.io", &["priorityclasses"])
    }

    fn mutate(&self, cluster: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
        match (request.resource.resource.as_str(), request.operation) {
            ("pods", Operation::Create) => resolve(cluster, request),
            ("pods", Operation::Update) => keep(request),
            _ => Ok(Mutation::default()),
        }
    }

    fn validate(&self, cluster: &dyn Cluster, request: &Request) -> Result<Vec<String>, Denial> {
        if request.resource.resource == "priorityclasses" {
            one_default(cluster, request)?;
        }
        Ok(Vec::new())
    }
}

/// A new pod: the class decides, and what the pod says itself must agree with it.
fn resolve(cluster: &dyn Cluster, request: &Request) -> Result<Mutation, Denial> {
    let spec = request.object::<Pod>()?.spec;
    let asked = spec.priority_class_name.unwrap_or_default();
    let given = match asked.as_str() {
        "" => default_class(cluster)?,
        name => class(cluster, request, name)?,
    };
    if let Some(own) = spec.priority.filter(|own| *own != given.priority) {
        let computed = given.priority;
        return Err(request.forbidden(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        )));
    }
    if let Some(own) = spec
        .preemption_policy
        .as_ref()
        .filter(|own| **own != given.preemption_policy)
    {
        let computed = &given.preemption_policy;
        return Err(request.forbidden(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
        )));
    }
    let mut patch = Patch::new();
    if given.class_name != asked {
        patch.add(&["spec", "priorityClassName"], given.class_name);
    }
    if spec.priority.is_none() {
        patch.add(&["spec", "priority"], given.priority);
    }
    if spec.preemption_policy.is_none() {
        patch.add(&["spec", "preemptionPolicy"], given.preemption_policy);
    }
    Ok(patch.into())
}

/// An update that leaves the two out, as old clients do, keeps them.
fn keep(request: &Request) -> Result<Mutation, Denial> {
    let (new, old) = (
        request.object::<Pod>()?.spec,
        request.old_object::<Pod>()?.spec,
    );
    let mut patch = Patch::new();
    if let (None, Some(priority)) = (new.priority, old.priority) {
        patch.add(&["spec", "priority"], priority);
    }
    if let (None, Some(policy)) = (new.preemption_policy, old.preemption_policy) {
        patch.add(&["spec", "preemptionPolicy"], policy);
    }
    Ok(patch.into())
}

/// The class that is the default for all; of several, which only a race can bring about, the lowest. None: zero.
fn default_class(cluster: &dyn Cluster) -> Result<Given, Denial> {
    let lowest = defaults(cluster)?
        .into_iter()
        .min_by_key(|class| class.value);
    Ok(Given::from(lowest.unwrap_or_default()))
}

fn class(cluster: &dyn Cluster, request: &Request, name: &str) -> Result<Given, Denial> {
    if let Some(class) = cluster.get::<Class>(&PRIORITY_CLASSES, "", name)? {
        return Ok(Given::from(class));
    }
    let system = SYSTEM_CLASSES.iter().find(|(system, _)| *system == name);
    let (name, value) = system
        .ok_or_else(|| request.forbidden(format!("no PriorityClass with name {name} was found")))?;
    Ok(Given {
        class_name: (*name).to_owned(),
        priority: *value,
        preemption_policy: PREEMPT_LOWER.to_owned(),
    })
}

impl From<Class> for Given {
    fn from(class: Class) -> Self {
        let policy = class.preemption_policy.filter(|policy| !policy.is_empty());
        Self {
            class_name: class.metadata.name,
            priority: class.value,
            preemption_policy: policy.unwrap_or_else(|| PREEMPT_LOWER.to_owned()),
        }
    }
}

fn defaults(cluster: &dyn Cluster) -> Result<Vec<Class>, Denial> {
    let all: Vec<Class> = cluster.list(&PRIORITY_CLASSES, "", &ListOptions::default())?;
    Ok(all
        .into_iter()
        .filter(|class| class.global_default)
        .collect())
}

fn one_default(cluster: &dyn Cluster, request: &Request) -> Result<(), Denial> {
    let class: Class = request.object()?;
    if !class.global_default {
        return Ok(());
    }
    let lowest = defaults(cluster)?
        .into_iter()
        .min_by_key(|class| class.value);
    let other = lowest.filter(|other| {
        request.operation == Operation::Create || other.metadata.name != class.metadata.name
    });
    match other {
        None => Ok(()),
        Some(other) => Err(request.forbidden(format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            other.metadata.name
        ))),
    }
}

pilothouse_sdk::export! {
    admission(mutate, validate): [Priority],
}

#[cfg(test)]
mod tests;
