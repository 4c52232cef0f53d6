//! [`Buffer`]: shared, immutable bytes on a device.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::driver::{Addressing, PlaceOwner, Raw, Watched};
use super::{Arrival, ClaimedMemory, Device, Memory, Moment, NumberedList, Owner, Queue, host};
use crate::device::deferred::{self, QueueUse};
use crate::process::{self, MadeIn};
use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

/// Anything that keeps bytes valid as long as it lives.
pub trait KeepAlive: Any + Send + Sync {}

impl<T: Any + Send + Sync + ?Sized> KeepAlive for T {}

/// A share of the value that keeps bytes valid.
pub(crate) type BytesOwner = Arc<dyn KeepAlive>;

/// Owners of bytes that a queue may still write. When the bytes are not needed any more, the owners
/// are kept until the queue has passed what was submitted by then.
struct OwnersOnQueue {
    owners: Box<[BytesOwner]>,
    queue: Queue,
    frees_host_memory: bool,
}

impl Drop for OwnersOnQueue {
    fn drop(&mut self) {
        let owners = std::mem::take(&mut self.owners);
        deferred::defer(owners, vec![QueueUse::until_now(&self.queue)], self.frees_host_memory);
    }
}

/// One owner in place of several, for bytes on this device. It keeps them until the queue has
/// passed what was submitted before it is dropped.
fn owner_on_queue(device: DeviceId, owners: Box<[BytesOwner]>, queue: &Queue) -> BytesOwner {
    let frees_host_memory = device.device_type == DeviceType::CPU;
    Arc::new(OwnersOnQueue { owners, queue: queue.clone(), frees_host_memory })
}

/// How long a buffer is, as far as that is known without asking a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The buffer has exactly this many bytes.
    Exact(u64),
    /// The buffer has at least this many bytes, which the array's type and length need. The C
    /// interface does not say more.
    AtLeast(u64),
    /// The length is not known: it follows from the last offset, which only the device has.
    Unknown,
}

impl Extent {
    /// The number of bytes that are certainly there.
    pub fn at_least(self) -> u64 {
        match self {
            Self::Exact(len) | Self::AtLeast(len) => len,
            Self::Unknown => 0,
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, len) = match self {
            Self::Exact(len) => ("", len),
            Self::AtLeast(len) => ("at least ", len),
            Self::Unknown => return f.write_str("length not known yet"),
        };
        write!(f, "{prefix}{len} byte{}", if *len == 1 { "" } else { "s" })
    }
}

/// Immutable bytes on a device, and a share of whatever owns them.
///
/// Cloning increments a reference count. To learn where the bytes are, name the queue that will use
/// them ([`on`](Buffer::on)).
///
/// ```
/// use arrow_device::{Buffer, DeviceId, Extent};
///
/// let buffer = Buffer::from(vec![1.5_f64, 2.5]);
/// assert_eq!((buffer.device(), buffer.extent()), (DeviceId::CPU, Extent::Exact(16)));
/// ```
#[derive(Clone)]
pub struct Buffer {
    device: DeviceId,
    base: Raw<Memory>,
    offset: u64,
    extent: Extent,
    owner: Option<BytesOwner>,
    /// What else is known from the memory that became this buffer. Usually `None`.
    about: Option<Arc<AboutBuffer>>,
}

/// What memory tells of the buffer that it becomes.
#[derive(Clone, Default)]
struct AboutBuffer {
    /// Queues that may still write the bytes.
    in_flight: NumberedList<Queue>,
    /// `None` for memory of the host, which every process may use, but where a parent may still
    /// write it.
    arrival: Option<Arrival>,
    /// The device whose driver makes a handle when this buffer is a part of an allocation. Also set
    /// where the driver cannot make such handles.
    divides: Option<Device>,
}

/// A handle for a part of an allocation, and a share of the allocation.
struct OwnedPart {
    device: Device,
    handle: Raw<Memory>,
    _whole: Option<BytesOwner>,
}

impl Drop for OwnedPart {
    fn drop(&mut self) {
        // SAFETY: `Buffer::name_part` got the handle from this driver and gave it to this owner
        // alone. Owners of bytes go when nothing that was submitted uses the bytes, and the
        // allocation goes after this.
        unsafe { self.device.driver().free_part(self.handle) }
    }
}

impl Buffer {
    /// The null buffer, which an array without nulls has in place of its validity bitmap.
    pub fn null(device: DeviceId) -> Self {
        Self::from_parts(device, Raw::NULL, 0, Extent::Exact(0), None)
    }

