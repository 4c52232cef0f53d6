//! A driver that is there, and no device.

use arrow_device_gpu_checks::{Bench, faults};
use arrow_device_simdrv::Vendor;

#[test]
fn all_errors_say_that_there_is_no_device() {
    faults::no_device(&Bench::with(Vendor::Cuda, |builder| builder.devices(0)));
}
