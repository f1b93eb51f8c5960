//! What holds for the table as a whole, and the kinds whose rules are few.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{
    testing::{
        context, create_errors, defaulted, json as encoded, object, row, status_errors,
        update_errors, with,
    },
    *,
};
use crate::registry::{
    allocation::{DEFAULT_CLUSTER_IP_RANGE, DEFAULT_NODE_PORTS},
    erased::AnyObject,
    strategy::Strategy,
};

fn table() -> Vec<Arc<dyn ErasedStrategy>> {
    let range = DEFAULT_CLUSTER_IP_RANGE.parse().expect("a range");
    built_in(&Allocators::new(&[range], DEFAULT_NODE_PORTS))
}

#[path = "../../../tests/api/facts.rs"]
mod facts;

/// Names, scope, storage prefix and the rules of writing, beside what Kubernetes has.
#[test]
fn every_kind_is_where_kubernetes_has_it() {
    let mut facts: HashMap<String, facts::Fact> = facts::facts()
        .into_iter()
        .filter(|fact| !fact.storage_prefix.is_empty())
        .map(|fact| {
            (
                format!("{}/{}/{}", fact.group, fact.version, fact.resource),
                fact,
            )
        })
        .collect();
    for strategy in table() {
        let info = strategy.resource();
        if info.gvr.group == "plugins.pilothouse.dev" {
            continue; // ours
        }
        let name = format!(
            "{}/{}/{}",
            info.gvr.group, info.gvr.version, info.gvr.resource
        );
        let fact = facts
            .remove(&name)
            .unwrap_or_else(|| panic!("{name} is not of v1.36"));
        assert_eq!(info.kind, fact.kind, "{name}");
        assert_eq!(info.storage_prefix, fact.storage_prefix, "{name}");
        assert_eq!(info.namespaced, fact.namespaced, "{name}");
        assert_eq!(info.short_names, fact.short_names, "{name}");
        assert_eq!(info.categories, fact.categories, "{name}");
        let rules = [
            ("puts", strategy.allow_create_on_update()),
            ("version", !strategy.allow_unconditional_update()),
            ("returns", strategy.returns_deleted_object()),
        ];
        let holding = rules
            .iter()
            .filter(|(_, holds)| *holds)
            .map(|(rule, _)| *rule);
        assert_eq!(holding.collect::<Vec<_>>(), fact.rules, "{name}");
    }
    let missing: Vec<String> = facts
        .into_iter()
        .filter(|(_, fact)| fact.served)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(missing, [""; 0], "not served");
}

#[test]
fn put_and_delete_behave_as_documented() {
    let by = |holds: fn(&dyn ErasedStrategy) -> bool| -> HashSet<String> {
        let table = table();
        let kinds = table.iter().filter(|s| holds(s.as_ref()));
        kinds
            .map(|s| s.resource().gvr.resource.to_string())
            .collect()
    };
    let set =
        |names: &[&str]| -> HashSet<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    assert_eq!(
        by(|s| s.orphans_by_default()),
        set(&["jobs", "replicationcontrollers"])
    );
    assert_eq!(by(|s| !s.garbage_collected()), set(&["events"]));
}

#[test]
fn rows_have_as_many_cells_as_there_are_columns_even_for_empty_objects() {
    for strategy in table() {
        let info = strategy.resource();
        let json = json!({"apiVersion": info.gvr.api_version(), "kind": info.kind, "metadata": {"name": "x"}});
        let object: AnyObject = strategy
            .decode(json.to_string().as_bytes())
            .expect("an object");
        let columns = strategy.columns();
        assert!(columns.iter().any(|c| c.format == "name"), "{}", info.kind);
        assert_eq!(
            strategy.row(&object, testing::now()).len(),
            columns.len(),
            "{}",
            info.kind
        );
        assert!(
            columns.iter().all(|c| !c.description.is_empty()),
            "{}",
            info.kind
        );
    }
}

#[test]
fn empty_objects_are_judged_and_not_tripped_over() {
    for strategy in table() {
        let info = strategy.resource().clone();
        let json = json!({"apiVersion": info.gvr.api_version(), "kind": info.kind});
        let mut object = strategy
            .decode(json.to_string().as_bytes())
            .expect("an object");
        let old = object.clone();
        strategy.default(&mut object);
        strategy.prepare_for_create(&context(), &mut object);
        strategy.prepare_for_update(&context(), &mut object, &old);
        for errors in [
            strategy.validate(&object),
            strategy.validate_create(&object),
            strategy.validate_update(&object, &old),
            strategy.validate_status_update(&object, &old),
        ] {
            assert!(
                errors.iter().all(|e| !e.message.is_empty()),
                "{}",
                info.kind
            );
        }
    }
}

