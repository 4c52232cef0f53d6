//! The conformance suite, with its numbers pinned, on each kind of memory.

use arrow_device::driver::{HostAccess, WaitingCopies};
use arrow_device::{Device, Queue};
use arrow_device_oneapi::Kind;
use arrow_device_testkit::faulty::{Fault, Faulty};
use arrow_device_testkit::suite::{Check, Report, Suite};
use arrow_device_testkit::{kinds, process};

use crate::support::{self, Gate, runtime};

fn passes(index: usize, kind: Kind, is_whole: bool, cases: usize) {
    let Some(device) = support::device_with(index, kind) else { return };
    let suite = Suite::new(&device);
    let some = || kinds::cases_of(kinds::types()).step_by(7);
    let report = if is_whole { suite.run() } else { suite.over(some()).run() };
    report.assert();
    let skipped: Vec<Check> = report.skipped().map(|(check, _)| check).collect();
    let expected: &[Check] = match device.properties().host_access {
        HostAccess::None => &[Check::Mappings, Check::ReadInPlace, Check::AnotherDevice],
        HostAccess::Mapped => &[Check::AnotherDevice],
    };
    assert_eq!(skipped, expected);
    assert_eq!(report.cases(), cases);
    drop(device);
    runtime().assert_no_mistakes();
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn memory_of_the_device_passes() {
    passes(0, Kind::Device, true, 11215);
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn memory_of_the_host_passes() {
    process::alone(|| passes(0, Kind::Host, true, 12817));
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn shared_memory_passes() {
    process::alone(|| passes(0, Kind::Shared, true, 12817));
}

/// A device that is no processor: copies are staged, and queues are flushed.
#[test]
fn memory_of_a_gpu_passes() {
    process::alone(|| {
        if support::simulated().is_none() {
            return;
        }
        let device = support::device_with(1, Kind::Device).unwrap();
        assert_eq!(device.properties().waiting_copies, WaitingCopies::OfPlainMemory);
        passes(1, Kind::Device, false, 862);
    });
}

#[test]
fn shared_memory_that_the_host_may_not_read_at_any_time_passes() {
    process::alone(|| {
        if support::simulated().is_none() {
            return;
        }
        let device = support::device_with(1, Kind::Shared).unwrap();
        assert_eq!(device.properties().host_access, HostAccess::None);
        passes(1, Kind::Shared, false, 862);
    });
}

/// Work of the application's keeps a queue from its end until calls have come back. With the fault
/// they do not, which takes the suite some seconds to see.
// Requirement: DRV-5
#[test]
fn calls_come_back_while_work_goes_on() {
    process::alone(|| {
        let Some(device) = support::device() else { return };
        if !runtime().has_gates() {
            return;
        }
        let hold = |queue: &Queue| -> Box<dyn FnOnce()> {
            let mut gate = Gate::before(queue);
            Box::new(move || gate.open())
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
