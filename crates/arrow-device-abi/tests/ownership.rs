//! The ownership rules that the structs' documentation states, followed by a producer and a
//! consumer that use nothing but this crate. Run under Miri, this also shows that the declared
//! pointer types allow it.

// The functions at the end are the tests' own.
#![allow(clippy::expect_used)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::Debug;
use std::mem::replace;
use std::ptr;

use arrow_device_abi::dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION,
    DLPackVersion, DLTensor, kDLCPU, kDLInt,
};
use arrow_device_abi::{
    ARROW_DEVICE_CPU, ArrowArray, ArrowArrayStream, ArrowAsyncDeviceStreamHandler,
    ArrowAsyncProducer, ArrowAsyncTask, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema,
};

#[test]
fn an_empty_structure_is_released() {
    assert!(ArrowSchema::empty().is_released());
    assert!(ArrowArray::empty().is_released());
    assert!(ArrowArrayStream::empty().is_released());
    assert!(ArrowDeviceArray::empty().is_released());
    assert!(ArrowDeviceArrayStream::empty().is_released());
    assert!(ArrowAsyncDeviceStreamHandler::empty().is_released());
}

#[test]
fn an_empty_structure_is_all_zero() {
    assert_zero(ArrowSchema::empty());
    assert_zero(ArrowArray::empty());
    assert_zero(ArrowArrayStream::empty());
    assert_zero(ArrowDeviceArray::empty());
    assert_zero(ArrowDeviceArrayStream::empty());
    assert_zero(ArrowAsyncTask::empty());
    assert_zero(ArrowAsyncProducer::empty());
    assert_zero(ArrowAsyncDeviceStreamHandler::empty());
}

/// Compares by what is printed, since padding cannot be read.
fn assert_zero<T: Debug>(value: T) {
    // SAFETY: called with the structs of this crate. Their fields are integers, raw pointers and
    // optional function pointers, for which zero is a value.
    let zero: T = unsafe { std::mem::zeroed() };
    assert_eq!(format!("{value:?}"), format!("{zero:?}"));
}

#[test]
fn a_moved_array_is_released_once_and_its_children_with_it() {
    let released = Cell::new(0);
    let mut source = ArrowDeviceArray::empty();
    export_pair(&mut source, &released);

    let moved = replace(&mut source, ArrowDeviceArray::empty());
    assert!(source.is_released());
    release(moved.array);
    assert_eq!(released.get(), 3);
}

#[test]
fn a_child_that_was_moved_out_outlives_its_parent() {
    let released = Cell::new(0);
    let mut source = ArrowDeviceArray::empty();
    export_pair(&mut source, &released);

    // SAFETY: `export_pair` sets `children` to a table of two live arrays.
    let child = unsafe { *source.array.children };
    // SAFETY: `export_pair` sets `children` to a table of two live arrays.
    let child = unsafe { child.replace(ArrowArray::empty()) };
    release(source.array);
    assert_eq!(released.get(), 2);

    // SAFETY: the child has one buffer, and was not released.
    let buffer = unsafe { *child.buffers };
    // SAFETY: the buffer has one `i32`.
    assert_eq!(unsafe { buffer.cast::<i32>().read() }, 7);
    release(child);
    assert_eq!(released.get(), 3);
}

#[test]
fn a_stream_is_pulled_until_it_hands_out_a_released_array() {
    let released = Cell::new(0);
    let mut stream = ArrowDeviceArrayStream {
        device_type: ARROW_DEVICE_CPU,
        get_next: Some(next_of_stream),
        release: Some(release_stream),
        private_data: (&raw const released).cast_mut().cast(),
        ..ArrowDeviceArrayStream::empty()
    };
    let next = stream.get_next.expect("set above");

    let mut received = ArrowDeviceArray::empty();
    // SAFETY: `stream` is live, and `received` is ours to be written to.
    assert_eq!(unsafe { next(&mut stream, &mut received) }, 0);
    assert!(!received.is_released());

    let mut last = ArrowDeviceArray::empty();
    // SAFETY: `stream` is live, and `received` is ours to be written to.
    assert_eq!(unsafe { next(&mut stream, &mut last) }, 0);
    assert!(last.is_released());

    let release_stream = stream.release.expect("set above");
    // SAFETY: `stream` is live.
    unsafe { release_stream(&mut stream) };
    assert!(stream.is_released());

    release(received.array);
    assert_eq!(released.get(), 3);
}

#[test]
fn a_task_is_copied_by_the_consumer_and_extracted_once() {
    let released = Cell::new(0);
    let offered = ArrowAsyncTask {
        extract_data: Some(extract),
        private_data: (&raw const released).cast_mut().cast(),
    };
    // SAFETY: a consumer may copy the bytes, and uses only the copy from then on.
    let mut kept = unsafe { ptr::read(&offered) };
    let mut received = ArrowDeviceArray::empty();
    let extract = kept.extract_data.expect("set above");
    // SAFETY: `kept` was not extracted before, and `received` is ours to be written to.
    assert_eq!(unsafe { extract(&mut kept, &mut received) }, 0);
    release(received.array);
    assert_eq!(released.get(), 3);
}

