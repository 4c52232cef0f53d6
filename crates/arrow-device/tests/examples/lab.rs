//! The device of an example, made of host memory and threads, passes the suite.
use std::time::{Duration, Instant};

use arrow_device_testkit::faulty::{self, Fault};
use arrow_device_testkit::process;
use arrow_device_testkit::suite::Suite;

use crate::own_device::lab;

#[test]
#[cfg_attr(miri, ignore = "some thousand arrays are too many for an interpreter")]
fn the_device_of_the_example_passes_the_suite() {
    // Whatever the device has allocated is counted in the process.
    process::alone(the_suite_leaves_nothing_behind);
}

const NO_PARTS: &str = "a part of its memory is an address with a number added";
const UNREADABLE: &str = "the host cannot read its memory in place";
const NOT_FILLED: &str = "the host cannot write its memory in place";
const NOT_LOCATED: &str = "it does not tell where an address lies";
const ALONE: &str = "it has no peer";

/// Faults of a driver that change no result on such a device.
const NO_EFFECT: &[(Fault, &str)] = &[
    (Fault::PartOffset, NO_PARTS),
    (Fault::PartFreesWhole, NO_PARTS),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
    (Fault::FillLost, NOT_FILLED),
    (Fault::FilledNow, NOT_FILLED),
    (Fault::LocatedElsewhere, NOT_LOCATED),
    (Fault::LocatedFromStart, NOT_LOCATED),
    (Fault::CopyPeer, ALONE),
];

#[test]
#[cfg_attr(miri, ignore = "some thousand arrays are too many for an interpreter")]
fn the_suite_would_find_each_fault_of_such_a_driver() {
    let run = |fault| faulty::report(&lab::open(71), None, fault);
    faulty::table("threads in a lab", NO_EFFECT, run).assert();
}

fn the_suite_leaves_nothing_behind() {
    let before = lab::allocated();
    Suite::new(&lab::open(70)).run().assert();
    // What its threads have just done is found out when somebody asks.
    let patience = Instant::now() + Duration::from_secs(20);
    while lab::allocated() > before && Instant::now() < patience {
        arrow_device::deferred::release_finished();
        std::thread::yield_now();
    }
    assert_eq!(lab::allocated(), before);
}
