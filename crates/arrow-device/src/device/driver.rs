//! What a device must be able to do: the trait that a backend implements.
//!
//! A [`Driver`] is a table of plain operations on raw handles. A driver owns nothing that a caller
//! holds, and decides nothing about lifetimes: [`Device`](crate::Device), [`Queue`], [`Event`] and
//! [`Memory`] own the handles and call the driver at the right time. A backend is written once
//! against this page and works with everything in this crate, from any crate. A whole backend, to
//! be copied, is in `examples/own_device` of this crate. The suite of `arrow-device-testkit` judges
//! backends. `docs/drivers.md` in the repository leads through both.
//!
//! Memory safety rests on the numbered obligations DRV-1 to DRV-31, which the [trait](Driver)
//! lists. The numbers are those of `docs/safety.md` in the repository, where each obligation stands
//! in full. What holds for every operation, in short:
//!
//! * An operation can be called on any thread, and from several at once (DRV-1).
//! * An operation never unwinds (DRV-2), and calls nothing of this library that reaches a driver,
//!   but for callbacks of the application where a runtime is polled (DRV-3). An operation that
//!   panics all the same is stopped by the guard that a device puts around its driver. The call is
//!   then an [`ErrorKind::Panicked`], and what the operation was to give back is abandoned and
//!   counted.
//! * An operation only submits work. The operations that may wait for a device are the ones whose
//!   documentation says so (DRV-5).
//! * A queue is in order (DRV-4).
//! * In a child of `fork`, and after the process has begun to exit, the library calls no operation.
//!   What a driver does by itself has to keep to that, too (DRV-8).
//!
//! # Runtimes that are bound to a thread
//!
//! A driver is `Send` and `Sync`, and so is everything that is made of it: any thread that calls
//! the library may release what an array keeps. A runtime whose objects belong to one thread is
//! driven in one of two ways:
//!
//! * The driver has no object of the runtime, but numbers that stand for them, and hands each
//!   operation to the thread that has the objects, through a channel to that thread's loop.
//!   Operations without an answer (`free`, `destroy_event`, `close_queue`, `copy`) are sent and not
//!   waited for. Operations that have to answer at once (`allocate`, `record`, `is_complete`) are
//!   answered from what the driver knows, such as numbers that it gives out itself and a counter
//!   that the other thread advances.
//! * Where the program has one thread, as on `wasm32` without threads, the driver holds the objects
//!   in a type that is declared `Send` and `Sync`. The proof of that `unsafe impl` is that there is
//!   no other thread, so the code has to refuse to compile for targets with threads
//!   (`cfg(target_feature = "atomics")`). A check at run time that the thread is the right one
//!   would not do: values are also dropped on the wrong thread.
//!
//! # Drivers that may not wait
//!
//! On the thread of a browser's page, or of a user interface, nothing may block. Whether an
//! operation may wait depends on the thread that calls it, so the operation itself answers.
//! `synchronize`, `map`, and `wait_on_host` with or without a time limit, do nothing and return an
//! error of the kind [`ErrorKind::NotReady`], such as [`may_not_wait`] makes, where they would have
//! to wait for work that is not finished and may not. Where the work is finished the operation
//! succeeds as always. `map_to_fill` answers `None`, and no other operation waits (DRV-5).
//!
//! Everything in the library that waits returns this error to its caller: [`Queue::synchronize`],
//! [`Event::synchronize`], a copy to the host, the reading of lengths for a copy to a device,
//! [`Memory::write`], reading an array on the host, exports to consumers that know no events, and
//! streams of such exports, which end with the error. As after every other error, nothing is lost
//! and nothing is freed early: memory that work still uses is held back until the driver says that
//! the work is finished. Drops never wait. An allocation that finds no memory releases what has
//! passed and does not wait for more, and
//! [`wait_until_released`](crate::deferred::wait_until_released) returns the error at once.
//!
//! Everything that does not wait works as on any driver: building arrays, views, copies to a device
//! that need no lengths, exports with an event, [`is_ready`](crate::Array::is_ready) and
//! [`release_finished`](crate::deferred::release_finished). [`PolledCopy`](crate::copy::PolledCopy)
//! does what has to come to the host.
//!
//! # Runtimes that call back
//!
//! A task that awaits an event ([`AwaitedEvent`](crate::AwaitedEvent)) is woken by the driver where
//! the driver can: [`notify`](Driver::notify) hands an [`EventNotice`] to a callback of the runtime
//! (DRV-29). Callbacks of most runtimes may not call the runtime and should not take long. For
//! these, [`EventNotices::FromCallbacks`] has a thread of the library wake the task. Where
//! callbacks may do anything, as in the event loop of a browser's page, [`EventNotices::Anywhere`]
//! has the callback wake the task, and there is no thread. For a driver without notices, a thread
//! of the library calls [`is_complete`](Driver::is_complete) and
//! [`wait_on_host`](Driver::wait_on_host).
//!
//! # Errors that come later than the call
//!
//! Some runtimes accept a copy, an allocation or a kernel, and tell by a callback long afterwards
//! that the work failed. The driver notes the failure with the queue. From the end of that work on
//! the queue has failed: every event behind the work, and everything else that asks or waits for
//! it, answers [`ErrorKind::WorkFailed`], on this queue and on queues that were told to wait for
//! such an event (DRV-27). `copy`, `record`, `wait` and `allocate` for a failed queue may answer so
//! as well, or go on as if nothing had happened. The library passes the error on to whoever waits
//! for the data, and releases what was held back for the work, because nothing of it runs any more.
//!
//! A failed queue stays failed: an event stands for all work before it (DRV-18), so no later event
//! of the queue can be good. An application opens another queue and submits the work again. On a
//! device with one queue it opens the device again, and a backend whose runtime goes on after a
//! failure offers a function for that.
//!
//! # Lost devices that a callback reports
//!
//! A runtime may tell on any thread that the device is lost, also inside a call of the driver's
//! own, and accept calls silently afterwards. The callback sets an atomic flag, takes no lock, and
//! wakes whoever waits; each operation looks at the flag when it begins and when a wait of its own
//! ends (DRV-28). The driver may say [`ErrorKind::DeviceLost`] only when the device will touch no
//! memory of the process any more (DRV-21): a driver whose runtime tells of the loss sooner than
//! that answers with another error until then.
//!
//! The library does not ask whether the device is lost. It learns of the loss from the next answer
//! of the driver, and releases what waits for the device, one thing after the other, as events
//! answer.
//!
//! # Runtimes that are polled
//!
//! Some runtimes go on, and tell what is done, only while somebody polls them, and run the
//! application's callbacks meanwhile. Such a driver polls in `is_complete`, `is_idle`,
//! `synchronize`, `wait_on_host`, `map` and `map_to_fill`. The callbacks may call this library,
//! with the same queues and arrays (DRV-3): the library holds no lock while it asks a driver. Three
//! things are different in a callback that runs while the library asks about something that is held
//! back: what the callback drops is released after that question, a wait for releases is an error,
//! and an allocation that finds no memory does not wait. A callback that holds something back each
//! time that the driver is asked keeps the library asking.
//!
//! The library asks a driver when the program waits, asks, drops, imports or allocates, and not in
//! the background. A program that does none of these polls its runtime by itself, or starts a
//! [`ReleaseThread`](crate::deferred::ReleaseThread), which asks about what is held back.
//!
//! # Drivers that panic
//!
//! Where an operation panics and so breaks DRV-2, the call counts as failed, and the handle that
//! the operation was about is leaked.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::time::Duration;

