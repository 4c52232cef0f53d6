//! Batches of equal columns as tensors of two dimensions.

use std::sync::Arc;

use super::copy::{allocate_near, finish};
use super::dims::Dims;
use super::memory::{TensorMemory, bytes_of};
use super::tensor::Origin;
use super::to_array::pending_of;
use super::{Conversion, CopyPolicy, Tensor};
use crate::array::{Built, Storage, Tree};
use crate::device::driver::Route;
use crate::pool::shared::Shared;
use crate::{Array, Batch, Buffer, Error, ErrorKind, Extent, Result};

impl Batch {
    /// The batch as a tensor of rows and columns, in column-major order.
    ///
    /// All columns need to have the same type; nothing is converted. Columns that lie in one
    /// allocation at equal distances are not copied. A batch that was imported is taken to be one
    /// allocation. Other columns are gathered, each as one piece. Waits for the device where the
    /// number of nulls of a column is not known or not 0.
    ///
    /// ```
    /// use arrow_device::dlpack::Conversion;
    /// use arrow_device::{Array, Batch, Buffer, DataType};
    ///
    /// let all = Buffer::from(vec![1.0_f64, 2.0, 10.0, 20.0]);
    /// let column = |first| {
    ///     let buffers = [None, Some(all.slice(first, 16)?)];
    ///     Array::builder(DataType::Float64).len(2).buffers(buffers).finish_ready()
    /// };
    /// let batch = Batch::from_columns([("x", column(0)?), ("y", column(16)?)])?;
    /// let tensor = batch.to_tensor(&Conversion::new())?;
    /// assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2][..], &[1, 2][..]));
    /// assert_eq!(tensor.host()?.to_vec::<f64>()?, [1.0, 10.0, 2.0, 20.0]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn to_tensor(&self, conversion: &Conversion) -> Result<Tensor> {
        let during = |error: Error| error.during("make a tensor").on_device_if_none(self.device());
        let gathered = Conversion {
            // Each column is copied at most once: columns that are shared here are gathered below.
            copying: if conversion.copying == CopyPolicy::Always {
                CopyPolicy::IfNeeded
            } else {
                conversion.copying
            },
            ..conversion.clone()
        };
        let (mut arrays, mut columns) = (Vec::new(), Vec::new());
        for index in 0..self.column_count() {
            let array = self.whole_column(index)?;
            columns.push(array.to_tensor(&gathered)?);
            arrays.push(array);
        }
        let shape = self.shape_of(&columns).map_err(during)?;
        if conversion.copying != CopyPolicy::Always
            && let Some(distance) = distance(&arrays, &columns)
            && let Some(first) = columns.first()
        {
            let dims = Dims::new(&shape, &[1, distance]).map_err(during)?;
            return self.spanning(first, dims).map_err(during);
        }
        conversion
            .may_copy(|| "the columns do not lie at equal distances in one allocation".into())?;
        self.gather(conversion, &columns, &shape).map_err(during)
    }

    /// A column in the tree of the batch. This tree is ready when the batch is, and keeps all
    /// columns.
    fn whole_column(&self, index: usize) -> Result<Array> {
        let rows = self.as_array();
        rows.node_child(index)?.slice(rows.offset(), rows.len())
    }

    fn shape_of(&self, columns: &[Tensor]) -> Result<[i64; 2]> {
        let refused = |message: String| Err(Error::new(ErrorKind::Unsupported, message));
        let Some(first) = columns.first() else {
            return refused("a batch without columns has no type for its elements".into());
        };
        for (index, (column, field)) in columns.iter().zip(self.fields()).enumerate() {
            if column.shape().len() != 1 {
                return refused(format!("column {index} is a {}, not a number", field.data_type()));
            }
            if column.dtype() != first.dtype() {
                let (this, other) = (column.dtype(), first.dtype());
                return refused(format!("column {index} has {this} and the first one {other}"));
            }
        }
        let too_large = |_| Error::new(ErrorKind::LimitExceeded, "the batch is too large");
        let rows = i64::try_from(self.row_count()).map_err(too_large)?;
        Ok([rows, i64::try_from(columns.len()).map_err(too_large)?])
    }

    /// A tensor over all columns, of which the others lie behind the first one.
    fn spanning(&self, first: &Tensor, dims: Dims) -> Result<Tensor> {
        let too_large = || Error::new(ErrorKind::LimitExceeded, "the batch is too large");
        let (_, last) = dims.reach().unwrap_or((0, -1));
        let behind = first.width().bytes(last.wrapping_add(1).unsigned_abs());
        let (base, start) = first.first_place();
        let len = behind.and_then(|behind| behind.checked_add(start)).ok_or_else(too_large)?;
        let whole = self.as_array().clone();
        if whole.tree().has_unknown_order() {
            let message =
                "the batch came without an event from a device that is not open; open the device";
            return Err(Error::new(ErrorKind::DeviceMissing, message).on_device(self.device()));
        }
        let ready = pending_of(&whole, base)?;
        let owner = Tree::owner(whole.tree());
        let buffer = Buffer::from_parts(self.device(), base, 0, Extent::AtLeast(len), Some(owner))
            .that_came(whole.tree().arrival());
        let memory = bytes_of(buffer, |builder| builder.finish_with(ready))?;
        Ok(Tensor::new(
            TensorMemory::of(memory),
            start,
            first.dtype(),
            first.width(),
            dims,
            Origin::Shared,
        ))
    }

    fn gather(
        &self,
        conversion: &Conversion,
        columns: &[Tensor],
        shape: &[i64; 2],
    ) -> Result<Tensor> {
        let Some(first) = columns.first() else {
            return Err(Error::new(ErrorKind::Unsupported, "a batch without columns"));
        };
        let [rows, count] = *shape;
        let dims = Dims::compact(&[count, rows])?.permuted(&[1, 0])?;
        let size = |elements: u64| {
            first.width().bytes(elements).ok_or_else(|| {
                Error::new(ErrorKind::LimitExceeded, "the tensor is larger than any memory")
            })
        };
        let column_size = size(rows.unsigned_abs())?;
        let queue = conversion.queue_for(self.as_array())?;
        let len = size(dims.count())?;
        let mut memory = allocate_near(self.as_array(), &queue, len)?;
        let base = memory.spot(&queue)?.base;
        let mut at = 0;
        for column in columns {
            column.gather(&queue, Route::Within, base, at)?;
            at += column_size;
        }
        // SAFETY: the columns have `rows` elements each, which are the first `len` bytes, and were
        // submitted to the queue.
        let (memory, origin) = unsafe { finish(memory, len, &queue) }?;
        Ok(Tensor::new(memory, 0, first.dtype(), first.width(), dims, origin))
    }
}

