//! The suite of devices, on a device that was registered as a table of callbacks, and with every
//! step taken through the functions of the header.

use arrow_device::Device;
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::kinds::{self, Case};
use arrow_device_testkit::suite::{Check, Report, Suite};
use arrow_device_testkit::{Verdict, release_until};

use crate::support::face::Face;
use crate::support::software::{Fault, register};

/// Every type in every shape.
fn every_type() -> impl Iterator<Item = Case> {
    kinds::cases_of(kinds::types())
}
const EVERY_TYPE: usize = 69 * 12;

/// A third of them: every type in some shapes.
fn some_types() -> impl Iterator<Item = Case> {
    every_type().step_by(3)
}
const SOME_TYPES: usize = EVERY_TYPE / 3;
/// What every driver is asked.
const PROBES: usize = 27;
/// What is asked of a driver with addresses, and of one that maps.
const ADDRESSES: usize = 1;
const MAPS: usize = 3;

fn reports(sim: &Sim) -> Verdict {
    sim.take_reports().first().map_or(Ok(()), |report| Err(report.to_string()))
}

/// Runs the suite on the simulator's device behind a table of callbacks, and looks for what was
/// left behind.
fn run(sim: Sim, table: Fault, cases: impl IntoIterator<Item = Case>) -> Report {
    let (device, registered) = register(&sim, table);
    let watch = || reports(&sim);
    let report = Suite::new(&device).over(cases).through(&Face).watched_by(&watch).run();
    report.assert();
    // The device is closed, and its table released, when nothing on it is left.
    drop(device);
    assert!(release_until(|| registered.is_released()));
    let left = sim.finish();
    assert!(left.is_empty(), "{left:?}");
    report
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn a_device_of_callbacks_passes() {
    let report = run(Sim::builder().seed(1).backtraces(false).build(), Fault::None, every_type());
    assert_eq!(report.cases(), 7 * EVERY_TYPE + PROBES + ADDRESSES);
}

// Requirement: SYS-1, ARR-16
#[test]
fn a_device_of_callbacks_with_handles_passes() {
    let sim = Sim::builder().kind(Kind::Handles).seed(2).backtraces(false).build();
    assert_eq!(run(sim, Fault::None, some_types()).cases(), 7 * SOME_TYPES + PROBES);
}

// Requirement: SYS-1, ARR-16, DRV-23
#[test]
fn a_device_of_callbacks_that_copies_whole_units_passes() {
    let sim = Sim::builder().kind(Kind::WholeUnits).seed(5).backtraces(false).build();
    assert_eq!(run(sim, Fault::None, some_types()).cases(), 7 * SOME_TYPES + PROBES);
}

// Requirement: SYS-1, ARR-16
#[test]
fn a_device_of_callbacks_that_the_host_reads_passes() {
    let sim = Sim::builder().kind(Kind::HostReadable).seed(3).backtraces(false).build();
    assert_eq!(
        run(sim, Fault::None, some_types()).cases(),
        8 * SOME_TYPES + PROBES + ADDRESSES + MAPS
    );
}

// Requirement: SYS-1
#[test]
fn the_host_passes_through_the_header() {
    let report = Suite::new(&Device::host()).over(some_types()).through(&Face).run();
    report.assert();
    assert_eq!(report.cases(), 6 * SOME_TYPES + PROBES + MAPS);
}

// Requirement: SYS-1, ARR-5, ARR-16
#[test]
fn a_device_whose_queues_cannot_wait_and_whose_events_are_handles_passes() {
    let sim = Sim::builder().seed(6).backtraces(false).build();
    let cases = run(sim, Fault::HostWaits, some_types()).cases();
    assert_eq!(cases, 7 * SOME_TYPES + PROBES + ADDRESSES);
}

// Requirement: DRV-20
#[test]
fn a_table_that_leaves_out_a_wait_is_found() {
    for (fault, check) in
        [(Fault::WaitsNot, Check::Order), (Fault::KnowsNoEvents, Check::DeferredRelease)]
    {
        let sim = Sim::builder().seed(4).backtraces(false).build();
        let (device, _) = register(&sim, fault);
        let watch = || reports(&sim);
        let some = kinds::cases_of([kinds::Kind::Fixed("l", 8)]);
        let report = Suite::new(&device).over(some).only([check]).watched_by(&watch).run();
        assert!(!report.failures().is_empty(), "{fault:?} is not seen");
        // What such a device leaves behind is not looked at.
        drop(device);
        std::mem::forget(sim);
    }
}
