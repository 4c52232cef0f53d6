//! The conformance suite on ROCm's kinds of memory, with its numbers pinned. It takes long: each
//! test has a process of its own, so that they need not take turns.

use arrow_device_rocm::Kind;
use arrow_device_testkit::process;
use arrow_device_testkit::suite::Check;
use gpu_backends::{Bench, exchange};

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn device_memory_passes() {
    process::alone(|| {
        let bench = Bench::rocm();
        let report = exchange::suite(&bench, Kind::Device);
        assert_eq!(exchange::skipped(&report), [Check::Mappings, Check::ReadInPlace]);
        assert_eq!(report.cases(), 8 * 1598 + 32);
    });
}

// Requirement: SYS-1, ARR-5, ARR-16, ARR-20
#[test]
fn pinned_memory_passes() {
    process::alone(|| {
        let bench = Bench::rocm();
        let report = exchange::suite(&bench, Kind::Host);
        assert_eq!(exchange::skipped(&report), []);
        assert_eq!(report.cases(), 9 * exchange::few().count() + 36);
    });
}

#[test]
fn managed_memory_has_no_type() {
    process::alone(|| {
        let bench = Bench::rocm();
        let error = bench.try_open(0, Kind::Managed).unwrap_err();
        assert_eq!(error.kind(), arrow_device::ErrorKind::Unsupported, "{error}");
    });
}
