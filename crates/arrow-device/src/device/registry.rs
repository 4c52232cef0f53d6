//! The devices that are open in this process, by id.
//!
//! Holds no device open. Used only where no device is at hand: settling or reading an array that
//! somebody else made.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::driver::{Raw, Runtime};
use super::handle::OpenDevice;
use super::{Device, Memory, deferred, host};
use crate::process::PerProcess;
use crate::{DeviceId, DeviceType};

/// A child of `fork` has a list of its own: the devices of its parent are not open there.
static OPEN: PerProcess<Mutex<Listed>> = PerProcess::new(Mutex::new(Vec::new()));

type Listed = Vec<ListedDevice>;

struct ListedDevice {
    id: DeviceId,
    opened: Weak<OpenDevice>,
    /// Whether it is known if its id is ambiguous. Nobody finds the device before.
    is_judged: bool,
}

/// The runtimes that were ever open by an id: who has data of one that is closed may still use the
/// id. A child of `fork` goes on with none, as it has no devices.
static RUNTIMES: PerProcess<Mutex<Runtimes>> = PerProcess::new(Mutex::new(None));

type Runtimes = Option<HashMap<DeviceId, RuntimesOfId>>;

/// The runtimes of one id, as far as anybody asks.
#[derive(Clone, Copy)]
enum RuntimesOfId {
    One(Runtime),
    Several,
}

/// Whether there was ever a device on the list. Before that forks are not counted, and nobody takes
/// the lock.
static USED: AtomicBool = AtomicBool::new(false);

/// Whether an id ever stood for several runtimes at once: several were open by it, or one reaches
/// by its number what another one is open by. Who copies within a device asks this every time.
static AMBIGUOUS: AtomicBool = AtomicBool::new(false);

/// Whether there ever was a device whose arrays are ready in the order of its queue.
static IN_QUEUE_ORDER: AtomicBool = AtomicBool::new(false);

pub(super) fn add(device: &Device, opened: &Arc<OpenDevice>) {
    // The driver's guard has begun to count forks.
    USED.store(true, Ordering::Release);
    if device.is_in_queue_order() {
        IN_QUEUE_ORDER.store(true, Ordering::Relaxed);
    }
    // The others may be closed meanwhile, and then end here: who waits for all releases waits.
    deferred::in_hand(|| {
        let others = list(device, opened);
        let is_one_of_several = note_runtime(device);
        if is_one_of_several || others.iter().any(|other| is_mistaken_for(device, other)) {
            AMBIGUOUS.store(true, Ordering::Relaxed);
        }
        // Whoever finds the device from here on sees the answer, by the lock.
        let mut open = crate::sync::lock(OPEN.get());
        let is_it = |known: &&mut ListedDevice| known.opened.as_ptr() == Arc::as_ptr(opened);
        if let Some(known) = open.iter_mut().find(is_it) {
            known.is_judged = true;
        }
    });
}

/// Puts a device on the list. Returns the others on the list: one lock for both, so that of two
/// devices that are opened at once, one sees the other.
fn list(device: &Device, opened: &Arc<OpenDevice>) -> Vec<Device> {
    // Dropped without the lock: each may be the last share of a device that is closed meanwhile.
    let mut others = Vec::new();
    let mut open = crate::sync::lock(OPEN.get());
    open.retain(|known| known.opened.strong_count() > 0);
    let known = open.iter().filter_map(|other| other.opened.upgrade());
    others.extend(known.map(Device::from_opened));
    let opened = Arc::downgrade(opened);
    open.push(ListedDevice { id: device.id(), opened, is_judged: false });
    others
}

/// Notes the runtime of a device by the device's id. Returns whether the id stands for several.
fn note_runtime(device: &Device) -> bool {
    let runtime = device.driver().runtime();
    let mut known = crate::sync::lock(RUNTIMES.get());
    let of_id = known.get_or_insert_default().entry(of_all(device.id()));
    let of_id = of_id.or_insert(RuntimesOfId::One(runtime));
    if matches!(of_id, RuntimesOfId::One(first) if *first != runtime) {
        *of_id = RuntimesOfId::Several;
    }
    matches!(of_id, RuntimesOfId::Several)
}

/// Whether this id has stood for several runtimes.
pub(super) fn has_several_runtimes(id: DeviceId) -> bool {
    let known = crate::sync::lock(RUNTIMES.get());
    let of_id = known.as_ref().and_then(|known| known.get(&of_all(id)));
    matches!(of_id, Some(RuntimesOfId::Several))
}

