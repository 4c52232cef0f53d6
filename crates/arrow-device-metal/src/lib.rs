//! Metal devices for [`arrow_device`]: Arrow data in `MTLBuffer`s of shared storage, ordered by
//! `MTLSharedEvent`s.
//!
//! Nothing is linked. Metal and the Objective-C runtime are loaded by the first call. On a system
//! that has no Metal, every call gets an error that says so.
//!
//! ```
//! if let Err(why) = arrow_device_metal::is_available() {
//!     println!("no Metal here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_metal::open(0)?;
//! let queue = device.open_queue()?;
//! let array =
//!     arrow_device::Array::from_values(arrow_device::DataType::Int32, [Some(1), None])?;
//! let there = array.copy_to(&queue)?;
//! assert_eq!(there.device(), device.id());
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! No test of this crate has run on a machine of Apple's yet. On a Mac, in a checkout of the
//! project, this program judges the Mac's own devices by the conformance suite, and prints a report
//! for the project:
//!
//! ```sh
//! cargo run --release -p arrow-device-metal --example judge
//! ```
//!
//! # What both sides agree on
//!
//! | member of `ArrowDeviceArray` | what it is |
//! |---|---|
//! | `device_type` | `ARROW_DEVICE_METAL`, 8 |
//! | `buffers[i]` | an address in the `contents` of a `MTLBuffer` with shared storage. The memory begins at a page |
//! | `device_id` | the `registryID` of the `MTLDevice`. -1 is accepted, for the default device |
//! | `sync_event` | null, or a `MTLSharedEvent`: the object itself, not a pointer to a variable. It has passed when its value is 1 or more |
//!
//! The specification names a `MTLEvent`. Only a `MTLSharedEvent`, which is a `MTLEvent`, can be
//! asked by the host, so another event is refused
//! ([`Unsupported`](arrow_device::ErrorKind::Unsupported)). The exporter keeps a reference to the
//! event until its release callback.
//!
//! Other libraries export no event, name the default device by -1, and take no array with an
//! event. Their arrays are imported unchanged: the device of such an array has the id -1, and
//! queues of the default device use the memory in place. For such a consumer,
//! [`export_settled`](arrow_device::Array::export_settled) waits for the data, and then exports it
//! without an event.
//!
//! # Memory, and the application's kernels
//!
//! Metal's commands take a buffer and an offset. [`buffer_of`] returns both for an address that a
//! view or a memory told. A [`NamedBuffer`] is a buffer of the application's whose bytes are used
//! as memory of a device. Memory that came in an array of another library has no buffer that this
//! crate knows: copies use it through a buffer that Metal makes around its pages
//! (`newBufferWithBytesNoCopy`).
//!
//! The host reads and fills all memory in place.
//!
//! # Queues
//!
//! A queue is a `MTLCommandQueue`. The application's own can be
//! [adopted](arrow_device::Device::adopt_queue), or given to [`open_from`]. Metal begins the
//! command buffers of a queue in the order of their commits, and lets those overlap that use
//! different buffers. Each command buffer of this crate waits for the command buffer that this
//! crate submitted to the queue before. The application's kernels are ordered by Metal where they
//! use buffers with hazard tracking, which the buffers of this crate have; other kernels need a
//! fence or an event of the application's.
//!
//! Metal lets a queue have a number of command buffers that are not finished: 4096 on a queue that
//! this crate makes, and usually 64 on one that the application makes. This crate uses 4000 and 48
//! of them, and leaves the others to the application. Copies, waits for events, and records of
//! events submit a command buffer. Where 4000 or 48 are unfinished, they wait until one is
//! finished, and tell meanwhile of work that fails. Where the application has used up its queue's
//! number, they wait in Metal, as the application itself would. An application that holds command
//! buffers without committing them therefore submits nothing by this crate to the same queue on the
//! thread that is to commit them. The question whether a queue is idle waits for no submission; it
//! submits a command buffer only where none of this crate is unfinished, and then waits in Metal
//! where the application has used up the number.
//!
//! # Failures
//!
//! Where a command buffer of this crate fails, whoever asks or waits for its work, or for work
//! behind it, by this crate gets an [`ErrorKind::WorkFailed`] with the code of
//! `MTLCommandBufferError`. The failure of a command buffer of the application's is not seen here.
//!
//! A shared event cannot tell of a failure. A consumer in another library therefore sees nothing of
//! failed work: its shared event may stay without a signal, or get one nevertheless, with data that
//! is not there. An event that never passes would stop the consumer's queue for ever, and with that
//! queue other work that has nothing to do with the data. Before it exports, a producer can wait
//! for the data ([`export_settled`](arrow_device::Array::export_settled)), and then gets the error.
//!
//! Metal may leave out the signals of failed work. What waits for such work on a queue, and the
//! application's kernels behind that, goes on once anybody asks or waits for the work by this
//! crate, or submits more than a queue has room for.
//!
//! A device that was removed is [`DeviceLost`](arrow_device::ErrorKind::DeviceLost) once the status
//! of a command buffer has told so. The device that is the default one when this crate is first
//! used has the id -1 until the process ends, also where it is removed and Metal names another one.
//!
//! Metal reports some mistakes of its caller by exceptions. Nothing is called here that throws for
//! what it is given: objects of others are asked for their protocol and their device before they
//! are used, and all lengths and offsets are checked.
//!
//! # What was tested where
//!
//! All of this is proven by simulation only. The tests run on a stand-in for Metal, which is
//! written in Objective-C and runs on GCC's runtime. One thread of the stand-in does the work of
//! all queues, late. The stand-in reports objects that are used after their release, messages on a
//! thread without an autorelease pool, encoders that were not ended, and copies of other than whole
//! units. Failed command buffers of the stand-in signal nothing, and a queue of it that has 64
//! unfinished command buffers waits, as Metal's documentation says. Not tested anywhere: command
//! buffers of one queue that overlap (those of the stand-in follow each other), the time limits of
//! a GPU, real losses of a device, and Metal's exceptions. For macOS the crate is compiled and
//! linted.
//!
//! `ARROW_DEVICE_METAL_LIBRARY` names a library to be loaded in Metal's place.

