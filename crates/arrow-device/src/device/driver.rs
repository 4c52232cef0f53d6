//! What a device must be able to do: the one trait that a backend implements.
//!
//! A [`Driver`] is a table of plain operations on raw handles. It owns nothing that a caller holds
//! and decides nothing about lifetimes: [`Device`](crate::Device), [`Queue`], [`Event`] and
//! [`Memory`] own the handles and call the driver at the right time. A backend is written once
//! against this page and works with everything in this crate, from any crate.
//!
//! The rules that hold for every operation:
//!
//! * It can be called on any thread, and from several at once. A runtime that has a notion of a
//!   *current* device or context sets its own for the call and restores the thread's.
//! * It does not panic. Where it does all the same, the panic ends in the guard that a device puts
//!   around its driver: the operation is an [`ErrorKind::Panicked`], and what it was to give back
//!   is abandoned and counted.
//! * It is called in the process that opened the device, before the end of that process begins, and
//!   never in a child of `fork`. The guard sees to that as well.
//! * It only submits. The operations that may wait for a device are the ones whose documentation
//!   says so: [`synchronize`](Driver::synchronize), [`wait_on_host`](Driver::wait_on_host),
//!   [`map`](Driver::map), [`map_to_fill`](Driver::map_to_fill), and those that allocate and free
//!   memory where the runtime itself waits there.
//! * A queue is in order: work submitted later does not start before earlier work is finished.
//!   Where a runtime's queue is not, `record` and `wait` are full barriers on it.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::time::Duration;

use super::{Event, Memory, Queue};
pub use crate::process::{LibraryUse, PerProcess};
use crate::{DeviceId, Error, ErrorKind, Result};

/// A raw handle of a runtime: a pointer, an opaque handle or an index, as that runtime has it.
///
/// `T` says what kind of thing the handle names and nothing else. Copying a `Raw` copies the
/// number, not the thing.
pub struct Raw<T> {
    handle: *mut c_void,
    names: PhantomData<fn() -> T>,
}

impl<T> Raw<T> {
    /// The null handle. Some runtimes have a default queue of this value.
    pub const NULL: Self = Self::from_ptr(std::ptr::null_mut());

    /// A handle that is a pointer.
    pub const fn from_ptr(handle: *mut c_void) -> Self {
        Self { handle, names: PhantomData }
    }

    /// A handle that is a number and not a pointer.
    pub const fn from_bits(bits: usize) -> Self {
        Self::from_ptr(std::ptr::without_provenance_mut(bits))
    }

    /// The handle as a pointer.
    pub const fn as_ptr(self) -> *mut c_void {
        self.handle
    }

    /// The handle as a number.
    pub fn bits(self) -> usize {
        self.handle.addr()
    }

    /// Whether this is the null handle.
    pub fn is_null(self) -> bool {
        self.handle.is_null()
    }
}

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Raw<T> {}

impl<T> PartialEq for Raw<T> {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
    }
}

impl<T> Eq for Raw<T> {}

impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.bits())
    }
}

// SAFETY: a `Raw` is a number here. Nothing in it is dereferenced by safe code; the driver that
// made it promises (first rule of this module) that its operations can be called with it on any
// thread.
unsafe impl<T> Send for Raw<T> {}
// SAFETY: as for `Send`; there is no interior to share.
unsafe impl<T> Sync for Raw<T> {}

/// Which runtime a driver belongs to.
///
/// Queues and events of drivers with equal runtimes can wait for each other without the host: all
/// CUDA devices share one, two OpenCL contexts do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Runtime {
    /// Its name, such as `cuda`.
    pub name: &'static str,
    /// Which one of that name: a context's handle, an instance's number, or 0.
    pub instance: usize,
}

/// What `buffers[i]` is on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// An address: adding a number of bytes gives another valid address inside the same allocation.
    Address,
    /// An opaque handle, such as a `cl_mem`. A place inside it is named by the handle and an offset
    /// beside it.
    Handle,
}

/// Whether and how the host can read a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAccess {
    /// It cannot; data has to be copied.
    None,
    /// In place, once the event has passed, after [`Driver::map`].
    Mapped,
}

