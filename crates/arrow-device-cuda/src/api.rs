//! The functions of the CUDA driver, found in its library at run time, and what CUDA does in its own way.
//!
//! The declarations are those of `cuda.h`, with its versioned names. A `CUdeviceptr` is a number as wide as an address on all
//! systems that CUDA runs on, and is declared as one here. `ARROW_DEVICE_CUDA_LIBRARY` names another library to load.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_device::{DeviceType, Error, ErrorKind, Result};
use arrow_device_gpu::{Api, Batch, Code, Found, Functions, Handle, Kind, Place, Vendor, find};

/// What CUDA calls things.
pub(crate) static VENDOR: Vendor = Vendor {
    name: "CUDA",
    runtime: "cuda",
    device: DeviceType::CUDA,
    host: DeviceType::CUDA_HOST,
    managed: Some(DeviceType::CUDA_MANAGED),
    install: "install the NVIDIA driver, version 450 or later, which brings libcuda.so.1",
    concurrent_managed_access: 89,
    managed_memory: 83,
};

const ATTRIBUTE_MEMORY_TYPE: i32 = 2;
const ATTRIBUTE_IS_MANAGED: i32 = 8;
const MEMORY_TYPE_HOST: u32 = 1;
const MEMORY_TYPE_DEVICE: u32 = 2;
const INVALID_VALUE: Code = 1;
const LEGACY_STREAM: usize = 1;
/// The source of a copy is read when the stream has come so far.
const IN_STREAM_ORDER: i32 = 1;
const LOCATION_DEVICE: i32 = 1;
const READ_WRITE: i32 = 3;

type Text = unsafe extern "system" fn(Code, *mut *const c_char) -> Code;
type OutHandle = unsafe extern "system" fn(*mut Handle) -> Code;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Location {
    kind: i32,
    id: i32,
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: i32,
}

/// `CUmemcpyAttributes`.
#[repr(C)]
struct CopyAttributes {
    order: i32,
    from: Location,
    to: Location,
    flags: u32,
}

type CopyBatch1 = unsafe extern "system" fn(
    *mut Handle,
    *mut Handle,
    *mut usize,
    usize,
    *mut CopyAttributes,
    *mut usize,
    usize,
    *mut usize,
    Handle,
) -> Code;
type CopyBatch2 = unsafe extern "system" fn(
    *const Handle,
    *const Handle,
    *const usize,
    usize,
    *mut CopyAttributes,
    *mut usize,
    usize,
    Handle,
) -> Code;
type CopyPeer = unsafe extern "system" fn(Handle, Handle, Handle, Handle, usize, Handle) -> Code;

/// The CUDA driver.
#[derive(Debug)]
pub(crate) struct Cuda {
    found: Found,
    functions: Functions,
    device_get: unsafe extern "system" fn(*mut i32, i32) -> Code,
    retain_primary: unsafe extern "system" fn(*mut Handle, i32) -> Code,
    push_context: unsafe extern "system" fn(Handle) -> Code,
    pop_context: OutHandle,
    copy: unsafe extern "system" fn(Handle, Handle, usize, Handle) -> Code,
    copy_peer: Option<CopyPeer>,
    copy_batch: Option<CopyBatch1>,
    copy_batch_2: Option<CopyBatch2>,
    enable_peer: Option<unsafe extern "system" fn(Handle, u32) -> Code>,
    default_pool: Option<unsafe extern "system" fn(*mut Handle, i32) -> Code>,
    set_pool_access: Option<unsafe extern "system" fn(Handle, *const c_void, usize) -> Code>,
    error_name: Text,
    /// The primary contexts that were retained, one for each device, never released: memory that was exported outlives
    /// whoever opened the device.
    places: Mutex<Vec<Place>>,
}

/// The driver, loaded by the first call. An error stays one for the life of the process.
pub(crate) fn load() -> Result<&'static Cuda> {
    static LOADED: OnceLock<Result<Cuda, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let names: &[&str] =
            if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
        Cuda::new(find(&VENDOR, "ARROW_DEVICE_CUDA_LIBRARY", names)?)
    });
    loaded.as_ref().map_err(|message| {
        Error::new(ErrorKind::DriverMissing, message.clone()).during("load the driver")
    })
}

