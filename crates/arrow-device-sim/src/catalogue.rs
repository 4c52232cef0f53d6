#![doc = include_str!("catalogue.md")]

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
    Mistake::UncopyableRegion,
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