/// How work that was submitted is known to be complete by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// By an event, which travels as `sync_event`.
    Event,
    /// The interface has no event for this device: whoever exports waits on the host first.
    HostWait,
    /// The interface has no event for this device, and needs none: the device has one queue, and
    /// order on it is enough.
    QueueOrder,
}

/// When that is there which the host wrote to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// For all work that is submitted to the queue later.
    InOrder,
    /// For the host, and for all work that is submitted later, to any queue that reaches the
    /// memory.
    Now,
    /// The same after this event, which is the caller's to destroy; and before it for work on the
    /// queue.
    After(Raw<Event>),
}

/// What a device is like. It does not change while the device is open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// Every allocation begins at a multiple of this many bytes, and packed data inside one should
    /// too.
    pub alignment: usize,
    /// What a buffer's base is.
    pub addressing: Addressing,
    /// Whether the host can read the memory.
    pub host_access: HostAccess,
    /// How others know that data is complete.
    pub readiness: Readiness,
    /// Whether [`Driver::part`] gives handles for parts of an allocation. Without meaning where
    /// there are addresses.
    pub parts: bool,
    /// Whether data from the host goes over fastest when the host gathers it in memory of
    /// [`Driver::allocate_staging`] first, so that few large pieces are copied.
    pub gathered_writes: bool,
    /// A name to show to people.
    pub name: String,
}

impl Properties {
    /// A device with addresses, events, memory that the host cannot read, and the alignment that
    /// Arrow recommends. Change what differs.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            alignment: 64,
            addressing: Addressing::Address,
            host_access: HostAccess::None,
            readiness: Readiness::Event,
            parts: false,
            gathered_writes: false,
            name: name.into(),
        }
    }

    /// The same with this alignment, at least 64.
    pub fn with_alignment(mut self, alignment: usize) -> Self {
        self.alignment = alignment.max(64);
        self
    }

    /// The same with this addressing.
    pub fn with_addressing(mut self, addressing: Addressing) -> Self {
        self.addressing = addressing;
        self
    }

    /// The same, with handles for parts of an allocation or without.
    pub fn with_parts(mut self, parts: bool) -> Self {
        self.parts = parts;
        self
    }

    /// The same, where data from the host is gathered first or where every piece is copied by
    /// itself.
    pub fn with_gathered_writes(mut self, gathered_writes: bool) -> Self {
        self.gathered_writes = gathered_writes;
        self
    }

    /// The same with this access from the host.
    pub fn with_host_access(mut self, host_access: HostAccess) -> Self {
        self.host_access = host_access;
        self
    }

    /// The same with this readiness.
    pub fn with_readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }
}

/// What a driver did with the order to make a queue wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Waiting {
    /// The queue will not go past this point before the event.
    Queued,
    /// This queue cannot wait for that event by itself: the host has to, before anything more is
    /// submitted.
    HostMustWait,
}

/// How an event is shown to others in `ArrowDeviceArray.sync_event`.
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
    /// The address or the handle.
    pub base: Raw<Memory>,
    /// How many bytes into it.
    pub offset: u64,
}

/// Which way a list of copies goes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Route<'a> {
    /// From host memory into this device. In the source, `base` is a host address.
    FromHost,
    /// From this device into host memory. In the destination, `base` is a host address.
    ToHost,
    /// From one place on this device to another.
    Within,
    /// From another device of the same runtime, whose driver this is, into this one. It stands
    /// behind the guard of its device: its id tells which device that is.
    FromPeer(&'a dyn Driver),
}

/// One piece of a copy. Source and destination do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where the bytes come from.
    pub from: Spot,
    /// Where they go.
    pub to: Spot,
    /// How many.
    pub len: u64,
}

/// Where an allocation lies that a foreign address points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The device it lies on, as the driver tells.
    pub device: DeviceId,
    /// Bytes from the address asked about to the end of its allocation.
    pub remaining: u64,
}

