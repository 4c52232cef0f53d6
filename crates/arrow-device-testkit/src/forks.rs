//! Checks of a backend in a child of `fork`: devices that its parent has opened are refused there,
//! and otherwise devices open as in any process. Callers run each of these in [`process::alone`].
//!
//! [`process::alone`]: crate::process::alone

use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, DataType, Device, Error, ErrorKind, Queue, Result};

use crate::process::forked;

/// The name of a question to a backend's runtime, and the question.
pub type NamedQuestion = (&'static str, fn() -> Result<()>);

fn numbers() -> Array {
    Array::from_values(DataType::Int64, [1_i64, 2, 3].map(Some)).unwrap()
}

fn refused<T>(outcome: Result<T>, what: &str) -> std::result::Result<(), String> {
    match outcome {
        Ok(_) => Err(format!("{what} went well")),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// Checks that a child refuses to use devices that its parent has opened, and to ask the backend's
/// runtime the given questions. What was on the device is counted and forgotten in the child, and
/// the parent's device goes on.
///
/// # Panics
/// Panics if the backend does otherwise.
#[track_caller]
pub fn a_child_refuses_what_its_parent_opened(
    open: fn() -> Result<Device>,
    others: &[NamedQuestion],
) {
    let device = open().unwrap();
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
        refused(open(), "another device")?;
        others.iter().try_for_each(|(what, ask)| refused(ask(), what))?;
        // Arrays of the host are unchanged.
        drop(host.on(&Queue::host()).unwrap());
        if host.host().unwrap().buffer(1).unwrap()[0] != 1 {
            return Err("other bytes".into());
        }
        let before = held_back().abandoned;
        drop((there, used, host, event, queue, device));
        release_finished();
        // The last share of the array is still there, so only the event and a queue are counted.
        if held_back().abandoned > before { Ok(()) } else { Err("nothing is counted".into()) }
    });
    // The parent's arrays are unchanged.
    let back = again.to_host().unwrap();
    assert_eq!(back.host().unwrap().buffer(1).unwrap()[8], 2);
}

/// Checks that a child of a process that has not used the backend opens a device, if there is one,
/// and copies to it and back.
///
/// # Panics
/// Panics if the backend does otherwise.
#[track_caller]
pub fn a_child_opens_devices(is_there: fn() -> bool, open: fn() -> Result<Device>) {
    forked(|| {
        if !is_there() {
            return Ok(());
        }
        let text = |error: Error| error.to_string();
        let device = open().map_err(text)?;
        let queue = device.open_queue().map_err(text)?;
        let back = numbers().copy_to(&queue).and_then(|there| there.to_host()).map_err(text)?;
        let bytes = back.host().map_err(text)?;
        if bytes.buffer(1).map_err(text)?[8] == 2 { Ok(()) } else { Err("other bytes".into()) }
    });
}
