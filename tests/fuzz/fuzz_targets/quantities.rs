//! Quantities: the canonical form is canonical, and of the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pilothouse_api::Quantity;

fuzz_target!(|text: &str| {
    if let Ok(canonical) = Quantity::canonical(text) {
        assert_eq!(Quantity::canonical(&canonical).as_ref(), Ok(&canonical));
        let (one, other) = (
            Quantity::parse(text).expect("read before"),
            Quantity::parse(&canonical).expect("ours"),
        );
        assert_eq!(one.milli_value(), other.milli_value());
    }
});
