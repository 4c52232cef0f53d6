//! The functions of HIP, found in its library at run time, and what HIP does in its own way.
//!
//! The declarations are those of `hip_runtime_api.h`. `ARROW_DEVICE_HIP_LIBRARY` names another library to load.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_device::{DeviceType, Error, ErrorKind, Result};
use arrow_device_gpu::{Api, Batch, Code, Found, Functions, Handle, Kind, Place, Vendor, find};

/// What HIP calls things.
pub(crate) static VENDOR: Vendor = Vendor {
    name: "ROCm",
    runtime: "hip",
    device: DeviceType::ROCM,
    host: DeviceType::ROCM_HOST,
    managed: None,
    install: "install ROCm 5 or later, whose HIP runtime is libamdhip64.so (Debian: libamdhip64-5)",
    concurrent_managed_access: 9,
    managed_memory: 24,
};

const ATTRIBUTE_MEMORY_TYPE: i32 = 2;
const ATTRIBUTE_IS_MANAGED: i32 = 8;
const INVALID_VALUE: Code = 1;
const INVALID_DEVICE: Code = 101;
const BY_ADDRESS: i32 = 4;
const LEGACY_STREAM: usize = 1;
const IN_STREAM_ORDER: i32 = 1;
const LOCATION_DEVICE: i32 = 1;
const READ_WRITE: i32 = 3;
/// From this version on host memory is 1 and device memory 2, as with CUDA; before, they were 0 and 1.
const RENUMBERED: i32 = 60_000_000;

/// `hipMemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Location {
    kind: i32,
    id: i32,
}

/// `hipMemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: i32,
}

/// `hipMemcpyAttributes`.
#[repr(C)]
struct CopyAttributes {
    order: i32,
    from: Location,
    to: Location,
    flags: u32,
}

type CopyBatch = unsafe extern "system" fn(
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
type CopyPeer = unsafe extern "system" fn(Handle, i32, Handle, i32, usize, Handle) -> Code;
type Text = unsafe extern "system" fn(Code) -> *const c_char;

/// HIP.
#[derive(Debug)]
pub(crate) struct Hip {
    found: Found,
    functions: Functions,
    runtime_version: unsafe extern "system" fn(*mut i32) -> Code,
    get_device: unsafe extern "system" fn(*mut i32) -> Code,
    set_device: unsafe extern "system" fn(i32) -> Code,
    copy: unsafe extern "system" fn(Handle, Handle, usize, i32, Handle) -> Code,
    copy_peer: Option<CopyPeer>,
    copy_batch: Option<CopyBatch>,
    enable_peer: Option<unsafe extern "system" fn(i32, u32) -> Code>,
    default_pool: Option<unsafe extern "system" fn(*mut Handle, i32) -> Code>,
    set_pool_access: Option<unsafe extern "system" fn(Handle, *const c_void, usize) -> Code>,
    last_error: Option<unsafe extern "system" fn() -> Code>,
    error_name: Text,
    /// The devices that were found to be there.
    places: Mutex<Vec<Place>>,
}

/// HIP, loaded by the first call. An error stays one for the life of the process.
pub(crate) fn load() -> Result<&'static Hip> {
    static LOADED: OnceLock<Result<Hip, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let names: &[&str] = if cfg!(windows) {
            &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"]
        } else {
            &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]
        };
        Hip::new(find(&VENDOR, "ARROW_DEVICE_HIP_LIBRARY", names)?)
    });
    loaded.as_ref().map_err(|message| {
        Error::new(ErrorKind::DriverMissing, message.clone()).during("load the driver")
    })
}

