//! The devices that are open in this process, by id.
//!
//! Holds no device open. Used only where no device is at hand: settling or reading an array that somebody else made.

use std::sync::{Arc, Mutex, Weak};

use super::handle::Opened;
use super::{Device, host};
use crate::{DeviceId, DeviceType};

static OPEN: Mutex<Vec<(DeviceId, Weak<Opened>)>> = Mutex::new(Vec::new());

pub(super) fn add(id: DeviceId, opened: &Arc<Opened>) {
    let mut open = crate::sync::lock(&OPEN);
    open.retain(|(_, known)| known.strong_count() > 0);
    open.push((id, Arc::downgrade(opened)));
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
