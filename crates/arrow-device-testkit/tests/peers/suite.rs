//! The suite on the host and on every kind of software device. The numbers of cases are pinned.

use arrow_device::Device;
use arrow_device_sim::{Builder, Call, Kind, Sim};
use arrow_device_testkit::suite::{Check, Report, Suite};
use arrow_device_testkit::{Verdict, kinds};

/// Every type in every shape, and one in eleven of the arrays of types inside each other.
const ARRAYS: usize = TYPES * 4 * 3 + (NESTED * 4 * 3).div_ceil(11);
const TYPES: usize = 42 + 12 + 7 + 2 + 3 + 3;
const NESTED: usize = 42 + 42 * 12 + 12 * 12 + 7 + 2 + 3 + 3;

/// What the driver itself is asked: the probes of order, bytes and memory that every device has
/// something for.
const PROBES: usize = 12 + 6 + 7;
/// Another one, where others are shown events.
const SHOWN: usize = 1;
/// Another one, where memory has addresses, which may be aligned.
const ALIGNED: usize = 1;
/// Others, where the host reads memory in place, and one where the host fills memory in place.
const READ: usize = 3;
const FILLED: usize = 1;

/// What a software device has seen since it was asked last.
fn reports(sim: &Sim) -> Verdict {
    match sim.take_reports().first() {
        Some(report) => Err(report.to_string()),
        None => Ok(()),
    }
}

/// Runs the suite on a software device, and looks for what was left behind.
fn run(builder: Builder, seed: u64) -> Report {
    let sim = builder.seed(seed).backtraces(false).build();
    let watch = || reports(&sim);
    let report = Suite::new(&sim.device()).watched_by(&watch).run();
    report.assert();
    let left = sim.finish();
    assert!(left.is_empty(), "{left:?}");
    report
}

/// The checks that were not run.
fn skipped(report: &Report) -> Vec<Check> {
    report.skipped().map(|(check, _)| check).collect()
}

// Requirement: SYS-1, ARR-16
#[test]
fn the_host_passes() {
    let report = Suite::new(&Device::host()).run();
    report.assert();
    assert_eq!(skipped(&report), [Check::Copy, Check::Order, Check::AnotherDevice]);
    assert_eq!((ARRAYS, report.cases()), (1598, 6 * 1598 + PROBES + READ));
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn a_device_with_memory_of_its_own_passes() {
    let report = run(Sim::builder(), 4711);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + SHOWN + ALIGNED);
}

// Requirement: ARR-5, ARR-20
#[test]
fn the_order_of_work_makes_no_difference() {
    let some: Vec<_> = kinds::cases().step_by(601).collect();
    let mut cases = 0;
    Sim::builder().backtraces(false).sweep(0..64, |sim| {
        let watch = || reports(sim);
        let report = Suite::new(&sim.device()).over(some.clone()).watched_by(&watch).run();
        assert!(report.failures().is_empty(), "{report}");
        cases += report.cases();
    });
    println!("{} arrays in 64 orders: {cases} cases", some.len());
    assert_eq!(cases, (15 * 7 + PROBES + SHOWN + ALIGNED) * 64);
}

// Requirement: SYS-1, ARR-5, ARR-16
#[test]
fn a_device_whose_memory_the_host_can_read_passes() {
    let report = run(Sim::builder().kind(Kind::HostReadable), 1);
    assert_eq!(skipped(&report), [Check::AnotherDevice]);
    assert_eq!(report.cases(), 8 * ARRAYS + PROBES + SHOWN + ALIGNED + READ + FILLED);
}

// Requirement: SYS-1, ARR-16
#[test]
fn a_device_with_handles_passes() {
    let report = run(Sim::builder().kind(Kind::Handles), 2);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + SHOWN);
}

// Requirement: SYS-1, ARR-16, DRV-23
#[test]
fn a_device_that_copies_whole_units_passes() {
    let report = run(Sim::builder().kind(Kind::WholeUnits), 3);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + SHOWN);
}

// Requirement: SYS-1, ARR-16
#[test]
fn a_device_on_which_each_buffer_has_an_allocation_passes() {
    let report = run(Sim::builder().separate(true), 4);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + SHOWN + ALIGNED);
}

