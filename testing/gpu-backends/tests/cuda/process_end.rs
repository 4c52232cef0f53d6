//! What becomes of CUDA's memory in a child of `fork` and at the end of the process: nothing, and
//! no driver is called.

use arrow_device_testkit::process;
use gpu_backends::{Bench, process_end};

// Requirement: SAF-27
#[test]
fn no_driver_is_called_in_a_child_of_fork() {
    process::alone(|| {
        process_end::fork(&Bench::cuda());
    });
}

// Requirement: SAF-29
#[test]
fn no_driver_is_called_at_the_end_of_the_process() {
    process_end::at_the_end(Bench::cuda);
}
