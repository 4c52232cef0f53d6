//! The functions of Qualcomm's library that this crate calls, found at run time.
//!
//! The library is loaded once and stays until the process ends, because memory that was handed out
//! is freed through it. The declarations are those of Qualcomm's public headers (`rpcmem.h`,
//! `remote.h`). `ARROW_DEVICE_HEXAGON_LIBRARY` names another library to load.

use std::ffi::{OsString, c_int, c_void};
use std::sync::OnceLock;

use arrow_device::driver::LibraryUse;
use arrow_device::{Error, ErrorKind, Result};
use libloading::Library;

/// `rpcmem_alloc2(heap, flags, size)`: the address of new memory, or null.
pub type Alloc2 = unsafe extern "C" fn(c_int, u32, usize) -> *mut c_void;
/// `rpcmem_alloc(heap, flags, size)`: the same for less than 2 GiB.
pub type Alloc = unsafe extern "C" fn(c_int, u32, c_int) -> *mut c_void;
/// `rpcmem_free(address)`.
pub type Free = unsafe extern "C" fn(*mut c_void);
/// `rpcmem_to_fd(address)`: the descriptor of the allocation that begins there, or -1.
pub type ToFd = unsafe extern "C" fn(*mut c_void) -> c_int;
/// `fastrpc_mmap(domain, descriptor, address, offset, length, flags)`: 0, or a code of an error.
pub type Mmap = unsafe extern "C" fn(c_int, c_int, *mut c_void, c_int, usize, c_int) -> c_int;
/// `fastrpc_munmap(domain, descriptor, address, length)`: 0, or a code of an error.
pub type Munmap = unsafe extern "C" fn(c_int, c_int, *mut c_void, usize) -> c_int;

/// The functions that memory is allocated and mapped with, by their names in Qualcomm's headers.
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    /// Allocates memory of any size. Older libraries do not have this function.
    pub rpcmem_alloc2: Option<Alloc2>,
    /// Allocates memory of less than 2 GiB.
    pub rpcmem_alloc: Alloc,
    /// Frees memory of either function.
    pub rpcmem_free: Free,
    /// Returns the file descriptor of an allocation.
    pub rpcmem_to_fd: ToFd,
    /// Maps memory into the address space of the DSP. Not needed where the application maps.
    pub fastrpc_mmap: Option<Mmap>,
    /// Ends a mapping of `fastrpc_mmap`.
    pub fastrpc_munmap: Option<Munmap>,
}

const OPERATION: &str = "load FastRPC";

static LIBRARY: LibraryUse = LibraryUse::new();

/// Returns an error in a child of `fork` whose parent has used FastRPC, by whichever functions. A
/// session belongs to one process, and a lock of the library may be held for ever in a child.
pub(crate) fn enter() -> Result<()> {
    LIBRARY.enter().map_err(|error| error.during(OPERATION))
}

/// Returns the functions of the library. The first call loads the library. In a child of `fork`
/// whose parent has called this, every call is an error.
pub(crate) fn load() -> Result<Functions> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    // Comes first: a thread of the parent may have been in the middle of what follows.
    enter()?;
    let first = || {
        let functions = open()?;
        LIBRARY.loaded();
        Ok(functions)
    };
    LOADED
        .get_or_init(first)
        .clone()
        .map_err(|message| Error::new(ErrorKind::DriverMissing, message).during(OPERATION))
}

fn open() -> Result<Functions, String> {
    let names = match std::env::var_os("ARROW_DEVICE_HEXAGON_LIBRARY") {
        Some(name) => vec![name],
        None => NAMES.iter().map(OsString::from).collect(),
    };
    let mut problem = String::new();
    for name in names {
        // SAFETY: `Library::new` asks that the library's initialisers are sound; these names are
        // those of Qualcomm's library, or were given by whoever runs the program.
        match unsafe { Library::new(&name) } {
            Ok(library) => return find_all(library),
            Err(error) => problem = format!("{}: {error}", name.to_string_lossy()),
        }
    }
    Err(format!(
        "Qualcomm's FastRPC library, libcdsprpc, was not found: it comes with the system of a device \
         that has a Hexagon DSP, and on Linux with the package of Qualcomm's `fastrpc`; on Android \
         the manifest has to name it in `uses-native-library` ({problem})"
    ))
}

#[cfg(windows)]
const NAMES: &[&str] = &["libcdsprpc.dll"];
#[cfg(not(windows))]
const NAMES: &[&str] = &["libcdsprpc.so", "libcdsprpc.so.1"];

/// Looks up all functions. The library is never unloaded.
fn find_all(library: Library) -> Result<Functions, String> {
    // Never dropped, because memory that was handed out is freed through the library.
    let library: &'static Library = Box::leak(Box::new(library));
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    // SAFETY: UNS-31: `symbol` asks that each name has the type of the field it goes to. The fields
    // are declared after Qualcomm's headers, whose functions these are.
    unsafe {
        Ok(Functions {
            rpcmem_alloc2: symbol(library, "rpcmem_alloc2").ok(),
            rpcmem_alloc: symbol(library, "rpcmem_alloc")?,
            rpcmem_free: symbol(library, "rpcmem_free")?,
            rpcmem_to_fd: symbol(library, "rpcmem_to_fd")?,
            fastrpc_mmap: symbol(library, "fastrpc_mmap").ok(),
            fastrpc_munmap: symbol(library, "fastrpc_munmap").ok(),
        })
    }
}

/// # Safety
/// `T` is the type of the function of that name.
unsafe fn symbol<T: Copy>(library: &'static Library, name: &str) -> Result<T, String> {
    // SAFETY: UNS-31: `T` is the type of the function of that name, as the caller promises.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    let missing = |error| format!("the library is not Qualcomm's FastRPC: {name}: {error}");
    found.map(|symbol| *symbol).map_err(missing)
}
