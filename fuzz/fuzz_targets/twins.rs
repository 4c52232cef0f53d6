#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| arrow_device_testkit::targets::twins(bytes));
