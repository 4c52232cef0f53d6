//! The crate `wgpu` for [`arrow_device`]: Arrow data in `wgpu::Buffer`s, on the device and the
//! queue of an application.
//!
//! The application gives its `wgpu::Device` and its `wgpu::Queue` to [`open_from`]. The columns
//! that are copied to the result lie in buffers of that device, and the application's shaders bind
//! them ([`bound`]). A buffer that the application has filled becomes a column where it is
//! ([`adopt`]).
//!
//! ```
//! # fn application() -> Option<(wgpu::Device, wgpu::Queue)> { None }
//! use arrow_device::types::Int32;
//! use arrow_device::Array;
//!
//! let Some((wgpu_device, wgpu_queue)) = application() else { return Ok(()) };
//! let device = arrow_device_wgpu::open_from(&wgpu_device, &wgpu_queue)?;
//! let queue = device.open_queue()?;
//! let there = Array::of::<Int32>([Some(1), None, Some(3)])?.copy_to(&queue)?;
//! let view = there.on(&queue)?;
//! let place = view.buffer(1).location().spot();
//! // SAFETY: the shader only reads, and its work is submitted before the view is dropped.
//! let values = unsafe { arrow_device_wgpu::bound(&device, place, 12) }?;
//! let entry = wgpu::BindGroupEntry { binding: 0, resource: values.binding()? };
//! // A bind group of this entry, a compute pass, `wgpu_queue.submit(...)`; then:
//! drop(view);
//! # drop(entry);
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! `arrow-device-webgpu` is for those who have the handles of `webgpu.h`, of wgpu-native or of
//! Dawn. Nothing of wgpu is switched on here but `std`: an application names the backends that it
//! wants among the features of `wgpu` (on Linux `vulkan`, and `wgsl` for shaders).
//!
//! # What both sides agree on
//!
//! | member of `ArrowDeviceArray` | what it is |
//! |---|---|
//! | `device_type` | `ARROW_DEVICE_WEBGPU`, 15 |
//! | `buffers[i]` | a number that this crate gives out for a part of a `wgpu::Buffer`; [`bound`] gives the part |
//! | `device_id` | a number that counts openings in this process, with the letters `wgpu` in front of it |
//! | `sync_event` | null: the data is ready in the order of the device's one queue |
//!
//! A `wgpu::Device` is a value of Rust that only this process has, and no handle of `webgpu.h`. So
//! the numbers mean something only to whoever calls this crate in this process: a consumer finds
//! the device by its number ([`device_of`]), and refuses what it does not find. wgpu tells devices
//! apart within one instance and not among several, so its own comparison is used for nothing here:
//! each call of [`open_from`] opens a device of its own, also for a `wgpu::Device` that was opened
//! before. Share the [`Device`] that the first call gave.
//!
//! # Sizes
//!
//! wgpu copies units of four bytes, at multiples of four. [`arrow_device`] does all other copies,
//! by way of the host ([`Properties::copy_unit`](arrow_device::driver::Properties::copy_unit)).
//! Buffers that are allocated here have whole units and the usages `STORAGE`, `COPY_SRC` and
//! `COPY_DST`. The columns of a batch that is copied to the device lie in one buffer, at offsets
//! that can be bound. A shader binds at most [`Limits::max_binding`] bytes of a buffer at once.
//!
//! wgpu refuses a dispatch that binds one buffer for reading and for writing, whatever the offsets.
//! So results go to memory of their own ([`Queue::allocate`](arrow_device::Queue::allocate)).
//!
//! # Waiting, callbacks and errors
//!
//! wgpu tells by callbacks what is done, and needs to be polled for that. This crate polls
//! (`Device::poll`) when [`arrow_device`] asks about the queue or waits for it. A poll, and a
//! submission, also run callbacks of the application, which may call [`arrow_device`].
//!
//! All calls stand in error scopes, so that an error is a value here, and neither reaches the
//! handler of the application nor panics. An error of a call that a callback of the application
//! makes during a submission of this crate is caught by these scopes, too.
//!
//! # In a browser
//!
//! The crate compiles for `wasm32-unknown-unknown`, as `cargo xtask platforms rest` checks. Nothing
//! may wait there: a wait for work under way is an [`ErrorKind::NotReady`], so copies to the host
//! are polled ([`Array::fetch`](arrow_device::Array::fetch)). Scopes answer later there, and
//! what was refused is told as work that failed. A module with threads (`atomics`) is refused by
//! the compiler, because wgpu's types belong to one thread then. The tests of this crate run on
//! native Vulkan, and the crate has not been run in a browser. A page whose program is JavaScript
//! uses the package for npm, which is tested in one.
//!
//! # A device that is lost
//!
//! wgpu tells of the loss by one callback, `Device::set_device_lost_callback`, and accepts calls in
//! silence afterwards. An application that sets this callback shares a flag with it
//! ([`Opening::with_loss`]). Without the flag this crate makes a small buffer now and then (when it
//! allocates, and when an event has passed), which shows nothing on a lost device. A lost device
//! stays lost: all that follows is an [`ErrorKind::DeviceLost`], and what was kept for the queue is
//! released.