    /// Bytes that somebody else allocated.
    ///
    /// `base` is what the convention of the device's type says: an address, or a handle such as a
    /// `cl_mem`. `owner` is dropped when nothing here refers to the bytes any more, possibly on
    /// another thread.
    ///
    /// # Safety
    /// `base` names at least `len` bytes that lie on this device, stay valid until `owner` is
    /// dropped, and are not written to after the event of the array that they become part of
    /// (UNS-17).
    pub unsafe fn foreign(
        device: DeviceId,
        base: *const c_void,
        len: u64,
        owner: impl Send + Sync + 'static,
    ) -> Self {
        Self::from_parts(
            device,
            Raw::from_ptr(base.cast_mut()),
            0,
            Extent::Exact(len),
            Some(Arc::new(Owner::on(device, owner))),
        )
    }

    pub(crate) fn from_parts(
        device: DeviceId,
        base: Raw<Memory>,
        offset: u64,
        extent: Extent,
        owner: Option<BytesOwner>,
    ) -> Self {
        let is_on_device = device.device_type != DeviceType::CPU && !base.is_null();
        let about = is_on_device.then(|| {
            Arc::new(AboutBuffer { arrival: Some(Arrival::now()), ..AboutBuffer::default() })
        });
        Self { device, base, offset, extent, owner, about }
    }

    /// This buffer, whose memory came earlier, perhaps into another process.
    pub(crate) fn that_came(mut self, arrival: Arrival) -> Self {
        if let Some(about) = &mut self.about {
            Arc::make_mut(about).arrival = Some(arrival);
        }
        self
    }

    /// This buffer, which a process that this one is a child of may still write, if one is named.
    pub(super) fn filled_by_a_parent(mut self, parent: Option<MadeIn>) -> Self {
        if let Some(process) = parent {
            let about = Arc::make_mut(self.about.get_or_insert_default());
            about.arrival = Some(Arrival { process, moment: Moment::now() });
        }
        self
    }

