//! The functions of the CUDA driver, found in its library at run time, and the operations that CUDA
//! does in its own way.
//!
//! The declarations are those of `cuda.h`, with its versioned names. A `CUdeviceptr` is a number as
//! wide as an address on all systems that CUDA runs on, and is declared as one here.
//! `ARROW_DEVICE_CUDA_LIBRARY` names another library to load.

use std::borrow::Cow;
use std::ffi::c_char;
use std::ptr;
use std::sync::OnceLock;

use arrow_device::driver::LibraryUse;
use arrow_device::{DeviceType, ErrorKind, Result};
use arrow_device_gpu::{
    Api, Code, CopyAttributes, CopyList, FunctionNames, Handle, Loaded, MappingNames, ReadyDevice,
    Vendor, functions, ok, text,
};

/// CUDA's names and numbers.
static VENDOR: Vendor = Vendor {
    name: "CUDA",
    runtime: "cuda",
    device: DeviceType::CUDA,
    host: DeviceType::CUDA_HOST,
    managed: Some(DeviceType::CUDA_MANAGED),
    install: "install the NVIDIA driver, version 450 or later, which brings libcuda.so.1",
    concurrent_managed_access: 89,
    managed_memory: 83,
    ranges_are_attributes: true,
    // Compute capability 10, where others have reported that cuMemcpyBatchAsync crashes.
    batches_break_on: Some((75, 10)),
    way: "cuda vmm",
    mapping_by_hand: 102,
    descriptors: Some(103),
    library_variable: "ARROW_DEVICE_CUDA_LIBRARY",
    options_variable: "ARROW_DEVICE_CUDA_OPTIONS",
    libraries: if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] },
    functions: FunctionNames {
        init: "cuInit",
        driver_version: "cuDriverGetVersion",
        device_count: "cuDeviceGetCount",
        device_name: "cuDeviceGetName",
        device_attribute: "cuDeviceGetAttribute",
        device_total_memory: "cuDeviceTotalMem_v2",
        device_can_access_peer: "cuDeviceCanAccessPeer",
        mem_get_info: "cuMemGetInfo_v2",
        mem_alloc: "cuMemAlloc_v2",
        mem_free: "cuMemFree_v2",
        mem_host_alloc: "cuMemHostAlloc",
        mem_free_host: "cuMemFreeHost",
        mem_alloc_async: "cuMemAllocAsync",
        pointer_attribute: "cuPointerGetAttribute",
        mem_get_address_range: "cuMemGetAddressRange_v2",
        memcpy_host_to_device: "cuMemcpyHtoDAsync_v2",
        memcpy_device_to_host: "cuMemcpyDtoHAsync_v2",
        memcpy_device_to_device: "cuMemcpyDtoDAsync_v2",
        stream_create: "cuStreamCreate",
        stream_destroy: "cuStreamDestroy_v2",
        stream_query: "cuStreamQuery",
        stream_synchronize: "cuStreamSynchronize",
        stream_wait_event: "cuStreamWaitEvent",
        launch_host_function: "cuLaunchHostFunc",
        stream_is_capturing: "cuStreamIsCapturing",
        exchange_capture_mode: "cuThreadExchangeStreamCaptureMode",
        event_create: "cuEventCreate",
        event_destroy: "cuEventDestroy_v2",
        event_record: "cuEventRecord",
        event_query: "cuEventQuery",
        event_synchronize: "cuEventSynchronize",
        memcpy_batch: "cuMemcpyBatchAsync",
        current_pool: "cuDeviceGetMemPool",
        pool_create: "cuMemPoolCreate",
        pool_set_attribute: "cuMemPoolSetAttribute",
        pool_trim: "cuMemPoolTrimTo",
        pool_alloc_async: "cuMemAllocFromPoolAsync",
        set_pool_access: "cuMemPoolSetAccess",
    },
    mapping: MappingNames {
        granularity: "cuMemGetAllocationGranularity",
        create: "cuMemCreate",
        release: "cuMemRelease",
        reserve: "cuMemAddressReserve",
        free_space: "cuMemAddressFree",
        map: "cuMemMap",
        unmap: "cuMemUnmap",
        set_access: "cuMemSetAccess",
        export: "cuMemExportToShareableHandle",
        import: "cuMemImportFromShareableHandle",
        uuid: "cuDeviceGetUuid_v2",
        bus_id: "cuDeviceGetPCIBusId",
    },
    legacy_default_stream: 1,
    per_thread_default_stream: 2,
    library_use: LibraryUse::new(),
};

/// The flag of managed memory that every stream may use.
const GLOBAL: u32 = 1;
const MEMORY_TYPE_HOST: u32 = 1;

functions! {
    /// The functions that HIP does not have, or has in another form.
    struct CudaFunctions {
        required device_get: fn(*mut i32, i32) -> Code = "cuDeviceGet",
        required retain_primary: fn(*mut Handle, i32) -> Code = "cuDevicePrimaryCtxRetain",
        required push_context: fn(Handle) -> Code = "cuCtxPushCurrent_v2",
        required pop_context: fn(*mut Handle) -> Code = "cuCtxPopCurrent_v2",
        required alloc_managed: fn(*mut Handle, usize, u32) -> Code = "cuMemAllocManaged",
        required copy: fn(Handle, Handle, usize, Handle) -> Code = "cuMemcpyAsync",
        optional copy_peer: fn(Handle, Handle, Handle, Handle, usize, Handle) -> Code =
            "cuMemcpyPeerAsync",
        optional copy_batch_2: fn(
            *const Handle,
            *const Handle,
            *const usize,
            usize,
            *mut CopyAttributes,
            *mut usize,
            usize,
            Handle
        ) -> Code = "cuMemcpyBatchAsync_v2",
        optional enable_peer: fn(Handle, u32) -> Code = "cuCtxEnablePeerAccess",
        required error_name: fn(Code, *mut *const c_char) -> Code = "cuGetErrorName",
    }
}