mod driver;
mod error;
mod logical;
mod reads;
mod table;
mod uploads;

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_device::driver::{Raw, Spot};
use arrow_device::{Buffer, Device, DeviceId, DeviceType, Error, ErrorKind, Memory, Result};

use driver::{UNIT, WgpuDriver};
use logical::Logical;
use table::Entry;

/// How large buffers may be, and where a shader may bind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many bytes a buffer has at most.
    pub max_buffer: u64,
    /// How many bytes of a buffer a shader can bind at once.
    pub max_binding: u64,
    /// What the offset of a binding is a multiple of.
    pub offset_alignment: u64,
}

impl Limits {
    fn of(limits: &wgpu::Limits) -> Self {
        Self {
            max_buffer: limits.max_buffer_size,
            max_binding: limits.max_storage_buffer_binding_size,
            offset_alignment: limits.min_storage_buffer_offset_alignment.into(),
        }
    }
}

/// What an application gives to open its device.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// use arrow_device_wgpu::Opening;
///
/// # fn open(wgpu_device: wgpu::Device, wgpu_queue: wgpu::Queue) -> arrow_device::Result<()> {
/// let is_lost = Arc::new(AtomicBool::new(false));
/// let flag = is_lost.clone();
/// wgpu_device.set_device_lost_callback(move |_, _| flag.store(true, Ordering::Release));
/// let device = Opening::new(&wgpu_device, &wgpu_queue).with_loss(is_lost).open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Opening {
    device: wgpu::Device,
    queue: wgpu::Queue,
    is_lost: Option<Arc<AtomicBool>>,
    name: Option<String>,
}

impl Opening {
    /// A device and its queue.
    pub fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Self {
        Self { device: device.clone(), queue: queue.clone(), is_lost: None, name: None }
    }

    /// Sets the flag that the application's callback of the loss sets.
    pub fn with_loss(mut self, is_lost: Arc<AtomicBool>) -> Self {
        self.is_lost = Some(is_lost);
        self
    }

    /// Sets what the device is called, for people. Without this it has the name of its adapter.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Opens the device. wgpu's device and queue are kept as long as anything of the result is
    /// there.
    ///
    /// # Errors
    /// * [`ErrorKind::DeviceLost`] if the device is lost.
    /// * [`ErrorKind::InvalidArgument`] if the queue was made with another device. The handler of
    ///   that device's errors is then called once, and without a handler wgpu prints what it would
    ///   panic with. For a queue of another instance wgpu may panic instead. Such a panic is caught
    ///   after the panic hook has run; a program that aborts on panics ends. In a browser the
    ///   mistake is not found.
    pub fn open(self) -> Result<Device> {
        let logical = Logical::open(self).map_err(|error| error.during("open"))?;
        Ok(Device::new(WgpuDriver::new(logical)))
    }
}