// Requirement: DRV-23
#[test]
fn devices_that_read_host_sources_at_submission_pass() {
    let some: Vec<_> = kinds::cases().step_by(97).collect();
    for kind in Kind::ALL {
        let builder = Sim::builder().kind(kind).peers(2).host_sources_at_submission(true);
        builder.backtraces(false).sweep(0..4, |sim| {
            let (device, other) = (sim.device(), sim.device_number(1));
            let watch = || reports(sim);
            let suite = Suite::new(&device).beside(&other).over(some.clone());
            suite.watched_by(&watch).run().assert();
        });
    }
}

// Requirement: DRV-27, DRV-28, SAF-18, SAF-39
#[test]
fn devices_whose_work_fails_and_that_are_lost_pass() {
    for kind in Kind::ALL {
        Sim::builder().kind(kind).backtraces(false).sweep(0..8, |sim| {
            let (watch, fail, lose) = (|| reports(sim), || sim.fail_later(1), || sim.lose_device());
            let suite = Suite::new(&sim.device()).over([]).watched_by(&watch);
            let without = suite.run().cases();
            let suite = Suite::new(&sim.device()).over([]).watched_by(&watch);
            let report = suite.failing(&fail).losing(&lose).run();
            assert!(report.failures().is_empty(), "{kind:?}: {report}");
            assert_eq!(report.cases(), without + 2);
        });
    }
}

// Requirement: ARR-5
#[test]
fn devices_with_and_without_access_to_each_other_pass() {
    for (builder, seed) in [(Sim::builder().peers(2), 3), (Sim::builder().devices(2), 4)] {
        let sim = builder.seed(seed).backtraces(false).build();
        let watch = || reports(&sim);
        let suite = Suite::new(&sim.device()).beside(&sim.device_number(1));
        let report = suite.only([Check::AnotherDevice]).watched_by(&watch).run();
        report.assert();
        assert_eq!(report.cases(), ARRAYS);
        let left = sim.finish();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Whatever call fails, and wherever the device is lost: errors are values, and nothing is left
/// behind. The simulator that each run gets looks for that when it is dropped.
#[test]
fn every_call_of_a_case_may_fail() {
    let kind = kinds::Kind::Struct(vec![
        kinds::Kind::Fixed("l", 8),
        kinds::Kind::List("+l", 4, Box::new(kinds::Kind::Text("u", 4))),
    ]);
    let cases: Vec<_> = kinds::cases_of([kind]).step_by(5).take(1).collect();
    let mut failures = 0;
    let runs = Sim::builder().kind(Kind::HostReadable).backtraces(false).for_each_fault(|sim| {
        let suite = Suite::new(&sim.device()).over(cases.clone()).only(OF_ARRAYS);
        failures += suite.slow(&|_| ()).run().failures().len();
    });
    println!("{runs} runs, {failures} cases failed in them");
    assert!(runs > 200 && failures > 200, "{runs} runs, {failures} failures");
}

/// The checks that look at arrays.
const OF_ARRAYS: [Check; 9] = [
    Check::Import,
    Check::Export,
    Check::ReExport,
    Check::MoveChildren,
    Check::Copy,
    Check::Order,
    Check::DeferredRelease,
    Check::ReadInPlace,
    Check::AnotherDevice,
];

/// The driver is asked so much that not every call can fail in turn.
#[test]
fn every_kind_of_call_of_a_probe_may_fail() {
    let calls = [
        Call::Allocate,
        Call::OpenQueue,
        Call::MakeEvent,
        Call::Record,
        Call::Wait,
        Call::Submit,
        Call::HostWait,
        Call::Map,
    ];
    let mut failures = 0;
    for call in calls {
        for nth in (1..5).chain([9, 20, 33, 51]) {
            let sim = Sim::builder().kind(Kind::HostReadable).backtraces(false).build();
            sim.fail(call, nth);
            let report = Suite::new(&sim.device()).over([]).slow(&|_| ()).run();
            let failed = report.failures().len();
            assert!(failed < 4, "{call:?} number {nth}: {report}");
            failures += failed;
        }
    }
    // Whoever has no memory asks again, and some calls have nobody to tell.
    assert!(failures > 20, "{failures} failures");
}
