//! OpenCL devices for [`arrow_device`]: Arrow data in `cl_mem` buffers, ordered by `cl_event`s.
//!
//! Nothing is linked. The OpenCL loader (`libOpenCL.so.1`, `OpenCL.dll`) is loaded by the first
//! call. A machine without a loader or without a driver gets an error that says what to install.
//!
//! ```
//! if let Err(why) = arrow_device_opencl::is_available() {
//!     println!("no OpenCL here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_opencl::open(0)?;
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
//! | `device_type` | `ARROW_DEVICE_OPENCL`, 4 |
//! | `buffers[i]` | a `cl_mem`, which may be a sub-buffer. Never an offset into one. With [`Kind::Svm`], an address of shared virtual memory |
//! | `device_id` | the number of the device over all platforms, in the loader's order. A hint, since loaders order differently: the context of the handles decides, and [`open_for`] finds it |
//! | `sync_event` | null, or a pointer to a `cl_event` |
//!
//! Both sides use one `cl_context`, because a queue cannot use memory and events of another
//! context. [`open`] returns the same context for a device to all of this process. [`open_from`]
//! and [`open_for`] take the context of the application or of the producer. Where several contexts
//! of a device are open, the context of an array is found by its `cl_mem`. An imported array is
//! waited for, read and copied in its own context, whichever context was opened last. A queue of
//! another context gets [`NotReachable`](arrow_device::ErrorKind::NotReachable), and a copy to it
//! goes through host memory. The same holds where the context of an array has a device whose number
//! is open in another context. The context of a foreign handle is opened only by [`open_for`].
//!
//! The exporter holds one reference to each `cl_mem`, to the `cl_event` and to the queue of the
//! event, until its release callback. (In most runtimes an event holds its queue by itself.) The
//! importer releases every reference that it takes. The exporter flushes the queue of its event;
//! the importer flushes it once more where that was forgotten.
//!
//! A consumer's queue waits by a barrier behind the event. For an event of another context the host
//! waits. An event with a negative status is an [`ErrorKind::WorkFailed`] for everybody who asks or
//! waits, and the status is the vendor's code of the error.
//!
//! # Queues
//!
//! Queues that are opened here are in order. A queue that is
//! [adopted](arrow_device::Device::adopt_queue) (a `cl_command_queue` of the device's context) may
//! be out of order. Then this crate puts barriers around the commands that it submits. The order of
//! the application's own kernels among each other is left to the application.
//!
//! # Other processes
//!
//! On Linux, memory that is allocated by a device of
//! [`Device::shareable`](arrow_device::Device::shareable) can be opened by another process, where
//! the device shares its memory with the host. The memory is a file without a name
//! (`memfd_create`), which the runtime is given by `CL_MEM_USE_HOST_PTR`. OpenCL leaves open
//! whether a runtime uses such memory or a copy of it, so bytes are sent through the device when it
//! is first asked whether it shares: a device that does not use the file's own pages shares
//! nothing. Neither does a device whose context has other devices. Shared virtual memory
//! ([`Kind::Svm`]) is shared where the device is a processor: the pages of the file are laid over
//! those of `clSVMAlloc`.
//!
//! The other process maps the file to be read, as a `cl_mem` with `CL_MEM_READ_ONLY` and
//! `CL_MEM_HOST_READ_ONLY`, and cannot write to it. On a processor, memory that no allocator uses
//! again is fixed when it is sent: then nobody can write to it any more, and the receiver needs no
//! trust. On other devices the sender can still write, and the receiver has to trust the sender.
//! The other process needs a device with the same numbers in `cl_khr_device_uuid`, or, where the
//! driver does not have them, with the same names and versions of the device, of the driver and of
//! the platform.
//!
//! The memory that a device has for itself is not shared: the extension `cl_khr_external_memory`
//! imports what another interface exported, and no function of OpenCL exports memory.
//!
//! # Threads
//!
//! The rules of OpenCL hold: all its calls may be made on any thread, except that one kernel
//! object's arguments are set by one thread at a time. One runtime makes an exception: in PoCL 3.1,
//! two threads that map and unmap one buffer at the same time can crash, because PoCL ends the
//! mapping of the other thread. So mappings of one memory object that this crate makes take turns,
//! in all runtimes. They may still overlap in time: any number of threads read one array. An
//! application that shares a `cl_mem` and maps it by itself has to do so while nobody reads that
//! memory on the host through this crate.

mod api;
mod context;
mod driver;
mod error;
mod events;
mod info;
mod mapping;
#[cfg(target_os = "linux")]
mod sharing;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use arrow_device::driver::Driver;
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};

use api::Api;
use context::Context;
use driver::OpenClDriver;

/// The kind of memory that a device is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `cl_mem` buffers: handles, which every OpenCL driver has.
    #[default]
    Buffers,
    /// Shared virtual memory, coarse-grained: addresses. Both sides have to agree on this kind,
    /// because nothing in the C struct tells it.
    Svm,
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The index for [`open`].
    pub index: usize,
    /// The names of the device and of its platform, for people.
    pub name: String,
    /// Whether the device can be opened with [`Kind::Svm`].
    pub has_svm: bool,
    /// How many bytes of memory the device has.
    pub memory: u64,
    /// The version of the device's driver, in the driver's words.
    pub driver_version: String,
}

/// Checks whether there is a device. The error says why there is none and what to install.
pub fn is_available() -> Result<()> {
    if devices()?.is_empty() { Err(no_device(0)) } else { Ok(()) }
}

