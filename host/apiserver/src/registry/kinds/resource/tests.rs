use serde_json::{Value, json};

use super::*;
use crate::registry::kinds::testing::{
    create_errors, created, json, row, status_errors, update_errors, with,
};

fn claim() -> Value {
    json!({
        "metadata": {"name": "gpu", "namespace": "a"},
        "spec": {"devices": {"requests": [
            {"name": "one", "exactly": {"deviceClassName": "gpu.example.com"}},
            {"name": "some", "firstAvailable": [{"name": "big", "deviceClassName": "big.example.com"}]},
        ]}},
    })
}

fn template_of(claim: &Value) -> Value {
    json!({"metadata": claim["metadata"], "spec": {"spec": claim["spec"]}})
}

#[test]
fn requests_are_for_one_device_by_default() {
    let requests = |made: &Value| made["devices"]["requests"].clone();
    let expected = json!([
        {"name": "one", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}},
        {"name": "some", "firstAvailable": [{"name": "big", "deviceClassName": "big.example.com", "allocationMode": "ExactCount", "count": 1}]},
    ]);
    let made = json(&created(&ResourceClaimStrategy, &claim()));
    assert_eq!(requests(&made["spec"]), expected);
    let made = json(&created(
        &ResourceClaimTemplateStrategy,
        &template_of(&claim()),
    ));
    assert_eq!(requests(&made["spec"]["spec"]), expected);
}

#[test]
fn claims() {
    const DEVICES: &str = "/spec/devices";
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/spec", json!({}))], vec![]),
        (
            vec![("/spec/devices/requests/0", json!({"name": "one"}))],
            vec![
                "devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            ],
        ),
        (
            vec![(
                "/spec/devices/requests/1/exactly",
                json!({"deviceClassName": "x"}),
            )],
            vec![
                "devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            ],
        ),
        (
            vec![("/spec/devices/requests/1/name", json!("one"))],
            vec!["devices.requests[1].name: Duplicate value: \"one\""],
        ),
        (
            vec![(
                "/spec/devices/requests/0/exactly",
                json!({"deviceClassName": "", "allocationMode": "All", "count": 2, "selectors": [{}]}),
            )],
            vec![
                "devices.requests[0].exactly.deviceClassName: Required value",
                "devices.requests[0].exactly.selectors[0].cel: Required value",
                "devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
            ],
        ),
        (
            vec![("/spec/devices/requests/0/exactly/count", json!(-1))],
            vec!["devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"],
        ),
        (
            vec![(
                "/spec/devices/requests/0/exactly/tolerations",
                json!([{"operator": "Exists", "value": "x"}, {"operator": "Near", "effect": "Never"}]),
            )],
            vec![
                "devices.requests[0].exactly.tolerations[0].value: Invalid value: \"x\": must be empty for operator `Exists`",
                "devices.requests[0].exactly.tolerations[1].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\"",
                "devices.requests[0].exactly.tolerations[1].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
            ],
        ),
        (
            vec![(
                "/spec/devices/constraints",
                json!([{"requests": ["one", "some/big"], "matchAttribute": "example.com/numa"}]),
            )],
            vec![],
        ),
        (
            vec![(
                "/spec/devices/constraints",
                json!([{"requests": ["two", "some/small", "a/b/c"], "matchAttribute": "numa"}, {}]),
            )],
            vec![
                "devices.constraints[0].requests[0]: Invalid value: \"two\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                "devices.constraints[0].requests[1]: Invalid value: \"some/small\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                "devices.constraints[0].requests[2]: Invalid value: \"a/b/c\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                "devices.constraints[0].matchAttribute: Invalid value: \"numa\": must include a domain",
                "devices.constraints[1].matchAttribute: Required value",
            ],
        ),
        (
            vec![(
                "/spec/devices/config",
                json!([{"requests": ["one"]}, {"opaque": {"driver": "d.example.com", "parameters": [1]}}]),
            )],
            vec![
                "devices.config[0].opaque: Required value",
                "devices.config[1].opaque.parameters: Invalid value: \"<value omitted>\": parameters must be a valid JSON object",
            ],
        ),
    ] {
        let object = with(&claim(), &changes);
        let at = |prefix: &str| -> Vec<String> {
            expected
                .iter()
                .map(|e: &&str| format!("{prefix}{e}"))
                .collect()
        };
        assert_eq!(
            create_errors(&ResourceClaimStrategy, &object),
            at("spec."),
            "{DEVICES}"
        );
        let template = template_of(&object);
        assert_eq!(
            create_errors(&ResourceClaimTemplateStrategy, &template),
            at("spec.spec.")
        );
    }
}

#[test]
fn specs_stay() {
    let other = with(
        &claim(),
        &[("/spec/devices/requests/0/exactly/count", json!(2))],
    );
    for errors in [
        update_errors(&ResourceClaimStrategy, &claim(), &other),
        update_errors(
            &ResourceClaimTemplateStrategy,
            &template_of(&claim()),
            &template_of(&other),
        ),
    ] {
        assert!(
            errors.len() == 1 && errors[0].ends_with("field is immutable"),
            "{errors:?}"
        );
    }
    assert_eq!(
        update_errors(&ResourceClaimStrategy, &claim(), &claim()),
        [""; 0]
    );
}

#[test]
fn the_status_of_a_claim() {
    let result =
        json!({"request": "one", "driver": "d.example.com", "pool": "node-0", "device": "gpu-0"});
    let allocation = json!({"devices": {"results": [result]}});
    let user = json!({"resource": "pods", "name": "web", "uid": "u"});
    let allocated = with(&claim(), &[("/status/allocation", allocation.clone())]);
    let of = |status: Value| with(&claim(), &[("/status", status)]);
    for (old, new, expected) in [
        (claim(), allocated.clone(), vec![]),
        (
            claim(),
            of(json!({"reservedFor": [user]})),
            vec!["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
        ),
        (
            allocated.clone(),
            with(
                &allocated,
                &[("/status/reservedFor", json!([user, user, {}]))],
            ),
            vec![
                "status.reservedFor[2].resource: Required value",
                "status.reservedFor[2].name: Required value",
                "status.reservedFor[2].uid: Required value",
                "status.reservedFor[1].uid: Duplicate value: \"u\"",
            ],
        ),
        (
            claim(),
            of(
                json!({"allocation": {"devices": {"results": [{"request": "two", "driver": "", "pool": "", "device": "gpu-0"}]}}}),
            ),
            vec![
                "status.allocation.devices.results[0].request: Invalid value: \"two\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
                "status.allocation.devices.results[0].driver: Required value",
                "status.allocation.devices.results[0].pool: Required value",
            ],
        ),
        (
            allocated.clone(),
            with(
                &allocated,
                &[(
                    "/status/devices",
                    json!([{"driver": "d.example.com", "pool": "node-0", "device": "gpu-1"}]),
                )],
            ),
            vec![
                "status.devices[0]: Invalid value: \"d.example.com/node-0/gpu-1\": must be an allocated device in the claim",
            ],
        ),
    ] {
        assert_eq!(status_errors(&ResourceClaimStrategy, &old, &new), expected);
    }
    let moved = with(
        &allocated,
        &[(
            "/status/allocation/devices/results/0/device",
            json!("gpu-1"),
        )],
    );
    let errors = status_errors(&ResourceClaimStrategy, &allocated, &moved);
    assert!(
        errors.len() == 1 && errors[0].ends_with("field is immutable"),
        "{errors:?}"
    );
    let made = json(&created(&ResourceClaimStrategy, &allocated));
    assert_eq!(made["status"], json!({}));
    for (object, state) in [
        (claim(), "pending"),
        (allocated.clone(), "allocated"),
        (
            with(&allocated, &[("/status/reservedFor", json!([user]))]),
            "allocated,reserved",
        ),
        (
            with(
                &claim(),
                &[("/metadata/deletionTimestamp", json!("2026-01-02T03:04:05Z"))],
            ),
            "deleted",
        ),
    ] {
        assert_eq!(
            row(&ResourceClaimStrategy, &object)[1],
            ("State", json!(state))
        );
    }
}

#[test]
fn device_classes() {
    let base = json!({"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}});
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![(
                "/spec/selectors/0",
                json!({"cel": {"expression": "x".repeat(10 * 1024 + 1)}}),
            )],
            vec!["spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"],
        ),
        (
            vec![(
                "/spec/config",
                json!([{"opaque": {"driver": "", "parameters": null}}]),
            )],
            vec![
                "spec.config[0].opaque.driver: Required value",
                "spec.config[0].opaque.parameters: Required value",
            ],
        ),
    ] {
        assert_eq!(
            create_errors(&DeviceClassStrategy, &with(&base, &changes)),
            expected
        );
    }
}

fn slice() -> Value {
    json!({
        "metadata": {"name": "node-0-gpus"},
        "spec": {
            "driver": "d.example.com",
            "nodeName": "node-0",
            "pool": {"name": "node-0", "generation": 0, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "x"}, "example.com/version": {"version": "1.2.3"}}}],
        },
    })
}

