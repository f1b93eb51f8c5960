//! Metrics of both versions. v1 spreads what v2 keeps in `metric`, `target` and `current` over the source itself.

use serde_json::{Map, Value, json};

type Tree = Map<String, Value>;

/// A field of a source in v1, and where v2 has it.
type Place = (&'static str, &'static str);

const OBJECT: &str = "object";
const CONTAINER: &str = "containerResource";
const SOURCES: [&str; 5] = [OBJECT, "pods", "resource", CONTAINER, "external"];

/// Where the fields of a wanted metric are.
fn wanted(source: &str) -> &'static [Place] {
    match source {
        OBJECT => &[
            ("target", "/describedObject"),
            ("metricName", "/metric/name"),
            ("selector", "/metric/selector"),
            ("targetValue", "/target/value"),
            ("averageValue", "/target/averageValue"),
        ],
        "pods" => &[
            ("metricName", "/metric/name"),
            ("selector", "/metric/selector"),
            ("targetAverageValue", "/target/averageValue"),
        ],
        "external" => &[
            ("metricName", "/metric/name"),
            ("metricSelector", "/metric/selector"),
            ("targetValue", "/target/value"),
            ("targetAverageValue", "/target/averageValue"),
        ],
        _ => &[
            ("name", "/name"),
            ("container", "/container"),
            ("targetAverageUtilization", "/target/averageUtilization"),
            ("targetAverageValue", "/target/averageValue"),
        ],
    }
}

/// Where the fields of a measured metric are.
fn measured(source: &str) -> &'static [Place] {
    match source {
        OBJECT => &[
            ("target", "/describedObject"),
            ("metricName", "/metric/name"),
            ("selector", "/metric/selector"),
            ("currentValue", "/current/value"),
            ("averageValue", "/current/averageValue"),
        ],
        "pods" => &[
            ("metricName", "/metric/name"),
            ("selector", "/metric/selector"),
            ("currentAverageValue", "/current/averageValue"),
        ],
        "external" => &[
            ("metricName", "/metric/name"),
            ("metricSelector", "/metric/selector"),
            ("currentValue", "/current/value"),
            ("currentAverageValue", "/current/averageValue"),
        ],
        _ => &[
            ("name", "/name"),
            ("container", "/container"),
            ("currentAverageUtilization", "/current/averageUtilization"),
            ("currentAverageValue", "/current/averageValue"),
        ],
    }
}

/// Quantities that v1 always writes: a zero stands for none.
fn required_in_v1(source: &str, field: &str) -> bool {
    matches!(
        (source, field),
        (OBJECT, "targetValue" | "currentValue")
            | ("pods", "targetAverageValue" | "currentAverageValue")
            | ("resource" | CONTAINER, "currentAverageValue")
            | ("external", "currentValue")
    )
}

pub(super) fn spec_to_v1(metric: &Value) -> Value {
    to_v1(metric, wanted)
}

pub(super) fn status_to_v1(metric: &Value) -> Value {
    to_v1(metric, measured)
}

fn to_v1(metric: &Value, places: fn(&str) -> &'static [Place]) -> Value {
    with_sources(metric, |source, value| {
        let mut old = Tree::new();
        for (field, place) in places(source) {
            match value.pointer(place) {
                Some(found) => {
                    old.insert((*field).to_owned(), found.clone());
                }
                None if required_in_v1(source, field) => {
                    old.insert((*field).to_owned(), json!("0"));
                }
                None => {}
            }
        }
        Value::Object(old)
    })
}

pub(super) fn spec_from_v1(metric: &Value) -> Value {
    with_sources(metric, |source, value| {
        let mut new = from_v1(value, source, wanted(source));
        let has = |field: &str| value.get(field).is_some_and(|v| !v.is_null());
        let average = match source {
            OBJECT => has("averageValue"),
            "external" => !has("targetValue"),
            "pods" => true,
            _ => !has("targetAverageUtilization"),
        };
        let kind = match (source, average) {
            (_, true) => "AverageValue",
            (OBJECT | "external", false) => "Value",
            (_, false) => "Utilization",
        };
        if source == OBJECT && average && new.pointer("/target/value") == Some(&json!("0")) {
            remove(&mut new, "target", "value"); // a zero that v1 had to write
        }
        set(&mut new, "/target/type", json!(kind));
        new
    })
}

pub(super) fn status_from_v1(metric: &Value) -> Value {
    with_sources(metric, |source, value| {
        let mut new = from_v1(value, source, measured(source));
        for (field, place) in measured(source) {
            let is_zero = value.get(*field) == Some(&json!("0"));
            let alone = new
                .get("current")
                .and_then(Value::as_object)
                .is_some_and(|current| current.len() == 1);
            if is_zero && !alone && required_in_v1(source, field) {
                let name = place.trim_start_matches("/current/");
                remove(&mut new, "current", name);
            }
        }
        new
    })
}

fn from_v1(value: &Value, source: &str, places: &[Place]) -> Value {
    let mut new = json!({});
    for (field, place) in places {
        if let Some(found) = value.get(*field).filter(|found| !found.is_null()) {
            set(&mut new, place, found.clone());
        }
    }
    if !matches!(source, "resource" | CONTAINER) && new.pointer("/metric/name").is_none() {
        set(&mut new, "/metric/name", json!(""));
    }
    new
}

/// A metric with its sources converted, and its type.
fn with_sources(metric: &Value, convert: impl Fn(&str, &Value) -> Value) -> Value {
    let mut converted = Tree::new();
    for source in SOURCES {
        if let Some(value) = metric.get(source).filter(|value| !value.is_null()) {
            converted.insert(source.to_owned(), convert(source, value));
        }
    }
    let kind = metric.get("type").cloned().unwrap_or(json!(""));
    converted.insert("type".to_owned(), kind);
    Value::Object(converted)
}

/// Sets a value one or two levels deep.
fn set(tree: &mut Value, place: &str, value: Value) {
    let mut parts = place.trim_start_matches('/').split('/');
    match (parts.next(), parts.next()) {
        (Some(outer), Some(inner)) => tree[outer][inner] = value,
        (Some(outer), None) => tree[outer] = value,
        _ => {}
    }
}

fn remove(tree: &mut Value, outer: &str, inner: &str) {
    if let Some(object) = tree.get_mut(outer).and_then(Value::as_object_mut) {
        object.remove(inner);
    }
}

/// Whether a metric, wanted or measured, is about CPU.
pub(super) fn is_cpu(metric: &Value) -> bool {
    metric.get("type") == Some(&json!("Resource"))
        && metric.pointer("/resource/name") == Some(&json!("cpu"))
}

pub(super) fn target_utilization(metric: &Value) -> Option<&Value> {
    metric.pointer("/resource/target/averageUtilization")
}

pub(super) fn current_utilization(metric: &Value) -> Option<&Value> {
    metric.pointer("/resource/current/averageUtilization")
}

/// CPU utilization in v2, as it is wanted.
pub(super) fn cpu_target(percent: Value) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    })
}

/// The same as it is measured.
pub(super) fn cpu_current(percent: Value) -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "current": {"averageUtilization": percent}},
    })
}
