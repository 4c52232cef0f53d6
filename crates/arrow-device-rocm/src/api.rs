//! The functions of HIP, found in its library at run time, and the operations that HIP does in its
//! own way.
//!
//! The declarations are those of `hip_runtime_api.h`. `ARROW_DEVICE_HIP_LIBRARY` names another
//! library to load.

use std::borrow::Cow;
use std::ffi::c_char;
use std::ptr;
use std::sync::OnceLock;

use arrow_device::driver::LibraryUse;
use arrow_device::{DeviceType, ErrorKind, Result};
use arrow_device_gpu::{
    Api, Code, FunctionNames, Handle, Loaded, MappingNames, ReadyDevice, Vendor, functions, ok,
    text,
};

/// HIP's names and numbers.
static VENDOR: Vendor = Vendor {
    name: "ROCm",
    runtime: "hip",
    device: DeviceType::ROCM,
    host: DeviceType::ROCM_HOST,
    managed: None,
    install: "install ROCm 5 or later, whose HIP runtime is libamdhip64.so (Debian: libamdhip64-5)",
    concurrent_managed_access: 9,
    managed_memory: 24,
    // HIP writes only four bytes for the size of a range, however large the range is.
    ranges_are_attributes: false,
    batches_break_on: None,
    way: "hip vmm",
    mapping_by_hand: 89,
    descriptors: None,
    library_variable: "ARROW_DEVICE_HIP_LIBRARY",
    options_variable: "ARROW_DEVICE_HIP_OPTIONS",
    libraries: if cfg!(windows) {
        &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"]
    } else {
        &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]
    },
    functions: FunctionNames {
        init: "hipInit",
        driver_version: "hipDriverGetVersion",
        device_count: "hipGetDeviceCount",
        device_name: "hipDeviceGetName",
        device_attribute: "hipDeviceGetAttribute",
        device_total_memory: "hipDeviceTotalMem",
        device_can_access_peer: "hipDeviceCanAccessPeer",
        mem_get_info: "hipMemGetInfo",
        mem_alloc: "hipMalloc",
        mem_free: "hipFree",
        mem_host_alloc: "hipHostMalloc",
        mem_free_host: "hipHostFree",
        mem_alloc_async: "hipMallocAsync",
        pointer_attribute: "hipPointerGetAttribute",
        mem_get_address_range: "hipMemGetAddressRange",
        memcpy_host_to_device: "hipMemcpyHtoDAsync",
        memcpy_device_to_host: "hipMemcpyDtoHAsync",
        memcpy_device_to_device: "hipMemcpyDtoDAsync",
        stream_create: "hipStreamCreateWithFlags",
        stream_destroy: "hipStreamDestroy",
        stream_query: "hipStreamQuery",
        stream_synchronize: "hipStreamSynchronize",
        stream_wait_event: "hipStreamWaitEvent",
        launch_host_function: "hipLaunchHostFunc",
        stream_is_capturing: "hipStreamIsCapturing",
        exchange_capture_mode: "hipThreadExchangeStreamCaptureMode",
        event_create: "hipEventCreateWithFlags",
        event_destroy: "hipEventDestroy",
        event_record: "hipEventRecord",
        event_query: "hipEventQuery",
        event_synchronize: "hipEventSynchronize",
        memcpy_batch: "hipMemcpyBatchAsync",
        current_pool: "hipDeviceGetMemPool",
        pool_create: "hipMemPoolCreate",
        pool_set_attribute: "hipMemPoolSetAttribute",
        pool_trim: "hipMemPoolTrimTo",
        pool_alloc_async: "hipMallocFromPoolAsync",
        set_pool_access: "hipMemPoolSetAccess",
    },
    mapping: MappingNames {
        granularity: "hipMemGetAllocationGranularity",
        create: "hipMemCreate",
        release: "hipMemRelease",
        reserve: "hipMemAddressReserve",
        free_space: "hipMemAddressFree",
        map: "hipMemMap",
        unmap: "hipMemUnmap",
        set_access: "hipMemSetAccess",
        export: "hipMemExportToShareableHandle",
        import: "hipMemImportFromShareableHandle",
        uuid: "hipDeviceGetUuid",
        bus_id: "hipDeviceGetPCIBusId",
    },
    legacy_default_stream: 0,
    per_thread_default_stream: 2,
    library_use: LibraryUse::new(),
};

const INVALID_DEVICE: Code = 101;
const BY_ADDRESS: i32 = 4;
/// The first version in which the memory type of host memory is 1 and that of device memory 2, as
/// with CUDA. In older versions they are 0 and 1.
const RENUMBERED: i32 = 60_000_000;

/// The first version that exports and imports descriptors of memory.
const DESCRIPTORS: i32 = 60_100_000;
/// The first version that takes a descriptor in place of a pointer; older ones take a pointer to
/// it.
const DESCRIPTORS_IN_PLACE: i32 = 70_100_000;

functions! {
    /// The functions that CUDA does not have, or has in another form.
    struct HipFunctions {
        required runtime_version: fn(*mut i32) -> Code = "hipRuntimeGetVersion",
        required get_device: fn(*mut i32) -> Code = "hipGetDevice",
        required set_device: fn(i32) -> Code = "hipSetDevice",
        required copy: fn(Handle, Handle, usize, i32, Handle) -> Code = "hipMemcpyAsync",
        optional copy_peer: fn(Handle, i32, Handle, i32, usize, Handle) -> Code =
            "hipMemcpyPeerAsync",
        optional enable_peer: fn(i32, u32) -> Code = "hipDeviceEnablePeerAccess",
        optional last_error: fn() -> Code = "hipGetLastError",
        required error_name: fn(Code) -> *const c_char = "hipGetErrorName",
    }
}

