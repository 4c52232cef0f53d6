//! The suite before each fault of a driver.

use arrow_device_oneapi::Kind;
use arrow_device_testkit::faulty::{self, Fault};
use arrow_device_testkit::process;

use crate::support::{self, runtime};

const DEVICE: &[(Fault, &str)] = &[];
const MAPPED: &[(Fault, &str)] = &[];

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