/// How many elements lie between one column and the next, if all columns are shared and equally far
/// from each other in one allocation.
fn distance(arrays: &[Array], columns: &[Tensor]) -> Option<i64> {
    let first = columns.first()?;
    let width = i64::try_from(first.dtype().byte_width()?).ok()?;
    if columns.iter().any(|column| column.origin() != Origin::Shared) {
        return None;
    }
    let [one, another, ..] = columns else { return Some(1.max(first.len().cast_signed())) };
    let between = bytes_between(one, another)?;
    // One tree may keep many allocations there, and no address of one leads to another.
    let are_separate = one.has_separate_buffers();
    let are_together = |this: &Array, that: &Array| match are_separate {
        true => this.node().buffer(1) == that.node().buffer(1),
        false => are_of_one_allocation(this, that),
    };
    let pairs = columns.windows(2).zip(arrays.windows(2));
    let is_regular = pairs.into_iter().all(|(columns, arrays)| match (columns, arrays) {
        ([one, another], [this, that]) => {
            bytes_between(one, another) == Some(between) && are_together(this, that)
        }
        _ => false,
    });
    // Many consumers refuse negative strides.
    (is_regular && between >= 0 && between % width == 0).then(|| between / width)
}

fn bytes_between(one: &Tensor, another: &Tensor) -> Option<i64> {
    let ((one, start), (another, other_start)) = (one.first_place(), another.first_place());
    let inside = other_start.cast_signed().checked_sub(start.cast_signed())?;
    if one == another && !one.is_null() {
        return Some(inside);
    }
    inside.checked_add((another.bits() as i64).checked_sub(one.bits() as i64)?)
}

/// Whether both arrays lie in one allocation, so that an address of one can lead to the other. Of a
/// tree of another party only the addresses are known.
fn are_of_one_allocation(one: &Array, other: &Array) -> bool {
    let (one, other) = (one.clone().at_its_source(), other.clone().at_its_source());
    match (one.tree().storage(), other.tree().storage()) {
        (Storage::Foreign { .. }, Storage::Foreign { .. }) => {
            Shared::ptr_eq(one.tree(), other.tree())
        }
        // The values are the last buffer that has an owner.
        (Storage::Built(Built { owners: mine, .. }), Storage::Built(Built { owners: its, .. })) => {
            match (mine.last(), its.last()) {
                (Some(mine), Some(its)) => Arc::ptr_eq(mine, its),
                _ => false,
            }
        }
        _ => false,
    }
}
