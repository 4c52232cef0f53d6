//! Imports tensors from C.
//!
//! Each member of the struct is read once, checked before it is used, and never read again later:
//! shape and strides may belong to the producer's own tensor, which the producer can reshape. A
//! tensor that is refused is deleted once.
//!
//! There are two ways to one result:
//!
//! 1. Most tensors are plain ([`PlainTensor`]): numbers of 32 or 64 bits in host memory, compact,
//!    in one to four dimensions, with at least one element, and complete when they are imported. A
//!    few comparisons recognise them, and their dimensions need no sums that could overflow. The
//!    function is compiled once for each number of dimensions. The result lies in recycled memory
//!    that the thread has at hand ([`Vacancy::at_hand`]).
//! 2. All other tensors, all that are wrong, and plain ones where the thread has no such memory,
//!    take the full checks ([`Checked`]), which also find the words of an error.
//!
//! Why the first way is fast: for one dimension it calls no function, so no value has to be kept
//! across a call. Members are read one by one, because the producer wrote them just now and a wider
//! read would wait for these writes to reach the cache. The result is written directly to its final
//! place. What must stay true: a tensor that the first way accepts gets the same dimensions, width
//! and place from the second way. A test compares them.

use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::Arc;

use super::dims::{Axes, Dims, FEW, MAX_DIMENSIONS};
use super::dtype::Width;
use super::managed::{Form, Managed};
use super::memory::{TensorMemory, arrival_of, bytes_of};
use super::tensor::{Origin, TensorParts};
use super::{Dtype, Order, Tensor, device};
use crate::abi::dlpack::{
    DLDevice, DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_MAJOR_VERSION, DLPackVersion, DLTensor,
};
use crate::device::driver::{Addressing, Raw};
use crate::device::{ClaimedMemory, Moment, deferred};
use crate::pool::shared::Vacancy;
use crate::{Buffer, Device, DeviceId, DeviceType, Error, ErrorKind, Extent, Queue, Result};

impl Tensor {
    /// Takes a tensor over from the producer that made it, in either form.
    ///
    /// The deleter is called once, when the last use of the data is over, on whatever thread that
    /// is, or before this returns an error. Nothing is read through `data`, and nothing is waited
    /// for.
    ///
    /// `order` says how the data is known to be complete. [`Order::On`] names the queue that the
    /// producer was told to make wait: an event is recorded on that queue, and the tensor is ready
    /// after the event. The other two orders say that the data is complete.
    ///
    /// ```
    /// use arrow_device::abi::dlpack::DLManagedTensorVersioned;
    /// use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order, Tensor};
    /// use arrow_device::{Array, DataType};
    ///
    /// let numbers = Array::from_values(DataType::Float32, [Some(0.5_f32), Some(1.5)])?;
    /// let tensor = numbers.to_tensor(&Conversion::new())?;
    /// let managed: Managed<DLManagedTensorVersioned> =
    ///     tensor.export(Order::Host, CopyPolicy::Never)?;
    ///
    /// let again = unsafe { Tensor::import(managed.into_raw(), Order::Host) }?;
    /// assert_eq!(again.host()?.to_vec::<f32>()?, [0.5, 1.5]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`Malformed`](ErrorKind::Malformed): a negative length or number of dimensions, a null
    ///   shape, no data where there are elements, an element of no bits, a place before the start
    ///   of a handle.
    /// * [`LimitExceeded`](ErrorKind::LimitExceeded): more dimensions than 64, sizes that overflow.
    /// * [`Unsupported`](ErrorKind::Unsupported): an unknown major version, an element type that
    ///   nobody knows, elements of less than a byte that are packed and not compact, a tensor on
    ///   Metal where no device of Metal is open or the storage of the buffer is not shared.
    /// * [`NotReachable`](ErrorKind::NotReachable): the queue cannot touch the memory.
    ///
    /// # Safety
    /// `tensor` is null, or points to a tensor that a producer handed over and that nobody else
    /// will delete (UNS-23). Of a version that is known:
    ///
    /// * `shape` and `strides` are null or have `ndim` entries (UNS-24),
    /// * `data` is what the type of the device says, and every element that shape, strides and
    ///   `byte_offset` name lies in its memory, until the deleter is called (UNS-24),
    /// * nobody writes to the memory while it is flagged as read-only or copied; where it is not,
    ///   nobody does while a call here copies it (UNS-25),
    /// * `deleter` is null, or can be called once on any thread (UNS-23).
    ///
    /// The caller need not rule out what the errors name.
    pub unsafe fn import<F: Form>(tensor: *mut F, order: Order<'_>) -> Result<Self> {
        // SAFETY: UNS-23, which the caller promises.
        let managed = unsafe { Managed::from_raw(tensor) }?;
        let flags = managed.flags_if_known()?;
        if matches!(order, Order::Host | Order::Unordered) {
            // SAFETY: UNS-23, which the caller promises: a struct is there, and the version is
            // known.
            let ndim = unsafe { member(managed.tensor_at(), offset_of!(DLTensor, ndim)) };
            if let Some(few) = PlainTensor::importer(ndim) {
                // SAFETY: UNS-24 and UNS-25, which the caller promises; the function is the one for
                // so many dimensions.
                return unsafe { few(managed, flags) };
            }
            // Nothing is called here, so no value has to be kept across a call.
            if ndim == 1 {
                // SAFETY: UNS-23, which the caller promises: a struct is there, and the version is
                // known.
                let plain = unsafe { PlainTensor::of(managed.tensor_at(), flags) };
                if let Some(plain) = plain
                    // SAFETY: UNS-24, which the caller promises, and there is one dimension.
                    && let Some((length, occupied)) = unsafe { plain.one() }
                    && let Some(place) = Vacancy::at_hand()
                {
                    let axes = || Axes::One([length, 1]);
                    return Ok(plain.import(place, managed, flags, axes, occupied));
                }
            }
        }
        // SAFETY: UNS-24 and UNS-25, which the caller promises; the version is known.
        unsafe { Self::import_any(managed, flags, order) }
    }

