//! Taking a tensor over from C.
//!
//! What a struct says is read once and checked before any of it is used. Whatever is refused is deleted, once.

use std::sync::Arc;

use super::dims::{Axes, Dims, MAX_DIMENSIONS};
use super::dtype::Width;
use super::managed::{Form, Managed};
use super::memory::{Memory, bytes_of};
use super::tensor::Origin;
use super::{Dtype, Order, Tensor, device};
use crate::abi::dlpack::{
    DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_MAJOR_VERSION, DLTensor,
};
use crate::device::driver::{Addressing, Raw};
use crate::{Buffer, DeviceId, Error, ErrorKind, Extent, Result, pending};

impl Tensor {
    /// Takes a tensor over from the producer that made it, in either form.
    ///
    /// The deleter is called once, when the last use of the data is over, on whatever thread that is, or before this returns an
    /// error. Nothing is read through `data`, and nothing is waited for.
    ///
    /// `order` says how the data is known to be complete. [`Order::On`] names the queue that the producer was told to make wait:
    /// an event is recorded on it, and the tensor is ready after that. The other two say that the data is complete.
    ///
    /// ```
    /// use arrow_device::abi::dlpack::DLManagedTensorVersioned;
    /// use arrow_device::dlpack::{Conversion, Copying, Managed, Order, Tensor};
    /// use arrow_device::{Array, DataType};
    ///
    /// let numbers = Array::from_values(DataType::Float32, [Some(0.5_f32), Some(1.5)])?;
    /// let tensor = numbers.to_tensor(&Conversion::new())?;
    /// let managed: Managed<DLManagedTensorVersioned> = tensor.export(Order::Host, Copying::Never)?;
    ///
    /// let again = unsafe { Tensor::import(managed.into_raw(), Order::Host) }?;
    /// assert_eq!(again.host()?.to_vec::<f32>()?, [0.5, 1.5]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`Malformed`](ErrorKind::Malformed): a negative length or number of dimensions, a null shape, no data where there are
    ///   elements, an element of no bits, a place before the start of a handle.
    /// * [`LimitExceeded`](ErrorKind::LimitExceeded): more dimensions than 64, sizes that overflow.
    /// * [`Unsupported`](ErrorKind::Unsupported): an unknown major version, an element type that nobody knows, elements of less
    ///   than a byte that are packed and not compact, Metal.
    /// * [`NotReachable`](ErrorKind::NotReachable): the queue cannot touch the memory.
    ///
    /// # Safety
    /// `tensor` is null, or points to a tensor that a producer handed over and that nobody else will delete. Of a version that is
    /// known:
    ///
    /// * `shape` and `strides` are null or have `ndim` entries,
    /// * `data` is what the type of the device says, and every element that shape, strides and `byte_offset` name lies in its
    ///   memory, until the deleter is called,
    /// * nobody writes to the memory while it is flagged as read-only or copied; where it is not, nobody does while a call here
    ///   copies it,
    /// * `deleter` is null, or can be called once on any thread.
    ///
    /// Everything that the errors name need not be ruled out.
    pub unsafe fn import<F: Form>(tensor: *mut F, order: Order<'_>) -> Result<Self> {
        // SAFETY: promised by the caller.
        let managed = unsafe { Managed::from_raw(tensor) }?;
        let flags = managed.flags_if_known()?;
        // SAFETY: promised by the caller.
        let checked = match unsafe { Checked::new(&managed.tensor(), flags) } {
            Ok(checked) => checked,
            Err(error) => return Err(error.during("import")),
        };
        let Checked { device, base, start, len, dtype, width, padded, dims } = checked;
        let memory = match order {
            Order::On(queue) => {
                let extent = Extent::AtLeast(len);
                let buffer = Buffer::from_parts(device, base, 0, extent, Some(Arc::new(managed)));
                let submitted = queue.reaches(device);
                let made =
                    submitted.and_then(|()| bytes_of(buffer, |builder| builder.finish_on(queue)));
                Memory::of(made.map_err(|error| error.during("import"))?)
            }
            Order::Host | Order::Unordered => {
                pending::tick();
                let in_a_row = start == 0 && !padded && dims.is_compact();
                Memory::imported(managed, device, base, len, in_a_row.then_some(dtype))
            }
        };
        Ok(Self { memory, start, dtype, width, padded, dims, origin: origin(flags) })
    }
}

impl<F: Form> Managed<F> {
    /// The flags, of a version of which all is known.
    #[inline]
    fn flags_if_known(&self) -> Result<u64> {
        match self.version() {
            Some(version) if version.major != DLPACK_MAJOR_VERSION => {
                let message = format!(
                    "DLPack {}.{} lies in memory in a way that is not known here; ask for {DLPACK_MAJOR_VERSION}.x",
                    version.major, version.minor
                );
                Err(Error::new(ErrorKind::Unsupported, message).during("import"))
            }
            _ => Ok(self.flags()),
        }
    }
}

/// A read-only tensor may be somebody else's too, even if it was copied.
fn origin(flags: u64) -> Origin {
    if flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 {
        Origin::Shared
    } else if flags & DLPACK_FLAG_BITMASK_IS_COPIED != 0 {
        Origin::Own
    } else {
        Origin::Writable
    }
}

