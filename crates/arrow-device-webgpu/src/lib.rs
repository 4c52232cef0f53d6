//! WebGPU devices for [`arrow_device`]: Arrow data in `WGPUBuffer`s of `webgpu.h`, ordered by the
//! one queue of a device.
//!
//! Nothing is linked. wgpu-native (`libwgpu_native.so`) or Dawn (`libwebgpu_dawn.so`) is loaded by
//! the first call, or the application names the library that it uses. A machine without a library
//! or without a device gets an error that says what to install.
//!
//! ```
//! if let Err(why) = arrow_device_webgpu::is_available() {
//!     println!("no WebGPU here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_webgpu::open(0)?;
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
//! | `device_type` | `ARROW_DEVICE_WEBGPU`, 15 |
//! | `buffers[i]` | a `WGPUBuffer`, with the usages `Storage`, `CopySrc` and `CopyDst`, not mapped. Never an offset into one |
//! | `device_id` | the value of the `WGPUDevice` handle. (wgpu-native gives another `WGPUQueue` handle at each call, all for one queue) |
//! | `sync_event` | null: the interface has no event for WebGPU |
//!
//! Both sides use one `WGPUDevice` and its queue. The struct tells neither the queue nor the
//! implementation of WebGPU, so the application gives both to every library that exchanges arrays
//! on the device. Here [`open_from`] takes them, and afterwards [`open_for`] finds the device of an
//! array by its number. An application without a device of its own gets a device from [`open`], and
//! passes on the result of [`handles_of`].
//!
//! A consumer that submits work to the queue waits for nothing: its work comes after all that the
//! producer submitted before the export. Whoever reads on the host waits for the queue.
//!
//! # An engine's own device
//!
//! ```no_run
//! # use std::{ffi::c_void, ptr::NonNull};
//! # let engine = || (NonNull::<c_void>::dangling(), NonNull::<c_void>::dangling());
//! use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
//! use arrow_device::{Array, Schema};
//! use arrow_device_webgpu::{Handles, open_from};
//!
//! # let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
//! let (wgpu_device, wgpu_queue) = engine();
//! let handles =
//!     Handles::new(wgpu_device, wgpu_queue).with_library("/opt/engine/libwgpu_native.so");
//! // SAFETY: the handles are alive, are of that library, and belong together.
//! let device = unsafe { open_from(handles) }?;
//! let queue = device.open_queue()?;
//!
//! // An array from somebody who was given the same device.
//! // SAFETY: the structs were filled by a producer that keeps to the interface.
//! let schema = unsafe { Schema::import(&mut c_schema) }?;
//! let array = unsafe { Array::import(&mut c_array, &schema) }?;
//! let view = array.on(&queue)?;
//! let buffer = view.buffer(1).location().spot().base.as_ptr(); // a `WGPUBuffer`, to be bound
//! // wgpuQueueSubmit(wgpu_queue, ...)
//! // The use ends here: the buffers are kept until the queue has passed what was submitted.
//! drop(view);
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # Sizes
//!
//! WebGPU copies units of four bytes, at multiples of four, and never from a buffer to the same
//! buffer. [`arrow_device`] does all other copies, of any bytes, by way of fresh memory or the host
//! ([`Properties::copy_unit`](arrow_device::driver::Properties::copy_unit)). Buffers that are
//! allocated here have whole units. Where the size of another party's buffer is not a multiple of
//! four, the last bytes of that buffer cannot be copied.
//!
//! A buffer has at most [`Limits::max_buffer`] bytes. A kernel binds at most
//! [`Limits::max_binding`] bytes of a buffer at once, so a column that is larger is bound in parts,
//! at offsets that are multiples of 256. A buffer of no bytes cannot be bound at all: an empty
//! column has none.
//!
//! # The queue
//!
//! [`Queue::raw`](arrow_device::Queue::raw) is the `WGPUQueue`. All queues that are opened on a
//! device are this one. A copy from the host is handed to the WebGPU library by
//! `wgpuQueueWriteBuffer`, and is submitted with the next commands: those of the application, or
//! those that this crate submits when somebody next asks about the queue or waits for it. The
//! copies of all columns of a batch pass through a mapped buffer, and are one submission.
//!
//! # Waiting and callbacks
//!
//! WebGPU tells by callbacks what is done, and needs to be polled for that. This crate polls
//! (`wgpuDevicePoll`, `wgpuInstanceProcessEvents`) when [`arrow_device`] asks about the queue or
//! waits for it, and never calls `wgpuInstanceWaitAny`, which ends the process in wgpu-native. A
//! poll also runs callbacks of the application. These may call [`arrow_device`], except on a device
//! that was opened with a lock ([`Handles::with_lock`]). wgpu-native polls inside
//! `wgpuQueueSubmit`, too.
//!
//! Calls that WebGPU can refuse are made in error scopes, so that errors of this crate do not reach
//! the application's callback. A submission is made outside of scopes: WebGPU has accepted the
//! commands by then, and refuses them only if the device was lost, or somebody destroyed or mapped
//! a buffer, in the meantime. Where a WebGPU library has one stack of scopes for all threads,
//! scopes of the application on another thread may catch errors of this crate.
//!
//! # Threads
//!
//! wgpu-native may be called on all threads at once. So may Dawn for a device with the feature
//! `ImplicitDeviceSynchronization`, which [`open`] asks for. Any other device needs a lock that
//! everybody takes: [`Handles::with_lock`].
//!
//! # A device that is lost
//!
//! WebGPU tells of the loss by a callback that is named when the device is made, and accepts calls
//! silently afterwards. The callback sets a flag, which each operation looks at: the flag is that
//! of [`open`], or the one that was given to [`Handles::with_loss`]. wgpu-native tells of the loss
//! by errors of calls instead: a device that refuses even a buffer of four bytes counts as lost. A
//! lost device stays lost, also for whoever opens the same handles again. Copies, waits and
//! questions are an [`ErrorKind::DeviceLost`], and everything that was kept for the queue is
//! released.
//!
//! Where a callback says that work has failed, whoever waits for that work, or for later work of
//! the queue, gets an [`ErrorKind::WorkFailed`]. [`open_from`] opens such a device anew. [`open`]
//! makes another `WGPUDevice` in place of one that is lost or on which work has failed.

