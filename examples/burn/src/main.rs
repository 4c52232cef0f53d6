//! Columns as tensors of `burn`, and back, without a copy on either way.
//!
//! `burn` takes the memory of others behind an owner, so the way there is DLPack's: this library
//! exports the tensor, and `burn` holds what calls the deleter. On the way back `burn` gives up its
//! `Vec`, and a column is made of that.
//!
//! `burn` does not write to memory of others. What it computes goes to memory of its own.
//!
//! `cargo run --package=example-burn`

use std::error::Error;

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::types::Float32;
use arrow_device::{Array, Buffer, Queue};
use burn_tensor::{AllocationProperty, Bytes, DType, Device, Tensor as BurnTensor, TensorData};

fn main() -> Result<(), Box<dyn Error>> {
    // A column of lists of one length is a matrix. Two rows of four features, whatever made them.
    let features = Tensor::from_buffer(
        Buffer::from(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]),
        Dtype::FLOAT32,
        &[2, 4],
    )?;
    let features = features.to_array(&Conversion::new())?;
    println!("from {features:?}");

    // There: both conversions share the memory.
    let device = Device::default();
    let data = to_burn(features.to_tensor(&Conversion::new())?)?;
    let input = BurnTensor::<2>::from_data(data, &device);
    // `burn` keeps the memory, and not the column that it came from.
    drop(features);
    let weights = BurnTensor::<2>::from_data([[1.0_f32], [0.0], [0.0], [-1.0]], &device);
    let output = input.matmul(weights);
    println!("burn's result: {output}");

    // Back: `burn` gives the memory up, because nobody else has the tensor.
    let scores = from_burn(output.into_data())?;
    // The only column of the matrix, which has one row in each.
    let scores = scores.to_batch(["score"], &Conversion::new())?;
    let expected = Array::of::<Float32>([Some(-3.0), Some(-3.0)])?;
    assert!(scores.column(0)?.equals(&expected)?);
    Ok(())
}

/// A tensor on the host that nobody writes to, in C form, as bytes. Its drop calls the deleter.
struct Lent {
    managed: Managed<DLManagedTensorVersioned>,
    len: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the struct stays in its place until it is deleted, which is when `self` is
        // dropped.
        let tensor = unsafe { &(*self.managed.as_ptr()).dl_tensor };
        let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        // SAFETY: `to_burn` made this of a compact tensor in host memory of so many bytes, which
        // are initialised, are not written to, and stay until the deleter is called.
        unsafe { std::slice::from_raw_parts(first, self.len) }
    }
}

/// The same memory, where the elements lie in row-major order on the host; a copy of them where
/// they do not.
fn to_burn(tensor: Tensor) -> Result<TensorData, Box<dyn Error>> {
    // Waits for the data. What the host cannot read, is not `f32`, or may still change, is refused.
    let host = tensor.host()?;
    let is_as_burn_wants_it = host.elements::<f32>()?.as_slice().is_some();
    let tensor = if is_as_burn_wants_it { tensor } else { tensor.copy_to_host(&Queue::host())? };
    let shape = tensor.shape().iter().map(|length| usize::try_from(*length));
    let shape = shape.collect::<Result<Vec<usize>, _>>()?;
    let len = usize::try_from(tensor.len())? * size_of::<f32>();
    let managed = tensor.export(Order::Host, CopyPolicy::Never)?;
    let shared = bytes::Bytes::from_owner(Lent { managed, len });
    // Memory of others: `burn` reads it in place, and neither writes to it nor frees it.
    let shared = Bytes::from_shared(shared, AllocationProperty::Other);
    Ok(TensorData::from_bytes(shared, shape, DType::F32))
}

/// The memory of a tensor of `burn`, which is copied only where others still have it.
fn from_burn(data: TensorData) -> Result<Tensor, Box<dyn Error>> {
    let shape = data.shape().iter().map(|length| i64::try_from(*length));
    let shape = shape.collect::<Result<Vec<i64>, _>>()?;
    let values = data.try_into_vec::<f32>().map_err(|error| format!("{error:?}"))?;
    Ok(Tensor::from_buffer(Buffer::from(values), Dtype::FLOAT32, &shape)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix() -> Tensor {
        let values = Buffer::from(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        Tensor::from_buffer(values, Dtype::FLOAT32, &[2, 3]).unwrap()
    }

    fn address(tensor: &Tensor) -> *const f32 {
        tensor.host().unwrap().elements::<f32>().unwrap().as_ptr()
    }

    #[test]
    fn the_example_runs() {
        main().unwrap();
    }

    #[test]
    fn burn_has_the_memory_of_a_compact_tensor_and_a_copy_of_others() {
        let device = Device::default();
        let rows = matrix();
        for (tensor, is_shared) in [(rows.clone(), true), (rows.permuted(&[1, 0]).unwrap(), false)]
        {
            let there = BurnTensor::<2>::from_data(to_burn(tensor.clone()).unwrap(), &device);
            let data = there.into_data();
            let values = tensor.host().unwrap().to_vec::<f32>().unwrap();
            assert_eq!(data.as_slice::<f32>().unwrap(), values);
            let lies_at = data.as_slice::<f32>().unwrap().as_ptr();
            assert_eq!(lies_at == address(&tensor), is_shared, "{tensor:?}");
        }
    }

    #[test]
    fn what_burn_computes_does_not_change_the_column() {
        let tensor = matrix();
        let device = Device::default();
        let there = BurnTensor::<2>::from_data(to_burn(tensor.clone()).unwrap(), &device);
        let more = (there + 1.0).exp();
        assert!(more.into_data().as_slice::<f32>().unwrap()[0] > 7.0);
        assert_eq!(tensor.host().unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn the_memory_that_burn_gives_up_becomes_the_column() {
        let device = Device::default();
        let data = BurnTensor::<1>::from_data([1.5_f32, 2.5], &device).into_data();
        let lies_at = data.as_slice::<f32>().unwrap().as_ptr();
        let back = from_burn(data).unwrap();
        assert_eq!(address(&back), lies_at);
        assert!(from_burn(TensorData::from([1_i32])).is_err());
    }
}
