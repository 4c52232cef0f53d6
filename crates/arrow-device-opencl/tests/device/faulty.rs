//! The suite before each fault of a driver.

use arrow_device_testkit::faulty::{self, Fault, Faulty};
use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Suite};

use crate::support;

const NO_EFFECT: &[(Fault, &str)] = &[];

#[test]
fn the_suite_finds_each_fault() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        faulty::table("OpenCL", NO_EFFECT, |fault| faulty::report(&device, None, fault)).assert();
    });
}

#[test]
fn the_suite_finds_missing_waits_at_the_pace_of_the_runtime() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        for fault in [Fault::QueueWait, Fault::HostWait, Fault::Synchronize, Fault::RecordedEarly] {
            let device = Faulty::of(&device).fault(fault).open();
            let checks = [Check::Export, Check::Copy, Check::Order, Check::ReadInPlace];
            let report = Suite::new(&device).only(checks).run();
            println!("{fault:?}: {report}");
            assert!(!report.failures().is_empty(), "{fault:?}");
        }
    });
}
