//! Converts this library's arrays to `ArrayData`, and so to arrays of arrow-rs.
//!
//! Each buffer becomes a `Buffer` at the same address, which holds a share of the array, so no
//! bytes are copied. The offset of a node stays the offset of its `ArrayData`, except for structs,
//! fixed-size lists and sparse unions. Their children are cut to the window of the parent first,
//! because majors of arrow-rs disagree on what the offset of such an `ArrayData` means for its
//! children. What must stay true: the data was checked, or the caller vouches for it, because
//! arrow-rs relies on valid data.

use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_device::{
    Array, BufferKind, DataType, DeviceType, Error, ErrorKind, HostArray, Result, UnionMode,
};

use super::arrow::array::{ArrayRef, make_array};
use super::arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use super::arrow::data::{ArrayData, ArrayDataBuilder};
use super::arrow::schema as rs;
use super::types;

/// Why the data can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// [`Array::validate`] found no mistake. It does not look at the text and views of elements
    /// that are null. arrow-rs does, so these elements are checked here.
    Checked,
    /// The caller vouches for the data.
    Promised,
}

/// Waits until the array is ready, and returns it if it is in memory that arrow-rs can read.
pub(super) fn readable(array: &Array) -> Result<HostArray> {
    check_place(array)?;
    array.host()
}

/// Checks that the array is in memory that arrow-rs can read, whether it is ready or not.
pub(super) fn check_place(array: &Array) -> Result<()> {
    if array.device().device_type != DeviceType::CPU {
        let message = "arrow-rs reads host memory only; copy the array with `to_host` first";
        return Err(Error::new(ErrorKind::Unsupported, message)
            .during("to_arrow")
            .on_device(array.device()));
    }
    Ok(())
}

/// # Safety
/// The array is valid, as [`Trust`] says (UNS-28).
pub(super) unsafe fn array(host: &HostArray, trust: Trust) -> Result<ArrayRef> {
    let data_type = types::data_type_to(host.data_type())?;
    // SAFETY: UNS-28, which the caller promises.
    unsafe { data(host, &data_type, trust) }.map(make_array)
}

/// # Safety
/// The array is valid, as [`Trust`] says (UNS-28).
unsafe fn data(host: &HostArray, data_type: &rs::DataType, trust: Trust) -> Result<ArrayData> {
    let node = HostNode::new(host);
    let cut = matches!(
        host.data_type(),
        DataType::Struct(_)
            | DataType::FixedSizeList(..)
            | DataType::Union { mode: UnionMode::Sparse, .. }
    );
    let mut children = Vec::new();
    for (index, child_type) in child_types(data_type).enumerate() {
        let child = node.child(index)?;
        // SAFETY: what lies below an array that is valid is valid.
        children.push(unsafe { data(&child, child_type, trust) }?);
    }
    let nulls = node.nulls()?;
    let has_nulls = nulls.is_some();
    let builder = ArrayDataBuilder::new(data_type.clone())
        .len(host.len())
        .offset(if cut { 0 } else { node.offset })
        .nulls(nulls)
        .buffers(node.buffers(cut)?)
        .child_data(children)
        // The specification recommends alignment and does not require it, and arrow-rs requires it.
        .align_buffers(true);
    // SAFETY: the layout is that of the type, as our array's is; the data is valid, says the
    // caller.
    let data = unsafe { builder.build_unchecked() };
    if trust == Trust::Checked && has_nulls && reads_nulls(host.data_type()) {
        data.validate_values().map_err(|error| {
            let message = format!("arrow-rs reads elements that are null, too: {error}");
            Error::new(ErrorKind::InvalidData, message).during("to_arrow")
        })?;
    }
    Ok(data)
}

/// Whether arrow-rs follows what an element that is null contains.
fn reads_nulls(data_type: &DataType) -> bool {
    data_type.is_text() || matches!(data_type, DataType::BinaryView)
}