    /// [`import`](Self::import) of a tensor whose producer works on a queue that depends on the
    /// tensor's device. For
    /// [`managed_tensor_to_py_object_no_sync`](crate::abi::dlpack::DLPackExchangeAPI) of a library
    /// that advertises a stream for each device. The [module](super) has the rules of both sides.
    ///
    /// `queue_of` gives the queue that is advertised for a device. The tensor is ready after what
    /// was submitted to that queue by now. Where there is no such queue, the data is complete. The
    /// same holds for host memory, for which `queue_of` is not called. An error of `queue_of` is
    /// returned after the tensor is deleted.
    ///
    /// # Errors
    /// As of [`import`](Self::import), and those of `queue_of`.
    ///
    /// # Safety
    /// As of [`import`](Self::import): UNS-23, UNS-24 and UNS-25.
    pub unsafe fn import_advertised<F: Form>(
        tensor: *mut F,
        queue_of: impl FnOnce(DeviceId) -> Result<Option<Queue>>,
    ) -> Result<Self> {
        // SAFETY: UNS-23, which this function asks for, too.
        let managed = unsafe { Managed::from_raw(tensor) }?;
        managed.flags_if_known()?;
        let id = device::device_id(managed.tensor().device);
        let id = id.map_err(|error| error.during("import"))?;
        let is_on_host = id.device_type == DeviceType::CPU;
        let queue = if is_on_host { None } else { queue_of(id)? };
        let order = queue.as_ref().map_or(Order::Host, Order::On);
        // SAFETY: UNS-23 to UNS-25, which this function asks for, too; nobody else has the tensor
        // from here on.
        unsafe { Self::import(managed.into_raw(), order) }
    }