#[test]
fn replica_sets() {
    let base = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let strategy = replica_set::ReplicaSetStrategy;
    assert_eq!(encoded(&defaulted(&strategy, &base))["spec"]["replicas"], 1);
    assert_eq!(create_errors(&strategy, &base), [""; 0]);
    let other = with(
        &base,
        &[
            ("/spec/selector/matchLabels", json!({"a": "c"})),
            ("/spec/template/metadata/labels", json!({"a": "c"})),
        ],
    );
    assert_eq!(
        update_errors(&strategy, &base, &other),
        ["spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable"]
    );
    let status = with(
        &base,
        &[("/status", json!({"replicas": 1, "fullyLabeledReplicas": 2}))],
    );
    assert_eq!(
        status_errors(&strategy, &base, &status),
        ["status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas"]
    );
    let shown = row(
        &strategy,
        &with(
            &base,
            &[
                ("/spec/replicas", json!(3)),
                ("/status", json!({"replicas": 2, "readyReplicas": 1})),
            ],
        ),
    );
    assert_eq!(
        shown,
        [
            ("Name", json!("web")),
            ("Desired", json!(3)),
            ("Current", json!(2)),
            ("Ready", json!(1)),
            ("Age", json!("<unknown>")),
            ("Containers", json!("c")),
            ("Images", json!("i")),
            ("Selector", json!("a=b")),
        ]
    );
}

#[test]
fn replication_controllers_take_selector_and_labels_from_the_template() {
    let base = json!({
        "metadata": {"name": "web"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let strategy = replication_controller::ReplicationControllerStrategy;
    let filled = encoded(&defaulted(&strategy, &base));
    assert_eq!(filled["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(filled["spec"]["selector"], json!({"a": "b"}));
    assert_eq!(filled["spec"]["replicas"], 1);
    assert_eq!(create_errors(&strategy, &base), [""; 0]);
    let unlabelled = with(&base, &[("/spec/template/metadata", json!({}))]);
    assert_eq!(
        create_errors(&strategy, &unlabelled),
        ["spec.selector: Required value"]
    );
    let scale = strategy.scale().expect("a scale");
    assert_eq!((scale.selector)(&object(&filled)), "a=b");
}

#[test]
fn service_accounts_keep_only_the_names_of_secrets() {
    let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "s", "namespace": "x", "kind": "Secret"}]});
    let mut created = object(&account);
    service_account::ServiceAccountStrategy.prepare_for_create(&context(), &mut created);
    assert_eq!(encoded(&created)["secrets"], json!([{"name": "s"}]));
    assert_eq!(
        row(&service_account::ServiceAccountStrategy, &account)[1],
        ("Secrets", json!(1))
    );
}

#[test]
fn leases() {
    let strategy = lease::LeaseStrategy;
    let base = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    for (changes, expected) in [
        (vec![], vec![]),
        (vec![("/spec/holderIdentity", json!(""))], vec![]),
        (
            vec![("/spec/leaseDurationSeconds", json!(0))],
            vec!["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
        ),
        (
            vec![("/spec/leaseTransitions", json!(-1))],
            vec!["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            vec![("/spec/preferredHolder", json!("b"))],
            vec!["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
        ),
    ] {
        assert_eq!(create_errors(&strategy, &with(&base, &changes)), expected);
    }
    assert_eq!(row(&strategy, &base)[1], ("Holder", json!("a")));
}

#[test]
fn endpoints_() {
    let strategy = endpoints::EndpointsStrategy;
    let base = json!({"metadata": {"name": "web"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}]}]});
    assert_eq!(
        encoded(&defaulted(&strategy, &base))["subsets"][0]["ports"],
        json!([{"port": 80, "protocol": "TCP"}])
    );
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/subsets/0/addresses", json!([]))],
            vec!["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
        ),
        (
            vec![("/subsets/0/addresses/0/ip", json!("169.254.0.1"))],
            vec![
                "subsets[0].addresses[0].ip: Invalid value: \"169.254.0.1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
            ],
        ),
        (
            vec![("/subsets/0/ports/-", json!({"port": 81, "name": "b"}))],
            vec!["subsets[0].ports[0].name: Required value"],
        ),
    ] {
        assert_eq!(create_errors(&strategy, &with(&base, &changes)), expected);
    }
    let more = with(
        &base,
        &[("/subsets/0/ports", json!([{"port": 80}, {"port": 81}]))],
    );
    for (endpoints, shown) in [
        (base.clone(), "10.0.0.1:80,10.0.0.2:80"),
        (more, "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more..."),
        (
            with(&base, &[("/subsets/0/ports", json!([]))]),
            "10.0.0.1,10.0.0.2",
        ),
        (with(&base, &[("/subsets", json!(null))]), "<none>"),
    ] {
        assert_eq!(row(&strategy, &endpoints)[1], ("Endpoints", json!(shown)));
    }
}

