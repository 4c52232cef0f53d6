//! A naive reader of arrays: element by element, as plain nested values, whatever their layout.
//!
//! Copies, slices and round trips are compared with what it reads. It knows the columnar format and
//! nothing of the library: it reads the bytes of a [`Plan`] and checks every index, as slowly as
//! can be. [`plan_of`] makes a plan of an array of the library that the host can read. From the
//! array it takes only where the bytes are and how many there are.
//!
//! Two arrays are equal when they have the same type and the same values. Bytes that no element
//! has, offsets, null counts, unused dictionary values, and how runs and views are cut do not
//! matter.

use arrow_device::abi::ArrowSchema;
use arrow_device::{Array, HostArray};

use crate::consumer::{self, SeenSchema};
use crate::plan::{Content, Plan};
use crate::shape::{Shape, is_text};
use crate::{Verdict, require};

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A null.
    Null,
    /// One bit.
    Bit(bool),
    /// A number, a time or another value of a fixed size, as it lies in memory; or binary data.
    Bytes(Vec<u8>),
    /// A text in UTF-8.
    Text(String),
    /// The elements of a list, or the fields of a struct. A map is a list of structs.
    Values(Vec<Value>),
    /// The member of a union with this type id.
    Member(u8, Box<Value>),
}

/// An element, or why it cannot be read.
pub type Read<T> = Result<T, String>;

/// Reads all elements of an array.
pub fn values(plan: &Plan) -> Read<Vec<Value>> {
    (0..plan.length).map(|index| value(plan, index)).collect()
}

/// Reads one element. The index counts from the array's first element.
pub fn value(plan: &Plan, index: i64) -> Read<Value> {
    if index < 0 || index >= plan.length {
        return Err(format!("element {index} of {}", plan.length));
    }
    let format = plan.format.as_bytes();
    let shape = Shape::of(format);
    let at = plan.offset + index;
    if shape.has_validity() && !is_valid(plan, at)? {
        return Ok(Value::Null);
    }
    if let Some(dictionary) = &plan.dictionary {
        return value(dictionary, key(plan, at)?);
    }
    match &shape {
        Shape::Null => Ok(Value::Null),
        Shape::Bits => Ok(Value::Bit(bit(plan, 1, at)?)),
        Shape::Fixed(0) => Ok(Value::Bytes(vec![])),
        Shape::Fixed(width) => {
            let width = *width as i64;
            Ok(Value::Bytes(bytes(plan, 1, at * width, width)?.to_vec()))
        }
        Shape::Bytes(width) => {
            let (begin, end) = (number(plan, 1, *width, at)?, number(plan, 1, *width, at + 1)?);
            text_or_bytes(format, bytes(plan, 2, begin, end - begin)?)
        }
        Shape::Views => text_or_bytes(format, view(plan, at)?),
        Shape::List(width) => {
            let (begin, end) = (number(plan, 1, *width, at)?, number(plan, 1, *width, at + 1)?);
            list(plan, begin, end)
        }
        Shape::ListView(width) => {
            let (start, size) = (number(plan, 1, *width, at)?, number(plan, 2, *width, at)?);
            list(plan, start, start + size)
        }
        Shape::FixedList(size) => list(plan, at * *size as i64, (at + 1) * *size as i64),
        Shape::Struct => {
            let fields = plan.children.iter().map(|child| value(child, at));
            Ok(Value::Values(fields.collect::<Read<_>>()?))
        }
        Shape::Sparse(ids) => member(plan, ids, at, at),
        Shape::Dense(ids) => member(plan, ids, at, number(plan, 1, 4, at)?),
        Shape::RunEnds => {
            let ends = &plan.children[0];
            for run in 0..ends.length {
                let Value::Bytes(end) = value(ends, run)? else {
                    return Err(format!("the end of run {run} is null"));
                };
                if integer(&end) > at {
                    return value(&plan.children[1], run);
                }
            }
            Err(format!("no run has element {index}"))
        }
    }
}

