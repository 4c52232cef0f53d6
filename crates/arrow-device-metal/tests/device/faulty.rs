//! The suite before each fault of a driver.

use arrow_device::{Device, DeviceId, DeviceType};
use arrow_device_testkit::faulty::{self, Fault};
use arrow_device_testkit::process;

use crate::support::Bench;

const NO_EFFECT: &[(Fault, &str)] = &[
    (Fault::PartOffset, "a part of its memory is an address with a number added"),
    (Fault::PartFreesWhole, "a part of its memory is an address with a number added"),
];

// Requirement: DRV-12, DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        // The default device by its other id.
        let other = Device::find(DeviceId::new(DeviceType::METAL, -1)).unwrap();
        let run = |fault| faulty::report(&bench, Some(&other), fault);
        faulty::table("Metal", NO_EFFECT, run).assert();
        std::mem::forget(bench);
    });
}
