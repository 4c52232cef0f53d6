//! Arrays as tensors.
//!
//! 1. Numbers without nulls share their memory, without a plan (`plain`). These are most arrays.
//! 2. For all others a [`TensorPlan`] follows fixed-size lists down to the elements.
//! 3. Where the elements are on the host and nulls are to be replaced, one pass over the memory
//!    copies and replaces (`filled_on_host`).
//! 4. Otherwise it is found out which elements are null (`validity`), the elements are shared or
//!    converted (`values`), and nulls are replaced in a copy on the device (`patched`).

use super::copy::{allocate_near, finish, read_bytes, upload};
use super::dims::Dims;
use super::dtype::Width;
use super::memory::TensorMemory;
use super::plan::{TensorPlan, bits};
use super::storage::{Elements, elements_of};
use super::tensor::Origin;
use super::{Conversion, CopyPolicy, Dtype, Nulls, Tensor, on_host};
use crate::device::driver::{Raw, Region, Route, Spot};
use crate::{Array, DeviceType, Error, ErrorKind, Queue, Result};

impl Array {
    /// The array as a tensor, without a copy wherever its memory allows one.
    ///
    /// * Numbers become one dimension. The tensor of a slice begins where the slice begins.
    ///   `arrow.bool8` becomes `bool`.
    /// * Each level of fixed-size lists becomes a further dimension. An `arrow.fixed_shape_tensor`
    ///   has the dimensions that its parameters say, in their order.
    /// * `arrow_device.bfloat16` (over `fixed_size_binary[2]`) and `arrow_device.complex` (over
    ///   lists of two floats) become what their names say.
    /// * Booleans are bits in Arrow and bytes in DLPack, so they are copied.
    /// * Dates, times, durations, decimals of 32 and 64 bits and dictionary keys become integers,
    ///   if that is [asked for](Conversion::as_integers).
    ///
    /// Nulls are looked for in every nested array, and become what the [`Conversion`] says. A
    /// bitmap is read only where the number of nulls is not known.
    ///
    /// Waits for the array's device where the number of nulls is not known or not 0, and where bits
    /// become bytes.
    ///
    /// ```
    /// use arrow_device::dlpack::{Conversion, Dtype};
    /// use arrow_device::{Array, DataType};
    ///
    /// let days = Array::from_values(DataType::Date32, [Some(19_000), Some(19_001)])?;
    /// let tensor = days.to_tensor(&Conversion::new().as_integers(true))?;
    /// assert_eq!(
    ///     (tensor.dtype(), tensor.host()?.to_vec::<i32>()?),
    ///     (Dtype::INT32, vec![19_000, 19_001])
    /// );
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`Unsupported`](ErrorKind::Unsupported): a tensor cannot have such elements, or a copy is
    ///   needed and not allowed.
    /// * [`InvalidData`](ErrorKind::InvalidData): there are nulls, and the conversion says no value
    ///   for them.
    /// * [`NotReady`](ErrorKind::NotReady): something has to be waited for, and a driver [may not
    ///   wait](crate::driver#drivers-that-may-not-wait) on this thread.
    pub fn to_tensor(&self, conversion: &Conversion) -> Result<Tensor> {
        if let Some(tensor) = self.plain(conversion) {
            return Ok(tensor);
        }
        let (tensor, _) = self.convert(conversion, false)?;
        Ok(tensor)
    }

    /// The array as a tensor, and a second tensor of booleans that says which elements are not
    /// null. The second one is `None` if no element is null. In the first one, null elements have
    /// any value.
    ///
    /// The first tensor needs no copy. The second is a copy, because bits become bytes. Waits for
    /// the copy, and where the number of nulls is not known, for the bitmap.
    ///
    /// # Errors
    /// The errors of [`to_tensor`](Self::to_tensor).
    pub fn to_tensor_and_validity(
        &self,
        conversion: &Conversion,
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.convert(conversion, true)
    }

    /// The fast path for numbers without nulls, which share their memory as it is: nearly all
    /// conversions end here. `None` for other arrays.
    fn plain(&self, conversion: &Conversion) -> Option<Tensor> {
        let Some(Elements::Same(dtype)) = elements_of(self.field()) else { return None };
        let has_no_null =
            self.is_empty() || self.null_count() == Some(0) || self.node().buffer(0).is_null();
        if !has_no_null || conversion.copying == CopyPolicy::Always {
            return None;
        }
        let width = dtype.width(false).ok()?;
        let start = width.bytes(self.offset() as u64)?;
        let dims = Dims::compact(&[i64::try_from(self.len()).ok()?]).ok()?;
        let memory = TensorMemory::of(self.clone());
        Some(Tensor::new(memory, start, dtype, width, dims, Origin::Shared))
    }

    fn convert(&self, conversion: &Conversion, beside: bool) -> Result<(Tensor, Option<Tensor>)> {
        let during = |error: Error| error.during("make a tensor").on_device_if_none(self.device());
        let plan = TensorPlan::new(self, conversion).map_err(during)?;
        if !beside && let Some(filled) = plan.filled_on_host(conversion).map_err(during)? {
            return Ok((filled.changed(|parts| parts.dims = plan.dims.clone()), None));
        }
        let valid = plan.validity(conversion, beside).map_err(during)?;
        let nulls = if beside { None } else { valid.as_deref() };
        let values = plan.values(conversion, nulls).map_err(during)?;
        let validity = match valid.as_deref().filter(|_| beside) {
            None => None,
            Some(valid) => {
                let bytes: Vec<u8> = valid.iter().map(|valid| u8::from(*valid)).collect();
                let queue = conversion.queue_for(self)?;
                Some(upload(self, &bytes, Dtype::BOOL, &queue).map_err(during)?)
            }
        };
        let in_shape = |flat: Tensor| flat.changed(|parts| parts.dims = plan.dims.clone());
        Ok((in_shape(values), validity.map(in_shape)))
    }
}

