//! Sizes of views in device memory, where the device of the array is not open.

use std::ffi::c_void;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, ErrorKind, Queue};
use arrow_device_cuda::Kind;
use arrow_device_testkit::process;
use gpu_backends::{Bench, Machine};

const TEXT: &[u8] = b"a text that is too long to be part of a view";

unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: the consumer gives the struct itself.
    unsafe { (*array).release = None };
}

/// These bytes on the device, in memory that nobody gives back and that keeps nothing open.
fn put(queue: &Queue, bytes: &[u8]) -> *const c_void {
    // SAFETY: UNS-22: 64 bytes, for no queue.
    let memory = unsafe { queue.device().driver().allocate(64, None) }.unwrap();
    let from = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
    let region = Region { from, to: Spot { base: memory, offset: 0 }, len: bytes.len() as u64 };
    // SAFETY: UNS-21: no more than 64 bytes, and the source stays until the wait is over.
    unsafe { queue.copy(Route::FromHost, &[region]) }.unwrap();
    queue.synchronize().unwrap();
    memory.as_ptr().cast_const()
}

/// A foreign CUDA array of one long text, with the sizes on the device: UNS-3 allows that.
fn foreign(machine: &Machine, ordinal: usize) -> Array {
    let queue = machine.open(ordinal, Kind::Device).open_queue().unwrap();
    let id = queue.device().id();
    let mut view = (TEXT.len() as u32).to_le_bytes().to_vec();
    view.extend(TEXT.iter().take(4));
    view.extend([0; 8]);
    let size = (TEXT.len() as i64).to_ne_bytes();
    let [views, data, sizes] = [&view, TEXT, &size].map(|bytes| put(&queue, bytes));
    let table: &'static mut [*const c_void; 4] =
        Box::leak(Box::new([std::ptr::null(), views, data, sizes]));
    let mut c_array = ArrowDeviceArray::empty();
    c_array.device_type = id.device_type.0;
    c_array.device_id = id.id;
    c_array.array.length = 1;
    c_array.array.n_buffers = 4;
    c_array.array.buffers = table.as_mut_ptr().cast();
    c_array.array.release = Some(release);
    let schema = arrow_device::Schema::try_from(DataType::Utf8View).unwrap();
    drop(queue);
    // SAFETY: UNS-3 to UNS-6: all of it stays for ever.
    unsafe { Array::import(&mut c_array, &schema) }.unwrap()
}

// Requirement: SAF-4
#[test]
fn the_queue_of_a_view_tells_where_sizes_lie() {
    process::alone(|| {
        for (ordinal, kind) in [(1, Kind::Device), (0, Kind::Host)] {
            let bench = Bench::cuda();
            let array = foreign(&bench, ordinal);
            let queue = bench.open(0, kind).open_queue().unwrap();
            let view = array.on(&queue).unwrap();
            assert_eq!(view.root().data_buffer_len(2).unwrap(), TEXT.len() as u64);
            drop(view);
        }
    });
}

// Requirement: SAF-4
#[test]
fn sizes_of_a_device_that_is_not_open_are_not_read() {
    process::alone(|| {
        let bench = Bench::cuda();
        let array = foreign(&bench, 1);
        let refused = array.to_host().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DeviceMissing, "{refused}");
    });
}

// Requirement: SAF-4, SAF-27
#[cfg(unix)]
#[test]
fn sizes_of_the_parents_device_are_not_read() {
    process::alone(|| {
        let bench = Bench::cuda();
        let device = bench.open(0, Kind::Device);
        let array = foreign(&bench, 0);
        let queue = device.open_queue().unwrap();
        let view = array.on(&queue).unwrap();
        process::forked(|| match view.root().data_buffer_len(2) {
            Ok(len) => Err(format!("{len} bytes")),
            Err(_) => Ok(()),
        });
    });
}
