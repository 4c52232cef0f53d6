//! A child of `fork`: Vulkan does not work there if the parent has used it, and says so; otherwise
//! it works as anywhere.

use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, DataType, Error, ErrorKind, Queue};
use arrow_device_testkit::process::{alone, forked};

use crate::support;

fn numbers() -> Array {
    Array::from_values(DataType::Int64, [1_i64, 2, 3].map(Some)).unwrap()
}

fn refused<T>(outcome: Result<T, Error>, what: &str) -> Result<(), String> {
    match outcome {
        Ok(_) => Err(format!("{what} went well")),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

#[test]
fn what_the_parent_opened_is_refused_in_a_child() {
    alone(|| {
        if !support::is_there() {
            return;
        }
        let device = arrow_device_vulkan::open(0).unwrap();
        let queue = device.open_queue().unwrap();
        let (host, event) = (numbers(), queue.record().unwrap());
        let there = host.copy_to(&queue).unwrap();
        drop(there.on(&queue).unwrap());
        let (used, again) = (there.clone(), there.clone());
        forked(|| {
            refused(there.to_host(), "a copy to the host")?;
            refused(there.on(&queue), "a view")?;
            refused(host.copy_to(&queue), "a copy to the device")?;
            refused(queue.synchronize(), "a wait for a queue")?;
            refused(event.is_complete(), "a question")?;
            refused(event.synchronize(), "a wait")?;
            refused(device.allocate(64), "an allocation")?;
            refused(device.open_queue(), "a queue")?;
            refused(arrow_device_vulkan::open(0), "another device")?;
            refused(arrow_device_vulkan::devices(), "a list of devices")?;
            refused(arrow_device_vulkan::is_available(), "whether there is a device")?;
            // The host's are as they were.
            drop(host.on(&Queue::host()).unwrap());
            if host.host().unwrap().buffer(1).unwrap()[0] != 1 {
                return Err("other bytes".into());
            }
            let before = held_back().abandoned;
            drop((there, used, host, event, queue, device));
            release_finished();
            // The last share of the array is still there: no more than the event and a queue.
            if held_back().abandoned > before { Ok(()) } else { Err("nothing is counted".into()) }
        });
        // The parent's are as they were.
        let back = again.to_host().unwrap();
        assert_eq!(back.host().unwrap().buffer(1).unwrap()[8], 2);
    });
}

#[test]
fn a_child_of_a_process_that_did_not_use_it_opens_devices() {
    alone(|| {
        forked(|| {
            if !support::is_there() {
                return Ok(());
            }
            let text = |error: Error| error.to_string();
            let device = arrow_device_vulkan::open(0).map_err(text)?;
            let queue = device.open_queue().map_err(text)?;
            let back = numbers().copy_to(&queue).and_then(|there| there.to_host()).map_err(text)?;
            let bytes = back.host().map_err(text)?;
            if bytes.buffer(1).map_err(text)?[8] == 2 { Ok(()) } else { Err("other bytes".into()) }
        });
    });
}
