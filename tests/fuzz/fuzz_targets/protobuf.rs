//! Protobuf to JSON, and what was made of it back again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pilothouse_api::protobuf;

fuzz_target!(|body: &[u8]| {
    let Ok(json) = protobuf::to_json(body) else {
        return;
    };
    serde_json::from_slice::<serde_json::Value>(&json).expect("it is JSON");
    if let Ok(again) = protobuf::from_json(&json) {
        let twice = protobuf::to_json(&again).expect("what we wrote can be read");
        let value =
            |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).expect("it is JSON");
        assert_eq!(
            value(&twice),
            value(&protobuf::to_json(&again).expect("again"))
        );
    }
});
