//! The conformance suite, with its numbers pinned.

use arrow_device_testkit::suite::{Check, Suite};

use crate::support;

// Requirement: SYS-1, ARR-5, ARR-7, ARR-16, ARR-20
#[test]
fn a_device_passes() {
    let Some(device) = support::device() else { return };
    let report = Suite::new(&device).run();
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * 1598 + 27);
}
