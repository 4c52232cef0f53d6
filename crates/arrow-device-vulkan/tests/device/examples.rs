//! The example runs to its end, and it is the wait that makes its values right.

use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device_vulkan::Placement;
use ash::vk::{Event, Handle};

use crate::shader::{Consumer, ROWS, expected, produce};
use crate::support;

#[test]
fn the_shader_runs() {
    if support::is_there() {
        crate::shader::main().unwrap();
    }
}

// Requirement: ARR-5, ARR-20
#[test]
fn an_array_that_was_exported_unwaited_is_waited_for_and_without_the_wait_wrong() {
    let Some(bench) = support::Bench::with(Placement::HostVisible) else { return };
    let vulkan = bench.vulkan();
    for _ in 0..10 {
        for waits in [true, false] {
            let mut schema = ArrowSchema::empty();
            let mut array = ArrowDeviceArray::empty();
            let mut producer = produce(vulkan, &bench, &mut schema, &mut array).unwrap();
            // What others see is a `VkEvent`, which is set when all is done.
            let event = unsafe { array.sync_event.cast::<u64>().read() };
            let is_set =
                || unsafe { vulkan.device.get_event_status(Event::from_raw(event)) }.unwrap();
            assert!(!is_set());
            if !waits {
                // A consumer that does not look at the event: for it there is none.
                array.sync_event = std::ptr::null_mut();
            }
            let consumer = Consumer::start(&mut schema, &mut array).unwrap();
            if waits {
                assert!(!consumer.is_there_within(Duration::from_millis(5)).unwrap());
                assert!(!is_set());
                producer.gate.open().unwrap();
                assert_eq!(consumer.finish().unwrap(), expected());
            } else {
                assert_eq!(consumer.finish().unwrap(), [-1; ROWS]);
                producer.gate.open().unwrap();
            }
        }
    }
}