impl Cuda {
    fn new(found: Found) -> Result<Self, String> {
        #[allow(clippy::multiple_unsafe_ops_per_block)]
        // SAFETY: each name has the type of the field it goes to: these are the functions of `cuda.h`, declared after it.
        unsafe {
            let functions = Functions {
                init: found.required("cuInit")?,
                driver_version: found.required("cuDriverGetVersion")?,
                device_count: found.required("cuDeviceGetCount")?,
                device_name: found.required("cuDeviceGetName")?,
                device_attribute: found.required("cuDeviceGetAttribute")?,
                device_total_memory: found.required("cuDeviceTotalMem_v2")?,
                device_can_access_peer: found.optional("cuDeviceCanAccessPeer"),
                mem_get_info: found.required("cuMemGetInfo_v2")?,
                mem_alloc: found.required("cuMemAlloc_v2")?,
                mem_free: found.required("cuMemFree_v2")?,
                mem_host_alloc: found.required("cuMemHostAlloc")?,
                mem_free_host: found.required("cuMemFreeHost")?,
                mem_alloc_managed: Some(found.required("cuMemAllocManaged")?),
                mem_alloc_async: found.optional("cuMemAllocAsync"),
                pointer_attribute: found.required("cuPointerGetAttribute")?,
                mem_get_address_range: found.optional("cuMemGetAddressRange_v2"),
                memcpy_host_to_device: found.required("cuMemcpyHtoDAsync_v2")?,
                memcpy_device_to_host: found.required("cuMemcpyDtoHAsync_v2")?,
                memcpy_device_to_device: found.required("cuMemcpyDtoDAsync_v2")?,
                stream_create: found.required("cuStreamCreate")?,
                stream_destroy: found.required("cuStreamDestroy_v2")?,
                stream_query: found.required("cuStreamQuery")?,
                stream_synchronize: found.required("cuStreamSynchronize")?,
                stream_wait_event: found.required("cuStreamWaitEvent")?,
                stream_is_capturing: found.optional("cuStreamIsCapturing"),
                exchange_capture_mode: found.optional("cuThreadExchangeStreamCaptureMode"),
                event_create: found.required("cuEventCreate")?,
                event_destroy: found.required("cuEventDestroy_v2")?,
                event_record: found.required("cuEventRecord")?,
                event_query: found.required("cuEventQuery")?,
                event_synchronize: found.required("cuEventSynchronize")?,
            };
            Ok(Self {
                functions,
                device_get: found.required("cuDeviceGet")?,
                retain_primary: found.required("cuDevicePrimaryCtxRetain")?,
                push_context: found.required("cuCtxPushCurrent_v2")?,
                pop_context: found.required("cuCtxPopCurrent_v2")?,
                copy: found.required("cuMemcpyAsync")?,
                copy_peer: found.optional("cuMemcpyPeerAsync"),
                copy_batch: found.optional("cuMemcpyBatchAsync"),
                copy_batch_2: found.optional("cuMemcpyBatchAsync_v2"),
                enable_peer: found.optional("cuCtxEnablePeerAccess"),
                default_pool: found.optional("cuDeviceGetDefaultMemPool"),
                set_pool_access: found.optional("cuMemPoolSetAccess"),
                error_name: found.required("cuGetErrorName")?,
                places: Mutex::default(),
                found,
            })
        }
    }

    /// The primary context of a device.
    #[cfg(feature = "cudarc")]
    pub(crate) fn primary(&self, ordinal: usize) -> Result<Handle> {
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let place = self.place(number);
        place.map(|place| place.context).map_err(|code| arrow_device_gpu::error(self, code, "open"))
    }

    /// Lets a device reach what another one allocates in the order of its streams. A device without such pools has nothing
    /// there to be reached.
    fn open_pool(&self, own: &Place, peer: &Place) {
        let (Some(default_pool), Some(set_access)) = (self.default_pool, self.set_pool_access)
        else {
            return;
        };
        let mut pool = ptr::null_mut();
        // SAFETY: a handle is written.
        if unsafe { default_pool(&mut pool, peer.device) } != 0 {
            return;
        }
        let location = Location { kind: LOCATION_DEVICE, id: own.ordinal };
        let access = Access { location, flags: READ_WRITE };
        // SAFETY: one description is read.
        let _ = unsafe { set_access(pool, (&raw const access).cast(), 1) };
    }
}

impl Api for Cuda {
    type Saved = ();

    fn functions(&self) -> &Functions {
        &self.functions
    }