mod api;
mod driver;
mod error;
mod handles;
mod loader;
mod logical;
mod marker;
mod own;
mod reads;
mod uploads;

use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};

use driver::WebGpuDriver;
use logical::Logical;

pub use handles::Handles;

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The index for [`open`].
    pub index: usize,
    /// The name of the device, for people.
    pub name: String,
    /// The driver, in its own words.
    pub driver_version: String,
    /// The limits that the device is opened with.
    pub limits: Limits,
}

/// How large buffers may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many bytes a buffer has at most (`maxBufferSize`).
    pub max_buffer: u64,
    /// How many bytes of a buffer a kernel can bind at once (`maxStorageBufferBindingSize`).
    pub max_binding: u64,
}

/// Names the file of the WebGPU library to load, in place of the file that
/// `ARROW_DEVICE_WEBGPU_LIBRARY` names, and of the usual names. Loads nothing.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] if another library was named before, or was looked for already.
///
/// # Safety
/// The file's initialisers are sound, and its functions are those of `webgpu.h` that have their
/// names (UNS-31).
pub unsafe fn load_library(library: impl AsRef<Path>) -> Result<()> {
    loader::name(library.as_ref().as_os_str())
}

/// Checks whether there is a device. The error says why there is none and what to install.
pub fn is_available() -> Result<()> {
    if devices()?.is_empty() {
        let message = "WebGPU has no device: install a driver of Vulkan (Debian: mesa-vulkan-drivers and libvulkan1 for the processor)";
        return Err(Error::new(ErrorKind::DeviceMissing, message));
    }
    Ok(())
}

/// Lists the devices of the library: all of wgpu-native, or the one that Dawn chooses. Devices that
/// are reached by OpenGL are left out, because submitting work waits for the work there, and so is
/// Dawn's device that does no work.
pub fn devices() -> Result<Vec<Listed>> {
    own::list()
}

/// Opens a device with the largest limits that its adapter allows. All who open the device of one
/// index in this process share one `WGPUDevice`, which is kept until the process ends, or until it
/// is lost or work on it has failed: the next call then makes another.
pub fn open(index: usize) -> Result<Device> {
    own::open(index).map(|logical| Device::new(WebGpuDriver::new(logical, None)))
}

/// Opens a device that the application made.
///
/// If the device was opened before, by this or another library, the result is the same device, with
/// the functions, the lock and the flag of the first opening. A device on which work has failed is
/// opened anew.
///
/// # Safety
/// The handles are those of a device and its queue, made by the library that [`Handles`] names,
/// whose functions have the types of `webgpu.h` (UNS-31). They are alive until the owner that
/// [`kept_by`](Handles::kept_by) was given is dropped, or without one, as long as anything of the
/// device is there (UNS-29): call
/// [`wait_until_released`](arrow_device::deferred::wait_until_released) before releasing them. If a
/// lock was given, everybody takes it for each call (UNS-30).
pub unsafe fn open_from(handles: Handles) -> Result<Device> {
    let api = loader::functions(&handles.functions)?;
    // What the application gave to look functions up is dropped after the locks were given back.
    let _functions = handles.functions.clone();
    let owner = handles.owner.clone();
    // SAFETY: UNS-29 and UNS-30, which the caller promises.
    let logical = unsafe { Logical::of(handles, api) }?;
    Ok(Device::new(WebGpuDriver::new(logical, owner)))
}

/// Finds the open device of an `ArrowDeviceArray`'s `device_id`, which is the value of a
/// `WGPUDevice`.
///
/// The struct tells neither the queue nor the WebGPU library, so the device has to be open in this
/// process already. Otherwise the result is an error of the kind [`ErrorKind::DeviceMissing`].
pub fn open_for(device_id: i64) -> Result<Device> {
    let id = DeviceId::new(DeviceType::WEBGPU, device_id);
    Device::find(id).ok_or_else(|| {
        let message = format!(
            "the WGPUDevice {:#x} is not open here: whoever made it has to give it to `open_from`",
            device_id.cast_unsigned()
        );
        Error::new(ErrorKind::DeviceMissing, message).during("open").on_device(id)
    })
}

/// Returns the `WGPUDevice` and the `WGPUQueue` of an open device, to make pipelines on it and to
/// submit to its queue. Both live as long as the device is open.
pub fn handles_of(device: &Device) -> Result<(NonNull<c_void>, NonNull<c_void>)> {
    let logical = find(device)?;
    let (device, queue) = (NonNull::new(logical.device), NonNull::new(logical.queue));
    device.zip(queue).ok_or_else(|| Error::new(ErrorKind::Driver, "the device has no handle"))
}

/// Returns how large buffers of an open device may be.
pub fn limits_of(device: &Device) -> Result<Limits> {
    find(device).map(|logical| logical.limits)
}

fn find(device: &Device) -> Result<Arc<Logical>> {
    loader::enter()?;
    let id = device.id();
    let found = (id.device_type == DeviceType::WEBGPU).then(|| Logical::find(id)).flatten();
    found.ok_or_else(|| {
        let message = "it is not a WebGPU device of this crate";
        Error::new(ErrorKind::InvalidArgument, message).on_device(id)
    })
}