/// The CUDA driver. Its devices are primary contexts, which are retained and never released.
#[derive(Debug)]
pub(crate) struct Cuda {
    loaded: Loaded,
    own: CudaFunctions,
}

/// Loads the driver on the first call. An error stays for the life of the process.
pub(crate) fn load() -> Result<&'static Cuda> {
    static CUDA: OnceLock<Result<Cuda, String>> = OnceLock::new();
    // SAFETY: these are the functions of `cuda.h`, declared after it.
    unsafe { arrow_device_gpu::load(&VENDOR, &CUDA, Cuda::new) }
}

impl Cuda {
    fn new(loaded: Loaded) -> Result<Self, String> {
        // SAFETY: these are the functions of `cuda.h`, declared after it.
        let own = unsafe { CudaFunctions::find(&loaded.found) }?;
        Ok(Self { loaded, own })
    }

    /// Returns the primary context of a device.
    #[cfg(feature = "cudarc")]
    pub(crate) fn primary(&self, ordinal: usize) -> Result<Handle> {
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let ready = self.ready(number);
        ready
            .map(|device| device.context)
            .map_err(|code| arrow_device_gpu::error(self, code, "open"))
    }
}

// SAFETY: each operation calls the vendor's function of that purpose and returns its code (DRV-1 to
// DRV-31).
unsafe impl Api for Cuda {
    type Saved = ();

    fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    fn version(&self) -> Result<String, Code> {
        let mut version = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.functions().driver_version)(&mut version) })?;
        Ok(format!("the driver is for CUDA {}.{}", version / 1000, version % 1000 / 10))
    }

    fn get_ready(&self, ordinal: i32) -> Result<ReadyDevice, Code> {
        let mut device = 0;
        // SAFETY: a number is written.
        ok(unsafe { (self.own.device_get)(&mut device, ordinal) })?;
        let mut context = ptr::null_mut();
        // SAFETY: a handle is written.
        ok(unsafe { (self.own.retain_primary)(&mut context, device) })?;
        Ok(ReadyDevice { ordinal, device, context, pool: ptr::null_mut() })
    }

    fn enter(&self, device: &ReadyDevice) -> Result<(), Code> {
        // SAFETY: the context was retained and is never released.
        ok(unsafe { (self.own.push_context)(device.context) })
    }

    fn leave(&self, (): ()) {
        let mut context = ptr::null_mut();
        // SAFETY: a handle is written. It is the context that `enter` pushed; below it is the
        // thread's own.
        let _ = unsafe { (self.own.pop_context)(&mut context) };
    }

    fn allocate_managed(&self, memory: &mut Handle, size: usize) -> Code {
        // SAFETY: the address is written.
        unsafe { (self.own.alloc_managed)(memory, size, GLOBAL) }
    }

    unsafe fn copy(&self, to: Handle, from: Handle, len: usize, stream: Handle) -> Code {
        // SAFETY: UNS-21, which the caller keeps.
        unsafe { (self.own.copy)(to, from, len, stream) }
    }

    unsafe fn copy_from_peer(
        &self,
        to: (Handle, &ReadyDevice),
        from: (Handle, &ReadyDevice),
        len: usize,
        stream: Handle,
    ) -> Option<Code> {
        let copy = self.own.copy_peer?;
        // SAFETY: UNS-21, which the caller keeps; both contexts were retained.
        Some(unsafe { copy(to.0, to.1.context, from.0, from.1.context, len, stream) })
    }

    unsafe fn copy_list(&self, list: &mut CopyList, stream: Handle) -> Option<Code> {
        let copy = self.own.copy_batch_2?;
        let (to, from) = (list.to.as_ptr(), list.from.as_ptr());
        let (len, count) = (list.len.as_ptr(), list.len.len());
        let (attributes, first) = (&raw mut list.attributes, &raw mut list.first);
        // SAFETY: UNS-21, which the caller keeps; the three lists have `count` entries.
        Some(unsafe { copy(to, from, len, count, attributes, first, 1, stream) })
    }

    fn enable_peer(&self, peer: &ReadyDevice) -> Option<Code> {
        let enable = self.own.enable_peer?;
        // SAFETY: the context was retained; the flags have to be 0.
        Some(unsafe { enable(peer.context, 0) })
    }

    fn host_memory_type(&self) -> Result<u32, Code> {
        Ok(MEMORY_TYPE_HOST)
    }

    fn error_name(&self, code: Code) -> Option<Cow<'static, str>> {
        let mut name = ptr::null();
        // SAFETY: a pointer is written, which is null for an unknown code.
        ok(unsafe { (self.own.error_name)(code, &mut name) }).ok()?;
        // SAFETY: "a NULL-terminated string", which is part of the library and stays.
        unsafe { text(name) }
    }

    fn meaning(&self, code: Code) -> Option<(ErrorKind, &'static str)> {
        crate::meaning::meaning(code)
    }
}
