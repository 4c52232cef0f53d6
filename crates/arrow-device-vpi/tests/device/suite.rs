//! The conformance suite, with its numbers pinned.

use arrow_device::Queue;
use arrow_device_testkit::kinds::{cases_of, types};
use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Suite};
use arrow_device_vpi::{Options, Simulator};

use crate::support;

/// The checks that a device without events, whose memory the host cannot read, is not asked for.
const SKIPPED: [Check; 4] =
    [Check::Mappings, Check::Order, Check::ReadInPlace, Check::AnotherDevice];

/// Work that does not begin before the returned function is called.
fn held(simulator: Simulator) -> impl Fn(&Queue) -> Box<dyn FnOnce()> {
    move |_| {
        let hold = simulator.hold();
        Box::new(move || drop(hold))
    }
}

// Requirement: SYS-1, ARR-5, ARR-7, ARR-16, ARR-20
#[test]
fn the_suite_passes() {
    let Some(device) = support::device() else { return };
    let hold = held(support::simulator(&device));
    let report = Suite::new(&device).holding(&hold).run();
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, SKIPPED);
    assert_eq!(report.cases(), 6 * 1598 + 29);
}

/// The library makes the copies that an engine of whole words cannot make.
#[test]
fn the_suite_passes_on_an_engine_that_copies_whole_words() {
    let Some(device) = support::with(&support::words()) else { return };
    let hold = held(support::simulator(&device));
    let report = Suite::new(&device).over(cases_of(types()).step_by(3)).holding(&hold).run();
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, SKIPPED);
    assert_eq!(report.cases(), 6 * 276 + 29);
}

#[test]
fn the_suite_passes_on_a_design_without_an_engine() {
    let Some(device) = support::with(&Options::built_in().without_dma()) else { return };
    let hold = held(support::simulator(&device));
    let report = Suite::new(&device).over(cases_of(types()).step_by(9)).holding(&hold).run();
    report.assert();
    assert_eq!(report.cases(), 6 * 92 + 29);
}

/// The register for faults makes work fail after it was accepted, and a simulator that is killed is
/// a device that is lost.
// Requirement: DRV-27, DRV-28
#[test]
fn the_suite_passes_where_work_fails_and_the_simulator_is_killed() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        let simulator = support::simulator(&device);
        let fail = || {
            // SAFETY: UNS-15 and UNS-16: the register for faults changes no memory.
            unsafe { simulator.set("arrow_device_top.ram.error", 5) }.unwrap();
        };
        let lose = || support::kill(&simulator);
        let suite = Suite::new(&device).over([]).only([Check::Waits]);
        let report = suite.failing(&fail).losing(&lose).run();
        report.assert();
        assert_eq!(report.cases(), 16);
    });
}
