//! The kinds of `flowcontrol.apiserver.k8s.io`: how requests share the server, which `crate::flow_control` does.
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>

mod flow_schema;
mod mandatory;
mod priority_level;
mod suggested;
#[cfg(test)]
mod tests;

pub(super) use flow_schema::FlowSchemaStrategy;
pub(super) use priority_level::PriorityLevelStrategy;

use serde_json::{Value, json};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const EXEMPT: &str = "exempt";

/// The objects that are there from the first moment, with the plural of their kind and their name: levels before the schemas
/// that name them.
pub(crate) fn objects() -> Vec<(&'static str, &'static str, Value)> {
    const MANDATORY: [&str; 2] = [EXEMPT, "catch-all"];
    let object = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "annotations": { "apf.kubernetes.io/autoupdate-spec": "true" },
            },
            "spec": spec,
        })
    };
    let fixed = |of: fn(&str) -> Option<Value>| {
        MANDATORY
            .iter()
            .filter_map(move |name| Some((*name, of(name)?)))
    };
    let levels = fixed(mandatory::priority_level).chain(suggested::priority_levels());
    let levels = levels.map(|(name, spec)| {
        let level = object("PriorityLevelConfiguration", name, spec);
        ("prioritylevelconfigurations", name, level)
    });
    let schemas = fixed(mandatory::flow_schema).chain(suggested::flow_schemas());
    let schemas =
        schemas.map(|(name, spec)| ("flowschemas", name, object("FlowSchema", name, spec)));
    levels.chain(schemas).collect()
}
