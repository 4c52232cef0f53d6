//! The suite before each fault of a driver.

use arrow_device_testkit::faulty::{self, Fault};

use crate::support;

const UNREADABLE: &str = "the host cannot read its memory";
const NOT_FILLED: &str = "the host cannot write its memory";
const ALL_ONE: &str = "all queues are one, so none waits for another";
const UNSHOWN: &str = "others are shown no events, and show none";

const NO_EFFECT: &[(Fault, &str)] = &[
    (Fault::Misaligned, "a handle has no alignment"),
    (Fault::LocatedFromStart, "a handle stands for the start of its part"),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
    (Fault::FillLost, NOT_FILLED),
    (Fault::FilledNow, NOT_FILLED),
    (Fault::CopyPeer, "no other device was named"),
    (Fault::QueueWait, ALL_ONE),
    (Fault::EventDestroyed, ALL_ONE),
    (Fault::FailureKept, ALL_ONE),
    (Fault::SyncEvent, UNSHOWN),
    (Fault::ReadSyncEvent, UNSHOWN),
];

// Requirement: DRV-18, DRV-19, DRV-23, DRV-27, DRV-28
#[test]
fn the_suite_finds_each_fault() {
    let Some((device, _)) = support::bench() else { return };
    let run = |fault| faulty::report(&device, None, fault);
    faulty::table("wgpu", NO_EFFECT, run).assert();
}
