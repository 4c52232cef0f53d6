//! The conformance suite, with its numbers pinned.

use arrow_device::Queue;
use arrow_device_hexagon::Ring;
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_until;
use arrow_device_testkit::suite::{Check, Suite};
use simulated_hexagon::{Work, memory};

use crate::support;

// Requirement: SYS-1, ARR-7
#[test]
fn memory_without_a_ring_passes() {
    alone(|| {
        let device = support::device();
        let report = Suite::new(&device).run();
        report.assert();
        let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
        assert_eq!(skipped, [Check::Order, Check::AnotherDevice]);
        assert_eq!(report.cases(), 7 * 1598 + 32);
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
    });
}

// Requirement: DRV-28
#[test]
fn memory_with_a_ring_passes_until_the_dsp_is_lost() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        let spin = |_: &Queue| {
            dsp.submit(Work::Spin(200_000));
        };
        let lose = || dsp.kill();
        let report = Suite::new(&device).slow(&spin).losing(&lose).run();
        report.assert();
        let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
        assert_eq!(skipped, [Check::Order, Check::AnotherDevice]);
        assert_eq!(report.cases(), 7 * 1598 + 33);
        assert!(dsp.submitted() > 1000);
        assert!(release_until(|| memory::counts().allocations == 0), "{:?}", memory::counts());
        assert_eq!(memory::counts().mistakes, 0);
    });
}
