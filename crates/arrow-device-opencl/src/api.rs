//! The functions of OpenCL that this crate calls, found in the loader's library at run time.
//!
//! The library is loaded once and stays until the process ends, because memory that was handed out
//! is released through it. The declarations are those of the OpenCL headers.
//! `ARROW_DEVICE_OPENCL_LIBRARY` names another library to load.

use std::ffi::{OsString, c_void};
use std::sync::OnceLock;

use arrow_device::driver::LibraryUse;
use arrow_device::{Error, ErrorKind, Result};
use libloading::Library;

/// Any of OpenCL's handles.
pub(crate) type Handle = *mut c_void;
/// `cl_int`, with 0 for success.
pub(crate) type Code = i32;
/// The type of `clGetXInfo`, which answers questions about one object.
pub(crate) type Info =
    unsafe extern "system" fn(Handle, u32, usize, *mut c_void, *mut usize) -> Code;
type Release = unsafe extern "system" fn(Handle) -> Code;
type Transfer = unsafe extern "system" fn(
    Handle,
    Handle,
    u32,
    usize,
    usize,
    *mut c_void,
    u32,
    *const Handle,
    *mut Handle,
) -> Code;
type Barrier = unsafe extern "system" fn(Handle, u32, *const Handle, *mut Handle) -> Code;

pub(crate) const NON_BLOCKING: u32 = 0;
pub(crate) const BLOCKING: u32 = 1;

/// `cl_buffer_region`.
#[repr(C)]
pub(crate) struct BufferRegion {
    pub(crate) origin: usize,
    pub(crate) size: usize,
}

/// The functions of OpenCL 1.2 that this crate calls.
#[derive(Clone)]
pub(crate) struct Api {
    /// Kept here so that tools which look for leaks find the library.
    pub(crate) _library: &'static Library,
    pub(crate) get_platform_ids: unsafe extern "system" fn(u32, *mut Handle, *mut u32) -> Code,
    pub(crate) get_platform_info: Info,
    pub(crate) get_device_ids:
        unsafe extern "system" fn(Handle, u64, u32, *mut Handle, *mut u32) -> Code,
    pub(crate) get_device_info: Info,
    pub(crate) create_context: unsafe extern "system" fn(
        *const isize,
        u32,
        *const Handle,
        *const c_void,
        *mut c_void,
        *mut Code,
    ) -> Handle,
    pub(crate) retain_context: Release,
    pub(crate) release_context: Release,
    pub(crate) get_context_info: Info,
    pub(crate) create_queue: unsafe extern "system" fn(Handle, Handle, u64, *mut Code) -> Handle,
    pub(crate) retain_queue: Release,
    pub(crate) release_queue: Release,
    pub(crate) get_queue_info: Info,
    pub(crate) flush: Release,
    pub(crate) finish: Release,
    pub(crate) create_buffer:
        unsafe extern "system" fn(Handle, u64, usize, *mut c_void, *mut Code) -> Handle,
    pub(crate) create_sub_buffer:
        unsafe extern "system" fn(Handle, u64, u32, *const c_void, *mut Code) -> Handle,
    pub(crate) release_memory: Release,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) on_release_of_memory: unsafe extern "system" fn(
        Handle,
        extern "system" fn(Handle, *mut c_void),
        *mut c_void,
    ) -> Code,
    pub(crate) get_memory_info: Info,
    pub(crate) get_event_info: Info,
    pub(crate) release_event: Release,
    pub(crate) set_event_callback: unsafe extern "system" fn(
        Handle,
        Code,
        extern "system" fn(Handle, Code, *mut c_void),
        *mut c_void,
    ) -> Code,
    pub(crate) wait_for_events: unsafe extern "system" fn(u32, *const Handle) -> Code,
    pub(crate) barrier: Barrier,
    pub(crate) read: Transfer,
    pub(crate) write: Transfer,
    pub(crate) copy: unsafe extern "system" fn(
        Handle,
        Handle,
        Handle,
        usize,
        usize,
        usize,
        u32,
        *const Handle,
        *mut Handle,
    ) -> Code,
    pub(crate) map: unsafe extern "system" fn(
        Handle,
        Handle,
        u32,
        u64,
        usize,
        usize,
        u32,
        *const Handle,
        *mut Handle,
        *mut Code,
    ) -> *mut c_void,
    pub(crate) unmap: unsafe extern "system" fn(
        Handle,
        Handle,
        *mut c_void,
        u32,
        *const Handle,
        *mut Handle,
    ) -> Code,
    /// The functions of shared virtual memory, which OpenCL 2.0 added.
    pub(crate) svm: Option<SvmApi>,
}

/// The functions of shared virtual memory.
#[derive(Clone)]
pub(crate) struct SvmApi {
    pub(crate) allocate: unsafe extern "system" fn(Handle, u64, usize, u32) -> *mut c_void,
    pub(crate) free: unsafe extern "system" fn(Handle, *mut c_void),
    pub(crate) copy: unsafe extern "system" fn(
        Handle,
        u32,
        *mut c_void,
        *const c_void,
        usize,
        u32,
        *const Handle,
        *mut Handle,
    ) -> Code,
    pub(crate) map: unsafe extern "system" fn(
        Handle,
        u32,
        u64,
        *mut c_void,
        usize,
        u32,
        *const Handle,
        *mut Handle,
    ) -> Code,
    pub(crate) unmap:
        unsafe extern "system" fn(Handle, *mut c_void, u32, *const Handle, *mut Handle) -> Code,
}

