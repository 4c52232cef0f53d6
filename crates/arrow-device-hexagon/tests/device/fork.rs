//! A child of `fork`: what the parent has opened is refused, and a child whose parent has not used
//! the library opens devices as any process does.

use std::sync::{Arc, OnceLock};

use arrow_device::Device;
use arrow_device_hexagon::{Opening, domain, is_available, open, open_with};
use arrow_device_testkit::forks;
use arrow_device_testkit::process::{self, Child};
use simulated_hexagon::Dsp;

use crate::support;

fn open_it() -> arrow_device::Result<Device> {
    open(domain::CDSP)
}

/// A device with a ring.
fn open_with_ring() -> arrow_device::Result<Device> {
    static DSP: OnceLock<Arc<Dsp>> = OnceLock::new();
    let dsp = DSP.get_or_init(|| support::dsp().unwrap());
    open_with(Opening::new(domain::CDSP).with_ring(dsp.clone()))
}

fn with_the_library(body: fn()) {
    if process::is_child() {
        return body();
    }
    let library = simulated_hexagon::library();
    Child::of_this_test().env("ARROW_DEVICE_HEXAGON_LIBRARY", library).run().expect_success();
}

#[test]
fn what_the_parent_opened_is_refused_in_a_child() {
    with_the_library(|| {
        if support::dsp().is_none() {
            return;
        }
        forks::a_child_refuses_what_its_parent_opened(
            open_with_ring,
            &[
                ("whether there is a device", is_available),
                ("a device without a ring", || open_it().map(drop)),
            ],
        );
    });
}

#[test]
fn a_child_of_a_process_that_did_not_use_it_opens_devices() {
    with_the_library(|| forks::a_child_opens_devices(|| is_available().is_ok(), open_it));
}