impl TensorPlan {
    /// All elements in the order of memory, in one dimension. Nulls are replaced as the conversion
    /// says.
    fn values(&self, conversion: &Conversion, valid: Option<&[bool]>) -> Result<Tensor> {
        let leaf = &self.leaf;
        match self.elements {
            Elements::Bits => {
                conversion.may_copy(|| "booleans are bits in Arrow and bytes in DLPack".into())?;
                let bits = bits(leaf, 1, conversion)?.unwrap_or_default();
                self.bools(conversion, valid, bits.into_iter().map(u8::from).collect())
            }
            Elements::Bool8 if !conversion.trust_bools => {
                let queue = conversion.queue_for(leaf)?;
                let (first, count) = (leaf.offset() as u64, leaf.len() as u64);
                let bytes = read_bytes(leaf, 1, first, count, &queue)?;
                if bytes.iter().all(|byte| *byte <= 1) {
                    return self.shared(conversion, Dtype::BOOL, valid);
                }
                conversion.may_copy(|| {
                    "some booleans are neither 0 nor 1, which consumers of DLPack do not expect"
                        .into()
                })?;
                let bytes = bytes.into_iter().map(|byte| u8::from(byte != 0)).collect();
                self.bools(conversion, valid, bytes)
            }
            Elements::Bool8 => self.shared(conversion, Dtype::BOOL, valid),
            Elements::Same(dtype) | Elements::View(dtype) | Elements::Complex(dtype) => {
                self.shared(conversion, dtype, valid)
            }
        }
    }