    /// An error in a child of `fork` for memory on a device of its parent, and for memory that the
    /// parent may still write.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.arrival().is_none_or(|arrival| arrival.process.is_this()) {
            return Ok(());
        }
        Err(process::of_the_parent().on_device(self.device))
    }

    fn arrival(&self) -> Option<Arrival> {
        self.about.as_ref()?.arrival
    }

    /// This buffer, whose parts get their handles from this device if it can make them.
    pub(super) fn divided_by(mut self, device: Option<Device>) -> Self {
        if device.is_some() {
            Arc::make_mut(self.about.get_or_insert_default()).divides = device;
        }
        self
    }

    fn divides(&self) -> Option<&Device> {
        self.about.as_ref()?.divides.as_ref()
    }

    /// Declares that work on this queue may still write the bytes. Whoever uses the buffer, or an
    /// array of the buffer, waits for what has been submitted to the queue by then.
    ///
    /// Call this for memory of [`foreign`](Self::foreign) that is still being filled; a [`Memory`]
    /// knows its queues itself. When the buffer is not needed any more, its owner is kept until the
    /// queue has passed what was submitted by then.
    pub fn written_on(mut self, queue: &Queue) -> Self {
        // Work on the host's queue is over when the call returns. A queue that is known already
        // keeps the bytes already.
        let is_known = self.about.as_ref().is_some_and(|about| about.in_flight.has(queue.number()));
        if is_known || host::is_host(queue.device()) {
            return self;
        }
        let owner = self.owner.take();
        self.owner = owner.map(|owner| owner_on_queue(self.device, Box::new([owner]), queue));
        Arc::make_mut(self.about.get_or_insert_default()).in_flight.add(queue.clone());
        self
    }

    /// This buffer, which is complete after what was submitted to these queues by now.
    pub(super) fn in_flight_on(mut self, queues: NumberedList<Queue>) -> Self {
        if !queues.as_slice().is_empty() {
            Arc::make_mut(self.about.get_or_insert_default()).in_flight = queues;
        }
        self
    }

    /// The queues that may still write the bytes.
    pub(crate) fn in_flight(&self) -> &[Queue] {
        self.about.as_ref().map_or(&[], |about| about.in_flight.as_slice())
    }

    /// The device the bytes lie on.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// How many bytes there are.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether this is the null buffer.
    pub fn is_null(&self) -> bool {
        self.base.is_null()
    }

    /// A part of the buffer: `len` bytes from `offset` on. An error where the part is not inside
    /// the buffer.
    ///
    /// On a device whose memory is named by handles, a part becomes a buffer of an array only under
    /// three conditions: the memory is the driver's own ([`Device::allocate`]), the driver gives
    /// [handles for parts], and the part begins at a multiple of the device's alignment. The reason
    /// is that the C structs have no place for an offset into a handle. Slice the array instead
    /// where a condition does not hold.
    ///
    /// [handles for parts]: crate::driver::Properties::parts
    pub fn slice(&self, offset: u64, len: u64) -> Result<Self> {
        self.check_part(offset, len)?;
        // No overflow: both numbers lie inside one allocation.
        let offset = self.offset + offset;
        Ok(Self { offset, extent: Extent::Exact(len), ..self.clone() })
    }

    fn check_part(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= self.extent.at_least());
        if end.is_none() {
            let message =
                format!("bytes {offset}+{len} are not inside a buffer of {}", self.extent);
            return Err(Error::new(ErrorKind::InvalidArgument, message).on_device(self.device));
        }
        Ok(())
    }

    /// Tells where the bytes are, for work on this queue. The bytes stay allocated until the queue
    /// has passed everything that is submitted before the result is dropped.
    ///
    /// The queue waits for what was submitted to the queues that filled a [`Memory`]. A buffer of
    /// other memory has no event: order the queue behind the work that writes the buffer first. (An
    /// [`Array`](crate::Array) has an event and needs no such care.)
    pub fn on(&self, queue: &Queue) -> Result<BufferView> {
        self.check_process()?;
        let memory = || (!self.is_null()).then_some(self.claimed());
        // SAFETY: this buffer keeps the memory, and its maker promised that it is on this device.
        unsafe { queue.reaches_memory(self.device, memory) }?;
        let others = self.in_flight().iter().filter(|known| known.number() != queue.number());
        others.into_iter().try_for_each(|known| queue.wait(&known.record()?))?;
        let view = BufferView { buffer: self.clone(), queue: queue.clone() };
        view.tell(Watched::Told);
        Ok(view)
    }

    /// The buffer's memory, and the device that it is said to be on.
    pub(crate) fn claimed(&self) -> ClaimedMemory {
        let came = self.arrival().map_or_else(Moment::now, |arrival| arrival.moment);
        ClaimedMemory { memory: self.base, came }
    }

    /// Has the driver make a handle for this part of an allocation, where a C struct needs one and
    /// the driver can.
    pub(crate) fn name_part(&mut self) -> Result<()> {
        let (offset, len) = (self.offset, self.extent.at_least());
        let Some(device) = self.divides().filter(|_| offset > 0 && len > 0) else {
            return Ok(());
        };
        if device.properties().separate {
            let message =
                "buffers of this device begin where their allocations do; slice the array instead";
            return Err(Error::new(ErrorKind::Unsupported, message).on_device(self.device));
        }
        let alignment = device.properties().alignment as u64;
        if !offset.is_multiple_of(alignment) {
            let message = format!(
                "a part of a handle begins at a multiple of {alignment} bytes, and not at {offset}; slice the array instead"
            );
            return Err(Error::new(ErrorKind::Unsupported, message).on_device(self.device));
        }
        let len = device.properties().whole(len);
        // SAFETY: UNS-22: this driver allocated the memory, which the owner keeps; the part lies
        // inside, because `slice` looked and an allocation has whole units (DRV-9), and begins at a
        // multiple of the alignment.
        let handle = unsafe { device.driver().part(self.base, offset, len) }?;
        let (device, whole) = (device.clone(), self.owner.take());
        self.owner = Some(Arc::new(OwnedPart { device, handle, _whole: whole }));
        (self.base, self.offset) = (handle, 0);
        Ok(())
    }

    /// The value for `buffers[i]` of a C struct.
    pub(crate) fn c_pointer(&self) -> Result<*const c_void> {
        let is_whole = self.offset == 0 || self.base.is_null();
        // A buffer without bytes needs no exact place.
        if is_whole || (self.divides().is_some() && self.extent == Extent::Exact(0)) {
            return Ok(self.base.as_ptr().cast_const());
        }
        let holder = || {
            // SAFETY: this buffer keeps the memory, and its maker promised that it is on this
            // device.
            unsafe { Device::find_holding(self.device, self.claimed()) }
        };
        if Device::addressing_of(self.device, holder) == Addressing::Handle {
            let message =
                "a part of a buffer that is a handle cannot be exported; slice the array instead";
            return Err(Error::new(ErrorKind::Unsupported, message).on_device(self.device));
        }
        Ok(location(self.base, self.offset).address())
    }

    /// The owner of the bytes.
    pub(crate) fn owner(&self) -> Option<&BytesOwner> {
        self.owner.as_ref()
    }

    /// A part of this buffer, for a C struct.
    #[inline]
    pub(crate) fn part(&self, place: Range<u64>) -> Result<Part> {
        let (offset, len) = (place.start, place.end.saturating_sub(place.start));
        if self.device.device_type == DeviceType::CPU && self.divides().is_none() {
            self.check_part(offset, len)?;
            // No overflow: both numbers lie inside one allocation.
            let pointer = location(self.base, self.offset + offset).address();
            return Ok(Part { pointer, len, owner: None });
        }
        let mut part = self.slice(offset, len)?;
        part.name_part()?;
        let pointer = part.c_pointer()?;
        let owner = part.divides().is_some().then_some(part.owner).flatten();
        Ok(Part { pointer, len, owner })
    }

    pub(crate) fn into_owner(self) -> Option<BytesOwner> {
        self.owner
    }
}