/// Returns the functions. The first call loads them. In a child of `fork` whose parent has called
/// this, every call is an error, because drivers hang there.
pub(crate) fn load() -> Result<&'static Api> {
    const OPERATION: &str = "load OpenCL";
    static LIBRARY: LibraryUse = LibraryUse::new();
    static LOADED: OnceLock<Result<Api, String>> = OnceLock::new();
    // Comes first: a thread of the parent may have been in the middle of what follows.
    LIBRARY.enter().map_err(|error| error.during(OPERATION))?;
    let first = || {
        let api = open()?;
        // Loaders and drivers initialise themselves in these calls, and not all of them can do so
        // on two threads at once (Debian's loader with PoCL cannot). The result does not matter
        // here: callers that need a device ask again.
        let _ = api.devices();
        LIBRARY.loaded();
        Ok(api)
    };
    LOADED
        .get_or_init(first)
        .as_ref()
        .map_err(|message| Error::new(ErrorKind::DriverMissing, message.clone()).during(OPERATION))
}

fn open() -> Result<Api, String> {
    let names = match std::env::var_os("ARROW_DEVICE_OPENCL_LIBRARY") {
        Some(name) => vec![name],
        None => default_names().iter().map(OsString::from).collect(),
    };
    let mut problem = String::new();
    for name in names {
        // SAFETY: `Library::new` asks that the library's initialisers are sound; these names are
        // those of the OpenCL loader, or were given by whoever runs the program.
        match unsafe { Library::new(&name) } {
            Ok(library) => return find_all(library),
            Err(error) => problem = format!("{}: {error}", name.to_string_lossy()),
        }
    }
    Err(format!(
        "the OpenCL loader was not found: install it (Debian: ocl-icd-libopencl1) and a driver ({problem})"
    ))
}

#[cfg(windows)]
fn default_names() -> &'static [&'static str] {
    &["OpenCL.dll"]
}

#[cfg(target_vendor = "apple")]
fn default_names() -> &'static [&'static str] {
    &["/System/Library/Frameworks/OpenCL.framework/OpenCL"]
}

#[cfg(not(any(windows, target_vendor = "apple")))]
fn default_names() -> &'static [&'static str] {
    &["libOpenCL.so.1", "libOpenCL.so"]
}

/// Looks up all functions. The library is never unloaded.
fn find_all(library: Library) -> Result<Api, String> {
    // Never dropped, because memory that was handed out is released through the library.
    let library: &'static Library = Box::leak(Box::new(library));
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    // SAFETY: `symbol` asks that each name has the type of the field it goes to. The fields are
    // declared after the OpenCL headers, whose functions these are.
    unsafe {
        Ok(Api {
            _library: library,
            get_platform_ids: symbol(library, "clGetPlatformIDs")?,
            get_platform_info: symbol(library, "clGetPlatformInfo")?,
            get_device_ids: symbol(library, "clGetDeviceIDs")?,
            get_device_info: symbol(library, "clGetDeviceInfo")?,
            create_context: symbol(library, "clCreateContext")?,
            retain_context: symbol(library, "clRetainContext")?,
            release_context: symbol(library, "clReleaseContext")?,
            get_context_info: symbol(library, "clGetContextInfo")?,
            create_queue: symbol(library, "clCreateCommandQueue")?,
            retain_queue: symbol(library, "clRetainCommandQueue")?,
            release_queue: symbol(library, "clReleaseCommandQueue")?,
            get_queue_info: symbol(library, "clGetCommandQueueInfo")?,
            flush: symbol(library, "clFlush")?,
            finish: symbol(library, "clFinish")?,
            create_buffer: symbol(library, "clCreateBuffer")?,
            create_sub_buffer: symbol(library, "clCreateSubBuffer")?,
            release_memory: symbol(library, "clReleaseMemObject")?,
            on_release_of_memory: symbol(library, "clSetMemObjectDestructorCallback")?,
            get_memory_info: symbol(library, "clGetMemObjectInfo")?,
            get_event_info: symbol(library, "clGetEventInfo")?,
            release_event: symbol(library, "clReleaseEvent")?,
            set_event_callback: symbol(library, "clSetEventCallback")?,
            wait_for_events: symbol(library, "clWaitForEvents")?,
            barrier: symbol(library, "clEnqueueBarrierWithWaitList")?,
            read: symbol(library, "clEnqueueReadBuffer")?,
            write: symbol(library, "clEnqueueWriteBuffer")?,
            copy: symbol(library, "clEnqueueCopyBuffer")?,
            map: symbol(library, "clEnqueueMapBuffer")?,
            unmap: symbol(library, "clEnqueueUnmapMemObject")?,
            svm: find_svm(library).ok(),
        })
    }
}

/// # Safety
/// The library is an OpenCL loader.
unsafe fn find_svm(library: &'static Library) -> Result<SvmApi, String> {
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    // SAFETY: UNS-31: `symbol` asks that each name has the type of the field it goes to. The fields
    // are declared after the OpenCL headers, whose functions these are.
    unsafe {
        Ok(SvmApi {
            allocate: symbol(library, "clSVMAlloc")?,
            free: symbol(library, "clSVMFree")?,
            copy: symbol(library, "clEnqueueSVMMemcpy")?,
            map: symbol(library, "clEnqueueSVMMap")?,
            unmap: symbol(library, "clEnqueueSVMUnmap")?,
        })
    }
}

/// # Safety
/// `T` is the type of the function of that name.
unsafe fn symbol<T: Copy>(library: &'static Library, name: &str) -> Result<T, String> {
    // SAFETY: `T` is the type of the function of that name, as the caller promises.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    let missing = |error| format!("the OpenCL loader is older than OpenCL 1.2: {name}: {error}");
    found.map(|symbol| *symbol).map_err(missing)
}
