//! Finding a driver's library, and functions in it.

use std::ffi::OsString;
use std::sync::Mutex;

use libloading::Library;

use crate::{Vendor, process};

/// A library that was found. It stays loaded until the process ends, because memory that was handed out is released through
/// it.
#[derive(Debug)]
pub struct Found {
    library: &'static Library,
    name: String,
    missing: Mutex<Vec<&'static str>>,
    vendor: &'static Vendor,
}

/// Loads the library that `variable` names in the environment, or the first of these names that there is. An error says what to
/// do.
pub fn find(vendor: &'static Vendor, variable: &str, names: &[&str]) -> Result<Found, String> {
    let names = match std::env::var_os(variable) {
        Some(name) => vec![name],
        None => names.iter().map(OsString::from).collect(),
    };
    let mut problems = Vec::new();
    for name in names {
        let name_shown = name.to_string_lossy().into_owned();
        // SAFETY: `Library::new` asks that the library's initialisers are sound; these names are those of the vendor's
        // driver, or were given by whoever runs the program.
        match unsafe { Library::new(&name) } {
            Ok(library) => {
                process::watch();
                // Never dropped: memory that was handed out is released through it.
                let library: &'static Library = Box::leak(Box::new(library));
                let missing = Mutex::new(Vec::new());
                return Ok(Found { library, name: name_shown, missing, vendor });
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    let Vendor { name, install, .. } = vendor;
    Err(format!("the {name} driver's library was not found: {install} ({})", problems.join("; ")))
}

impl Found {
    /// A function that has to be there.
    ///
    /// # Safety
    /// `T` is the type of the function of that name.
    pub unsafe fn required<T: Copy>(&self, name: &'static str) -> Result<T, String> {
        // SAFETY: promised by the caller.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        found.map(|symbol| *symbol).map_err(|error| {
            let Vendor { install, .. } = self.vendor;
            format!("{} has no {name}: {install} ({error})", self.name)
        })
    }

    /// A function that may be missing; [`missing`](Self::missing) remembers it.
    ///
    /// # Safety
    /// As for [`required`](Self::required).
    pub unsafe fn optional<T: Copy>(&self, name: &'static str) -> Option<T> {
        // SAFETY: promised by the caller.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        match found {
            Ok(symbol) => Some(*symbol),
            Err(_) => {
                self.missing.lock().unwrap_or_else(|error| error.into_inner()).push(name);
                None
            }
        }
    }

    /// The name that it was found by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The optional functions that it does not have.
    pub fn missing(&self) -> Vec<&'static str> {
        self.missing.lock().unwrap_or_else(|error| error.into_inner()).clone()
    }
}
