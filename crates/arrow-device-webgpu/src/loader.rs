//! The library that this crate loads: wgpu-native or Dawn.
//!
//! `ARROW_DEVICE_WEBGPU_LIBRARY` names another file to load, and so does
//! [`load_library`](crate::load_library).

use std::ffi::{CStr, OsStr, OsString};
use std::sync::OnceLock;

use arrow_device::driver::LibraryUse;
use arrow_device::{Error, ErrorKind, Result};

use crate::api::{self, Api};
use crate::handles::Functions;

const OPERATION: &str = "load WebGPU";

/// Guards the use of WebGPU through any library.
static LIBRARY: LibraryUse = LibraryUse::new();

/// Returns an error in a child of `fork` whose parent has called this, and after the process has
/// begun to exit. Has to come before every lock.
pub(crate) fn enter() -> Result<()> {
    LIBRARY.enter().map_err(|error| error.during(OPERATION))
}

/// Says that a library may have registered handlers for the end of the process.
pub(crate) fn loaded() {
    LIBRARY.loaded();
}

/// The library that was named, settled by the first call that names or loads one. Empty where the
/// usual names are looked for.
static NAMED: OnceLock<OsString> = OnceLock::new();
static LOADED: OnceLock<Result<Api, String>> = OnceLock::new();

/// Names the library to load. Nothing is loaded yet.
pub(crate) fn name(library: &OsStr) -> Result<()> {
    enter()?;
    let known = NAMED.get_or_init(|| library.to_owned());
    if known == library {
        return Ok(());
    }
    let known = if known.is_empty() { "the usual library".into() } else { known.to_string_lossy() };
    let message = format!("this process uses {known} already");
    Err(Error::new(ErrorKind::InvalidArgument, message).during(OPERATION))
}

fn from_environment() -> Option<OsString> {
    std::env::var_os("ARROW_DEVICE_WEBGPU_LIBRARY")
}

/// Returns the functions. The first call loads them.
pub(crate) fn load() -> Result<Api> {
    // Comes first: a thread of the parent may have been in the middle of what follows.
    enter()?;
    let first = || {
        let found = open();
        loaded();
        found
    };
    LOADED
        .get_or_init(first)
        .clone()
        .map_err(|message| Error::new(ErrorKind::DriverMissing, message).during(OPERATION))
}

fn open() -> Result<Api, String> {
    let named = NAMED.get_or_init(|| from_environment().unwrap_or_default());
    let names = if named.is_empty() {
        default_names().iter().map(OsString::from).collect()
    } else {
        vec![named.clone()]
    };
    let mut problems = Vec::new();
    for name in names {
        // SAFETY: UNS-31: the names are those of wgpu-native and Dawn, or were given by whoever
        // runs the program; what else has such a name lacks the functions.
        match unsafe { api::of_library(&name) } {
            Ok(api) => return Ok(api),
            Err(problem) => problems.push(problem),
        }
    }
    Err(format!(
        "no WebGPU library was found: install wgpu-native (libwgpu_native.so, which the Python package `wgpu` has, too) or Dawn, and name the file in ARROW_DEVICE_WEBGPU_LIBRARY ({})",
        problems.join("; ")
    ))
}

/// Returns the functions of an application's library.
pub(crate) fn functions(of: &Functions) -> Result<Api> {
    enter()?;
    let found = match of {
        Functions::OfThisCrate => return load(),
        // SAFETY: UNS-31, which the caller of `open_from` promises of the library.
        Functions::OfLibrary(library) => unsafe { api::of_library(library) },
        Functions::ByName(find) => {
            let lookup = |name: &CStr| {
                find(name).map_or(std::ptr::null(), |found| found.as_ptr().cast_const())
            };
            // SAFETY: UNS-31, which the caller of `open_from` promises of the lookup.
            unsafe { api::find(&lookup) }
        }
    };
    loaded();
    found.map_err(|message| Error::new(ErrorKind::DriverMissing, message).during(OPERATION))
}

#[cfg(windows)]
fn default_names() -> &'static [&'static str] {
    &["wgpu_native.dll", "webgpu_dawn.dll"]
}

#[cfg(target_vendor = "apple")]
fn default_names() -> &'static [&'static str] {
    &["libwgpu_native.dylib", "libwebgpu_dawn.dylib"]
}

#[cfg(not(any(windows, target_vendor = "apple")))]
fn default_names() -> &'static [&'static str] {
    &["libwgpu_native.so", "libwebgpu_dawn.so"]
}
