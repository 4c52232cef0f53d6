//! The devices that are open in this process, by id.
//!
//! Holds no device open. Used only where no device is at hand: settling or reading an array that somebody else made.

use std::sync::{Arc, Mutex, Weak};

use super::driver::Driver;
use super::{Device, host};
use crate::{DeviceId, DeviceType};

static OPEN: Mutex<Vec<(DeviceId, Weak<dyn Driver>)>> = Mutex::new(Vec::new());

pub(super) fn add(driver: &Arc<dyn Driver>) {
    let mut open = crate::sync::lock(&OPEN);
    open.retain(|(_, known)| known.strong_count() > 0);
    open.push((driver.id(), Arc::downgrade(driver)));
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
        .find_map(|(_, driver)| driver.upgrade());
    drop(open);
    found.map(Device::from_driver)
}