/// Lists the devices of all platforms. A device that cannot be asked is left out. If none can be
/// asked, the error of the first is returned.
pub fn devices() -> Result<Vec<Listed>> {
    let api = api::load()?;
    let list = |(index, device)| {
        // SAFETY: the device was just listed.
        let facts = unsafe { api.facts(device) }?;
        // SAFETY: the device was just listed.
        let (memory, driver_version) = unsafe { api.memory_and_version(device) }?;
        let (name, has_svm) = (facts.name, facts.has_svm);
        Ok(vec![Listed { index, name, has_svm, memory, driver_version }])
    };
    info::those_that_answer(api.devices()?.into_iter().enumerate().map(list))
}

/// Opens a device with buffers. All who open a device in this process share one context, which is
/// kept.
pub fn open(index: usize) -> Result<Device> {
    open_with(index, Kind::Buffers)
}

/// Opens a device, as [`open`] does, with this kind of memory. It is [`ErrorKind::Unsupported`]
/// where the device does not have this kind.
///
/// The first choice holds for the device in this process. Opening it with another kind later is
/// [`ErrorKind::InvalidArgument`].
pub fn open_with(index: usize, kind: Kind) -> Result<Device> {
    let api = api::load()?;
    let device = api.devices()?.get(index).copied().ok_or_else(|| no_device(index))?;
    let context = Context::of_device(api, device)?;
    // SAFETY: the context was made for this device.
    unsafe { open_in(api, context, device, kind) }
}

/// Opens a device of a context that the application made. The context is retained as long as the
/// device is open.
///
/// # Safety
/// `context` is a `cl_context` that is alive, made by the OpenCL loader of this process, and
/// `device` is a `cl_device_id` (UNS-29).
pub unsafe fn open_from(
    context: NonNull<c_void>,
    device: NonNull<c_void>,
    kind: Kind,
) -> Result<Device> {
    let api = api::load()?;
    // SAFETY: UNS-29, which the caller keeps: the context is alive.
    let context = unsafe { Context::retain(api, context.as_ptr()) }?;
    // SAFETY: the context is alive: a reference to it was just taken.
    let devices = unsafe { api.devices_of(context.handle()) }?;
    if !devices.contains(&device.as_ptr()) {
        let message = "the device is not one of the context's";
        return Err(Error::new(ErrorKind::InvalidArgument, message).during("open"));
    }
    // SAFETY: it is one of the context's.
    unsafe { open_in(api, context, device.as_ptr(), kind) }
}

/// Opens the device of a foreign `cl_mem`, such as one from the `buffers` of an `ArrowDeviceArray`.
/// The device is one of the memory's context: the device with this number if the context has it,
/// otherwise the first one.
///
/// # Safety
/// `memory` is a `cl_mem` that is alive, made by the OpenCL loader of this process (UNS-29).
pub unsafe fn open_for(memory: NonNull<c_void>, device_id: i64) -> Result<Device> {
    let api = api::load()?;
    // SAFETY: UNS-29, which the caller promises.
    let (context, _) = unsafe { api.extent_of(memory.as_ptr()) }?;
    // SAFETY: the memory keeps its context.
    let context = unsafe { Context::retain(api, context) }?;
    // SAFETY: it is alive in its owner.
    let devices = unsafe { api.devices_of(context.handle()) }?;
    let named = DeviceId::new(DeviceType::OPENCL, device_id);
    let is_named = |device: &&*mut c_void| api.id_of(**device).is_ok_and(|id| id == named);
    let device = devices.iter().find(is_named).or(devices.first()).copied();
    let device = device.ok_or_else(|| no_device(0))?;
    // SAFETY: it is one of the context's.
    unsafe { open_in(api, context, device, Kind::Buffers) }
}

/// # Safety
/// The device is one of the context's.
unsafe fn open_in(
    api: &'static Api,
    context: Context,
    device: *mut c_void,
    kind: Kind,
) -> Result<Device> {
    // SAFETY: the device is one of the context's, as the caller promises.
    let driver = unsafe { OpenClDriver::new(api, context, device, kind) }?;
    settle_kind(driver.id(), kind)?;
    Ok(Device::new(driver))
}

/// The kind of memory of each device number that was opened.
static OPENED: Mutex<Vec<(DeviceId, Kind)>> = Mutex::new(Vec::new());

/// Returns the kind of memory that arrays with this device number have: buffers, unless the device
/// was opened with another kind.
pub(crate) fn kind_of(id: DeviceId) -> Kind {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.iter().find(|(known, _)| *known == id).map_or(Kind::Buffers, |(_, kind)| *kind)
}

/// Makes sure that a device number means one kind of memory in this process. An array tells only
/// the number, and an address that is taken for a handle is a crash.
fn settle_kind(id: DeviceId, kind: Kind) -> Result<()> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    match opened.iter().find(|(known, _)| *known == id) {
        None => opened.push((id, kind)),
        Some((_, earlier)) if *earlier == kind => {}
        Some((_, earlier)) => {
            let message = format!("this process has opened it with {earlier:?} before");
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(error.during("open").on_device(id));
        }
    }
    Ok(())
}

fn no_device(index: usize) -> Error {
    let message = format!("OpenCL has no device {index}: `devices()` lists what there is");
    Error::new(ErrorKind::DeviceMissing, message).during("open")
}
