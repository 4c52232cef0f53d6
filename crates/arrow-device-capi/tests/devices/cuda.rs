//! Streams and events of the application's on CUDA, through the header's functions, on a simulated
//! driver.

use arrow_device::DeviceType;
use arrow_device_testkit::process;
use gpu_backends::Bench;

use crate::processes::memory_goes_only_where_both_sides_trust;
use crate::streams;

#[test]
fn streams_and_events_of_the_application_go_in_and_out() {
    process::alone(|| {
        streams::streams_and_events_go_in_and_out(&Bench::cuda(), DeviceType::CUDA.0);
    });
}

#[test]
fn a_context_is_not_asked_for() {
    process::alone(|| {
        let _bench = Bench::cuda();
        streams::no_other_context_is_taken(DeviceType::CUDA.0);
    });
}

#[test]
fn sizes_of_views_may_lie_on_the_device() {
    process::alone(|| {
        streams::sizes_of_views_may_lie_on_the_device(&Bench::cuda(), DeviceType::CUDA.0);
    });
}

#[test]
fn memory_goes_to_another_process_only_where_both_sides_trust() {
    let test = "cuda::memory_goes_to_another_process_only_where_both_sides_trust";
    let device_type = DeviceType::CUDA.0;
    memory_goes_only_where_both_sides_trust(test, "cuda", device_type, || Ok(Bench::cuda()));
}
