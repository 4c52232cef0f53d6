//! How a device is opened. Several openings of one device share its pool, so each test has a
//! process of its own.

use arrow_device_testkit::process;
use gpu_backends::{Bench, options};
use simulated_gpu_drivers::Vendor;
#[test]
fn the_pool_is_chosen() {
    process::alone(|| options::the_pool_is_chosen(&Bench::cuda()));
}

#[test]
fn lists_of_copies_are_switched_off() {
    process::alone(|| options::lists_of_copies_are_switched_off(&Bench::cuda()));
}

#[test]
fn the_environment_chooses() {
    process::alone(|| options::the_environment_chooses(&Bench::cuda()));
}

#[test]
fn lists_of_copies_are_one_call() {
    process::alone(|| {
        let bench = Bench::with(Vendor::Cuda, |builder| builder.compute_capability(9));
        options::lists_of_copies_are_one_call(&bench, true);
    });
}

#[test]
fn lists_of_copies_are_no_one_call_where_that_is_reported_to_crash() {
    process::alone(|| {
        let bench = Bench::with(Vendor::Cuda, |builder| builder.compute_capability(10));
        options::lists_of_copies_are_one_call(&bench, false);
    });
}
