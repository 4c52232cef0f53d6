//! What a driver says of its device: the [`Properties`], which never change.

use super::Queue;
#[cfg(doc)]
use super::driver::Driver;
use super::driver::Raw;

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
    /// The host cannot read the memory; data has to be copied.
    None,
    /// The host reads the memory in place, once the event has passed, after [`Driver::map`].
    Mapped,
}

/// How another party learns that submitted work is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// By an event, which is exported as `sync_event`.
    Event,
    /// The interface has no event for this device, so an exporter waits on the host first.
    HostWait,
    /// The interface has no event for this device, and needs none: the device has one queue, and
    /// work on the queue comes after all that was submitted to it before (DRV-4).
    ///
    /// Consumers find a null `sync_event`. In this process events say when the data is ready, as on
    /// any device: the host and the queues of other devices wait for these events, and work on the
    /// device's own queue waits for nothing. An imported array has no event. For such an array an
    /// event is recorded, after all that was submitted by then, when the host or another device
    /// first asks.
    QueueOrder,
}

/// Queues of a runtime that exist without being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultQueues {
    /// The queue for work that names no queue. Work on this queue waits for work on every queue
    /// that [`of_thread`](Self::of_thread) stands for.
    pub of_device: Raw<Queue>,
    /// A handle that stands for another queue on each thread.
    pub of_thread: Option<Raw<Queue>>,
}

/// What a device is like. It does not change while the device is open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// Every allocation begins at a multiple of this many bytes, and packed data inside one should
    /// too.
    pub alignment: usize,
    /// How the memory of the device is named.
    pub addressing: Addressing,
    /// Whether the host can read the memory.
    pub host_access: HostAccess,
    /// How consumers know that data is complete.
    pub readiness: Readiness,
    /// Whether [`Driver::part`] makes handles for parts of an allocation. Without meaning on a
    /// device with addresses.
    pub parts: bool,
    /// Whether every buffer of an array needs an allocation of its own, although the device has
    /// addresses. That is so where other parties know memory by the address at which its allocation
    /// begins, as those do who get a file descriptor of an allocation. Copies then give each buffer
    /// an allocation of its own, and a [part](crate::Buffer::slice) of the device's memory cannot
    /// be a buffer of an array.
    pub separate: bool,
    /// Whether copies from the host are fastest when the host first gathers the data in memory of
    /// [`Driver::allocate_staging`], so that few large pieces are copied.
    pub gathered_writes: bool,
    /// Which copies may wait for the queue.
    pub waiting_copies: WaitingCopies,
    /// The unit of copies in bytes: the device copies multiples of this number, at multiples of
    /// this number. A power of two, 1 where the device copies any bytes.
    ///
    /// In the copies that the driver is given, each place on the device is a multiple of the unit,
    /// counted from address 0 or from the beginning of a handle. Lengths are not rounded: the
    /// driver rounds them up, on the device. The bytes behind a destination up to the next unit
    /// belong to nobody, and an allocation has whole units, whatever length was asked for.
    ///
    /// Callers of the library copy any bytes. The library does what the device cannot, through host
    /// memory where necessary. Copies between two devices of one runtime with different units pass
    /// through the host.
    pub copy_unit: u64,
    /// Whether the device copies only between two allocations, and not inside one. The driver is
    /// then given no region within the device that has one handle on both sides: the library copies
    /// by way of fresh memory. Without meaning on a device with addresses.
    pub distinct_copies: bool,
    /// Whether [`Driver::watch`] is called.
    pub watches: bool,
    /// The queues of the runtime that exist without being opened, if it has any.
    pub default_queues: Option<DefaultQueues>,
    /// Whether [`Driver::notify`] announces events, and from where.
    pub event_notices: EventNotices,
    /// The name of the device for people.
    pub name: String,
}

/// Which copies may wait for the queue before the call returns. [Polled](crate::copy::PolledCopy)
/// copies never wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WaitingCopies {
    /// No copy waits: it is submitted, and the call returns.
    #[default]
    None,
    /// Copies between the device and host memory that is not of [`Driver::allocate_staging`] may
    /// wait, as with CUDA's pageable memory. A polled copy goes by memory of the driver.
    OfPlainMemory,
    /// All copies may wait, as with memory that CUDA has pinned on the host. A polled copy is
    /// refused.
    All,
}

