//! The ROCm devices on a driver that has nothing but what it must have.

use arrow_device_testkit::process;
use gpu_backends::{Bench, copies, plain};

#[test]
fn everything_works_without_what_is_optional() {
    process::alone(|| {
        let bench = plain::bench_rocm();
        copies::from_every_place_to_every_other(bench.queues(), 6);
        copies::streams(&bench.queues_of(0));
    });
}

#[test]
fn another_devices_memory_is_not_reachable() {
    process::alone(|| {
        plain::peers_are_not_reachable(&plain::bench_rocm());
    });
}

#[test]
fn the_diagnosis_says_what_is_missing() {
    process::alone(|| {
        let _bench: Bench = plain::bench_rocm();
        let text = arrow_device_rocm::diagnose().to_string();
        assert!(text.contains("it lacks") && text.contains("MemcpyBatchAsync"), "{text}");
        assert!(text.contains("it can be used"), "{text}");
    });
}
