//! CUDA devices for [`arrow_device`]: Arrow data in device, pinned and managed memory, ordered by
//! CUDA events.
//!
//! Nothing is linked. The driver's library (`libcuda.so.1`, `nvcuda.dll`) is loaded by the first
//! call, and a machine without one, or without a GPU, gets an error that says what to do. No
//! toolkit is needed, at no time.
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
//! Both sides use the device's primary context, as the CUDA runtime does. It is retained when a
//! device is opened for the first time, and kept: data that was exported outlives whoever opened
//! the device. Each call makes it current on the thread that calls, and gives the thread its own
//! back.
//!
//! # Streams
//!
//! A queue that is opened here is a stream that does not wait for the legacy default stream. One of
//! the caller's is [adopted](arrow_device::Device::adopt_queue): its raw handle is the
//! `cudaStream_t` or `CUstream`. Null and `cudaStreamLegacy` are the device's default stream.
//! `cudaStreamPerThread` means another stream on each thread, so a queue made of it, and all that
//! is used on it, is to be used and dropped on the thread that it was made on.
//!
//! A stream that is capturing a graph is refused with
//! [`Unsupported`](arrow_device::ErrorKind::Unsupported): there, an event would never pass. Other
//! calls leave captures of other threads alone.
//!
//! # Memory
//!
//! Memory that is allocated on a queue is allocated in its order, where the driver can (from CUDA
//! 11.2 on), from a pool of this library's own that keeps a bounded part of the device's memory;
//! [`Options`] choose another bound, the pool that is current to the device, or none. Data from the
//! host is gathered in pinned memory and goes over in few large pieces, several in one call where
//! the driver can. Others report that this call crashes on devices of compute capability 10, so
//! copies are submitted one by one there unless [`Options::with_batched_copies`] says otherwise.
//! Pinned memory is read and written by the host in place. Managed memory is read in place where
//! the device has concurrent managed access, and otherwise by copy; no more of it is given out than
//! the device has free.
//!
//! Another GPU's memory is reached where the driver lets the two be peers, that of pools included
//! if it comes from the pool that was current to that GPU when it was reached first, or from this
//! library's. Otherwise it is [`NotReachable`](arrow_device::ErrorKind::NotReachable) and copied by
//! way of the host.
//!
//! # Threads, `fork` and the end of the process
//!
//! Everything may be used on any thread. In a child of `fork` whose parent has loaded the driver,
//! and once the process has begun to exit, no driver is called any more and memory is left to the
//! system: calls are [`Unsupported`](arrow_device::ErrorKind::Unsupported) there, and
//! [`ShutDown`](arrow_device::ErrorKind::ShutDown) here. A child opens devices itself where its
//! parent has not loaded the driver.

mod api;
#[cfg(feature = "cudarc")]
pub mod interop;
mod meaning;

pub use arrow_device_gpu::{Diagnosis, Kind, Listed, Options, Pool};

use arrow_device::{Device, Result};
use arrow_device_gpu::GpuDriver;

/// Whether there is a device; where not, the error says why and what to do.
pub fn is_available() -> Result<()> {
    devices().map(drop)
}

/// The devices.
pub fn devices() -> Result<Vec<Listed>> {
    arrow_device_gpu::list(api::load()?)
}

/// Opens a device, with its own memory.
pub fn open(ordinal: usize) -> Result<Device> {
    open_with(ordinal, Kind::Device)
}

/// Opens a device, as [`open`] does, with this kind of memory. The queues are streams of the same
/// device, and reach all kinds.
pub fn open_with(ordinal: usize, kind: Kind) -> Result<Device> {
    open_as(ordinal, Options::new().with_kind(kind))
}

/// Opens a device, as [`open`] does, with a choice of the pool that memory comes from and of how
/// copies are submitted.
pub fn open_as(ordinal: usize, options: Options) -> Result<Device> {
    Ok(Device::new(GpuDriver::open(api::load()?, ordinal, options)?))
}

/// Which library was found, its version, which functions it lacks, and which devices there are: to
/// be printed.
///
/// ```
/// println!("{}", arrow_device_cuda::diagnose());
/// ```
pub fn diagnose() -> Diagnosis {
    arrow_device_gpu::diagnose("CUDA", api::load())
}
