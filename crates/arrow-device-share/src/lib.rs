//! Arrow arrays of one process, used by another process of the same machine without a copy.
//!
//! | to | use |
//! |---|---|
//! | make an array whose memory can be shared | [`to_shareable`], or [`Device::shareable`] |
//! | share one array, and get a descriptor that stands for it | [`share`], [`open`] |
//! | send many arrays over a socket | [`Sender`], [`Receiver`] |
//! | send a stream over a socket | [`Sender::serve`], [`Receiver::into_stream`] |
//! | send received arrays on to a third process | [`Receiver::passing_on`] |
//! | send arrays before their data is there | [`Sender::early`], [`Receiver::taking_early`] |
//!
//! The other process gets descriptors of memory, and a short message that says which array lies
//! there. The bytes stay where they are, and both processes see the same pages. The other process
//! has ordinary arrays, of which copies, views and C structs can be made as of any others.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use arrow_device::{Array, DataType, Device};
//! use arrow_device_share::{open, share, to_shareable};
//!
//! let host = Device::host();
//! let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)])?;
//! let numbers = to_shareable(&numbers, &host)?;
//!
//! let (ticket, sender) = share(&numbers)?;
//! // `ticket` is one descriptor: send it to another process, or let a child inherit it.
//! let opened = open(ticket, [host])?;
//! assert!(opened.equals(&numbers)?);
//!
//! assert_eq!(sender.held()?, 1);
//! drop(opened);
//! assert!(sender.wait_until_released(None)?);
//! # }
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # Which memory can be shared
//!
//! Only memory that was allocated to be shared: [`Device::shareable`] gives a handle of the device
//! that allocates such memory, also for copies to its queues. Other memory is refused with an error
//! that names the column. An array of many columns that was copied to such a device lies in one
//! allocation, and needs one descriptor.
//!
//! Memory of a device can be opened by a device of the same
//! [domain](arrow_device::driver::SharingDomain), which is the same physical device driven by the
//! same runtime. The number of the device may be another one in the other process.
//!
//! # When the data is there, and when it may go
//!
//! Sending waits until the array is ready, unless both sides agreed on arrays that come before
//! their data ([`Sender::early`]). The sender keeps the array until the receiver has
//! dropped the last thing that was made of it, after the last use on every queue, or until the
//! other process has ended. What is still held when the [`Sender`] is dropped is kept by a thread
//! of this crate, which sleeps until the other side tells.
//!
//! # Trust
//!
//! The right to the memory is a descriptor. A process that has none can do nothing; a process that
//! was given one can read the whole allocation, for as long as it likes. No other process can
//! write, except where the runtime of a device leaves no choice (see below).
//!
//! A receiver trusts nobody. Messages are checked before a number in them is used, sizes are
//! compared with what the system says of the descriptor, and memory that could be shortened is not
//! mapped, because reading it could end the process. Memory of the host that the sender could
//! change while safe code reads it is refused as well: host memory is *fixed* when it is sent,
//! which means that the system lets nobody write to it any more, the sender included. Memory that
//! an allocator uses again cannot be fixed. A receiver that trusts its sender accepts such memory
//! ([`Receiver::trusting`]).
//!
//! Some runtimes make this impossible: whoever has one of their descriptors can write, and they
//! believe what is said of a descriptor. Memory of such devices
//! ([`Device::sharing_needs_trust`](arrow_device::Device::sharing_needs_trust)) is sent by
//! [`Sender::trusting`], and received by [`Receiver::trusting`], and by no other sender or
//! receiver.
//!
//! The data itself can be wrong, as the data of every import can:
//! [`Array::validate`](arrow_device::Array::validate) finds that out. Validate what comes from a
//! process that you do not trust before you export it to another library: C structs tell no lengths
//! of buffers, so that the other library believes the offsets.
//!
//! # Platforms
//!
//! | memory | Linux | elsewhere |
//! |---|---|---|
//! | the host's | sealed files without a name (`memfd_create`), fixed when they are sent | not yet |
//! | of the software device | sealed files without a name, not fixed | not yet |
//! | of OpenCL, shared with the host | sealed files without a name, which the runtime uses in place; fixed where the device is a processor | not yet |
//! | of OpenCL, the device's own | not at all: no function of OpenCL exports memory | not at all |
//! | of Vulkan | opaque descriptors of `VK_KHR_external_memory_fd`, not fixed; [both sides trust each other](#trust) | not yet |
//! | of CUDA and ROCm, the device's own | descriptors of allocations that are mapped by hand, not fixed; [both sides trust each other](#trust). Not yet on hardware | not yet |
//! | of CUDA and ROCm, pinned or managed | not at all | not at all |
//!
//! `docs/processes.md` in the repository describes the protocol, so that it can be spoken from
//! other languages.
//!
//! [`Device::shareable`]: arrow_device::Device::shareable

#![cfg(target_os = "linux")]

mod described;
mod events;
mod frames;
mod keeper;
mod maker;
mod problem;
mod process;
mod receiver;
mod releases;
mod schemas;
mod sender;
mod shape;
mod teller;
mod ticket;
mod wire;

pub use receiver::Receiver;
pub use sender::{Sender, to_shareable};
pub use ticket::{open, share};

/// The snippets of the page about processes.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/processes.md")]
struct Page;