    /// The values with nulls replaced, in one pass over host memory; `None` where more has to be
    /// done.
    fn filled_on_host(&self, conversion: &Conversion) -> Result<Option<Tensor>> {
        let (Elements::Same(dtype) | Elements::View(dtype)) = self.elements else {
            return Ok(None);
        };
        let leaf = &self.leaf;
        let queue = conversion.queue_for(leaf)?;
        let is_on_host = [leaf.device(), queue.device().id()]
            .iter()
            .all(|device| device.device_type == DeviceType::CPU);
        let is_asked = !matches!(conversion.nulls, Nulls::Refused)
            && conversion.copying != CopyPolicy::Never
            && self.has_one_level();
        if !is_on_host || !is_asked || leaf.is_empty() || leaf.node().buffer(0).is_null() {
            return Ok(None);
        }
        let host = leaf.host()?;
        let (bitmap, values) = (host.buffer(0)?, host.buffer(1)?);
        if on_host::are_all_set(&bitmap, leaf.offset(), leaf.len()) {
            return Ok(None);
        }
        let pattern = conversion.nulls.pattern(dtype)?;
        let start = leaf.offset().saturating_mul(pattern.len());
        let len = (leaf.len() as u64).saturating_mul(pattern.len() as u64);
        let mut memory = allocate_near(leaf, &queue, len)?;
        let to = memory.spot(&queue)?.base.as_ptr().cast::<u8>();
        let source = on_host::Gaps {
            values: values.get(start..).unwrap_or_default(),
            bitmap: &bitmap,
            first_bit: leaf.offset(),
        };
        // SAFETY: the memory was allocated just now with room for so many elements of the pattern's
        // size, and nobody else has it.
        if !unsafe { on_host::fill(&source, &pattern, to, leaf.len()) } {
            return Ok(None);
        }
        let width = dtype.width(false)?;
        let dims = Dims::compact(&[self.count().cast_signed()])?;
        // SAFETY: the elements are the first `len` bytes, and were written just now.
        let (memory, origin) = unsafe { finish(memory, len, &queue) }?;
        Ok(Some(Tensor::new(memory, 0, dtype, width, dims, origin)))
    }

    fn bools(
        &self,
        conversion: &Conversion,
        valid: Option<&[bool]>,
        mut bytes: Vec<u8>,
    ) -> Result<Tensor> {
        if let Some(valid) = valid {
            let pattern = conversion.nulls.pattern(Dtype::BOOL)?;
            let fill = u8::from(pattern.first().is_some_and(|byte| *byte != 0));
            let all = bytes.iter_mut().zip(valid);
            all.filter(|(_, valid)| !**valid).for_each(|(byte, _)| *byte = fill);
        }
        upload(&self.leaf, &bytes, Dtype::BOOL, &conversion.queue_for(&self.leaf)?)
    }

    fn shared(
        &self,
        conversion: &Conversion,
        dtype: Dtype,
        valid: Option<&[bool]>,
    ) -> Result<Tensor> {
        let width = dtype.width(false)?;
        let parts = if let Elements::Complex(_) = self.elements { 2 } else { 1 };
        let start =
            width.bytes(self.leaf.offset() as u64).and_then(|bytes| bytes.checked_div(parts));
        let start = start.ok_or_else(|| {
            Error::new(ErrorKind::LimitExceeded, "the array begins beyond the end of all memory")
        })?;
        let dims = Dims::compact(&[self.count().cast_signed()])?;
        let tensor = Tensor::new(
            TensorMemory::of(self.leaf.clone()),
            start,
            dtype,
            width,
            dims,
            Origin::Shared,
        );
        match valid {
            Some(valid) => {
                let pattern = conversion.nulls.pattern(dtype)?;
                tensor.patched(valid, &pattern, &conversion.queue_for(&self.leaf)?)
            }
            None if conversion.copying == CopyPolicy::Always => {
                tensor.copy(&conversion.queue_for(&self.leaf)?)
            }
            None => Ok(tensor),
        }
    }
}

/// How many nulls in a row are filled at a time.
const FILLED: usize = 1024;

