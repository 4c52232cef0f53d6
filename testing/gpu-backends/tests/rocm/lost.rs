//! A ROCm device that is lost. It stays lost, so the test has a process of its own.

use arrow_device_testkit::process;
use gpu_backends::{Bench, faults};

#[test]
fn all_errors_say_so_and_everything_is_released() {
    process::alone(|| {
        faults::a_lost_device(&Bench::rocm(), 719, "hipErrorLaunchFailure");
    });
}

/// An assertion of a kernel is code 710.
#[test]
fn a_failed_assertion_says_so() {
    process::alone(|| {
        faults::a_lost_device(&Bench::rocm(), 710, "hipErrorAssert");
    });
}

// Requirement: SAF-18
#[test]
fn a_device_that_somebody_has_reset_is_lost() {
    process::alone(|| {
        faults::a_reset_device(&Bench::rocm());
    });
}
