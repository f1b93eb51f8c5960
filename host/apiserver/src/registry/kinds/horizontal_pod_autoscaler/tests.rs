use serde_json::json;

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, object, row, status_errors, with,
};

const STRATEGY: HorizontalPodAutoscalerStrategy = HorizontalPodAutoscalerStrategy;
const V1: HorizontalPodAutoscalerV1Strategy = HorizontalPodAutoscalerV1Strategy;

fn base() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
        },
    })
}

fn cpu(percent: i32) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

#[test]
fn defaults() {
    let filled = json(&created(&STRATEGY, &base()));
    assert_eq!(filled["spec"]["minReplicas"], 1);
    assert_eq!(filled["spec"]["metrics"], json!([cpu(80)]));
    assert_eq!(filled["spec"]["behavior"], Value::Null);
    let paced = with(
        &base(),
        &[("/spec/behavior/scaleUp/selectPolicy", json!("Min"))],
    );
    let policy =
        |kind: &str, value: i32| json!({"type": kind, "value": value, "periodSeconds": 15});
    assert_eq!(
        json(&created(&STRATEGY, &paced))["spec"]["behavior"],
        json!({
            "scaleUp": {"selectPolicy": "Min", "stabilizationWindowSeconds": 0, "policies": [policy("Pods", 4), policy("Percent", 100)]},
            "scaleDown": {"selectPolicy": "Max", "policies": [policy("Percent", 100)]},
        })
    );
}

#[test]
fn validation() {
    let metric = "/spec/metrics";
    let up = "/spec/behavior/scaleUp";
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![
                ("/spec/minReplicas", json!(0)),
                ("/spec/maxReplicas", json!(-1)),
            ],
            vec![
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than 0",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
            ],
        ),
        (
            vec![(
                "/spec/scaleTargetRef",
                json!({"kind": "", "name": "a/b", "apiVersion": "a/b/c"}),
            )],
            vec![
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ],
        ),
        (
            vec![(metric, json!([{"type": "Magic"}]))],
            vec![
                "spec.metrics[0].type: Unsupported value: \"Magic\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
            ],
        ),
        (
            vec![(metric, json!([{"type": "Pods"}]))],
            vec![
                "spec.metrics[0].pods: Required value: must populate information for the given metric source",
            ],
        ),
        (
            vec![(
                metric,
                json!([with(
                    &cpu(80),
                    &[(
                        "/pods",
                        json!({"metric": {"name": "x"}, "target": {"type": "AverageValue", "averageValue": "1"}})
                    )]
                )]),
            )],
            vec!["spec.metrics[0].pods: Forbidden: must populate the given metric source only"],
        ),
        (
            vec![(
                metric,
                json!([
                    {"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "Sum", "averageValue": "0"}}},
                    {"type": "External", "external": {"metric": {"name": "x"}, "target": {"type": "Value"}}},
                    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "", "target": {"type": "Utilization", "averageUtilization": 0, "averageValue": "1"}}},
                ]),
            )],
            vec![
                "spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
                "spec.metrics[0].pods.target.type: Invalid value: \"Sum\": must be either Utilization, Value, or AverageValue",
                "spec.metrics[0].pods.target.averageValue: Invalid value: \"0\": must be positive",
                "spec.metrics[1].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target",
                "spec.metrics[2].containerResource.container: Required value: must specify a container",
                "spec.metrics[2].containerResource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "spec.metrics[2].containerResource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
            ],
        ),
        (
            vec![(
                up,
                json!({"stabilizationWindowSeconds": 3601, "selectPolicy": "Any", "tolerance": "-1", "policies": [{"type": "Nodes", "value": 0, "periodSeconds": 1801}]}),
            )],
            vec![
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"Any\": supported values: \"Disabled\", \"Max\", \"Min\"",
                "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"Nodes\": supported values: \"Percent\", \"Pods\"",
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
                "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater or equal to zero",
            ],
        ),
    ] {
        let autoscaler = with(&base(), &changes);
        assert_eq!(
            create_errors(&STRATEGY, &autoscaler),
            expected,
            "{changes:?}"
        );
    }
    let errors = create_errors(&V1, &with(&base(), &[("/spec/maxReplicas", json!(0))]));
    assert_eq!(
        errors,
        [
            "spec.maxReplicas: Invalid value: 0: must be greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`"
        ]
    );
    let status = with(
        &base(),
        &[(
            "/status",
            json!({"currentReplicas": -1, "desiredReplicas": -2}),
        )],
    );
    for errors in [
        status_errors(&STRATEGY, &base(), &status),
        status_errors(&V1, &base(), &status),
    ] {
        assert_eq!(
            errors,
            [
                "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0",
            ]
        );
    }
}

fn convert(convert: fn(&[u8]) -> Result<Vec<u8>, pilothouse_api::Status>, object: &Value) -> Value {
    let converted = convert(object.to_string().as_bytes()).expect("a conversion");
    serde_json::from_slice(&converted).expect("JSON")
}