    /// # Safety
    /// UNS-24 and UNS-25; the version is known.
    #[inline(never)]
    unsafe fn import_any<F: Form>(
        managed: Managed<F>,
        flags: u64,
        order: Order<'_>,
    ) -> Result<Self> {
        let raw = managed.tensor();
        // SAFETY: UNS-24, which the caller promises; the version is known.
        let checked = unsafe { Checked::new(&raw, flags, || arrival_of(&managed).moment) };
        let checked = checked.map_err(|error| error.during("import"))?;
        let Checked { device, base, start, len, dtype, width, padded, dims } = checked;
        let memory = match order {
            Order::On(queue) => {
                let extent = Extent::AtLeast(len);
                let arrival = arrival_of(&managed);
                let buffer = Buffer::from_parts(device, base, 0, extent, Some(Arc::new(managed)))
                    .that_came(arrival);
                let submitted = queue.reaches(device);
                let made =
                    submitted.and_then(|()| bytes_of(buffer, |builder| builder.finish_on(queue)));
                TensorMemory::of(made.map_err(|error| error.during("import"))?)
            }
            Order::Host | Order::Unordered => {
                deferred::tick();
                let in_a_row = start == 0 && !padded && dims.is_compact();
                TensorMemory::imported(managed, device, base, len, in_a_row.then_some(dtype))
            }
        };
        let origin = origin(flags);
        Ok(Self::of(|| TensorParts { memory, start, dtype, width, padded, dims, origin }))
    }
}

impl<F: Form> Managed<F> {
    /// The flags of a tensor whose version is known.
    #[inline]
    fn flags_if_known(&self) -> Result<u64> {
        match self.version() {
            Some(version) if version.major != DLPACK_MAJOR_VERSION => Err(unknown(version)),
            _ => Ok(self.flags()),
        }
    }
}

#[cold]
fn unknown(DLPackVersion { major, minor }: DLPackVersion) -> Error {
    let message = format!(
        "DLPack {major}.{minor} lies in memory in a way that is not known here; ask for {DLPACK_MAJOR_VERSION}.x"
    );
    Error::new(ErrorKind::Unsupported, message).during("import")
}

/// Others may have a read-only tensor too, even if it was copied.
fn origin(flags: u64) -> Origin {
    match flags & (DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED) {
        0 => Origin::Writable,
        DLPACK_FLAG_BITMASK_IS_COPIED => Origin::Own,
        _ => Origin::Shared,
    }
}

/// No memory and no array has more bytes.
const LARGEST: u64 = (1 << 62) - 1;

/// A tensor of numbers in host memory, whose places and dimensions were not looked at yet. The fast
/// way of the import takes it if it has an element and is compact.
struct PlainTensor {
    start: *mut c_void,
    byte_offset: u64,
    dtype: Dtype,
    /// The number of bytes of one number.
    bytes: u64,
    shape: *const i64,
    strides: *const i64,
}

type Importer<F> = unsafe fn(Managed<F>, u64) -> Result<Tensor>;

/// The memory of some numbers: its address, its length in bytes, and the number of numbers.
struct Occupied {
    data: *mut c_void,
    len: u64,
    count: u64,
}

impl PlainTensor {
    /// Reads the struct of a tensor of plain numbers. `None` does not say that the tensor is wrong:
    /// [`Checked`] decides that. The struct is read member by member. Its producer wrote it just
    /// now, and a read of more bytes than were written at once makes the processor wait.
    ///
    /// # Safety
    /// UNS-23, of a pointer that is not null and need not be aligned; the version is known.
    #[inline(always)]
    unsafe fn of(at: *const DLTensor, flags: u64) -> Option<Self> {
        // SAFETY: a struct is there (UNS-23), and this is the member's place and type.
        let dtype = Dtype::from_c(unsafe { member(at, offset_of!(DLTensor, dtype)) });
        let bytes = dtype.frequent_width()?;
        // SAFETY: a struct is there (UNS-23), and this is the member's place and type.
        let device: DLDevice = unsafe { member(at, offset_of!(DLTensor, device)) };
        let padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0;
        // SAFETY: a struct is there (UNS-23), and this is the member's place and type.
        let start: *mut c_void = unsafe { member(at, offset_of!(DLTensor, data)) };
        // SAFETY: a struct is there (UNS-23), and this is the member's place and type.
        let shape: *const i64 = unsafe { member(at, offset_of!(DLTensor, shape)) };
        let is_on_host = device.device_type.0 == DeviceType::CPU.0;
        if !is_on_host || padded || start.is_null() || shape.is_null() {
            return None;
        }
        // SAFETY: a struct is there (UNS-23), and this is the member's place and type.
        let strides: *const i64 = unsafe { member(at, offset_of!(DLTensor, strides)) };
        // SAFETY: a struct is there (UNS-23), and this is the member's place and type.
        let byte_offset: u64 = unsafe { member(at, offset_of!(DLTensor, byte_offset)) };
        Some(Self { start, byte_offset, dtype, bytes, shape, strides })
    }

