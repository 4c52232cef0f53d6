//! The functions of `webgpu.h` that this crate calls, and the structs that they take.
//!
//! The declarations are those that the headers of wgpu-native 29 and of Dawn have in common: this
//! crate uses only structs and members that both headers have in the same places. A library writes
//! its limits into a struct that is longer than any known version of that struct, and gets the
//! limits back as they came.
//!
//! A library is never unloaded, because memory that was handed out is released through it.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ptr;

use libloading::Library;

/// Any of the handles of `webgpu.h`.
pub(crate) type Handle = *mut c_void;

/// `WGPUCallbackMode_AllowSpontaneous`: a callback may come from within any call.
pub(crate) const SPONTANEOUS: u32 = 3;
/// `WGPUMapMode_Read` and `WGPUMapMode_Write`.
pub(crate) const MAP_READ: u64 = 1;
pub(crate) const MAP_WRITE: u64 = 2;
/// The status of a callback that tells of success, of each kind of callback.
pub(crate) const SUCCESS: u32 = 1;
/// `WGPUFeatureName_ImplicitDeviceSynchronization` of Dawn.
pub(crate) const SYNCHRONIZED: u32 = 0x0005_0004;

/// Bits of `WGPUBufferUsage`.
pub(crate) mod usage {
    pub(crate) const MAP_READ: u64 = 1;
    pub(crate) const MAP_WRITE: u64 = 2;
    pub(crate) const COPY_SRC: u64 = 4;
    pub(crate) const COPY_DST: u64 = 8;
    pub(crate) const STORAGE: u64 = 0x80;
}

/// Values of `WGPUErrorType`.
pub(crate) mod error_type {
    pub(crate) const NONE: u32 = 1;
    pub(crate) const VALIDATION: u32 = 2;
    pub(crate) const OUT_OF_MEMORY: u32 = 3;
    pub(crate) const INTERNAL: u32 = 4;
}

/// Values of `WGPUErrorFilter`.
pub(crate) mod filter {
    pub(crate) const VALIDATION: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    /// wgpu-native ends the process where it is given this filter.
    pub(crate) const INTERNAL: u32 = 3;
}

/// `WGPUStringView`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Text {
    data: *const c_char,
    len: usize,
}

impl Text {
    pub(crate) const EMPTY: Self = Self { data: ptr::null(), len: 0 };

    /// Copies the text.
    ///
    /// # Safety
    /// A library gave it for the time of this call.
    pub(crate) unsafe fn to_string(self) -> String {
        let Self { data, len } = self;
        if data.is_null() {
            return String::new();
        }
        let bytes = if len == usize::MAX {
            // SAFETY: "If data is non-null and length is WGPU_STRLEN: a null-terminated string",
            // and the library gave it, as the caller promises.
            unsafe { CStr::from_ptr(data) }.to_bytes()
        } else {
            // SAFETY: without the special length there are this many bytes, and the library gave
            // the text, as the caller promises.
            unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }
        };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// `WGPUFuture`, which nobody waits for: callbacks tell what is done.
#[repr(C)]
pub(crate) struct Future {
    id: u64,
}

/// `WGPU…CallbackInfo` of the functions that are given a mode.
#[repr(C)]
pub(crate) struct CallbackInfo<F> {
    pub(crate) next: *mut c_void,
    pub(crate) mode: u32,
    pub(crate) callback: F,
    pub(crate) first: *mut c_void,
    pub(crate) second: *mut c_void,
}

impl<F> CallbackInfo<F> {
    pub(crate) fn new(callback: F, first: *mut c_void) -> Self {
        let (next, second) = (ptr::null_mut(), ptr::null_mut());
        Self { next, mode: SPONTANEOUS, callback, first, second }
    }
}

/// `WGPUBufferMapCallback` and `WGPUQueueWorkDoneCallback`.
pub(crate) type Done = extern "C" fn(u32, Text, *mut c_void, *mut c_void);
/// `WGPUPopErrorScopeCallback`.
pub(crate) type Popped = extern "C" fn(u32, u32, Text, *mut c_void, *mut c_void);
/// `WGPURequestAdapterCallback` and `WGPURequestDeviceCallback`.
pub(crate) type Requested = extern "C" fn(u32, Handle, Text, *mut c_void, *mut c_void);
/// `WGPUDeviceLostCallback` and `WGPUUncapturedErrorCallback`.
pub(crate) type Told = extern "C" fn(*const Handle, u32, Text, *mut c_void, *mut c_void);

/// `WGPUUncapturedErrorCallbackInfo`, which has no mode.
#[repr(C)]
pub(crate) struct ErrorCallbackInfo {
    pub(crate) next: *mut c_void,
    pub(crate) callback: Told,
    pub(crate) first: *mut c_void,
    pub(crate) second: *mut c_void,
}

/// `WGPUBufferDescriptor`.
#[repr(C)]
pub(crate) struct BufferDescriptor {
    pub(crate) next: *mut c_void,
    pub(crate) label: Text,
    pub(crate) usage: u64,
    pub(crate) size: u64,
    pub(crate) mapped_at_creation: u32,
}

/// `WGPURequestAdapterOptions`.
#[repr(C)]
pub(crate) struct AdapterOptions {
    pub(crate) next: *mut c_void,
    pub(crate) feature_level: u32,
    pub(crate) power_preference: u32,
    pub(crate) force_fallback: u32,
    pub(crate) backend: u32,
    pub(crate) surface: Handle,
}

/// `WGPUDeviceDescriptor`.
#[repr(C)]
pub(crate) struct DeviceDescriptor {
    pub(crate) next: *mut c_void,
    pub(crate) label: Text,
    pub(crate) feature_count: usize,
    pub(crate) features: *const u32,
    pub(crate) limits: *const DeviceLimits,
    pub(crate) queue_next: *mut c_void,
    pub(crate) queue_label: Text,
    pub(crate) lost: CallbackInfo<Told>,
    pub(crate) uncaptured: ErrorCallbackInfo,
}

/// The beginning of `WGPULimits`, and room for what later versions append.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DeviceLimits {
    next: *mut c_void,
    counts: [u32; 14],
    uniform_binding: u64,
    pub(crate) storage_binding: u64,
    alignments: [u32; 2],
    vertex_buffers: u32,
    pub(crate) buffer_size: u64,
    rest: [u64; 48],
}