/// A part of a buffer, as a C struct names it.
pub(crate) struct Part {
    /// The value for `buffers[i]`.
    pub(crate) pointer: *const c_void,
    pub(crate) len: u64,
    /// What keeps the handle, where the driver made one for the part.
    pub(crate) owner: Option<BytesOwner>,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} on {})", self.extent, self.device)
    }
}

/// Values that consist of bytes only, and for which every pattern of bytes is valid.
///
/// # Safety
/// The type has no padding, no pointer and no invalid bit pattern (UNS-27).
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: the Rust reference on numeric types: integers and floats have no padding and no
        // invalid bit pattern.
        unsafe impl Plain for $type {}
    )*};
}
plain!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, f32, f64);

impl<T: Plain> From<Vec<T>> for Buffer {
    /// Makes a buffer of host memory without a copy.
    fn from(values: Vec<T>) -> Self {
        let len = std::mem::size_of_val(values.as_slice()) as u64;
        if len == 0 {
            return Self::null(DeviceId::CPU);
        }
        let base = Raw::from_ptr(values.as_ptr().cast_mut().cast());
        Self::from_parts(DeviceId::CPU, base, 0, Extent::Exact(len), Some(Arc::new(values)))
    }
}

/// A buffer, for work on one queue. Dropping the view declares that all such work has been
/// submitted.
pub struct BufferView {
    buffer: Buffer,
    queue: Queue,
}

impl BufferView {
    /// Where the bytes are.
    pub fn location(&self) -> Location<'_> {
        location(self.buffer.base, self.buffer.offset)
    }

    /// How many bytes there are.
    pub fn extent(&self) -> Extent {
        self.buffer.extent
    }

    /// The queue that was named.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    fn tell(&self, what: fn(Raw<Queue>, PlaceOwner) -> Watched) {
        let Buffer { offset, extent, .. } = self.buffer;
        if self.queue.is_watched() && !self.buffer.is_null() {
            let first = location(self.buffer.base, offset).address().cast_mut();
            self.queue.tell(what, PlaceOwner::OfView, Raw::from_ptr(first), extent.at_least());
        }
    }
}

impl Drop for BufferView {
    fn drop(&mut self) {
        self.tell(Watched::Withdrawn);
        if let Some(owner) = self.buffer.owner.take() {
            self.queue.keep_until_done(owner);
        }
    }
}

impl fmt::Debug for BufferView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferView({:?} for {:?})", self.buffer, self.queue)
    }
}

/// Where bytes are on a device. A location is only told by a view, which names the queue that may
/// use it.
///
/// Work on the bytes is `unsafe`, whoever submits it. The work has to stay inside the bytes, has to
/// be submitted to that queue before the view is dropped (UNS-15 of `docs/safety.md`), and may only
/// read (UNS-16).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Location<'view> {
    base: Raw<Memory>,
    offset: u64,
    view: PhantomData<&'view ()>,
}

pub(crate) fn location<'view>(base: Raw<Memory>, offset: u64) -> Location<'view> {
    Location { base, offset, view: PhantomData }
}

impl Location<'_> {
    /// The address, on a device whose memory is named by addresses. On a device with handles the
    /// result is only right at offset 0: see [`handle`](Location::handle).
    pub fn address(self) -> *const c_void {
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        self.base.as_ptr().cast_const().wrapping_byte_add(offset)
    }

    /// The handle, on a device whose memory is named by handles, and the offset into it in bytes.
    pub fn handle(self) -> (*mut c_void, u64) {
        (self.base.as_ptr(), self.offset)
    }

    /// Whether this is the place of the null buffer.
    pub fn is_null(self) -> bool {
        self.base.is_null()
    }

    /// The location as one side of a copy.
    pub fn spot(self) -> super::driver::Spot {
        super::driver::Spot { base: self.base, offset: self.offset }
    }
}

impl fmt::Debug for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}+{}", self.base, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: SAF-25
    #[test]
    fn a_buffer_that_many_queues_write_is_not_told_all_of_them_again_for_each() {
        const MANY: usize = if cfg!(miri) { 100 } else { 5000 };
        let device = host::another();
        let mut buffer = Buffer::from(vec![0_u8; 8]);
        let (mut moves, mut place) = (0, std::ptr::null());
        for count in 1..=MANY {
            buffer = buffer.written_on(&device.open_queue().unwrap());
            let list = buffer.in_flight();
            assert_eq!(list.len(), count);
            moves += usize::from(list.as_ptr() != place);
            place = list.as_ptr();
        }
        assert!(moves < 20, "a list of {MANY} queues was made {moves} times");
    }
}
