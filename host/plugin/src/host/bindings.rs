//! Generated bindings of the imports. What may wait is async in the host; to the guest it is an ordinary call.

mod generated {
    wasmtime::component::bindgen!({
        inline: "
            package pilothouse:engine-host;
            world host {
                import pilothouse:host/log@0.1.0;
                import pilothouse:host/config@0.1.0;
                import pilothouse:host/clock@0.1.0;
                import pilothouse:host/metrics@0.1.0;
                import pilothouse:host/cluster@0.1.0;
                import pilothouse:host/discovery@0.1.0;
                import pilothouse:host/graph@0.1.0;
                export pilothouse:host/manifest@0.1.0;
            }
        ",
        path: "../../wit/host",
        imports: {
            "pilothouse:host/cluster": async | trappable,
            "pilothouse:host/discovery": async | trappable,
            "pilothouse:host/graph": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        additional_derives: [PartialEq],
    });
}

pub(crate) use generated::exports::pilothouse::host::manifest;
pub(crate) use generated::pilothouse::host::{
    clock, cluster, config, discovery, graph, log, metrics,
};
