//! The suite before each fault of a driver.

use arrow_device_testkit::faulty::{self, Fault, Faulty};
use arrow_device_testkit::suite::{Check, Suite};
use arrow_device_testkit::{kinds, process};

use crate::support;

const NO_EFFECT: &[(Fault, &str)] = &[
    (Fault::Misaligned, "a `cl_mem` has no alignment"),
    (Fault::LocatedFromStart, "a `cl_mem` stands for the start of its allocation"),
    (Fault::CopyPeer, "no other device was named"),
];

// Requirement: DRV-12, DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault() {
    if !process::is_child() {
        return println!("{}", process::Child::of_this_test().run().expect_success().stdout);
    }
    let Some(device) = support::device() else { return };
    faulty::table("OpenCL", NO_EFFECT, |fault| faulty::report(&device, None, fault)).assert();
}

/// The host's memory outlives every copy here, whatever the fault.
// Requirement: DRV-18, DRV-19, DRV-20
#[test]
fn the_suite_finds_missing_waits_at_the_pace_of_the_runtime() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        for (fault, check) in [
            (Fault::QueueWait, Check::Export),
            (Fault::QueueWait, Check::Order),
            (Fault::HostWait, Check::ReadInPlace),
            (Fault::RecordedEarly, Check::Order),
            (Fault::RecordedEarly, Check::ReadInPlace),
        ] {
            let device = Faulty::of(&device).fault(fault).open();
            let cases = kinds::cases_of(kinds::types()).step_by(3);
            let report = Suite::new(&device).over(cases).only([check]).run();
            println!("{fault:?}: {} of {}", report.failures().len(), report.cases());
            assert!(!report.failures().is_empty(), "{check} does not find {fault:?}");
        }
    });
}
