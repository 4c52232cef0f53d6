//! The devices that are open in this process, by id.
//!
//! Holds no device open. Used only where no device is at hand: settling or reading an array that somebody else made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::driver::Raw;
use super::handle::Opened;
use super::{Device, Memory, host};
use crate::{DeviceId, DeviceType};

static OPEN: Mutex<Vec<(DeviceId, Weak<Opened>)>> = Mutex::new(Vec::new());

/// Whether an id ever stood for several runtimes at once. Who copies within a device asks this every time.
static AMBIGUOUS: AtomicBool = AtomicBool::new(false);

pub(super) fn add(device: &Device, opened: &Arc<Opened>) {
    let (id, runtime) = (device.id(), device.driver().runtime());
    if all(id).iter().any(|other| other.driver().runtime() != runtime) {
        AMBIGUOUS.store(true, Ordering::Relaxed);
    }
    let mut open = crate::sync::lock(&OPEN);
    open.retain(|(_, known)| known.strong_count() > 0);
    open.push((id, Arc::downgrade(opened)));
}

/// Whether an id may stand for several runtimes.
pub(super) fn is_ambiguous() -> bool {
    AMBIGUOUS.load(Ordering::Relaxed)
}

/// The device of this id that has this memory; where none says so, the one opened last.
///
/// # Safety
/// As for [`Driver::holds`](super::driver::Driver::holds).
pub(super) unsafe fn find_holding(id: DeviceId, memory: Raw<Memory>) -> Option<Device> {
    let mut open = all(id).into_iter();
    let last = open.next()?;
    // SAFETY: promised by the caller.
    if unsafe { last.driver().holds(memory) } {
        return Some(last);
    }
    // SAFETY: as above.
    let other = open.find(|device| unsafe { device.driver().holds(memory) });
    Some(other.unwrap_or(last))
}

/// All devices of this id, the one opened last first.
fn all(id: DeviceId) -> Vec<Device> {
    let open = crate::sync::lock(&OPEN);
    let open = open.iter().rev().filter(|(known, _)| *known == id);
    open.filter_map(|(_, opened)| opened.upgrade()).map(Device::from_opened).collect()
}

pub(super) fn find(id: DeviceId) -> Option<Device> {
    if id.device_type == DeviceType::CPU {
        return Some(host::device());
    }
    let open = crate::sync::lock(&OPEN);
    let found = open
        .iter()
        .rev()
        .filter(|(known, _)| *known == id)
        .find_map(|(_, opened)| opened.upgrade());
    drop(open);
    found.map(Device::from_opened)
}
