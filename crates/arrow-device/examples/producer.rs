//! A producer: builds two columns in host memory and hands them to whoever takes C structs.
//!
//! `cargo run --example producer`

use std::ffi::CStr;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Buffer, DataType, Result};

pub(crate) fn main() -> Result<()> {
    // A column without nulls: no validity bitmap, and the values. Nothing is copied.
    let prices = vec![99.5_f64, 101.25, 98.0];
    let address = prices.as_ptr();
    let prices = Array::builder(DataType::Float64)
        .len(3)
        .buffers([None, Some(Buffer::from(prices))])
        .finish_ready()?;
    println!("made {prices:?}");

    // A column of text whose second element is null: bitmap, offsets, bytes.
    let validity = Buffer::from(vec![0b101_u8]);
    let offsets = Buffer::from(vec![0_i32, 4, 4, 9]);
    let bytes = Buffer::from(b"OsloTokyo".to_vec());
    let cities = Array::builder(DataType::Utf8)
        .len(3)
        .null_count(1)
        .buffers([Some(validity), Some(offsets), Some(bytes)])
        .finish_ready()?;
    println!("made {cities:?}");

    // The consumer allocates both structs, and this side fills them. They are independent of each
    // other.
    let mut c_schema = ArrowSchema::empty();
    let mut c_array = ArrowDeviceArray::empty();
    prices.schema()?.export(&mut c_schema)?;
    prices.export(&mut c_array)?;
    // What was exported stays until it is released, whatever happens here.
    drop(prices);
    assert_eq!(consume(&mut c_schema, &mut c_array), ("g".to_owned(), address));

    // A mistake is an error that says where it is and what to do.
    let offsets = Buffer::from(vec![0_i32, 4]);
    let error = Array::builder(DataType::Utf8).len(3).buffers([None, Some(offsets), None]);
    let error = error.finish_ready().err().map(|error| error.to_string()).unwrap_or_default();
    println!("refused: {error}");
    assert!(error.contains("buffer 1 has"));
    Ok(())
}

/// Stands for another library, in any language: it knows the C structs and nothing else.
fn consume(schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> (String, *const f64) {
    // SAFETY: the interface says that `format` is a NUL-terminated string.
    let format = unsafe { CStr::from_ptr(schema.format) }.to_string_lossy().into_owned();
    // SAFETY: an array of this format has two buffers, and the table has an entry for each.
    let values: *const f64 = unsafe { *array.array.buffers.wrapping_add(1) }.cast();
    println!("a consumer sees {} elements of format {format}", array.array.length);

    if let Some(release) = array.array.release {
        // SAFETY: the array is not released, and nothing reads it after this.
        unsafe { release(&raw mut array.array) };
    }
    if let Some(release) = schema.release {
        // SAFETY: the schema is not released, and nothing reads it after this.
        unsafe { release(schema) };
    }
    assert!(array.is_released() && schema.is_released());
    println!("and has released both");
    (format, values)
}