pub use super::answers::{may_not_wait, not_reachable};
pub use super::asking::{ask_for_a_moment, ask_until};
pub use super::properties::{
    Addressing, DefaultQueues, EventNotices, HostAccess, Properties, Readiness, WaitingCopies,
};
pub use super::raw::Raw;
#[cfg(target_os = "linux")]
pub use super::sealed::SealedFile;
pub use super::sharing::{
    Descriptor, MemoryHandle, OpenedBuffer, OpenedMemory, SharedPlace, SharedUse, Sharing,
    SharingDomain,
};
pub use super::staged::{StagedGroup, staged_groups};
pub use super::turns::{Turn, Turns};
pub use super::waiter::EventNotice;
pub use super::watch::{PlaceOwner, Watched, WatchedPlace};
use super::{Event, Memory, Queue};
pub use crate::process::{ForkMutex, LibraryUse, PerProcess};
use crate::{DeviceId, Error, ErrorKind, Result};

// SAFETY: a `Raw` is a number here, and no safe code dereferences it. The driver that made it takes
// it on any thread (DRV-1).
unsafe impl<T> Send for Raw<T> {}
// SAFETY: a `Raw` is a number that does not change, and the driver that made it takes it on several
// threads at once (DRV-1).
unsafe impl<T> Sync for Raw<T> {}

