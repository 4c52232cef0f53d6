//! oneAPI devices for [`arrow_device`]: Arrow data in SYCL's unified shared memory (USM), ordered
//! by `sycl::event`s.
//!
//! Nothing is linked. SYCL has no C interface of its own, so its functions are called through
//! dpctl's C interface (`libDPCTLSyclInterface.so`), which the first call loads. A machine without
//! dpctl or without a device gets an error that says what to install. A C++ engine that has a SYCL
//! runtime and no dpctl [gives](use_functions) the functions of its own runtime instead.
//!
//! ```
//! if let Err(why) = arrow_device_oneapi::is_available() {
//!     println!("no oneAPI here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_oneapi::open(0)?;
//! let queue = device.open_queue()?;
//! let array =
//!     arrow_device::Array::from_values(arrow_device::DataType::Int32, [Some(1), None])?;
//! let there = array.copy_to(&queue)?;
//! assert_eq!(there.device(), device.id());
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # What both sides agree on
//!
//! | member of `ArrowDeviceArray` | what it is |
//! |---|---|
//! | `device_type` | `ARROW_DEVICE_ONEAPI`, 14 |
//! | `buffers[i]` | a USM pointer, of the kind device, host or shared |
//! | `device_id` | the index of the device in the list of root devices, as dpctl's `get_device_id` and DLPack have it |
//! | `sync_event` | null, or the address of a `sycl::event` object (`sycl::event*`, dpctl's `DPCTLSyclEventRef`), of the same major version of the SYCL runtime |
//!
//! Both sides use one `sycl::context`, because a queue does not know USM of another context.
//! [`open`] takes the default context of the device's platform. A `sycl::queue` that is made
//! without a context has the same one, and so have the queues of dpctl, dpnp and PyTorch.
//! [`open_from`] takes the context of the application's queue. Where several contexts of a device
//! are open, the runtime is asked which of them an address belongs to. For a queue of another
//! context the memory is [`NotReachable`](arrow_device::ErrorKind::NotReachable), and a copy to
//! such a queue goes through host memory. Memory of [`Kind::Host`] or [`Kind::Shared`] that the
//! host reads in place is no such way: SYCL lets a runtime refuse that memory in another context,
//! so copy to memory of [`Kind::Device`] in between.
//!
//! The exporter keeps the `sycl::event` object until the release callback is called. Where a queue
//! of this crate has to wait for the event, a queue in order waits by a barrier behind the event;
//! for a queue out of order the host waits.
//!
//! # Kinds of memory
//!
//! A device is opened with one [`Kind`] of memory, which is what is allocated; arrays that are
//! imported may have any kind. One device may be opened with several kinds. The host reads memory
//! of [`Kind::Host`] in place, and that of [`Kind::Shared`] where host and device may use shared
//! memory at the same time (`usm_atomic_shared_allocations`).
//!
//! # An application's own queue
//!
//! ```no_run
//! # let queue = std::ptr::NonNull::dangling();
//! use arrow_device::driver::Raw;
//! use arrow_device_oneapi::{Kind, open_from};
//!
//! // SAFETY: `queue` is a `sycl::queue*` of the application's, which outlives all that is made
//! // here.
//! let device = unsafe { open_from(queue, Kind::Device) }?;
//! // SAFETY: the same queue.
//! let queue = unsafe { device.adopt_queue(Raw::from_ptr(queue.as_ptr())) };
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! A C++ engine reads the address of its queue, and an application in C opens the device by
//! `ardev_device_open_oneapi` of the library for C. In Python, arrays of dpctl and dpnp are taken
//! by `arrow_device.array`, and the other way round, by `__sycl_usm_array_interface__` and DLPack;
//! the queue is passed in a capsule, for which [`SyclQueue`] makes the reference.
//!
//! Queues that are opened here are in order. A queue that is
//! [adopted](arrow_device::Device::adopt_queue) may be out of order. This crate puts barriers
//! around the copies that it submits to such a queue. Where such a queue has to wait for an event,
//! the host waits instead. The reason is that in DPC++ 2026.2 a command that is submitted behind a
//! barrier may start before the barrier has passed, if the barrier waits for a task of the host.
//! For the same reason the application's own commands have to name the events that they wait for,
//! also the commands behind copies of this crate.
//!
//! # Work that fails
//!
//! dpctl tells of a failed event no more than that its status is unknown. Whoever waits for such an
//! event gets an error, and memory that waits for the event is kept, because the work may still
//! run. A table of [`Functions`] that a C++ engine fills can tell that work has failed
//! ([`WorkFailed`](arrow_device::ErrorKind::WorkFailed)). dpctl's functions that wait end the
//! process where work has failed. This crate calls none of them: every wait asks about the event
//! again and again.
//!
//! SYCL leaves open whether work behind failed work fails as well. This crate keeps the events of
//! its copies, of its barriers and of what its queues wait for until they have answered. So an
//! event that is recorded behind a failed copy answers with an error, and so does every event of
//! another queue that waited for such an event, also where the runtime says that the barriers went
//! well. A queue behind failed work stays failed. Of work that the application submits itself, this
//! crate sees only what the barrier behind the work says. A consumer that is not built on this
//! crate sees only the `sycl::event` of the barrier as well.

