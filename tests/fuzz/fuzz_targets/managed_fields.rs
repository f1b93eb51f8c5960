//! `metadata.managedFields` as a client may send it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pilothouse_api::apply::FieldSet;

fuzz_target!(|json: &str| {
    if let Ok(set) = FieldSet::from_json(json) {
        let written = set.to_json();
        let again = FieldSet::from_json(&written).expect("what was written can be read");
        assert_eq!(again.to_json(), written);
    }
});
