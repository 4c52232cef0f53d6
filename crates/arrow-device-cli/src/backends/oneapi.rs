//! oneAPI devices, by their number among all root devices of SYCL.

use arrow_device::{DeviceType, Result};

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    arrow_device_oneapi::is_available()?;
    let listed = arrow_device_oneapi::devices()?.into_iter();
    let found = listed.filter(|listed| !listed.kinds.is_empty()).map(|listed| Found {
        name: Name { device_type: DeviceType::ONEAPI, number: listed.index },
        title: listed.name,
        memory: Some(listed.memory),
        driver_version: Some(listed.driver_version),
    });
    Ok(found.collect())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    Ok(Opened { device: arrow_device_oneapi::open(name.number)?, name, sim: None })
}