impl DeviceLimits {
    pub(crate) const ZEROED: Self = Self {
        next: ptr::null_mut(),
        counts: [0; 14],
        uniform_binding: 0,
        storage_binding: 0,
        alignments: [0; 2],
        vertex_buffers: 0,
        buffer_size: 0,
        rest: [0; 48],
    };

    pub(crate) fn told(&self) -> crate::Limits {
        crate::Limits { max_buffer: self.buffer_size, max_binding: self.storage_binding }
    }
}

/// `WGPUAdapterInfo`, and room for what later versions append.
#[repr(C)]
pub(crate) struct AdapterInfo {
    next: *mut c_void,
    vendor: Text,
    architecture: Text,
    pub(crate) device: Text,
    pub(crate) description: Text,
    pub(crate) backend: u32,
    rest: [u64; 16],
}

impl AdapterInfo {
    pub(crate) const EMPTY: Self = Self {
        next: ptr::null_mut(),
        vendor: Text::EMPTY,
        architecture: Text::EMPTY,
        device: Text::EMPTY,
        description: Text::EMPTY,
        backend: 0,
        rest: [0; 16],
    };
}

type Get = unsafe extern "C" fn(Handle) -> Handle;
type Use = unsafe extern "C" fn(Handle);

/// The functions that this crate calls.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) create_instance: unsafe extern "C" fn(*const c_void) -> Handle,
    pub(crate) process_events: Use,
    pub(crate) request_adapter:
        unsafe extern "C" fn(Handle, *const AdapterOptions, CallbackInfo<Requested>) -> Future,
    pub(crate) adapter_info: unsafe extern "C" fn(Handle, *mut AdapterInfo) -> u32,
    pub(crate) adapter_limits: unsafe extern "C" fn(Handle, *mut DeviceLimits) -> u32,
    pub(crate) adapter_has_feature: unsafe extern "C" fn(Handle, u32) -> u32,
    pub(crate) request_device:
        unsafe extern "C" fn(Handle, *const DeviceDescriptor, CallbackInfo<Requested>) -> Future,
    pub(crate) device_limits: unsafe extern "C" fn(Handle, *mut DeviceLimits) -> u32,
    pub(crate) device_has_feature: unsafe extern "C" fn(Handle, u32) -> u32,
    pub(crate) device_queue: Get,
    pub(crate) retain_device: Use,
    pub(crate) release_device: Use,
    pub(crate) retain_queue: Use,
    pub(crate) release_queue: Use,
    pub(crate) create_buffer: unsafe extern "C" fn(Handle, *const BufferDescriptor) -> Handle,
    pub(crate) buffer_size: unsafe extern "C" fn(Handle) -> u64,
    pub(crate) release_buffer: Use,
    pub(crate) map_async:
        unsafe extern "C" fn(Handle, u64, usize, usize, CallbackInfo<Done>) -> Future,
    pub(crate) mapped_range: unsafe extern "C" fn(Handle, usize, usize) -> *const c_void,
    pub(crate) mapped_room: unsafe extern "C" fn(Handle, usize, usize) -> *mut c_void,
    pub(crate) unmap: Use,
    pub(crate) write_buffer: unsafe extern "C" fn(Handle, Handle, u64, *const c_void, usize),
    pub(crate) create_encoder: unsafe extern "C" fn(Handle, *const c_void) -> Handle,
    pub(crate) encode_copy: unsafe extern "C" fn(Handle, Handle, u64, Handle, u64, u64),
    pub(crate) finish_encoder: unsafe extern "C" fn(Handle, *const c_void) -> Handle,
    pub(crate) release_encoder: Use,
    pub(crate) release_commands: Use,
    pub(crate) submit: unsafe extern "C" fn(Handle, usize, *const Handle),
    pub(crate) on_work_done: unsafe extern "C" fn(Handle, CallbackInfo<Done>) -> Future,
    pub(crate) push_error_scope: unsafe extern "C" fn(Handle, u32),
    pub(crate) pop_error_scope: unsafe extern "C" fn(Handle, CallbackInfo<Popped>) -> Future,
    /// The functions that only wgpu-native has.
    pub(crate) native: Option<Native>,
    /// The functions that only Dawn has.
    pub(crate) dawn: Option<Dawn>,
}

