//! A backend in a child of `fork`: what its parent has opened is refused there, and otherwise
//! devices open as in any process. A caller runs each of these in [`process::alone`].
//!
//! [`process::alone`]: crate::process::alone

use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, DataType, Device, Error, ErrorKind, Queue, Result};

use crate::process::forked;

/// A question to a backend's runtime, and its name.
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

/// What the parent has opened is refused in a child, as are the backend's other questions to its
/// runtime, each with its name. What was on the device is counted and forgotten, and the parent's
/// goes on.
///
/// # Panics
/// If the backend does otherwise.
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
}

/// A child of a process that has not used the backend opens a device, where there is one, and
/// copies to it and back.
///
/// # Panics
/// If the backend does otherwise.
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