/// Returns the types of what is below an `ArrayData` of this type, in order.
fn child_types(data_type: &rs::DataType) -> impl Iterator<Item = &rs::DataType> {
    let (one, many, members): (_, &[rs::FieldRef], _) = match data_type {
        rs::DataType::List(field)
        | rs::DataType::LargeList(field)
        | rs::DataType::ListView(field)
        | rs::DataType::LargeListView(field)
        | rs::DataType::FixedSizeList(field, _)
        | rs::DataType::Map(field, _) => ([Some(field.data_type()), None], &[], None),
        rs::DataType::Dictionary(_, values) => ([Some(&**values), None], &[], None),
        rs::DataType::RunEndEncoded(run_ends, values) => {
            ([Some(run_ends.data_type()), Some(values.data_type())], &[], None)
        }
        rs::DataType::Struct(fields) => ([None, None], fields, None),
        rs::DataType::Union(members, _) => ([None, None], &[], Some(members)),
        _ => ([None, None], &[], None),
    };
    let members = members.into_iter().flat_map(|members| members.iter().map(|(_, field)| field));
    one.into_iter().flatten().chain(many.iter().chain(members).map(|field| field.data_type()))
}

/// An array on the host, its share for the buffers made of it, and its offset.
struct HostNode<'a> {
    host: &'a HostArray,
    keep: Arc<Keep>,
    offset: usize,
}

/// The share of the array that a buffer of arrow-rs holds. Nobody ever looks into it, so no
/// unwinding thread can leave it half done.
struct Keep {
    _array: AssertUnwindSafe<Array>,
}

impl<'a> HostNode<'a> {
    fn new(host: &'a HostArray) -> Self {
        let keep = Arc::new(Keep { _array: AssertUnwindSafe(host.array().clone()) });
        // An array without elements may have no buffers, and an offset would be past their end.
        let offset = if host.is_empty() { 0 } else { host.array().offset() };
        Self { host, keep, offset }
    }

    /// Returns a child or the dictionary. A child whose elements correspond to those of the parent
    /// is cut to the parent's window.
    fn child(&self, index: usize) -> Result<HostArray> {
        let length = self.host.len();
        match self.host.data_type() {
            DataType::Dictionary { .. } => self.host.dictionary().ok_or_else(|| {
                Error::new(ErrorKind::SchemaMismatch, "the dictionary is missing")
                    .during("to_arrow")
            }),
            DataType::Struct(_) | DataType::Union { mode: UnionMode::Sparse, .. } => {
                self.host.child(index)?.slice(self.offset, length)
            }
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                self.host.child(index)?.slice(self.offset * size, length * size)
            }
            // Values without a run end belong to no run.
            DataType::RunEndEncoded { .. } if index == 1 => {
                self.host.child(1)?.slice(0, self.host.child(0)?.len())
            }
            _ => self.host.child(index),
        }
    }

    fn nulls(&self) -> Result<Option<NullBuffer>> {
        let array = self.host.array();
        if array.buffer_kind(0) != Some(BufferKind::Validity) || array.null_count() == Some(0) {
            return Ok(None);
        }
        let bitmap = self.buffer(0)?;
        if bitmap.is_empty() {
            return Ok(None);
        }
        let bits = BooleanBuffer::new(bitmap, self.offset, self.host.len());
        Ok(Some(match array.null_count() {
            // SAFETY: the number is the bitmap's: it was checked, or is the caller's promise.
            Some(nulls) => unsafe { NullBuffer::new_unchecked(bits, nulls) },
            None => NullBuffer::new(bits),
        }))
    }

    /// Returns the buffers without the validity bitmap and without the sizes of data buffers, which
    /// arrow-rs does not keep among them.
    fn buffers(&self, cut: bool) -> Result<Vec<Buffer>> {
        let array = self.host.array();
        let first = usize::from(array.buffer_kind(0) == Some(BufferKind::Validity));
        let views = array.buffer_kind(1) == Some(BufferKind::Views);
        let end = array.buffer_count() - usize::from(views);
        let buffers = (first..end).map(|index| self.buffer(index));
        let mut buffers = buffers.collect::<Result<Vec<_>>>()?;
        if let (true, [type_ids]) = (cut, &mut *buffers) {
            *type_ids = type_ids.slice_with_length(self.offset, self.host.len());
        }
        Ok(buffers)
    }

    /// Returns a buffer at the same address, which keeps the array.
    fn buffer(&self, index: usize) -> Result<Buffer> {
        let bytes = self.host.buffer(index)?;
        let len = bytes.len();
        if len == 0 {
            return Ok(MutableBuffer::new(0).into());
        }
        let address = NonNull::from(&*bytes).cast::<u8>();
        // SAFETY: `bytes` are `len` bytes that nobody writes to: UNS-4 of an import, SAF-3 of what
        // was built here. They are host memory and not mapped, so that they stay when `bytes` ends,
        // as long as the array is kept.
        Ok(unsafe { Buffer::from_custom_allocation(address, len, self.keep.clone()) })
    }
}
