use super::*;

fn read(json: &str) -> Result<Manifest, String> {
    let exported = [
        "pilothouse:admission/mutate@0.1.0",
        "pilothouse:controller/reconcile@0.1.0",
    ];
    let interfaces: Vec<Interface> = exported
        .iter()
        .filter_map(|i| Interface::parse(i))
        .collect();
    Manifest::read(json, &interfaces).map_err(|error| error.to_string())
}

fn admission(name: &str, settings: &str) -> String {
    format!(r#"{{"plugins": [{{"name": "{name}", "admission": {{"rules": []{settings}}}}}]}}"#)
}

#[test]
fn a_small_manifest_has_defaults() {
    let manifest = read(&admission("x", "")).unwrap();
    let settings = manifest.plugins[0].admission.as_ref().unwrap();
    assert_eq!(settings.object, ObjectNeed::Full);
    assert_eq!(settings.failure_policy, FailurePolicy::Fail);
    assert_eq!(settings.phases, [Phase::Mutate, Phase::Validate]);
}

#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    let two = r#"{"plugins": [{"name": "a", "admission": {"rules": []}}, {"name": "a", "admission": {"rules": []}}]}"#;
    let cases = [
        ("{}", "missing field `plugins`"),
        (r#"{"plugins": []}"#, "it has 0 plugins"),
        (&admission("x", r#", "order": "first""#), "invalid type"),
        (&admission("x", r#", "ordr": 1"#), "unknown field `ordr`"),
        (
            &admission("x", r#", "phases": ["validate"]"#),
            "no phase whose interface",
        ),
        (&admission("-x", ""), "no valid name"),
        (&admission("a b", ""), "no valid name"),
        (r#"{"plugins": [{"name": "x"}]}"#, "no section"),
        (
            r#"{"plugins": [{"name": "x", "scheduler": {"interfaces": ["filter"]}}]}"#,
            "exports no interface of it",
        ),
        (two, "two admission plugins named a"),
    ];
    for (json, expected) in cases {
        let error = read(json).unwrap_err();
        assert!(error.contains(expected), "{json}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn controllers_map_events_to_keys() {
    let json = r#"{"plugins": [{"name": "c", "controller": {"watches": [
        {"version": "v1", "resource": "pods", "map": "self"},
        {"version": "v1", "resource": "pods", "map": {"owner": {"apiVersion": "apps/v1", "kind": "ReplicaSet"}}},
        {"version": "v1", "resource": "pods", "map": {"label": {"key": "a", "clusterScoped": true}}}
    ]}}]}"#;
    let manifest = read(json).unwrap();
    let settings = manifest.plugins[0].controller.as_ref().unwrap();
    assert_eq!(settings.watches[0].map, KeyMap::Own);
    assert_eq!(settings.workers, 4);
    assert!(matches!(
        &settings.watches[2].map,
        KeyMap::Label {
            cluster_scoped: true,
            ..
        }
    ));
}

#[test]
fn rules_match_as_those_of_webhooks() {
    let settings = |resources: &[&str], scope: &str| -> AdmissionSettings {
        serde_json::from_value(serde_json::json!({
            "rules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": resources, "scope": scope,
            }]
        }))
        .unwrap()
    };
    // resources, scope, resource, subresource, namespaced
    let cases = [
        (&["pods"][..], "*", "pods", "", true, true),
        (&["pods"], "*", "pods", "status", true, false),
        (&["pods/status"], "*", "pods", "status", true, true),
        (&["pods/*"], "*", "pods", "status", true, true),
        (&["pods/*"], "*", "pods", "", true, true),
        (&["*"], "*", "nodes", "", false, true),
        (&["*"], "*", "nodes", "status", false, false),
        (&["*/*"], "*", "nodes", "status", false, true),
        (&["*/scale"], "*", "pods", "scale", true, true),
        (&["*"], "Namespaced", "nodes", "", false, false),
        (&["*"], "Cluster", "nodes", "", false, true),
    ];
    for (resources, scope, resource, subresource, namespaced, expected) in cases {
        let matched = settings(resources, scope).matches(
            OperationType::Create,
            "",
            "v1",
            resource,
            subresource,
            namespaced,
        );
        assert_eq!(
            matched, expected,
            "{resources:?} {scope} {resource}/{subresource}"
        );
    }
    let all = settings(&["*/*"], "*");
    assert!(!all.matches(OperationType::Delete, "", "v1", "pods", "", true));
    assert!(!all.matches(OperationType::Create, "apps", "v1", "pods", "", true));
}