/// HIP. It has no contexts to name: a device is a number that was found to exist.
#[derive(Debug)]
pub(crate) struct Hip {
    loaded: Loaded,
    own: HipFunctions,
}

/// Loads HIP on the first call. An error stays for the life of the process.
pub(crate) fn load() -> Result<&'static Hip> {
    static HIP: OnceLock<Result<Hip, String>> = OnceLock::new();
    // SAFETY: these are the functions of `hip_runtime_api.h`, declared after it.
    unsafe { arrow_device_gpu::load(&VENDOR, &HIP, Hip::new) }
}

impl Hip {
    fn new(loaded: Loaded) -> Result<Self, String> {
        // SAFETY: these are the functions of `hip_runtime_api.h`, declared after it.
        let own = unsafe { HipFunctions::find(&loaded.found) }?;
        if loaded.functions.mem_get_address_range.is_none() {
            let (library, install) = (loaded.found.name(), VENDOR.install);
            return Err(format!("{library} has no hipMemGetAddressRange: {install}"));
        }
        Ok(Self { loaded, own })
    }

    fn runtime_version(&self) -> Result<i32, Code> {
        let mut version = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.own.runtime_version)(&mut version) }).map(|()| version)
    }
}

// SAFETY: each operation calls the vendor's function of that purpose and returns its code (DRV-1 to
// DRV-31).
unsafe impl Api for Hip {
    /// The device that was current before, if it was another one.
    type Saved = Option<i32>;

    fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    fn version(&self) -> Result<String, Code> {
        let version = self.runtime_version()?;
        let (major, rest) = (version / 10_000_000, version % 10_000_000);
        Ok(format!("HIP {major}.{}.{}", rest / 100_000, rest % 100_000))
    }

    fn get_ready(&self, ordinal: i32) -> Result<ReadyDevice, Code> {
        let mut count = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.functions().device_count)(&mut count) })?;
        if !(0..count).contains(&ordinal) {
            return Err(INVALID_DEVICE);
        }
        let (context, pool) = (ptr::null_mut(), ptr::null_mut());
        Ok(ReadyDevice { ordinal, device: ordinal, context, pool })
    }

    fn enter(&self, device: &ReadyDevice) -> Result<Option<i32>, Code> {
        let mut current = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.own.get_device)(&mut current) })?;
        if current == device.ordinal {
            return Ok(None);
        }
        // SAFETY: the device was found to be there.
        ok(unsafe { (self.own.set_device)(device.ordinal) })?;
        Ok(Some(current))
    }

    fn leave(&self, saved: Option<i32>) {
        if let Some(device) = saved {
            // SAFETY: it was the current one before.
            self.succeeded(unsafe { (self.own.set_device)(device) });
        }
    }

    unsafe fn copy(&self, to: Handle, from: Handle, len: usize, stream: Handle) -> Code {
        // SAFETY: UNS-21, which the caller keeps.
        unsafe { (self.own.copy)(to, from, len, BY_ADDRESS, stream) }
    }

    unsafe fn copy_from_peer(
        &self,
        to: (Handle, &ReadyDevice),
        from: (Handle, &ReadyDevice),
        len: usize,
        stream: Handle,
    ) -> Option<Code> {
        let copy = self.own.copy_peer?;
        // SAFETY: UNS-21, which the caller keeps, and the two sides lie on these devices.
        Some(unsafe { copy(to.0, to.1.ordinal, from.0, from.1.ordinal, len, stream) })
    }

    fn has_descriptors(&self) -> bool {
        let version = self.runtime_version().map_err(|_| self.forget_error());
        version.is_ok_and(|version| version >= DESCRIPTORS)
    }

    fn imports_by_pointer(&self) -> bool {
        let version = self.runtime_version().map_err(|_| self.forget_error());
        version.is_ok_and(|version| version < DESCRIPTORS_IN_PLACE)
    }

    fn enable_peer(&self, peer: &ReadyDevice) -> Option<Code> {
        let enable = self.own.enable_peer?;
        // SAFETY: the device was found to be there; the flags have to be 0.
        Some(unsafe { enable(peer.ordinal, 0) })
    }

    fn host_memory_type(&self) -> Result<u32, Code> {
        Ok(u32::from(self.runtime_version()? >= RENUMBERED))
    }

    fn error_name(&self, code: Code) -> Option<Cow<'static, str>> {
        // SAFETY: any number may be asked about.
        let name = unsafe { (self.own.error_name)(code) };
        // SAFETY: "a pointer to the NULL-terminated error name", which is part of the library and
        // stays.
        unsafe { text(name) }
    }

    fn meaning(&self, code: Code) -> Option<(ErrorKind, &'static str)> {
        match code {
            100 | INVALID_DEVICE => Some((
                ErrorKind::DeviceMissing,
                "the driver finds no such device: look what `rocminfo` lists, whether the kernel module amdgpu is loaded, whether this user is in the groups `render` and `video`, and what HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES hide",
            )),
            53 => Some((
                ErrorKind::Driver,
                "work that was submitted before has failed: look at the errors of the program's own launches",
            )),
            1052 | 1053 => Some((
                ErrorKind::Driver,
                "the runtime below HIP has failed: look in the system's log what the kernel module amdgpu says, and whether this user may lock memory",
            )),
            _ => None,
        }
    }

    fn forget_error(&self) {
        if let Some(last_error) = self.own.last_error {
            // SAFETY: it returns a number and resets it.
            let _ = unsafe { last_error() };
        }
    }
}
