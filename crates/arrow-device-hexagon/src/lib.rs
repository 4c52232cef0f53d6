//! Hexagon DSPs for [`arrow_device`]: Arrow data in `rpcmem` memory, which the processor and a
//! Hexagon DSP of Qualcomm's share.
//!
//! Nothing is linked. Qualcomm's library (`libcdsprpc.so`, `libcdsprpc.dll`) is loaded by the first
//! call. A machine without the library gets an error that says where the library comes from.
//!
//! ```
//! use arrow_device_hexagon::domain;
//!
//! if let Err(why) = arrow_device_hexagon::is_available() {
//!     println!("no Hexagon DSP here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_hexagon::open(domain::CDSP)?;
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
//! | `device_type` | `ARROW_DEVICE_HEXAGON`, 16 |
//! | `buffers[i]` | the address at which an allocation of `rpcmem_alloc` or `rpcmem_alloc2` begins, in the address space of the processor |
//! | `device_id` | the number of the DSP's domain, such as 3 for the compute DSP |
//! | `sync_event` | always null: the exporter waits before it exports |
//!
//! A DSP knows memory by the file descriptor of an allocation. `rpcmem_to_fd` finds the descriptor
//! by the address at which the allocation begins, and by no other address. So each buffer of an
//! array is an allocation of its own ([`separate`](arrow_device::driver::Properties::separate)),
//! and a consumer that was handed a `buffers[i]` gets the descriptor without this crate.
//! [`place_of`] finds the descriptor and the offset also for addresses inside an allocation of this
//! crate's.
//!
//! An allocation of `rpcmem` takes whole pages and a file descriptor. For many small arrays that
//! come and go, give the device an [allocator](arrow_device::Device::with_allocator) that uses
//! allocations again, such as [`Recycler`](arrow_device::Recycler).
//!
//! # The queue of a DSP
//!
//! FastRPC has no streams and no events. A call of FastRPC returns when the DSP is done. An engine
//! that submits work without waiting has a command ring of its own, such as a `dspqueue` of
//! Qualcomm's library. The engine describes this ring to the library by the trait [`Ring`], which
//! has four questions: how many commands were submitted, whether the first `n` are done, wait for
//! that, and whether the DSP is gone. Commands are submitted by the engine itself.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use arrow_device_hexagon::{Progress, Ring};
//! # #[derive(Debug)]
//! # struct MyRing;
//! # unsafe impl Ring for MyRing {
//! #     fn submitted(&self) -> u64 { 0 }
//! #     fn progress(&self, _: u64) -> Progress { Progress::Completed }
//! #     fn wait(&self, _: u64, _: Option<Duration>) -> Progress { Progress::Completed }
//! #     fn is_lost(&self) -> bool { false }
//! # }
//! # impl MyRing {
//! #     fn submit_filter(&self, _: arrow_device_hexagon::Place) {}
//! # }
//! # let (mut c_schema, mut c_array) =
//! #     (arrow_device::abi::ArrowSchema::empty(), arrow_device::abi::ArrowDeviceArray::empty());
//! use std::sync::Arc;
//!
//! use arrow_device::{Array, Schema};
//! use arrow_device_hexagon::{Mapping, Opening, domain, open_with, place_of};
//!
//! let ring = Arc::new(MyRing);
//! let opening = Opening::new(domain::CDSP)
//!     .with_ring(ring.clone())
//!     .with_mapping(Mapping::WhileAllocated);
//! let device = open_with(opening)?;
//! let queue = device.open_queue()?;
//!
//! // SAFETY: the structs were filled by a producer that keeps to the interface.
//! let schema = unsafe { Schema::import(&mut c_schema) }?;
//! let array = unsafe { Array::import(&mut c_array, &schema) }?;
//! let view = array.on(&queue)?;
//! if let Some(place) = place_of(view.buffer(1).location().spot()) {
//!     ring.submit_filter(place); // a command with the descriptor and the offset
//! }
//! // The use ends here: the buffers are kept until the ring has passed what was submitted.
//! drop(view);
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! All queues of a device stand for its one ring, in which commands are done one after the other.
//! An event stands for the commands that were submitted before it was recorded. On a device without
//! a ring, queues have no work: everything that this crate does has happened when the call returns,
//! and the engine waits for the DSP before it makes an array of the results.
//!
//! Copies are made by the processor. On a device with a ring they wait for the ring first
//! ([`WaitingCopies::All`](arrow_device::driver::WaitingCopies::All)), because the ring is not told
//! of them; polled copies are refused there. Fresh memory is filled by the host in place, without a
//! wait.
//!
//! # Caches
//!
//! Memory is allocated with `RPCMEM_DEFAULT_FLAGS`: cached, by the processor and by the DSP. This
//! crate does no maintenance of caches, since FastRPC has no function for that on the processor's
//! side. Who does it depends on how the DSP is given the memory, as Qualcomm's headers say:
//!
//! * A buffer that is passed as an argument of a FastRPC call is maintained by the driver of
//!   FastRPC, around the call.
//! * A buffer that is mapped with `FASTRPC_MAP_FD` ([`Mapping::WhileAllocated`]) is maintained by
//!   its users: by the flags of `dspqueue_buffer`, which flush and invalidate the caches of sender
//!   and recipient, or by the program on the DSP.
//!
//! A [`Ring`] promises that this has happened for each of its commands: a command sees what the
//! processor wrote before the command was submitted, and the processor sees what a command wrote
//! once the command is [`Completed`](Progress::Completed).
//!
//! # A DSP that dies
//!
//! When a program on the DSP crashes, or the DSP restarts, the session ends. Once the ring says so
//! ([`Ring::is_lost`]), the device is lost: whoever asks or waits for commands that were not
//! completed gets an [`ErrorKind::DeviceLost`], and what was kept for the ring's commands is
//! released. The memory itself stays readable. An application that goes on opens the device again
//! with a new ring.
//!
//! Memory that was mapped in the session that ended is not mapped in the next session. A copy to
//! the new device shares an array of the old one, because both devices have the same id. So copy
//! such an array with [`Options::always`](arrow_device::copy::Options::always) before a command
//! uses the array.
//!
//! # Android
//!
//! An application may load `libcdsprpc.so` only if its manifest names the library
//! (`<uses-native-library android:name="libcdsprpc.so" android:required="false"/>`), from Android
//! 12 on.
//!
//! # What was tested
//!
//! No Hexagon hardware and no FastRPC was at hand. This crate was tested on a stand-in for the
//! library, whose memory is files of memory, and whose DSP is another process: a native one, and a
//! program in the instructions of a Hexagon DSP under `qemu-hexagon`.

