//! Finds dpctl's library and the functions in it, or takes the table of a C++ engine.
//!
//! A process has one table. The first table stays until the process ends, because memory that was
//! handed out is released through the table. The environment variable `ARROW_DEVICE_ONEAPI_LIBRARY`
//! names another library to load.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

use arrow_device::driver::LibraryUse;
use arrow_device::{Error, ErrorKind, Result};
use libloading::Library;

use crate::functions::{ALL_DEVICES, Functions};

const OPERATION: &str = "load SYCL";
const INSTALL: &str = "install dpctl 0.22 and intel-sycl-rt with pip, or name dpctl's libDPCTLSyclInterface.so in \
                       ARROW_DEVICE_ONEAPI_LIBRARY; a C++ engine gives the functions of its own runtime";

static LIBRARY: LibraryUse = LibraryUse::new();
static LOADED: OnceLock<Result<Loaded, String>> = OnceLock::new();

/// The table of the process, and what keeps its functions loaded.
struct Loaded {
    functions: Functions,
    /// Kept here so that tools which look for leaks find the library. `None` for the table of an
    /// engine.
    _library: Option<&'static Library>,
}

/// Returns the table. The first call loads it. In a child of `fork` whose parent has called this,
/// every call is an error, because the runtime's threads are not there.
pub(crate) fn load() -> Result<&'static Functions> {
    // Comes first: a thread of the parent may have been in the middle of what follows.
    LIBRARY.enter().map_err(|error| error.during(OPERATION))?;
    let loaded = LOADED.get_or_init(|| open().map(begin));
    match loaded {
        Ok(loaded) => Ok(&loaded.functions),
        Err(message) => {
            Err(Error::new(ErrorKind::DriverMissing, message.clone()).during(OPERATION))
        }
    }
}

/// Makes this the table of the process.
///
/// # Safety
/// UNS-31: each function has the type and the meaning that [`Functions`] says, and stays loaded as
/// long as the process.
pub(crate) unsafe fn give(functions: Functions) -> Result<()> {
    LIBRARY.enter().map_err(|error| error.during(OPERATION))?;
    if functions.size != size_of::<Functions>() {
        return Err(refused(
            "the table of functions has another size than this version of the library's",
        ));
    }
    settle(Loaded { functions, _library: None })
}

/// Makes the table of this library the one of the process.
///
/// # Safety
/// UNS-31: the library has dpctl's functions by dpctl's names, and its initialisers are sound.
pub(crate) unsafe fn give_library(path: &OsStr) -> Result<()> {
    LIBRARY.enter().map_err(|error| error.during(OPERATION))?;
    // SAFETY: `Library::new` asks that the library's initialisers are sound, which the caller
    // promises.
    let opened = unsafe { Library::new(path) };
    let name = path.to_string_lossy();
    let opened = opened.map_err(|error| format!("{name}: {error}: {INSTALL}"));
    let loaded = opened.and_then(|library| find_all(library, &name));
    settle(
        loaded
            .map_err(|message| Error::new(ErrorKind::DriverMissing, message).during(OPERATION))?,
    )
}

fn settle(given: Loaded) -> Result<()> {
    let barrier = given.functions.barrier as usize;
    let mut is_taken = false;
    let loaded = LOADED.get_or_init(|| {
        is_taken = true;
        Ok(begin(given))
    });
    // The barrier's address stands for the whole table: two runtimes have two such functions.
    let is_known = loaded.as_ref().is_ok_and(|loaded| loaded.functions.barrier as usize == barrier);
    if is_taken || is_known {
        return Ok(());
    }
    Err(refused(
        "this process uses another SYCL runtime already: give the functions before a device is opened or listed",
    ))
}

fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).during(OPERATION)
}

/// Has the runtime initialise itself, which the runtime does when it is first asked for its
/// devices. The handlers of the end of the process that the runtime registers meanwhile run after
/// those of `arrow_device`, which are registered later.
fn begin(loaded: Loaded) -> Loaded {
    let functions = &loaded.functions;
    // SAFETY: UNS-31: the function is that of the table; the number asks for all devices.
    let list = unsafe { (functions.list_devices)(ALL_DEVICES) };
    if !list.is_null() {
        // SAFETY: UNS-31: the list was just made, and is given back once.
        unsafe { (functions.list_delete)(list) };
    }
    LIBRARY.loaded();
    loaded
}

/// Says that the runtime has done something for the first time, in which it may have registered
/// handlers of the end of the process.
pub(crate) fn used() {
    LIBRARY.loaded();
}

