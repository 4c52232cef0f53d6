//! The first calls of a process to the driver fail. It has made none before, so the test has a
//! process of its own.

use arrow_device_testkit::process;
use gpu_backends::{Bench, faults};

#[test]
fn there_is_no_device_until_the_first_calls_succeed() {
    process::alone(|| {
        faults::the_first_calls_fail(&Bench::rocm());
    });
}

#[test]
fn a_device_that_cannot_be_had_is_not_lost() {
    process::alone(|| {
        faults::a_device_that_cannot_be_had(&Bench::rocm());
    });
}

#[test]
fn too_many_peers_go_by_way_of_the_host() {
    process::alone(|| {
        faults::too_many_peers(&Bench::rocm());
    });
}

#[test]
fn refused_pinned_memory_is_replaced_by_plain_memory() {
    process::alone(|| {
        faults::refused_pinned_memory(&Bench::rocm());
    });
}
