//! OpenCL devices, by their number over all platforms.

use arrow_device::{DeviceType, Result};

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    let listed = arrow_device_opencl::devices()?;
    let found = listed.into_iter().map(|listed| Found {
        name: Name { device_type: DeviceType::OPENCL, number: listed.index },
        title: listed.name,
        memory: Some(listed.memory),
        driver_version: Some(listed.driver_version),
    });
    Ok(found.collect())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    Ok(Opened { device: arrow_device_opencl::open(name.number)?, name, sim: None })
}