#[test]
fn slices() {
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/spec/nodeName", json!(null))],
            vec![
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ],
        ),
        (
            vec![("/spec/allNodes", json!(true))],
            vec![
                "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
            ],
        ),
        (
            vec![(
                "/spec/pool",
                json!({"name": "", "generation": -1, "resourceSliceCount": 0}),
            )],
            vec![
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
            ],
        ),
        (
            vec![("/spec/devices/-", json!({"name": "gpu-0"}))],
            vec!["spec.devices[1].name: Duplicate value: \"gpu-0\""],
        ),
        (
            vec![(
                "/spec/devices/0/attributes",
                json!({"a": {}, "b": {"int": 1, "bool": true}, "c": {"version": "1.2"}, "1d": {"int": 1}}),
            )],
            vec![
                "spec.devices[0].attributes[1d]: Invalid value: \"1d\": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
                "spec.devices[0].attributes[a]: Required value: exactly one value must be specified",
                "spec.devices[0].attributes[b]: Invalid value: 2: exactly one value must be specified",
                "spec.devices[0].attributes[c].version: Invalid value: \"1.2\": must be a string compatible with semver.org spec 2.0.0",
            ],
        ),
        (
            vec![(
                "/spec/devices/0/taints",
                json!([{"key": "a", "effect": ""}]),
            )],
            vec!["spec.devices[0].taints[0].effect: Required value"],
        ),
    ] {
        assert_eq!(
            create_errors(&ResourceSliceStrategy, &with(&slice(), &changes)),
            expected
        );
    }
    let moved = with(&slice(), &[("/spec/nodeName", json!("node-1"))]);
    assert_eq!(
        update_errors(&ResourceSliceStrategy, &slice(), &moved),
        ["spec.nodeName: Invalid value: \"node-1\": field is immutable"]
    );
    assert_eq!(
        row(&ResourceSliceStrategy, &slice()),
        [
            ("Name", json!("node-0-gpus")),
            ("Node", json!("node-0")),
            ("Driver", json!("d.example.com")),
            ("Pool", json!("node-0")),
            ("Age", json!("<unknown>")),
        ]
    );
}
