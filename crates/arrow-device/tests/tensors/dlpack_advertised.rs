//! What a library does that advertises a queue on which it works, as DLPack's table of functions
//! for exchange has it.

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::deferred::release_finished;
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::{Array, Buffer, DataType, Device, DeviceId, Error, ErrorKind, Queue};
use arrow_device_testkit::manual::Manual;
use arrow_device_testkit::tensors::{Count, Counted};

/// Numbers on a device, after work on a queue.
fn after(queue: &Queue, freed: &Count) -> Array {
    let values = vec![1_u8; 64];
    let base = values.as_ptr().cast();
    let owner = Counted(values, freed.clone());
    let buffer = unsafe { Buffer::foreign(queue.device().id(), base, 64, owner) };
    let array = Array::builder(DataType::UInt8).device(queue.device().id()).len(64);
    array.buffers([None, Some(buffer)]).finish_on(queue).unwrap()
}

fn handed_out(array: &Array, order: Order<'_>) -> Managed<DLManagedTensorVersioned> {
    let tensor = array.to_tensor(&Conversion::new()).unwrap();
    tensor.export(order, CopyPolicy::Never).unwrap()
}

fn taken_over(
    managed: Managed<DLManagedTensorVersioned>,
    queue_of: impl FnOnce(DeviceId) -> arrow_device::Result<Option<Queue>>,
) -> arrow_device::Result<Tensor> {
    unsafe { Tensor::import_advertised(managed.into_raw(), queue_of) }
}

fn open() -> (Manual, Device, [Queue; 2]) {
    let (manual, device) = Manual::open_for_tensors();
    let queues = [(); 2].map(|()| device.open_queue().unwrap());
    (manual, device, queues)
}

// Requirement: SAF-6, SAF-36
#[test]
fn what_is_handed_out_is_in_the_order_of_the_advertised_queue() {
    let (manual, _device, [work, advertised]) = open();
    let freed = Count::default();
    manual.submit(&work);
    let array = after(&work, &freed);
    assert_eq!(manual.wait_count(), 0);
    let managed = handed_out(&array, Order::On(&advertised));
    assert_eq!(manual.wait_count(), 1, "the advertised queue waits for the data");
    drop((managed, array));
    for queue in [&work, &advertised] {
        manual.complete(queue);
    }
    release_finished();
    assert!(freed.reaches(1));
}

// Requirement: SAF-6, SAF-36
#[test]
fn what_is_taken_over_is_ready_after_the_advertised_queue() {
    let (manual, device, [work, advertised]) = open();
    let freed = Count::default();
    let managed = handed_out(&after(&work, &freed), Order::Host);
    manual.submit(&advertised);
    let tensor = taken_over(managed, |id| {
        assert_eq!(id, device.id());
        Ok(Some(advertised.clone()))
    });
    let tensor = tensor.unwrap();
    assert!(!tensor.is_ready().unwrap(), "ready before the work that writes it");
    manual.complete(&advertised);
    assert!(tensor.is_ready().unwrap());
    drop(tensor);
    release_finished();
    assert!(freed.reaches(1));
}

// Requirement: SAF-14, SAF-36
#[test]
fn what_cannot_be_ordered_is_deleted_once() {
    let (_manual, _device, [work, _]) = open();
    let freed = Count::default();
    let managed = handed_out(&after(&work, &freed), Order::Host);
    let refused = |_| Err(Error::new(ErrorKind::DeviceMissing, "as the test orders"));
    assert_eq!(taken_over(managed, refused).unwrap_err().kind(), ErrorKind::DeviceMissing);
    release_finished();
    assert!(freed.reaches(1));
    let mut managed = handed_out(&after(&work, &freed), Order::Host);
    arrow_device_testkit::tensors::consumer::plant(&managed, |it| it.version.major = 2);
    let not_asked = |_| panic!("nothing but the deleter is known of this version");
    assert_eq!(taken_over(managed, not_asked).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(freed.reaches(2));
    managed = handed_out(&after(&work, &freed), Order::Host);
    assert!(taken_over(managed, |_| Ok(None)).unwrap().is_ready().unwrap());
}

// Requirement: SAF-36
#[test]
fn nobody_is_asked_about_host_memory() {
    let tensor = Tensor::from_buffer(Buffer::from(vec![1_i64, 2]), Dtype::INT64, &[2]).unwrap();
    let managed = tensor.export(Order::Unordered, CopyPolicy::Never).unwrap();
    let tensor = taken_over(managed, |_| panic!("the host has no queue to wait for")).unwrap();
    assert_eq!(tensor.host().unwrap().to_vec::<i64>().unwrap(), [1, 2]);
}
