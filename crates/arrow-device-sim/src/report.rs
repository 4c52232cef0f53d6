//! Reports: what was done wrong, at which two places, and how to mend it.
//!
//! A report is a value, so a test can assert on it. Nothing in a report depends on addresses or on
//! timing: the same program with the same seed gives the same reports.

use std::fmt;
use std::ops::Range;

use crate::site::Site;

/// A mistake that the software device knows. The catalogue has an example of each: see
/// [`catalogue`](crate::catalogue).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mistake {
    /// Bytes are read that other work writes, and nothing orders the two.
    UnorderedRead,
    /// Bytes are written that other work reads or writes, and nothing orders the two.
    UnorderedWrite,
    /// Memory is written to after it was shared as immutable.
    WriteToShared,
    /// Memory is written to while the host has it mapped.
    WriteWhileMapped,
    /// Freed memory is used.
    UseAfterFree,
    /// A place is used after the views and the memory that told it are gone.
    UseAfterView,
    /// Work reaches past the end of an allocation.
    OutOfBounds,
    /// An address is used that is no memory of this simulator.
    UnknownMemory,
    /// Memory is used on a queue of a device that cannot reach it.
    UnreachableMemory,
    /// A handle is used as if it were an address: something was added to it.
    HandleOffset,
    /// A place inside an allocation is named or shown by its own address, on a device whose memory
    /// others know by where allocations begin.
    UnnamedPlace,
    /// A device address is used where host memory belongs.
    DeviceAddressOnHost,
    /// Two regions of one copy touch the same bytes, and one of them is written.
    OverlappingRegions,
    /// A driver is given a copy that its device cannot make: not in whole units, or inside one
    /// allocation.
    UncopyableRegion,
    /// Memory is freed that submitted work may still use, or that the host has mapped.
    FreedInUse,
    /// Memory is freed twice.
    FreedTwice,
    /// Memory is freed with another length than it was allocated with.
    FreedWithWrongLength,
    /// The host changed the source of a copy that had not passed yet.
    HostSourceChanged,
    /// The host wrote to the destination of a copy that had not passed yet.
    HostDestinationChanged,
    /// An event that was never recorded is waited for, or asked about.
    EventNotRecorded,
    /// An event is recorded a second time.
    EventRecordedTwice,
    /// An event is used after it was destroyed, or destroyed twice.
    EventDestroyed,
    /// A handle that is no event is used as one.
    UnknownEvent,
    /// A queue is used after it was closed, or closed twice.
    QueueClosed,
    /// A handle that is no queue is used as one.
    UnknownQueue,
    /// A mapping is ended that was never begun.
    NotMapped,
    /// The work of a kernel panicked.
    KernelPanicked,
    /// An array was never dropped, or what was exported of it never released.
    LeakedArray,
    /// A view was never dropped.
    LeakedView,
    /// Memory was never freed.
    LeakedAllocation,
    /// A mapping was never ended.
    LeakedMapping,
    /// An event was never destroyed.
    LeakedEvent,
    /// A queue was never closed.
    LeakedQueue,
}

