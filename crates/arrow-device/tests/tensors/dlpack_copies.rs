//! Copies that are made for tensors: of memory from an allocator, and on a device that fails.

use arrow_device::deferred::release_finished;
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Nulls, Tensor};
use arrow_device::{Array, Batch, Buffer, DataType, Device, Extent, Memory, Queue, Result};
use arrow_device_testkit::manual::{Manual, ManualCopies};
use arrow_device_testkit::process;

/// A queue of the host, whose allocator gives twice as much as it is asked for.
fn generous() -> Queue {
    let twice = |device: &Device, len: u64, _: Option<&Queue>| -> Result<Memory> {
        let mut memory = device.allocate(2 * len)?;
        memory.write(&Queue::host(), &vec![0x5a; 2 * len as usize])?;
        Ok(memory)
    };
    Device::host().with_allocator(twice).open_queue().unwrap()
}

// Requirement: SAF-1
#[test]
fn a_tensor_has_only_the_bytes_of_its_elements_where_an_allocator_gives_more() {
    let queue = generous();
    let conversion = || Conversion::new().on(&queue).copying(CopyPolicy::Always).nulls(Nulls::NaN);
    let numbers = |count: i64| (0..count).map(|number| Some(number as f64));
    let column = || Array::from_values(DataType::Float64, numbers(4)).unwrap();
    let nulls = Array::from_values(DataType::Float64, [Some(1.0_f64), None, None, Some(2.0)]);
    let flags = Some(Buffer::from(vec![0b01_u8]));
    let bits = Array::builder(DataType::Boolean).len(2).buffers([None, flags]);
    let bits = bits.finish_ready().unwrap();
    let batch = Batch::from_columns([("a", column()), ("b", column())]).unwrap();
    let numbers = Buffer::from(vec![1_i32, 2, 3]);
    let numbers = Tensor::from_buffer(numbers, Dtype::INT32, &[3]).unwrap();
    for (name, copy, len) in [
        ("a copy", numbers.copy(&queue), 12),
        ("a copied column", column().to_tensor(&conversion()), 32),
        ("a column with nulls", nulls.unwrap().to_tensor(&conversion()), 32),
        ("booleans", bits.to_tensor(&conversion()), 2),
        ("a batch", batch.to_tensor(&conversion()), 64),
    ] {
        let view = copy.unwrap().on(&Queue::host()).unwrap();
        assert_eq!(view.extent(), Extent::Exact(len), "{name}");
    }
}

/// A tensor on a device whose copies are submitted and fail.
fn with_failing_copies() -> (Manual, Queue, Tensor) {
    let (manual, device) = Manual::open_for_tensors();
    manual.set_copies(ManualCopies::Submitted);
    let queue = device.open_queue().unwrap();
    let mut memory = device.allocate(64).unwrap();
    memory.write(&queue, &[1; 64]).unwrap();
    let tensor = Tensor::from_buffer(memory.into_buffer(), Dtype::UINT8, &[64]).unwrap();
    manual.set_copies(ManualCopies::Failing);
    (manual, queue, tensor)
}

// Requirement: SAF-13, SAF-14
#[test]
fn what_a_failed_copy_writes_to_is_kept_until_the_queue_has_passed_it() {
    process::alone(|| {
        let (manual, queue, tensor) = with_failing_copies();
        let nulls = Array::builder(DataType::Float64).len(512);
        let bitmap = queue.device().allocate(64).unwrap();
        let values = queue.device().allocate(4096).unwrap();
        let share = |mut memory: Memory| {
            manual.set_copies(ManualCopies::Submitted);
            memory.write(&queue, &vec![0; memory.len() as usize]).unwrap();
            manual.set_copies(ManualCopies::Failing);
            Some(memory.into_buffer())
        };
        let nulls = nulls.buffers([share(bitmap), share(values)]).finish_ready().unwrap();
        let counted = || Device::host().held().allocated;
        let before = counted();
        let nan = Conversion::new().on(&queue).nulls(Nulls::NaN);
        let a_tensor = || tensor.copy_to_host(&queue).map(drop);
        let a_bitmap = || nulls.to_tensor(&nan).map(drop);
        for (name, is_tensor) in [("a tensor to the host", true), ("a bitmap", false)] {
            if is_tensor { a_tensor() } else { a_bitmap() }.unwrap_err();
            assert!(!manual.is_idle(&queue));
            release_finished();
            assert_eq!(counted(), before + 64, "{name}: freed while the queue writes");
            manual.complete(&queue);
            release_finished();
            assert_eq!(counted(), before, "{name}: kept for ever");
        }
    });
}
