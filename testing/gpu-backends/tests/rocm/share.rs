//! Memory that other processes can open, as the driver gives it. What is counted is the process's
//! own, so each test has one.

use arrow_device_testkit::process;
use gpu_backends::{Bench, share};
use simulated_gpu_drivers::Vendor;

// Requirement: DRV-30, DRV-31
#[test]
fn what_one_device_exports_another_one_reads() {
    process::alone(|| share::what_one_device_exports_another_one_reads(&Bench::rocm()));
}

#[test]
fn other_kinds_of_memory_are_not_shared() {
    process::alone(|| share::other_kinds_of_memory_are_not_shared(&Bench::rocm()));
}

#[test]
fn nothing_is_shared_without_mapping() {
    process::alone(|| {
        share::nothing_is_shared_without_mapping(&share::without_mapping(Vendor::Hip));
    });
}

#[test]
fn what_was_opened_is_for_reading() {
    process::alone(|| share::what_was_opened_is_for_reading(&Bench::rocm(), true));
}

#[test]
fn where_there_is_no_access_for_reading_alone_there_is_more() {
    process::alone(|| {
        let bench = share::without_read_only(Vendor::Hip);
        share::what_was_opened_is_for_reading(&bench, false);
    });
}

#[test]
fn peers_reach_what_is_shared() {
    process::alone(|| share::peers_reach_what_is_shared(&Bench::rocm()));
}

// Requirement: SAF-41
#[test]
fn handles_of_other_things_are_refused_and_closed() {
    process::alone(|| share::handles_of_other_things_are_refused_and_closed(&Bench::rocm()));
}

#[test]
fn a_call_that_fails_leaves_nothing_behind() {
    process::alone(|| share::a_call_that_fails_leaves_nothing_behind(&Bench::rocm()));
}

#[test]
fn what_is_freed_is_gone() {
    process::alone(|| share::what_is_freed_is_gone(&Bench::rocm()));
}

#[test]
fn captures_of_others_go_on() {
    process::alone(|| share::captures_of_others_go_on(&Bench::rocm()));
}

/// Versions before 6.1 have the functions, and neither export nor import.
#[test]
fn older_versions_share_nothing() {
    process::alone(|| {
        let bench = Bench::with(Vendor::Hip, |builder| builder.version(60_000_000));
        share::nothing_is_shared_without_mapping(&bench);
    });
}

/// From 7.1 on a descriptor is given in place of a pointer.
#[test]
fn newer_versions_take_a_descriptor_in_place_of_a_pointer() {
    process::alone(|| {
        let bench = Bench::with(Vendor::Hip, |builder| builder.version(70_100_000));
        share::what_one_device_exports_another_one_reads(&bench);
    });
}
