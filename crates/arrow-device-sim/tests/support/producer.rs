//! A producer that does not use the library's arrays: a struct filled by hand, on the device's raw
//! calls.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::driver::{Driver, Raw, SyncEvent};
use arrow_device::{Event, Memory, Queue};
use arrow_device_sim::Sim;

use super::at;

/// What a producer's array owns.
struct Owned {
    driver: Arc<dyn Driver>,
    memory: Raw<Memory>,
    len: u64,
    event: Raw<Event>,
    releases: Arc<AtomicUsize>,
    buffers: [*const c_void; 2],
}

/// An array of 64-bit numbers that a kernel on the queue still has to write. Its release frees the
/// memory at once, as the interface allows, and counts.
pub(crate) fn pending_numbers(
    sim: &Sim,
    queue: &Queue,
    numbers: &[i64],
    releases: &Arc<AtomicUsize>,
) -> ArrowDeviceArray {
    let driver = sim.device().driver().clone();
    let len = 8 * numbers.len() as u64;
    let memory = unsafe { driver.allocate(len, None) }.unwrap();
    let written = numbers.to_vec();
    let kernel = sim.kernel("foreign producer").writes(at(memory, 0), len);
    kernel.launch(queue, move |memory| memory.set_values(0, &written)).unwrap();
    let event = unsafe { driver.record(queue.raw(), driver.make_event().unwrap()) }.unwrap();
    let SyncEvent::Address(sync_event) = driver.sync_event(event).unwrap() else { panic!() };
    let id = driver.id();
    let buffers = [std::ptr::null(), memory.as_ptr().cast_const()];
    let owned = Owned { driver, memory, len, event, releases: releases.clone(), buffers };
    let owned = Box::into_raw(Box::new(owned));
    let mut array = ArrowArray::empty();
    array.length = numbers.len() as i64;
    array.n_buffers = 2;
    array.buffers = unsafe { (&raw mut (*owned).buffers).cast() };
    array.release = Some(release);
    array.private_data = owned.cast();
    ArrowDeviceArray {
        array,
        device_id: id.id,
        device_type: id.device_type.0,
        sync_event: sync_event.as_ptr(),
        reserved: [0; 3],
    }
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    let owned = unsafe { Box::from_raw((*array).private_data.cast::<Owned>()) };
    unsafe { owned.driver.destroy_event(owned.event) };
    unsafe { owned.driver.free(owned.memory, owned.len) };
    owned.releases.fetch_add(1, Ordering::SeqCst);
    unsafe { (*array).release = None };
}

/// A mistake of such a producer: the event goes before the array does.
pub(crate) fn destroy_event_early(array: &ArrowDeviceArray) {
    let owned = unsafe { &mut *array.array.private_data.cast::<Owned>() };
    unsafe { owned.driver.destroy_event(owned.event) };
    owned.event = Raw::NULL;
}
