//! How a device is opened. Several openings of one device share its pool, so each test has a
//! process of its own.

use arrow_device_testkit::process;
use gpu_backends::{Bench, options};

#[test]
fn the_pool_is_chosen() {
    process::alone(|| options::the_pool_is_chosen(&Bench::rocm()));
}

#[test]
fn lists_of_copies_are_switched_off() {
    process::alone(|| options::lists_of_copies_are_switched_off(&Bench::rocm()));
}

#[test]
fn the_environment_chooses() {
    process::alone(|| options::the_environment_chooses(&Bench::rocm()));
}

#[test]
fn lists_of_copies_are_one_call() {
    process::alone(|| options::lists_of_copies_are_one_call(&Bench::rocm(), true));
}