impl Mistake {
    /// Returns the name of the mistake, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::UnorderedRead => "read without order",
            Self::UnorderedWrite => "write without order",
            Self::WriteToShared => "write to shared memory",
            Self::WriteWhileMapped => "write to memory that the host has mapped",
            Self::UseAfterFree => "use after free",
            Self::UseAfterView => "use of a place that is withdrawn",
            Self::OutOfBounds => "out of bounds",
            Self::UnknownMemory => "no memory of this simulator",
            Self::UnreachableMemory => "memory that this device cannot reach",
            Self::HandleOffset => "arithmetic on a handle",
            Self::UnnamedPlace => "place inside an allocation, which has no name",
            Self::DeviceAddressOnHost => "device address where host memory belongs",
            Self::OverlappingRegions => "overlapping regions in one copy",
            Self::UncopyableRegion => "region that the device cannot copy",
            Self::FreedInUse => "freed while in use",
            Self::FreedTwice => "freed twice",
            Self::FreedWithWrongLength => "freed with another length",
            Self::HostSourceChanged => "source of a pending copy changed",
            Self::HostDestinationChanged => "destination of a pending copy changed",
            Self::EventNotRecorded => "event that was never recorded",
            Self::EventRecordedTwice => "event recorded twice",
            Self::EventDestroyed => "event that was destroyed",
            Self::UnknownEvent => "no event of this simulator",
            Self::QueueClosed => "queue that was closed",
            Self::UnknownQueue => "no queue of this simulator",
            Self::NotMapped => "memory that is not mapped",
            Self::KernelPanicked => "kernel panicked",
            Self::LeakedArray => "array leaked",
            Self::LeakedView => "view leaked",
            Self::LeakedAllocation => "memory leaked",
            Self::LeakedMapping => "mapping leaked",
            Self::LeakedEvent => "event leaked",
            Self::LeakedQueue => "queue leaked",
        }
    }

    /// Returns the mistake of an access that is not ordered behind another. `within` tells whether
    /// both are one piece of work.
    pub(crate) fn of_conflict(within: bool, writes: bool) -> Self {
        match (within, writes) {
            (true, _) => Self::OverlappingRegions,
            (false, true) => Self::UnorderedWrite,
            (false, false) => Self::UnorderedRead,
        }
    }

    /// Returns why the mistake is wrong on a real device.
    pub fn why(self) -> &'static str {
        match self {
            Self::UnorderedRead | Self::UnorderedWrite => {
                "Nothing orders the two: a device may run either first, or both at once."
            }
            Self::WriteToShared => {
                "Whoever got the memory may be reading it, and was promised that it does not change."
            }
            Self::WriteWhileMapped => "The host may be reading these bytes at this moment.",
            Self::UseAfterFree => "Whoever allocated next has these bytes now.",
            Self::UseAfterView => {
                "The memory waits for what was submitted before, and may be somebody else's when this work runs."
            }
            Self::OutOfBounds => "What lies behind an allocation belongs to somebody else.",
            Self::UnknownMemory => "A device would read or overwrite something else, or stop.",
            Self::UnreachableMemory => {
                "A device has no way to the memory of another without peer access."
            }
            Self::HandleOffset => {
                "A handle is a name: a number added to it names something else, or nothing."
            }
            Self::UnnamedPlace => {
                "Memory of this device is known by the address at which its allocation begins: nobody finds it by another one."
            }
            Self::DeviceAddressOnHost => "The host would crash on this address.",
            Self::OverlappingRegions => "The regions of one copy have no order among each other.",
            Self::UncopyableRegion => {
                "The device copies whole units between two allocations: a runtime refuses all else."
            }
            Self::FreedInUse => {
                "Work that is still to run would use memory that somebody else has by then."
            }
            Self::FreedTwice => "The second time it frees what somebody else has allocated since.",
            Self::FreedWithWrongLength => {
                "Devices that pool memory by size would lose or overlap some."
            }
            Self::HostSourceChanged => {
                "The device reads the source when the copy runs, not when it is submitted."
            }
            Self::HostDestinationChanged => {
                "The device writes the destination when the copy runs, over what the host wrote."
            }
            Self::EventNotRecorded => "Such an event counts as passed: the wait waits for nothing.",
            Self::EventRecordedTwice => {
                "Whoever was shown the event now waits for other work than it was told of."
            }
            Self::EventDestroyed => "The handle may name another event by now, or nothing.",
            Self::UnknownEvent | Self::UnknownQueue => "A driver would follow a wild pointer here.",
            Self::QueueClosed => "The handle may name another queue by now, or nothing.",
            Self::NotMapped => "A driver would end somebody else's mapping, or stop.",
            Self::KernelPanicked => {
                "A device would have stopped here, and everything on it would be lost."
            }
            Self::LeakedArray | Self::LeakedView => {
                "It was still there when the simulator was dropped."
            }
            Self::LeakedAllocation => "It was still allocated when the simulator was dropped.",
            Self::LeakedMapping => "It was still mapped when the simulator was dropped.",
            Self::LeakedEvent => "It was still there when the simulator was dropped.",
            Self::LeakedQueue => "It was still open when the simulator was dropped.",
        }
    }

    /// Returns how to mend the mistake.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::UnorderedRead | Self::UnorderedWrite => {
                "Record an event behind the first and make the second's queue wait for it (`Array::on` does both), or wait \
                 on the host between the two."
            }
            Self::WriteToShared => "Write before the memory is shared, or write to a copy.",
            Self::WriteWhileMapped => "End the mapping first.",
            Self::UseAfterFree => {
                "Keep the owner until the work is submitted, and free after the work has passed."
            }
            Self::UseAfterView => {
                "Keep the `View`, the `BufferView` or the `Memory` until the work is submitted."
            }
            Self::OutOfBounds => "Check offset and length against the allocation's length.",
            Self::UnknownMemory => {
                "Pass what `allocate` gave, or the `location` of a view of an array that is on this device."
            }
            Self::UnreachableMemory => {
                "Ask `Queue::reaches` first, and copy by `Route::FromPeer` or through the host."
            }
            Self::HandleOffset => {
                "Pass the handle as it is and the number of bytes beside it (`Spot::offset`)."
            }
            Self::UnnamedPlace => {
                "Give each buffer an allocation of its own, and pass the beginning of the allocation and the number of \
                 bytes beside it (`Spot::offset`)."
            }
            Self::DeviceAddressOnHost => {
                "Pass host memory, or choose the route that the memory needs."
            }
            Self::OverlappingRegions => {
                "Submit two copies, or cut the regions so that they do not overlap."
            }
            Self::UncopyableRegion => "Submit it by `Queue::copy`, which copies any bytes.",
            Self::FreedInUse => {
                "Wait for the queue, or drop `Memory` and views, which free after the last use."
            }
            Self::FreedTwice => "Give the memory one owner.",
            Self::FreedWithWrongLength => "Pass the length that was allocated.",
            Self::HostSourceChanged | Self::HostDestinationChanged => {
                "Leave host memory alone until the queue has passed the copy: wait for an event behind it."
            }
            Self::EventNotRecorded => "Record the event first.",
            Self::EventRecordedTwice => "Make an event for each record.",
            Self::EventDestroyed => "Keep the event until its last wait is submitted.",
            Self::UnknownEvent => "Pass an event of this device, or what `read_sync_event` gave.",
            Self::QueueClosed => "Close the queue after the last submission.",
            Self::UnknownQueue => "Pass a queue of this simulator.",
            Self::NotMapped => "End each mapping once, with the place and length that began it.",
            Self::KernelPanicked => "See the message above.",
            Self::LeakedArray => "Drop it, and call the `release` of what was exported of it.",
            Self::LeakedView => "Drop it once the work is submitted.",
            Self::LeakedAllocation => {
                "Free it: drop its `Memory`, its arrays, or call their `release`."
            }
            Self::LeakedMapping => "Call `unmap`, or drop `HostBytes`.",
            Self::LeakedEvent => "Destroy it, recorded or not.",
            Self::LeakedQueue => "Close it.",
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// The maker of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A thread of the host, in the call itself.
    Host,
    /// Work on a queue.
    Queue {
        /// The number of the queue, in the order in which the simulator opened them, from 1.
        queue: usize,
        /// The number of the work, in the order in which it was submitted to that queue, from 1.
        work: u64,
    },
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::Queue { queue, work } => write!(f, "queue {queue}, work {work}"),
        }
    }
}