/// Opens the device of an application. The queue is the one that was made with the device.
///
/// # Errors
/// The errors of [`Opening::open`].
pub fn open_from(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Device> {
    Opening::new(device, queue).open()
}

/// Finds the open device of an `ArrowDeviceArray`'s `device_id`.
///
/// # Errors
/// [`ErrorKind::DeviceMissing`] if no device with this number is open here.
pub fn device_of(device_id: i64) -> Result<Device> {
    let id = DeviceId::new(DeviceType::WEBGPU, device_id);
    logical::enter()?;
    let known = Logical::find(id).and_then(|_| Device::find(id));
    known.ok_or_else(|| {
        let message = format!(
            "no device of wgpu with the number {:#x} is open here: give the `wgpu::Device` to `open_from`",
            device_id.cast_unsigned()
        );
        Error::new(ErrorKind::DeviceMissing, message).during("open").on_device(id)
    })
}

/// Returns the device and the queue that were opened, to make pipelines and to submit work.
pub fn handles_of(device: &Device) -> Result<(wgpu::Device, wgpu::Queue)> {
    find(device).map(|logical| (logical.held.device.clone(), logical.held.queue.clone()))
}

/// Returns how large buffers of an open device may be.
pub fn limits_of(device: &Device) -> Result<Limits> {
    find(device).map(|logical| logical.limits)
}

/// A part of a buffer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bound {
    /// The buffer.
    pub buffer: wgpu::Buffer,
    /// Where the part begins.
    pub offset: u64,
    /// How many bytes there are, rounded up to whole units of four where the memory has them.
    pub size: u64,
    limits: Limits,
}

impl Bound {
    /// The part, to be bound as a storage buffer.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] where wgpu could not bind the part: its offset is not a
    /// multiple of [`Limits::offset_alignment`], as that of a sliced column can be, or it has no
    /// bytes, or more than [`Limits::max_binding`].
    pub fn binding(&self) -> Result<wgpu::BindingResource<'_>> {
        let Limits { max_binding, offset_alignment, .. } = self.limits;
        let Self { offset, size: len, .. } = *self;
        let problem = if !offset.is_multiple_of(offset_alignment) {
            format!("the offset {offset} is no multiple of {offset_alignment}")
        } else if len > max_binding {
            format!("{len} bytes are more than the {max_binding} that can be bound at once")
        } else {
            let Some(size) = NonZeroU64::new(len) else {
                let message = "a part of no bytes cannot be bound";
                return Err(Error::new(ErrorKind::InvalidArgument, message).during("bind"));
            };
            let buffer = &self.buffer;
            let bound = wgpu::BufferBinding { buffer, offset, size: Some(size) };
            return Ok(wgpu::BindingResource::Buffer(bound));
        };
        Err(Error::new(ErrorKind::InvalidArgument, problem).during("bind"))
    }
}

/// Returns the part of a buffer that a place on a device of this crate stands for: the place of a
/// column's buffer in a view, or of memory that is to be filled.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] if the place names no buffer of this device, or fewer than `len`
/// bytes.
///
/// # Safety
/// What a view or a memory told is used as UNS-15 and UNS-16 say: by work that is submitted to the
/// device's queue before the view or the memory is dropped; work on a column only reads.
pub unsafe fn bound(device: &Device, spot: Spot, len: u64) -> Result<Bound> {
    let logical = find(device)?;
    let refused =
        |message: &str| logical.error(ErrorKind::InvalidArgument, message).during("find a buffer");
    let whole = logical.held.table.find(spot.base);
    let whole = whole.ok_or_else(|| refused("the place names no buffer of this device"))?;
    let part = whole.part(spot.offset, len);
    let part = part.ok_or_else(|| refused("the place has fewer bytes than were asked for"))?;
    let size = len.next_multiple_of(UNIT).min(whole.size - spot.offset);
    Ok(Bound { buffer: part.buffer, offset: part.offset, size, limits: logical.limits })
}

/// Makes bytes of an application's buffer the data of a column, without a copy. The column keeps
/// the buffer.
///
/// The bytes are those that work has written which was submitted before. `offset` is a multiple of
/// four, and the buffer has the usage `COPY_SRC`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] if the buffer cannot be copied from, the bytes do not lie inside
/// it in whole units, or wgpu says that it belongs to another device of the same instance.
///
/// # Safety
/// The buffer was made by the `wgpu::Device` that was opened, and is not mapped. Nobody writes to
/// the bytes any more, as UNS-17 says, and nobody destroys the buffer.
pub unsafe fn adopt(
    device: &Device,
    buffer: &wgpu::Buffer,
    offset: u64,
    len: u64,
) -> Result<Buffer> {
    // SAFETY: the caller promises what this needs, and nobody writes to the bytes later either.
    unsafe { adopt_with(device, buffer, offset, len, ()) }
}

