//! The objects that a plugin is tried with, from files of YAML or JSON.

use std::{fs, io::Read as _, path::Path};

use anyhow::{Context, Result, bail, ensure};
use pilothouse_api::{GroupVersionKind, GroupVersionResource};
use pilothouse_apiserver::registry::kinds;
use serde_json::{Value, json};

use crate::flags::{TrialFlags, TrialOperation};

/// What was given on the command line.
pub(in crate::plugin_command) struct Documents {
    /// The object that the call is about.
    pub(super) input: Option<Value>,
    pub(super) old: Option<Value>,
    pub(super) operation: TrialOperation,
    pub(super) user: String,
    pub(super) groups: Vec<String>,
    /// What else there is in the cluster.
    pub(super) cluster: Vec<Value>,
    /// Nodes to make up if `cluster` has none.
    pub(super) nodes: u32,
}

/// An object with the resource that it is stored as.
pub(super) struct Placed {
    pub(super) resource: GroupVersionResource,
    pub(super) namespaced: bool,
    pub(super) object: Value,
}

impl Documents {
    pub(super) fn read(flags: &TrialFlags) -> Result<Self> {
        let one = |file: &Path| {
            let mut all = documents(file)?;
            ensure!(
                all.len() == 1,
                "{} holds {} objects; one is expected",
                file.display(),
                all.len()
            );
            Ok(all.remove(0))
        };
        Ok(Self {
            input: flags.input.as_deref().map(one).transpose()?,
            old: flags.old.as_deref().map(one).transpose()?,
            operation: flags.operation,
            user: flags.user.clone(),
            groups: flags.group.clone(),
            cluster: match &flags.cluster {
                Some(file) => documents(file)?,
                None => Vec::new(),
            },
            nodes: flags.nodes,
        })
    }

    /// The nodes of the cluster, or so many alike.
    pub(super) fn nodes(&self) -> Vec<Value> {
        let given: Vec<Value> = self.of_kind("Node").cloned().collect();
        match given.is_empty() {
            true => (0..self.nodes).map(node).collect(),
            false => given,
        }
    }

    pub(super) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.cluster
            .iter()
            .filter(move |object| object["kind"] == kind)
    }
}

/// Says where an object belongs: in its namespace, `default` if it names none. A kind that the API server does not know counts as
/// namespaced, and its plural is guessed as Kubernetes does.
pub(super) fn place(mut object: Value) -> Result<Placed> {
    ensure!(object.is_object(), "this is no object: {object}");
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    ensure!(
        !api_version.is_empty() && !kind.is_empty(),
        "an object needs apiVersion and kind: {object}"
    );
    let metadata = &object["metadata"];
    ensure!(
        metadata.is_null() || metadata.is_object(),
        "the metadata of an object is {metadata}"
    );
    let gvk = GroupVersionKind::parse(&api_version, &kind);
    let (resource, namespaced) = match kinds::resource_of(&gvk) {
        Some(info) => (info.gvr, info.namespaced),
        None => {
            let resource = GroupVersionResource {
                resource: guessed_plural(&kind).into(),
                group: gvk.group,
                version: gvk.version,
            };
            (resource, true)
        }
    };
    if namespaced && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "default".into();
    }
    Ok(Placed {
        resource,
        namespaced,
        object,
    })
}

/// `NetworkPolicy` → `networkpolicies`.
fn guessed_plural(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.as_bytes().last() {
        Some(b's' | b'x') => format!("{singular}es"),
        Some(b'y') => format!("{}ies", &singular[..singular.len() - 1]),
        _ => format!("{singular}s"),
    }
}

/// All objects of a file, those of lists too; `-` is standard input.
fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = match file.as_os_str() == "-" {
        false => fs::read_to_string(file),
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
    };
    let shown = file.display();
    let text = text.with_context(|| format!("reading {shown}"))?;
    let parsed: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{shown} is no YAML"))?;
    let mut all = Vec::new();
    for document in parsed {
        match document {
            Value::Null => {}
            Value::Object(mut fields) => match fields.remove("items") {
                Some(Value::Array(items)) => all.extend(items),
                _ => all.push(Value::Object(fields)),
            },
            other => bail!("{shown} holds what is no object: {other}"),
        }
    }
    Ok(all)
}

fn node(index: u32) -> Value {
    let name = format!("node-{index}");
    let resources = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
            },
        },
        "status": { "capacity": resources, "allocatable": resources },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_find_their_resource() {
        let at = |api_version: &str, kind: &str| {
            let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": {} });
            let placed = place(object).unwrap();
            let namespace = placed.object["metadata"]["namespace"].as_str();
            (
                placed.resource.resource.to_string(),
                namespace.map(str::to_owned),
            )
        };
        let default = Some("default".to_owned());
        assert_eq!(at("v1", "Pod"), ("pods".to_owned(), default.clone()));
        assert_eq!(at("v1", "Node"), ("nodes".to_owned(), None));
        assert_eq!(
            at("networking.k8s.io/v1", "NetworkPolicy"),
            ("networkpolicies".to_owned(), default.clone())
        );
        assert_eq!(
            at("example.com/v1", "Policy"),
            ("policies".to_owned(), default)
        );
        for wrong in [
            json!({ "kind": "Pod" }),
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": 3 }),
            json!([1]),
            json!("x"),
        ] {
            assert!(place(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
