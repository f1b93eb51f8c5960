//! The three patch types, on an object that is not trusted either. The first byte chooses, a NUL parts patch and object.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pilothouse_api::{facts, patch::Patch};

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else {
        return;
    };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let (patch, object) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let patch = match choice % 3 {
        0 => Patch::json(patch),
        1 => Patch::merge(patch),
        _ => Patch::strategic(patch),
    };
    let (Ok(patch), Ok(object)) = (patch, serde_json::from_slice(object)) else {
        return;
    };
    let schema = facts::by_schema_name("io.k8s.api.apps.v1.Deployment");
    _ = patch.apply(&object, schema);
});