/// Checks that two arrays have the same type and the same values. Complains about the first
/// difference.
pub fn require_equal(one: &Plan, other: &Plan) -> Verdict {
    require_same_type(one, other)?;
    let (ours, theirs) = (values(one)?, values(other)?);
    require(ours.len() == theirs.len(), || {
        format!("{} elements and {}", ours.len(), theirs.len())
    })?;
    for (index, (one, other)) in ours.iter().zip(&theirs).enumerate() {
        require(one == other, || format!("element {index} is {one:?} and {other:?}"))?;
    }
    Ok(())
}

/// Checks that two arrays, and all arrays below them, have the same formats, names, flags and
/// metadata.
pub fn require_same_type(one: &Plan, other: &Plan) -> Verdict {
    // A decimal without a width has 128 bits. An empty name equals none, and so does metadata
    // without pairs.
    let format = |plan: &Plan| {
        let format = plan.format.to_string_lossy();
        format.strip_suffix(",128").unwrap_or(&format).to_owned()
    };
    let name = |plan: &Plan| plan.name.clone().unwrap_or_default();
    let metadata = |plan: &Plan| {
        plan.metadata.clone().filter(|bytes| bytes[..4] != [0; 4]).unwrap_or_default()
    };
    let described = |plan: &Plan| (format(plan), name(plan), plan.flags, metadata(plan));
    require(described(one) == described(other), || {
        format!("a type is {:?} and {:?}", described(one), described(other))
    })?;
    let below = |plan: &Plan| (plan.children.len(), plan.dictionary.is_some());
    require(below(one) == below(other), || format!("{:?} and {:?}", below(one), below(other)))?;
    let children = |plan: &'_ Plan| -> Vec<Plan> {
        plan.children.iter().chain(plan.dictionary.as_deref()).cloned().collect()
    };
    for (one, other) in children(one).iter().zip(&children(other)) {
        require_same_type(one, other)?;
    }
    Ok(())
}

/// Returns a part of an array: `length` elements from `offset` on.
pub fn slice(plan: &Plan, offset: usize, length: usize) -> Plan {
    let offset = plan.offset + offset as i64;
    Plan { offset, length: length as i64, null_count: -1, ..plan.clone() }
}

/// Makes a plan of an array, with its bytes up to the end of its window. Waits until the array is
/// ready.
pub fn plan_of(array: &Array) -> Read<Plan> {
    let said = |error: arrow_device::Error| error.to_string();
    let mut schema = ArrowSchema::empty();
    array.schema().and_then(|types| types.export(&mut schema)).map_err(said)?;
    let seen = SeenSchema::of(&schema);
    consumer::release(schema)?;
    host_plan(&array.host().map_err(said)?, &seen).map_err(said)
}

fn host_plan(host: &HostArray, schema: &SeenSchema) -> arrow_device::Result<Plan> {
    let array = host.array();
    let mut buffers = Vec::new();
    for index in 0..array.buffer_count() {
        let bytes = host.buffer(index)?.to_vec();
        // An empty buffer may be absent: no byte of it is read.
        buffers.push(if bytes.is_empty() { Content::Null } else { Content::Bytes(bytes) });
    }
    let mut children = Vec::new();
    for (index, schema) in schema.children.iter().enumerate() {
        children.push(host_plan(&host.child(index)?, schema)?);
    }
    let dictionary = match (host.dictionary(), &schema.dictionary) {
        (Some(values), Some(schema)) => Some(Box::new(host_plan(&values, schema)?)),
        _ => None,
    };
    let text = |bytes: &[u8]| std::ffi::CString::new(bytes).expect("came from a C string");
    Ok(Plan {
        format: text(&schema.format),
        name: Some(text(&schema.name)),
        metadata: (!schema.metadata.is_empty()).then(|| schema.metadata.clone()),
        flags: schema.flags,
        length: array.len() as i64,
        null_count: array.null_count().map_or(-1, |count| count as i64),
        offset: array.offset() as i64,
        buffers,
        children,
        dictionary,
    })
}