/// Functions of wgpu-native.
#[derive(Clone, Copy)]
pub(crate) struct Native {
    /// The answer is a C `bool` in the lowest byte. The other bytes are not defined, although the
    /// header declares 32 bits.
    pub(crate) poll: unsafe extern "C" fn(Handle, u32, *const c_void) -> u32,
    pub(crate) adapters: unsafe extern "C" fn(Handle, *const c_void, *mut Handle) -> usize,
}

/// Functions of Dawn.
#[derive(Clone, Copy)]
pub(crate) struct Dawn {
    pub(crate) adapter_of_device: Get,
    pub(crate) instance_of_adapter: Get,
    pub(crate) release_adapter: Use,
    pub(crate) release_instance: Use,
}

// SAFETY: the members are addresses of functions, which do not change.
unsafe impl Send for Api {}
// SAFETY: the members are addresses of functions, which do not change.
unsafe impl Sync for Api {}

/// Finds a function by its name; null where there is none.
pub(crate) type Lookup<'a> = &'a dyn Fn(&CStr) -> *const c_void;

/// Loads a library and finds its functions.
///
/// # Safety
/// The library's initialisers are sound, and it is what its functions' names say (UNS-31).
pub(crate) unsafe fn of_library(name: &OsStr) -> Result<Api, String> {
    // SAFETY: the initialisers are sound, as the caller promises.
    let library = unsafe { Library::new(name) }
        .map_err(|error| format!("{}: {error}", name.to_string_lossy()))?;
    // Never dropped, because memory that was handed out is released through the library.
    let library: &'static Library = Box::leak(Box::new(library));
    let lookup = |name: &CStr| {
        // SAFETY: the symbol is looked at as an address, and called by nobody before `find` has
        // given it the type of the function of that name.
        let found = unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) };
        found.map_or(ptr::null(), |symbol| *symbol)
    };
    // SAFETY: UNS-31, which the caller promises.
    unsafe { find(&lookup) }.map_err(|error| format!("{}: {error}", name.to_string_lossy()))
}

