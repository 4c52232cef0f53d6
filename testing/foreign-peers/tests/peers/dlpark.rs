//! Tensors there and back with `dlpark`, whose arrays are `ndarray`'s.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::dlpack::{Conversion, CopyPolicy, Element, Order, Tensor};
use arrow_device::{Array, Buffer, DataType, DeviceId};
use arrow_device_testkit::release_until;
use dlpark::allocation::dynamic::Initialized;
use dlpark::{DlpackElement, DlpackFlags, TryFromDlpack, ffi, legacy, versioned};
use ndarray::{ArrayD, ArrayViewD, IxDyn};

/// Arrays in every order in which an owner can have them.
fn arrays<T: Clone>(value: impl Fn(usize) -> T) -> Vec<ArrayD<T>> {
    let filled = |shape: &[usize]| {
        let mut next = 0;
        ArrayD::from_shape_simple_fn(IxDyn(shape), || {
            next += 1;
            value(next)
        })
    };
    let mut sliced = filled(&[5, 4]);
    sliced.slice_collapse(ndarray::s![1..4, ..;2]);
    vec![
        filled(&[7]),
        filled(&[2, 3, 4]),
        filled(&[2, 3, 4]).permuted_axes(IxDyn(&[2, 0, 1])),
        filled(&[3, 5]).reversed_axes(),
        sliced,
        filled(&[1, 4]),
        filled(&[]),
        filled(&[3, 0]),
    ]
}

fn import(array: &ArrayD<impl DlpackElement + Send + Clone>, is_legacy: bool) -> Tensor {
    if is_legacy {
        let made: Initialized<ffi::DLManagedTensor> = Box::new(array.clone()).try_into().unwrap();
        let made: legacy::Dlpack = unsafe { made.finish() };
        let tensor =
            unsafe { Tensor::import(made.into_raw().cast::<DLManagedTensor>(), Order::Host) };
        return unsafe { tensor.unwrap().assume_frozen() };
    }
    let mut made: Initialized<ffi::DLManagedTensorVersioned> =
        Box::new(array.clone()).try_into().unwrap();
    made.set_flags(DlpackFlags::READ_ONLY).unwrap();
    let made: versioned::Dlpack = unsafe { made.finish() };
    let raw = made.into_raw().cast::<DLManagedTensorVersioned>();
    unsafe { Tensor::import(raw, Order::Host) }.unwrap()
}

fn there_and_back<T>(value: impl Fn(usize) -> T)
where
    T: Element + DlpackElement + PartialEq + Debug,
{
    for array in arrays(value) {
        for is_legacy in [false, true] {
            let tensor = import(&array, is_legacy);
            let shape: Vec<i64> = array.shape().iter().map(|length| *length as i64).collect();
            assert_eq!(tensor.shape(), shape);
            let expected: Vec<T> = array.iter().copied().collect();
            assert_eq!(tensor.host().unwrap().to_vec::<T>().unwrap(), expected);
            compare_exported(tensor, &array);
        }
    }
}

fn compare_exported<T>(tensor: Tensor, array: &ArrayD<T>)
where
    T: DlpackElement + PartialEq + Debug,
{
    let twin = tensor.clone();
    let managed =
        tensor.export::<DLManagedTensorVersioned>(Order::Host, CopyPolicy::Never).unwrap();
    let theirs = managed.into_raw().cast::<ffi::DLManagedTensorVersioned>();
    let theirs: versioned::Dlpack = unsafe { dlpark::Managed::from_raw(theirs) }.unwrap();
    theirs.validate_export().unwrap();
    assert!(theirs.flags().contains(DlpackFlags::READ_ONLY));
    let view = unsafe { ArrayViewD::<T>::try_from_dlpack(&theirs, ()) }.unwrap();
    assert_eq!(view, array.view());

    let managed = twin.export::<DLManagedTensor>(Order::Host, CopyPolicy::IfNeeded).unwrap();
    let theirs = managed.into_raw().cast::<ffi::DLManagedTensor>();
    let theirs: legacy::Dlpack = unsafe { dlpark::Managed::from_raw(theirs) }.unwrap();
    theirs.validate_export().unwrap();
    let view = unsafe { ArrayViewD::<T>::try_from_dlpack(&theirs, ()) }.unwrap();
    assert_eq!(view, array.view());
}

// Requirement: DLP-1, DLP-4
#[test]
fn every_number_comes_back_in_every_order() {
    there_and_back(|index| index as i8);
    there_and_back(|index| index as i16);
    there_and_back(|index| index as i32);
    there_and_back(|index| index as i64);
    there_and_back(|index| index as u8);
    there_and_back(|index| index as u16);
    there_and_back(|index| index as u32);
    there_and_back(|index| index as u64);
    there_and_back(|index| index as f32);
    there_and_back(|index| index as f64);
}

struct Counted(Vec<f64>, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

// Requirement: DLP-5, DLP-10
#[test]
fn a_column_is_read_where_it_lies_and_freed_when_the_reader_is_done() {
    let freed = Arc::new(AtomicUsize::new(0));
    let values = Counted((0..8).map(f64::from).collect(), freed.clone());
    let base = values.0.as_ptr();
    let buffer = unsafe { Buffer::foreign(DeviceId::CPU, base.cast(), 64, values) };
    let column = Array::builder(DataType::Float64).len(8).buffers([None, Some(buffer)]);
    let tensor = column.finish_ready().unwrap().slice(2, 5).unwrap().to_tensor(&Conversion::new());
    let managed =
        tensor.unwrap().export::<DLManagedTensorVersioned>(Order::Host, CopyPolicy::Never).unwrap();
    let theirs = managed.into_raw().cast::<ffi::DLManagedTensorVersioned>();
    let theirs: versioned::Dlpack = unsafe { dlpark::Managed::from_raw(theirs) }.unwrap();
    let read = theirs.validate().unwrap();
    let slice = unsafe { read.cpu_slice::<f64>() }.unwrap();
    assert_eq!(slice, [2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(slice.as_ptr(), base.wrapping_add(2));
    assert_eq!(freed.load(Ordering::SeqCst), 0);
    std::thread::spawn(move || drop(theirs)).join().unwrap();
    release_until(|| freed.load(Ordering::SeqCst) > 0);
    assert_eq!(freed.load(Ordering::SeqCst), 1);
}

// Requirement: DLP-12
#[test]
fn what_is_read_only_cannot_be_written_to_there_and_what_is_copied_can() {
    let array = Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
    let mut theirs = [CopyPolicy::Never, CopyPolicy::Always].map(|copying| {
        let tensor = array.to_tensor(&Conversion::new()).unwrap();
        let managed = tensor.export::<DLManagedTensorVersioned>(Order::Host, copying).unwrap();
        let raw = managed.into_raw().cast::<ffi::DLManagedTensorVersioned>();
        unsafe { versioned::Dlpack::from_raw(raw) }.unwrap()
    });
    let [shared, copied] = &mut theirs;
    assert!(shared.validate_mut().is_err());
    assert!(copied.flags().contains(DlpackFlags::IS_COPIED));
    let mut writable = copied.validate_mut().unwrap();
    unsafe { writable.cpu_slice_mut::<i32>() }.unwrap()[0] = 9;
    assert_eq!(array.host().unwrap().values::<i32>().unwrap().get(0).unwrap(), 1);
}
