//! Copies that are polled, on devices that go on only where somebody waits.

use arrow_device_testkit::process;
use gpu_backends::polled::{self, bench};
use simulated_gpu_drivers::Vendor;

// Requirement: SAF-21
#[test]
fn no_copy_waits() {
    process::alone(|| polled::no_copy_waits(&bench(Vendor::Hip)));
}

// Requirement: SAF-21
#[test]
fn a_copy_that_would_wait_is_refused() {
    process::alone(|| polled::a_copy_that_would_wait_is_refused(&bench(Vendor::Hip)));
}
