//! Generated bindings. Requests are borrowed, so that nothing is copied but into the guest.

wasmtime::component::bindgen!({
    inline: "
        package pilothouse:engine-admission;
        world admission {
            export pilothouse:admission/mutate@0.1.0;
            export pilothouse:admission/validate@0.1.0;
        }
    ",
    path: "../../wit/admission",
    exports: { default: async },
    ownership: Borrowing { duplicate_if_necessary: false },
});

/// What `mutate` answers.
pub type MutateAnswer = mutate::Mutation;

pub(super) use exports::pilothouse::admission::{mutate, validate};
pub(super) use pilothouse::admission::types;
