//! Tensors in memory that other processes can open: no consumer of DLPack may write there.

use arrow_device::abi::dlpack::{
    DLManagedTensor, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_READ_ONLY,
};
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::driver::Raw;
use arrow_device::{Buffer, Device, ErrorKind, Queue};
use arrow_device_share::{open, share};

/// A copy in memory that other processes can open.
fn copied(queue: &Queue) -> Tensor {
    let numbers = Buffer::from((0..1000_i32).collect::<Vec<_>>());
    let tensor = Tensor::from_buffer(numbers, Dtype::INT32, &[1000]).unwrap();
    tensor.copy(queue).unwrap()
}

/// The flags of a tensor that is handed over, and whether other processes can open its memory.
fn handed_over(managed: Managed<DLManagedTensorVersioned>) -> (u64, bool) {
    let raw = managed.into_raw();
    // SAFETY: the tensor was just handed over, and is deleted below.
    let (flags, data) = unsafe { raw.as_ref() }.map(|it| (it.flags, it.dl_tensor.data)).unwrap();
    let is_found = Device::host().find_shared(Raw::from_ptr(data)).is_some();
    // SAFETY: UNS-23, UNS-24: a tensor that was handed over here.
    drop(unsafe { Tensor::import(raw, Order::Host) }.unwrap());
    (flags, is_found)
}

// Requirement: SAF-42
#[test]
fn a_tensor_whose_memory_was_fixed_is_handed_over_to_be_read() {
    let queue = Device::host().shareable().unwrap().open_queue().unwrap();
    let tensor = copied(&queue);
    let array = tensor.to_array(&Conversion::new()).unwrap();
    let (ticket, sender) = share(&array).unwrap();
    drop(open(ticket, [Device::host()]).unwrap());
    drop((sender, array));
    let exported = tensor.clone().export(Order::Host, CopyPolicy::Never).unwrap();
    assert_eq!(handed_over(exported), (DLPACK_FLAG_BITMASK_READ_ONLY, true));
    // The older form says nothing of that, so its consumer gets a copy.
    let legacy: arrow_device::Result<Managed<DLManagedTensor>> =
        tensor.clone().export(Order::Host, CopyPolicy::Never);
    assert_eq!(legacy.unwrap_err().kind(), ErrorKind::Unsupported);
}

// Requirement: SAF-3, SAF-42
#[test]
fn a_copy_for_a_consumer_lies_in_memory_of_this_process_alone() {
    let queue = Device::host().shareable().unwrap().open_queue().unwrap();
    for order in [Order::Host, Order::On(&queue)] {
        let tensor = copied(&queue);
        let exported = tensor.clone().export(order, CopyPolicy::Always).unwrap();
        assert_eq!(handed_over(exported), (DLPACK_FLAG_BITMASK_IS_COPIED, false));
        let legacy: Managed<DLManagedTensor> = tensor.export(order, CopyPolicy::IfNeeded).unwrap();
        let raw = legacy.into_raw();
        // SAFETY: the tensor was just handed over, and is deleted below.
        let data = unsafe { raw.as_ref() }.unwrap().dl_tensor.data;
        assert!(Device::host().find_shared(Raw::from_ptr(data)).is_none());
        // SAFETY: UNS-23, UNS-24: a tensor that was handed over here.
        drop(unsafe { Tensor::import(raw, Order::Host) }.unwrap());
    }
}
