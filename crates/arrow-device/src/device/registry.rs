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
    let find = |is_it: &dyn Fn(DeviceId) -> bool| {
        let found = open.iter().rev().filter(|(known, _)| is_it(*known));
        found.into_iter().find_map(|(_, opened)| opened.upgrade())
    };
    let found = find(&|known| known == id).or_else(|| match is_any(id) {
        true => find(&|known| known.device_type == id.device_type),
        false => None,
    });
    drop(open);
    found.map(Device::from_opened)
}

/// Whether a number stands for no device in particular: pinned and managed memory belong to all devices of their runtime, and
/// producers write -1 or 0 for them.
fn is_any(id: DeviceId) -> bool {
    let is_of_all = matches!(
        id.device_type,
        DeviceType::CUDA_HOST | DeviceType::CUDA_MANAGED | DeviceType::ROCM_HOST
    );
    is_of_all && matches!(id.id, -1 | 0)
}
