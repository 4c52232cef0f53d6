//! What becomes of ROCm's memory in a child of `fork` and at the end of the process: nothing, and
//! no driver is called.

use arrow_device_testkit::process;
use gpu_backends::{Bench, process_end};
use simulated_gpu_drivers::Vendor;

// Requirement: SAF-27
#[test]
fn no_driver_is_called_in_a_child_of_fork() {
    process::alone(|| {
        process_end::fork(&Bench::rocm());
    });
}

// Requirement: SAF-29
#[test]
fn no_driver_is_called_at_the_end_of_the_process() {
    process_end::at_the_end(Bench::rocm);
}

fn with_an_end() -> Bench {
    Bench::with(Vendor::Hip, |builder| builder.teardown(true))
}

// Requirement: SAF-29
#[test]
fn no_driver_is_called_once_it_tears_itself_down_for_a_second_device() {
    process_end::at_the_end_of_a_second_device(with_an_end);
}

// Requirement: SAF-29
#[test]
fn no_driver_is_called_once_it_tears_itself_down_that_listed_devices() {
    process_end::at_the_end_of_a_list(with_an_end);
}
