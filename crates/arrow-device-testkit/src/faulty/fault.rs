//! The table of faults.

use std::fmt;

/// Declares the enum, its documentation and the sentences that reports print, each written once.
macro_rules! faults {
    ($($name:ident = $text:literal,)*) => {
        /// A mistake of a driver, as real drivers have made it or may make it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Fault {
            $(#[doc = $text] $name,)*
        }

        impl Fault {
            /// All faults.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];

            /// Returns in one sentence what the driver does wrong.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

faults! {
    // ---- order
    Synchronize = "The host's wait for a queue returns at once.",
    QueueWait = "A queue that is told to wait for an event does not wait.",
    HostWait = "The host's wait for an event returns at once.",
    Timeout = "A wait with a limit answers yes when the time is over.",
    IsIdle = "Every queue is said to be idle.",
    EventsComplete = "Every event is said to have passed.",
    TakenBack = "An event object is recorded anew while its first point is in use, and says no after a yes.",
    RecordedEarly = "An event is recorded before the last piece of work, which is still in an open batch.",
    OtherThreads = "Waits and events leave out work that another thread has submitted last.",
    OutOfOrder = "A queue begins later work first, as a runtime's unordered queue without barriers does.",
    EventDestroyed = "A wait is forgotten when its event is destroyed before the queue gets there.",
    QueueClosed = "Work is thrown away when its queue is closed.",
    SyncEvent = "Others are shown an event that has passed long ago.",
    ReadSyncEvent = "The event that others show is read as one that has passed long ago.",
    // ---- calls that are not to wait
    CopyWaits = "A copy is submitted once all earlier work of the queue is done, and the call waits for that.",
    QueueWaitBlocks = "A queue is told to wait for an event by a wait of the host.",
    QuestionWaits = "Whoever asks whether an event has passed is answered once it has passed.",
    CallbackLocked = "Callbacks of the application and wakers run under a lock that other operations take.",
    // ---- memory
    AllocationUnordered = "Fresh memory is cleared on a queue of the driver's own, behind which nobody waits.",
    RecycledEarly = "An allocation gets memory that somebody else still has.",
    FreedWithQueue = "Memory goes back to a pool when the queue that it was allocated for is closed.",
    NeverFreed = "Memory is never given back.",
    Misaligned = "Memory begins eight bytes behind a multiple of the alignment.",
    OutOfMemory = "An allocation that does not fit fails with another kind of error than `OutOfMemory`.",
    Reach = "Nobody asks which memory can be reached: all of its runtime, and of types that nobody knows.",
    LocatedElsewhere = "An allocation is said to lie on the device with the next number.",
    LocatedFromStart = "The rest of an allocation is said to be as long as the whole, wherever the address points.",
    PartOffset = "The handle of a part stands for other bytes of the allocation.",
    PartFreesWhole = "Giving a part back gives the whole allocation back.",
    // ---- copies
    CopyIn = "Copies from the host are not made.",
    CopyOut = "Copies to the host are not made.",
    CopyWithin = "Copies within the device are not made.",
    CopyPeer = "Copies from another device are not made.",
    RoundedUp = "The length of a copy is rounded up to a word (four bytes, or two units), which overwrites the neighbours.",
    RoundedDown = "The place of a copy on the device is rounded down to a word.",
    Shifted = "The bytes of a copy arrive one place too far.",
    TornTail = "The bytes of a copy behind the last whole word do not arrive.",
    FirstChunk = "Of each region of a copy the first 64 KiB arrive.",
    FirstRegion = "Of a list of regions the first is copied.",
    RegionLengths = "No region of a list is copied further than the first one's length.",
    ErrorsLost = "A copy that the runtime refuses is said to have been submitted.",
    StagingRecycled = "The driver's own staging memory is filled anew before the copy out of it has run.",
    // ---- mappings
    MapStale = "A mapping shows what a cache held before, and not what work on the device wrote.",
    MapOffset = "A mapping begins at the start of the memory, whatever offset was named.",
    UnmapEndsAll = "The end of one mapping ends all mappings of the memory.",
    FillLost = "What the host wrote to a mapping does not get to the device.",
    FilledNow = "What the host wrote to a mapping is said to be there for everybody while it is on its way.",
    // ---- failures that come later
    FailureLost = "Work that fails after it was accepted is said to be done.",
    FailureForgotten = "A failure that comes later is told once, and then its event is said to have passed.",
    FailureKept = "Queues that wait for an event of failed work have not failed.",
    LossUnseen = "A device that was lost takes work and gives memory as before.",
    LossPending = "Events of a lost device are said not to have passed yet, for ever.",
}

impl Fault {
    /// Whether the fault needs a driver that does work later than it is submitted.
    ///
    /// [`Faulty::open`](super::Faulty::open) makes the work late for these.
    pub fn needs_late_work(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::TakenBack
                | Self::OtherThreads
                | Self::OutOfOrder
                | Self::EventDestroyed
                | Self::QueueClosed
                | Self::AllocationUnordered
                | Self::FreedWithQueue
                | Self::StagingRecycled
                | Self::FilledNow
                | Self::FailureLost
                | Self::FailureForgotten
                | Self::FailureKept
                | Self::LossUnseen
                | Self::LossPending
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}
