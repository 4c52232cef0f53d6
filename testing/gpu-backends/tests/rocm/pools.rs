//! Pools of memory. What is chosen is chosen for the process, so each test has one of its own.

use arrow_device_testkit::process;
use gpu_backends::{Bench, pools};

#[test]
fn memory_of_queues_is_kept() {
    process::alone(|| pools::memory_of_queues_is_kept(&Bench::rocm()));
}

// Requirement: SAF-22
#[test]
fn what_is_kept_is_given_back() {
    process::alone(|| pools::what_is_kept_is_given_back(&Bench::rocm()));
}

#[test]
fn the_pool_that_a_program_has_chosen_is_reached() {
    process::alone(|| pools::the_pool_that_a_program_has_chosen_is_reached(&Bench::rocm()));
}

// Requirement: SAF-12
#[test]
fn a_pool_that_is_refused_is_not_reached() {
    process::alone(|| pools::a_pool_that_is_refused_is_not_reached(&Bench::rocm()));
}