// Requirement: DLP-1
#[test]
fn a_managed_tensor_is_given_back_through_its_deleter() {
    let released = Cell::new(0);
    let mut value = 7_i32;
    let tensor = Box::into_raw(Box::new(DLManagedTensorVersioned {
        version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
        manager_ctx: (&raw const released).cast_mut().cast(),
        deleter: Some(delete),
        flags: 0,
        dl_tensor: DLTensor {
            data: (&raw mut value).cast(),
            device: DLDevice { device_type: kDLCPU, device_id: 0 },
            ndim: 0,
            dtype: DLDataType { code: kDLInt, bits: 32, lanes: 1 },
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        },
    }));
    // SAFETY: the tensor is live until its deleter is called.
    let deleter = unsafe { (*tensor).deleter }.expect("set above");
    // SAFETY: the tensor is live until its deleter is called, and it is not used afterwards.
    unsafe { deleter(tensor) };
    assert_eq!(released.get(), 1);
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the test made this pointer with `Box::into_raw`.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: the test keeps the counter until the end.
    count(unsafe { &*tensor.manager_ctx.cast() });
}

fn count(released: &Cell<u32>) {
    released.set(released.get() + 1);
}

/// What a node of the test's arrays owns. All nodes of a test count in the same place.
struct Node {
    released: *const Cell<u32>,
    value: i32,
    buffers: [*const c_void; 1],
    children: Vec<*mut ArrowArray>,
}

/// Writes a struct array with two children of one `i32` each.
fn export_pair(out: &mut ArrowDeviceArray, released: *const Cell<u32>) {
    let child = |value| Box::into_raw(Box::new(node(value, Vec::new(), released)));
    *out = ArrowDeviceArray {
        array: node(0, vec![child(7), child(8)], released),
        device_id: -1,
        device_type: ARROW_DEVICE_CPU,
        ..ArrowDeviceArray::empty()
    };
}

fn node(value: i32, children: Vec<*mut ArrowArray>, released: *const Cell<u32>) -> ArrowArray {
    let node = Box::into_raw(Box::new(Node { released, value, buffers: [ptr::null()], children }));
    // SAFETY: `node` is live until `release_node`, and nobody else has it yet.
    let fields = unsafe { &mut *node };
    fields.buffers = [(&raw const fields.value).cast()];
    ArrowArray {
        length: 1,
        n_buffers: 1,
        n_children: fields.children.len() as i64,
        buffers: fields.buffers.as_mut_ptr(),
        children: fields.children.as_mut_ptr(),
        release: Some(release_node),
        private_data: node.cast(),
        ..ArrowArray::empty()
    }
}

/// What a consumer does when it is done.
fn release(mut array: ArrowArray) {
    let callback = array.release.expect("the array was not released before");
    // SAFETY: `array` is live.
    unsafe { callback(&mut array) };
    assert!(array.is_released());
}

unsafe extern "C" fn release_node(array: *mut ArrowArray) {
    // SAFETY: the caller passes a live array that `node` made.
    let array = unsafe { &mut *array };
    // SAFETY: `node` made this pointer with `Box::into_raw`, and a live array was not released
    // before.
    let node = unsafe { Box::from_raw(array.private_data.cast::<Node>()) };
    for &child in &node.children {
        // SAFETY: `export_pair` made this pointer with `Box::into_raw`, and the parent is released
        // once.
        let child = unsafe { Box::from_raw(child) };
        if !child.is_released() {
            release(*child);
        }
    }
    // SAFETY: the test keeps the counter until the end.
    count(unsafe { &*node.released });
    array.release = None;
}

/// Hands out one array, then the end.
unsafe extern "C" fn next_of_stream(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowDeviceArray,
) -> c_int {
    // SAFETY: the caller passes a live stream.
    let stream = unsafe { &mut *stream };
    // SAFETY: the caller passes a structure to be written to.
    let out = unsafe { &mut *out };
    if stream.private_data.is_null() {
        *out = ArrowDeviceArray::empty();
    } else {
        export_pair(out, stream.private_data.cast());
        stream.private_data = ptr::null_mut();
    }
    0
}

unsafe extern "C" fn release_stream(stream: *mut ArrowDeviceArrayStream) {
    // SAFETY: the caller passes a live stream.
    unsafe { (*stream).release = None };
}

unsafe extern "C" fn extract(task: *mut ArrowAsyncTask, out: *mut ArrowDeviceArray) -> c_int {
    // SAFETY: the caller passes a live task.
    let released = unsafe { (*task).private_data };
    // SAFETY: the caller passes a structure to be written to, or null.
    if let Some(out) = unsafe { out.as_mut() } {
        export_pair(out, released.cast());
    }
    0
}
