//! The devices of the simulated drivers of CUDA and HIP: one of each.

use std::sync::OnceLock;

use arrow_device::{Device, Result};
use simulated_gpu_drivers::{Simulated, Vendor};

use crate::Opened;

/// The drivers that were made, for as long as the process.
static DRIVERS: OnceLock<Vec<Simulated>> = OnceLock::new();

/// Makes the drivers that nobody chose otherwise. Called before anything else looks for one.
pub(crate) fn prepare() {
    DRIVERS.get_or_init(|| {
        let vendors = [
            (Vendor::Cuda, "ARROW_DEVICE_CUDA_LIBRARY"),
            (Vendor::Hip, "ARROW_DEVICE_HIP_LIBRARY"),
        ];
        let unchosen = vendors.into_iter().filter(|(_, name)| std::env::var_os(name).is_none());
        let made = unchosen.map(|(vendor, name)| {
            let driver = Simulated::builder(vendor).load();
            // SAFETY: nobody reads the environment meanwhile but through `std::env`: whoever reads
            // this variable otherwise passed this cell first.
            unsafe { std::env::set_var(name, driver.path()) };
            driver
        });
        made.collect()
    });
}

/// The first device of CUDA, with this kind of memory.
pub(crate) fn cuda(kind: arrow_device_cuda::Kind) -> Result<Opened> {
    arrow_device_cuda::open_with(0, kind).map(watched)
}

/// The same of ROCm.
pub(crate) fn rocm(kind: arrow_device_rocm::Kind) -> Result<Opened> {
    arrow_device_rocm::open_with(0, kind).map(watched)
}

fn watched(device: Device) -> Opened {
    Opened { devices: vec![device], keep: Some(Box::new(Watch)) }
}

/// Asks the drivers for mistakes when a world ends. They are those of all tests until then: each is
/// one too many.
struct Watch;

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for driver in DRIVERS.get().into_iter().flatten() {
            let reports = driver.take_reports();
            let texts: Vec<String> = reports.iter().map(ToString::to_string).collect();
            assert!(texts.is_empty(), "a driver reports {texts:#?}");
        }
    }
}
