//! Finds a driver's library, the functions in it, and the devices that it has.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_device::{Error, ErrorKind, Result};
use libloading::Library;

use crate::{Code, Functions, Handle, Mapping, Vendor, ok};

/// A library that was found. It stays loaded until the process ends, because memory that was handed
/// out is released through its functions.
#[derive(Debug)]
pub struct Found {
    library: &'static Library,
    name: String,
    missing: Mutex<Vec<&'static str>>,
    pub(crate) vendor: &'static Vendor,
}

/// A device that is ready for calls: the numbers and the handle by which calls name it.
#[derive(Clone, Copy, Debug)]
pub struct ReadyDevice {
    /// The number of the device in this process.
    pub ordinal: i32,
    /// The handle of the device, which some functions take in place of the number.
    pub device: i32,
    /// The primary context of the device; null where the vendor has no contexts.
    pub context: Handle,
    /// This library's pool on the device; null where there is none.
    pub pool: Handle,
}

// SAFETY: the members are two numbers and handles of a context and of a pool, which are never
// destroyed, and the manuals of both vendors let any thread use either.
unsafe impl Send for ReadyDevice {}
// SAFETY: the members are numbers and handles that do not change.
unsafe impl Sync for ReadyDevice {}

/// The part of a loaded driver that both vendors have.
#[derive(Debug)]
pub struct Loaded {
    /// The library.
    pub found: Found,
    /// The functions that both vendors have.
    pub functions: Functions,
    /// The functions by which memory is mapped by hand, where the library has all of them.
    pub mapping: Option<Mapping>,
    /// What was mapped by hand.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    pub(crate) mappings: Mutex<crate::sharing::Mappings>,
    /// The devices that were made ready, for the life of the process: memory that was exported
    /// outlives whoever opened the device.
    ready: Mutex<Vec<ReadyDevice>>,
    /// Whether the driver was initialised. From then on the library sees the end of the process
    /// before the driver's handlers run.
    is_initialised: AtomicBool,
}

/// Loads the driver of a vendor on the first call. An error stays for the life of the process. In a
/// child of `fork` whose parent has called this, and after the end of the process has begun, every
/// call is an error.
///
/// `whole` adds the functions that only this vendor has.
///
/// # Safety
/// UNS-31: the vendor's names are those of functions that have in its libraries the types of
/// [`Functions`] and [`Mapping`].
pub unsafe fn load<A>(
    vendor: &'static Vendor,
    loaded: &'static OnceLock<Result<A, String>>,
    whole: fn(Loaded) -> Result<A, String>,
) -> Result<&'static A> {
    const OPERATION: &str = "load the driver";
    // Before anything that a thread of the parent may have been in the middle of.
    vendor.library_use.enter().map_err(|error| error.during(OPERATION))?;
    let loaded = loaded.get_or_init(|| {
        // SAFETY: UNS-31, which the caller promises.
        whole(unsafe { Loaded::new(vendor) }?)
    });
    loaded
        .as_ref()
        .map_err(|message| Error::new(ErrorKind::DriverMissing, message.clone()).during(OPERATION))
}

impl Loaded {
    /// # Safety
    /// UNS-31: the vendor's names are those of functions that have the types of [`Functions`]
    /// and [`Mapping`].
    unsafe fn new(vendor: &'static Vendor) -> Result<Self, String> {
        let found = find(vendor)?;
        // SAFETY: UNS-31, which the caller promises.
        let functions = unsafe { Functions::find(&found, &vendor.functions) }?;
        // SAFETY: UNS-31, which the caller promises.
        let mapping = unsafe { Mapping::find(&found, &vendor.mapping) }.ok();
        Ok(Self {
            found,
            functions,
            mapping,
            #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
            mappings: Mutex::default(),
            ready: Mutex::default(),
            is_initialised: AtomicBool::new(false),
        })
    }

    /// Checks the code of a call that initialises the driver. Such a call may register handlers of
    /// the end of the process, and the latest handler runs first. So after the first success the
    /// library registers its own, to see the end before those.
    pub(crate) fn initialised(&self, code: Code) -> Result<(), Code> {
        ok(code)?;
        if !self.is_initialised.swap(true, Ordering::Relaxed) {
            self.found.vendor.library_use.loaded();
        }
        Ok(())
    }

    /// Returns the device of this number. `get_ready` makes it ready when it is asked for the first
    /// time.
    pub(crate) fn ready(
        &self,
        ordinal: i32,
        get_ready: impl FnOnce() -> Result<ReadyDevice, Code>,
    ) -> Result<ReadyDevice, Code> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ready.iter().find(|device| device.ordinal == ordinal) {
            return Ok(*known);
        }
        // SAFETY: the flags have to be 0; it may be called any number of times.
        self.initialised(unsafe { (self.functions.init)(0) })?;
        let device = get_ready()?;
        // A context may have registered handlers of the end of the process, too.
        self.found.vendor.library_use.loaded();
        ready.push(device);
        Ok(device)
    }
}

/// Loads the library that the vendor's environment variable names, or the first of the vendor's
/// libraries that is there. An error says what to do.
fn find(vendor: &'static Vendor) -> Result<Found, String> {
    let names = match std::env::var_os(vendor.library_variable) {
        Some(name) => vec![name],
        None => vendor.libraries.iter().map(OsString::from).collect(),
    };
    let mut problems = Vec::new();
    for name in names {
        let name_shown = name.to_string_lossy().into_owned();
        // SAFETY: `Library::new` asks that the library's initialisers are sound; these names are
        // those of the vendor's driver, or were given by whoever runs the program.
        match unsafe { Library::new(&name) } {
            Ok(library) => {
                vendor.library_use.loaded();
                // Never dropped, because memory that was handed out is released through the
                // library.
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
    /// Returns a function that has to be there.
    ///
    /// # Safety
    /// UNS-31: `T` is the type of the function of that name.
    pub unsafe fn required<T: Copy>(&self, name: &'static str) -> Result<T, String> {
        // SAFETY: UNS-31, which the caller promises.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        found.map(|symbol| *symbol).map_err(|error| {
            let Vendor { install, .. } = self.vendor;
            format!("{} has no {name}: {install} ({error})", self.name)
        })
    }

    /// Returns a function that may be missing. [`missing`](Self::missing) lists those that were.
    ///
    /// # Safety
    /// UNS-31: `T` is the type of the function of that name.
    pub unsafe fn optional<T: Copy>(&self, name: &'static str) -> Result<Option<T>, String> {
        // SAFETY: UNS-31, which the caller promises.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        if found.is_err() {
            self.missing.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
        Ok(found.ok().map(|symbol| *symbol))
    }

    /// Returns the name by which the library was found.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the optional functions that the library does not have.
    pub fn missing(&self) -> Vec<&'static str> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