mod driver;
mod functions;
mod opening;
mod ring;
mod table;

use std::ffi::c_int;

use arrow_device::driver::{Driver, Spot};
use arrow_device::{Device, Error, ErrorKind, Result};

use driver::HexagonDriver;

pub use functions::{Alloc, Alloc2, Free, Functions, Mmap, Munmap, ToFd};
pub use opening::{Mapping, Opening};
pub use ring::{Progress, Ring};

/// The numbers of the DSPs' domains, as Qualcomm's headers have them.
pub mod domain {
    /// The application DSP, for audio on most chips.
    pub const ADSP: u32 = 0;
    /// The DSP of the modem.
    pub const MDSP: u32 = 1;
    /// The DSP of the sensors.
    pub const SDSP: u32 = 2;
    /// The compute DSP, which engines use.
    pub const CDSP: u32 = 3;
    /// The second compute DSP of chips that have two.
    pub const CDSP1: u32 = 4;
}

/// Where bytes lie, as a DSP is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file descriptor of the allocation, which is open as long as the memory is allocated.
    pub descriptor: c_int,
    /// Where in the allocation the bytes begin.
    pub offset: u64,
    /// How many bytes there are from there to the end of the allocation.
    pub remaining: u64,
}

/// Checks whether there is memory that a DSP can share, by allocating some. The error says why
/// there is none and where the library comes from.
///
/// Whether the chip has a DSP of some domain shows when a session is opened, which the application
/// does.
pub fn is_available() -> Result<()> {
    let driver = HexagonDriver::new(Opening::new(domain::CDSP))?;
    // SAFETY: UNS-22: the length is not 0.
    let memory = unsafe { driver.allocate(1, None) }?;
    // SAFETY: UNS-22: the memory was allocated above with this length, and nothing uses it.
    unsafe { driver.free(memory, 1) };
    Ok(())
}

/// Opens a device for the memory that is shared with the DSP of a domain.
///
/// The device has no ring: see the [crate's page](crate#the-queue-of-a-dsp). No session is opened,
/// because that takes a program for the DSP.
pub fn open(domain: u32) -> Result<Device> {
    open_with(Opening::new(domain))
}

/// Opens a device as an [`Opening`] says.
pub fn open_with(opening: Opening) -> Result<Device> {
    HexagonDriver::new(opening).map(Device::new)
}

/// Returns what to tell a DSP about bytes in memory of this crate's devices. `None` where the
/// memory is somebody else's.
///
/// The address in the `buffers` of another party's array begins an allocation of that party's.
/// `rpcmem_to_fd` of the library that both use has its descriptor.
pub fn place_of(spot: Spot) -> Option<Place> {
    let offset = usize::try_from(spot.offset).ok()?;
    let address = spot.base.bits().checked_add(offset)?;
    let (start, found) = table::find(address)?;
    let offset = (address - start) as u64;
    Some(Place { descriptor: found.descriptor, offset, remaining: found.len - offset })
}

fn out_of_memory(len: u64) -> Error {
    let message = format!(
        "{len} bytes of rpcmem asked for, and one of the file descriptors that the process may have"
    );
    Error::new(ErrorKind::OutOfMemory, message).during("allocate")
}
