//! Arrays from values that the caller has in host memory.

use std::ffi::{c_int, c_void};

use arrow_device::abi::ArrowArray;
use arrow_device::{Array, Buffer, BufferKind, DataType, Layout, Queue, Result, Schema};

use crate::array::ArdevArray;
use crate::call::{Out, get, invalid, run, values};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;
use crate::schema::ArdevSchema;
use crate::schema_parts::ArdevBytes;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_from_values(
    schema: *const ArdevSchema,
    values: *const c_void,
    is_there: *const u8,
    length: usize,
    queue: *const ArdevQueue,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let schema = &unsafe { get(schema, "schema") }?.0;
        // SAFETY: rule 2 of the header.
        let queue = unsafe { ArdevQueue::or_host(queue) };
        let width = width_of(schema.data_type())?;
        let size = length.checked_mul(width.max(1)).ok_or_else(too_long)?;
        let size = if width == 0 { 0 } else { size };
        // SAFETY: the header asks for so many values.
        let bytes = unsafe { self::values(values.cast::<u8>(), size, "values") }?;
        let is_there = if is_there.is_null() {
            None
        } else {
            // SAFETY: the header asks for a byte for each value.
            Some(unsafe { self::values(is_there, length, "is_there") }?)
        };
        out.give(ArdevArray(from_values(schema, bytes, is_there, length, &queue)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

fn too_long() -> arrow_device::Error {
    invalid("`length` is more than any memory holds")
}

/// How many bytes the caller has for each value of a type.
fn width_of(data_type: &DataType) -> Result<usize> {
    let is_plain = !matches!(data_type, DataType::Dictionary { .. });
    match Layout::of(data_type).buffers() {
        [BufferKind::Validity, BufferKind::Bits] => return Ok(1),
        [BufferKind::Validity, BufferKind::Fixed { width }] if is_plain => {
            return usize::try_from(*width).map_err(|_| too_long());
        }
        _ => {}
    }
    let message = "is not made of values of one size: ardev_array_from_bytes is for text and binary, ardev_array_build for other types";
    Err(invalid(format!("an array of {data_type} {message}")))
}

fn from_values(
    schema: &Schema,
    bytes: &[u8],
    is_there: Option<&[u8]>,
    length: usize,
    queue: &Queue,
) -> Result<Array> {
    let nulls = is_there.map_or(0, |there| there.iter().filter(|byte| **byte == 0).count());
    let validity = match is_there {
        Some(is_there) if nulls > 0 => Some(buffer_of(&bits_of(is_there), queue)?),
        _ => None,
    };
    let data = match Layout::of(schema.data_type()).buffers().last() {
        Some(BufferKind::Bits) => buffer_of(&bits_of(bytes), queue)?,
        _ => buffer_of(bytes, queue)?,
    };
    let builder = Array::builder(schema).len(length).null_count(nulls);
    builder.buffers([validity, Some(data)]).finish_ready()
}

/// A bit for each byte, which says whether it is 0.
fn bits_of(bytes: &[u8]) -> Vec<u8> {
    let pack = |bytes: &[u8]| {
        bytes.iter().enumerate().fold(0, |bits, (at, byte)| bits | u8::from(*byte != 0) << at)
    };
    bytes.chunks(8).map(pack).collect()
}

/// A copy, which is there when this returns.
fn buffer_of(bytes: &[u8], queue: &Queue) -> Result<Buffer> {
    let mut memory = queue.allocate(bytes.len() as u64)?;
    memory.write(queue, bytes)?;
    Ok(memory.into_buffer())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_from_bytes(
    schema: *const ArdevSchema,
    values: *const ArdevBytes,
    length: usize,
    queue: *const ArdevQueue,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let schema = &unsafe { get(schema, "schema") }?.0;
        // SAFETY: the header asks for so many values.
        let values = unsafe { self::values(values, length, "values") }?;
        let value = |value: &ArdevBytes| {
            if value.data.is_null() {
                return Ok(None);
            }
            // SAFETY: the header asks for bytes.
            unsafe { value.bytes("values[]") }.map(Some)
        };
        let values = values.iter().map(value).collect::<Result<Vec<_>>>()?;
        // SAFETY: rule 2 of the header.
        let queue = unsafe { queue.as_ref() }.map(|queue| &queue.0);
        out.give(ArdevArray(from_bytes(schema, &values, queue)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

fn from_bytes<'a>(
    schema: &Schema,
    values: &[Option<&'a [u8]>],
    queue: Option<&Queue>,
) -> Result<Array> {
    let data_type = schema.data_type();
    let array = if data_type.is_text() {
        let text = |(index, bytes): (usize, Option<&'a [u8]>)| {
            let wrong = |_| invalid(format!("`values[{index}]` is not UTF-8"));
            bytes.map(|bytes| std::str::from_utf8(bytes).map_err(wrong)).transpose()
        };
        let texts = values.iter().copied().enumerate().map(text).collect::<Result<Vec<_>>>()?;
        Array::from_texts(data_type.clone(), texts)?
    } else {
        Array::from_bytes(data_type.clone(), values.iter().copied())?
    };
    // The same array with the name and the metadata of its type.
    let mut c_array = ArrowArray::empty();
    array.export_host(&mut c_array)?;
    // SAFETY: the struct was exported here, with this type.
    let array = unsafe { Array::import_host(&raw mut c_array, schema) }?;
    match queue {
        Some(queue) => array.copy_with(queue, &arrow_device::copy::Options::new()),
        None => Ok(array),
    }
}
