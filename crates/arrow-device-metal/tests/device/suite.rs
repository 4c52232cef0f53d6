//! The conformance suite, with its numbers pinned.

use arrow_device_testkit::suite::{Check, Suite};

use crate::support::Bench;

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn a_device_passes() {
    let Some(bench) = Bench::new() else { return };
    let report = Suite::new(&bench).slow(&|_| ()).run();
    println!("{report}");
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, [Check::AnotherDevice]);
    assert_eq!(report.cases(), 8 * 1598 + 33);
}
