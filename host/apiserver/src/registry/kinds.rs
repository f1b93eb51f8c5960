//! The table of built-in kinds: a kind is a [`Strategy`](super::strategy::Strategy) and a line here.

mod cells;
mod checks;
mod config_map;
mod describe;
mod fill;
mod namespace;
mod node;
pub(crate) mod pod;
mod semantic;

use std::sync::Arc;

use super::erased::{ErasedStrategy, erase};

/// Every built-in kind.
pub fn built_in() -> Vec<Arc<dyn ErasedStrategy>> {
    vec![
        erase(namespace::NamespaceStrategy),
        erase(config_map::ConfigMapStrategy),
        erase(pod::PodStrategy),
        erase(node::NodeStrategy),
    ]
}
