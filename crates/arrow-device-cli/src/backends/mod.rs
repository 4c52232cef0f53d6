//! Where devices come from: a table with one row for each backend.
//!
//! A device is named as the command prints it: its type and, where there are several, its number in
//! the list of that type. That number is the command's own; the `device_id` of the C interface is
//! something else on many types.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(any(feature = "cuda", feature = "rocm"))]
mod gpu;
#[cfg(feature = "hexagon")]
mod hexagon;
mod host;
#[cfg(feature = "metal")]
mod metal;
#[cfg(feature = "oneapi")]
mod oneapi;
#[cfg(feature = "opencl")]
mod opencl;
#[cfg(feature = "rocm")]
mod rocm;
mod software;
#[cfg(feature = "vpi")]
mod vpi;
#[cfg(feature = "vulkan")]
mod vulkan;
#[cfg(feature = "webgpu")]
mod webgpu;

use std::fmt;

use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};
use arrow_device_sim::Sim;

use crate::failure::{Failure, Outcome};

/// Whatever provides devices of some types.
pub(crate) struct Backend {
    types: &'static [DeviceType],
    /// All devices that are there, of all its types; where there are none, why.
    list: fn() -> Result<Vec<Found>>,
    /// Opens one of them.
    open: fn(Name) -> Result<Opened>,
}

/// The row of a backend: its feature, its module, and the types of its devices. Where a build
/// leaves the backend out, the row stays and says so.
macro_rules! backend {
    ($feature:tt, $module:ident, $types:expr) => {{
        #[cfg(feature = $feature)]
        let row = Backend { types: $types, list: $module::list, open: $module::open };
        #[cfg(not(feature = $feature))]
        let row = Backend::left_out($types, || Err(left_out($feature)));
        row
    }};
}

/// All backends.
const ALL: &[Backend] = &[
    Backend { types: &[DeviceType::CPU], list: host::list, open: host::open },
    backend!("cuda", cuda, CUDA),
    backend!("opencl", opencl, &[DeviceType::OPENCL]),
    backend!("vulkan", vulkan, &[DeviceType::VULKAN]),
    backend!("webgpu", webgpu, &[DeviceType::WEBGPU]),
    backend!("vpi", vpi, &[DeviceType::VPI]),
    backend!("metal", metal, &[DeviceType::METAL]),
    backend!("rocm", rocm, ROCM),
    backend!("oneapi", oneapi, &[DeviceType::ONEAPI]),
    backend!("hexagon", hexagon, &[DeviceType::HEXAGON]),
    Backend { types: &[DeviceType::EXT_DEV], list: software::list, open: software::open },
];

/// What a GPU of Nvidia has: its own memory, pinned memory and managed memory.
const CUDA: &[DeviceType] = &[DeviceType::CUDA, DeviceType::CUDA_HOST, DeviceType::CUDA_MANAGED];

/// What a GPU of AMD has: its own memory and pinned memory.
const ROCM: &[DeviceType] = &[DeviceType::ROCM, DeviceType::ROCM_HOST];

/// A device that can be opened.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: Name,
    /// What its driver calls it.
    pub(crate) title: String,
    /// In bytes, where that is known.
    pub(crate) memory: Option<u64>,
    pub(crate) driver_version: Option<String>,
}

/// An open device.
pub(crate) struct Opened {
    pub(crate) device: Device,
    pub(crate) name: Name,
    /// What watches it, where it is made of software.
    pub(crate) sim: Option<Sim>,
}

impl Opened {
    /// An error if the device saw a mistake.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        match self.sim.take().map(Sim::finish).unwrap_or_default().as_slice() {
            [] => Ok(()),
            [first, ..] => Err(Failure::new(format!("the software device reports: {first}"))),
        }
    }
}

impl Drop for Opened {
    /// After a failure it does not matter what else is left behind.
    fn drop(&mut self) {
        drop(self.sim.take().map(Sim::finish));
    }
}

