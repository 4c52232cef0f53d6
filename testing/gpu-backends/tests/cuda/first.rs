//! The first calls of a process to the driver fail. It has made none before, so the test has a
//! process of its own.

use arrow_device_testkit::process;
use gpu_backends::{Bench, faults};

#[test]
fn there_is_no_device_until_the_first_calls_succeed() {
    process::alone(|| {
        faults::the_first_calls_fail(&Bench::cuda());
    });
}
