//! Events that are awaited.

use arrow_device_testkit::process;
use gpu_backends::{Bench, awaits};
use simulated_gpu_drivers::Vendor;

// Requirement: SAF-40
#[test]
fn awaited_events_are_announced() {
    process::alone(|| {
        awaits::awaited_events_are_announced(&Bench::with(Vendor::Cuda, |driver| driver))
    });
}