mod api;
mod driver;
mod error;
mod events;
mod home;
mod lane;
mod lanes;
mod memory;
mod object;

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use arrow_device::{Device, DeviceId, Error, ErrorKind, Result};

use crate::driver::{DEFAULT, MetalDriver};
use crate::home::Home;
use crate::object::{Object, Pool};

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The index for [`open`].
    pub index: usize,
    /// The name of the device, for people.
    pub name: String,
    /// The id of the device in arrays.
    pub id: DeviceId,
    /// About how many bytes of memory one program should use. 0 where Metal does not say.
    pub memory: u64,
}

/// Checks whether there is a device. The error says why there is none.
pub fn is_available() -> Result<()> {
    home::default_device(api::load()?).map(drop)
}

/// Lists the devices. The default device is the first one.
pub fn devices() -> Result<Vec<Listed>> {
    let api = api::load()?;
    let _pool = Pool::new(api);
    let listed = home::all_devices(api)?.into_iter().enumerate().map(|(index, device)| {
        let memory = home::memory_of(&device);
        let home = Home::of(device)?;
        Ok(Listed { index, name: home.name.clone(), id: home.id, memory })
    });
    listed.collect()
}

/// Opens a device. Every queue that is opened of it is a new `MTLCommandQueue`.
pub fn open(index: usize) -> Result<Device> {
    let device = home::all_devices(api::load()?)?.into_iter().nth(index);
    open_home(Home::of(device.ok_or_else(home::no_device)?)?, None)
}

/// Opens the device that arrays name by this `device_id`: the device with this `registryID`, or the
/// default device by its other id, -1.
pub fn open_for(device_id: i64) -> Result<Device> {
    if device_id == DEFAULT.id {
        let opened = open(0)?;
        return Device::find(DEFAULT).ok_or_else(home::no_device).inspect(|_| drop(opened));
    }
    let api = api::load()?;
    let _pool = Pool::new(api);
    let is_it = |device: &Object| home::registry_id(device).id == device_id;
    let device = home::all_devices(api)?.into_iter().find(is_it);
    open_home(Home::of(device.ok_or_else(home::no_device)?)?, None)
}

