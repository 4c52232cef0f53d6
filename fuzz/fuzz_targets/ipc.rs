#![no_main]

// What the target does is also run on its corpus by the tests of the crate.
#[path = "../../crates/arrow-device-ipc/tests/ipc/target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::ipc(bytes));