/// Whether an element is not null according to the bitmap. Without a bitmap every element is.
fn is_valid(plan: &Plan, at: i64) -> Read<bool> {
    match plan.buffers.first() {
        Some(Content::Bytes(_)) => bit(plan, 0, at),
        _ => Ok(true),
    }
}

fn bit(plan: &Plan, buffer: usize, at: i64) -> Read<bool> {
    Ok(bytes(plan, buffer, at / 8, 1)?[0] >> (at % 8) & 1 == 1)
}

/// Returns bytes of a buffer, or an error where the buffer is too short.
fn bytes(plan: &Plan, buffer: usize, begin: i64, len: i64) -> Read<&[u8]> {
    let all: &[u8] = match plan.buffers.get(buffer) {
        Some(Content::Bytes(bytes)) => bytes,
        _ => &[],
    };
    let range = usize::try_from(begin).ok().zip(usize::try_from(len).ok());
    let part = range.and_then(|(begin, len)| all.get(begin..begin.checked_add(len)?));
    part.ok_or_else(|| format!("bytes {begin}+{len} of buffer {buffer}, which has {}", all.len()))
}

/// Reads a signed integer of `width` bytes.
fn number(plan: &Plan, buffer: usize, width: usize, at: i64) -> Read<i64> {
    let width = width as i64;
    Ok(integer(bytes(plan, buffer, at * width, width)?))
}

fn integer(bytes: &[u8]) -> i64 {
    match *bytes {
        [a] => i64::from(a as i8),
        [a, b] => i64::from(i16::from_ne_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => panic!("{} bytes are no integer", bytes.len()),
    }
}

/// Reads a dictionary key. Keys of unsigned formats are not negative.
fn key(plan: &Plan, at: i64) -> Read<i64> {
    let (width, is_signed) = match plan.format.as_bytes() {
        b"c" => (1, true),
        b"C" => (1, false),
        b"s" => (2, true),
        b"S" => (2, false),
        b"i" => (4, true),
        b"I" => (4, false),
        b"l" => (8, true),
        _ => (8, false),
    };
    let key = number(plan, 1, width, at)?;
    if is_signed || width == 8 { Ok(key) } else { Ok(key & ((1 << (8 * width)) - 1)) }
}

fn text_or_bytes(format: &[u8], bytes: &[u8]) -> Read<Value> {
    if !is_text(format) {
        return Ok(Value::Bytes(bytes.to_vec()));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| format!("{bytes:x?}: {error}"))?;
    Ok(Value::Text(text.to_owned()))
}

/// Returns the bytes of a view: those in the view itself, or in one of the data buffers, which
/// begin with buffer 2.
fn view(plan: &Plan, at: i64) -> Read<&[u8]> {
    let view = bytes(plan, 1, at * 16, 16)?;
    let len = integer(&view[..4]);
    if (0..=12).contains(&len) {
        return bytes(plan, 1, at * 16 + 4, len);
    }
    let (buffer, offset) = (integer(&view[8..12]), integer(&view[12..]));
    let count = plan.buffers.len() as i64 - 3;
    if buffer < 0 || buffer >= count {
        return Err(format!("data buffer {buffer} of {count}"));
    }
    let value = bytes(plan, 2 + buffer as usize, offset, len)?;
    if value[..4] != view[4..8] {
        return Err("a view's prefix is not that of its data".into());
    }
    Ok(value)
}

fn list(plan: &Plan, begin: i64, end: i64) -> Read<Value> {
    if begin > end {
        return Err(format!("a list from {begin} to {end}"));
    }
    let items = (begin..end).map(|index| value(&plan.children[0], index));
    Ok(Value::Values(items.collect::<Read<_>>()?))
}

fn member(plan: &Plan, ids: &[u8], at: i64, index: i64) -> Read<Value> {
    let id = bytes(plan, 0, at, 1)?[0];
    let child = ids.iter().position(|known| *known == id);
    let child = child.ok_or_else(|| format!("type id {id} is none of {ids:?}"))?;
    Ok(Value::Member(id, Box::new(value(&plan.children[child], index)?)))
}
