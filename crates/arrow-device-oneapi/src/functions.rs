//! The functions of SYCL that this crate calls, as one table.
//!
//! The functions are those of dpctl's C interface. A table is filled from dpctl's library
//! ([`crate::library`]), or by a C++ engine from its own SYCL runtime: the header
//! `arrow_device/sycl.hpp` of this crate has the same struct, and fills it.
//!
//! None of the functions may throw. In dpctl, an exception of the runtime becomes a null pointer or
//! the status [`UNKNOWN`] in all of these functions but two. The allocation of host memory throws
//! if the device has no such memory, so the device is asked first. The function that frees memory
//! may throw, so this crate frees only memory that the same runtime has allocated. Functions of
//! dpctl that wait (`DPCTLQueue_Wait`, `DPCTLEvent_Wait`) end the process if the work has failed,
//! so these functions are not in the table.

use std::ffi::{c_char, c_int, c_void};

/// Any of SYCL's objects, by a pointer to the object: `sycl::event*`, `sycl::queue*`.
pub type Object = *mut c_void;
/// What a queue calls about errors that come later. This crate passes null.
pub type ErrorHandler = Option<unsafe extern "C" fn(c_int)>;
/// Allocates memory: the alignment, the number of bytes, and a queue of the context and device.
pub type Allocate = unsafe extern "C" fn(usize, usize, Object) -> Object;

/// The backends and types of device that a list of all devices is asked for with.
pub(crate) const ALL_DEVICES: c_int = (31 << 16) | 63;
/// The backend OpenCL.
pub(crate) const OPENCL: c_int = 1 << 18;
/// The property that makes a queue one in order.
pub(crate) const IN_ORDER: c_int = 1 << 1;

/// The device is a processor.
pub(crate) const IS_CPU: c_int = 1;
/// The device has memory of its own for programs.
pub(crate) const HAS_DEVICE_MEMORY: c_int = 12;
/// The device has memory on the host.
pub(crate) const HAS_HOST_MEMORY: c_int = 13;
/// The device has memory that moves between host and device.
pub(crate) const HAS_SHARED_MEMORY: c_int = 14;
/// Host and device may use shared memory at the same time.
pub(crate) const SHARES_AT_ONCE: c_int = 17;

/// The runtime cannot tell, or dpctl has caught an exception.
pub(crate) const UNKNOWN: c_int = 0;
/// The work is over.
pub(crate) const COMPLETE: c_int = 3;
/// The work is over and has failed. Only tables of C++ engines say so.
pub(crate) const FAILED: c_int = -1;

/// Memory that the context does not know.
pub(crate) const NO_USM: c_int = 0;
/// Memory that moves between host and device.
pub(crate) const SHARED_MEMORY: c_int = 2;
/// Memory of the host.
pub(crate) const HOST_MEMORY: c_int = 3;

