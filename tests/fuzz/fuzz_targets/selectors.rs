//! Label selectors in their string form: what is read prints as something that selects the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pilothouse_api::LabelSelector;

fuzz_target!(|text: &str| {
    if let Ok(selector) = LabelSelector::parse(text) {
        let again =
            LabelSelector::parse(&selector.to_string()).expect("what was printed can be read");
        assert_eq!(again.to_string(), selector.to_string());
    }
});