/// Whether an id stands for both, or one reaches by its number what the other is open by. Asks
/// drivers, without a lock.
fn is_mistaken_for(device: &Device, other: &Device) -> bool {
    let (driver, others) = (device.driver(), other.driver());
    let reaches = || others.reaches(driver.id()).is_ok() || driver.reaches(others.id()).is_ok();
    others.runtime() != driver.runtime() && (others.id() == driver.id() || reaches())
}

/// Whether an id may stand for several runtimes.
pub(super) fn is_ambiguous() -> bool {
    AMBIGUOUS.load(Ordering::Relaxed)
}

/// Whether arrays of any device may be ready in the order of its queue.
#[inline(always)]
pub(super) fn any_in_queue_order() -> bool {
    IN_QUEUE_ORDER.load(Ordering::Relaxed)
}

/// The device of this id that has this memory: the only one that says so; or, where none says so,
/// the only one that cannot tell.
///
/// # Safety
/// The memory is a `buffers[i]` of an array that claims to be on this device and is alive.
pub(super) unsafe fn find_holding(id: DeviceId, memory: Raw<Memory>) -> Option<Device> {
    let (mut having, mut unsure) = (Vec::new(), Vec::new());
    for device in of_each_runtime(id) {
        // SAFETY: the memory is of a live array that claims to be on this device, as the caller
        // promises.
        match unsafe { device.driver().holds(memory) } {
            Some(true) => having.push(device),
            None => unsure.push(device),
            Some(false) => {}
        }
    }
    let found = if having.is_empty() { unsure } else { having };
    <[Device; 1]>::try_from(found).ok().map(|[only]| only)
}

/// The open devices of this id, one of each runtime.
pub(super) fn of_each_runtime(id: DeviceId) -> Vec<Device> {
    let mut found: Vec<Device> = Vec::new();
    for device in all(id) {
        let runtime = device.driver().runtime();
        if found.iter().all(|known| known.driver().runtime() != runtime) {
            found.push(device);
        }
    }
    found
}

/// All devices of this id, the one opened last first.
fn all(id: DeviceId) -> Vec<Device> {
    if !USED.load(Ordering::Acquire) {
        return Vec::new();
    }
    let open = crate::sync::lock(OPEN.get());
    let is_it = |known: DeviceId| known == id || is_any(id) && known.device_type == id.device_type;
    let open = open.iter().rev().filter(|known| known.is_judged && is_it(known.id));
    open.filter_map(|known| known.opened.upgrade()).map(Device::from_opened).collect()
}

pub(super) fn find(id: DeviceId) -> Option<Device> {
    if id.device_type == DeviceType::CPU {
        return Some(host::device());
    }
    if !USED.load(Ordering::Acquire) {
        return None;
    }
    let open = crate::sync::lock(OPEN.get());
    let find = |is_it: &dyn Fn(DeviceId) -> bool| {
        let found = open.iter().rev().filter(|known| known.is_judged && is_it(known.id));
        found.into_iter().find_map(|known| known.opened.upgrade())
    };
    let found = find(&|known| known == id).or_else(|| match is_any(id) {
        true => find(&|known| known.device_type == id.device_type),
        false => None,
    });
    drop(open);
    found.map(Device::from_opened)
}

/// Whether a number stands for no device in particular: pinned and managed memory belong to all
/// devices of their runtime, and producers write -1 or 0 for them.
fn is_any(id: DeviceId) -> bool {
    is_of_all_devices(id.device_type) && matches!(id.id, -1 | 0)
}

/// Whether memory of this type belongs to all devices of its runtime.
fn is_of_all_devices(device_type: DeviceType) -> bool {
    matches!(device_type, DeviceType::CUDA_HOST | DeviceType::CUDA_MANAGED | DeviceType::ROCM_HOST)
}

/// The id by which runtimes are known: one for all memory that belongs to all devices.
fn of_all(id: DeviceId) -> DeviceId {
    if is_of_all_devices(id.device_type) { DeviceId::new(id.device_type, -1) } else { id }
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;
    use arrow_device_testkit::process::{alone, forked};

    #[test]
    fn a_child_finds_devices_though_a_thread_of_its_parent_held_the_list() {
        alone(|| {
            let id = DeviceId::new(DeviceType::EXT_DEV, 5);
            crate::process::watch();
            USED.store(true, Ordering::Release);
            let (locked, wait) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let holder = std::thread::spawn(move || {
                let open = crate::sync::lock(OPEN.get());
                locked.send(()).unwrap();
                let _ = ended.recv();
                drop(open);
            });
            wait.recv().unwrap();
            forked(|| {
                let found = find(id).is_some() || !all(id).is_empty();
                if found { Err("a device that nobody opened".into()) } else { Ok(()) }
            });
            drop(end);
            holder.join().unwrap();
        });
    }
}