/// The functions, with the types that they have in dpctl's headers.
///
/// Objects that a function returns are the caller's, and are given back by the function for that:
/// lists, devices, texts, contexts, queues and events. Every function may be called on any thread,
/// and on several at once.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    /// The size of the table in bytes.
    pub size: usize,
    /// Lists root devices (`DPCTLDeviceMgr_GetDevices`).
    pub list_devices: unsafe extern "C" fn(c_int) -> Object,
    /// The length of a list (`DPCTLDeviceVector_Size`).
    pub list_length: unsafe extern "C" fn(Object) -> usize,
    /// A copy of a device in a list (`DPCTLDeviceVector_GetAt`).
    pub list_device: unsafe extern "C" fn(Object, usize) -> Object,
    /// Gives back a list (`DPCTLDeviceVector_Delete`).
    pub list_delete: unsafe extern "C" fn(Object),
    /// The index of a device in the list, -1 where it is not there
    /// (`DPCTLDeviceMgr_GetPositionInDevices`).
    pub device_position: unsafe extern "C" fn(Object, c_int) -> c_int,
    /// The default context of a device's platform (`DPCTLDeviceMgr_GetCachedContext`).
    pub device_context: unsafe extern "C" fn(Object) -> Object,
    /// The name of a device (`DPCTLDevice_GetName`).
    pub device_name: unsafe extern "C" fn(Object) -> *const c_char,
    /// The version of a device's driver (`DPCTLDevice_GetDriverVersion`).
    pub device_version: unsafe extern "C" fn(Object) -> *const c_char,
    /// Gives back a text (`DPCTLCString_Delete`).
    pub text_delete: unsafe extern "C" fn(*const c_char),
    /// The bytes of memory that a device has (`DPCTLDevice_GetGlobalMemSize`).
    pub device_memory: unsafe extern "C" fn(Object) -> u64,
    /// Whether a device has an aspect, by dpctl's numbers (`DPCTLDevice_HasAspect`).
    pub device_has: unsafe extern "C" fn(Object, c_int) -> bool,
    /// The backend of a device, by dpctl's numbers (`DPCTLDevice_GetBackend`).
    pub device_backend: unsafe extern "C" fn(Object) -> c_int,
    /// Gives back a device (`DPCTLDevice_Delete`).
    pub device_delete: unsafe extern "C" fn(Object),
    /// Whether two contexts are one (`DPCTLContext_AreEq`).
    pub context_equals: unsafe extern "C" fn(Object, Object) -> bool,
    /// Gives back a context (`DPCTLContext_Delete`).
    pub context_delete: unsafe extern "C" fn(Object),
    /// Makes a queue for a context and a device (`DPCTLQueue_Create`).
    pub queue_create: unsafe extern "C" fn(Object, Object, ErrorHandler, c_int) -> Object,
    /// The context of a queue (`DPCTLQueue_GetContext`).
    pub queue_context: unsafe extern "C" fn(Object) -> Object,
    /// The device of a queue (`DPCTLQueue_GetDevice`).
    pub queue_device: unsafe extern "C" fn(Object) -> Object,
    /// Whether a queue is in order (`DPCTLQueue_IsInOrder`).
    pub queue_is_in_order: unsafe extern "C" fn(Object) -> bool,
    /// A copy of a queue: another reference to the same queue (`DPCTLQueue_Copy`).
    pub queue_copy: unsafe extern "C" fn(Object) -> Object,
    /// A number that copies of a queue have in common, and that no other queue has as long as one
    /// of them is there (`DPCTLQueue_Hash`).
    pub queue_hash: unsafe extern "C" fn(Object) -> usize,
    /// Gives back a queue (`DPCTLQueue_Delete`).
    pub queue_delete: unsafe extern "C" fn(Object),
    /// Submits a copy behind events: the queue, the destination, the source, the bytes, the events
    /// (`DPCTLQueue_MemcpyWithEvents`).
    pub copy: unsafe extern "C" fn(
        Object,
        *mut c_void,
        *const c_void,
        usize,
        *const Object,
        usize,
    ) -> Object,
    /// Submits a barrier behind all earlier work, and before all later work
    /// (`DPCTLQueue_SubmitBarrier`).
    pub barrier: unsafe extern "C" fn(Object) -> Object,
    /// Submits a barrier that also waits for these events (`DPCTLQueue_SubmitBarrierForEvents`).
    pub barrier_for: unsafe extern "C" fn(Object, *const Object, usize) -> Object,
    /// Asks an event (`DPCTLEvent_GetCommandExecutionStatus`): 0 for unknown, 1 for submitted, 2
    /// for running, 3 for complete. A C++ engine says -1 for failed.
    pub event_status: unsafe extern "C" fn(Object) -> c_int,
    /// A copy of an event: another reference to the same event (`DPCTLEvent_Copy`).
    pub event_copy: unsafe extern "C" fn(Object) -> Object,
    /// Gives back an event (`DPCTLEvent_Delete`).
    pub event_delete: unsafe extern "C" fn(Object),
    /// Allocates memory of the device (`DPCTLaligned_alloc_device`).
    pub allocate_device: Allocate,
    /// Allocates memory of the host (`DPCTLaligned_alloc_host`).
    pub allocate_host: Allocate,
    /// Allocates shared memory (`DPCTLaligned_alloc_shared`).
    pub allocate_shared: Allocate,
    /// Frees memory of a context (`DPCTLfree_with_context`).
    pub free: unsafe extern "C" fn(Object, Object),
    /// The kind of memory at an address in a context: 0 for none, 1 for device, 2 for shared, 3 for
    /// host (`DPCTLUSM_GetPointerType`).
    pub memory_kind: unsafe extern "C" fn(*const c_void, Object) -> c_int,
}
