//! CUDA devices for [`arrow_device`]: Arrow data in device, pinned and managed memory, ordered by
//! CUDA events.
//!
//! Nothing is linked. The driver's library (`libcuda.so.1`, `nvcuda.dll`) is loaded by the first
//! call. A machine without the library, or without a GPU, gets an error that says what to do. No
//! toolkit is needed, neither to build nor to run.
//!
//! ```
//! if let Err(why) = arrow_device_cuda::is_available() {
//!     println!("no CUDA here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_cuda::open(0)?;
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
//! | `device_type` | `ARROW_DEVICE_CUDA`, 2; `ARROW_DEVICE_CUDA_HOST`, 3; `ARROW_DEVICE_CUDA_MANAGED`, 13 |
//! | `buffers[i]` | an address: of the device, of pinned host memory, of managed memory |
//! | `device_id` | the CUDA ordinal. For pinned and managed memory -1 and 0 are accepted, too |
//! | `sync_event` | null, or a pointer to a `cudaEvent_t`, which is the same as a `CUevent` |
//!
//! Both sides use the device's primary context, as the CUDA runtime does. This crate retains it
//! when a device is opened for the first time, and never releases it, because data that was
//! exported outlives whoever opened the device. Each call makes the context current on the calling
//! thread, and makes the thread's former context current again.
//!
//! # Streams
//!
//! A queue that is opened here is a stream that does not wait for the legacy default stream. A
//! stream of the caller's can be [adopted](arrow_device::Device::adopt_queue): its raw handle is
//! the `cudaStream_t` or `CUstream`. Null and `cudaStreamLegacy` are the device's default stream.
//! `cudaStreamPerThread` means another stream on each thread, so a queue made of it, and all that
//! is used on that queue, is to be used and dropped on the thread on which the queue was made.
//!
//! A stream that is capturing a graph is refused with
//! [`Unsupported`](arrow_device::ErrorKind::Unsupported), because an event on it would never pass.
//! Other calls do not disturb captures of other threads.
//!
//! # Memory
//!
//! Memory that is allocated on a queue is allocated in its order, where the driver can (from CUDA
//! 11.2 on), from a pool of this library's own that keeps a bounded part of the device's memory.
//! [`Options`] choose another bound, the pool that is current to the device, or none. Data from the
//! host is gathered in pinned memory and copied in few large pieces, several of them in one call
//! where the driver can. Others have reported that this call crashes on devices of compute
//! capability 10, so copies are submitted one by one there unless [`Options::with_batched_copies`]
//! says otherwise. Pinned memory is read and written by the host in place. Managed memory is read
//! in place where the device has concurrent managed access, and is copied otherwise. No more
//! managed memory is given out than the device has free.
//!
//! Another GPU's memory is reached where the driver lets the two be peers. This includes memory of
//! pools if it comes from this library's pool, or from the pool that was current to that GPU when
//! it was first reached. Otherwise the memory is
//! [`NotReachable`](arrow_device::ErrorKind::NotReachable), and copies pass through the host.
//!
//! # Other processes
//!
//! On Linux, memory of a device that was [made to be shared](arrow_device::Device::shareable) is
//! opened by other processes, by descriptors: see the crate `arrow-device-share`. Processes that
//! share such memory have to [trust each other](arrow_device::Device::sharing_needs_trust). Each
//! allocation takes whole units of the driver, which are 2 MiB as a rule. Pinned and managed memory
//! is not shared, because the driver has no descriptors for either.
//!
//! # Threads, `fork` and the end of the process
//!
//! Everything may be used on any thread. In a child of `fork` whose parent has loaded the driver,
//! calls are [`Unsupported`](arrow_device::ErrorKind::Unsupported). Once the process has begun to
//! exit, they are [`ShutDown`](arrow_device::ErrorKind::ShutDown). In both cases no driver is
//! called any more, and memory is left to the system. A child opens devices itself where its parent
//! has not loaded the driver.

mod api;
#[cfg(feature = "cudarc")]
pub mod interop;
mod meaning;

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
/// the same device, and reach the memory of all kinds.
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
/// println!("{}", arrow_device_cuda::diagnose());
/// ```
pub fn diagnose() -> Diagnosis {
    arrow_device_gpu::diagnose("CUDA", api::load())
}
