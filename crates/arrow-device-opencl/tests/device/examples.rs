//! The example runs to its end, and it is the wait that makes its values right.

#[path = "../../examples/kernel/main.rs"]
mod kernel;

use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device_testkit::application::opencl::Cl;
use kernel::{Consumer, ROWS, expected, produce};

use crate::support;

#[test]
fn the_kernel_runs() {
    if support::is_there() {
        kernel::main().unwrap();
    }
}

// Requirement: ARR-5, ARR-20
#[test]
fn an_array_that_was_exported_unwaited_is_waited_for_and_without_the_wait_wrong() {
    let Some(device) = support::device() else { return };
    let cl = Cl::load().unwrap();
    for _ in 0..20 {
        for waits in [true, false] {
            let mut schema = ArrowSchema::empty();
            let mut array = ArrowDeviceArray::empty();
            let mut gate = produce(&cl, &device, &mut schema, &mut array).unwrap();
            assert!(!array.sync_event.is_null());
            if !waits {
                // A consumer that does not look at the event: for it there is none.
                array.sync_event = std::ptr::null_mut();
            }
            let consumer = Consumer::submit(&mut schema, &mut array).unwrap();
            if waits {
                assert!(!consumer.is_there_within(Duration::ZERO).unwrap());
                gate.open().unwrap();
                assert_eq!(consumer.finish().unwrap(), expected());
            } else {
                assert_eq!(consumer.finish().unwrap(), [-1; ROWS]);
                gate.open().unwrap();
            }
        }
    }
}
