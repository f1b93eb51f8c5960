//! The kinds of `flowcontrol.apiserver.k8s.io`: how requests share the server. They are kept and served; nothing queues yet.
//! Source: <https://kubernetes.io/docs/concepts/cluster-administration/flow-control/>

mod flow_schema;
pub(crate) mod mandatory;
mod priority_level;
#[cfg(test)]
mod tests;

pub(super) use flow_schema::FlowSchemaStrategy;
pub(super) use priority_level::PriorityLevelStrategy;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const EXEMPT: &str = "exempt";
