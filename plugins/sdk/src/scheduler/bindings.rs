//! Rust for `wit/scheduler`: one world for each interface, so that a component exports the ones it has and no others.

/// The records, shared by all interfaces.
mod shared {
    wit_bindgen::generate!({
        path: "../../wit/scheduler",
        inline: "package pilothouse:sdk-scheduler; world types { import pilothouse:scheduler/types@0.1.0; }",
        world: "pilothouse:sdk-scheduler/types",
        additional_derives: [Clone, PartialEq],
        generate_unused_types: true,
        generate_all,
    });
}

pub use shared::pilothouse::scheduler::types;

pub mod nodes {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-nodes;
            world export-nodes { export pilothouse:scheduler/nodes@0.1.0; }
        ",
        path: "../../wit/scheduler",
        with: { "pilothouse:scheduler/types@0.1.0": crate::scheduler::bindings::types },
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_nodes",
    });
    pub use exports::pilothouse::scheduler::nodes::*;
}

pub mod cycle {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-cycle;
            world export-cycle { export pilothouse:scheduler/cycle@0.1.0; }
        ",
        path: "../../wit/scheduler",
        with: { "pilothouse:scheduler/types@0.1.0": crate::scheduler::bindings::types },
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_cycle",
    });
    pub use exports::pilothouse::scheduler::cycle::*;
}

pub mod filter {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-filter;
            world export-filter { export pilothouse:scheduler/filter@0.1.0; }
        ",
        path: "../../wit/scheduler",
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_filter",
    });
    pub use exports::pilothouse::scheduler::filter::*;
}

pub mod score {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-score;
            world export-score { export pilothouse:scheduler/score@0.1.0; }
        ",
        path: "../../wit/scheduler",
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_score",
    });
    pub use exports::pilothouse::scheduler::score::*;
}

pub mod normalize {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-normalize;
            world export-normalize { export pilothouse:scheduler/normalize@0.1.0; }
        ",
        path: "../../wit/scheduler",
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_normalize",
    });
    pub use exports::pilothouse::scheduler::normalize::*;
}

pub mod reserve {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-reserve;
            world export-reserve { export pilothouse:scheduler/reserve@0.1.0; }
        ",
        path: "../../wit/scheduler",
        with: { "pilothouse:scheduler/types@0.1.0": crate::scheduler::bindings::types },
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_reserve",
    });
    pub use exports::pilothouse::scheduler::reserve::*;
}

pub mod pre_bind {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-pre-bind;
            world export-pre-bind { export pilothouse:scheduler/pre-bind@0.1.0; }
        ",
        path: "../../wit/scheduler",
        with: { "pilothouse:scheduler/types@0.1.0": crate::scheduler::bindings::types },
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_pre_bind",
    });
    pub use exports::pilothouse::scheduler::pre_bind::*;
}

pub mod bind {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-bind;
            world export-bind { export pilothouse:scheduler/bind@0.1.0; }
        ",
        path: "../../wit/scheduler",
        with: { "pilothouse:scheduler/types@0.1.0": crate::scheduler::bindings::types },
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_bind",
    });
    pub use exports::pilothouse::scheduler::bind::*;
}

pub mod post_bind {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-scheduler-post-bind;
            world export-post-bind { export pilothouse:scheduler/post-bind@0.1.0; }
        ",
        path: "../../wit/scheduler",
        with: { "pilothouse:scheduler/types@0.1.0": crate::scheduler::bindings::types },
        additional_derives: [Clone, PartialEq],
        pub_export_macro: true,
        export_macro_name: "export_post_bind",
    });
    pub use exports::pilothouse::scheduler::post_bind::*;
}

pub use bind::{Failure as BindFailure, Outcome as BindOutcome};
pub use cycle::Outcome;
pub use nodes::PodChange;

use types::{AssignedPod, Node, Pod};

// The generated records have no defaults; tests and plugins that build one name only the fields they care about.

#[expect(
    clippy::derivable_impls,
    reason = "the record is generated, so there is nowhere to write the derive"
)]
impl Default for Pod {
    fn default() -> Self {
        Self {
            uid: String::new(),
            namespace: String::new(),
            name: String::new(),
            labels: Vec::new(),
            priority: 0,
            node_name: String::new(),
            nominated_node_name: String::new(),
            owner: None,
            requests: Vec::new(),
            nonzero_requests: Vec::new(),
            host_ports: Vec::new(),
            node_selector: Vec::new(),
            required_node_affinity: None,
            preferred_node_affinity: Vec::new(),
            tolerations: Vec::new(),
            images: Vec::new(),
            json: None,
        }
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "the record is generated, so there is nowhere to write the derive"
)]
impl Default for Node {
    fn default() -> Self {
        Self {
            index: 0,
            name: String::new(),
            unschedulable: false,
            labels: Vec::new(),
            taints: Vec::new(),
            allocatable: Vec::new(),
            images: Vec::new(),
            json: None,
        }
    }
}

#[expect(
    clippy::derivable_impls,
    reason = "the record is generated, so there is nowhere to write the derive"
)]
impl Default for AssignedPod {
    fn default() -> Self {
        Self {
            uid: String::new(),
            namespace: String::new(),
            name: String::new(),
            labels: Vec::new(),
            priority: 0,
            requests: Vec::new(),
            nonzero_requests: Vec::new(),
            host_ports: Vec::new(),
            deleting: false,
            json: None,
        }
    }
}