impl Hip {
    fn new(found: Found) -> Result<Self, String> {
        #[allow(clippy::multiple_unsafe_ops_per_block)]
        // SAFETY: each name has the type of the field it goes to: these are the functions of `hip_runtime_api.h`, declared
        // after it.
        unsafe {
            let functions = Functions {
                init: found.required("hipInit")?,
                driver_version: found.required("hipDriverGetVersion")?,
                device_count: found.required("hipGetDeviceCount")?,
                device_name: found.required("hipDeviceGetName")?,
                device_attribute: found.required("hipDeviceGetAttribute")?,
                device_total_memory: found.required("hipDeviceTotalMem")?,
                device_can_access_peer: found.optional("hipDeviceCanAccessPeer"),
                mem_get_info: found.required("hipMemGetInfo")?,
                mem_alloc: found.required("hipMalloc")?,
                mem_free: found.required("hipFree")?,
                mem_host_alloc: found.required("hipHostMalloc")?,
                mem_free_host: found.required("hipHostFree")?,
                mem_alloc_managed: None,
                mem_alloc_async: found.optional("hipMallocAsync"),
                pointer_attribute: found.required("hipPointerGetAttribute")?,
                mem_get_address_range: found.optional("hipMemGetAddressRange"),
                memcpy_host_to_device: found.required("hipMemcpyHtoDAsync")?,
                memcpy_device_to_host: found.required("hipMemcpyDtoHAsync")?,
                memcpy_device_to_device: found.required("hipMemcpyDtoDAsync")?,
                stream_create: found.required("hipStreamCreateWithFlags")?,
                stream_destroy: found.required("hipStreamDestroy")?,
                stream_query: found.required("hipStreamQuery")?,
                stream_synchronize: found.required("hipStreamSynchronize")?,
                stream_wait_event: found.required("hipStreamWaitEvent")?,
                stream_is_capturing: found.optional("hipStreamIsCapturing"),
                exchange_capture_mode: found.optional("hipThreadExchangeStreamCaptureMode"),
                event_create: found.required("hipEventCreateWithFlags")?,
                event_destroy: found.required("hipEventDestroy")?,
                event_record: found.required("hipEventRecord")?,
                event_query: found.required("hipEventQuery")?,
                event_synchronize: found.required("hipEventSynchronize")?,
            };
            Ok(Self {
                functions,
                runtime_version: found.required("hipRuntimeGetVersion")?,
                get_device: found.required("hipGetDevice")?,
                set_device: found.required("hipSetDevice")?,
                copy: found.required("hipMemcpyAsync")?,
                copy_peer: found.optional("hipMemcpyPeerAsync"),
                copy_batch: found.optional("hipMemcpyBatchAsync"),
                enable_peer: found.optional("hipDeviceEnablePeerAccess"),
                default_pool: found.optional("hipDeviceGetDefaultMemPool"),
                set_pool_access: found.optional("hipMemPoolSetAccess"),
                last_error: found.optional("hipGetLastError"),
                error_name: found.required("hipGetErrorName")?,
                places: Mutex::default(),
                found,
            })
        }
    }

    fn version(&self) -> Result<i32, Code> {
        let mut version = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.runtime_version)(&mut version) }).map(|()| version)
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
        if unsafe { default_pool(&mut pool, peer.ordinal) } != 0 {
            return;
        }
        let location = Location { kind: LOCATION_DEVICE, id: own.ordinal };
        let access = Access { location, flags: READ_WRITE };
        // SAFETY: one description is read.
        let _ = unsafe { set_access(pool, (&raw const access).cast(), 1) };
    }
}

impl Api for Hip {
    /// The device that was current, if it was another one.
    type Saved = Option<i32>;

    fn functions(&self) -> &Functions {
        &self.functions
    }