    /// The length of the only dimension, if it is compact and has an element.
    ///
    /// # Safety
    /// UNS-24; the shape is not null, and there is one dimension.
    #[inline(always)]
    unsafe fn one(&self) -> Option<(i64, Occupied)> {
        // SAFETY: UNS-24, which the caller promises.
        let length = unsafe { number(self.shape, 0) };
        // SAFETY: UNS-24, which the caller promises.
        if !self.strides.is_null() && unsafe { number(self.strides, 0) } != 1 {
            return None;
        }
        Some((length, self.occupied(length)?))
    }

    /// The lengths and strides of several dimensions, if they are compact and have an element.
    ///
    /// # Safety
    /// UNS-24; the shape is not null, and there are so many dimensions.
    #[inline(always)]
    unsafe fn several<const N: usize>(&self) -> Option<([i64; FEW], [i64; FEW], Occupied)> {
        let (mut lengths, mut distances) = ([0; FEW], [0; FEW]);
        let mut count = 1_i64;
        let axes = lengths.iter_mut().zip(&mut distances).enumerate();
        for (index, (length, distance)) in axes.take(N).rev() {
            // SAFETY: UNS-24, which the caller promises.
            *length = unsafe { number(self.shape, index) };
            *distance = if self.strides.is_null() {
                count
            } else {
                // SAFETY: UNS-24, which the caller promises.
                unsafe { number(self.strides, index) }
            };
            if *length <= 0 || (*length != 1 && *distance != count) {
                return None;
            }
            count = count.checked_mul(*length)?;
        }
        Some((lengths, distances, self.occupied(count)?))
    }

    /// The function that imports a tensor with this number of dimensions. Without it, the workload
    /// `tensor import/four dimensions/1` takes 814 instructions in place of 250.
    fn importer<F: Form>(ndim: i32) -> Option<Importer<F>> {
        Some(match ndim {
            2 => Self::few::<F, 2>,
            3 => Self::few::<F, 3>,
            4 => Self::few::<F, 4>,
            _ => return None,
        })
    }

    /// # Safety
    /// UNS-24 and UNS-25; the version is known, and there are so many dimensions.
    #[inline(never)]
    unsafe fn few<F: Form, const N: usize>(managed: Managed<F>, flags: u64) -> Result<Tensor> {
        // SAFETY: UNS-24 and UNS-25, which the caller promises; the version is known.
        let plain = unsafe { Self::of(managed.tensor_at(), flags) };
        if let Some(plain) = plain
            // SAFETY: UNS-24 and UNS-25, which the caller promises.
            && let Some(([a, b, c, d], [e, f, g, h], occupied)) = unsafe { plain.several::<N>() }
            && let Some(place) = Vacancy::at_hand()
        {
            let axes = || Axes::Few { ndim: N as u8, shape: [a, b, c, d], strides: [e, f, g, h] };
            return Ok(plain.import(place, managed, flags, axes, occupied));
        }
        // SAFETY: UNS-24 and UNS-25, which the caller promises.
        unsafe { Tensor::import_any(managed, flags, Order::Host) }
    }

    /// The memory of so many numbers, if there is at least one and the memory is not too long.
    #[inline(always)]
    fn occupied(&self, count: i64) -> Option<Occupied> {
        // A negative count is a large number here. None of these types has more than 8 bytes.
        let count = count.cast_unsigned();
        if !(1..=LARGEST / 8).contains(&count) {
            return None;
        }
        let len = count * self.bytes;
        let step = isize::try_from(self.byte_offset).ok()?;
        let first = self.start.addr().checked_add(step.unsigned_abs())?;
        first.checked_add(usize::try_from(len).ok()?)?;
        Some(Occupied { data: self.start.wrapping_byte_offset(step), len, count })
    }

