//! Between `autoscaling/v1` and `autoscaling/v2`, tree to tree. What v1 has no field for stands in annotations of its
//! objects, in v1's form, and is taken out of them again: nothing is lost on the way through either version.
//! Source: <https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#api-object>

mod metrics;

use k8s_openapi::{
    api::autoscaling::v2::HorizontalPodAutoscaler, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilothouse_api::{Kind, Status};
use serde_json::{Map, Value, json};

use super::defaults::DEFAULT_CPU_UTILIZATION;

type Tree = Map<String, Value>;

const V1: &str = "autoscaling/v1";
const V2: &str = "autoscaling/v2";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const ANNOTATIONS: [&str; 4] = [METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS];
/// Which of them belong to the status.
const OF_STATUS: [&str; 2] = [CURRENT_METRICS, CONDITIONS];
/// Fields that are the same in both versions.
const SPEC: [&str; 3] = ["scaleTargetRef", "minReplicas", "maxReplicas"];
const STATUS: [&str; 4] = [
    "observedGeneration",
    "lastScaleTime",
    "currentReplicas",
    "desiredReplicas",
];

/// From v2 to v1.
pub(super) fn from_stored(json: &[u8]) -> Result<Vec<u8>, Status> {
    let mut object = read(json)?;
    let spec = take_object(&mut object, "spec");
    let status = take_object(&mut object, "status");
    let mut notes = Tree::new();

    let all = list(&spec, "metrics");
    let mut old_spec = same(&spec, &SPEC);
    let first_cpu = all.iter().find(|metric| metrics::is_cpu(metric));
    if let Some(percent) = first_cpu.and_then(metrics::target_utilization) {
        old_spec.insert("targetCPUUtilizationPercentage".to_owned(), percent.clone());
    }
    let others = all
        .iter()
        .filter(|m| !(metrics::is_cpu(m) && metrics::target_utilization(m).is_some()));
    let others: Vec<Value> = others.map(metrics::spec_to_v1).collect();
    note(&mut notes, METRICS, &others)?;
    if let Some(behavior) = spec.get("behavior") {
        let text = rename(behavior, capitalized).to_string();
        notes.insert(BEHAVIOR.to_owned(), json!(text));
    }

    let current = list(&status, "currentMetrics");
    let mut old_status = same(&status, &STATUS);
    let cpu = current.iter().filter(|metric| metrics::is_cpu(metric));
    if let Some(percent) = cpu.filter_map(metrics::current_utilization).next_back() {
        old_status.insert(
            "currentCPUUtilizationPercentage".to_owned(),
            percent.clone(),
        );
    }
    let current: Vec<Value> = current.iter().map(metrics::status_to_v1).collect();
    note(&mut notes, CURRENT_METRICS, &current)?;
    note(&mut notes, CONDITIONS, list(&status, "conditions"))?;
    for field in ["currentReplicas", "desiredReplicas"] {
        old_status.entry(field).or_insert(json!(0)); // v1 writes zeros
    }

    let annotations = annotations(&mut object);
    annotations.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
    annotations.extend(notes);
    drop_empty_annotations(&mut object);
    object.insert("apiVersion".to_owned(), json!(V1));
    object.insert("spec".to_owned(), Value::Object(old_spec));
    object.insert("status".to_owned(), Value::Object(old_status));
    serde_json::to_vec(&object).map_err(Status::internal)
}

/// From v1 to v2. Annotations that cannot be read are 400.
pub(super) fn to_stored(json: &[u8]) -> Result<Vec<u8>, Status> {
    let mut object = read(json)?;
    let old_spec = take_object(&mut object, "spec");
    let had_status = object.contains_key("status");
    let old_status = take_object(&mut object, "status");
    let notes: Tree = ANNOTATIONS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), annotations(&mut object).remove(*key)?)))
        .collect();
    drop_empty_annotations(&mut object);

    let mut spec = same(&old_spec, &SPEC);
    let mut wanted = read_note(&notes, METRICS)?
        .iter()
        .map(metrics::spec_from_v1)
        .collect::<Vec<Value>>();
    if let Some(percent) = old_spec.get("targetCPUUtilizationPercentage") {
        wanted.push(metrics::cpu_target(percent.clone()));
    }
    if wanted.is_empty() {
        wanted.push(metrics::cpu_target(json!(DEFAULT_CPU_UTILIZATION)));
    }
    spec.insert("metrics".to_owned(), Value::Array(wanted));
    if let Some(text) = notes.get(BEHAVIOR).and_then(Value::as_str) {
        let behavior: Value = parse(BEHAVIOR, text)?;
        spec.insert("behavior".to_owned(), rename(&behavior, uncapitalized));
    }
    object.insert("spec".to_owned(), Value::Object(spec));

    let mut status = same(&old_status, &STATUS);
    let current = match (
        notes.get(CURRENT_METRICS),
        old_status.get("currentCPUUtilizationPercentage"),
    ) {
        (Some(_), _) => read_note(&notes, CURRENT_METRICS)?
            .iter()
            .map(metrics::status_from_v1)
            .collect(),
        (None, Some(percent)) => vec![metrics::cpu_current(percent.clone())],
        (None, None) => Vec::new(),
    };
    if !current.is_empty() {
        status.insert("currentMetrics".to_owned(), Value::Array(current));
    }
    let conditions = read_note(&notes, CONDITIONS)?;
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    if status.get("currentReplicas") == Some(&json!(0)) {
        status.remove("currentReplicas"); // v2 leaves it out
    }
    if had_status || !status.is_empty() {
        status.entry("desiredReplicas").or_insert(json!(0)); // v2 always has it
        object.insert("status".to_owned(), Value::Object(status));
    }
    object.insert("apiVersion".to_owned(), json!(V2));
    let json = serde_json::to_vec(&object).map_err(Status::internal)?;
    // through the type, so that the same object is the same bytes whichever version it came by
    HorizontalPodAutoscaler::decode(&json).map(|stored| stored.encode())
}

