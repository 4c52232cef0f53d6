#![no_main]

// What the target does is also run on its corpus by the tests of the crate.
#[path = "../../crates/arrow-device-share/tests/share/peer.rs"]
#[allow(dead_code)]
mod peer;
#[path = "../../crates/arrow-device-share/tests/share/target.rs"]
#[allow(dead_code)]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    target::share_target(bytes);
});