    /// The tensor, which is ready. All of its parts are written directly to their final place: a
    /// copy of parts that were written just now would wait for the writes.
    #[inline(always)]
    fn import<F: Form>(
        self,
        place: Vacancy<TensorParts>,
        managed: Managed<F>,
        flags: u64,
        axes: impl FnOnce() -> Axes,
        occupied: Occupied,
    ) -> Tensor {
        let Self { dtype, bytes, .. } = self;
        let Occupied { data, len, count } = occupied;
        let tensor = Tensor::within(place, || TensorParts {
            memory: TensorMemory::imported(
                managed,
                DeviceId::CPU,
                Raw::from_ptr(data),
                len,
                Some(dtype),
            ),
            start: 0,
            dtype,
            width: Width::Bytes(bytes),
            padded: false,
            dims: Dims::full(axes(), count),
            origin: origin(flags),
        });
        deferred::tick();
        tensor
    }
}

/// A member of a struct that need not be aligned.
///
/// # Safety
/// There is a struct, and the member with this offset is a `T`.
unsafe fn member<T: Copy>(at: *const DLTensor, offset: usize) -> T {
    let place = at.wrapping_byte_add(offset).cast::<T>();
    // SAFETY: there is a struct, and the member with this offset is a `T`, as the caller promises.
    unsafe { place.read_unaligned() }
}

/// What a struct says, after it was checked.
struct Checked {
    device: DeviceId,
    base: Raw<crate::Memory>,
    /// The number of bytes from `base` to the first element.
    start: u64,
    /// The number of bytes from `base` to the end of the element that lies last in memory.
    len: u64,
    dtype: Dtype,
    width: Width,
    padded: bool,
    dims: Dims,
}

impl Checked {
    /// # Safety
    /// UNS-24; the version is known.
    unsafe fn new(raw: &DLTensor, flags: u64, came: impl FnOnce() -> Moment) -> Result<Self> {
        let device = device::device_id(raw.device)?;
        // SAFETY: UNS-24, which the caller promises.
        unsafe { Self::on(device, raw, flags, came) }.map_err(|error| error.on_device(device))
    }

    /// # Safety
    /// UNS-24; the version is known.
    #[inline(always)]
    unsafe fn on(
        device: DeviceId,
        raw: &DLTensor,
        flags: u64,
        came: impl FnOnce() -> Moment,
    ) -> Result<Self> {
        let dtype = Dtype::from_c(raw.dtype);
        // The flag means nothing for elements that take a byte or more.
        let padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0 && dtype.bits < 8;
        let width = dtype.width(padded)?;
        // SAFETY: UNS-24, which the caller promises.
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
        let (mut device, mut data) = (device, raw.data);
        if device.device_type == DeviceType::METAL {
            // SAFETY: UNS-24, which the caller promises.
            (device, data) = unsafe { device::metal_memory(device, data) }?;
        }
        let holder = || {
            let claimed = ClaimedMemory { memory: Raw::from_ptr(data), came: came() };
            // SAFETY: UNS-24, which the caller promises: the tensor is alive and names memory of
            // this device as a `buffers[i]` of an array does.
            unsafe { Device::find_holding(device, claimed) }
        };
        let addressing = Device::addressing_of(device, holder);
        let (base, start) = match addressing {
            Addressing::Handle => (data, raw.byte_offset),
            Addressing::Address => {
                let low = i128::from(raw.byte_offset) - i128::from(before);
                let lowest = data.addr() as i128 + low;
                let Ok(step) = isize::try_from(low) else { return Err(too_large()) };
                if lowest < 0 {
                    return Err(too_large());
                }
                (data.wrapping_byte_offset(step), before)
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
        if addressing == Addressing::Address && wraps() {
            return Err(too_large());
        }
        Ok(Self { device, base: Raw::from_ptr(base), start, len, dtype, width, padded, dims })
    }
}

/// # Safety
/// `shape` and `strides` are null or have `ndim` entries.
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
        // SAFETY: `shape` and `strides` are null or have `ndim` entries, as the caller promises;
        // null only where there is nothing to read.
        unsafe { number(raw.shape, index) }
    };
    if raw.strides.is_null() {
        // Since version 1.2 only a tensor without dimensions may have null strides. Before, null
        // strides meant a compact tensor, and no library means anything else by them.
        return Dims::of(
            Axes::new(ndim, |index| (length(index), 0)).compacted().ok_or_else(too_large)?,
        );
    }
    let stride = |index| {
        // SAFETY: `shape` and `strides` are null or have `ndim` entries, as the caller promises.
        unsafe { number(raw.strides, index) }
    };
    Dims::of(Axes::new(ndim, |index| (length(index), stride(index))))
}

