//! ROCm devices for [`arrow_device`]: Arrow data in device and pinned memory, ordered by HIP
//! events.
//!
//! Nothing is linked. HIP's library (`libamdhip64.so.7`, `.6` or `.5`) is loaded by the first call.
//! A machine without the library, or without a GPU, gets an error that says what to do.
//!
//! ```
//! if let Err(why) = arrow_device_rocm::is_available() {
//!     println!("no ROCm here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_rocm::open(0)?;
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
//! | `device_type` | `ARROW_DEVICE_ROCM`, 10; `ARROW_DEVICE_ROCM_HOST`, 11 |
//! | `buffers[i]` | an address: of the device, or of pinned host memory |
//! | `device_id` | the HIP ordinal. For pinned memory -1 and 0 are accepted, too |
//! | `sync_event` | null, or a pointer to a `hipEvent_t` |
//!
//! Each call makes the device the current one of the calling thread, and makes the thread's former
//! device current again.
//!
//! # Streams
//!
//! A queue that is opened here is a stream that does not wait for the default stream. A stream of
//! the caller's can be [adopted](arrow_device::Device::adopt_queue): its raw handle is the
//! `hipStream_t`, and null is the device's default stream. `hipStreamPerThread` means another
//! stream on each thread, so a queue made of it, and all that is used on that queue, is to be used
//! and dropped on the thread on which the queue was made.
//!
//! A stream that is capturing a graph is refused with
//! [`Unsupported`](arrow_device::ErrorKind::Unsupported), because an event on it would never pass.
//! Other calls do not disturb captures of other threads.
//!
//! # Memory
//!
//! Memory that is allocated on a queue is allocated in its order, where HIP can, from a pool of
//! this library's own that keeps a bounded part of the device's memory. [`Options`] choose another
//! bound, the pool that is current to the device, or none. Data from the host is gathered in pinned
//! memory and copied in few large pieces, several of them in one call where HIP can, unless
//! [`Options::with_batched_copies`] says otherwise. Pinned memory is read and written by the host
//! in place. Managed memory of HIP has no type in Arrow. Another GPU's memory is reached where HIP
//! lets the two be peers. This includes memory of pools if it comes from this library's pool, or
//! from the pool that was current to that GPU when it was first reached. Otherwise the memory is
//! [`NotReachable`](arrow_device::ErrorKind::NotReachable), and copies pass through the host.
//!
//! # Other processes
//!
//! On Linux, and from HIP 6.1 on, memory of a device that was
//! [made to be shared](arrow_device::Device::shareable) is opened by other processes, by
//! descriptors: see the crate `arrow-device-share`. Processes that share such memory have to
//! [trust each other](arrow_device::Device::sharing_needs_trust). Pinned memory is not shared,
//! because HIP has no descriptors for it.
//!
//! # The last error
//!
//! HIP keeps the code of a thread's last failed call, for `hipGetLastError`. This crate takes the
//! code of its own failed calls away again, so that the program does not see it. HIP keeps one code
//! only, so an earlier code that the program had not asked for is lost as well.
//!
//! # Threads, `fork` and the end of the process
//!
//! Everything may be used on any thread. In a child of `fork` whose parent has loaded the driver,
//! calls are [`Unsupported`](arrow_device::ErrorKind::Unsupported). Once the process has begun to
//! exit, they are [`ShutDown`](arrow_device::ErrorKind::ShutDown). In both cases no driver is
//! called any more, and memory is left to the system. A child opens devices itself where its parent
//! has not loaded the driver.

mod api;

pub use arrow_device_gpu::{Diagnosis, Kind, Listed, Options, Pool};

use arrow_device::{Device, Result};
use arrow_device_gpu::GpuDriver;

/// Checks whether there is a device. The error says why there is none and what to do.
pub fn is_available() -> Result<()> {
    devices().map(drop)
}

/// Lists the devices.
pub fn devices() -> Result<Vec<Listed>> {
    arrow_device_gpu::list(api::load()?)
}

/// Opens a device with its own memory.
pub fn open(ordinal: usize) -> Result<Device> {
    open_with(ordinal, Kind::Device)
}

/// Opens a device, as [`open`] does, with this kind of memory. Queues of each kind are streams of
/// the same device, and reach the memory of all kinds. [`Kind::Managed`] is
/// [`Unsupported`](arrow_device::ErrorKind::Unsupported), because Arrow has no type for it.
pub fn open_with(ordinal: usize, kind: Kind) -> Result<Device> {
    open_as(ordinal, Options::new().with_kind(kind))
}

/// Opens a device, as [`open`] does, with options: the kind of memory, the pool that memory comes
/// from, and how copies are submitted.
pub fn open_as(ordinal: usize, options: Options) -> Result<Device> {
    Ok(Device::new(GpuDriver::open(api::load()?, ordinal, options)?))
}

/// Describes which library was found, its version, which functions it lacks, and which devices
/// there are, to be printed.
///
/// ```
/// println!("{}", arrow_device_rocm::diagnose());
/// ```
pub fn diagnose() -> Diagnosis {
    arrow_device_gpu::diagnose("ROCm", api::load())
}