/// Takes a status away that a client sent in annotations.
pub(super) fn drop_status(metadata: &mut ObjectMeta) {
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| !OF_STATUS.contains(&key.as_str()));
    }
}

/// Puts the status that stands in annotations back as it was.
pub(super) fn keep_status(new: &mut ObjectMeta, old: &ObjectMeta) {
    drop_status(new);
    keep(new, old, &OF_STATUS);
}

/// The same for the specification.
pub(super) fn keep_spec(new: &mut ObjectMeta, old: &ObjectMeta) {
    let of_spec = [METRICS, BEHAVIOR];
    if let Some(annotations) = &mut new.annotations {
        annotations.retain(|key, _| !of_spec.contains(&key.as_str()));
    }
    keep(new, old, &of_spec);
}

fn keep(new: &mut ObjectMeta, old: &ObjectMeta, keys: &[&str]) {
    let kept = old.annotations.iter().flatten();
    for (key, value) in kept.filter(|(key, _)| keys.contains(&key.as_str())) {
        let annotations = new.annotations.get_or_insert_default();
        annotations.insert(key.clone(), value.clone());
    }
}

fn read(json: &[u8]) -> Result<Tree, Status> {
    serde_json::from_slice(json).map_err(|error| {
        Status::bad_request(format!(
            "HorizontalPodAutoscaler cannot be converted: {error}"
        ))
    })
}

fn parse<T: serde::de::DeserializeOwned>(annotation: &str, text: &str) -> Result<T, Status> {
    serde_json::from_str(text).map_err(|error| {
        Status::bad_request(format!(
            "HorizontalPodAutoscaler in version \"v1\" cannot be handled as a HorizontalPodAutoscaler: annotation {annotation}: {error}"
        ))
    })
}

fn read_note(notes: &Tree, annotation: &str) -> Result<Vec<Value>, Status> {
    match notes.get(annotation).and_then(Value::as_str) {
        Some(text) => parse(annotation, text),
        None => Ok(Vec::new()),
    }
}

fn note(notes: &mut Tree, annotation: &str, items: &[Value]) -> Result<(), Status> {
    if !items.is_empty() {
        let text = serde_json::to_string(items).map_err(Status::internal)?;
        notes.insert(annotation.to_owned(), json!(text));
    }
    Ok(())
}

fn take_object(object: &mut Tree, field: &str) -> Tree {
    match object.remove(field) {
        Some(Value::Object(tree)) => tree,
        _ => Tree::new(),
    }
}

fn list<'a>(object: &'a Tree, field: &str) -> &'a [Value] {
    let list = object.get(field).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn same(object: &Tree, fields: &[&str]) -> Tree {
    let copy = |field: &&str| Some(((*field).to_owned(), object.get(*field)?.clone()));
    fields.iter().filter_map(copy).collect()
}

fn annotations(object: &mut Tree) -> &mut Tree {
    let metadata = as_object(object.entry("metadata").or_insert(json!({})));
    as_object(metadata.entry("annotations").or_insert(json!({})))
}

/// The object in a place that may hold something else, which then gives way.
fn as_object(value: &mut Value) -> &mut Tree {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(tree) => tree,
        _ => unreachable!("it has just been made an object"),
    }
}

fn drop_empty_annotations(object: &mut Tree) {
    if annotations(object).is_empty() {
        as_object(object.entry("metadata").or_insert(json!({}))).remove("annotations");
    }
}

/// Kubernetes writes the behavior in its internal form, with capital letters, and reads it whatever the letters are.
fn capitalized(key: &str) -> String {
    let mut letters = key.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn uncapitalized(key: &str) -> String {
    let mut letters = key.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// The same tree under other names, without nulls.
fn rename(value: &Value, name: fn(&str) -> String) -> Value {
    match value {
        Value::Object(tree) => {
            let kept = tree.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(k, v)| (name(k), rename(v, name))).collect())
        }
        Value::Array(items) => items.iter().map(|item| rename(item, name)).collect(),
        other => other.clone(),
    }
}
