//! The software device: always there, and a new one each time it is opened.

use arrow_device::{DeviceType, Result};
use arrow_device_sim::Sim;

use super::{Found, Name, Opened};

pub(super) fn list() -> Result<Vec<Found>> {
    Ok(vec![Found {
        name: Name { device_type: DeviceType::EXT_DEV, number: 0 },
        title: "software device".to_owned(),
        memory: None,
        driver_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }])
}

pub(super) fn open(name: Name) -> Result<Opened> {
    let sim = Sim::builder().build();
    Ok(Opened { device: sim.device(), name, sim: Some(sim) })
}
