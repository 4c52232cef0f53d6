//! Metal devices. The default device is the first one.

use arrow_device::{DeviceType, Result};

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    // Where there is none, this says why.
    arrow_device_metal::is_available()?;
    let found = arrow_device_metal::devices()?.into_iter().map(|listed| Found {
        name: Name { device_type: DeviceType::METAL, number: listed.index },
        title: listed.name,
        memory: (listed.memory > 0).then_some(listed.memory),
        driver_version: None,
    });
    Ok(found.collect())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    Ok(Opened { device: arrow_device_metal::open(name.number)?, name, sim: None })
}