/// Opens a device of the application's. Where the application names a queue,
/// [`open_queue`](Device::open_queue) opens that queue each time. The device and the queue are
/// retained.
///
/// # Safety
/// `device` is a `MTLDevice` that is alive, and `queue` a `MTLCommandQueue` of that device
/// (UNS-29).
///
/// # Errors
/// `InvalidArgument` where one of the objects is of another protocol, or the queue is of another
/// device.
pub unsafe fn open_from(device: NonNull<c_void>, queue: Option<NonNull<c_void>>) -> Result<Device> {
    let api = api::load()?;
    let _pool = Pool::new(api);
    // SAFETY: UNS-29, which the caller keeps: the device is alive.
    let home = unsafe { Home::of_pointer(api, device) }?;
    let queue = match queue {
        // SAFETY: UNS-29, which the caller keeps: the queue is alive.
        Some(queue) => Some(unsafe { lanes::queue_of(&home, Some(queue)) }?),
        None => None,
    };
    open_home(home, queue)
}

fn open_home(home: Arc<Home>, queue: Option<Object>) -> Result<Device> {
    home.check()?;
    if home.is_default {
        // Arrays of other libraries name the default device by -1. The device of that id stays
        // open until the process ends, because such arrays may come at any time.
        static BY_DEFAULT: OnceLock<Device> = OnceLock::new();
        if BY_DEFAULT.get().is_none() {
            // Outside of the cell's initialisation, because other drivers are asked meanwhile, and
            // may come here. Where several threads come here, all but one device are closed.
            let device = Device::new(MetalDriver::new(home.clone(), DEFAULT, None));
            drop(BY_DEFAULT.set(device));
        }
    }
    let id = home.id;
    Ok(Device::new(MetalDriver::new(home, id, queue)))
}

/// Returns the `MTLBuffer` that an address lies in, and the offset of the address there: for a
/// command of the application's that uses memory of this crate, or of a [`NamedBuffer`].
///
/// The buffer is alive as long as the memory at the address. `None` for memory that this crate
/// neither allocated nor was told of by a [`NamedBuffer`].
pub fn buffer_of(address: *const c_void) -> Option<(NonNull<c_void>, u64)> {
    api::enter().ok()?;
    memory::object_at(address.addr()).map(|(buffer, offset)| (buffer, offset as u64))
}

/// A buffer of the application's whose bytes are used as memory of a device: a buffer of an array,
/// or an adopted memory, at the address that [`address`](Self::address) returns, with this value as
/// the owner. The `MTLBuffer` is retained.
pub struct NamedBuffer {
    buffer: Object,
    address: *mut c_void,
    len: usize,
}

// SAFETY: the address is a number here, and what is at the address may be used on any thread.
unsafe impl Send for NamedBuffer {}
// SAFETY: the address is a number here, which does not change.
unsafe impl Sync for NamedBuffer {}

impl NamedBuffer {
    /// Names a buffer of a device that this crate opened.
    ///
    /// # Safety
    /// The pointer is a `MTLBuffer` that is alive (UNS-29). As long as anything uses the bytes as
    /// memory of a device, this value is there, or the `MTLBuffer` is kept alive by other means: a
    /// tensor of the bytes is exported as the object itself. Where the owner of the memory is this
    /// value, nothing more has to be done. A buffer that the application made around pages of its
    /// own (`newBufferWithBytesNoCopy`) needs care, because the pages do not end with the buffer.
    ///
    /// # Errors
    /// `InvalidArgument` where the object is no buffer, the storage of the buffer is not shared,
    /// the buffer belongs to another device of Metal than `device`, `device` is not Metal's, or
    /// some of the bytes are those of another buffer that has a name or was allocated here.
    pub unsafe fn new(device: &Device, buffer: NonNull<c_void>) -> Result<Self> {
        let api = api::load()?;
        let refused = |message| {
            Error::new(ErrorKind::InvalidArgument, message).during("name").on_device(device.id())
        };
        let _pool = Pool::new(api);
        let home = Home::find(device.id()).ok_or_else(|| refused("the device is not Metal's"))?;
        // SAFETY: UNS-29, which the caller keeps: the buffer is alive.
        let buffer = unsafe { Object::retained(api, buffer) };
        if let Some(problem) = memory::problem_of(&home, &buffer) {
            return Err(refused(problem));
        }
        let (address, len) = (memory::contents(&buffer), memory::length_of(&buffer));
        memory::add(buffer.clone(), len, home.id).map_err(refused)?;
        Ok(Self { buffer, address, len })
    }

    /// The address of the bytes: the `contents` of the buffer.
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// The number of bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len as u64
    }
}

impl Drop for NamedBuffer {
    fn drop(&mut self) {
        if api::enter().is_ok() {
            memory::remove(self.address().addr());
        }
    }
}

impl fmt::Debug for NamedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedBuffer({:?})", self.buffer.id())
    }
}