mod driver;
mod error;
mod events;
mod flusher;
mod functions;
mod lanes;
mod library;
mod objects;

use std::ffi::{OsStr, c_int, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_device::{Device, Error, ErrorKind, Queue, Result};

use driver::SyclDriver;
use error::no_device;
use functions::{HAS_DEVICE_MEMORY, HAS_HOST_MEMORY, HAS_SHARED_MEMORY};
use objects::{Context, Owned, SyclDevice};

pub use functions::{Allocate, ErrorHandler, Functions, Object};

/// The kind of memory that a device is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Memory of the device, which the host cannot read.
    #[default]
    Device,
    /// Memory of the host, which the device can read and write.
    Host,
    /// Memory that moves between host and device.
    Shared,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Device, Self::Host, Self::Shared];

    /// The aspect of a device that has this kind of memory.
    fn aspect(self) -> c_int {
        match self {
            Self::Device => HAS_DEVICE_MEMORY,
            Self::Host => HAS_HOST_MEMORY,
            Self::Shared => HAS_SHARED_MEMORY,
        }
    }
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The index for [`open`], which is the device's id.
    pub index: usize,
    /// The name of the device, for people.
    pub name: String,
    /// The kinds of memory that the device can be opened with. The list may be empty, because SYCL
    /// also lists devices without USM.
    pub kinds: Vec<Kind>,
    /// How many bytes of memory the device has.
    pub memory: u64,
    /// The version of the device's driver, in the driver's words.
    pub driver_version: String,
}

/// Checks whether there is a device with USM. The error says why there is none and what to install.
pub fn is_available() -> Result<()> {
    let has_memory = |listed: &Listed| !listed.kinds.is_empty();
    if devices()?.iter().any(has_memory) { Ok(()) } else { Err(no_device(0)) }
}

/// Lists the devices, in the order of their ids.
pub fn devices() -> Result<Vec<Listed>> {
    let devices = SyclDevice::all(library::load()?);
    let list = |(index, device): (usize, SyclDevice)| Listed {
        index,
        name: device.name(),
        kinds: Kind::ALL.into_iter().filter(|kind| device.has(kind.aspect())).collect(),
        memory: device.memory(),
        driver_version: device.version(),
    };
    Ok(devices.into_iter().enumerate().map(list).collect())
}

/// Opens a device with memory of its own, in the default context of its platform.
pub fn open(index: usize) -> Result<Device> {
    open_with(index, Kind::Device)
}

/// Opens a device, as [`open`] does, with this kind of memory. The result is an error of the kind
/// [`ErrorKind::Unsupported`] if the device does not have this kind of memory.
pub fn open_with(index: usize, kind: Kind) -> Result<Device> {
    let functions = library::load()?;
    let device = SyclDevice::all(functions).into_iter().nth(index);
    let device = device.ok_or_else(|| no_device(index))?;
    let context = device.default_context()?;
    open_in(functions, context, device, kind)
}

/// Opens the device of the application's queue, in the context of that queue, with this kind of
/// memory. The context is kept as long as the device is open. The queue is not kept.
///
/// A device that is a part of another device (a tile) has no id. For a queue of such a part, the
/// result is an error of the kind [`ErrorKind::InvalidArgument`].
///
/// # Safety
/// `queue` is a `sycl::queue*` that is alive during the call, of the SYCL runtime that dpctl's
/// library of this process uses, or of the one whose functions were given (UNS-29).
pub unsafe fn open_from(queue: NonNull<c_void>, kind: Kind) -> Result<Device> {
    let functions = library::load()?;
    // SAFETY: UNS-29, which the caller keeps: the queue is alive.
    let device = unsafe { (functions.queue_device)(queue.as_ptr()) };
    // SAFETY: UNS-31: the device was just made.
    let device = unsafe { SyclDevice::new(functions, device) };
    // SAFETY: UNS-29, which the caller keeps: the queue is alive.
    let context = unsafe { (functions.queue_context)(queue.as_ptr()) };
    // SAFETY: UNS-31: the context was just made.
    let context = unsafe { Context::known(functions, context) }?;
    let device = device.ok_or_else(|| {
        Error::new(ErrorKind::Driver, "SYCL does not tell the device of the queue").during("open")
    })?;
    open_in(functions, context, device, kind)
}

