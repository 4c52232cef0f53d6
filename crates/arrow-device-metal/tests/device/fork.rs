//! Metal in a child of `fork`: what the parent has opened is refused, and a child whose parent has
//! not used Metal opens devices as any process does.

use arrow_device_testkit::forks;
use arrow_device_testkit::process::alone;
use metal_stand_in::StandIn;

#[test]
fn what_the_parent_opened_is_refused_in_a_child() {
    alone(|| {
        if StandIn::load().is_some() {
            forks::a_child_refuses_what_its_parent_opened(
                || arrow_device_metal::open(0),
                &[
                    ("a list of devices", || arrow_device_metal::devices().map(drop)),
                    ("whether there is a device", || arrow_device_metal::is_available()),
                ],
            );
        }
    });
}

#[test]
fn a_child_of_a_process_that_did_not_use_it_opens_devices() {
    alone(|| {
        forks::a_child_opens_devices(|| StandIn::load().is_some(), || arrow_device_metal::open(0));
    });
}