    fn vendor(&self) -> &'static Vendor {
        &VENDOR
    }

    fn library(&self) -> (&Found, Result<String, Code>) {
        let text = self.version().map(|version| {
            let (major, rest) = (version / 10_000_000, version % 10_000_000);
            format!("HIP {major}.{}.{}", rest / 100_000, rest % 100_000)
        });
        (&self.found, text)
    }

    fn place(&self, ordinal: i32) -> Result<Place, Code> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = places.iter().find(|place| place.ordinal == ordinal) {
            return Ok(*known);
        }
        // SAFETY: the flags have to be 0; it may be called any number of times.
        ok(unsafe { (self.functions.init)(0) })?;
        let mut count = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.functions.device_count)(&mut count) })?;
        if !(0..count).contains(&ordinal) {
            return Err(INVALID_DEVICE);
        }
        let place = Place { ordinal, device: ordinal, context: ptr::null_mut() };
        places.push(place);
        Ok(place)
    }

    fn enter(&self, place: &Place) -> Result<Option<i32>, Code> {
        let mut current = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.get_device)(&mut current) })?;
        if current == place.ordinal {
            return Ok(None);
        }
        // SAFETY: the device was found to be there.
        ok(unsafe { (self.set_device)(place.ordinal) })?;
        Ok(Some(current))
    }

    fn leave(&self, saved: Option<i32>) {
        if let Some(device) = saved {
            // SAFETY: it was the current one before.
            let _ = unsafe { (self.set_device)(device) };
        }
    }

    unsafe fn copy(&self, to: Handle, from: Handle, len: usize, stream: Handle) -> Code {
        // SAFETY: promised by the caller.
        unsafe { (self.copy)(to, from, len, BY_ADDRESS, stream) }
    }

    unsafe fn copy_from_peer(
        &self,
        to: (Handle, &Place),
        from: (Handle, &Place),
        len: usize,
        stream: Handle,
    ) -> Option<Code> {
        let copy = self.copy_peer?;
        // SAFETY: promised by the caller.
        Some(unsafe { copy(to.0, to.1.ordinal, from.0, from.1.ordinal, len, stream) })
    }

    unsafe fn copy_batch(&self, batch: &mut Batch, stream: Handle) -> Option<Code> {
        let copy = self.copy_batch.filter(|_| stream.addr() > LEGACY_STREAM)?;
        let mut attributes = CopyAttributes {
            order: IN_STREAM_ORDER,
            from: Location::default(),
            to: Location::default(),
            flags: 0,
        };
        let (to, from) = (batch.to.as_mut_ptr(), batch.from.as_mut_ptr());
        let (len, count) = (batch.len.as_mut_ptr(), batch.len.len());
        // The attributes hold from the first copy on.
        let (mut first, mut failed) = (0, 0);
        // SAFETY: promised by the caller; the three lists have `count` entries.
        Some(unsafe {
            copy(to, from, len, count, &mut attributes, &mut first, 1, &mut failed, stream)
        })
    }

    fn enable_peer(&self, own: &Place, peer: &Place) -> Option<Code> {
        let enable = self.enable_peer?;
        // SAFETY: the device was found to be there; the flags have to be 0.
        let code = unsafe { enable(peer.ordinal, 0) };
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
            Err(INVALID_VALUE) => {
                self.forget_error();
                return Ok(None);
            }
            other => other?,
        };
        if ask(ATTRIBUTE_IS_MANAGED).is_ok_and(|is_managed| is_managed & 0xff != 0) {
            return Ok(Some(Kind::Managed));
        }
        let host = u32::from(self.version()? >= RENUMBERED);
        Ok(match memory_type {
            known if known == host => Some(Kind::Host),
            known if known == host + 1 => Some(Kind::Device),
            _ => None,
        })
    }

    fn error_name(&self, code: Code) -> Option<Cow<'static, str>> {
        // SAFETY: any number may be asked about.
        let text = unsafe { (self.error_name)(code) };
        if text.is_null() {
            return None;
        }
        // SAFETY: "a pointer to the NULL-terminated error name", which is part of the library and stays.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy())
    }

    fn forget_error(&self) {
        if let Some(last_error) = self.last_error {
            // SAFETY: it returns a number and resets it.
            let _ = unsafe { last_error() };
        }
    }
}

fn ok(code: Code) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(code) }
}
