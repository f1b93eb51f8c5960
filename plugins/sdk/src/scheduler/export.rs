//! The exports of a component of scheduler plugins.

use std::cell::RefCell;

use super::{
    bindings::{
        BindFailure, BindOutcome, Outcome, PodChange, bind, cycle, filter, nodes, normalize,
        post_bind, pre_bind, reserve, score,
        types::{AssignedPod, Binding, Node, Pod, Refusal},
    },
    component::{Describe, Scheduling},
};
use crate::manifest::Manifest;

/// Adds the plugins to the manifest, in the order of their indexes.
#[doc(hidden)]
pub fn declare(manifest: &mut Manifest, plugins: &[&dyn Describe]) {
    manifest
        .plugins
        .extend(plugins.iter().map(|plugin| plugin.entry()));
}

/// Implemented by [`crate::export!`] for the component.
#[doc(hidden)]
pub trait Plugins {
    fn scheduling() -> Scheduling;
}

thread_local! {
    static SCHEDULING: RefCell<Option<Scheduling>> = const { RefCell::new(None) };
}

/// The state of this instance, made at the first call.
fn with<T: Plugins, R>(f: impl FnOnce(&mut Scheduling) -> R) -> R {
    SCHEDULING.with_borrow_mut(|slot| f(slot.get_or_insert_with(T::scheduling)))
}

impl<T: Plugins> nodes::Guest for T {
    fn apply(epoch: u64, upserts: Vec<Node>, removed: Vec<u32>, pods: Vec<PodChange>) {
        with::<T, _>(|s| s.apply(epoch, upserts, &removed, &pods));
    }
}

impl<T: Plugins> cycle::Guest for T {
    fn begin(cycle: u64, plugins: Vec<u32>, pod: Pod) -> Vec<Result<Outcome, Refusal>> {
        with::<T, _>(|s| s.begin(cycle, &plugins, &pod))
    }

    fn clone(cycle: u64, copy: u64) {
        with::<T, _>(|s| s.clone_cycle(cycle, copy));
    }

    fn add_pod(cycle: u64, node: u32, pod: AssignedPod) {
        with::<T, _>(|s| s.cycle_pod_changed(cycle, node, true, &pod));
    }

    fn remove_pod(cycle: u64, node: u32, pod: AssignedPod) {
        with::<T, _>(|s| s.cycle_pod_changed(cycle, node, false, &pod));
    }

    fn end(cycle: u64) {
        with::<T, _>(|s| s.end(cycle));
    }
}

impl<T: Plugins> filter::Guest for T {
    fn filter(plugin: u32, cycle: u64, nodes: Vec<u32>) -> Vec<u32> {
        with::<T, _>(|s| s.filter(plugin, cycle, &nodes))
    }

    fn reasons(plugin: u32, cycle: u64, words: Vec<u32>) -> Vec<Vec<String>> {
        with::<T, _>(|s| s.reasons(plugin, cycle, &words))
    }
}

impl<T: Plugins> score::Guest for T {
    fn score(plugin: u32, cycle: u64, nodes: Vec<u32>) -> Vec<i64> {
        with::<T, _>(|s| s.score(plugin, cycle, &nodes))
    }
}

impl<T: Plugins> normalize::Guest for T {
    fn normalize(plugin: u32, cycle: u64, _nodes: Vec<u32>, scores: Vec<i64>) -> Vec<i64> {
        with::<T, _>(|s| s.normalize(plugin, cycle, scores))
    }
}

impl<T: Plugins> reserve::Guest for T {
    fn reserve(plugin: u32, cycle: u64, node: u32) -> Result<Vec<u8>, Refusal> {
        with::<T, _>(|s| s.reserve(plugin, cycle, node))
    }

    fn unreserve(plugin: u32, pod_uid: String, node_name: String, carry: Vec<u8>) {
        with::<T, _>(|s| s.unreserve(plugin, &pod_uid, &node_name, &carry));
    }
}

impl<T: Plugins> pre_bind::Guest for T {
    fn pre_bind(plugin: u32, binding: Binding) -> Result<(), Refusal> {
        with::<T, _>(|s| s.pre_bind(plugin, &binding))
    }
}

impl<T: Plugins> bind::Guest for T {
    fn bind(plugin: u32, binding: Binding) -> Result<BindOutcome, BindFailure> {
        with::<T, _>(|s| s.bind(plugin, &binding))
    }
}

impl<T: Plugins> post_bind::Guest for T {
    fn post_bind(plugin: u32, binding: Binding) {
        with::<T, _>(|s| s.post_bind(plugin, &binding));
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! __scheduler_export {
    ($component:ident, $first:expr, ($($interface:ident),+), [$($plugin:expr),+]) => {
        impl $crate::scheduler::Plugins for $component {
            fn scheduling() -> $crate::scheduler::Scheduling {
                $crate::scheduler::Scheduling::first_at($first)$(.with($plugin))+
            }
        }
        $($crate::__scheduler_export!(@$interface $component);)+
    };
    (@nodes $component:ident) => {
        $crate::scheduler::bindings::nodes::export_nodes!($component with_types_in $crate::scheduler::bindings::nodes);
    };
    (@cycle $component:ident) => {
        $crate::scheduler::bindings::cycle::export_cycle!($component with_types_in $crate::scheduler::bindings::cycle);
    };
    (@filter $component:ident) => {
        $crate::scheduler::bindings::filter::export_filter!($component with_types_in $crate::scheduler::bindings::filter);
    };
    (@score $component:ident) => {
        $crate::scheduler::bindings::score::export_score!($component with_types_in $crate::scheduler::bindings::score);
    };
    (@normalize $component:ident) => {
        $crate::scheduler::bindings::normalize::export_normalize!($component with_types_in $crate::scheduler::bindings::normalize);
    };
    (@reserve $component:ident) => {
        $crate::scheduler::bindings::reserve::export_reserve!($component with_types_in $crate::scheduler::bindings::reserve);
    };
    (@pre_bind $component:ident) => {
        $crate::scheduler::bindings::pre_bind::export_pre_bind!($component with_types_in $crate::scheduler::bindings::pre_bind);
    };
    (@bind $component:ident) => {
        $crate::scheduler::bindings::bind::export_bind!($component with_types_in $crate::scheduler::bindings::bind);
    };
    (@post_bind $component:ident) => {
        $crate::scheduler::bindings::post_bind::export_post_bind!($component with_types_in $crate::scheduler::bindings::post_bind);
    };
}
