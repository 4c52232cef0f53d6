//! The conformance suite, with its numbers pinned.

use arrow_device::{Device, Queue};
use arrow_device_testkit::faulty::{Fault, Faulty};
use arrow_device_testkit::process;
use arrow_device_testkit::suite::{Check, Report, Suite};

use crate::{hooks, support};

/// Runs the suite, and compares what it looked at.
fn passes(device: &Device) {
    let report = Suite::new(device).run();
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    assert_eq!(skipped, [Check::Mappings, Check::ReadInPlace, Check::AnotherDevice]);
    assert_eq!(report.cases(), 7 * 1598 + 27);
}

// Requirement: SYS-1, ARR-5, ARR-7, ARR-16, ARR-20
#[test]
fn a_device_passes() {
    let Some(device) = support::device() else { return };
    passes(&device);
}

// Requirement: SYS-1, ARR-5, ARR-7, ARR-16, ARR-20
#[test]
fn a_device_of_dawn_passes() {
    support::with_dawn(|| {
        let device = support::device().unwrap();
        assert!(device.properties().name.contains("SwiftShader"), "{device:?}");
        passes(&device);
    });
}

/// Callbacks are held back until calls have come back, work fails, and the device is lost, all by
/// what the library's callbacks say.
// Requirement: DRV-5
#[test]
fn what_callbacks_tell_is_told_on() {
    process::alone(|| {
        let Some((web, device)) = hooks::opened() else { return };
        let hold = |_: &Queue| -> Box<dyn FnOnce()> { hooks::hold() };
        let lose = || web.is_lost().store(true, std::sync::atomic::Ordering::SeqCst);
        let judged = |device: &Device| -> Report {
            let checks = [Check::Waits, Check::Bytes, Check::Memory];
            let suite = Suite::new(device).over([]).only(checks);
            suite.holding(&hold).calling_back(&hooks::run_in_polls).run()
        };
        let report = judged(&device);
        report.assert();
        assert_eq!(report.cases(), 29);
        let report = judged(&Faulty::of(&device).fault(Fault::CopyWaits).open());
        let failed: Vec<_> = report.failures().iter().map(|failure| &*failure.case).collect();
        assert_eq!(failed, ["a copy does not wait for earlier work"], "{report}");
        let suite = Suite::new(&device).over([]).failing(&hooks::fail_next).losing(&lose);
        let report = suite.run();
        report.assert();
        println!("{report}");
    });
}