fn open_in(
    functions: &'static Functions,
    context: Arc<Context>,
    device: SyclDevice,
    kind: Kind,
) -> Result<Device> {
    let driver = SyclDriver::new(functions, context, device, kind)?;
    // The runtime may have registered handlers of the end of the process in its first context.
    library::used();
    Ok(Device::new(driver))
}

/// Takes the functions of a C++ engine's own SYCL runtime in place of dpctl's, for the whole
/// process. An engine in C++ fills the table by the header `arrow_device/sycl.hpp` of this crate,
/// which has the same struct.
///
/// This function has to be called before a device is opened or listed, also where the listing finds
/// no library. The same table may be given again. The result is an error of the kind
/// [`ErrorKind::InvalidArgument`] if the process has looked for another runtime already, or if the
/// table has another size.
///
/// # Safety
/// Each function has the type and the meaning that [`Functions`] says, and stays loaded as long as
/// the process (UNS-31).
pub unsafe fn use_functions(functions: Functions) -> Result<()> {
    // SAFETY: UNS-31, which the caller promises.
    unsafe { library::give(functions) }
}

/// Takes dpctl's library at this path as the one of the process, as [`use_functions`] takes a
/// table. A program in Python finds the library in the folder of the package `dpctl`.
///
/// # Safety
/// The library has dpctl's functions by dpctl's names (UNS-31), and its initialisers are sound.
pub unsafe fn use_library(path: impl AsRef<OsStr>) -> Result<()> {
    // SAFETY: UNS-31 and the initialisers, which the caller promises.
    unsafe { library::give_library(path.as_ref()) }
}

/// A reference to a `sycl::queue`, for other libraries. All references to a queue are equal, and
/// the queue stays open as long as one of them is there.
pub struct SyclQueue {
    queue: Owned,
}

impl fmt::Debug for SyclQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyclQueue({:p})", self.as_ptr())
    }
}

impl SyclQueue {
    /// A reference to a queue of a device of this crate. The result is an error of the kind
    /// [`ErrorKind::InvalidArgument`] for a queue of another device.
    pub fn of(queue: &Queue) -> Result<Self> {
        let functions = library::load()?;
        let device = queue.device();
        let runtime = device.driver().runtime();
        if runtime.name != driver::RUNTIME || !objects::is_open(runtime.instance) {
            let error = Error::new(ErrorKind::InvalidArgument, "it is not a oneAPI device");
            return Err(error.during("share a queue").on_device(device.id()));
        }
        // SAFETY: DRV-7: a driver with this runtime has queues of the open context, which are
        // `sycl::queue`s, and the queue is alive.
        unsafe { Self::copy(functions, queue.raw().as_ptr()) }
    }

    /// A reference to somebody else's queue.
    ///
    /// # Safety
    /// `queue` is a `sycl::queue*` that is alive during the call, of the SYCL runtime that this
    /// process uses (UNS-29).
    pub unsafe fn copy_of(queue: NonNull<c_void>) -> Result<Self> {
        let functions = library::load()?;
        // SAFETY: UNS-29, which the caller keeps.
        unsafe { Self::copy(functions, queue.as_ptr()) }
    }

    /// # Safety
    /// UNS-31 of the table, and the queue is alive.
    unsafe fn copy(functions: &'static Functions, queue: Object) -> Result<Self> {
        // SAFETY: UNS-31, and the queue is alive, as the caller promises.
        let copy = unsafe { (functions.queue_copy)(queue) };
        // SAFETY: UNS-31: the copy was just made; `queue_delete` is for queues.
        let copy = unsafe { Owned::new(copy, functions.queue_delete) };
        copy.map(|queue| Self { queue }).ok_or_else(|| {
            Error::new(ErrorKind::Driver, "SYCL makes no copy of the queue").during("share a queue")
        })
    }

    /// The `sycl::queue*`, which is valid as long as this reference.
    pub fn as_ptr(&self) -> *mut c_void {
        self.queue.object()
    }

    /// Gives the `sycl::queue*` to the caller, who gives it back by [`from_raw`](Self::from_raw).
    pub fn into_raw(self) -> *mut c_void {
        self.queue.into_object()
    }

    /// Takes back what [`into_raw`](Self::into_raw) gave.
    ///
    /// # Safety
    /// `into_raw` gave the pointer, and it was not taken back before.
    pub unsafe fn from_raw(queue: NonNull<c_void>) -> Result<Self> {
        let functions = library::load()?;
        // SAFETY: UNS-31: `into_raw` gave the queue, which is the caller's; `queue_delete` is for
        // queues.
        let queue = unsafe { Owned::new(queue.as_ptr(), functions.queue_delete) };
        let none = || Error::new(ErrorKind::InvalidArgument, "it is null").during("share a queue");
        queue.map(|queue| Self { queue }).ok_or_else(none)
    }
}
