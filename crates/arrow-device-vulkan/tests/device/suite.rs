//! The conformance suite, with its numbers pinned.

use arrow_device_testkit::suite::{Check, Suite};
use arrow_device_vulkan::Placement;

use crate::support::Bench;

fn skipped_of(bench: &Bench) -> (Vec<Check>, usize) {
    let report = Suite::new(bench).run();
    report.assert();
    (report.skipped().map(|(check, _)| check).collect(), report.cases())
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn memory_that_the_host_sees_passes() {
    let Some(bench) = Bench::with(Placement::HostVisible) else { return };
    assert_eq!(skipped_of(&bench), (vec![Check::AnotherDevice], 8 * 1598 + 33));
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn memory_that_the_host_does_not_see_passes() {
    let Some(bench) = Bench::with(Placement::DeviceOnly) else { return };
    let skipped = vec![Check::Mappings, Check::ReadInPlace, Check::AnotherDevice];
    assert_eq!(skipped_of(&bench), (skipped, 7 * 1598 + 29));
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_other_processes_can_open_passes() {
    for (placement, skipped, cases) in [
        (Placement::HostVisible, vec![Check::AnotherDevice], 8 * 1598 + 33),
        (
            Placement::DeviceOnly,
            vec![Check::Mappings, Check::ReadInPlace, Check::AnotherDevice],
            7 * 1598 + 29,
        ),
    ] {
        let Some((_bench, device)) = Bench::shareable(placement) else { return };
        let report = Suite::new(&device).run();
        report.assert();
        let found: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
        assert_eq!((found, report.cases()), (skipped, cases));
    }
}
