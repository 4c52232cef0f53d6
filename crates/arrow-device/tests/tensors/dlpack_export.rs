//! Handing tensors over: a consumer that believes nothing finds what was promised, and finds each
//! promise broken where a producer breaks it.

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Exported, Managed, Order, Tensor};
use arrow_device::{Array, Buffer, DataType, DeviceId, ErrorKind, Queue};
use arrow_device_testkit::allocations::{Counting, count};
use arrow_device_testkit::{Verdict, tensors};
use tensors::consumer::{Promise, check_legacy, check_versioned, plant};
use tensors::{Count, Counted};

const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;

/// Twelve numbers whose memory is counted, as a column that begins at the third one.
fn column(freed: &Count) -> (Array, *const u8) {
    let values: Vec<i16> = (0..12).collect();
    let base = values.as_ptr();
    let buffer =
        unsafe { Buffer::foreign(DeviceId::CPU, base.cast(), 24, Counted(values, freed.clone())) };
    let column = Array::builder(DataType::Int16).len(12).buffers([None, Some(buffer)]);
    let column = column.finish_ready().unwrap().slice(2, 9).unwrap();
    (column, base.cast::<u8>().wrapping_add(4))
}

fn promise(address: Option<*const u8>, flags: u64) -> Promise {
    Promise {
        shape: vec![9],
        dtype: (0, 16, 1),
        device: (1, 0),
        bytes: (2..11_i16).flat_map(i16::to_ne_bytes).collect(),
        address,
        flags,
    }
}

fn shared() -> (Managed<DLManagedTensorVersioned>, Promise) {
    let (column, address) = column(&Count::default());
    let tensor = column.to_tensor(&Conversion::new()).unwrap();
    let managed = tensor.export(Order::Host, CopyPolicy::Never).unwrap();
    (managed, promise(Some(address), READ_ONLY))
}

/// That a consumer notices this fault, and nothing without it.
#[track_caller]
fn notices(complaint: &str, fault: impl FnOnce(&mut DLManagedTensorVersioned)) {
    let (managed, promise) = shared();
    check_versioned(&managed, &promise).unwrap();
    plant(&managed, fault);
    let verdict: Verdict = check_versioned(&managed, &promise);
    assert!(verdict.as_ref().is_err_and(|said| said.contains(complaint)), "{verdict:?}");
}

// Requirement: DLP-1, DLP-4, DLP-5, DLP-7, DLP-11, DLP-12
#[test]
fn a_consumer_finds_what_was_promised_and_notices_every_fault() {
    notices("the version", |it| it.version.major = 2);
    notices("the flags are 0", |it| it.flags = 0);
    notices("the type", |it| it.dl_tensor.dtype.code = 1);
    notices("the device", |it| it.dl_tensor.device.device_id = -1);
    notices("ndim", |it| it.dl_tensor.ndim = 2);
    notices("strides", |it| it.dl_tensor.strides = std::ptr::null_mut());
    notices("the shape", |it| unsafe { it.dl_tensor.shape.write(8) });
    notices("the elements", |it| unsafe { it.dl_tensor.strides.write(0) });
    let elsewhere: &'static [i16] = &[2, 3, 4, 5, 6, 7, 8, 9, 10];
    notices("copied", |it| it.dl_tensor.data = elsewhere.as_ptr().cast_mut().cast());
}

// Requirement: DLP-5, DLP-12
#[test]
fn a_copy_is_made_when_it_is_asked_for_and_is_the_consumers_alone() {
    let freed = Count::default();
    let (column, address) = column(&freed);
    let tensor = column.to_tensor(&Conversion::new()).unwrap();
    drop(column);
    let managed: Managed<DLManagedTensorVersioned> =
        tensor.export(Order::Host, CopyPolicy::Always).unwrap();
    assert!(freed.reaches(1), "the copy keeps nothing");
    check_versioned(&managed, &promise(None, COPIED)).unwrap();
    // Not where the original was, and a consumer may write there.
    check_versioned(&managed, &promise(Some(address), COPIED)).unwrap_err();
    plant(&managed, |it| unsafe { it.dl_tensor.data.cast::<i16>().write(99) });
}

// Requirement: DLP-12
#[test]
fn memory_that_somebody_else_has_too_is_never_called_copied() {
    let (column, _) = column(&Count::default());
    let copy = column.to_tensor(&Conversion::new().copying(CopyPolicy::Always)).unwrap();
    let twin = copy.clone();
    let managed: Managed<DLManagedTensorVersioned> =
        copy.export(Order::Host, CopyPolicy::Never).unwrap();
    check_versioned(&managed, &promise(None, READ_ONLY)).unwrap();
    drop(managed);
    // The last one has it alone.
    let managed: Managed<DLManagedTensorVersioned> =
        twin.export(Order::Host, CopyPolicy::Never).unwrap();
    check_versioned(&managed, &promise(None, COPIED)).unwrap();
}

// Requirement: DLP-11, DLP-12
#[test]
fn the_older_form_gets_a_copy_of_what_nobody_may_write_to() {
    let (column, address) = column(&Count::default());
    let tensor = column.to_tensor(&Conversion::new()).unwrap();
    let refused = tensor.clone().export::<DLManagedTensor>(Order::Host, CopyPolicy::Never);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    let managed: Managed<DLManagedTensor> =
        tensor.clone().export(Order::Host, CopyPolicy::IfNeeded).unwrap();
    check_legacy(&managed, &promise(None, 0)).unwrap();
    check_legacy(&managed, &promise(Some(address), 0)).unwrap_err();
    // What was copied already is not copied again.
    let copy = tensor.copy(&Queue::host()).unwrap();
    let managed: Managed<DLManagedTensor> = copy.export(Order::Host, CopyPolicy::Never).unwrap();
    check_legacy(&managed, &promise(None, 0)).unwrap();
    // A caller who knows the consumer shares.
    let managed = unsafe { tensor.export_legacy_shared(Order::Host) }.unwrap();
    check_legacy(&managed, &promise(Some(address), 0)).unwrap();
    plant(&managed, |it| it.dl_tensor.byte_offset = 2);
    check_legacy(&managed, &promise(Some(address), 0)).unwrap_err();
}