/// Everything that v2 can say.
fn rich() -> Value {
    let object = json!({"apiVersion": "v1", "kind": "Service", "name": "s"});
    let metric = json!({"name": "m", "selector": {"matchLabels": {"a": "b"}}});
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "resourceVersion": "7", "annotations": {"note": "kept"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 5,
            "metrics": [
                {"type": "Object", "object": {"describedObject": object, "metric": metric, "target": {"type": "Value", "value": "10"}}},
                {"type": "Object", "object": {"describedObject": object, "metric": metric, "target": {"type": "AverageValue", "averageValue": "10"}}},
                {"type": "Pods", "pods": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1k"}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "External", "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "5"}}},
                cpu(60),
            ],
            "behavior": {
                "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}], "tolerance": "50m"},
                "scaleDown": {"selectPolicy": "Disabled", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
            },
        },
        "status": {
            "observedGeneration": 3,
            "currentReplicas": 3,
            "desiredReplicas": 4,
            "lastScaleTime": "2026-01-01T00:00:00Z",
            "currentMetrics": [
                {"type": "Object", "object": {"describedObject": object, "metric": metric, "current": {"averageValue": "3"}}},
                {"type": "Pods", "pods": {"metric": metric, "current": {"averageValue": "2"}}},
                {"type": "External", "external": {"metric": metric, "current": {"value": "2", "averageValue": "1"}}},
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 55, "averageValue": "550m"}}},
            ],
            "conditions": [{"type": "AbleToScale", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

#[test]
fn v1_shows_what_it_has_fields_for_and_annotates_the_rest() {
    let old = convert(conversion::from_stored, &rich());
    assert_eq!(old["apiVersion"], "autoscaling/v1");
    assert_eq!(
        old["spec"],
        json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 5,
            "targetCPUUtilizationPercentage": 60,
        })
    );
    assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 55);
    let annotation = |name: &str| -> Value {
        let key = format!("autoscaling.alpha.kubernetes.io/{name}");
        let text = old["metadata"]["annotations"][key].as_str().expect(name);
        serde_json::from_str(text).expect("JSON")
    };
    assert_eq!(
        annotation("metrics")[2],
        json!({"type": "Pods", "pods": {"metricName": "m", "selector": {"matchLabels": {"a": "b"}}, "targetAverageValue": "1k"}})
    );
    assert_eq!(annotation("metrics").as_array().map(Vec::len), Some(6));
    assert_eq!(
        annotation("behavior")["ScaleUp"]["Policies"][0],
        json!({"Type": "Pods", "Value": 4, "PeriodSeconds": 15})
    );
    assert_eq!(annotation("conditions")[0]["type"], "AbleToScale");
    assert_eq!(old["metadata"]["annotations"]["note"], "kept");
}

#[test]
fn nothing_is_lost_on_the_way_through_v1() {
    let plain = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 2, "metrics": [cpu(80)]},
        "status": {"desiredReplicas": 0},
    });
    for stored in [rich(), plain] {
        let back = convert(
            conversion::to_stored,
            &convert(conversion::from_stored, &stored),
        );
        assert_eq!(back, stored);
    }
}

#[test]
fn what_is_written_through_v1_has_metrics_in_v2() {
    for (changes, expected) in [
        (vec![], json!([cpu(80)])),
        (
            vec![("/spec/targetCPUUtilizationPercentage", json!(50))],
            json!([cpu(50)]),
        ),
        (
            vec![(
                "/metadata/annotations",
                json!({"autoscaling.alpha.kubernetes.io/metrics": r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"2"}}]"#}),
            )],
            json!([{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "2"}}}]),
        ),
    ] {
        let stored = convert(conversion::to_stored, &with(&base(), &changes));
        assert_eq!(stored["spec"]["metrics"], expected, "{changes:?}");
        assert_eq!(stored["metadata"], json!({"name": "web"}));
    }
    let broken = with(
        &base(),
        &[(
            "/metadata/annotations",
            json!({"autoscaling.alpha.kubernetes.io/metrics": "{"}),
        )],
    );
    let refused = conversion::to_stored(broken.to_string().as_bytes()).expect_err("a refusal");
    assert_eq!(refused.code, 400);
}

#[test]
fn a_status_in_annotations_is_a_status() {
    let conditions = "autoscaling.alpha.kubernetes.io/conditions";
    let sent = with(
        &base(),
        &[(
            "/metadata/annotations",
            json!({conditions: "[]", "note": "kept"}),
        )],
    );
    let filled = json(&created(&V1, &sent));
    assert_eq!(filled["metadata"]["annotations"], json!({"note": "kept"}));

    let old = object(&with(
        &base(),
        &[("/metadata/annotations", json!({conditions: "[1]"}))],
    ));
    let mut new = object(&sent);
    V1.prepare_for_update(&crate::registry::kinds::testing::context(), &mut new, &old);
    assert_eq!(
        json(&new)["metadata"]["annotations"],
        json!({conditions: "[1]", "note": "kept"})
    );
}

#[test]
fn rows() {
    let old = convert(conversion::from_stored, &rich());
    for cells in [row(&STRATEGY, &rich()), row(&V1, &old)] {
        assert_eq!(
            cells,
            [
                ("Name", json!("web")),
                ("Reference", json!("Deployment/web")),
                (
                    "Targets",
                    json!("<unknown>/10, <unknown>/10 (avg) + 5 more...")
                ),
                ("MinPods", json!("2")),
                ("MaxPods", json!(5)),
                ("Replicas", json!(3)),
                ("Age", json!("<unknown>")),
            ]
        );
    }
    let measured = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 42, "averageValue": "1"}}}]);
    let simple = with(
        &base(),
        &[
            ("/spec/metrics", json!([cpu(80)])),
            ("/status/currentMetrics", measured),
            ("/status/desiredReplicas", json!(1)),
        ],
    );
    assert_eq!(row(&STRATEGY, &simple)[2].1, json!("cpu: 42%/80%"));
}
