//! The host.

use arrow_device::{Device, DeviceType, Result};

use super::{Found, Name, Opened};

const NAME: Name = Name { device_type: DeviceType::CPU, number: 0 };

pub(super) fn list() -> Result<Vec<Found>> {
    let title = Device::host().properties().name.clone();
    let driver_version = line_of("/proc/sys/kernel/osrelease", "");
    Ok(vec![Found { name: NAME, title, memory: memory(), driver_version }])
}

pub(super) fn open(name: Name) -> Result<Opened> {
    Ok(Opened { device: Device::host(), name, sim: None })
}

/// What Linux says; not known elsewhere.
fn memory() -> Option<u64> {
    let line = line_of("/proc/meminfo", "MemTotal:")?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The rest of the first line that begins so.
fn line_of(file: &str, start: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(start)).map(|rest| rest.trim().to_owned())
}