impl Tensor {
    /// A copy of a tensor with one dimension, in which the pattern stands for elements that are not
    /// valid. The values stay on the device.
    fn patched(&self, valid: &[bool], pattern: &[u8], queue: &Queue) -> Result<Self> {
        let Width::Bytes(width) = self.width() else {
            return Err(Error::new(ErrorKind::Unsupported, "packed elements cannot be filled"));
        };
        let len = width.saturating_mul(self.len());
        let mut memory = allocate_near(self.memory(), queue, len)?;
        let base = memory.spot(queue)?.base;
        self.gather(queue, Route::Within, base, 0)?;
        let longest = valid.chunk_by(|a, b| a == b).filter(|run| run.first() == Some(&false));
        let longest = longest.map(<[bool]>::len).max().unwrap_or(0).min(FILLED);
        let staged = pattern.repeat(longest);
        let from = Spot { base: Raw::from_ptr(staged.as_ptr().cast_mut().cast()), offset: 0 };
        let mut regions = Vec::new();
        let mut place = 0_u64;
        for run in valid.chunk_by(|a, b| a == b) {
            for piece in run.chunks(FILLED) {
                let count = piece.len() as u64;
                if piece.first() == Some(&false) {
                    let to = Spot { base, offset: place * width };
                    regions.push(Region { from, to, len: count * width });
                }
                place += count;
            }
        }
        // SAFETY: the source has `longest` patterns, as many as any region takes, and is kept below
        // until the queue has passed; the targets are elements of the new memory, each in one
        // region.
        let submitted = unsafe { queue.copy(Route::FromHost, &regions) };
        queue.keep_until_done(staged);
        submitted?;
        let dims = self.dims().clone();
        // SAFETY: the elements are the first `len` bytes, and were submitted to the queue.
        let (memory, origin) = unsafe { finish(memory, len, queue) }?;
        Ok(Self::new(memory, 0, self.dtype(), self.width(), dims, origin))
    }

    /// The place of the first element. Only compared with other places, and never read.
    pub(crate) fn first_place(&self) -> (Raw<crate::Memory>, u64) {
        (self.base(), self.start())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, DataType};

    /// Where the elements are, and all that is known of them.
    fn described(tensor: Tensor) -> String {
        let place = tensor.on(&Queue::host()).unwrap();
        let (address, extent) = (place.location().address(), place.extent());
        drop(place);
        let mut parts = String::new();
        let described = tensor.changed(|of| {
            parts = format!("{} {:?} {:?} {:?}", of.start, of.width, of.dims, of.origin);
        });
        let (dtype, padded) = (described.dtype(), described.is_padded());
        format!("{address:?} {extent:?} {dtype} {padded} {parts}")
    }

    #[test]
    fn a_tensor_of_plain_numbers_is_the_one_that_the_plan_makes() {
        use DataType::{Boolean, Date32, Float16, Float32, Float64, Int8, Int16, Int32, Int64};
        use DataType::{UInt8, UInt16, UInt32, UInt64};
        let numbers = [
            Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64,
            Boolean, Date32,
        ];
        let policies = [CopyPolicy::Never, CopyPolicy::IfNeeded, CopyPolicy::Always];
        let nulls = [None, Some(Some(0)), Some(Some(1)), Some(None)];
        let mut compared = 0;
        for data_type in &numbers {
            for (len, offset) in [(0, 0), (0, 3), (1, 0), (5, 0), (5, 2)] {
                for (nulls, policy) in nulls.iter().flat_map(|one| policies.map(|two| (one, two))) {
                    let values = Buffer::from(vec![1_i64; 8]);
                    let bitmap = nulls.map(|_| Buffer::from(vec![0b1111_1110_u8]));
                    let builder = Array::builder(data_type.clone()).offset(offset).len(len);
                    let builder = builder.buffers([bitmap, Some(values)]);
                    let array = match nulls.flatten() {
                        Some(count) if count > len => continue,
                        Some(count) => builder.null_count(count).finish_ready().unwrap(),
                        None => builder.finish_ready().unwrap(),
                    };
                    let conversion = Conversion::new().copying(policy);
                    let Some(plain) = array.plain(&conversion) else { continue };
                    let (planned, validity) = array.convert(&conversion, false).unwrap();
                    assert!(validity.is_none());
                    let case = format!("{data_type}, {offset}+{len}, {nulls:?}, {policy:?}");
                    assert_eq!(described(plain), described(planned), "{case}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 100, "{compared}");
    }
}
