//! ROCm devices, by their ordinal.

use arrow_device::Result;

use super::{Found, Name, Opened, ROCM, gpu};

pub(super) fn list() -> Result<Vec<Found>> {
    gpu::found(ROCM, arrow_device_rocm::diagnose())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    let device = arrow_device_rocm::open_with(name.number, gpu::kind(name.device_type))?;
    Ok(Opened { device, name, sim: None })
}
