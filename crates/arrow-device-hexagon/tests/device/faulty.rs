//! The suite before each fault of a driver.

use arrow_device_testkit::faulty::{self, Fault};
use arrow_device_testkit::process;

use crate::support;

const NO_PARTS: &str = "a part of its memory is an address with a number added";
const ALONE: &str = "there is no other device";
const NO_EVENTS: &str = "arrays are exchanged without events";
const COPIES_WAIT: &str = "all copies wait for the ring";

const WITHOUT_RING: &[(Fault, &str)] = &[
    (Fault::PartOffset, NO_PARTS),
    (Fault::PartFreesWhole, NO_PARTS),
    (Fault::CopyPeer, ALONE),
    (Fault::SyncEvent, NO_EVENTS),
    (Fault::ReadSyncEvent, NO_EVENTS),
];
const WITH_RING: &[(Fault, &str)] = &[
    (Fault::PartOffset, NO_PARTS),
    (Fault::PartFreesWhole, NO_PARTS),
    (Fault::CopyPeer, ALONE),
    (Fault::SyncEvent, NO_EVENTS),
    (Fault::ReadSyncEvent, NO_EVENTS),
    (Fault::CopyWaits, COPIES_WAIT),
];

// Requirement: DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault() {
    let device = support::device();
    let run = |fault| faulty::report(&device, None, fault);
    faulty::table("memory of a Hexagon DSP", WITHOUT_RING, run).assert();
}

// Requirement: DRV-24, DRV-25
#[test]
fn the_suite_finds_each_fault_with_a_ring() {
    process::alone(|| {
        let Some((_dsp, device)) = support::with_ring() else { return };
        let run = |fault| faulty::report(&device, None, fault);
        faulty::table("a Hexagon DSP with a ring", WITH_RING, run).assert();
    });
}
