//! The CUDA devices on a driver that has nothing but what it must have.

use arrow_device_testkit::process;
use gpu_backends::{Bench, copies, plain};

#[test]
fn everything_works_without_what_is_optional() {
    process::alone(|| {
        let bench = plain::bench_cuda();
        copies::from_every_place_to_every_other(bench.queues(), 6);
        copies::streams(&bench.queues_of(0));
    });
}

#[test]
fn another_devices_memory_is_not_reachable() {
    process::alone(|| {
        plain::peers_are_not_reachable(&plain::bench_cuda());
    });
}

#[test]
fn the_diagnosis_says_what_is_missing() {
    process::alone(|| {
        let _bench: Bench = plain::bench_cuda();
        let text = arrow_device_cuda::diagnose().to_string();
        assert!(text.contains("it lacks") && text.contains("MemcpyBatchAsync"), "{text}");
        assert!(text.contains("it can be used"), "{text}");
    });
}

#[test]
fn managed_memory_is_copied_where_the_host_may_not_read_it() {
    process::alone(|| {
        plain::managed_memory_is_copied(&plain::bench_cuda());
    });
}

#[test]
fn no_more_managed_memory_is_given_out_than_there_is() {
    process::alone(|| {
        plain::managed_memory_is_bounded(&plain::bench_cuda());
    });
}
