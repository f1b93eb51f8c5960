//! Generated bindings. Objects are borrowed, so that nothing is copied but into the guest.

wasmtime::component::bindgen!({
    inline: "
        package pilothouse:engine-controller;
        world controller {
            export pilothouse:controller/reconcile@0.1.0;
            export pilothouse:controller/map-event@0.1.0;
        }
    ",
    path: "../../wit/controller",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: true },
});

pub(super) use exports::pilothouse::controller::{map_event, reconcile};
pub(super) use pilothouse::controller::types;
