//! Owners inside owners, deeper than any stack.

use std::ffi::c_void;
use std::sync::Arc;

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::dlpack::{CopyPolicy, Dtype, Order, Tensor};
use arrow_device::driver::Raw;
use arrow_device::{
    Array, ArrayStream, Buffer, DataType, Device, DeviceId, DeviceType, Error, ErrorKind, Field,
    IndexType, Memory, Schema,
};

/// More than any stack holds. Under Miri, which needs seconds for each hundred, more than are
/// dropped within each other.
const HOPS: usize = if cfg!(miri) { 50 } else { 1_000_000 };
/// More than any stack holds, too. Streams in streams are read to a depth of 128.
const FEWER: usize = if cfg!(miri) { 150 } else { 100_000 };

static VALUES: [i64; 4] = [1, 2, 3, 4];

/// The values, kept by an owner.
fn owned_by(owner: impl Send + Sync + 'static) -> Buffer {
    // SAFETY: the values stay for ever.
    unsafe { Buffer::foreign(DeviceId::CPU, VALUES.as_ptr().cast(), 32, owner) }
}

fn numbers(owner: impl Send + Sync + 'static) -> Array {
    let buffers = [None, Some(owned_by(owner))];
    Array::builder(DataType::Int64).len(4).buffers(buffers).finish_ready().unwrap()
}

/// Exports and imports an array.
fn hop(array: &Array, schema: &Schema, relay: fn(ArrowArray) -> ArrowArray) -> Array {
    let mut out = ArrowDeviceArray::empty();
    array.export(&mut out).unwrap();
    out.array = relay(out.array);
    unsafe { Array::import(&mut out, schema) }.unwrap()
}

/// A peer that wraps each array in one of its own.
fn wrap(inner: ArrowArray) -> ArrowArray {
    unsafe extern "C" fn release(outer: *mut ArrowArray) {
        let mut inner = unsafe { Box::from_raw((*outer).private_data.cast::<ArrowArray>()) };
        unsafe { inner.release.unwrap()(&raw mut *inner) };
        unsafe { (*outer).release = None };
    }
    let inner = Box::into_raw(Box::new(inner));
    let ArrowArray { length, null_count, offset, n_buffers, buffers, .. } = unsafe { &*inner };
    ArrowArray {
        length: *length,
        null_count: *null_count,
        offset: *offset,
        n_buffers: *n_buffers,
        buffers: *buffers,
        release: Some(release),
        private_data: inner.cast::<c_void>(),
        ..ArrowArray::empty()
    }
}

// Requirement: SAF-37
#[test]
fn an_array_that_went_out_and_in_a_million_times_is_released() {
    for relay in [|array| array, wrap] {
        let owner = Arc::new(());
        let mut array = numbers(owner.clone());
        let schema = array.schema().unwrap();
        for _ in 0..HOPS {
            array = hop(&array, &schema, relay);
        }
        assert_eq!(array.host().unwrap().values::<i64>().unwrap().len(), 4);
        drop(array);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}

// Requirement: SAF-37
#[test]
fn an_array_whose_buffer_is_kept_by_another_array_many_times_is_released() {
    let owner = Arc::new(());
    let array = (0..FEWER).fold(numbers(owner.clone()), |array, _| numbers(array));
    drop(array);
    assert_eq!(Arc::strong_count(&owner), 1);
}

// Requirement: SAF-37
#[test]
fn memory_that_is_kept_by_other_memory_many_times_is_released() {
    let (host, owner) = (Device::host(), Arc::new(()));
    let raw = Raw::from_ptr(VALUES.as_ptr().cast_mut().cast());
    // SAFETY: nobody writes there.
    let adopt = |owner| unsafe { Memory::adopt(&host, raw, 32, owner) };
    let first = unsafe { Memory::adopt(&host, raw, 32, owner.clone()) };
    let memory = (0..FEWER).fold(first, |memory, _| adopt(memory));
    drop(memory);
    assert_eq!(Arc::strong_count(&owner), 1);
}

/// A stream of one array that went out and in so many times.
fn stream_of(owner: Arc<()>, hops: usize) -> ArrayStream {
    let arrays = std::iter::once_with(move || Ok::<_, Error>(numbers(owner)));
    let schema = Schema::try_from(DataType::Int64).unwrap();
    let stream = ArrayStream::new(schema, DeviceType::CPU, arrays);
    (0..hops).fold(stream, |stream, _| {
        let mut out = ArrowDeviceArrayStream::empty();
        stream.export(&mut out);
        unsafe { ArrayStream::import(&mut out) }.unwrap()
    })
}

// Requirement: SAF-37
#[test]
fn a_stream_that_went_out_and_in_many_times_is_read_or_refused_and_released() {
    let owner = Arc::new(());
    assert_eq!(stream_of(owner.clone(), 100).next().unwrap().unwrap().len(), 4);
    let mut stream = stream_of(owner.clone(), FEWER);
    let error = stream.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(stream.next().is_none());
    drop((stream, stream_of(owner.clone(), FEWER)));
    assert_eq!(Arc::strong_count(&owner), 1);
}

// Requirement: SAF-37
#[test]
fn a_tensor_that_went_out_and_in_many_times_is_released() {
    let owner = Arc::new(());
    let mut tensor = Tensor::from_buffer(owned_by(owner.clone()), Dtype::INT64, &[4]).unwrap();
    for _ in 0..FEWER {
        let out = tensor.export::<DLManagedTensorVersioned>(Order::Host, CopyPolicy::Never);
        let raw = out.unwrap().into_raw();
        tensor = unsafe { Tensor::import(raw, Order::Host) }.unwrap();
    }
    drop(tensor);
    assert_eq!(Arc::strong_count(&owner), 1);
}

// Requirement: SAF-37
#[test]
fn a_type_that_is_nested_many_times_is_dropped() {
    let shapes: [fn(DataType) -> DataType; 4] = [
        DataType::list,
        |inner| DataType::struct_([Field::new("a", inner, true)]),
        |inner| DataType::dictionary(IndexType::Int8, inner),
        |inner| DataType::run_end_encoded(DataType::Int32, inner),
    ];
    for shape in shapes {
        let deep = (0..FEWER).fold(DataType::Int32, |inner, _| shape(inner));
        assert!(Schema::new(deep).is_err());
    }
}
