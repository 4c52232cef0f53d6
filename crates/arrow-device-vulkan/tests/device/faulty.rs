//! The suite before each fault of a driver.

use arrow_device_testkit::application::vulkan::Vulkan;
use arrow_device_testkit::faulty::{self, Fault, Faulty};
use arrow_device_testkit::required::skip;
use arrow_device_testkit::suite::{Check, Suite};
use arrow_device_testkit::{kinds, process};
use arrow_device_vulkan::{Placement, open_from};

use crate::shader::handles;
use crate::support::{self, Bench};

const UNREADABLE: &str = "the host cannot read its memory";
const NOT_FILLED: &str = "the host cannot write its memory";
const NO_ADDRESS: &str = "a `VkBuffer` has no alignment";
const NOTHING_INSIDE: &str = "a `VkBuffer` stands for the start of its allocation";
const ALONE: &str = "no other device was named";

const HOST_VISIBLE: &[(Fault, &str)] = &[
    (Fault::Misaligned, NO_ADDRESS),
    (Fault::LocatedFromStart, NOTHING_INSIDE),
    (Fault::CopyPeer, ALONE),
];
const DEVICE_ONLY: &[(Fault, &str)] = &[
    (Fault::Misaligned, NO_ADDRESS),
    (Fault::LocatedFromStart, NOTHING_INSIDE),
    (Fault::CopyPeer, ALONE),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
    (Fault::FillLost, NOT_FILLED),
    (Fault::FilledNow, NOT_FILLED),
];

/// Without a fault the validation layer looks on. With one it would have much to say, which is not
/// what is asked here.
fn every_fault(placement: Placement, no_effect: &[(Fault, &'static str)]) {
    if !support::is_there() {
        return;
    }
    let name = format!("Vulkan, {placement:?}");
    let table = faulty::table(name, no_effect, |fault| {
        if fault.is_none() {
            let bench = Bench::with(placement).unwrap();
            return faulty::report(&bench, None, fault);
        }
        let vulkan = Vulkan::new(false).unwrap();
        // SAFETY: the handles keep what they are the handles of, whose lock everybody takes.
        let device = unsafe { open_from(handles(&vulkan), placement) }.unwrap();
        let report = faulty::report(&device, None, fault);
        // Nobody knows whether the device is still at work.
        std::mem::forget(vulkan);
        report
    });
    table.assert();
}

// Requirement: DRV-12, DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault_in_memory_that_the_host_sees() {
    every_fault(Placement::HostVisible, HOST_VISIBLE);
}

// Requirement: DRV-12, DRV-23
#[test]
fn the_suite_finds_each_fault_in_memory_that_the_host_does_not_see() {
    every_fault(Placement::DeviceOnly, DEVICE_ONLY);
}

// Requirement: DRV-19
#[test]
fn the_suite_finds_a_missing_wait_at_the_pace_of_the_runtime() {
    let Some(bench) = Bench::with(Placement::HostVisible) else { return };
    let device = Faulty::of(&bench).fault(Fault::HostWait).open();
    let cases = kinds::cases_of(kinds::types()).step_by(3);
    let report = Suite::new(&device).over(cases).only([Check::Waits, Check::ReadInPlace]).run();
    println!("{} of {} cases failed", report.failures().len(), report.cases());
    assert!(!report.failures().is_empty());
}

/// Another implementation of Vulkan, which comes with the browser.
const SWIFTSHADER: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

#[test]
fn the_suite_finds_each_fault_on_swiftshader() {
    if process::is_child() {
        let vulkan = Vulkan::new(false).unwrap();
        // SAFETY: the handles keep what they are the handles of, whose lock everybody takes.
        let device = unsafe { open_from(handles(&vulkan), Placement::HostVisible) }.unwrap();
        assert!(device.properties().name.contains("SwiftShader"), "{device:?}");
        let run = |fault| faulty::report(&device, None, fault);
        faulty::table("SwiftShader", HOST_VISIBLE, run).assert();
        std::mem::forget(vulkan);
        return;
    }
    if !std::path::Path::new(SWIFTSHADER).exists() {
        return skip("chromium", "there is no chromium, and so no SwiftShader");
    }
    let child = process::Child::of_this_test().env("VK_DRIVER_FILES", SWIFTSHADER);
    println!("{}", child.env("VK_ICD_FILENAMES", SWIFTSHADER).run().expect_success().stdout);
}
