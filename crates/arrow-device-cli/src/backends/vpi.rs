//! Simulators of hardware, by their number. One is started when it is asked for.

use arrow_device::{DeviceType, Result};

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    let listed = arrow_device_vpi::devices()?;
    let found = listed.into_iter().map(|listed| Found {
        name: Name { device_type: DeviceType::VPI, number: listed.index },
        title: listed.name,
        // That of the design, which is compiled when the simulator is started.
        memory: None,
        driver_version: Some(listed.driver_version),
    });
    Ok(found.collect())
}

pub(super) fn open(name: Name) -> Result<Opened> {
    Ok(Opened { device: arrow_device_vpi::open(name.number)?, name, sim: None })
}
