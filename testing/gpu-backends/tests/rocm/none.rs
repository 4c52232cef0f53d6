//! A driver that is there, and no device.

use arrow_device_testkit::process;
use gpu_backends::{Bench, faults};
use simulated_gpu_drivers::Vendor;

#[test]
fn all_errors_say_that_there_is_no_device() {
    process::alone(|| {
        faults::no_device(&Bench::with(Vendor::Hip, |builder| builder.devices(0)));
    });
}
