//! Columns as tensors of `candle`, and back.
//!
//! `candle` has no DLPack and owns all of its memory, so the way there is one copy: from wherever
//! the column is straight to the `Vec` that becomes the tensor. The way back needs none, because
//! this library takes memory that somebody else owns.
//!
//! `cargo run --package=example-candle`

use std::error::Error;
use std::ffi::c_void;

use arrow_device::dlpack::{Conversion, Dtype, Tensor};
use arrow_device::types::Float32;
use arrow_device::{Array, Buffer, DataType, DeviceId};
use candle_core::{CpuStorage, Device, Storage, Tensor as CandleTensor};

fn main() -> Result<(), Box<dyn Error>> {
    // A column of lists of one length is a matrix. Two rows of four features, whatever made them.
    let features = Tensor::from_buffer(
        Buffer::from(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        Dtype::FLOAT32,
        &[2, 4],
    )?;
    let features = features.to_array(&Conversion::new())?;
    println!("from {features:?}");

    // There: the conversion to a tensor shares the memory, and `to_candle` is the one copy.
    let input = to_candle(&features.to_tensor(&Conversion::new())?)?;
    let weights = CandleTensor::new(&[[1.0_f32], [0.0], [0.0], [-1.0]], &Device::Cpu)?;
    let output = input.matmul(&weights)?;
    println!("candle's result: {output}");

    // Back: the same memory. `output` was just computed, and is no variable that training changes.
    // SAFETY: nothing writes in place to this tensor.
    let scores = unsafe { from_candle(&output.flatten_all()?) }?;
    let scores = scores.to_array(&Conversion::new())?;
    assert_eq!(scores.data_type(), &DataType::Float32);
    // The column keeps the memory, and not the tensor that it came from.
    drop(output);
    let expected = Array::of::<Float32>([Some(-3.0), Some(-3.0)])?;
    assert!(scores.equals(&expected)?);
    Ok(())
}

/// A copy of a tensor, at any strides. What is on a device comes to the host first, with
/// [`Tensor::copy_to_host`].
fn to_candle(tensor: &Tensor) -> Result<CandleTensor, Box<dyn Error>> {
    let shape = tensor.shape().iter().map(|length| usize::try_from(*length));
    let shape = shape.collect::<Result<Vec<usize>, _>>()?;
    // `candle` takes the `Vec` as it is.
    Ok(CandleTensor::from_vec(tensor.host()?.to_vec::<f32>()?, shape, &Device::Cpu)?)
}

/// The memory of a tensor of `candle`, which is copied only where its elements are not in row-major
/// order.
///
/// # Safety
/// As long as the result, or anything made of it, lives, nobody writes to the tensor in place, as
/// `candle_core::Var::set` and the operations called `inplace` do.
unsafe fn from_candle(tensor: &CandleTensor) -> Result<Tensor, Box<dyn Error>> {
    let owner = tensor.contiguous()?;
    let shape = owner.dims().iter().map(|length| i64::try_from(*length));
    let shape = shape.collect::<Result<Vec<i64>, _>>()?;
    let (storage, layout) = owner.storage_and_layout();
    let Storage::Cpu(CpuStorage::F32(values)) = &*storage else {
        return Err(
            format!("{:?} on {:?} is no f32 on the host", owner.dtype(), owner.device()).into()
        );
    };
    let (begin, end) = layout.contiguous_offsets().ok_or("a contiguous tensor is not")?;
    let values = values.get(begin..end).ok_or("the elements are outside of the memory")?;
    let (base, bytes) = (values.as_ptr().cast::<c_void>(), size_of_val(values) as u64);
    drop(storage);
    // SAFETY: UNS-17: the clone of the tensor keeps so many bytes on the host, where they are,
    // until the owner is dropped, and nobody writes to them, which the caller promises.
    let buffer = unsafe { Buffer::foreign(DeviceId::CPU, base, bytes, owner.clone()) };
    Ok(Tensor::from_buffer(buffer, Dtype::FLOAT32, &shape)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(tensor: &CandleTensor) -> *const f32 {
        let (storage, _) = tensor.storage_and_layout();
        let Storage::Cpu(CpuStorage::F32(values)) = &*storage else { panic!("not on the host") };
        values.as_ptr()
    }

    #[test]
    fn the_example_runs() {
        main().unwrap();
    }

    #[test]
    fn a_tensor_of_candle_is_shared_and_a_turned_one_is_copied() {
        let made =
            CandleTensor::new(&[[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &Device::Cpu).unwrap();
        let row = made.get(1).unwrap();
        for (tensor, is_shared, first) in
            [(made.clone(), true, 0), (row, true, 3), (made.t().unwrap(), false, 0)]
        {
            // SAFETY: nothing here writes in place.
            let ours = unsafe { from_candle(&tensor) }.unwrap();
            let host = ours.host().unwrap();
            let elements = host.elements::<f32>().unwrap();
            let values = tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(elements.as_slice().unwrap(), values);
            let there = address(&made).wrapping_add(first);
            assert_eq!(elements.as_ptr() == there, is_shared, "{tensor}");
        }
        let numbers = CandleTensor::new(&[1_u8], &Device::Cpu).unwrap();
        // SAFETY: nothing here writes in place.
        let refused = unsafe { from_candle(&numbers) };
        assert!(refused.is_err());
    }

    #[test]
    fn a_tensor_at_any_strides_arrives_in_its_order() {
        let matrix =
            Tensor::from_buffer(vec![1.0_f32, 2.0, 3.0, 4.0].into(), Dtype::FLOAT32, &[2, 2]);
        let turned = matrix.unwrap().permuted(&[1, 0]).unwrap();
        let candle = to_candle(&turned).unwrap();
        assert_eq!(candle.to_vec2::<f32>().unwrap(), [[1.0, 3.0], [2.0, 4.0]]);
    }
}