/// One of the actions that together are a mistake.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Action {
    /// The maker of the action.
    pub by: Actor,
    /// The action: `copy from the host (writes)`.
    pub what: String,
    /// Where in the program it was submitted.
    pub site: Site,
}

/// The memory that a report is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Subject {
    /// The number of the allocation, in the order in which the simulator made them, from 1.
    pub number: usize,
    /// The length of the allocation.
    pub len: u64,
    /// Where the allocation was made.
    pub site: Site,
    /// The bytes in question.
    pub bytes: Range<u64>,
}

/// A mistake that a program made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The kind of mistake.
    pub kind: Mistake,
    /// The memory, if the mistake is about memory.
    pub memory: Option<Subject>,
    /// The earlier action, if there is one.
    pub first: Option<Action>,
    /// The call that was the mistake. `None` for leaks.
    pub second: Option<Action>,
    /// Further details.
    pub note: Option<String>,
    /// The system's number of the thread that was in the simulator when the mistake was made; 0
    /// where it is not known.
    pub thread: u64,
}

impl Report {
    pub(crate) fn new(kind: Mistake) -> Self {
        let thread = crate::site::thread();
        Self { kind, memory: None, first: None, second: None, note: None, thread }
    }

    pub(crate) fn about(mut self, memory: Subject) -> Self {
        self.memory = Some(memory);
        self
    }

    pub(crate) fn first(mut self, action: Action) -> Self {
        self.first = Some(action);
        self
    }

    pub(crate) fn second(mut self, action: Action) -> Self {
        self.second = Some(action);
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(Subject { number, len, site, bytes }) = &self.memory {
            write!(f, ": allocation {number}, bytes {}..{} of {len}", bytes.start, bytes.end)?;
            write!(f, "\n  allocated  at {site}")?;
        }
        if let Some(Action { by, what, site }) = &self.first {
            write!(f, "\n  first      {what}, by {by}\n             at {site}")?;
        }
        if let Some(Action { by, what, site }) = &self.second {
            let name = if self.first.is_some() { "then" } else { "here" };
            write!(f, "\n  {name}       {what}, by {by}\n             at {site}")?;
        }
        if let Some(note) = &self.note {
            write!(f, "\n  {note}")?;
        }
        write!(f, "\n  {}\n  {}", self.kind.why(), self.kind.remedy())
    }
}
