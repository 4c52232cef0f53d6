//! Streams and events of the application's on ROCm, through the header's functions, on a simulated
//! driver.

use arrow_device::DeviceType;
use arrow_device_testkit::process;
use gpu_backends::Bench;

use crate::streams;

#[test]
fn streams_and_events_of_the_application_go_in_and_out() {
    process::alone(|| {
        streams::streams_and_events_go_in_and_out(&Bench::rocm(), DeviceType::ROCM.0);
    });
}

#[test]
fn a_context_is_not_asked_for() {
    process::alone(|| {
        let _bench = Bench::rocm();
        streams::no_other_context_is_taken(DeviceType::ROCM.0);
    });
}

#[test]
fn sizes_of_views_may_lie_on_the_device() {
    process::alone(|| {
        streams::sizes_of_views_may_lie_on_the_device(&Bench::rocm(), DeviceType::ROCM.0);
    });
}
