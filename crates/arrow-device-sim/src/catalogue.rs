//! Every mistake that the software device knows, with an example that makes it.
//!
//! The examples are programs that are compiled and run. Each ends with its report; in a test of
//! your own the simulator would panic where it is dropped, and show the report in full.
//! `sim.finish()` ends the simulation and returns the reports.
//!
//! # UnorderedRead
//!
//! A queue reads what another queue writes, and nothing makes it wait. The most common of all; a
//! wait for an event that was recorded too early is the same mistake. ([`Mistake::UnorderedRead`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let (one, two) = (sim.device().open_queue()?, sim.device().open_queue()?);
//! let mut memory = sim.device().allocate(8)?;
//! let (written, read) = (memory.spot(&one)?, memory.spot(&two)?);
//! sim.fill(&one, written, 8, 1)?;
//! // Missing: two.wait(&one.record()?)?;
//! sim.kernel("consume").reads(read, 8).launch(&two, |_| {})?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UnorderedRead);
//! # Ok(())
//! # }
//! ```
//!
//! # UnorderedWrite
//!
//! A queue writes what another still reads or writes: a staging buffer that is filled again too
//! early. ([`Mistake::UnorderedWrite`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let (one, two) = (sim.device().open_queue()?, sim.device().open_queue()?);
//! let mut memory = sim.device().allocate(8)?;
//! let (read, written) = (memory.spot(&one)?, memory.spot(&two)?);
//! sim.kernel("consume").reads(read, 8).launch(&one, |_| {})?;
//! // Missing: two.wait(&one.record()?)?;
//! sim.fill(&two, written, 8, 2)?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UnorderedWrite);
//! # Ok(())
//! # }
//! ```
//!
//! # WriteToShared
//!
//! Memory became a buffer, of which others may hold a share, and is written to.
//! ([`Mistake::WriteToShared`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! let spot = memory.spot(&queue)?;
//! let buffer = memory.into_buffer();
//! // Wrong: before `into_buffer` it would be right.
//! sim.fill(&queue, spot, 8, 1)?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::WriteToShared);
//! # Ok(())
//! # }
//! ```
//!
//! # WriteWhileMapped
//!
//! Work writes bytes that the host has mapped and may be reading. ([`Mistake::WriteWhileMapped`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Kind, Mistake, Sim};
//! let sim = Sim::builder().kind(Kind::HostReadable).build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! let spot = memory.spot(&queue)?;
//! let driver = sim.device().driver().clone();
//! let address = unsafe { driver.map(spot, 8) }?;
//! sim.fill(&queue, spot, 8, 1)?;
//! // Too late: before the fill it would be right.
//! unsafe { driver.unmap(spot, 8, address) };
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::WriteWhileMapped);
//! # Ok(())
//! # }
//! ```
//!
//! # UseAfterFree
//!
//! Work names memory that was freed. The address is not used again for long, so a late use is
//! caught late, too. ([`Mistake::UseAfterFree`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! let spot = memory.spot(&queue)?;
//! drop(memory);
//! // Wrong: `spot` outlived the memory.
//! sim.fill(&queue, spot, 8, 1)?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UseAfterFree);
//! # Ok(())
//! # }
//! ```
//!
//! # UseAfterView
//!
//! Work names a place when the view that told it, or the memory, is gone. The bytes may still be
//! there, because earlier work needs them: that is luck, and differs from run to run on a device.
//! ([`Mistake::UseAfterView`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! memory.write(&queue, &[1; 8])?;
//! let buffer = memory.into_buffer();
//! // Wrong: the view ends here, and its place stays.
//! let spot = buffer.on(&queue)?.location().spot();
//! sim.kernel("consume").reads(spot, 8).launch(&queue, |_| {})?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UseAfterView);
//! # Ok(())
//! # }
//! ```
//!
//! # OutOfBounds
//!
//! Work reaches past the end of an allocation. ([`Mistake::OutOfBounds`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! let spot = memory.spot(&queue)?;
//! sim.kernel("consume").reads(spot, 9).launch(&queue, |_| {})?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::OutOfBounds);
//! # Ok(())
//! # }
//! ```
//!
//! # UnknownMemory
//!
//! An address that is no memory of this simulator, such as one of the host.
//! ([`Mistake::UnknownMemory`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let bytes = [0_u8; 8];
//! let base = arrow_device::driver::Raw::from_ptr(bytes.as_ptr().cast_mut().cast());
//! let spot = arrow_device::driver::Spot { base, offset: 0 };
//! sim.kernel("consume").reads(spot, 8).launch(&queue, |_| {})?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UnknownMemory);
//! # Ok(())
//! # }
//! ```
//!
//! # UnreachableMemory
//!
//! A kernel on one device names memory on another, without peer access.
//! ([`Mistake::UnreachableMemory`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().devices(2).build();
//! # {
//! let (near, far) = (sim.device_number(0).open_queue()?, sim.device_number(1).open_queue()?);
//! let mut memory = sim.device_number(0).allocate(8)?;
//! let spot = memory.spot(&near)?;
//! // `memory.spot(&far)` is the error that the driver's `reaches` gives. Wrong: not asking.
//! sim.fill(&far, spot, 8, 1)?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UnreachableMemory);
//! # Ok(())
//! # }
//! ```
//!
//! # HandleOffset
//!
//! A handle is treated as an address. On OpenCL or Vulkan it would name something else.
//! ([`Mistake::HandleOffset`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Kind, Mistake, Sim};
//! let sim = Sim::builder().kind(Kind::Handles).build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(64)?;
//! let mut spot = memory.spot(&queue)?;
//! // Wrong: `offset: 8` is right.
//! spot.base = arrow_device::driver::Raw::from_bits(spot.base.bits() + 8);
//! sim.fill(&queue, spot, 8, 1)?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::HandleOffset);
//! # Ok(())
//! # }
//! ```
//!
//! # DeviceAddressOnHost
//!
//! The route of a copy says that one side is host memory, and it is not.
//! ([`Mistake::DeviceAddressOnHost`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! use arrow_device::driver::{Region, Route, Spot};
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(16)?;
//! let from = memory.spot(&queue)?;
//! let region = Region { from, to: Spot { offset: 8, ..from }, len: 8 };
//! // Wrong: `Route::Within` is right.
//! unsafe { queue.copy(Route::FromHost, &[region]) }?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::DeviceAddressOnHost);
//! # Ok(())
//! # }
//! ```
//!
//! # OverlappingRegions
//!
//! The regions of one copy have no order among each other, and two of them touch the same bytes.
//! ([`Mistake::OverlappingRegions`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! use arrow_device::driver::{Region, Route, Spot};
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(16)?;
//! let from = memory.spot(&queue)?;
//! let region = Region { from, to: Spot { offset: 4, ..from }, len: 8 };
//! unsafe { queue.copy(Route::Within, &[region]) }?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::OverlappingRegions);
//! # Ok(())
//! # }
//! ```
//!
//! # FreedInUse
//!
//! Memory is freed, and the host has not waited for the work that uses it. A wait for another queue
//! does not help. ([`Mistake::FreedInUse`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let driver = sim.device().driver().clone();
//! let base = unsafe { driver.allocate(8, None) }?;
//! sim.fill(&queue, arrow_device::driver::Spot { base, offset: 0 }, 8, 1)?;
//! // Missing: queue.synchronize()?;
//! unsafe { driver.free(base, 8) };
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::FreedInUse);
//! # Ok(())
//! # }
//! ```
//!
//! # FreedTwice
//!
//! The same memory is freed twice. ([`Mistake::FreedTwice`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let driver = sim.device().driver().clone();
//! let memory = unsafe { driver.allocate(8, None) }?;
//! unsafe { driver.free(memory, 8) };
//! unsafe { driver.free(memory, 8) };
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::FreedTwice);
//! # Ok(())
//! # }
//! ```
//!
//! # FreedWithWrongLength
//!
//! Memory is freed with another length than it has. ([`Mistake::FreedWithWrongLength`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let driver = sim.device().driver().clone();
//! let memory = unsafe { driver.allocate(8, None) }?;
//! unsafe { driver.free(memory, 16) };
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::FreedWithWrongLength);
//! # Ok(())
//! # }
//! ```
//!
//! # HostSourceChanged
//!
//! The host writes to the source of a copy before the copy has run. Seen when it runs.
//! ([`Mistake::HostSourceChanged`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! use arrow_device::driver::{Raw, Region, Route, Spot};
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! let bytes: *mut [u8; 8] = Box::into_raw(Box::new([1; 8]));
//! let from = Spot { base: Raw::from_ptr(bytes.cast()), offset: 0 };
//! let region = Region { from, to: memory.spot(&queue)?, len: 8 };
//! unsafe { queue.copy(Route::FromHost, &[region]) }?;
//! unsafe { *bytes = [2; 8] }; // Too early: `queue.synchronize()` first.
//! queue.synchronize()?;
//! drop(unsafe { Box::from_raw(bytes) });
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::HostSourceChanged);
//! # Ok(())
//! # }
//! ```
//!
//! # HostDestinationChanged
//!
//! The host writes to the destination of a copy before the copy has run. Seen when it runs.
//! ([`Mistake::HostDestinationChanged`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! use arrow_device::driver::{Raw, Region, Route, Spot};
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! let bytes: *mut [u8; 8] = Box::into_raw(Box::new([1; 8]));
//! let to = Spot { base: Raw::from_ptr(bytes.cast()), offset: 0 };
//! let region = Region { from: memory.spot(&queue)?, to, len: 8 };
//! unsafe { queue.copy(Route::ToHost, &[region]) }?;
//! unsafe { *bytes = [2; 8] }; // Too early: `queue.synchronize()` first.
//! queue.synchronize()?;
//! drop(unsafe { Box::from_raw(bytes) });
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::HostDestinationChanged);
//! # Ok(())
//! # }
//! ```
//!
//! # EventNotRecorded
//!
//! An event that was made and not recorded is waited for. On CUDA such a wait is no wait.
//! ([`Mistake::EventNotRecorded`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let driver = sim.device().driver().clone();
//! let event = driver.make_event()?;
//! let _ = unsafe { driver.wait(queue.raw(), event) }?;
//! unsafe { driver.destroy_event(event) };
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::EventNotRecorded);
//! # Ok(())
//! # }
//! ```
//!
//! # EventRecordedTwice
//!
//! An event is recorded again, perhaps after it was shown to somebody.
//! ([`Mistake::EventRecordedTwice`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let driver = sim.device().driver().clone();
//! let event = unsafe { driver.record(queue.raw(), driver.make_event()?) }?;
//! let event = unsafe { driver.record(queue.raw(), event) }?;
//! unsafe { driver.destroy_event(event) };
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::EventRecordedTwice);
//! # Ok(())
//! # }
//! ```
//!
//! # EventDestroyed
//!
//! An event is used after it was destroyed, or destroyed twice. The call is an error, too.
//! ([`Mistake::EventDestroyed`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let (one, two) = (sim.device().open_queue()?, sim.device().open_queue()?);
//! let driver = sim.device().driver().clone();
//! let event = one.record()?.raw(); // Wrong: the event ends here, its handle stays.
//! assert!(unsafe { driver.wait(two.raw(), event) }.is_err());
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::EventDestroyed);
//! # Ok(())
//! # }
//! ```
//!
//! # UnknownEvent
//!
//! A handle is used as an event that is none. The call is an error, too.
//! ([`Mistake::UnknownEvent`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let driver = sim.device().driver().clone();
//! let wild = arrow_device::driver::Raw::from_bits(0x1234);
//! assert!(unsafe { driver.wait(queue.raw(), wild) }.is_err());
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UnknownEvent);
//! # Ok(())
//! # }
//! ```
//!
//! # QueueClosed
//!
//! A queue is used after it was closed, or closed twice. The call is an error, too.
//! ([`Mistake::QueueClosed`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let driver = sim.device().driver().clone();
//! let queue = driver.open_queue()?;
//! unsafe { driver.close_queue(queue) };
//! assert!(unsafe { driver.synchronize(queue) }.is_err());
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::QueueClosed);
//! # Ok(())
//! # }
//! ```
//!
//! # UnknownQueue
//!
//! A handle is used as a queue that is none. The call is an error, too. ([`Mistake::UnknownQueue`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let driver = sim.device().driver().clone();
//! let wild = arrow_device::driver::Raw::from_bits(3);
//! assert!(unsafe { driver.synchronize(wild) }.is_err());
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::UnknownQueue);
//! # Ok(())
//! # }
//! ```
//!
//! # NotMapped
//!
//! A mapping is ended that was not begun, or ended already. ([`Mistake::NotMapped`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Kind, Mistake, Sim};
//! let sim = Sim::builder().kind(Kind::HostReadable).build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! let spot = memory.spot(&queue)?;
//! let driver = sim.device().driver().clone();
//! let address = unsafe { driver.map(spot, 8) }?;
//! unsafe { driver.unmap(spot, 8, address) };
//! unsafe { driver.unmap(spot, 8, address) };
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::NotMapped);
//! # Ok(())
//! # }
//! ```
//!
//! # KernelPanicked
//!
//! The closure of a kernel panicked: a check inside it failed, for example.
//! ([`Mistake::KernelPanicked`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! memory.write(&queue, &[1; 8])?;
//! let spot = memory.spot(&queue)?;
//! let check =
//!     |memory: &mut arrow_device_sim::KernelMemory| assert_eq!(memory.input(0), [2; 8]);
//! sim.kernel("check").reads(spot, 8).launch(&queue, check)?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::KernelPanicked);
//! # Ok(())
//! # }
//! ```
//!
//! # LeakedArray
//!
//! An array was not dropped when the simulator ended. The report names the place where it was
//! imported or built, and tells what stays with it. Where it was exported and not imported again,
//! the report says that, too: whoever has the C struct may not have released it.
//! ([`Mistake::LeakedArray`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device::{Array, DataType};
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! memory.write(&queue, &[1; 8])?;
//! let buffers = [None, Some(memory.into_buffer())];
//! let array = Array::builder(DataType::Int64).len(1).buffers(buffers).finish_ready()?;
//! std::mem::forget(array);
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::LeakedArray);
//! # Ok(())
//! # }
//! ```
//!
//! # LeakedView
//!
//! A view was not dropped when the simulator ended. What stays because of it is not reported beside
//! it: its array, the memory, the queue. ([`Mistake::LeakedView`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let queue = sim.device().open_queue()?;
//! let mut memory = sim.device().allocate(8)?;
//! memory.write(&queue, &[1; 8])?;
//! std::mem::forget(memory.into_buffer().on(&queue)?);
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::LeakedView);
//! # Ok(())
//! # }
//! ```
//!
//! # LeakedAllocation
//!
//! Memory was not freed when the simulator ended, although all work has run.
//! ([`Mistake::LeakedAllocation`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let memory = sim.device().allocate(8)?;
//! std::mem::forget(memory);
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::LeakedAllocation);
//! # Ok(())
//! # }
//! ```
//!
//! # LeakedMapping
//!
//! Memory was still mapped when the simulator ended. The memory stays with it.
//! ([`Mistake::LeakedMapping`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Kind, Mistake, Sim};
//! let sim = Sim::builder().kind(Kind::HostReadable).build();
//! # {
//! let driver = sim.device().driver().clone();
//! let base = unsafe { driver.allocate(8, None) }?;
//! let spot = arrow_device::driver::Spot { base, offset: 0 };
//! let _ = unsafe { driver.map(spot, 8) }?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::LeakedMapping);
//! # Ok(())
//! # }
//! ```
//!
//! # LeakedEvent
//!
//! An event was not destroyed when the simulator ended. ([`Mistake::LeakedEvent`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let driver = sim.device().driver().clone();
//! let event = driver.make_event()?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::LeakedEvent);
//! # Ok(())
//! # }
//! ```
//!
//! # LeakedQueue
//!
//! A queue was not closed when the simulator ended. ([`Mistake::LeakedQueue`])
//!
//! ```
//! # fn main() -> arrow_device::Result<()> {
//! # use arrow_device_sim::{Mistake, Sim};
//! let sim = Sim::builder().build();
//! # {
//! let driver = sim.device().driver().clone();
//! let queue = driver.open_queue()?;
//! # }
//! assert_eq!(sim.finish()[0].kind, Mistake::LeakedQueue);
//! # Ok(())
//! # }
//! ```

