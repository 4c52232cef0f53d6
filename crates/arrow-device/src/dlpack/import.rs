//! Taking a tensor over from C.
//!
//! What a struct says is read once and checked before any of it is used. Whatever is refused is deleted, once.

use std::ffi::c_void;
use std::sync::Arc;

use super::dims::{Axes, Dims, MAX_DIMENSIONS};
use super::dtype::Width;
use super::managed::{Form, Managed};
use super::memory::{Memory, bytes_of};
use super::tensor::{Origin, Parts};
use super::{Dtype, Order, Tensor, device};
use crate::abi::dlpack::{
    DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_MAJOR_VERSION, DLTensor,
};
use crate::device::driver::{Addressing, Raw};
use crate::{Buffer, DeviceId, DeviceType, Error, ErrorKind, Extent, Result, pending};

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
        let raw = managed.tensor();
        // SAFETY: promised by the caller.
        let row = unsafe { Row::of(&raw, flags) };
        match (row, order) {
            (Some(row), Order::Host | Order::Unordered) => Ok(row.import(managed, flags)),
            // SAFETY: promised by the caller.
            _ => unsafe { Self::import_any(managed, &raw, flags, order) },
        }
    }

    /// # Safety
    /// As for [`import`](Self::import).
    #[inline(never)]
    unsafe fn import_any<F: Form>(
        managed: Managed<F>,
        raw: &DLTensor,
        flags: u64,
        order: Order<'_>,
    ) -> Result<Self> {
        // SAFETY: promised by the caller.
        let checked =
            unsafe { Checked::new(raw, flags) }.map_err(|error| error.during("import"))?;
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
        let origin = origin(flags);
        Ok(Self::of(|| Parts { memory, start, dtype, width, padded, dims, origin }))
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

/// Numbers in one dimension, one behind the other in host memory, which is what most tensors are.
struct Row {
    data: *mut c_void,
    dtype: Dtype,
    /// Bytes of one number, and of all.
    bytes: u64,
    len: u64,
    /// How many numbers, of which there is one at least.
    length: i64,
    count: u64,
}

impl Row {
    /// What the struct says, if it is that. `None` says nothing: what is found here is what [`Checked`] finds.
    ///
    /// # Safety
    /// As for [`Tensor::import`].
    #[inline(always)]
    unsafe fn of(raw: &DLTensor, flags: u64) -> Option<Self> {
        let dtype = Dtype::from_c(raw.dtype);
        let bytes = dtype.frequent_width()?;
        let is_on_host = raw.device.device_type.0 == DeviceType::CPU.0;
        let padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0;
        if !is_on_host || padded || raw.ndim != 1 || raw.shape.is_null() || raw.data.is_null() {
            return None;
        }
        // SAFETY: promised by the caller: there is one entry.
        let length = unsafe { number(raw.shape, 0) };
        let is_compact = raw.strides.is_null() || {
            // SAFETY: promised by the caller: there is one entry.
            let stride = unsafe { number(raw.strides, 0) };
            stride == 1
        };
        let count = u64::try_from(length).ok().filter(|count| *count > 0 && is_compact)?;
        let len = count.checked_mul(bytes).filter(|len| *len <= LARGEST)?;
        let step = isize::try_from(raw.byte_offset).ok()?;
        let first = raw.data.addr().checked_add(step.unsigned_abs())?;
        first.checked_add(usize::try_from(len).ok()?)?;
        let data = raw.data.wrapping_byte_offset(step);
        Some(Self { data, dtype, bytes, len, length, count })
    }

    /// The tensor, which is ready.
    #[inline(always)]
    fn import<F: Form>(self, managed: Managed<F>, flags: u64) -> Tensor {
        let Self { data, dtype, bytes, len, length, count } = self;
        pending::tick();
        Tensor::of(|| Parts {
            memory: Memory::imported(managed, DeviceId::CPU, Raw::from_ptr(data), len, Some(dtype)),
            start: 0,
            dtype,
            width: Width::Bytes(bytes),
            padded: false,
            dims: Dims::row(length, count),
            origin: origin(flags),
        })
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::dlpack::{DLDataType, DLDevice, DLDeviceType};

    /// Every combination of what is usual and what is at an edge.
    fn structs(each: &mut dyn FnMut(&DLTensor, u64)) {
        const NUMBERS: [i64; 9] = [0, 1, 2, 3, -1, 1 << 59, (1 << 59) - 1, i64::MAX, i64::MIN];
        let types =
            [(0, 64, 1), (1, 32, 1), (2, 64, 1), (2, 32, 2), (5, 64, 1), (0, 8, 1), (4, 64, 1)];
        let places = [0, 64, usize::MAX - 100, usize::MAX / 2];
        for (code, bits, lanes) in types {
            for length in NUMBERS {
                for stride in [None, Some(1), Some(0), Some(-1), Some(i64::MIN)] {
                    for place in places {
                        for byte_offset in [0, 8, 1 << 63, u64::MAX, isize::MAX as u64 + 1] {
                            let (shape, strides) = ([length; 1], [stride.unwrap_or(0); 1]);
                            let tensor = DLTensor {
                                data: std::ptr::without_provenance_mut(place),
                                device: DLDevice { device_type: DLDeviceType(1), device_id: 0 },
                                ndim: 1,
                                dtype: DLDataType { code, bits, lanes },
                                shape: shape.as_ptr().cast_mut(),
                                strides: stride
                                    .map_or(std::ptr::null_mut(), |_| strides.as_ptr().cast_mut()),
                                byte_offset,
                            };
                            [0, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED]
                                .iter()
                                .for_each(|flags| each(&tensor, *flags));
                            each(&DLTensor { ndim: 0, ..tensor }, 0);
                            each(&DLTensor { shape: std::ptr::null_mut(), ..tensor }, 0);
                            let elsewhere = DLDevice { device_type: DLDeviceType(2), device_id: 0 };
                            each(&DLTensor { device: elsewhere, ..tensor }, 0);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_is_what_any_tensor_would_be() {
        let mut found = 0;
        structs(&mut |tensor, flags| {
            // SAFETY: shape and strides are null or have an entry.
            let Some(row) = (unsafe { Row::of(tensor, flags) }) else { return };
            // SAFETY: as above.
            let any = unsafe { Checked::new(tensor, flags) }.unwrap();
            assert_eq!((any.device, any.start, any.padded), (DeviceId::CPU, 0, false));
            assert_eq!((any.base, any.len), (Raw::from_ptr(row.data), row.len));
            assert_eq!((any.dtype, any.width), (row.dtype, Width::Bytes(row.bytes)));
            assert_eq!(any.dims, Dims::row(row.length, row.count));
            assert_eq!(any.dims.reach(), Some((0, row.length - 1)));
            found += 1;
        });
        // So that this compares something: of lengths, strides, places and offsets there are some that are usual.
        assert!(found > 50, "{found}");
    }

    #[test]
    fn what_is_usual_is_a_row() {
        let (shape, strides) = ([3_i64], [1_i64]);
        for (code, bits, lanes) in [(0, 64, 1), (0, 32, 1), (1, 64, 1), (2, 32, 1), (2, 64, 1)] {
            let tensor = DLTensor {
                data: std::ptr::without_provenance_mut(64),
                device: DLDevice { device_type: DLDeviceType(1), device_id: 3 },
                ndim: 1,
                dtype: DLDataType { code, bits, lanes },
                shape: shape.as_ptr().cast_mut(),
                strides: strides.as_ptr().cast_mut(),
                byte_offset: 16,
            };
            // SAFETY: shape and strides have an entry.
            let row = unsafe { Row::of(&tensor, 0) }.unwrap();
            assert_eq!((row.data.addr(), row.len), (80, 3 * u64::from(bits) / 8));
        }
    }
}