/// # Safety
/// `from` has more than `index` entries.
unsafe fn number(from: *const i64, index: usize) -> i64 {
    let entry = from.wrapping_add(index);
    // SAFETY: `from` has more than `index` entries, as the caller promises. The read needs no
    // alignment.
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
                            let stride = stride.unwrap_or(0);
                            let deep = [length, 1, length, 3];
                            let row = stride.wrapping_mul(3);
                            let apart = [row.wrapping_mul(length), 77, row, 1];
                            for first in [0, 2] {
                                let deep = DLTensor {
                                    ndim: 4 - first as i32,
                                    shape: deep.as_ptr().wrapping_add(first).cast_mut(),
                                    ..tensor
                                };
                                let apart = apart.as_ptr().wrapping_add(first).cast_mut();
                                let is_told = !tensor.strides.is_null();
                                let strides = if is_told { apart } else { tensor.strides };
                                each(&DLTensor { strides, ..deep }, 0);
                            }
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

    fn several(
        known: Option<([i64; FEW], [i64; FEW], Occupied)>,
        ndim: u8,
    ) -> Option<(Axes, Occupied)> {
        let (shape, strides, place) = known?;
        Some((Axes::Few { ndim, shape, strides }, place))
    }

    #[test]
    fn what_is_plain_is_what_any_tensor_would_be() {
        let mut found = 0;
        structs(&mut |tensor, flags| {
            // SAFETY: shape and strides are null or have `ndim` entries.
            let Some(plain) = (unsafe { PlainTensor::of(tensor, flags) }) else { return };
            let known = match tensor.ndim {
                // SAFETY: shape and strides are null or have `ndim` entries, which is one.
                1 => unsafe { plain.one() }.map(|(length, at)| (Axes::One([length, 1]), at)),
                // SAFETY: shape and strides are null or have `ndim` entries, which is two.
                2 => several(unsafe { plain.several::<2>() }, 2),
                // SAFETY: shape and strides are null or have `ndim` entries, which is three.
                3 => several(unsafe { plain.several::<3>() }, 3),
                // SAFETY: shape and strides are null or have `ndim` entries, which is four.
                4 => several(unsafe { plain.several::<4>() }, 4),
                _ => None,
            };
            let Some((axes, Occupied { data, len, count })) = known else { return };
            // SAFETY: shape and strides are null or have `ndim` entries.
            let any = unsafe { Checked::new(tensor, flags, Moment::now) }.unwrap();
            assert_eq!((any.device, any.start, any.padded), (DeviceId::CPU, 0, false));
            assert_eq!((any.base, any.len), (Raw::from_ptr(data), len));
            assert_eq!((any.dtype, any.width), (plain.dtype, Width::Bytes(plain.bytes)));
            assert!(any.dims.is_compact());
            assert_eq!(any.dims.reach(), Some((0, count as i64 - 1)));
            assert_eq!(any.dims, Dims::full(axes, count));
            found += 1;
        });
        // So that this compares something: of lengths, strides, places and offsets there are some
        // that are usual.
        assert!(found > 50, "{found}");
    }

    #[test]
    fn what_is_usual_is_plain() {
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
            let plain = unsafe { PlainTensor::of(&tensor, 0) }.unwrap();
            // SAFETY: shape and strides have an entry, and there is one dimension.
            let (_, place) = unsafe { plain.one() }.unwrap();
            assert_eq!((place.data.addr(), place.len), (80, 3 * u64::from(bits) / 8));
        }
    }
}
