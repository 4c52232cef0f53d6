//! Memory that other processes can open, as the driver gives it. What is counted is the process's
//! own, so each test has one.

use arrow_device_testkit::process;
use gpu_backends::{Bench, share};
use simulated_gpu_drivers::Vendor;

// Requirement: DRV-30, DRV-31
#[test]
fn what_one_device_exports_another_one_reads() {
    process::alone(|| share::what_one_device_exports_another_one_reads(&Bench::cuda()));
}

#[test]
fn other_kinds_of_memory_are_not_shared() {
    process::alone(|| share::other_kinds_of_memory_are_not_shared(&Bench::cuda()));
}

#[test]
fn nothing_is_shared_without_mapping() {
    process::alone(|| {
        share::nothing_is_shared_without_mapping(&share::without_mapping(Vendor::Cuda));
    });
}

#[test]
fn what_was_opened_is_for_reading() {
    process::alone(|| share::what_was_opened_is_for_reading(&Bench::cuda(), true));
}

#[test]
fn where_there_is_no_access_for_reading_alone_there_is_more() {
    process::alone(|| {
        let bench = share::without_read_only(Vendor::Cuda);
        share::what_was_opened_is_for_reading(&bench, false);
    });
}

#[test]
fn peers_reach_what_is_shared() {
    process::alone(|| share::peers_reach_what_is_shared(&Bench::cuda()));
}

// Requirement: SAF-41
#[test]
fn handles_of_other_things_are_refused_and_closed() {
    process::alone(|| share::handles_of_other_things_are_refused_and_closed(&Bench::cuda()));
}

#[test]
fn a_call_that_fails_leaves_nothing_behind() {
    process::alone(|| share::a_call_that_fails_leaves_nothing_behind(&Bench::cuda()));
}

#[test]
fn what_is_freed_is_gone() {
    process::alone(|| share::what_is_freed_is_gone(&Bench::cuda()));
}

#[test]
fn captures_of_others_go_on() {
    process::alone(|| share::captures_of_others_go_on(&Bench::cuda()));
}

/// A driver that lacks one of the functions shares nothing.
#[test]
fn older_drivers_share_nothing() {
    process::alone(|| {
        let bench = Bench::with(Vendor::Cuda, |builder| builder.without(&["cuMemMap"]));
        share::nothing_is_shared_without_mapping(&bench);
    });
}