/// What a device is called here: `cpu`, `opencl:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) device_type: DeviceType,
    pub(crate) number: usize,
}

impl Name {
    /// `opencl` is the first one; `sim` is the software device.
    pub(crate) fn parse(text: &str) -> Outcome<Self> {
        let (name, number) = text.split_once(':').unwrap_or((text, "0"));
        let name = if name == "sim" { "ext_dev" } else { name };
        let refused = || {
            Failure::misuse(format!(
                "`{text}` names no device; `cpu` and `opencl:0` do, and `arrow-device devices` lists those that are here"
            ))
        };
        let device_type = name.parse().map_err(|_| refused())?;
        Ok(Self { device_type, number: number.parse().map_err(|_| refused())? })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device_type {
            DeviceType::CPU => f.write_str("cpu"),
            _ => write!(f, "{}:{}", self.device_type, self.number),
        }
    }
}

/// The devices of one type that are here, or why there are none.
pub(crate) fn list(device_type: DeviceType) -> Result<Vec<Found>> {
    let mut found = (backend_of(device_type)?.list)()?;
    found.retain(|found| found.name.device_type == device_type);
    if found.is_empty() {
        return Err(Error::new(ErrorKind::DeviceMissing, "the driver lists no such device"));
    }
    Ok(found)
}

/// The first of the types whose devices are the same ones with other memory.
pub(crate) fn first_of_backend(device_type: DeviceType) -> Option<DeviceType> {
    backend_of(device_type).ok()?.types.first().copied()
}

/// All devices that are here.
pub(crate) fn present() -> Vec<Found> {
    ALL.iter().flat_map(|backend| (backend.list)().unwrap_or_default()).collect()
}

/// Opens a device.
pub(crate) fn open(name: Name) -> Outcome<Opened> {
    let opened = backend_of(name.device_type).and_then(|backend| {
        let found = (backend.list)()?;
        if !found.iter().any(|found| found.name == name) {
            let message = format!("there is no device {name}; `arrow-device devices` lists them");
            return Err(Error::new(ErrorKind::DeviceMissing, message));
        }
        (backend.open)(name)
    });
    opened.map_err(|error| Failure::from(error).during(format_args!("cannot open {name}")))
}

/// A device for people to read: the id of a software device is long and says nothing.
pub(crate) fn label(id: DeviceId) -> String {
    if Sim::is_ours(id) { "ext_dev (software)".to_owned() } else { id.to_string() }
}

fn backend_of(device_type: DeviceType) -> Result<&'static Backend> {
    ALL.iter()
        .find(|backend| backend.types.contains(&device_type))
        .ok_or_else(|| Error::new(ErrorKind::Unsupported, "no backend of this command provides it"))
}

impl Backend {
    #[allow(dead_code, reason = "a build with all backends leaves none out")]
    const fn left_out(types: &'static [DeviceType], why: fn() -> Result<Vec<Found>>) -> Self {
        Self {
            types,
            list: why,
            // What lists nothing is never asked to open anything.
            open: |_| Err(Error::new(ErrorKind::Unsupported, "this build leaves it out")),
        }
    }
}

#[allow(dead_code, reason = "a build with all backends leaves none out")]
fn left_out(feature: &str) -> Error {
    let message =
        format!("this build of the command leaves it out: build with `--features {feature}`");
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_printed() {
        for text in ["cpu", "opencl:1", "ext_dev:0"] {
            assert_eq!(Name::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Name::parse("sim").unwrap(), Name::parse("ext_dev").unwrap());
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "opencl:0:0"] {
            assert!(Name::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_host_and_the_software_device_are_always_there() {
        let present = present();
        for name in ["cpu", "ext_dev:0"] {
            assert!(present.iter().any(|found| found.name.to_string() == name), "{present:?}");
        }
        assert!(list(DeviceType(4711)).is_err());
        assert!(open(Name { device_type: DeviceType::CPU, number: 1 }).is_err());
    }
}