// Requirement: DLP-11
#[test]
fn the_older_form_is_for_those_who_ask_for_nothing_newer() {
    let (column, _) = column(&Count::default());
    let tensor = column.to_tensor(&Conversion::new()).unwrap();
    for (asked, is_versioned) in [
        (None, false),
        (Some((0, 8)), false),
        (Some((1, 0)), true),
        (Some((1, 3)), true),
        (Some((2, 0)), true),
    ] {
        let exported = tensor.clone().export_for(asked, Order::Host, CopyPolicy::IfNeeded).unwrap();
        assert_eq!(matches!(exported, Exported::Versioned(_)), is_versioned, "{asked:?}");
        // Our own version, also for those who know a later one.
        if let Exported::Versioned(managed) = exported {
            check_versioned(&managed, &promise(None, READ_ONLY)).unwrap();
        }
    }
}

// Requirement: DLP-10
#[test]
fn memory_lives_until_the_deleter_has_run_on_another_thread() {
    let keeps = |early: bool| -> Verdict {
        let freed = Count::default();
        let (column, address) = column(&freed);
        let tensor = column.to_tensor(&Conversion::new()).unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            tensor.export(Order::Host, CopyPolicy::Never).unwrap();
        drop(column);
        if early {
            // A producer that frees when it has handed over.
            drop(managed);
            return if freed.reaches(1) { Err("freed early".into()) } else { Ok(()) };
        }
        if freed.get() != 0 {
            return Err("freed early".into());
        }
        check_versioned(&managed, &promise(Some(address), READ_ONLY))?;
        std::thread::spawn(move || drop(managed)).join().unwrap();
        if freed.reaches(1) { Ok(()) } else { Err(format!("freed {} times", freed.get())) }
    };
    keeps(false).unwrap();
    keeps(true).unwrap_err();
}

// Requirement: DLP-6
#[test]
fn a_tensor_that_was_handed_over_is_the_consumers_to_delete() {
    let freed = Count::default();
    let (column, _) = column(&freed);
    let tensor = column.to_tensor(&Conversion::new()).unwrap();
    drop(column);
    let raw = tensor
        .export::<DLManagedTensorVersioned>(Order::Host, CopyPolicy::Never)
        .unwrap()
        .into_raw();
    arrow_device::deferred::release_finished();
    assert_eq!(freed.get(), 0, "nobody deleted it");
    // A consumer may look at the struct alone, and hand back a pointer to no more than it.
    let alone: &mut DLManagedTensorVersioned = unsafe { &mut *raw };
    let deleter = alone.deleter.unwrap();
    unsafe { deleter(alone) };
    assert!(freed.reaches(1));
}

// Requirement: DLP-7
#[test]
fn a_single_number_and_no_number_at_all() {
    let none = Tensor::from_buffer(Buffer::null(DeviceId::CPU), Dtype::FLOAT64, &[3, 0]).unwrap();
    let managed: Managed<DLManagedTensorVersioned> =
        none.export(Order::Host, CopyPolicy::Never).unwrap();
    let promise = Promise {
        shape: vec![3, 0],
        dtype: (2, 64, 1),
        device: (1, 0),
        bytes: vec![],
        address: None,
        flags: READ_ONLY,
    };
    check_versioned(&managed, &promise).unwrap();
    let mut anything = 0_u8;
    plant(&managed, |it| it.dl_tensor.data = (&raw mut anything).cast());
    check_versioned(&managed, &promise).unwrap_err();

    let empty_slice = column(&Count::default()).0.slice(4, 0).unwrap();
    let tensor = empty_slice.to_tensor(&Conversion::new()).unwrap();
    let managed: Managed<DLManagedTensorVersioned> =
        tensor.export(Order::Host, CopyPolicy::Never).unwrap();
    assert!(tensor_of(&managed).data.is_null());

    let number = Tensor::from_buffer(vec![7_u32].into(), Dtype::UINT32, &[]).unwrap();
    let managed: Managed<DLManagedTensorVersioned> =
        number.export(Order::Host, CopyPolicy::Never).unwrap();
    let promise = Promise {
        shape: vec![],
        dtype: (1, 32, 1),
        bytes: 7_u32.to_ne_bytes().to_vec(),
        ..promise
    };
    check_versioned(&managed, &promise).unwrap();
}

fn tensor_of(managed: &Managed<DLManagedTensorVersioned>) -> DLTensor {
    unsafe { managed.as_ptr().read() }.dl_tensor
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_export_is_one_allocation_and_none_where_the_block_is_recycled() {
    let (column, _) = column(&Count::default());
    let tensor = column.to_tensor(&Conversion::new()).unwrap();
    let export = |tensor: Tensor| -> Managed<DLManagedTensorVersioned> {
        tensor.export(Order::Host, CopyPolicy::Never).unwrap()
    };
    let (first, second) = (tensor.clone(), tensor.clone());
    let (asked, managed) = count(|| export(first));
    assert!(asked <= 1 + 1, "{asked} for a thread's first block and its shelf");
    drop(managed);
    let (asked, managed) = count(|| export(second));
    assert_eq!(asked, 0);
    let (asked, third) = count(|| export(tensor));
    assert!(asked <= 1, "{asked}");
    drop((managed, third));
}
