//! Lists devices, and describes the driver in words.

use std::ffi::{CStr, c_char};
use std::fmt;

use arrow_device::{Error, Result};

use crate::code::{INVALID_VALUE, NO_DEVICE};
use crate::{Api, Code, ReadyDevice, error, ok};

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The number that `open` takes.
    pub ordinal: usize,
    /// The name of the device, for people.
    pub name: String,
    /// How many bytes of memory the device has.
    pub memory: u64,
    /// Whether the device has managed memory.
    pub has_managed_memory: bool,
    /// Whether the host may read managed memory while the device works.
    pub has_concurrent_managed_access: bool,
}

/// A description of a driver, to be printed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The runtime's name.
    pub runtime: &'static str,
    /// The name by which the library was found, `None` where there is none.
    pub library: Option<String>,
    /// The driver's version in words.
    pub version: Option<String>,
    /// Optional functions that the driver does not have, because it is too old.
    pub missing: Vec<&'static str>,
    /// The devices that can be opened.
    pub devices: Vec<Listed>,
    /// Why no device can be used.
    pub problem: Option<Error>,
}

/// Describes the driver. `api` is the driver, or the error of loading it.
pub fn diagnose<A: Api>(runtime: &'static str, api: Result<&A>) -> Diagnosis {
    let mut diagnosis = Diagnosis {
        runtime,
        library: None,
        version: None,
        missing: Vec::new(),
        devices: Vec::new(),
        problem: None,
    };
    let api = match api {
        Ok(api) => api,
        Err(error) => {
            diagnosis.problem = Some(error);
            return diagnosis;
        }
    };
    let found = &api.loaded().found;
    diagnosis.library = Some(found.name().to_owned());
    diagnosis.version = api.version().map_err(|_| api.forget_error()).ok();
    diagnosis.missing = found.missing();
    match list(api) {
        Ok(devices) => diagnosis.devices = devices,
        Err(error) => diagnosis.problem = Some(error),
    }
    diagnosis
}

/// Lists the devices. Returns an error where the driver works and there is no device.
pub fn list(api: &impl Api) -> Result<Vec<Listed>> {
    const OPERATION: &str = "list devices";
    let mut count = 0;
    // SAFETY: a number is written.
    let code = unsafe { (api.functions().init)(0) };
    let counted = api.loaded().initialised(code).and_then(|()| {
        // SAFETY: a number is written.
        ok(unsafe { (api.functions().device_count)(&mut count) })
    });
    let found = counted.and(if count == 0 { Err(NO_DEVICE) } else { Ok(()) });
    found.map_err(|code| error(api, code, OPERATION))?;
    let vendor = api.vendor();
    let listed = |ordinal: i32| {
        let (context, pool) = (std::ptr::null_mut(), std::ptr::null_mut());
        let device = ReadyDevice { ordinal, device: ordinal, context, pool };
        let attribute =
            |number| attribute(api, &device, number).map_err(|code| error(api, code, OPERATION));
        let memory = memory(api, &device).map_err(|code| error(api, code, OPERATION))?;
        Ok(Listed {
            ordinal: ordinal.unsigned_abs() as usize,
            name: name(api, &device),
            memory,
            has_managed_memory: vendor.managed.is_some() && attribute(vendor.managed_memory)? != 0,
            has_concurrent_managed_access: attribute(vendor.concurrent_managed_access)? != 0,
        })
    };
    (0..count).map(listed).collect()
}

/// Returns the device's name, or a name that is made of its number where the driver gives none.
pub(crate) fn name(api: &impl Api, device: &ReadyDevice) -> String {
    let mut text = [0 as c_char; 256];
    let room = text.len() as i32 - 1;
    // SAFETY: there is room for so many bytes, and one more that stays 0.
    let code = unsafe { (api.functions().device_name)(text.as_mut_ptr(), room, device.device) };
    if !api.succeeded(code) {
        return format!("{} device {}", api.vendor().name, device.ordinal);
    }
    // SAFETY: the text ends with a zero inside the array: its last byte was not given away.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_string_lossy().into_owned()
}

/// Returns how many bytes of memory a device has.
pub(crate) fn memory(api: &impl Api, device: &ReadyDevice) -> Result<u64, Code> {
    let mut memory = 0;
    // SAFETY: a number is written.
    ok(unsafe { (api.functions().device_total_memory)(&mut memory, device.device) })?;
    Ok(memory as u64)
}

/// Returns an attribute of a device, 0 where the driver does not know the attribute.
pub(crate) fn attribute(api: &impl Api, device: &ReadyDevice, attribute: i32) -> Result<i32, Code> {
    let mut value = 0;
    // SAFETY: a number is written.
    match unsafe { (api.functions().device_attribute)(&mut value, attribute, device.device) } {
        0 => Ok(value),
        INVALID_VALUE => {
            api.forget_error();
            Ok(0)
        }
        code => Err(code),
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.runtime)?;
        match &self.library {
            Some(library) => writeln!(f, "  library   {library}")?,
            None => writeln!(f, "  library   not found")?,
        }
        if let Some(version) = &self.version {
            writeln!(f, "  version   {version}")?;
        }
        if !self.missing.is_empty() {
            writeln!(
                f,
                "  it lacks  {} (everything works without, some of it slower)",
                self.missing.join(", ")
            )?;
        }
        for device in &self.devices {
            let managed = match (device.has_managed_memory, device.has_concurrent_managed_access) {
                (false, _) => "no managed memory",
                (true, false) => "managed memory that the host reads by copy",
                (true, true) => "managed memory that the host reads in place",
            };
            let Listed { ordinal, name, memory, .. } = device;
            writeln!(f, "  device {ordinal}  {name}, {} MiB, {managed}", memory >> 20)?;
        }
        match &self.problem {
            Some(problem) => write!(f, "  problem   {problem}"),
            None => write!(f, "  it can be used"),
        }
    }
}
