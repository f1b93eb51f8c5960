use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{create_errors, created, json, row, with};

fn range(limit: Value) -> Value {
    json!({"metadata": {"name": "bounds"}, "spec": {"limits": [limit]}})
}

#[test]
fn defaults() {
    for (limit, expected) in [
        (
            json!({"type": "Container", "max": {"cpu": "1000m", "memory": "1Gi"}, "default": {"cpu": "500m"}, "min": {"ephemeral-storage": "1Gi"}}),
            json!({
                "type": "Container",
                "max": {"cpu": "1", "memory": "1Gi"},
                "min": {"ephemeral-storage": "1Gi"},
                "default": {"cpu": "500m", "memory": "1Gi"},
                "defaultRequest": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
            }),
        ),
        (
            json!({"type": "Pod", "max": {"cpu": "1"}}),
            json!({"type": "Pod", "max": {"cpu": "1"}}),
        ),
    ] {
        let filled = json(&created(&LimitRangeStrategy, &range(limit)));
        assert_eq!(filled["spec"]["limits"][0], expected);
    }
}

#[test]
fn validation() {
    for (limit, expected) in [
        (json!({"type": "Container", "max": {"cpu": "1"}}), vec![]),
        (
            json!({"type": "Room", "max": {"cpu": "1"}}),
            vec![
                "spec.limits[0].type: Invalid value: \"Room\": must be a standard limit type or fully qualified",
            ],
        ),
        (
            json!({"type": "Pod", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}),
            vec![
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                "spec.limits[0].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
            ],
        ),
        (
            json!({"type": "Container", "min": {"storage": "1"}, "default": {"storage": "1"}, "defaultRequest": {"storage": "1"}}),
            vec![
                "spec.limits[0].min[storage]: Invalid value: \"storage\": must be a standard resource for containers",
                "spec.limits[0].default[storage]: Invalid value: \"storage\": must be a standard resource for containers",
                "spec.limits[0].defaultRequest[storage]: Invalid value: \"storage\": must be a standard resource for containers",
            ],
        ),
        (
            json!({"type": "Container", "min": {"cpu": "3"}, "max": {"cpu": "2"}, "default": {"cpu": "4"}, "defaultRequest": {"cpu": "5"}}),
            vec![
                "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 2",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"5\": default request value 5 is greater than max value 2",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"5\": default request value 5 is greater than default limit value 4",
                "spec.limits[0].default[cpu]: Invalid value: \"2\": default value 4 is greater than max value 2",
            ],
        ),
        (
            json!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}),
            vec![
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
            ],
        ),
        (
            json!({"type": "Pod", "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "500m"}}),
            vec![
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
            ],
        ),
        (
            json!({"type": "PersistentVolumeClaim", "max": {"requests.storage": "1"}}),
            vec![
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
            ],
        ),
        (
            json!({"type": "Container", "default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": "1"}}),
            vec![
                "spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in example.com/gpu",
            ],
        ),
    ] {
        let errors = create_errors(&LimitRangeStrategy, &range(limit.clone()));
        assert_eq!(errors, expected, "{limit}");
    }
    let item = json!({"type": "Pod", "max": {"cpu": "1"}});
    let twice = with(&range(item.clone()), &[("/spec/limits/1", item)]);
    assert_eq!(
        create_errors(&LimitRangeStrategy, &twice),
        ["spec.limits[1].type: Duplicate value: \"Pod\""]
    );
}

#[test]
fn rows() {
    let created = "2026-01-01T00:00:00Z";
    let range = with(
        &range(json!({"type": "Pod"})),
        &[("/metadata/creationTimestamp", json!(created))],
    );
    assert_eq!(
        row(&LimitRangeStrategy, &range),
        [("Name", json!("bounds")), ("Created At", json!(created))]
    );
}
