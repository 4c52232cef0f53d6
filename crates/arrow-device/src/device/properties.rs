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
    /// what is submitted to it comes behind everything that was submitted before (DRV-4).
    ///
    /// Others find a null `sync_event`. In this process events say when the data is there, as on
    /// any device: the host and the queues of other devices wait for them, and work on the device's
    /// own queue waits for nothing. For an array that came from somebody else, an event is recorded
    /// behind all that was submitted, when the host or another device first asks.
    QueueOrder,
}

/// The queues of a runtime that are there without being opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultQueues {
    /// The one on which work is done of whoever names no queue. It comes behind every queue that
    /// [`of_thread`](Self::of_thread) stands for.
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
    /// What a buffer's base is.
    pub addressing: Addressing,
    /// Whether the host can read the memory.
    pub host_access: HostAccess,
    /// How others know that data is complete.
    pub readiness: Readiness,
    /// Whether [`Driver::part`] gives handles for parts of an allocation. Without meaning where
    /// there are addresses.
    pub parts: bool,
    /// Whether every buffer of an array needs an allocation of its own, although there are
    /// addresses: others know memory by the address at which its allocation begins, as those do who
    /// are given a file descriptor for it. Copies then give each buffer its own, and a
    /// [part](crate::Buffer::slice) of the device's memory is no buffer of an array.
    pub separate: bool,
    /// Whether data from the host goes over fastest when the host gathers it in memory of
    /// [`Driver::allocate_staging`] first, so that few large pieces are copied.
    pub gathered_writes: bool,
    /// Which copies may wait for the queue.
    pub waiting_copies: WaitingCopies,
    /// How many bytes the device copies at least, and at multiples of what: a power of two, 1 where
    /// it copies any bytes.
    ///
    /// The driver is then given copies of which each place on the device is at a multiple of the
    /// unit, counted from address 0 or from the beginning of a handle. Lengths are as they are: a
    /// driver rounds them up, on the device. What is behind a destination up to the next unit
    /// belongs to nobody, and an allocation has whole units, whatever length was asked for. Callers
    /// of the library copy any bytes; the rest is done by the library, through host memory where
    /// need be. Copies between two devices of one runtime whose units differ go by the host.
    pub copy_unit: u64,
    /// Whether the device copies between two allocations only, and not inside one. The driver is
    /// then given no region within the device with one handle on both sides: the library goes by
    /// fresh memory. Without meaning where there are addresses.
    pub distinct_copies: bool,
    /// Whether [`Driver::watch`] is called.
    pub watches: bool,
    /// The queues that others use without having opened one, where the runtime has such queues.
    pub default_queues: Option<DefaultQueues>,
    /// Whether [`Driver::notify`] announces events, and from where.
    pub event_notices: EventNotices,
    /// A name to show to people.
    pub name: String,
}

/// Which copies may wait for the queue before the call returns. Copies that are
/// [polled](crate::copy::PolledCopy) never wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WaitingCopies {
    /// None: a copy is submitted, and the call returns.
    #[default]
    None,
    /// Those between the device and host memory that is not of [`Driver::allocate_staging`], as of
    /// CUDA's pageable memory. A copy that is polled goes by memory of the driver's.
    OfPlainMemory,
    /// All, as those of memory that CUDA has pinned on the host. A copy that is polled is refused.
    All,
}

/// Whether a driver calls back when an event has passed ([`Driver::notify`]), and what may be done
/// where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EventNotices {
    /// It does not. A thread of the library asks and waits for events that somebody awaits.
    #[default]
    None,
    /// In callbacks that must not call the runtime or must not take long, such as host functions of
    /// CUDA. A thread of the library wakes whoever waits.
    FromCallbacks,
    /// Where everything of the library and of the runtime may be called, such as the event loop of
    /// a browser's page. Whoever waits is woken there, and the library needs no thread.
    Anywhere,
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

    /// Sets the alignment of memory, which is at least 64 and at least the unit of copies.
    pub fn with_alignment(mut self, alignment: usize) -> Self {
        self.alignment = alignment.max(64).max(self.copy_unit as usize);
        self
    }

    /// So many bytes as whole units.
    pub(crate) fn whole(&self, len: u64) -> u64 {
        len.checked_next_multiple_of(self.copy_unit).unwrap_or(len)
    }

    /// Sets how memory is addressed.
    pub fn with_addressing(mut self, addressing: Addressing) -> Self {
        self.addressing = addressing;
        self
    }

    /// Says whether parts of an allocation have handles of their own.
    pub fn with_parts(mut self, parts: bool) -> Self {
        self.parts = parts;
        self
    }

    /// Says whether every buffer needs an allocation of its own, or several may be in one.
    pub fn with_separate(mut self, separate: bool) -> Self {
        self.separate = separate;
        self
    }

    /// Says whether data from the host is gathered first, or every piece is copied by itself.
    pub fn with_gathered_writes(mut self, gathered_writes: bool) -> Self {
        self.gathered_writes = gathered_writes;
        self
    }

    /// Says which copies may wait for the queue.
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

    /// Says whether copies within the device go between two allocations only, or inside one too.
    pub fn with_distinct_copies(mut self, distinct: bool) -> Self {
        self.distinct_copies = distinct;
        self
    }

    /// Says whether the driver is told what becomes of memory.
    pub fn with_watches(mut self, watches: bool) -> Self {
        self.watches = watches;
        self
    }

    /// Names the queues of the device that nobody opens.
    pub fn with_default_queues(mut self, default_queues: DefaultQueues) -> Self {
        self.default_queues = Some(default_queues);
        self
    }

    /// Says how the driver announces events.
    pub fn with_event_notices(mut self, event_notices: EventNotices) -> Self {
        self.event_notices = event_notices;
        self
    }

    /// Sets which access the host has to memory.
    pub fn with_host_access(mut self, host_access: HostAccess) -> Self {
        self.host_access = host_access;
        self
    }

    /// Sets how others learn that data is ready.
    pub fn with_readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }
}