/// Whether a driver calls back when an event has passed ([`Driver::notify`]), and what a callback
/// may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EventNotices {
    /// The driver does not call back. A thread of the library asks about awaited events, and waits
    /// for them.
    #[default]
    None,
    /// The driver calls back where the runtime may not be called, or where a callback must not take
    /// long, as in host functions of CUDA. A thread of the library wakes the waiting tasks.
    FromCallbacks,
    /// The driver calls back where the library and the runtime may be called, as in the event loop
    /// of a browser's page. The callback wakes the waiting tasks, and the library needs no thread.
    Anywhere,
}

impl Properties {
    /// The properties of a device with addresses, with events, with memory that the host cannot
    /// read, and with the alignment that Arrow recommends. Change what differs.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            alignment: 64,
            addressing: Addressing::Address,
            host_access: HostAccess::None,
            readiness: Readiness::Event,
            parts: false,
            separate: false,
            gathered_writes: false,
            waiting_copies: WaitingCopies::None,
            copy_unit: 1,
            distinct_copies: false,
            watches: false,
            default_queues: None,
            event_notices: EventNotices::None,
            name: name.into(),
        }
    }

    /// Sets the alignment of memory in bytes. The alignment becomes at least 64 and at least the
    /// unit of copies.
    pub fn with_alignment(mut self, alignment: usize) -> Self {
        self.alignment = alignment.max(64).max(self.copy_unit as usize);
        self
    }

    /// `len`, rounded up to whole units.
    pub(crate) fn whole(&self, len: u64) -> u64 {
        len.checked_next_multiple_of(self.copy_unit).unwrap_or(len)
    }

    /// Sets how memory is addressed.
    pub fn with_addressing(mut self, addressing: Addressing) -> Self {
        self.addressing = addressing;
        self
    }

    /// Sets whether parts of an allocation have handles of their own.
    pub fn with_parts(mut self, parts: bool) -> Self {
        self.parts = parts;
        self
    }

    /// Sets whether every buffer needs an allocation of its own.
    pub fn with_separate(mut self, separate: bool) -> Self {
        self.separate = separate;
        self
    }

    /// Sets whether data from the host is gathered first.
    pub fn with_gathered_writes(mut self, gathered_writes: bool) -> Self {
        self.gathered_writes = gathered_writes;
        self
    }

    /// Sets which copies may wait for the queue.
    pub fn with_waiting_copies(mut self, waiting_copies: WaitingCopies) -> Self {
        self.waiting_copies = waiting_copies;
        self
    }

    /// Sets the unit of copies in bytes, rounded up to a power of two. The alignment is at least as
    /// large.
    pub fn with_copy_unit(mut self, unit: u64) -> Self {
        self.copy_unit = unit.clamp(1, 1 << 30).next_power_of_two();
        self.alignment = self.alignment.max(self.copy_unit as usize);
        self
    }

    /// Sets whether copies within the device go only between two allocations.
    pub fn with_distinct_copies(mut self, distinct: bool) -> Self {
        self.distinct_copies = distinct;
        self
    }

    /// Sets whether the driver is told what becomes of memory.
    pub fn with_watches(mut self, watches: bool) -> Self {
        self.watches = watches;
        self
    }

    /// Sets the queues of the device that exist without being opened.
    pub fn with_default_queues(mut self, default_queues: DefaultQueues) -> Self {
        self.default_queues = Some(default_queues);
        self
    }

    /// Sets how the driver announces events.
    pub fn with_event_notices(mut self, event_notices: EventNotices) -> Self {
        self.event_notices = event_notices;
        self
    }

    /// Sets how the host can read the memory.
    pub fn with_host_access(mut self, host_access: HostAccess) -> Self {
        self.host_access = host_access;
        self
    }

    /// Sets how consumers learn that data is ready.
    pub fn with_readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }
}
