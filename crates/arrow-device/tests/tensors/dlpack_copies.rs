//! Copies that are made for tensors: of memory from an allocator, and on a device that fails.

use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Nulls, Tensor};
use arrow_device::{Array, Batch, Buffer, DataType, Device, Extent, Memory, Queue, Result};

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
