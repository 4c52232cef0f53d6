//! WebGPU devices, by their number in the library's list.

use arrow_device::{DeviceType, Result};

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    arrow_device_webgpu::is_available()?;
    let found = arrow_device_webgpu::devices()?.into_iter().map(|listed| Found {
        name: Name { device_type: DeviceType::WEBGPU, number: listed.index },
        title: listed.name,
        // WebGPU does not tell how much there is.
        memory: None,
        driver_version: Some(listed.driver_version),
    });
    Ok(found.collect())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    Ok(Opened { device: arrow_device_webgpu::open(name.number)?, name, sim: None })
}
