#![no_main]

// What the target does is also run on its corpus by the tests of the crate.
#[path = "../../crates/arrow-device-flight/tests/flight/target.rs"]
#[allow(dead_code)]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    target::flight_target(bytes);
});
