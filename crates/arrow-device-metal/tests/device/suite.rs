//! The conformance suite, with its numbers pinned.

use arrow_device::Queue;
use arrow_device_testkit::faulty::{Fault, Faulty};
use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Suite};
use metal_stand_in::Gate;

use crate::support::Bench;

/// Keeps a queue from its end by an event of the application's.
fn hold(queue: &Queue) -> Box<dyn FnOnce()> {
    let mut gate = Gate::new();
    unsafe { gate.before(queue.raw().as_ptr()) };
    Box::new(move || gate.open())
}

/// The queues of the stand-in are late anyway.
// Requirement: SYS-1, ARR-5, ARR-16, ARR-20, DRV-5, DRV-27
#[test]
fn a_device_passes() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let fail = || bench.stand_in.fail_next_copy(3);
        let report = Suite::new(&bench).slow(&|_| ()).holding(&hold).failing(&fail).run();
        report.assert();
        let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
        assert_eq!(skipped, [Check::AnotherDevice]);
        assert_eq!(report.cases(), 8 * 1598 + 35);
        assert_eq!(bench.stand_in.blocked(), 0);
    });
}

#[test]
fn a_copy_that_waits_is_found() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let device = Faulty::of(&bench).fault(Fault::CopyWaits).open();
        let suite = Suite::new(&device).over([]).only([Check::Waits]);
        let report = suite.slow(&|_| ()).holding(&hold).run();
        let failed: Vec<_> = report.failures().iter().map(|failure| &*failure.case).collect();
        assert_eq!(failed, ["a copy does not wait for earlier work"], "{report}");
    });
}

/// The driver learns of the loss from the first command buffer that fails.
// Requirement: DRV-28
#[test]
fn a_lost_device_passes() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let queue = bench.open_queue().unwrap();
        let lose = || {
            bench.stand_in.lose(0);
            queue.synchronize().unwrap_err();
        };
        let report =
            Suite::new(&bench).over([]).only([Check::Waits]).slow(&|_| ()).losing(&lose).run();
        report.assert();
        assert!(report.to_string().contains("waits"), "{report}");
    });
}
