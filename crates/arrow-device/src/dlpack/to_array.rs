//! Tensors as arrays and batches.
//!
//! 1. The dimensions behind the first one become lists, if the elements lie in memory as an array's
//!    elements do (`list_layout`), and the first element can begin a buffer (`place_of_first`).
//! 2. Then the elements become a flat array over the memory of the tensor (`flat`): a slice of the
//!    memory's own array where that one has such elements. Otherwise the tensor is copied first, so
//!    that its elements are compact.
//! 3. Lists are put around the flat array (`nest`).

use super::copy::upload;
use super::dims::Dims;
use super::dtype::Width;
use super::fixed_shape::{self, FixedShape};
use super::memory::ELEMENTS;
use super::storage::schema_of;
use super::{Conversion, CopyPolicy, Dtype, Tensor};
use crate::array::{Pending, Tree};
use crate::device::driver::Raw;
use crate::{
    Array, Batch, Buffer, DataType, Error, ErrorKind, Extent, Field, Memory, Result, Schema,
};

impl Tensor {
    /// The tensor as an array, without a copy wherever its strides allow one.
    ///
    /// A single number becomes an array of one element. A tensor with one dimension becomes an
    /// array of numbers. A tensor with several dimensions becomes an `arrow.fixed_shape_tensor`
    /// whose length is the first dimension, or nested [lists](Conversion::as_lists). `bool` becomes
    /// `arrow.bool8`, or [bits](Conversion::pack_bools), by a copy that is waited for.
    ///
    /// A copy is needed in three cases: the first dimension is not the one with the largest stride;
    /// elements do not lie together, or not at a multiple of their size; or the producer may still
    /// write to the memory (see [`is_frozen`](Self::is_frozen)).
    ///
    /// ```
    /// use arrow_device::Buffer;
    /// use arrow_device::dlpack::{Conversion, Dtype, Tensor};
    ///
    /// let matrix = Tensor::from_buffer(
    ///     Buffer::from(vec![1_i32, 2, 3, 4, 5, 6]),
    ///     Dtype::INT32,
    ///     &[2, 3],
    /// )?;
    /// let rows = matrix.to_array(&Conversion::new())?;
    /// assert_eq!((rows.len(), rows.child(0)?.len()), (2, 6));
    /// assert_eq!(
    ///     rows.field().extension().map(|extension| extension.name),
    ///     Some("arrow.fixed_shape_tensor")
    /// );
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn to_array(&self, conversion: &Conversion) -> Result<Array> {
        let during = |error: Error| error.during("make an array").on_device_if_none(self.device());
        self.convert(conversion).map_err(during)
    }

