//! The suite on the host and on every kind of software device. The numbers of cases are pinned.

use arrow_device::Device;
use arrow_device::driver::EventNotices;
use arrow_device_sim::{Builder, Call, Kind, Sim};
use arrow_device_testkit::Verdict;
use arrow_device_testkit::kinds::{self, Case};
use arrow_device_testkit::suite::{Check, Report, Suite};

/// Every type in every shape, and one in eleven of the arrays of types inside each other.
const ARRAYS: usize = TYPES * 4 * 3 + (NESTED * 4 * 3).div_ceil(11);
const TYPES: usize = 42 + 12 + 7 + 2 + 3 + 3;
const NESTED: usize = 42 + 42 * 12 + 12 * 12 + 7 + 2 + 3 + 3;

/// What the driver itself is asked: the probes of order, bytes and memory that every device has
/// something for.
const PROBES: usize = 14 + 6 + 7;
/// Another one, where work goes on until the suite lets it end.
const HELD: usize = 1;
/// Others, where work can be made to fail and the device to be lost.
const ENDS: usize = 2;
/// Another one, where others are shown events.
const SHOWN: usize = 1;
/// Another one, where memory has addresses, which may be aligned.
const ALIGNED: usize = 1;
/// Another one, where parts of memory have handles.
const PARTS: usize = 1;
/// Another one, where the driver wakes who awaits.
const WOKEN: usize = 1;
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
    run_suite(builder, seed, |suite| suite)
}

/// The same over few arrays.
fn run_few(builder: Builder, seed: u64) -> Report {
    run_suite(builder, seed, |suite| suite.over(few()))
}

fn few() -> impl Iterator<Item = Case> {
    kinds::cases().step_by(97)
}

/// How many arrays those are.
const FEW: usize = (NESTED * 4 * 3).div_ceil(97);

fn run_suite(builder: Builder, seed: u64, with: impl for<'a> Fn(Suite<'a>) -> Suite<'a>) -> Report {
    let sim = builder.seed(seed).backtraces(false).build();
    let (watch, fail, lose) = (|| reports(&sim), || sim.fail_later(1), || sim.lose_device());
    let suite = with(Suite::new(&sim.device())).watched_by(&watch);
    // The device does nothing before somebody waits.
    let suite = suite.holding(&|_| Box::new(|| ())).failing(&fail).losing(&lose);
    let report = suite.run();
    report.assert();
    let left = sim.finish();
    assert!(left.is_empty(), "{left:?}");
    report
}

/// The suite on a device for which nobody may wait.
fn run_turned(kind: Kind, cases: Option<Vec<Case>>) -> Report {
    let sim = Sim::builder().kind(kind).may_wait(false).seed(6).backtraces(false).build();
    let (watch, fail, lose) = (|| reports(&sim), || sim.fail_later(1), || sim.lose_device());
    let turn = || sim.run_until_idle();
    let suite = Suite::new(&sim.device()).watched_by(&watch).turned_by(&turn);
    let mut suite = suite.holding(&|_| Box::new(|| ())).failing(&fail).losing(&lose);
    if let Some(cases) = cases {
        suite = suite.over(cases);
    }
    let report = suite.run();
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
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + HELD + ENDS + SHOWN + ALIGNED);
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
    assert_eq!(report.cases(), 8 * ARRAYS + PROBES + HELD + ENDS + SHOWN + ALIGNED + READ + FILLED);
}

// Requirement: SYS-1, ARR-16
#[test]
fn a_device_with_handles_passes() {
    let report = run(Sim::builder().kind(Kind::Handles), 2);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + HELD + ENDS + SHOWN);
}

// Requirement: SYS-1, ARR-16, DRV-23
#[test]
fn a_device_that_copies_whole_units_passes() {
    let report = run(Sim::builder().kind(Kind::WholeUnits), 3);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + HELD + ENDS + SHOWN);
}

// Requirement: SYS-1, ARR-16
#[test]
fn a_device_on_which_each_buffer_has_an_allocation_passes() {
    let report = run(Sim::builder().separate(true), 4);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + HELD + ENDS + SHOWN + ALIGNED);
}

// Requirement: SYS-1, ARR-5, ARR-16, DRV-4
#[test]
fn a_device_with_one_queue_passes() {
    let report = run(Sim::builder().kind(Kind::OneQueue), 5);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + HELD + ENDS);
}

// Requirement: SYS-1, ARR-5, ARR-16, DRV-4
#[test]
fn a_device_with_one_queue_whose_memory_the_host_can_read_passes() {
    let report = run(Sim::builder().kind(Kind::OneQueueReadable), 6);
    assert_eq!(skipped(&report), [Check::AnotherDevice]);
    assert_eq!(report.cases(), 8 * ARRAYS + PROBES + HELD + ENDS + ALIGNED + READ + FILLED);
}

// Requirement: DRV-12
#[test]
fn devices_whose_parts_have_handles_pass() {
    for (kind, shown) in [(Kind::Handles, SHOWN), (Kind::OneQueue, 0)] {
        let report = run_few(Sim::builder().kind(kind).parts(true), 7);
        assert_eq!(report.cases(), 7 * FEW + PROBES + HELD + ENDS + PARTS + shown);
    }
}

// Requirement: DRV-29
#[test]
fn devices_that_announce_events_pass() {
    for (notices, woken) in [(EventNotices::FromCallbacks, 0), (EventNotices::Anywhere, WOKEN)] {
        let report = run_few(Sim::builder().event_notices(notices), 8);
        assert_eq!(report.cases(), 7 * FEW + PROBES + HELD + ENDS + SHOWN + ALIGNED + woken);
    }
}

/// Of what the driver itself is asked one thing is not looked at, and another one is in its place.
// Requirement: DRV-5
#[test]
fn a_device_for_which_nobody_may_wait_passes() {
    let report = run_turned(Kind::Discrete, None);
    assert_eq!(skipped(&report), [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * ARRAYS + PROBES + HELD + ENDS + SHOWN + ALIGNED);
    let left_out: Vec<_> = report.left_out().collect();
    assert_eq!(left_out, [(Check::Waits, "a wait that was too short says so")]);
    let line = "    without `a wait that was too short says so`: the host may not wait";
    assert!(report.to_string().lines().any(|printed| printed == line), "{report}");
}

// Requirement: DRV-5
#[test]
fn devices_of_all_kinds_pass_where_nobody_may_wait() {
    for (kind, checks, probes) in [
        (Kind::Discrete, 7, SHOWN + ALIGNED),
        (Kind::HostReadable, 8, SHOWN + ALIGNED + READ + FILLED),
        (Kind::Handles, 7, SHOWN),
        (Kind::WholeUnits, 7, SHOWN),
        (Kind::OneQueue, 7, 0),
        (Kind::OneQueueReadable, 8, ALIGNED + READ + FILLED),
    ] {
        let report = run_turned(kind, Some(few().collect()));
        assert_eq!(report.cases(), checks * FEW + PROBES + HELD + ENDS + probes, "{kind:?}");
    }
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
