//! The conformance suite on CUDA's kinds of memory, with its numbers pinned. It takes long: each
//! test has a process of its own, so that they need not take turns.

use arrow_device_cuda::Kind;
use arrow_device_testkit::process;
use arrow_device_testkit::suite::Check;
use gpu_backends::{Bench, exchange};

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn device_memory_passes() {
    process::alone(|| {
        let bench = Bench::cuda();
        let report = exchange::suite(&bench, Kind::Device);
        assert_eq!(exchange::skipped(&report), [Check::Mappings, Check::ReadInPlace]);
        assert_eq!(report.cases(), 8 * 1598 + 32);
    });
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn pinned_memory_passes() {
    process::alone(|| {
        let bench = Bench::cuda();
        let report = exchange::suite(&bench, Kind::Host);
        assert_eq!(exchange::skipped(&report), []);
        assert_eq!(report.cases(), 9 * exchange::few().count() + 36);
    });
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn managed_memory_passes() {
    process::alone(|| {
        let bench = Bench::cuda();
        let report = exchange::suite(&bench, Kind::Managed);
        assert_eq!(exchange::skipped(&report), []);
        assert_eq!(report.cases(), 9 * exchange::few().count() + 35);
    });
}
