//! The suite before each fault of a driver.

use arrow_device_oneapi::Kind;
use arrow_device_testkit::faulty::{self, Fault};
use arrow_device_testkit::process;

use crate::support::{self, runtime};

const PARTS: &str = "a part of its memory is an address with a number added";
const NO_MAPPING: &str = "the host does not map memory of the device";

const DEVICE: &[(Fault, &str)] = &[
    (Fault::PartOffset, PARTS),
    (Fault::PartFreesWhole, PARTS),
    (Fault::CopyPeer, "there is no other device"),
    (Fault::MapStale, NO_MAPPING),
    (Fault::MapOffset, NO_MAPPING),
    (Fault::UnmapEndsAll, NO_MAPPING),
    (Fault::FillLost, NO_MAPPING),
    (Fault::FilledNow, NO_MAPPING),
];
const MAPPED: &[(Fault, &str)] = &[
    (Fault::PartOffset, PARTS),
    (Fault::PartFreesWhole, PARTS),
    (Fault::CopyPeer, "there is no other device"),
];

// Requirement: DRV-23
#[test]
fn the_suite_finds_each_fault_with_memory_of_the_device() {
    every_fault("oneAPI, memory of the device", Kind::Device, DEVICE);
}

// Requirement: DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault_with_memory_of_the_host() {
    every_fault("oneAPI, memory of the host", Kind::Host, MAPPED);
}

// Requirement: DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault_with_shared_memory() {
    every_fault("oneAPI, shared memory", Kind::Shared, MAPPED);
}

fn every_fault(name: &str, kind: Kind, no_effect: &[(Fault, &'static str)]) {
    process::alone(|| {
        let Some(device) = support::device_with(0, kind) else { return };
        let run = |fault| faulty::report(&device, None, fault);
        faulty::table(name, no_effect, run).assert();
        drop(device);
        runtime().assert_no_mistakes();
    });
}