/// Which runtime a driver belongs to.
///
/// Queues and events of drivers with equal runtimes can wait for each other without the host: all
/// CUDA devices share one, two OpenCL contexts do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Runtime {
    /// The name of the runtime, such as `cuda`.
    pub name: &'static str,
    /// Tells several runtimes of one name apart: a context's handle, an instance's number, or 0.
    pub instance: usize,
}

/// When bytes become visible that the host wrote through a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The bytes are visible to all work that is submitted to the queue later.
    InOrder,
    /// The bytes are visible to the host, and to all work that is submitted later to any queue that
    /// reaches the memory.
    Now,
    /// The bytes are visible to the host and to all queues after this event, which the caller
    /// destroys. Work that is submitted to the queue later sees them without the event.
    After(Raw<Event>),
}

/// What a driver did when it was asked to make a queue wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Waiting {
    /// Nothing submitted to the queue later starts before the event has passed.
    Queued,
    /// This queue cannot wait for that event by itself. The host has to wait before anything more
    /// is submitted.
    HostMustWait,
}

/// How an event is shown to consumers in `ArrowDeviceArray.sync_event`.
#[derive(Clone, Copy, Debug)]
pub enum SyncEvent {
    /// `sync_event` points to a variable that holds this handle (`cudaEvent_t*`, `cl_event*`). The
    /// exporter provides the variable.
    Handle(*mut c_void),
    /// `sync_event` is this address (`sycl::event*`, an object). It stays valid as long as the
    /// event.
    Address(NonNull<c_void>),
}

/// A place in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The address or handle from which `offset` counts.
    pub base: Raw<Memory>,
    /// The offset in bytes.
    pub offset: u64,
}

/// The direction of a list of copies.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Route<'a> {
    /// From host memory into this device. In the source, `base` is a host address.
    FromHost,
    /// From this device into host memory. In the destination, `base` is a host address.
    ToHost,
    /// From one place on this device to another.
    Within,
    /// From another device of the same runtime into this one. The driver of the other device stands
    /// behind its guard: its id tells which device it is.
    FromPeer(&'a dyn Driver),
}

/// One piece of a copy. Source and destination do not overlap.
///
/// Places may be at any byte. [`Queue::copy`] changes the regions where a driver's properties say
/// that the device copies only [whole units](Properties::copy_unit), or only [between two
/// allocations](Properties::distinct_copies).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where the bytes come from.
    pub from: Spot,
    /// Where the bytes go.
    pub to: Spot,
    /// The number of bytes.
    pub len: u64,
}

/// The allocation that a foreign address points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The device that the allocation lies on, as the driver says.
    pub device: DeviceId,
    /// Bytes from the address asked about to the end of its allocation.
    pub remaining: u64,
}

