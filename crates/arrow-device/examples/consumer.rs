//! A consumer: is handed two C structs by somebody else, checks them, and reads the values where
//! they lie.
//!
//! `cargo run --example consumer`

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, DataType, ErrorKind, Field, Queue, Result, Schema};

pub(crate) fn main() -> Result<()> {
    let (mut c_schema, mut c_array) = from_somebody()?;

    // Import moves the structs: both are marked released here, and the data is now this side's to
    // release.
    // SAFETY: both were just filled by a producer that keeps to the interface.
    let schema = unsafe { Schema::import(&raw mut c_schema) }?;
    // SAFETY: both were just filled by a producer that keeps to the interface.
    let lists = unsafe { Array::import(&raw mut c_array, &schema) }?;
    assert!(c_schema.is_released() && c_array.is_released());
    println!("imported {lists:?}");

    // Nothing has been read so far. Reading on the host waits for the data, wherever it lies.
    let ready = lists.host()?;
    let offsets = numbers(&ready.buffer(1)?, i32::from_ne_bytes);
    let values = numbers(&ready.child(0)?.buffer(1)?, i64::from_ne_bytes);
    for (from, to) in offsets.iter().zip(offsets.iter().skip(1)) {
        println!("  {:?}", values.get(*from as usize..*to as usize).unwrap_or_default());
    }
    assert_eq!(values.iter().sum::<i64>(), 60);

    // Work on a device names its queue instead, and waits for nothing. The address lives as long as
    // the view.
    let view = lists.on(&Queue::host())?;
    println!("the values lie at {:?}", view.child(0)?.buffer(1).location());
    drop(view);

    // A part keeps the whole alive. The last one to go releases it, once no queue uses it any more.
    let tail = lists.slice(1, 2)?;
    drop((ready, lists));
    assert_eq!((tail.len(), tail.offset()), (2, 1));
    drop(tail);

    // Somebody else's mistake is an error, and what was passed is released.
    let (mut c_schema, mut c_array) = from_somebody()?;
    c_array.array.n_children = 2;
    // SAFETY: a wrong number of children is among the things that an import checks.
    let schema = unsafe { Schema::import(&raw mut c_schema) }?;
    // SAFETY: a wrong number of children is among the things that an import checks.
    let imported = unsafe { Array::import(&raw mut c_array, &schema) };
    let Err(error) = imported else { unreachable!("two children in a list") };
    println!("refused: {error}");
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(c_array.is_released());
    Ok(())
}

/// Reads numbers out of bytes, which need not be aligned for them.
fn numbers<const N: usize, T>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|chunk| read(*chunk)).collect()
}

/// Stands for another library: three lists, `[10, 20]`, `[]` and `[30]`.
fn from_somebody() -> Result<(ArrowSchema, ArrowDeviceArray)> {
    let values = Array::builder(DataType::Int64)
        .len(3)
        .buffers([None, Some(vec![10_i64, 20, 30].into())])
        .finish_ready()?;
    let lists = Array::builder(DataType::list(Field::new("item", DataType::Int64, true)))
        .len(3)
        .buffers([None, Some(vec![0_i32, 2, 2, 3].into())])
        .children([values])
        .finish_ready()?;
    let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    lists.schema()?.export(&mut schema)?;
    lists.export(&mut array)?;
    Ok((schema, array))
}
