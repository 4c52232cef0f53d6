//! The suite before each fault of a driver.

use arrow_device_testkit::faulty::{self, Fault};
use arrow_device_testkit::process;

use crate::support;

const NO_PARTS: &str = "a part of its memory is an address with a number added";
const UNREADABLE: &str = "the host cannot read its memory in place";
const NOT_FILLED: &str = "the host cannot write its memory in place";
const ALONE: &str = "a simulator reaches no other one";
const NO_EVENTS: &str = "VPI devices have no events in the interface";

const NO_EFFECT: &[(Fault, &str)] = &[
    (Fault::PartOffset, NO_PARTS),
    (Fault::PartFreesWhole, NO_PARTS),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
    (Fault::FillLost, NOT_FILLED),
    (Fault::FilledNow, NOT_FILLED),
    (Fault::CopyPeer, ALONE),
    (Fault::SyncEvent, NO_EVENTS),
    (Fault::ReadSyncEvent, NO_EVENTS),
];

/// Some faults leave no memory: another simulator takes the place of one that has less than half.
#[test]
fn the_suite_finds_each_fault() {
    process::alone(|| {
        let Some(mut device) = support::device() else { return };
        let run = |fault| {
            let simulator = support::simulator(&device);
            if simulator.memory_in_use() > simulator.memory_size() / 2 {
                device = support::device().unwrap();
            }
            faulty::report(&device, None, fault)
        };
        faulty::table("VPI", NO_EFFECT, run).assert();
    });
}