    fn vendor(&self) -> &'static Vendor {
        &VENDOR
    }

    fn library(&self) -> (&Found, Result<String, Code>) {
        let mut version = 0;
        // SAFETY: a number is written.
        let code = unsafe { (self.functions.driver_version)(&mut version) };
        let text = format!("the driver is for CUDA {}.{}", version / 1000, version % 1000 / 10);
        (&self.found, if code == 0 { Ok(text) } else { Err(code) })
    }

    fn place(&self, ordinal: i32) -> Result<Place, Code> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = places.iter().find(|place| place.ordinal == ordinal) {
            return Ok(*known);
        }
        // SAFETY: the flags have to be 0; it may be called any number of times.
        ok(unsafe { (self.functions.init)(0) })?;
        let mut device = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.device_get)(&mut device, ordinal) })?;
        let mut context = ptr::null_mut();
        // SAFETY: a handle is written.
        ok(unsafe { (self.retain_primary)(&mut context, device) })?;
        let place = Place { ordinal, device, context };
        places.push(place);
        Ok(place)
    }

    fn enter(&self, place: &Place) -> Result<(), Code> {
        // SAFETY: the context was retained and is never released.
        ok(unsafe { (self.push_context)(place.context) })
    }

    fn leave(&self, (): ()) {
        let mut context = ptr::null_mut();
        // SAFETY: a handle is written. It is the context that `enter` pushed; below it is the thread's own.
        let _ = unsafe { (self.pop_context)(&mut context) };
    }

    unsafe fn copy(&self, to: Handle, from: Handle, len: usize, stream: Handle) -> Code {
        // SAFETY: promised by the caller.
        unsafe { (self.copy)(to, from, len, stream) }
    }

    unsafe fn copy_from_peer(
        &self,
        to: (Handle, &Place),
        from: (Handle, &Place),
        len: usize,
        stream: Handle,
    ) -> Option<Code> {
        let copy = self.copy_peer?;
        // SAFETY: promised by the caller; both contexts were retained.
        Some(unsafe { copy(to.0, to.1.context, from.0, from.1.context, len, stream) })
    }

    unsafe fn copy_batch(&self, batch: &mut Batch, stream: Handle) -> Option<Code> {
        // The manual wants a stream that is not the legacy default one.
        if stream.addr() <= LEGACY_STREAM {
            return None;
        }
        let mut attributes = CopyAttributes {
            order: IN_STREAM_ORDER,
            from: Location::default(),
            to: Location::default(),
            flags: 0,
        };
        let (to, from) = (batch.to.as_mut_ptr(), batch.from.as_mut_ptr());
        let (len, count) = (batch.len.as_mut_ptr(), batch.len.len());
        // The attributes hold from the first copy on.
        let mut first = 0;
        if let Some(copy) = self.copy_batch_2 {
            // SAFETY: promised by the caller; the three lists have `count` entries.
            return Some(unsafe {
                copy(to, from, len, count, &mut attributes, &mut first, 1, stream)
            });
        }
        let copy = self.copy_batch?;
        let mut failed = 0;
        // SAFETY: as above.
        Some(unsafe {
            copy(to, from, len, count, &mut attributes, &mut first, 1, &mut failed, stream)
        })
    }

    fn enable_peer(&self, own: &Place, peer: &Place) -> Option<Code> {
        let enable = self.enable_peer?;
        // SAFETY: the context was retained; the flags have to be 0.
        let code = unsafe { enable(peer.context, 0) };
        self.open_pool(own, peer);
        Some(code)
    }

    unsafe fn kind_at(&self, address: Handle) -> Result<Option<Kind>, Code> {
        let ask = |attribute: i32| {
            let mut value = 0_u32;
            let out = (&raw mut value).cast();
            // SAFETY: both attributes are 32 bits wide; the address is looked up and not followed.
            let code = unsafe { (self.functions.pointer_attribute)(out, attribute, address) };
            ok(code).map(|()| value)
        };
        let memory_type = match ask(ATTRIBUTE_MEMORY_TYPE) {
            // "If ptr was not allocated by, mapped by, or registered with a CUcontext which uses unified virtual addressing
            // CUDA_ERROR_INVALID_VALUE is returned."
            Err(INVALID_VALUE) => return Ok(None),
            other => other?,
        };
        // A truth value of which only the lowest byte is certain to be written.
        if ask(ATTRIBUTE_IS_MANAGED).is_ok_and(|is_managed| is_managed & 0xff != 0) {
            return Ok(Some(Kind::Managed));
        }
        Ok(match memory_type {
            MEMORY_TYPE_HOST => Some(Kind::Host),
            MEMORY_TYPE_DEVICE => Some(Kind::Device),
            _ => None,
        })
    }

    fn error_name(&self, code: Code) -> Option<Cow<'static, str>> {
        let mut text = ptr::null();
        // SAFETY: a pointer is written, which is null for an unknown code.
        let known = unsafe { (self.error_name)(code, &mut text) };
        if known != 0 || text.is_null() {
            return None;
        }
        // SAFETY: "a NULL-terminated string", which is part of the library and stays.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy())
    }
}

fn ok(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}
