//! The suite before each fault of a driver, on the software device.

use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::faulty::{self, Fault, FaultCell};

const UNREADABLE: &str = "the host cannot read its memory";
const NOT_FILLED: &str = "the host cannot write its memory";
const NO_PARTS: &str = "a part of its memory is an address with a number added";
const NO_PART_HANDLES: &str = "a part of its memory has no handle";
const NO_ADDRESS: &str = "a handle has no alignment";
const NO_EVENTS: &str = "no event is shown to others";
const ALL_ONE: &str = "all queues are one, and none waits for another";
const NOTHING_INSIDE: &str = "a handle stands for the start of its allocation";

/// What each kind of device makes harmless.
const DISCRETE: &[(Fault, &str)] = &[
    (Fault::PartOffset, NO_PARTS),
    (Fault::PartFreesWhole, NO_PARTS),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
];
const HOST_READABLE: &[(Fault, &str)] =
    &[(Fault::PartOffset, NO_PARTS), (Fault::PartFreesWhole, NO_PARTS)];
/// Where the driver lets nobody map memory to fill it.
const NEVER_FILLED: [(Fault, &str); 2] =
    [(Fault::FillLost, NOT_FILLED), (Fault::FilledNow, NOT_FILLED)];
const HANDLES: &[(Fault, &str)] = &[
    (Fault::Misaligned, NO_ADDRESS),
    (Fault::LocatedFromStart, NOTHING_INSIDE),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
];

const WHOLE_UNITS: &[(Fault, &str)] = &[
    (Fault::Misaligned, NO_ADDRESS),
    (Fault::LocatedFromStart, NOTHING_INSIDE),
    (Fault::PartOffset, NO_PART_HANDLES),
    (Fault::PartFreesWhole, NO_PART_HANDLES),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
];

const ONE_QUEUE: &[(Fault, &str)] = &[
    (Fault::FailureKept, ALL_ONE),
    (Fault::SyncEvent, NO_EVENTS),
    (Fault::ReadSyncEvent, NO_EVENTS),
    (Fault::Misaligned, NO_ADDRESS),
    (Fault::LocatedFromStart, NOTHING_INSIDE),
    (Fault::MapStale, UNREADABLE),
    (Fault::MapOffset, UNREADABLE),
    (Fault::UnmapEndsAll, UNREADABLE),
];
const ONE_QUEUE_READABLE: &[(Fault, &str)] = &[
    (Fault::FailureKept, ALL_ONE),
    (Fault::SyncEvent, NO_EVENTS),
    (Fault::ReadSyncEvent, NO_EVENTS),
    (Fault::PartOffset, NO_PARTS),
    (Fault::PartFreesWhole, NO_PARTS),
];

/// Whether the host writes fresh memory of such a device in place.
fn is_filled_in_place(kind: Kind) -> bool {
    let sim = Sim::builder().kind(kind).backtraces(false).build();
    let (device, queue) = (sim.device(), sim.device().open_queue().unwrap());
    let mut memory = queue.allocate(64).unwrap();
    let spot = memory.spot(&queue).unwrap();
    // Nothing was submitted for the memory.
    let mapped = unsafe { device.driver().map_to_fill(queue.raw(), spot, 64) }.unwrap();
    if let Some(address) = mapped {
        unsafe { device.driver().unmap_filled(queue.raw(), spot, 64, address) }.unwrap();
    }
    mapped.is_some()
}

fn every_fault(kind: Kind, no_effect: &[(Fault, &'static str)]) {
    let name = format!("software device, {kind:?}");
    let mut no_effect = no_effect.to_vec();
    if !is_filled_in_place(kind) {
        no_effect.extend(NEVER_FILLED);
    }
    let table = faulty::table(name, &no_effect, |fault| {
        let sim = Sim::builder().kind(kind).parts(true).peers(2).backtraces(false).build();
        let report = faulty::report(&sim.device(), Some(&sim.device_number(1)), fault);
        let left = sim.finish();
        assert!(fault.is_some() || left.is_empty(), "{left:?}");
        report
    });
    table.assert();
}

/// The same where the host may not wait.
fn every_fault_in_turns(kind: Kind, no_effect: &[(Fault, &'static str)]) -> usize {
    let name = format!("software device in turns, {kind:?}");
    let mut no_effect = no_effect.to_vec();
    if !is_filled_in_place(kind) {
        no_effect.extend(NEVER_FILLED);
    }
    let table = faulty::table(name, &no_effect, |fault| {
        let sim = Sim::builder().kind(kind).parts(true).peers(2).backtraces(false).build();
        let report = faulty::report_turned(&sim.device(), Some(&sim.device_number(1)), fault);
        let left = sim.finish();
        assert!(fault.is_some() || left.is_empty(), "{left:?}");
        report
    });
    table.assert();
    let is_found = |(_, cell): &&(Fault, FaultCell)| matches!(cell, FaultCell::Reported(_));
    table.rows().iter().filter(is_found).count()
}

// Requirement: DRV-4, DRV-9, DRV-10, DRV-14, DRV-15, DRV-16, DRV-17, DRV-18, DRV-19, DRV-20
#[test]
fn the_suite_finds_each_fault_on_a_device_with_memory_of_its_own() {
    every_fault(Kind::Discrete, DISCRETE);
}

// Requirement: DRV-24, DRV-27, DRV-28
#[test]
fn the_suite_finds_each_fault_on_a_device_whose_memory_the_host_can_read() {
    every_fault(Kind::HostReadable, HOST_READABLE);
}

// Requirement: DRV-12, DRV-22, DRV-23
#[test]
fn the_suite_finds_each_fault_on_a_device_with_handles() {
    every_fault(Kind::Handles, HANDLES);
}

// Requirement: DRV-23
#[test]
fn the_suite_finds_each_fault_on_a_device_that_copies_whole_units() {
    every_fault(Kind::WholeUnits, WHOLE_UNITS);
}

// Requirement: DRV-4
#[test]
fn the_suite_finds_each_fault_on_a_device_with_one_queue() {
    every_fault(Kind::OneQueue, ONE_QUEUE);
}

// Requirement: DRV-4
#[test]
fn the_suite_finds_each_fault_on_a_device_with_one_queue_whose_memory_the_host_can_read() {
    every_fault(Kind::OneQueueReadable, ONE_QUEUE_READABLE);
}

// Requirement: DRV-5
#[test]
fn the_suite_finds_each_fault_that_shows_where_nobody_may_wait() {
    for (kind, no_effect, found) in
        [(Kind::WholeUnits, WHOLE_UNITS, 43), (Kind::OneQueueReadable, ONE_QUEUE_READABLE, 47)]
    {
        assert_eq!(every_fault_in_turns(kind, no_effect), found, "{kind:?}");
    }
}
