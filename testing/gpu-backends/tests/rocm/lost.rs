//! A ROCm device that is lost. It stays lost, so the test has a process of its own.

use arrow_device_testkit::process;
use gpu_backends::{Bench, faults};

#[test]
fn all_errors_say_so_and_everything_is_released() {
    process::alone(|| {
        faults::a_lost_device(&Bench::rocm());
    });
}
