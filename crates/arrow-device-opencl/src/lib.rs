//! OpenCL devices for [`arrow_device`]: Arrow data in `cl_mem` buffers, ordered by `cl_event`s.
//!
//! Nothing is linked. The OpenCL loader (`libOpenCL.so.1`, `OpenCL.dll`) is loaded by the first
//! call, and a machine without one, or without a driver, gets an error that says what to install.
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
//! Both sides use one `cl_context`: memory and events of another one cannot be used by a queue.
//! [`open`] gives everybody in this process the same context for a device; [`open_from`] and
//! [`open_for`] take that of the application or the producer. Where several contexts of a device
//! are open, a `cl_mem` tells which one it is of: an imported array is waited for, read and copied
//! in its own context, whichever was opened last; a queue of another one gets
//! [`NotReachable`](arrow_device::ErrorKind::NotReachable), and a copy to it goes through host
//! memory. The same holds where a context reaches the number of a device that is open in another
//! context. Nothing opens the context of a foreign handle unasked: that is what [`open_for`] is
//! for.
//!
//! The exporter holds one reference to each `cl_mem`, to the `cl_event` and to the queue of the
//! event, until its release callback. (In most runtimes an event holds its queue by itself.) The
//! importer retains nothing that it does not release. The exporter flushes the queue of its event;
//! the importer flushes it once more where it was forgotten.
//!
//! A consumer's queue waits by a barrier behind the event. For an event of another context the host
//! waits. An event with a negative status is an [`ErrorKind::WorkFailed`] for everybody who asks or
//! waits, with the status as the vendor's code.
//!
//! # Queues
//!
//! Queues that are opened here are in order. One that is
//! [adopted](arrow_device::Device::adopt_queue) (a `cl_command_queue` of the device's context) may
//! be out of order: then barriers stand around what this crate submits, and whoever submits kernels
//! in between orders them among each other.
//!
//! # Threads
//!
//! What OpenCL says holds: all its calls may be made on any thread, except that one kernel object's
//! arguments are set by one thread at a time. The one exception is a runtime's: two threads that
//! map and unmap one buffer at the same time crash in PoCL 3.1, which ends the mapping of the other
//! thread. Mappings of one memory object that are made here therefore take turns, in whatever
//! runtime. They still overlap in time: any number of threads read one array. An application that
//! maps a `cl_mem` itself which it shares does so while nobody here reads that memory on the host.

mod api;
mod context;
mod driver;
mod error;
mod events;
mod info;
mod mapping;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use arrow_device::driver::Driver;
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};

use api::Api;
use context::Context;
use driver::OpenClDriver;

/// What memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `cl_mem` buffers: handles, which every OpenCL driver has.
    #[default]
    Buffers,
    /// Shared virtual memory, coarse-grained: addresses. Both sides have to know, because nothing
    /// in the C struct tells.
    Svm,
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// What [`open`] takes.
    pub index: usize,
    /// Its name and its platform's, for people.
    pub name: String,
    /// Whether it can be opened with [`Kind::Svm`].
    pub has_svm: bool,
    /// How many bytes of memory it has.
    pub memory: u64,
    /// The version of its driver, as that says it.
    pub driver_version: String,
}

/// Whether there is a device; where not, the error says why and what to install.
pub fn is_available() -> Result<()> {
    if devices()?.is_empty() { Err(no_device(0)) } else { Ok(()) }
}

/// The devices of all platforms. Those that cannot be asked are left out; where all of them are,
/// this is the error of the first.
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

/// Opens a device, with buffers. All who open it in this process share one context, which is kept.
pub fn open(index: usize) -> Result<Device> {
    open_with(index, Kind::Buffers)
}

/// Opens a device, as [`open`] does, with a choice of memory: [`ErrorKind::Unsupported`] where the
/// device does not have it.
///
/// The first choice holds for the device in this process; another one later is
/// [`ErrorKind::InvalidArgument`].
pub fn open_with(index: usize, kind: Kind) -> Result<Device> {
    let api = api::load()?;
    let device = api.devices()?.get(index).copied().ok_or_else(|| no_device(index))?;
    let context = Context::of_device(api, device)?;
    // SAFETY: the context was made for this device.
    unsafe { open_in(api, context, device, kind) }
}

/// Opens a device of a context that somebody else made. The context is retained as long as the
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

/// Opens the device of a foreign `cl_mem`, such as one from the `buffers` of an `ArrowDeviceArray`:
/// in the memory's context, the device with that number where it is one of the context's, and the
/// first of them otherwise.
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

/// The kind of memory of each number that was opened.
static OPENED: Mutex<Vec<(DeviceId, Kind)>> = Mutex::new(Vec::new());

/// The kind of memory that arrays with this number have: buffers, unless somebody chose otherwise.
pub(crate) fn kind_of(id: DeviceId) -> Kind {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.iter().find(|(known, _)| *known == id).map_or(Kind::Buffers, |(_, kind)| *kind)
}

/// One number means one kind of memory in this process: an array says only the number, and an
/// address that is taken for a handle is a crash.
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
