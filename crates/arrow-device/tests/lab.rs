//! The device of an example, made of host memory and threads, passes the suite.
#![allow(missing_docs)]

#[allow(dead_code, reason = "the example uses more of it")]
#[path = "../examples/own_device/lab.rs"]
mod lab;

use std::time::{Duration, Instant};

use arrow_device_testkit::suite::Suite;

#[test]
#[cfg_attr(miri, ignore = "some thousand arrays are too many for an interpreter")]
fn the_device_of_the_example_passes_the_suite() {
    let before = lab::allocated();
    Suite::new(&lab::open(70)).run().assert();
    // What its threads have just done is found out when somebody asks.
    let patience = Instant::now() + Duration::from_secs(20);
    while lab::allocated() > before && Instant::now() < patience {
        arrow_device::reclaim();
        std::thread::yield_now();
    }
    assert_eq!(lab::allocated(), before);
}