fn open() -> Result<Loaded, String> {
    let names = match std::env::var_os("ARROW_DEVICE_ONEAPI_LIBRARY") {
        Some(name) => vec![name],
        None => vec![OsString::from(default_name())],
    };
    let mut problem = String::new();
    for name in names {
        // SAFETY: `Library::new` asks that the library's initialisers are sound; the name is that
        // of dpctl's library, or was given by whoever runs the program.
        match unsafe { Library::new(&name) } {
            Ok(library) => return find_all(library, &name.to_string_lossy()),
            Err(error) => problem = format!("{}: {error}", name.to_string_lossy()),
        }
    }
    Err(format!("dpctl's library was not found: {INSTALL} ({problem})"))
}

fn default_name() -> &'static str {
    if cfg!(windows) { "DPCTLSyclInterface.dll" } else { "libDPCTLSyclInterface.so" }
}

/// Looks up all functions. The library is never unloaded.
fn find_all(library: Library, name: &str) -> Result<Loaded, String> {
    // Never dropped, because memory that was handed out is released through the library.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: UNS-31: the library is dpctl's, or the one that whoever runs the program has named in
    // its place.
    let functions = unsafe { functions_of(library) };
    let functions = functions.map_err(|missing| format!("{name} has no {missing}: {INSTALL}"))?;
    Ok(Loaded { functions, _library: Some(library) })
}

/// # Safety
/// UNS-31: the library has dpctl's functions by dpctl's names.
unsafe fn functions_of(library: &'static Library) -> Result<Functions, String> {
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    // SAFETY: UNS-31: `symbol` asks that each name has the type of the field it goes to. The fields
    // are declared after dpctl's headers, whose functions these are.
    unsafe {
        Ok(Functions {
            size: size_of::<Functions>(),
            list_devices: symbol(library, "DPCTLDeviceMgr_GetDevices")?,
            list_length: symbol(library, "DPCTLDeviceVector_Size")?,
            list_device: symbol(library, "DPCTLDeviceVector_GetAt")?,
            list_delete: symbol(library, "DPCTLDeviceVector_Delete")?,
            device_position: symbol(library, "DPCTLDeviceMgr_GetPositionInDevices")?,
            device_context: symbol(library, "DPCTLDeviceMgr_GetCachedContext")?,
            device_name: symbol(library, "DPCTLDevice_GetName")?,
            device_version: symbol(library, "DPCTLDevice_GetDriverVersion")?,
            text_delete: symbol(library, "DPCTLCString_Delete")?,
            device_memory: symbol(library, "DPCTLDevice_GetGlobalMemSize")?,
            device_has: symbol(library, "DPCTLDevice_HasAspect")?,
            device_backend: symbol(library, "DPCTLDevice_GetBackend")?,
            device_delete: symbol(library, "DPCTLDevice_Delete")?,
            context_equals: symbol(library, "DPCTLContext_AreEq")?,
            context_delete: symbol(library, "DPCTLContext_Delete")?,
            queue_create: symbol(library, "DPCTLQueue_Create")?,
            queue_context: symbol(library, "DPCTLQueue_GetContext")?,
            queue_device: symbol(library, "DPCTLQueue_GetDevice")?,
            queue_is_in_order: symbol(library, "DPCTLQueue_IsInOrder")?,
            queue_copy: symbol(library, "DPCTLQueue_Copy")?,
            queue_hash: symbol(library, "DPCTLQueue_Hash")?,
            queue_delete: symbol(library, "DPCTLQueue_Delete")?,
            copy: symbol(library, "DPCTLQueue_MemcpyWithEvents")?,
            barrier: symbol(library, "DPCTLQueue_SubmitBarrier")?,
            barrier_for: symbol(library, "DPCTLQueue_SubmitBarrierForEvents")?,
            event_status: symbol(library, "DPCTLEvent_GetCommandExecutionStatus")?,
            event_copy: symbol(library, "DPCTLEvent_Copy")?,
            event_delete: symbol(library, "DPCTLEvent_Delete")?,
            allocate_device: symbol(library, "DPCTLaligned_alloc_device")?,
            allocate_host: symbol(library, "DPCTLaligned_alloc_host")?,
            allocate_shared: symbol(library, "DPCTLaligned_alloc_shared")?,
            free: symbol(library, "DPCTLfree_with_context")?,
            memory_kind: symbol(library, "DPCTLUSM_GetPointerType")?,
        })
    }
}

/// # Safety
/// UNS-31: `T` is the type of the function of that name.
unsafe fn symbol<T: Copy>(library: &'static Library, name: &'static str) -> Result<T, String> {
    // SAFETY: UNS-31, which the caller promises.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|error| format!("{name} ({error})"))
}
