//! Generated bindings: one world per interface, so that a component exports what its `export!` names and no more. The type
//! sections of all worlds in use are merged when the component is linked, and unused imports drop out.
//!
//! To add a family: one world with the types it shares between interfaces, one world per interface that maps those types.

/// The imports from the host.
pub mod host {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-host;
            world host {
                import pilothouse:host/log@0.1.0;
                import pilothouse:host/config@0.1.0;
                import pilothouse:host/clock@0.1.0;
                import pilothouse:host/metrics@0.1.0;
                import pilothouse:host/cluster@0.1.0;
                import pilothouse:host/discovery@0.1.0;
                import pilothouse:host/graph@0.1.0;
            }
        ",
        path: "../../wit/host",
        generate_all,
        additional_derives: [PartialEq],
    });
}

pub mod manifest {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-manifest;
            world manifest { export pilothouse:host/manifest@0.1.0; }
        ",
        path: "../../wit/host",
        pub_export_macro: true,
        export_macro_name: "export_manifest",
    });
}

/// Types that the admission interfaces share.
pub mod admission {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-admission;
            world types { import pilothouse:admission/types@0.1.0; }
        ",
        path: "../../wit/admission",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq],
    });
    pub use pilothouse::admission::types;
}

pub mod mutate {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-mutate;
            world mutate { export pilothouse:admission/mutate@0.1.0; }
        ",
        path: "../../wit/admission",
        with: { "pilothouse:admission/types@0.1.0": crate::bindings::admission::types },
        pub_export_macro: true,
        export_macro_name: "export_mutate",
    });
}

pub mod validate {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-validate;
            world validate { export pilothouse:admission/validate@0.1.0; }
        ",
        path: "../../wit/admission",
        with: { "pilothouse:admission/types@0.1.0": crate::bindings::admission::types },
        pub_export_macro: true,
        export_macro_name: "export_validate",
    });
}

/// Types that the controller interfaces share.
pub mod controller {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-controller;
            world types { import pilothouse:controller/types@0.1.0; }
        ",
        path: "../../wit/controller",
        generate_all,
        generate_unused_types: true,
    });
    pub use pilothouse::controller::types;
}

pub mod reconcile {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-reconcile;
            world reconcile { export pilothouse:controller/reconcile@0.1.0; }
        ",
        path: "../../wit/controller",
        with: { "pilothouse:controller/types@0.1.0": crate::bindings::controller::types },
        pub_export_macro: true,
        export_macro_name: "export_reconcile",
    });
}

pub mod map_event {
    wit_bindgen::generate!({
        inline: "
            package pilothouse:sdk-map-event;
            world map-event { export pilothouse:controller/map-event@0.1.0; }
        ",
        path: "../../wit/controller",
        with: { "pilothouse:controller/types@0.1.0": crate::bindings::controller::types },
        pub_export_macro: true,
        export_macro_name: "export_map_event",
    });
}