/// Finds all functions. The result is an error if a function is missing, or if the library is known
/// to have other declarations than this file.
///
/// # Safety
/// Each address that is found is that of the function of this name (UNS-31).
pub(crate) unsafe fn find(lookup: Lookup<'_>) -> Result<Api, String> {
    // Libraries before 2025 give callbacks other arguments, and have these functions.
    for old in [c"wgpuInstanceRequestAdapter2", c"wgpuDeviceSetUncapturedErrorCallback"] {
        if !lookup(old).is_null() {
            return Err(format!(
                "it has {}, so it is older than the webgpu.h of 2025: install wgpu-native 25 or later",
                old.to_string_lossy()
            ));
        }
    }
    let (poll, adapters) = (lookup(c"wgpuDevicePoll"), lookup(c"wgpuInstanceEnumerateAdapters"));
    let is_native = !poll.is_null() && !adapters.is_null();
    let is_dawn = !lookup(c"wgpuDeviceGetAdapter").is_null();
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    // SAFETY: UNS-31, which the caller promises: `function` asks that each name has the type of the
    // field that it goes to, and the fields are declared after `webgpu.h` and `wgpu.h`.
    unsafe {
        let native = if is_native {
            let adapters = function(lookup, c"wgpuInstanceEnumerateAdapters")?;
            Some(Native { poll: function(lookup, c"wgpuDevicePoll")?, adapters })
        } else {
            None
        };
        let dawn = if is_dawn {
            Some(Dawn {
                adapter_of_device: function(lookup, c"wgpuDeviceGetAdapter")?,
                instance_of_adapter: function(lookup, c"wgpuAdapterGetInstance")?,
                release_adapter: function(lookup, c"wgpuAdapterRelease")?,
                release_instance: function(lookup, c"wgpuInstanceRelease")?,
            })
        } else {
            None
        };
        Ok(Api {
            create_instance: function(lookup, c"wgpuCreateInstance")?,
            process_events: function(lookup, c"wgpuInstanceProcessEvents")?,
            request_adapter: function(lookup, c"wgpuInstanceRequestAdapter")?,
            adapter_info: function(lookup, c"wgpuAdapterGetInfo")?,
            adapter_limits: function(lookup, c"wgpuAdapterGetLimits")?,
            adapter_has_feature: function(lookup, c"wgpuAdapterHasFeature")?,
            request_device: function(lookup, c"wgpuAdapterRequestDevice")?,
            device_limits: function(lookup, c"wgpuDeviceGetLimits")?,
            device_has_feature: function(lookup, c"wgpuDeviceHasFeature")?,
            device_queue: function(lookup, c"wgpuDeviceGetQueue")?,
            retain_device: function(lookup, c"wgpuDeviceAddRef")?,
            release_device: function(lookup, c"wgpuDeviceRelease")?,
            retain_queue: function(lookup, c"wgpuQueueAddRef")?,
            release_queue: function(lookup, c"wgpuQueueRelease")?,
            create_buffer: function(lookup, c"wgpuDeviceCreateBuffer")?,
            buffer_size: function(lookup, c"wgpuBufferGetSize")?,
            release_buffer: function(lookup, c"wgpuBufferRelease")?,
            map_async: function(lookup, c"wgpuBufferMapAsync")?,
            mapped_range: function(lookup, c"wgpuBufferGetConstMappedRange")?,
            mapped_room: function(lookup, c"wgpuBufferGetMappedRange")?,
            unmap: function(lookup, c"wgpuBufferUnmap")?,
            write_buffer: function(lookup, c"wgpuQueueWriteBuffer")?,
            create_encoder: function(lookup, c"wgpuDeviceCreateCommandEncoder")?,
            encode_copy: function(lookup, c"wgpuCommandEncoderCopyBufferToBuffer")?,
            finish_encoder: function(lookup, c"wgpuCommandEncoderFinish")?,
            release_encoder: function(lookup, c"wgpuCommandEncoderRelease")?,
            release_commands: function(lookup, c"wgpuCommandBufferRelease")?,
            submit: function(lookup, c"wgpuQueueSubmit")?,
            on_work_done: function(lookup, c"wgpuQueueOnSubmittedWorkDone")?,
            push_error_scope: function(lookup, c"wgpuDevicePushErrorScope")?,
            pop_error_scope: function(lookup, c"wgpuDevicePopErrorScope")?,
            native,
            dawn,
        })
    }
}

/// # Safety
/// `T` is the type of the function of that name, a pointer to a function.
unsafe fn function<T: Copy>(lookup: Lookup<'_>, name: &CStr) -> Result<T, String> {
    const { assert!(size_of::<T>() == size_of::<*const c_void>()) }
    let found = lookup(name);
    if found.is_null() {
        return Err(format!("it has no {}", name.to_string_lossy()));
    }
    // SAFETY: the address is not null and is that of the function of this name, whose type is `T`,
    // as the caller promises; a pointer to a function is as large as any other.
    Ok(unsafe { std::mem::transmute_copy::<*const c_void, T>(&found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn members_lie_where_the_header_has_them() {
        assert_eq!(std::mem::offset_of!(DeviceLimits, storage_binding), 72);
        assert_eq!(std::mem::offset_of!(DeviceLimits, buffer_size), 96);
        assert_eq!(std::mem::offset_of!(AdapterInfo, backend), 72);
        assert_eq!(std::mem::offset_of!(DeviceDescriptor, limits), 40);
        assert_eq!(std::mem::offset_of!(DeviceDescriptor, lost), 72);
        assert_eq!(size_of::<DeviceDescriptor>(), 72 + 40 + 32);
        assert_eq!(size_of::<BufferDescriptor>(), 48);
    }

    #[test]
    fn a_library_of_another_year_is_refused_by_what_it_has() {
        let old = |name: &CStr| {
            let is_old = name == c"wgpuInstanceRequestAdapter2";
            if is_old { std::ptr::dangling::<c_void>() } else { ptr::null() }
        };
        // SAFETY: nothing that is found is called.
        let refused = unsafe { find(&old) }.err().unwrap();
        assert!(refused.contains("older than the webgpu.h of 2025"), "{refused}");
        // SAFETY: nothing is found.
        let refused = unsafe { find(&|_| ptr::null()) }.err().unwrap();
        assert_eq!(refused, "it has no wgpuCreateInstance");
    }
}
