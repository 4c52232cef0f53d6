//! The suite before each fault of a driver.

use arrow_device_testkit::faulty::{self, Fault};
use arrow_device_vulkan::Placement;

use crate::support::Bench;

/// What does not matter where the host sees the memory, and where it does not.
const NO_EFFECT: &[(Fault, &str)] = &[];

#[test]
fn the_suite_finds_each_fault() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(bench) = Bench::with(placement) else { return };
        let name = format!("Vulkan, {placement:?}");
        faulty::table(name, NO_EFFECT, |fault| faulty::report(&bench, None, fault)).assert();
    }
}
