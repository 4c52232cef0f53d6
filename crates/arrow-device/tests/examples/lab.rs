//! The device of an example, made of host memory and threads, passes the suite.
use std::time::{Duration, Instant};

use arrow_device_testkit::process;
use arrow_device_testkit::suite::Suite;

use crate::own_device::lab;

#[test]
#[cfg_attr(miri, ignore = "some thousand arrays are too many for an interpreter")]
fn the_device_of_the_example_passes_the_suite() {
    // Whatever the device has allocated is counted in the process.
    process::alone(the_suite_leaves_nothing_behind);
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
