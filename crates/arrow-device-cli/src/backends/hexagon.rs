//! Memory that the compute DSP of a Qualcomm chip shares. Whether there are more DSPs shows only
//! when an application opens a session, so one is listed.

use arrow_device::{DeviceType, Result};
use arrow_device_hexagon::{domain, is_available};

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    is_available()?;
    let number = domain::CDSP as usize;
    Ok(vec![Found {
        name: Name { device_type: DeviceType::HEXAGON, number },
        title: "memory of the compute DSP".into(),
        memory: None,
        driver_version: None,
    }])
}

pub(super) fn open(name: Name) -> Result<Opened> {
    let domain = u32::try_from(name.number).unwrap_or(u32::MAX);
    Ok(Opened { device: arrow_device_hexagon::open(domain)?, name, sim: None })
}
