//! ROCm devices for [`arrow_device`]: Arrow data in device and pinned memory, ordered by HIP
//! events.
//!
//! Nothing is linked. HIP's library (`libamdhip64.so.7`, `.6` or `.5`) is loaded by the first call,
//! and a machine without one, or without a GPU, gets an error that says what to do.
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
//! Each call makes the device the current one of the thread that calls, and gives the thread its
//! own back.
//!
//! # Streams
//!
//! A queue that is opened here is a stream that does not wait for the default stream. One of the
//! caller's is [adopted](arrow_device::Device::adopt_queue): its raw handle is the `hipStream_t`,
//! and null is the device's default stream. `hipStreamPerThread` means another stream on each
//! thread, so a queue made of it, and all that is used on it, is to be used and dropped on the
//! thread that it was made on.
//!
//! A stream that is capturing a graph is refused with
//! [`Unsupported`](arrow_device::ErrorKind::Unsupported): there, an event would never pass. Other
//! calls leave captures of other threads alone.
//!
//! # Memory
//!
//! Memory that is allocated on a queue is allocated in its order, where HIP can, from a pool of
//! this library's own that keeps a bounded part of the device's memory; [`Options`] choose another
//! bound, the pool that is current to the device, or none. Data from the host is gathered in pinned
//! memory and goes over in few large pieces, several in one call where HIP can, unless
//! [`Options::with_batched_copies`] says otherwise. Pinned memory is read and written by the host
//! in place. Managed memory of HIP has no type in Arrow. Another GPU's memory is reached where HIP
//! lets the two be peers, that of pools included if it comes from the pool that was current to that
//! GPU when it was reached first, or from this library's. Otherwise it is
//! [`NotReachable`](arrow_device::ErrorKind::NotReachable) and copied by way of the host.
//!
//! # The last error
//!
//! HIP keeps the code of a thread's last call that failed, for `hipGetLastError`. A failed call of
//! this crate is taken away again, so that the program is not told of it. What the program had not
//! asked for before such a call is taken away as well, since HIP keeps one code.
//!
//! # Threads, `fork` and the end of the process
//!
//! Everything may be used on any thread. In a child of `fork` whose parent has loaded the driver,
//! and once the process has begun to exit, no driver is called any more and memory is left to the
//! system: calls are [`Unsupported`](arrow_device::ErrorKind::Unsupported) there, and
//! [`ShutDown`](arrow_device::ErrorKind::ShutDown) here. A child opens devices itself where its
//! parent has not loaded the driver.

mod api;

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
/// device, and reach all kinds. [`Kind::Managed`] is
/// [`Unsupported`](arrow_device::ErrorKind::Unsupported), because Arrow has no type for it.
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
/// println!("{}", arrow_device_rocm::diagnose());
/// ```
pub fn diagnose() -> Diagnosis {
    arrow_device_gpu::diagnose("ROCm", api::load())
}