use crate::Mistake;

/// All of them, in the order of this page.
pub const ALL: &[Mistake] = &[
    Mistake::UnorderedRead,
    Mistake::UnorderedWrite,
    Mistake::WriteToShared,
    Mistake::WriteWhileMapped,
    Mistake::UseAfterFree,
    Mistake::UseAfterView,
    Mistake::OutOfBounds,
    Mistake::UnknownMemory,
    Mistake::UnreachableMemory,
    Mistake::HandleOffset,
    Mistake::DeviceAddressOnHost,
    Mistake::OverlappingRegions,
    Mistake::FreedInUse,
    Mistake::FreedTwice,
    Mistake::FreedWithWrongLength,
    Mistake::HostSourceChanged,
    Mistake::HostDestinationChanged,
    Mistake::EventNotRecorded,
    Mistake::EventRecordedTwice,
    Mistake::EventDestroyed,
    Mistake::UnknownEvent,
    Mistake::QueueClosed,
    Mistake::UnknownQueue,
    Mistake::NotMapped,
    Mistake::KernelPanicked,
    Mistake::LeakedArray,
    Mistake::LeakedView,
    Mistake::LeakedAllocation,
    Mistake::LeakedMapping,
    Mistake::LeakedEvent,
    Mistake::LeakedQueue,
];
