//! A driver that is there, and no device.

use gpu_backends::{Bench, faults};
use simulated_gpu_drivers::Vendor;

#[test]
fn all_errors_say_that_there_is_no_device() {
    faults::no_device(&Bench::with(Vendor::Hip, |builder| builder.devices(0)));
}
