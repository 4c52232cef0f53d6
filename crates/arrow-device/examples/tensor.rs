//! A column becomes a tensor that any array library can take, and a tensor of another library
//! becomes a column.
//!
//! Run it with `cargo run -p arrow-device --example tensor`. Here both sides are this program; in a
//! process with Python the pointer travels in a capsule.

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::dlpack::{
    Conversion, CopyPolicy, Dtype, Exported, Managed, Nulls, Order, Tensor,
};
use arrow_device::{Array, DataType, Result};

pub(crate) fn main() -> Result<()> {
    hand_a_column_over()?;
    take_a_matrix_over()
}

/// The producer: a column of temperatures with a gap, for a consumer that knows DLPack 1.x.
fn hand_a_column_over() -> Result<()> {
    let values = [Some(20.5_f32), None, Some(21.0), Some(19.5)];
    let temperatures = Array::from_values(DataType::Float32, values)?;

    // As it comes a conversion shares or fails. The gap is a reason to fail: a tensor has no nulls.
    if let Err(error) = temperatures.to_tensor(&Conversion::new()) {
        println!("{error}");
    }

    // The last two have none, and are handed over where they lie.
    let shared = temperatures.slice(2, 2)?.to_tensor(&Conversion::new())?;
    let managed: Managed<DLManagedTensorVersioned> =
        shared.export(Order::Host, CopyPolicy::Never)?;
    consume(managed.into_raw());

    // Or something stands for nulls, which is a copy; an older consumer gets the older form.
    let filled = Conversion::new().copying(CopyPolicy::IfNeeded).nulls(Nulls::NaN);
    let tensor = temperatures.to_tensor(&filled)?;
    match tensor.export_for(None, Order::Host, CopyPolicy::IfNeeded)? {
        Exported::Legacy(managed) => println!("the older form: {managed:?}"),
        Exported::Versioned(managed) => println!("the newer form: {managed:?}"),
    }
    Ok(())
}

/// The consumer of a C struct. It may be in any language; this one imports.
fn consume(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the producer handed the tensor over, and nobody else has it.
    match unsafe { Tensor::import(tensor, Order::Host) } {
        Ok(tensor) => println!("{tensor:?}"),
        Err(error) => println!("{error}"),
    }
}

/// A matrix of another library, three rows of two numbers, as an array of rows and as columns.
fn take_a_matrix_over() -> Result<()> {
    let theirs = Tensor::from_buffer(vec![1_i64, 2, 3, 4, 5, 6].into(), Dtype::INT64, &[3, 2])?;
    let managed: Managed<DLManagedTensor> = theirs.export(Order::Host, CopyPolicy::IfNeeded)?;

    // SAFETY: the producer handed the tensor over, and nobody else has it.
    let tensor = unsafe { Tensor::import(managed.into_raw(), Order::Host) }?;
    // The older form does not say whether its producer still writes. A copy is safe, and so is a
    // promise that is true.
    let copied = tensor.to_array(&Conversion::new().copying(CopyPolicy::IfNeeded))?;
    // SAFETY: nobody has the memory but this tensor.
    let tensor = unsafe { tensor.assume_frozen() };
    let rows = tensor.to_array(&Conversion::new())?;
    println!("{} rows: {}", rows.len(), rows.field());
    assert_eq!(copied.field(), rows.field());

    // Columns of a matrix in row-major order do not lie together.
    let gathered = Conversion::new().copying(CopyPolicy::IfNeeded);
    let batch = tensor.to_batch(["left", "right"], &gathered)?;
    println!("{batch:?}");
    Ok(())
}