/// Makes bytes of a buffer the data of a column like [`adopt`], where the bytes are the column's
/// only for a time: those of a pool, from which a framework allocates its tensors. The column keeps
/// `owner`, which is dropped once nothing uses the bytes any more, on any thread. The drop gives
/// the bytes back to the pool.
///
/// # Errors
/// Those of [`adopt`]. The owner is then dropped.
///
/// # Safety
/// The buffer was made by the `wgpu::Device` that was opened, and is not mapped. Until the owner is
/// dropped, nobody writes to the bytes, as UNS-17 says, and nobody destroys the buffer.
pub unsafe fn adopt_with(
    device: &Device,
    buffer: &wgpu::Buffer,
    offset: u64,
    len: u64,
    owner: impl Send + Sync + 'static,
) -> Result<Buffer> {
    let logical = find(device)?;
    let refused =
        |message: &str| logical.error(ErrorKind::InvalidArgument, message).during("adopt a buffer");
    if !buffer.usage().contains(wgpu::BufferUsages::COPY_SRC) {
        return Err(refused("the buffer has no usage COPY_SRC"));
    }
    let end = len.checked_next_multiple_of(UNIT).and_then(|len| offset.checked_add(len));
    if !offset.is_multiple_of(UNIT) || end.is_none_or(|end| end > buffer.size()) {
        return Err(refused("the bytes are not whole units of four inside of the buffer"));
    }
    if len > 0 {
        check_owner(&logical, buffer, offset).map_err(|error| error.during("adopt a buffer"))?;
    }
    let entry = Entry { buffer: buffer.clone(), offset, size: len.next_multiple_of(UNIT) };
    let handle = logical.held.table.insert(entry);
    let adopted = Adopted { logical, handle };
    // SAFETY: UNS-17, which the caller promises of the bytes until the owner is dropped; the table
    // keeps the buffer until then.
    Ok(unsafe { Buffer::foreign(device.id(), handle.as_ptr(), len, (adopted, owner)) })
}

/// Records a copy from the buffer, which wgpu refuses where the buffer is of another device. For a
/// buffer of another instance wgpu may panic.
fn check_owner(logical: &Logical, buffer: &wgpu::Buffer, offset: u64) -> Result<()> {
    let usage = wgpu::BufferUsages::COPY_DST;
    let target = logical.create_buffer(UNIT, usage, false)?;
    let record = || {
        logical.scoped(|| {
            let mut encoder = logical.held.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(buffer, offset, &target, 0, UNIT);
            drop(encoder.finish());
        })
    };
    match catch_unwind(AssertUnwindSafe(record)) {
        Ok(((), None)) => Ok(()),
        Ok(((), Some(caught))) => Err(logical.refused(&caught, "adopt a buffer")),
        Err(_) => {
            let message = "the buffer is not of the device that was opened";
            Err(logical.error(ErrorKind::InvalidArgument, message))
        }
    }
}

/// Keeps a buffer of the application's in the table of its device.
struct Adopted {
    logical: Arc<Logical>,
    handle: Raw<Memory>,
}

impl Drop for Adopted {
    fn drop(&mut self) {
        let entry = self.logical.held.table.remove(self.handle);
        // In a child of `fork`, and after the process has begun to exit, no runtime is called.
        if logical::enter().is_err() {
            std::mem::forget(entry);
        }
    }
}

fn find(device: &Device) -> Result<Arc<Logical>> {
    logical::enter()?;
    let id = device.id();
    let found = (id.device_type == DeviceType::WEBGPU).then(|| Logical::find(id)).flatten();
    found.ok_or_else(|| {
        let message = "it is not a device of wgpu that this crate opened";
        Error::new(ErrorKind::InvalidArgument, message).on_device(id)
    })
}
