//! Vulkan devices, by their number over all drivers. One that lacks what is needed is not listed.

use arrow_device::{DeviceType, Result};

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    // Where none can be opened, this says what they lack.
    arrow_device_vulkan::is_available()?;
    let mut listed = arrow_device_vulkan::devices()?;
    listed.retain(|listed| listed.can_open);
    let found = listed.into_iter().map(|listed| Found {
        name: Name { device_type: DeviceType::VULKAN, number: listed.index },
        title: listed.name,
        memory: Some(listed.memory),
        driver_version: Some(listed.driver_version),
    });
    Ok(found.collect())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    Ok(Opened { device: arrow_device_vulkan::open(name.number)?, name, sim: None })
}
