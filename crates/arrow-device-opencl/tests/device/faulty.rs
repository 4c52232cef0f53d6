//! The suite before each fault of a driver.

use std::ffi::c_void;
use std::ptr::NonNull;

use arrow_device::Device;
use arrow_device_opencl::{Kind, open_from, open_with};
use arrow_device_testkit::application::opencl::{Cl, ClHandle};
use arrow_device_testkit::faulty::{self, Fault, Faulty};
use arrow_device_testkit::suite::{Check, Suite};
use arrow_device_testkit::{kinds, process};

use crate::support;

const BUFFERS: &[(Fault, &str)] = &[
    (Fault::Misaligned, "a `cl_mem` has no alignment"),
    (Fault::LocatedFromStart, "a `cl_mem` stands for the start of its allocation"),
];
const SVM: &[(Fault, &str)] = &[
    (Fault::LocatedElsewhere, "OpenCL does not tell where an address lies"),
    (Fault::LocatedFromStart, "OpenCL does not tell where an address lies"),
    (Fault::PartOffset, "a part of its memory is an address with a number added"),
    (Fault::PartFreesWhole, "a part of its memory is an address with a number added"),
];

// Requirement: DRV-12, DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault() {
    every_fault("OpenCL", Kind::Buffers, BUFFERS);
}

// Requirement: DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault_with_shared_virtual_memory() {
    every_fault("OpenCL, shared virtual memory", Kind::Svm, SVM);
}

fn every_fault(name: &str, kind: Kind, no_effect: &[(Fault, &'static str)]) {
    if !process::is_child() {
        // Two devices of one context, where the driver is PoCL.
        let child = process::Child::of_this_test().env("POCL_DEVICES", "pthread pthread");
        return println!("{}", child.run().expect_success().stdout);
    }
    let Some((device, other)) = devices(kind) else { return };
    let mut no_effect = no_effect.to_vec();
    if other.is_none() {
        no_effect.push((Fault::CopyPeer, "there is no other device"));
    }
    let run = |fault| faulty::report(&device, other.as_ref(), fault);
    faulty::table(name, &no_effect, run).assert();
}

/// Two devices of one context, or the only one that there is.
fn devices(kind: Kind) -> Option<(Device, Option<Device>)> {
    let first = support::device_with(kind)?;
    let Ok(second) = open_with(1, kind) else { return Some((first, None)) };
    let cl = Cl::load().unwrap();
    let handles = [first, second].map(|device| {
        let queue = device.open_queue().unwrap();
        cl.home_of(queue.raw().as_ptr()).unwrap().1
    });
    let context = cl.create_context_of(&handles).unwrap();
    let [first, second] = handles.map(|handle| {
        // SAFETY: UNS-29: the context is released below, and was made of these devices.
        unsafe { open_from(pointer(context), pointer(handle), kind) }.unwrap()
    });
    cl.call("clReleaseContext", context).unwrap();
    Some((first, Some(second)))
}

fn pointer(handle: ClHandle) -> NonNull<c_void> {
    NonNull::new(handle).unwrap()
}

/// How often the suite looks for a fault that the pace of a busy machine may hide from it.
const LOOKS: usize = 5;

/// The host's memory outlives every copy here, whatever the fault.
// Requirement: DRV-18, DRV-19, DRV-20
#[test]
fn the_suite_finds_missing_waits_at_the_pace_of_the_runtime() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        for (fault, check) in [
            (Fault::QueueWait, Check::Export),
            (Fault::QueueWait, Check::Order),
            (Fault::QueueWait, Check::Waits),
            (Fault::HostWait, Check::Waits),
            (Fault::RecordedEarly, Check::Order),
        ] {
            let device = Faulty::of(&device).fault(fault).open();
            let is_found = |_| {
                let cases = kinds::cases_of(kinds::types()).step_by(3);
                let report = Suite::new(&device).over(cases).only([check]).run();
                println!("{fault:?}, {check}: {} of {}", report.failures().len(), report.cases());
                !report.failures().is_empty()
            };
            assert!((0..LOOKS).any(is_found), "{check} does not find {fault:?}");
        }
    });
}
