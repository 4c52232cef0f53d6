//! Lost devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device::{Array, DataType, Device, ErrorKind};
use arrow_device_testkit::release_until;
use arrow_device_wgpu::{Opening, open_from};

use crate::support;

fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(1), None]).unwrap()
}

/// Asks a device for everything.
fn is_lost(device: &Device, there: &Array) {
    let lost = ErrorKind::DeviceLost;
    assert_eq!(device.allocate(64).unwrap_err().kind(), lost);
    assert_eq!(device.open_queue().unwrap_err().kind(), lost);
    assert_eq!(there.to_host().unwrap_err().kind(), lost);
}

// Requirement: DRV-28
#[test]
fn a_destroyed_device_is_lost_although_nobody_tells() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let there = numbers().copy_to(&queue).unwrap();
    there.wait().unwrap();
    application.device.destroy();
    let error = there.to_host().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    is_lost(&device, &there);
    assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
    drop(there);
    assert!(release_until(|| device.held().allocated == 0));
    let error = open_from(&application.device, &application.queue).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
}

/// wgpu takes a write to a destroyed device without an error.
#[test]
fn what_was_written_to_a_destroyed_device_is_not_said_to_be_there() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    application.device.destroy();
    let written = memory.write(&queue, &[1; 64]).and_then(|()| queue.synchronize());
    assert_eq!(written.unwrap_err().kind(), ErrorKind::DeviceLost);
}

/// A flag of the application's is looked at by calls that wgpu would accept.
#[test]
fn the_flag_of_the_loss_is_looked_at_in_every_call() {
    let Some(application) = support::application() else { return };
    let flag = Arc::new(AtomicBool::new(false));
    let opening = Opening::new(&application.device, &application.queue);
    let device = opening.with_loss(flag.clone()).open().unwrap();
    let there = numbers().copy_to(&device.open_queue().unwrap()).unwrap();
    flag.store(true, Ordering::SeqCst);
    is_lost(&device, &there);
}

#[test]
fn a_read_under_way_when_the_device_is_destroyed_ends() {
    let Some((application, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let there = numbers().copy_to(&queue).unwrap();
    let mut copy = there.copy_polled(&arrow_device::Queue::host(), &Default::default()).unwrap();
    let begun = copy.poll().unwrap();
    application.device.destroy();
    if begun.is_some() {
        return;
    }
    let ended = (0..100_000).find_map(|_| match copy.poll() {
        Ok(None) => None,
        Ok(Some(back)) => Some(Ok(back)),
        Err(error) => Some(Err(error)),
    });
    // The bytes had come already, or the device is lost.
    if let Err(error) = ended.expect("the copy ends") {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
    }
}