/// No memory has more bytes, and no array.
const LARGEST: u64 = (1 << 62) - 1;

/// What a struct says, in order.
struct Checked {
    device: DeviceId,
    base: Raw<crate::Memory>,
    /// Bytes from `base` to the first element.
    start: u64,
    /// Bytes from `base` to the end of the last one in memory.
    len: u64,
    dtype: Dtype,
    width: Width,
    padded: bool,
    dims: Dims,
}

impl Checked {
    /// # Safety
    /// As for [`Tensor::import`].
    #[inline(always)]
    unsafe fn new(raw: &DLTensor, flags: u64) -> Result<Self> {
        let device = device::device_id(raw.device)?;
        // SAFETY: promised by the caller.
        unsafe { Self::on(device, raw, flags) }.map_err(|error| error.on_device(device))
    }

    /// # Safety
    /// As for [`Tensor::import`].
    #[inline(always)]
    unsafe fn on(device: DeviceId, raw: &DLTensor, flags: u64) -> Result<Self> {
        let dtype = Dtype::from_c(raw.dtype);
        let padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0;
        let width = dtype.width(padded)?;
        // SAFETY: promised by the caller.
        let dims = unsafe { dimensions(raw) }?;
        let nowhere = Raw::NULL;
        let Some((low, high)) = dims.reach() else {
            return Ok(Self {
                device,
                base: nowhere,
                start: 0,
                len: 0,
                dtype,
                width,
                padded,
                dims,
            });
        };
        if raw.data.is_null() {
            let message = format!("`data` is null, and there are {} elements", dims.count());
            return Err(Error::new(ErrorKind::Malformed, message));
        }
        let (before, behind) = match width {
            Width::Bytes(bytes) => (
                low.unsigned_abs().checked_mul(bytes),
                (high.unsigned_abs() + 1).checked_mul(bytes),
            ),
            Width::Packed { .. } if dims.is_compact() => (Some(0), width.bytes(dims.count())),
            Width::Packed { .. } => {
                let message = format!("{dtype} is packed, and the tensor is not compact");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        let (Some(before), Some(behind)) = (before, behind) else { return Err(too_large()) };
        let (base, start) = match device::addressing(device) {
            Addressing::Handle => (raw.data, raw.byte_offset),
            Addressing::Address => {
                let low = i128::from(raw.byte_offset) - i128::from(before);
                let lowest = raw.data.addr() as i128 + low;
                let Ok(step) = isize::try_from(low) else { return Err(too_large()) };
                if lowest < 0 {
                    return Err(too_large());
                }
                (raw.data.wrapping_byte_offset(step), before)
            }
        };
        if start < before {
            let message =
                format!("an element lies {} bytes before the start of the handle", before - start);
            return Err(Error::new(ErrorKind::Malformed, message));
        }
        let len = start.checked_add(behind).filter(|len| *len <= LARGEST);
        let len = len.ok_or_else(too_large)?;
        let wraps =
            || usize::try_from(len).map_or(true, |len| base.addr().checked_add(len).is_none());
        if device::addressing(device) == Addressing::Address && wraps() {
            return Err(too_large());
        }
        Ok(Self { device, base: Raw::from_ptr(base), start, len, dtype, width, padded, dims })
    }
}

/// # Safety
/// `shape` and `strides` are null or have `ndim` entries.
#[inline(always)]
unsafe fn dimensions(raw: &DLTensor) -> Result<Dims> {
    let ndim = usize::try_from(raw.ndim).map_err(|_| {
        Error::new(ErrorKind::Malformed, format!("there are {} dimensions", raw.ndim))
    })?;
    if ndim > MAX_DIMENSIONS {
        let message = format!("{ndim} dimensions, and {MAX_DIMENSIONS} are the most");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    if ndim > 0 && raw.shape.is_null() {
        let message = format!("`shape` is null, and there are {ndim} dimensions");
        return Err(Error::new(ErrorKind::Malformed, message));
    }
    let length = |index| {
        // SAFETY: promised by the caller; null only where there is nothing to read.
        unsafe { number(raw.shape, index) }
    };
    if raw.strides.is_null() {
        // Since version 1.2 only a number may have none. Before, it meant compact; nobody means anything else by it.
        return Dims::of(
            Axes::new(ndim, |index| (length(index), 0)).compacted().ok_or_else(too_large)?,
        );
    }
    let stride = |index| {
        // SAFETY: promised by the caller.
        unsafe { number(raw.strides, index) }
    };
    Dims::of(Axes::new(ndim, |index| (length(index), stride(index))))
}

/// # Safety
/// `from` has more than `index` entries.
unsafe fn number(from: *const i64, index: usize) -> i64 {
    let entry = from.wrapping_add(index);
    // SAFETY: promised by the caller. The read needs no alignment.
    unsafe { entry.read_unaligned() }
}

#[cold]
fn too_large() -> Error {
    Error::new(ErrorKind::LimitExceeded, "the tensor is larger than any memory")
}