#[test]
fn endpoint_slices() {
    let strategy = endpoint_slice::EndpointSliceStrategy;
    let base = json!({"metadata": {"name": "web-x"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
    assert_eq!(
        encoded(&defaulted(&strategy, &base))["ports"],
        json!([{"name": "", "port": 80, "protocol": "TCP"}])
    );
    for (changes, expected) in [
        (vec![], vec![]),
        (
            vec![("/addressType", json!(""))],
            vec!["addressType: Required value"],
        ),
        (
            vec![("/endpoints/0/addresses", json!([]))],
            vec!["endpoints[0].addresses: Required value: must contain at least 1 address"],
        ),
        (
            vec![("/endpoints/0/addresses", json!(["fd00::1"]))],
            vec![
                "endpoints[0].addresses[0]: Invalid value: \"fd00::1\": must be a valid IPv4 address",
            ],
        ),
        (
            vec![("/ports/-", json!({"port": 81}))],
            vec!["ports[1].name: Duplicate value: \"\""],
        ),
        (
            vec![(
                "/endpoints",
                Value::Array(vec![json!({"addresses": ["10.0.0.1"]}); 1001]),
            )],
            vec!["endpoints: Too many: 1001: must have at most 1000 items"],
        ),
    ] {
        assert_eq!(create_errors(&strategy, &with(&base, &changes)), expected);
    }
    let ipv6 = with(
        &base,
        &[("/addressType", json!("IPv6")), ("/endpoints", json!([]))],
    );
    assert_eq!(
        update_errors(&strategy, &base, &ipv6),
        ["addressType: Invalid value: \"IPv6\": field is immutable"]
    );
    for (changes, moved) in [
        (vec![("/endpoints/0/addresses/0", json!("10.0.0.2"))], true),
        (vec![("/metadata/labels/a", json!("b"))], true),
        (vec![("/metadata/annotations/a", json!("b"))], false),
    ] {
        let new = object(&with(&base, &changes));
        assert_eq!(
            strategy.generation_changed(&new, &object(&base)),
            Some(moved)
        );
    }
    let shown: Vec<Value> = row(&strategy, &base)
        .into_iter()
        .map(|(_, cell)| cell)
        .collect();
    assert_eq!(
        shown,
        ["web-x", "IPv4", "80", "10.0.0.1", "<unknown>"].map(Value::from)
    );
}

#[test]
fn priority_classes() {
    let strategy = priority_class::PriorityClassStrategy;
    let class = |name: &str, value: i32| json!({"metadata": {"name": name}, "value": value});
    for (class, expected) in [
        (class("high", 1_000_000_000), vec![]),
        (
            class("high", 1_000_000_001),
            vec![
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            ],
        ),
        (class("system-node-critical", 2_000_001_000), vec![]),
        (
            class("system-node-critical", 1),
            vec![
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000",
            ],
        ),
        (
            class("system-mine", 1),
            vec![
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class",
            ],
        ),
    ] {
        assert_eq!(create_errors(&strategy, &class), expected);
    }
    let old = class("high", 5);
    for (changes, expected) in [
        (vec![("/description", json!("x"))], vec![]),
        (
            vec![("/value", json!(6))],
            vec!["value: Forbidden: may not be changed in an update."],
        ),
        (
            vec![("/preemptionPolicy", json!("Never"))],
            vec!["preemptionPolicy: Invalid value: \"Never\": field is immutable"],
        ),
    ] {
        assert_eq!(
            update_errors(&strategy, &old, &with(&old, &changes)),
            expected
        );
    }
    let shown: HashMap<&str, Value> = row(&strategy, &encoded(&defaulted(&strategy, &old)))
        .into_iter()
        .collect();
    assert_eq!(
        (
            &shown["Value"],
            &shown["Global-Default"],
            &shown["PreemptionPolicy"]
        ),
        (&json!(5), &json!(false), &json!("PreemptLowerPriority"))
    );
}

#[test]
fn controller_revisions() {
    let strategy = controller_revision::ControllerRevisionStrategy;
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": true}]);
    let base = json!({"metadata": {"name": "db-1", "ownerReferences": owner}, "data": {"a": 1}, "revision": 1});
    assert_eq!(create_errors(&strategy, &base), [""; 0]);
    let negative = with(&base, &[("/revision", json!(-1)), ("/data", json!(null))]);
    assert_eq!(
        create_errors(&strategy, &negative),
        [
            "data: Required value: data is mandatory",
            "revision: Invalid value: -1: must be greater than or equal to 0"
        ]
    );
    let changed = with(&base, &[("/data", json!({"a": 2}))]);
    assert_eq!(
        update_errors(&strategy, &base, &changed),
        ["data: Invalid value: {\"a\":2}: field is immutable"]
    );
    assert_eq!(
        row(&strategy, &base)[1],
        ("Controller", json!("statefulset.apps/db"))
    );
}