/// What a device can do. See the [module](self) for the rules that hold for all of it.
///
/// # Safety
/// Safe code relies on an implementation for this:
///
/// * Memory from `allocate` is exclusively the caller's and valid until `free`, and holds at least
///   `len` bytes.
/// * An event is complete (`is_complete`, `wait_on_host`) only when all work that was submitted to
///   its queue before the `record` has finished, and a queue told to `wait` starts nothing
///   submitted later before that.
/// * `synchronize` returns success only when everything submitted to the queue has finished.
/// * `map` returns an address at which the host may read `len` bytes until `unmap`.
/// * `sync_event` gives what the convention of the device's type says, without a call into the
///   runtime.
/// * `reaches` returns success only for memory that work on this device's queues may touch.
///
/// The caller's side is the same for every `unsafe` operation: raw handles come from this driver
/// (or, for events and memory, from one of the same runtime; or were adopted from a caller who
/// promised so) and are alive; what is named in a copy stays allocated until the queue has passed
/// it.
pub unsafe trait Driver: fmt::Debug + Send + Sync + 'static {
    /// Which device this is.
    fn id(&self) -> DeviceId;

    /// Which runtime it belongs to.
    fn runtime(&self) -> Runtime;

    /// What it is like.
    fn properties(&self) -> &Properties;

    /// Whether work on this device's queues may touch memory on that device,
    /// [`ErrorKind::NotReachable`] where not.
    ///
    /// The usual answer is yes for this device, for the host-side memory kinds of its runtime, and
    /// for peers with access.
    fn reaches(&self, memory: DeviceId) -> Result<()> {
        if memory == self.id() { Ok(()) } else { Err(not_reachable(self.id(), memory)) }
    }

    // ---- memory

    /// Allocates. Where a queue is named and the runtime can, the memory is ready in the order of
    /// that queue.
    ///
    /// `len` is not 0. Out of memory is [`ErrorKind::OutOfMemory`], so that the caller may free
    /// something and try again.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>>;

    /// Frees what `allocate` gave. Nothing that was submitted uses it any more. Errors have nowhere
    /// to go: a driver that cannot free leaks.
    ///
    /// # Safety
    /// As the trait says; and `memory` is not used after this.
    unsafe fn free(&self, memory: Raw<Memory>, len: u64);

    /// Says that nobody writes to this memory from now on: it is about to be shared. Calls no
    /// runtime.
    ///
    /// Does nothing on most devices. A driver that checks its callers remembers it.
    fn share(&self, memory: Raw<Memory>) {
        let _ = memory;
    }

    /// Takes [`share`](Driver::share) back: all uses have passed, and somebody is about to fill the
    /// memory anew. Calls no runtime.
    fn reuse(&self, memory: Raw<Memory>) {
        let _ = memory;
    }

    /// A handle of its own for a part of what `allocate` gave. Only where
    /// [`parts`](Properties::parts) says so.
    ///
    /// A C struct has room for a handle and none for an offset, so data that was packed into one
    /// allocation can leave a device of handles only in this way. (On a device of addresses nobody
    /// asks: a part is the address and a number added.)
    ///
    /// # Safety
    /// As the trait says; the bytes lie inside the memory and begin at a multiple of
    /// [`alignment`](Properties::alignment).
    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        let _ = (memory, offset, len);
        let error = Error::new(ErrorKind::Unsupported, "handles of this device have no parts");
        Err(error.during("part").on_device(self.id()))
    }

    /// Gives a part back, before the memory that it is part of is freed.
    ///
    /// # Safety
    /// As the trait says; `part` is not used after this.
    unsafe fn free_part(&self, part: Raw<Memory>) {
        let _ = part;
    }

    /// Allocates host memory that copies to and from this device are fastest with, pinned or
    /// page-locked, all of it initialised. `None` where plain memory is as good. `len` is not 0.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        let _ = len;
        Ok(None)
    }

    /// Frees what `allocate_staging` gave.
    ///
    /// # Safety
    /// As the trait says; and the memory is not used after this.
    unsafe fn free_staging(&self, address: NonNull<u8>, len: u64) {
        let _ = (address, len);
    }

    // ---- queues

    /// Opens a queue.
    fn open_queue(&self) -> Result<Raw<Queue>>;

    /// Closes a queue that `open_queue` opened. Work submitted to it still finishes.
    ///
    /// # Safety
    /// As the trait says; and `queue` is not used after this.
    unsafe fn close_queue(&self, queue: Raw<Queue>);

    /// Waits on the host until the queue has finished everything.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()>;

    /// Whether the queue has finished everything. Never waits; a runtime that has to be asked by
    /// work of its own may say no for a moment longer than is so.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool>;

    // ---- events

    /// Makes an event, so that the `record` that follows the work cannot fail for want of one.
    ///
    /// A runtime whose events come into being when they are recorded returns [`Raw::NULL`] here.
    fn make_event(&self) -> Result<Raw<Event>>;

    /// Destroys an event, recorded or not. Called for every event that was made or that `record`
    /// returned; for the null handle it does nothing.
    ///
    /// # Safety
    /// As the trait says; and `event` is not used after this.
    unsafe fn destroy_event(&self, event: Raw<Event>);

    /// Records the event behind all that was submitted to the queue.
    ///
    /// Returns the event that stands for this point from now on, which is `event` or one that takes
    /// its place; in the second case the driver has destroyed `event`. On failure `event` is still
    /// the caller's. An event is recorded once.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>>;

    /// Makes the queue wait for the event.
    ///
    /// # Safety
    /// As the trait says; `event` may belong to another driver of the same runtime.
    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting>;

    /// Whether the event has passed. Never waits. A device that is lost is
    /// [`ErrorKind::DeviceLost`], always, and nothing else is: whoever holds memory back for this
    /// event takes that as passed.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool>;

    /// Waits on the host until the event has passed, or until the time is over; returns whether it
    /// has passed.
    ///
    /// # Safety
    /// As the trait says.
    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool>;

    /// How an event of this device is shown to others. Calls no runtime.
    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent>;

    /// Reads the event that another party shows. It stays that party's, and alive as long as what
    /// `sync_event` points to.
    ///
    /// # Safety
    /// `sync_event` points to what the convention of this device's type says.
    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>>;

    // ---- data

    /// Submits a list of copies to the queue. All of them are one piece of work; their order among
    /// each other is free.
    ///
    /// # Safety
    /// As the trait says; every region lies inside memory that may be read or written so, and stays
    /// until the queue has passed, host memory included.
    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()>;

    /// Makes memory readable by the host at the address returned. May wait. Only where
    /// [`host_access`](Properties::host_access) is [`Mapped`](HostAccess::Mapped).
    ///
    /// # Safety
    /// As the trait says; the bytes lie inside the memory, and all work that writes them has
    /// finished.
    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        let _ = (spot, len);
        Err(Error::new(
            ErrorKind::Unsupported,
            "the host cannot read this memory; copy it to the host",
        )
        .during("map")
        .on_device(self.id()))
    }

    /// Whether [`map`](Driver::map) shows this memory itself, and not a copy that it has to make
    /// first. Calls no runtime.
    ///
    /// Where a driver knows of others' memory only its handle, a list of copies is cheaper than
    /// many mappings.
    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        let _ = base;
        true
    }

    /// Ends what `map` began.
    ///
    /// # Safety
    /// As the trait says; `address` is not used after this.
    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        let _ = (spot, len, address);
    }

    /// Makes memory that was just allocated writable by the host, at the address returned, in place
    /// of a list of copies from the host. `None` where the host cannot write there, or copies are
    /// faster. May wait.
    ///
    /// # Safety
    /// As the trait says; the bytes lie inside memory that `allocate` gave for this queue and that
    /// nothing was submitted for.
    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        let _ = (queue, spot, len);
        Ok(None)
    }

    /// Ends what `map_to_fill` began, and says when what the host wrote is there. Called once for
    /// each mapping, and after an error the mapping is over too.
    ///
    /// # Safety
    /// As the trait says; `address` is not used after this.
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

    /// Which allocation a foreign address points into, where the runtime can tell. Asks the
    /// runtime.
    ///
    /// # Safety
    /// `base` is a `buffers[i]` of an array that claims to be on this device and is alive.
    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let _ = base;
        Ok(None)
    }

    /// Whether this memory is of what the driver opened. Asked where devices of several runtimes
    /// are open by one id, as are contexts of one OpenCL device; the usual answer is yes.
    ///
    /// # Safety
    /// As for [`locate`](Self::locate).
    unsafe fn holds(&self, base: Raw<Memory>) -> bool {
        let _ = base;
        true
    }
}

/// The error for memory that a device cannot touch.
pub fn not_reachable(device: DeviceId, memory: DeviceId) -> Error {
    Error::new(
        ErrorKind::NotReachable,
        format!("its queues cannot reach memory on {memory}; copy the data first"),
    )
    .on_device(device)
}