    /// A tensor of rows and columns as a batch. Nothing is copied where each column lies together
    /// in memory (column-major order).
    ///
    /// `names` has a name for each column.
    pub fn to_batch<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
        conversion: &Conversion,
    ) -> Result<Batch> {
        let during = |error: Error| error.during("make a batch").on_device_if_none(self.device());
        let names: Vec<N> = names.into_iter().collect();
        let [rows, count] = *self.shape() else {
            let message =
                format!("a batch has rows and columns, and this {} dimensions", self.shape().len());
            return Err(during(Error::new(ErrorKind::Unsupported, message)));
        };
        if i64::try_from(names.len()) != Ok(count) {
            let message = format!("{} names for {count} columns", names.len());
            return Err(during(Error::new(ErrorKind::InvalidArgument, message)));
        }
        let lies_in_columns = rows <= 1 || self.strides().first() == Some(&1);
        let owned;
        let source =
            if conversion.copying == CopyPolicy::Always || !lies_in_columns || !self.is_frozen() {
                conversion.may_copy(|| "the columns do not lie together".into()).map_err(during)?;
                owned = self.permuted(&[1, 0])?.copy(&conversion.queue_for(self.memory())?)?;
                owned.permuted(&[1, 0])?
            } else {
                self.clone()
            };
        let each = Conversion {
            copying: match conversion.copying {
                CopyPolicy::Always => CopyPolicy::IfNeeded,
                other => other,
            },
            ..conversion.clone()
        };
        let column = |index: i64| {
            let column = source.sliced(1, index, 1, 1)?;
            let dims = Dims::new(&[rows], &[1])?;
            column.changed(|parts| parts.dims = dims).to_array(&each)
        };
        let columns = (0..count).map(column).collect::<Result<Vec<_>>>()?;
        if columns.is_empty() {
            let message = "a tensor without columns is no batch";
            return Err(during(Error::new(ErrorKind::Unsupported, message)));
        }
        Batch::from_columns(names.iter().zip(columns))
    }

    fn convert(&self, conversion: &Conversion) -> Result<Array> {
        let bits = conversion.pack_bools && self.dtype() == Dtype::BOOL;
        let schema = schema_of(self.dtype(), self.width(), conversion.as_integers)?;
        let schema = schema.ok_or_else(|| {
            let message = format!("an array has no elements like {}", self.dtype());
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let layout = self.list_layout(conversion.as_lists);
        let place = self.place_of_first(part_width(self.dtype(), self.width()));
        let why = match (&layout, place) {
            _ if bits => Some("booleans are bytes in DLPack and bits in Arrow"),
            _ if !self.is_frozen() => Some("the producer may still write to the memory"),
            (None, _) => Some("the elements do not lie as those of an array"),
            (_, None) => Some("the elements do not lie at multiples of their size"),
            _ => None,
        };
        if let Some(why) = why {
            conversion.may_copy(|| why.into())?;
        }
        let queue = || conversion.queue_for(self.memory());
        if bits {
            let layout = self.compact_layout(conversion.as_lists);
            return nest(self.packed(conversion)?, &layout);
        }
        match (layout, place) {
            (Some(layout), Some(place))
                if why.is_none() && conversion.copying != CopyPolicy::Always =>
            {
                nest(self.flat(schema, place)?, &layout)
            }
            _ => {
                let copy = self.copy(&queue()?)?;
                let place = copy.place_of_first(1).unwrap_or((Raw::NULL, 0));
                nest(copy.flat(schema, place)?, &self.compact_layout(conversion.as_lists))
            }
        }
    }

    /// The lists that the dimensions behind the first one become; `None` where elements have to be
    /// moved for that.
    fn list_layout(&self, as_lists: bool) -> Option<ListLayout> {
        let (Some((rows, shape)), Some((stride, strides))) =
            (self.shape().split_first(), self.strides().split_first())
        else {
            return Some(self.compact_layout(as_lists));
        };
        if self.is_empty() {
            return Some(self.compact_layout(as_lists));
        }
        let inner = Dims::new(shape, strides).ok()?;
        let order = inner.compact_order()?;
        if *rows > 1 && u64::try_from(*stride) != Ok(inner.count()) {
            return None;
        }
        let in_order = order.iter().enumerate().all(|(index, axis)| index == *axis);
        if as_lists && !in_order {
            return None;
        }
        let physical = order.iter().filter_map(|axis| shape.get(*axis).copied()).collect();
        let mut back = vec![0; order.len()];
        for (index, axis) in order.iter().enumerate() {
            if let Some(slot) = back.get_mut(*axis) {
                *slot = index;
            }
        }
        let shape = FixedShape { shape: physical, order: back };
        Some(ListLayout { rows: *rows, shape, as_lists })
    }

    /// The lists that the dimensions of compact elements become.
    fn compact_layout(&self, as_lists: bool) -> ListLayout {
        let (rows, shape) =
            self.shape().split_first().map_or((1, &[][..]), |(rows, rest)| (*rows, rest));
        let shape = FixedShape { shape: shape.to_vec(), order: (0..shape.len()).collect() };
        ListLayout { rows, shape, as_lists }
    }

    /// The value for `buffers[1]`, and how many parts of this size lie before the first one; `None`
    /// where there is no such place.
    fn place_of_first(&self, part: u64) -> Option<(Raw<Memory>, u64)> {
        let (base, start) = self.first_place();
        if self.is_empty() || base.is_null() {
            return Some((Raw::NULL, 0));
        }
        if self.has_separate_buffers() {
            return start.is_multiple_of(part).then_some((base, start));
        }
        let start = usize::try_from(start).ok()?;
        let address = base.as_ptr().wrapping_byte_add(start);
        let is_aligned = (address.addr() as u64).is_multiple_of(part.min(8));
        is_aligned.then(|| (Raw::from_ptr(address), 0))
    }

    /// An array of this schema over the same memory, with the elements in the order of memory.
    fn flat(&self, schema: Schema, (base, start): (Raw<Memory>, u64)) -> Result<Array> {
        if let Some(array) = self.part_of_memory(&schema) {
            return Ok(array);
        }
        let bytes = self.width().bytes(self.len()).and_then(|bytes| bytes.checked_add(start));
        let bytes = bytes.ok_or_else(too_large)?;
        let count = usize::try_from(self.len()).map_err(|_| too_large())?;
        let memory = self.memory();
        // All columns that are made of one tensor get the same owner.
        let owner = Tree::owner(memory.tree());
        let extent = Extent::AtLeast(bytes);
        let buffer = Buffer::from_parts(memory.device(), base, 0, extent, Some(owner))
            .that_came(memory.tree().arrival());
        let buffers = [None, (!base.is_null()).then_some(buffer)];
        let part = part_width(self.dtype(), self.width());
        let first = start.checked_div(part).and_then(|first| usize::try_from(first).ok());
        let first = first.ok_or_else(too_large)?;
        let ready = pending_of(memory, base)?;
        if let DataType::FixedSizeList(item, 2) = schema.data_type() {
            let parts = Array::builder((**item).clone())
                .device(memory.device())
                .offset(first)
                .len(2 * count)
                .buffers(buffers)
                .finish_with(ready)?;
            let pairs = Array::builder(&schema).device(memory.device());
            return pairs.len(count).buffers([None]).children([parts]).finish_ready();
        }
        Array::builder(schema)
            .device(memory.device())
            .offset(first)
            .len(count)
            .buffers(buffers)
            .finish_with(ready)
    }

    /// A part of the memory's own array, if that is an array of such elements and nothing else.
    fn part_of_memory(&self, schema: &Schema) -> Option<Array> {
        let tree = self.memory().tree();
        let whole = Array::from_tree(tree.clone());
        if !tree.schema.is_same(schema) || !whole.node().buffer(0).is_null() {
            return None;
        }
        let Width::Bytes(width) = self.width() else { return None };
        let first = usize::try_from(self.start().checked_div(width)?).ok()?;
        let part =
            whole.slice(first.checked_sub(whole.offset())?, usize::try_from(self.len()).ok()?);
        part.ok().filter(|_| self.start().is_multiple_of(width))
    }

    /// Booleans as bits.
    fn packed(&self, conversion: &Conversion) -> Result<Array> {
        let queue = conversion.queue_for(self.memory())?;
        let bytes = self.copy_to_host(&queue)?.host()?.to_bytes()?;
        let pack = |eight: &[u8]| {
            eight
                .iter()
                .enumerate()
                .fold(0, |byte, (bit, value)| byte | u8::from(*value != 0) << bit)
        };
        let bits: Vec<u8> = bytes.chunks(8).map(pack).collect();
        let tensor = upload(self.memory(), &bits, Dtype::UINT8, &queue)?;
        let place = tensor.place_of_first(1).unwrap_or((Raw::NULL, 0));
        let memory = tensor.memory().clone();
        let extent = memory.extent(ELEMENTS);
        let ready = pending_of(&memory, place.0)?;
        let device = memory.device();
        let buffer =
            Buffer::from_parts(device, place.0, 0, extent, Some(Tree::owner(memory.tree())))
                .that_came(memory.tree().arrival());
        Array::builder(Field::new("", DataType::Boolean, false))
            .device(device)
            .len(bytes.len())
            .buffers([None, (!place.0.is_null()).then_some(buffer)])
            .finish_with(ready)
    }
}

/// The events that the data at this place waits for. The tree of the memory has these events, and
/// the buffer of the place keeps that tree. Where there is no place, there is no buffer, and
/// nothing to wait for.
pub(super) fn pending_of(memory: &Array, place: Raw<Memory>) -> Result<Vec<Pending>> {
    if place.is_null() {
        return Ok(Vec::new());
    }
    Ok(memory.tree().pending()?.into_owned())
}

/// How an array of elements becomes an array of lists.
struct ListLayout {
    rows: i64,
    shape: FixedShape,
    as_lists: bool,
}

/// Puts lists around the elements.
fn nest(flat: Array, layout: &ListLayout) -> Result<Array> {
    let ListLayout { rows, shape, as_lists } = layout;
    if shape.shape.is_empty() {
        return Ok(flat);
    }
    let sizes: Vec<i64> = if *as_lists {
        shape.shape.clone()
    } else {
        let product =
            shape.shape.iter().try_fold(1_i64, |product, size| product.checked_mul(*size));
        vec![product.ok_or_else(too_large)?]
    };
    let mut array = flat;
    for (index, size) in sizes.iter().enumerate().rev() {
        let outer = sizes.iter().take(index);
        let count = outer.chain([rows]).try_fold(1_i64, |count, size| count.checked_mul(*size));
        let count = count.and_then(|count| usize::try_from(count).ok()).ok_or_else(too_large)?;
        let size = i32::try_from(*size).map_err(|_| {
            let message = format!("a list of {size} elements is longer than Arrow allows");
            Error::new(ErrorKind::LimitExceeded, message)
        })?;
        let item = array.field().clone().with_name("item");
        let lists = Field::new("", DataType::fixed_size_list(item, size), false);
        let lists = if *as_lists {
            lists
        } else {
            lists.with_extension(fixed_shape::NAME, shape.to_json())?
        };
        let device = array.device();
        array = Array::builder(lists)
            .device(device)
            .len(count)
            .buffers([None])
            .children([array])
            .finish_ready()?;
    }
    Ok(array)
}

/// How many bytes the smallest counted part of an element takes: half of a complex number, and
/// otherwise the element.
fn part_width(dtype: Dtype, width: Width) -> u64 {
    let Width::Bytes(bytes) = width else { return 1 };
    match dtype {
        Dtype::COMPLEX32 | Dtype::COMPLEX64 | Dtype::COMPLEX128 => bytes / 2,
        _ => bytes,
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::LimitExceeded, "the tensor is larger than any memory")
}
