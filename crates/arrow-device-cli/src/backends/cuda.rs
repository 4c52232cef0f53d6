//! CUDA devices, by their ordinal.

use arrow_device::Result;

use super::{CUDA, Found, Name, Opened, gpu};

pub(super) fn list() -> Result<Vec<Found>> {
    gpu::found(CUDA, arrow_device_cuda::diagnose())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    let device = arrow_device_cuda::open_with(name.number, gpu::kind(name.device_type))?;
    Ok(Opened { device, name, sim: None })
}
