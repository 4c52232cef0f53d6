//! The conformance suite, with its numbers pinned.

use arrow_device::{Device, Queue};
use arrow_device_opencl::Kind;
use arrow_device_testkit::application::opencl::{Cl, UserEventGate};
use arrow_device_testkit::faulty::{Fault, Faulty};
use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Report, Suite};

use crate::support;

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn buffers_pass() {
    let Some(device) = support::device() else { return };
    let report = Suite::new(&device).run();
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, [Check::AnotherDevice]);
    assert_eq!(report.cases(), 8 * 1598 + 33);
}

#[cfg(target_os = "linux")]
#[test]
fn buffers_that_other_processes_can_open_pass() {
    let Some(device) = support::shareable_with(Kind::Buffers) else { return };
    let report = Suite::new(&device).run();
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, [Check::AnotherDevice]);
    assert_eq!(report.cases(), 8 * 1598 + 33);
}

/// A user event of the application's keeps the work from its end until calls have come back. With
/// the fault they do not, which takes the suite some seconds to see.
// Requirement: DRV-5
#[test]
fn calls_come_back_while_work_goes_on() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        let cl: &'static Cl = Box::leak(Box::new(Cl::load().unwrap()));
        let hold = |queue: &Queue| -> Box<dyn FnOnce()> {
            let mut gate = UserEventGate::before(cl, queue.raw().as_ptr()).unwrap();
            Box::new(move || gate.open().unwrap())
        };
        let judged = |device: &Device| -> Report {
            Suite::new(device).over([]).only([Check::Waits]).holding(&hold).run()
        };
        let report = judged(&device);
        report.assert();
        assert_eq!(report.cases(), 16);
        let report = judged(&Faulty::of(&device).fault(Fault::CopyWaits).open());
        let failed: Vec<_> = report.failures().iter().map(|failure| &*failure.case).collect();
        assert_eq!(failed, ["a copy does not wait for earlier work"], "{report}");
    });
}

/// Without such work, a queue is given more and more to do until a call comes back before its end.
// Requirement: DRV-5
#[test]
fn calls_that_wait_are_found_at_the_pace_of_the_runtime() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        for (fault, case) in [
            (Fault::QueueWaitBlocks, "a queue's wait for an event does not hold up the host"),
            (Fault::QuestionWaits, "an event that has not passed says so at once"),
        ] {
            let device = Faulty::of(&device).fault(fault).open();
            let judged = || Suite::new(&device).over([]).only([Check::Waits]).run();
            let finds = |report: &Report| {
                let cases: Vec<_> =
                    report.failures().iter().map(|failure| &*failure.case).collect();
                assert!(cases.iter().all(|found| *found == case), "{report}");
                !cases.is_empty()
            };
            // On a busy machine the runtime's thread may have done the work before the judge has
            // asked, and then there is nothing to see.
            assert!((0..3).any(|_| finds(&judged())), "{case}: not found three times");
        }
    });
}