/// The operations of a device. See the [module](self) for what holds for all of them.
///
/// # Safety
/// Safe code relies on these obligations, which `docs/safety.md` has in full.
///
/// All operations:
///
/// * DRV-1: They can be called on any thread and on several at once, and restore what is *current*
///   for the thread.
/// * DRV-2: They never unwind.
/// * DRV-3: They use and drop no queue, event, memory, array or stream of this library. Callbacks
///   of the application may do that: `is_complete`, `is_idle`, `synchronize`, `wait_on_host`, `map`
///   and `map_to_fill` may run such callbacks, without a lock of the driver's.
/// * DRV-4: A queue is in order. Where a runtime's is not, `record`, `wait` and `copy` make it so.
///   Where `readiness` is [`QueueOrder`](Readiness::QueueOrder), all queues of the device are one.
/// * DRV-5: They wait for submitted work only where their documentation says so.
/// * DRV-6: `id`, `runtime` and `properties` never change. They, `share`, `reuse`, `watch`,
///   `sync_event` and `maps_in_place` call no runtime. Safe code can call them, and
///   [`Sharing::find`], with any handle and length: nothing is used by a handle that the driver
///   does not know. Drivers with equal `runtime` and `id` have equal `addressing`, `copy_unit` and
///   `distinct_copies`.
/// * DRV-7: Drivers with equal `runtime` take each other's events.
/// * DRV-8: What the driver does outside its operations calls no runtime in a child of `fork`, and
///   none after the process has begun to exit.
///
/// Memory:
///
/// * DRV-9: `allocate` gives `len` bytes, aligned, that nobody else has until `free`; ready at
///   once, or in the order of the queue that was named. Where copies go by units, it gives whole
///   units.
/// * DRV-10: `OutOfMemory` means that nothing was allocated.
/// * DRV-11: `free` gives back just that memory, or leaks it.
/// * DRV-12: `part` names just those bytes until `free_part`. Where copies go by units, the library
///   asks for whole units.
/// * DRV-13: `allocate_staging` gives initialised host memory that nobody else has until
///   `free_staging`.
/// * DRV-14: `reaches` succeeds only for devices whose memory work on this device's queues may
///   touch, as far as it is of the driver's runtime. `NotReachable` stays the answer as long as the
///   driver lives.
/// * DRV-15: `holds` says yes only for memory of the driver's runtime, and what `locate`,
///   `object_of` and `memory_of` say is true.
///
/// Queues and events:
///
/// * DRV-16: A queue is usable until `close_queue`, and work that it was given still finishes.
/// * DRV-17: `synchronize` succeeds, and `is_idle` says yes, only when all that any thread had
///   submitted before the call is finished, and none of it failed.
/// * DRV-18: A recorded event stands for all that any thread had submitted to the queue before the
///   `record`. After a failure the event that was passed in is still the caller's.
/// * DRV-19: `is_complete` and `wait_on_host` say yes only when that work is finished, and none of
///   it failed; and yes ever after.
/// * DRV-20: After `Queued`, nothing submitted later to the queue starts before the event has
///   passed.
/// * DRV-21: `DeviceLost` is said only when the device touches no memory of the process any more.
/// * DRV-22: `sync_event` and `read_sync_event` are as the convention of the device's type says.
/// * DRV-26: What `default_queues` of the properties names is open as long as the process. All that
///   any thread had submitted to any of these queues is finished once `of_device` has passed what
///   is submitted to it afterwards.
///
/// Failures that are told later:
///
/// * DRV-27: Work that was accepted and fails later, and all work behind it, is
///   [`WorkFailed`](ErrorKind::WorkFailed) for whoever asks about it, always, once it is over.
/// * DRV-28: After the loss of the device every operation says `DeviceLost`, waits that are under
///   way end, and no event stays without an answer.
///
/// Announcements:
///
/// * DRV-29: `notify` never waits. A notice that it keeps is called, from where the properties say,
///   once the event has passed, has failed or is lost; or the notice is dropped.
///
/// Data:
///
/// * DRV-23: `copy` writes the destinations and nothing else, in its turn on the queue. Where
///   copies go by units, it may write what is behind a destination up to the next unit. It reads
///   sources in host memory in its turn, or sooner, from the call on.
/// * DRV-24: `map` gives an address at which the host may read `len` bytes until its own `unmap`.
/// * DRV-25: `map_to_fill` gives an address at which the host may write `len` bytes until
///   `unmap_filled`, whose answer says truly when the bytes are there.
///
/// Sharing with other processes: DRV-30 and DRV-31, at [`Sharing`].
///
/// The caller of an unsafe operation keeps UNS-22: each handle came from this driver, or from
/// another of the same runtime where the operation says so, or was adopted from somebody who
/// promised so; is alive during the call; and is not used after the operation that ends it.
pub unsafe trait Driver: fmt::Debug + Send + Sync + 'static {
    /// The id of the device.
    fn id(&self) -> DeviceId;

    /// The runtime that the driver belongs to.
    fn runtime(&self) -> Runtime;

    /// What the device is like.
    fn properties(&self) -> &Properties;

    /// Whether work on this device's queues may touch memory on that device. If not, the answer is
    /// [`ErrorKind::NotReachable`].
    ///
    /// The usual answer is yes for this device, for the host-side memory kinds of its runtime, and
    /// for peers with access. An id does not tell the runtime: [`holds`](Driver::holds) is asked
    /// which runtime the memory on that device belongs to.
    fn reaches(&self, memory: DeviceId) -> Result<()> {
        if memory == self.id() { Ok(()) } else { Err(not_reachable(self.id(), memory)) }
    }

    // ---- memory

    /// Allocates memory. Where a queue is named and the runtime can, the memory is ready in the
    /// order of that queue.
    ///
    /// `len` is not 0. A lack of memory is [`ErrorKind::OutOfMemory`], so that the caller may free
    /// something and try again.
    ///
    /// # Safety
    /// UNS-22; `len` is not 0.
    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>>;

    /// Frees memory of `allocate`. Nothing that was submitted uses the memory any more. There is no
    /// way to return an error: a driver that cannot free the memory leaks it.
    ///
    /// # Safety
    /// UNS-22; `memory` is one that `allocate` gave for this `len`, nothing that was submitted uses
    /// it, and it is not used after this.
    unsafe fn free(&self, memory: Raw<Memory>, len: u64);

    /// Tells the driver that nobody writes to these bytes from now on, because they are about to be
    /// shared. Calls no runtime. The bytes may lie inside an allocation of which another party's
    /// allocator has given out a part.
    ///
    /// Most drivers do nothing here. A driver that checks its callers remembers the bytes.
    fn share(&self, memory: Raw<Memory>, len: u64) {
        let _ = (memory, len);
    }

    /// Takes [`share`](Driver::share) back: all uses have passed, and the bytes may be filled anew.
    /// Calls no runtime.
    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        let _ = (memory, len);
    }

    /// Tells the driver what becomes of places in this device's memory, or in memory that its
    /// queues reach, so that a driver can judge who uses them. Calls no runtime. Only called where
    /// [`watches`](Properties::watches) says so.
    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        let _ = (what, places);
    }

    /// Makes a handle for a part of an allocation. Only called where [`parts`](Properties::parts)
    /// says so.
    ///
    /// A C struct has a place for a handle and none for an offset. Data that was packed into one
    /// allocation can therefore leave a device with handles only in this way. (On a device with
    /// addresses this is never called: a part is named by an address.)
    ///
    /// # Safety
    /// UNS-22; the bytes lie inside the memory and begin at a multiple of
    /// [`alignment`](Properties::alignment).
    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        let _ = (memory, offset, len);
        let error = Error::new(ErrorKind::Unsupported, "handles of this device have no parts");
        Err(error.during("part").on_device(self.id()))
    }

    /// Gives back the handle of a part. Called before the memory of the part is freed.
    ///
    /// # Safety
    /// UNS-22; nothing that was submitted uses `part`, and it is not used after this.
    unsafe fn free_part(&self, part: Raw<Memory>) {
        let _ = part;
    }

    /// Allocates the host memory that is fastest for copies to and from this device, pinned or
    /// page-locked, and initialises all of it. `None` where plain memory is as fast. `len` is not
    /// 0.
    ///
    /// # Safety
    /// UNS-22; `len` is not 0.
    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        let _ = len;
        Ok(None)
    }

    /// Frees memory of `allocate_staging`.
    ///
    /// # Safety
    /// UNS-22; `address` is one that `allocate_staging` gave for this `len`, nothing that was
    /// submitted uses the memory, and it is not used after this.
    unsafe fn free_staging(&self, address: NonNull<u8>, len: u64) {
        let _ = (address, len);
    }

    /// How other processes open memory of this device. `None`, the usual answer, where they cannot.
    /// The answer is always the same. May ask the runtime, and wait for it, the first time.
    fn sharing(&self) -> Option<&dyn Sharing> {
        None
    }

    // ---- queues

    /// Opens a queue.
    ///
    /// A device with [`Readiness::QueueOrder`] opens its one queue each time. The handle may be the
    /// same one or another.
    fn open_queue(&self) -> Result<Raw<Queue>>;

    /// Closes a queue that `open_queue` opened. A queue that was opened several times stays open
    /// until the last close. Work submitted to the queue still finishes.
    ///
    /// # Safety
    /// UNS-22; `queue` is one that `open_queue` gave, and is not used after this.
    unsafe fn close_queue(&self, queue: Raw<Queue>);

    /// Waits on the host until the queue has finished all its work.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`] where the driver [may not wait](self#drivers-that-may-not-wait) and
    /// the queue has not finished.
    ///
    /// # Safety
    /// UNS-22.
    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()>;

    /// Whether the queue has finished all its work. Never waits. A runtime that finds this out by
    /// submitting work of its own may say no for a moment longer than is true
    /// ([`ask_for_a_moment`]).
    ///
    /// # Safety
    /// UNS-22.
    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool>;

    // ---- events

    /// Makes an event in advance, so that a later `record` cannot fail for want of one.
    ///
    /// A runtime whose events come into being when they are recorded returns [`Raw::NULL`] here.
    fn make_event(&self) -> Result<Raw<Event>>;

    /// Destroys an event, recorded or not. Called for every event that `make_event` made or that
    /// `record` returned. For the null handle this does nothing.
    ///
    /// # Safety
    /// UNS-22; `event` is one that `make_event` or `record` gave, and is not used after this.
    unsafe fn destroy_event(&self, event: Raw<Event>);

    /// Records the event behind all that was submitted to the queue.
    ///
    /// Returns the event that stands for this point from now on, which is `event` or one that takes
    /// its place; in the second case the driver has destroyed `event`. On failure `event` is still
    /// the caller's. An event is recorded once.
    ///
    /// # Safety
    /// UNS-22; `event` is one that `make_event` gave and that was not recorded.
    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>>;

    /// Makes the queue wait for the event.
    ///
    /// # Safety
    /// UNS-22; `event` may belong to another driver of the same runtime (DRV-7).
    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting>;

    /// Whether the event has passed. Never waits. On a lost device the answer is always
    /// [`ErrorKind::DeviceLost`], and no other failure is reported so (DRV-21). For work that has
    /// failed the answer is always [`ErrorKind::WorkFailed`], once the work is over (DRV-27). The
    /// library takes both answers as passed, and releases memory that it held back for this event.
    /// After any other error the memory stays.
    ///
    /// # Safety
    /// UNS-22.
    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool>;

    /// Waits on the host until the event has passed, or until the time is over. Returns whether the
    /// event has passed. Without a time limit, a no counts as [`ErrorKind::NotReady`]. A driver
    /// whose runtime has no such wait asks, by [`ask_until`].
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`] where the driver [may not wait](self#drivers-that-may-not-wait) and
    /// the event has not passed, with or without a time limit.
    ///
    /// # Safety
    /// UNS-22.
    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool>;

    /// Has an event announced: the driver calls the notice once the event has passed, or cannot
    /// pass any more. Where the driver cannot do that, it answers no and drops the notice. Never
    /// waits. Only called where [`event_notices`](Properties::event_notices) says that there are
    /// notices.
    ///
    /// Called for the first event of each queue that somebody awaits and that is not announced yet.
    /// The driver may call the notice within this call, if it holds no lock. The event may be
    /// destroyed before the notice is called (DRV-29).
    ///
    /// # Safety
    /// UNS-22.
    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        let _ = event;
        drop(notice);
        Ok(false)
    }

    /// How an event of this device is shown to consumers. Calls no runtime. An error of the kind
    /// [`ErrorKind::Unsupported`] where [`readiness`](Properties::readiness) is not
    /// [`Event`](Readiness::Event).
    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent>;

    /// Reads the event that another party shows. The event stays the other party's, and lives as
    /// long as what `sync_event` points to. An error of the kind [`ErrorKind::Unsupported`] where
    /// the device shows no events.
    ///
    /// # Safety
    /// `sync_event` is as UNS-5 says of one that is not null.
    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>>;

    // ---- data

    /// Submits a list of copies to the queue as one piece of work. The copies may be done in any
    /// order. What the properties say of copies is true of each region.
    ///
    /// A runtime that consumes host memory at submission, such as WebGPU's `writeBuffer`, reads the
    /// sources of [`Route::FromHost`] in this call. Other runtimes read them in their turn on the
    /// queue. The caller allows for both: the sources hold their bytes before the call, and are
    /// kept until the queue has passed the copy.
    ///
    /// May wait for the queue where [`waiting_copies`](Properties::waiting_copies) says so.
    ///
    /// # Safety
    /// UNS-21, host memory included, and UNS-22.
    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()>;

    /// Makes memory readable by the host at the returned address. May wait. Only called where
    /// [`host_access`](Properties::host_access) is [`Mapped`](HostAccess::Mapped).
    ///
    /// # Safety
    /// UNS-22; the bytes lie inside the memory, and all work that writes them has finished.
    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        let _ = (spot, len);
        Err(Error::new(
            ErrorKind::Unsupported,
            "the host cannot read this memory; copy it to the host",
        )
        .during("map")
        .on_device(self.id()))
    }

    /// Whether [`map`](Driver::map) shows this memory itself, and not a copy that the driver has to
    /// make first. Calls no runtime.
    ///
    /// A driver may know no more than the handle of memory that others allocated, and then maps a
    /// copy. A list of copies is cheaper than many such mappings.
    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        let _ = base;
        true
    }

    /// Ends a mapping of `map`.
    ///
    /// # Safety
    /// UNS-22; `address` is one that `map` gave for these bytes, and is not used after this.
    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        let _ = (spot, len, address);
    }

    /// Makes memory that was just allocated writable by the host at the returned address. The
    /// library then fills the memory itself and submits no copies from the host. `None` where the
    /// host cannot write there, or where copies are faster. May wait.
    ///
    /// # Safety
    /// UNS-22; the bytes lie inside memory that nothing uses that was submitted, or that `allocate`
    /// gave for this queue and that nothing was submitted for since.
    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        let _ = (queue, spot, len);
        Ok(None)
    }

    /// Ends a mapping of `map_to_fill`, and says when the bytes that the host wrote are visible.
    /// Called once for each mapping. The mapping is over even where this returns an error.
    ///
    /// # Safety
    /// UNS-22; `address` is one that `map_to_fill` gave for these bytes, and is not used after
    /// this.
    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        address: NonNull<u8>,
    ) -> Result<Filled> {
        let _ = (queue, spot, len, address);
        Ok(Filled::InOrder)
    }

    /// Which allocation a foreign address points into, if the runtime can tell. Asks the runtime.
    ///
    /// # Safety
    /// `base` is a `buffers[i]` of an array that claims to be on this device and is alive.
    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let _ = base;
        Ok(None)
    }

    /// The object and the offset by which DLPack names a place in this device's memory, on types of
    /// device where DLPack's `data` is an object and Arrow's an address: on Metal, a `MTLBuffer`.
    /// The object stays valid as long as the memory. `None` where the driver knows no such object.
    ///
    /// # Safety
    /// UNS-22.
    unsafe fn object_of(&self, memory: Raw<Memory>) -> Result<Option<Spot>> {
        let _ = memory;
        Ok(None)
    }

    /// The memory that an object stands for, such as [`object_of`](Driver::object_of) returns, and
    /// its device. The object may be another library's. `None`, the usual answer, where DLPack's
    /// `data` is no object.
    ///
    /// # Safety
    /// `object` is the `data` of a DLPack tensor that claims to be on this type of device and is
    /// alive (UNS-24).
    unsafe fn memory_of(&self, object: NonNull<c_void>) -> Result<Option<(DeviceId, Raw<Memory>)>> {
        let _ = object;
        Ok(None)
    }

    /// Whether this memory belongs to what the driver opened. `None`, the usual answer, where the
    /// driver cannot tell. Asked in two cases: devices of several runtimes are open by one id, as
    /// contexts of one OpenCL device are; or the memory is on another device that this one
    /// [reaches](Driver::reaches).
    ///
    /// Memory belongs to the only driver that says yes. Where none says yes, and the id has stood
    /// for one runtime only, the memory belongs to the driver that cannot tell. Where the id has
    /// stood for several runtimes, as after a failed device was opened again, the moment decides: a
    /// driver that cannot tell has the memory that came while its device was open. The exception is
    /// memory that came while another runtime was open by the id, too, which cannot tell either or
    /// is closed by now. Such memory is refused.
    ///
    /// # Safety
    /// `base` is a `buffers[i]` of an array that claims to be on this device and is alive.
    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        let _ = base;
        None
    }
}
