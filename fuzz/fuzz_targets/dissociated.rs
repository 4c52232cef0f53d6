#![no_main]

// What the target does is also run on its corpus by the tests of the crate.
#[path = "../../crates/arrow-device-dissociated/tests/dissociated/target.rs"]
#[allow(dead_code)]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    target::dissociated_target(bytes);
});
