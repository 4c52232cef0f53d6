//! Sizes of views in device memory, where the device of the array is not open.

use std::ffi::c_void;
use std::sync::Arc;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::driver::{Driver, Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, ErrorKind, Memory, Queue};
use arrow_device_cuda::Kind;
use arrow_device_testkit::process;
use gpu_backends::{Bench, Machine};

const TEXT: &[u8] = b"a text that is too long to be part of a view";

unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: the consumer gives the struct itself.
    unsafe { (*array).release = None };
}

fn put(driver: &Arc<dyn Driver>, bytes: &[u8]) -> Raw<Memory> {
    // SAFETY: UNS-21 and UNS-22: the memory is as long, and the wait keeps both sides.
    unsafe {
        let memory = driver.allocate(bytes.len().max(64) as u64, None).unwrap();
        let queue: Raw<Queue> = driver.open_queue().unwrap();
        let from = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
        let to = Spot { base: memory, offset: 0 };
        driver
            .copy(queue, Route::FromHost, &[Region { from, to, len: bytes.len() as u64 }])
            .unwrap();
        driver.synchronize(queue).unwrap();
        driver.close_queue(queue);
        memory
    }
}

/// A foreign CUDA array of one long text, with the sizes on the device: UNS-3 allows that.
fn foreign(machine: &Machine, ordinal: usize) -> Array {
    let device = machine.open(ordinal, Kind::Device);
    let driver = device.driver().clone();
    let id = device.id();
    drop(device);
    let mut view = (TEXT.len() as u32).to_le_bytes().to_vec();
    view.extend(&TEXT[..4]);
    view.extend([0; 8]);
    let views = put(&driver, &view);
    let data = put(&driver, TEXT);
    let sizes = put(&driver, &(TEXT.len() as i64).to_ne_bytes());
    let table: &'static mut [*const c_void; 4] = Box::leak(Box::new([
        std::ptr::null(),
        views.as_ptr().cast_const(),
        data.as_ptr().cast_const(),
        sizes.as_ptr().cast_const(),
    ]));
    let mut c_array = ArrowDeviceArray::empty();
    c_array.device_type = id.device_type.0;
    c_array.device_id = id.id;
    c_array.array.length = 1;
    c_array.array.n_buffers = 4;
    c_array.array.buffers = table.as_mut_ptr().cast();
    c_array.array.release = Some(release);
    let schema = arrow_device::Schema::try_from(DataType::Utf8View).unwrap();
    std::mem::forget(driver);
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
