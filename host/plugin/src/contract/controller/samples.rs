//! Sample objects for controllers: valid enough that one finds something to do.

use serde_json::{Value, json};

use super::Fixture;
use crate::{
    cluster::GroupVersionResource,
    manifest::{ControllerSettings, KeyMap, Watch},
};

/// Two objects of each resource that a `self` watch names.
pub(super) fn of(settings: &ControllerSettings) -> Vec<Fixture> {
    let own = settings.watches.iter().filter(|w| w.map == KeyMap::Own);
    own.flat_map(|watch| ["web", "db"].map(|name| sample(watch, name)))
        .collect()
}

fn sample(watch: &Watch, name: &str) -> Fixture {
    let namespaced = !matches!(watch.resource.as_str(), "namespaces" | "nodes");
    let mut object = json!({"metadata": {"name": name}});
    if namespaced {
        object["metadata"]["namespace"] = json!("default");
    }
    fill(&watch.resource, name, &mut object);
    Fixture {
        resource: GroupVersionResource {
            group: watch.group.clone(),
            version: watch.version.clone(),
            resource: watch.resource.clone(),
        },
        object,
    }
}

fn fill(resource: &str, name: &str, object: &mut Value) {
    let labels = json!({"app": name});
    match resource {
        "deployments" | "replicasets" | "replicationcontrollers" => {
            let selector = match resource {
                "replicationcontrollers" => labels.clone(),
                _ => json!({"matchLabels": labels}),
            };
            object["spec"] = json!({
                "replicas": 2,
                "selector": selector,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            });
            if resource == "deployments" {
                let limits = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
                object["spec"]["strategy"] =
                    json!({"type": "RollingUpdate", "rollingUpdate": limits});
            }
        }
        "services" => {
            object["spec"] = json!({
                "type": "ClusterIP",
                "clusterIP": "10.0.0.10",
                "clusterIPs": ["10.0.0.10"],
                "ipFamilies": ["IPv4"],
                "selector": labels,
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            });
        }
        "namespaces" => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        _ => {}
    }
}
