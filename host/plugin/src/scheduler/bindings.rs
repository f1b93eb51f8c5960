//! Generated bindings of `wit/scheduler`. A component exports any subset, so the interfaces are looked up one by one.

mod generated {
    wasmtime::component::bindgen!({
        inline: "
            package pilothouse:engine-scheduler;
            world scheduler {
                export pilothouse:scheduler/nodes@0.1.0;
                export pilothouse:scheduler/cycle@0.1.0;
                export pilothouse:scheduler/filter@0.1.0;
                export pilothouse:scheduler/score@0.1.0;
                export pilothouse:scheduler/normalize@0.1.0;
                export pilothouse:scheduler/reserve@0.1.0;
                export pilothouse:scheduler/pre-bind@0.1.0;
                export pilothouse:scheduler/bind@0.1.0;
                export pilothouse:scheduler/post-bind@0.1.0;
            }
        ",
        path: "../../wit/scheduler",
        exports: { default: async },
        additional_derives: [Clone, PartialEq],
    });
}

pub(super) use generated::exports::pilothouse::scheduler::{
    bind, cycle, filter, nodes, normalize, post_bind, pre_bind, reserve, score,
};
pub use generated::pilothouse::scheduler::types;
