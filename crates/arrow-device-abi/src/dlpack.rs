//! DLPack's C interface, version 1.3: one strided tensor of plain numbers on a device.
//!
//! The declarations are those of `dlpack.h` under `DLPACK_DLPACK_H_`, with its names. An `enum` of
//! C is an integer here, because any value may arrive, and a Rust `enum` with an unknown value is
//! undefined behaviour.

#![allow(non_upper_case_globals)] // The names are DLPack's.

use core::ffi::{c_char, c_int, c_void};

/// The major version that these declarations describe.
pub const DLPACK_MAJOR_VERSION: u32 = 1;
/// The minor version that these declarations describe.
pub const DLPACK_MINOR_VERSION: u32 = 3;

/// In [`DLManagedTensorVersioned::flags`]: the data must not be written to.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;
/// In [`DLManagedTensorVersioned::flags`]: the producer copied the data for this consumer, and
/// nobody else has the copy.
pub const DLPACK_FLAG_BITMASK_IS_COPIED: u64 = 2;
/// In [`DLManagedTensorVersioned::flags`]: elements of less than a byte take a byte each and are
/// not packed.
pub const DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED: u64 = 4;

/// The version of a tensor or of a function table.
///
/// Another minor version adds values; another major version changes the layout. In a tensor with an
/// unknown major version only [`DLManagedTensorVersioned::deleter`] may be used.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DLPackVersion {
    /// Changes with the layout.
    pub major: u32,
    /// Changes with the list of values.
    pub minor: u32,
}

/// The kind of device that memory belongs to. Any value may arrive, also one without a name here.
///
/// The values are those of [`ArrowDeviceType`](crate::ArrowDeviceType).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DLDeviceType(pub i32);

/// Host memory.
pub const kDLCPU: DLDeviceType = DLDeviceType(1);
/// Memory of a CUDA GPU.
pub const kDLCUDA: DLDeviceType = DLDeviceType(2);
/// Host memory pinned by CUDA.
pub const kDLCUDAHost: DLDeviceType = DLDeviceType(3);
/// Memory of an OpenCL device.
pub const kDLOpenCL: DLDeviceType = DLDeviceType(4);
/// A Vulkan buffer.
pub const kDLVulkan: DLDeviceType = DLDeviceType(7);
/// Memory of an Apple GPU, used through Metal.
pub const kDLMetal: DLDeviceType = DLDeviceType(8);
/// A buffer of a Verilog simulator.
pub const kDLVPI: DLDeviceType = DLDeviceType(9);
/// Memory of an AMD GPU, used through ROCm.
pub const kDLROCM: DLDeviceType = DLDeviceType(10);
/// Host memory pinned by ROCm.
pub const kDLROCMHost: DLDeviceType = DLDeviceType(11);
/// A device outside this list.
pub const kDLExtDev: DLDeviceType = DLDeviceType(12);
/// CUDA managed memory.
pub const kDLCUDAManaged: DLDeviceType = DLDeviceType(13);
/// Unified shared memory of a oneAPI device.
pub const kDLOneAPI: DLDeviceType = DLDeviceType(14);
/// A WebGPU buffer.
pub const kDLWebGPU: DLDeviceType = DLDeviceType(15);
/// Memory shared with a Qualcomm Hexagon DSP.
pub const kDLHexagon: DLDeviceType = DLDeviceType(16);
/// Microsoft MAIA.
pub const kDLMAIA: DLDeviceType = DLDeviceType(17);
/// AWS Trainium.
pub const kDLTrn: DLDeviceType = DLDeviceType(18);

/// One device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDevice {
    /// The type of the device.
    pub device_type: DLDeviceType,
    /// The number of the device among those of its type. 0 for host, pinned and managed memory.
    pub device_id: i32,
}

/// Signed integer.
pub const kDLInt: u8 = 0;
/// Unsigned integer.
pub const kDLUInt: u8 = 1;
/// IEEE floating point.
pub const kDLFloat: u8 = 2;
/// An opaque handle, for tests.
pub const kDLOpaqueHandle: u8 = 3;
/// bfloat16.
pub const kDLBfloat: u8 = 4;
/// Complex number, real part first. `bits` counts both parts.
pub const kDLComplex: u8 = 5;
/// Boolean, a byte each.
pub const kDLBool: u8 = 6;
/// 8-bit float with 3 exponent and 4 mantissa bits.
pub const kDLFloat8_e3m4: u8 = 7;
/// 8-bit float with 4 exponent and 3 mantissa bits.
pub const kDLFloat8_e4m3: u8 = 8;
/// 8-bit float, 4 exponent and 3 mantissa bits, bias 11, finite, no negative zero.
pub const kDLFloat8_e4m3b11fnuz: u8 = 9;
/// 8-bit float, 4 exponent and 3 mantissa bits, finite.
pub const kDLFloat8_e4m3fn: u8 = 10;
/// 8-bit float, 4 exponent and 3 mantissa bits, finite, no negative zero.
pub const kDLFloat8_e4m3fnuz: u8 = 11;
/// 8-bit float with 5 exponent and 2 mantissa bits.
pub const kDLFloat8_e5m2: u8 = 12;
/// 8-bit float, 5 exponent and 2 mantissa bits, finite, no negative zero.
pub const kDLFloat8_e5m2fnuz: u8 = 13;
/// 8-bit exponent without sign or mantissa.
pub const kDLFloat8_e8m0fnu: u8 = 14;
/// 6-bit float with 2 exponent and 3 mantissa bits. A consumer refuses any `bits` but 6.
pub const kDLFloat6_e2m3fn: u8 = 15;
/// 6-bit float with 3 exponent and 2 mantissa bits. A consumer refuses any `bits` but 6.
pub const kDLFloat6_e3m2fn: u8 = 16;
/// 4-bit float with 2 exponent and 1 mantissa bits. A consumer refuses any `bits` but 4.
pub const kDLFloat4_e2m1fn: u8 = 17;

/// The type of an element, in the byte order of the machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DLDataType {
    /// The kind of number: one of `kDLInt`, `kDLUInt`, `kDLFloat`, ..., or a value that is not
    /// known here.
    pub code: u8,
    /// The width of the number in bits.
    pub bits: u8,
    /// How many numbers make an element: 1 unless the element is a vector.
    pub lanes: u16,
}

/// A strided tensor. It owns nothing; a managed tensor around it does.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The data: an address or, on some devices, a handle. Null if the tensor has no element.
    pub data: *mut c_void,
    /// The device that the data lies on.
    pub device: DLDevice,
    /// How many dimensions there are.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// `ndim` lengths. May be null if `ndim` is 0.
    pub shape: *mut i64,
    /// `ndim` strides, counted in elements. Before version 1.2, null meant compact row-major order.
    /// Since then null is only allowed if `ndim` is 0.
    pub strides: *mut i64,
    /// How many bytes after `data` the first element is.
    pub byte_offset: u64,
}

/// A tensor with the function that gives it back, as it was before version 1.0.
///
/// Who allocates, who owns: the producer allocates the structure, shape and strides included. The
/// consumer that takes the pointer calls [`deleter`](Self::deleter) once, on any thread, when it no
/// longer needs the data. The deleter frees the structure itself too.
///
/// Released: there is no such state, because the deleter frees the structure. Unlike an Arrow
/// struct, a tensor is never copied to another place.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// For the producer's own use.
    pub manager_ctx: *mut c_void,
    /// Gives everything back. Null if there is nothing to do.
    pub deleter: Option<unsafe extern "C" fn(tensor: *mut DLManagedTensor)>,
}

/// A tensor with its version, its flags, and the function that gives it back.
///
/// Who allocates, who owns, released: as with [`DLManagedTensor`].
///
/// The fields up to `flags` keep their place in every major version, so that a consumer that does
/// not know the version can still call [`deleter`](Self::deleter).
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version that the producer wrote. It has to be checked before `dl_tensor` is looked at.
    pub version: DLPackVersion,
    /// For the producer's own use.
    pub manager_ctx: *mut c_void,
    /// Gives everything back. Null if there is nothing to do.
    pub deleter: Option<unsafe extern "C" fn(tensor: *mut DLManagedTensorVersioned)>,
    /// `DLPACK_FLAG_BITMASK_*`, combined.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// Allocates a tensor like `prototype`, in which only type, dimensions, shape and device count.
/// Returns 0, or -1 after a call of `set_error` with `error_ctx`, a kind and a text. Does not need
/// Python.
pub type DLPackManagedTensorAllocator = Option<
    unsafe extern "C" fn(
        prototype: *mut DLTensor,
        out: *mut *mut DLManagedTensorVersioned,
        error_ctx: *mut c_void,
        set_error: Option<
            unsafe extern "C" fn(
                error_ctx: *mut c_void,
                kind: *const c_char,
                message: *const c_char,
            ),
        >,
    ) -> c_int,
>;

/// Exports a Python object as a tensor that the caller owns. Waits for nothing. Returns 0, or -1
/// with a Python exception set.
pub type DLPackManagedTensorFromPyObjectNoSync = Option<
    unsafe extern "C" fn(py_object: *mut c_void, out: *mut *mut DLManagedTensorVersioned) -> c_int,
>;

/// Describes a Python object as a tensor that the object still owns. Waits for nothing. Returns 0,
/// or -1 with a Python exception set.
pub type DLPackDLTensorFromPyObjectNoSync =
    Option<unsafe extern "C" fn(py_object: *mut c_void, out: *mut DLTensor) -> c_int>;

/// Tells which stream the library works on now; null for the CPU. Returns 0, or -1 with a Python
/// exception set.
pub type DLPackCurrentWorkStream = Option<
    unsafe extern "C" fn(
        device_type: DLDeviceType,
        device_id: i32,
        out_current_stream: *mut *mut c_void,
    ) -> c_int,
>;

/// Makes a Python object from a tensor, and takes it over. Waits for nothing. Returns 0, or -1 with
/// a Python exception set.
pub type DLPackManagedTensorToPyObjectNoSync = Option<
    unsafe extern "C" fn(
        tensor: *mut DLManagedTensorVersioned,
        out_py_object: *mut *mut c_void,
    ) -> c_int,
>;

/// The part of a function table that keeps its place in every major version.
#[repr(C)]
#[derive(Debug)]
pub struct DLPackExchangeAPIHeader {
    /// The version of the table. It has to be checked before anything behind the header is looked
    /// at.
    pub version: DLPackVersion,
    /// The table of an older major version, or null.
    pub prev_api: *mut DLPackExchangeAPIHeader,
}

/// A library's table of functions, for exchange without a Python call for each tensor.
///
/// Who allocates, who owns: the library that offers it, for as long as the process lives. The table
/// is never released. A Python type carries a pointer to it as `__dlpack_c_exchange_api__`, a
/// capsule named `dlpack_exchange_api`.
///
/// The specification forbids null for all functions but `dltensor_from_py_object_no_sync`. Shipped
/// tables have null for others too.
#[repr(C)]
#[derive(Debug)]
pub struct DLPackExchangeAPI {
    /// The version, and the pointer to older tables.
    pub header: DLPackExchangeAPIHeader,
    /// Allocates a tensor.
    pub managed_tensor_allocator: DLPackManagedTensorAllocator,
    /// Exports a Python object.
    pub managed_tensor_from_py_object_no_sync: DLPackManagedTensorFromPyObjectNoSync,
    /// Makes a Python object.
    pub managed_tensor_to_py_object_no_sync: DLPackManagedTensorToPyObjectNoSync,
    /// Describes a Python object without owning it. Null where the library cannot.
    pub dltensor_from_py_object_no_sync: DLPackDLTensorFromPyObjectNoSync,
    /// Tells which stream the library works on.
    pub current_work_stream: DLPackCurrentWorkStream,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};

    assert!(size_of::<DLPackVersion>() == 8 && align_of::<DLPackVersion>() == 4);
    assert!(offset_of!(DLPackVersion, major) == 0);
    assert!(offset_of!(DLPackVersion, minor) == 4);

    assert!(size_of::<DLDevice>() == 8 && align_of::<DLDevice>() == 4);
    assert!(offset_of!(DLDevice, device_type) == 0);
    assert!(offset_of!(DLDevice, device_id) == 4);

    assert!(size_of::<DLDataType>() == 4 && align_of::<DLDataType>() == 2);
    assert!(offset_of!(DLDataType, code) == 0);
    assert!(offset_of!(DLDataType, bits) == 1);
    assert!(offset_of!(DLDataType, lanes) == 2);

    assert!(size_of::<DLTensor>() == 48 && align_of::<DLTensor>() == 8);
    assert!(offset_of!(DLTensor, data) == 0);
    assert!(offset_of!(DLTensor, device) == 8);
    assert!(offset_of!(DLTensor, ndim) == 16);
    assert!(offset_of!(DLTensor, dtype) == 20);
    assert!(offset_of!(DLTensor, shape) == 24);
    assert!(offset_of!(DLTensor, strides) == 32);
    assert!(offset_of!(DLTensor, byte_offset) == 40);

    assert!(size_of::<DLManagedTensor>() == 64 && align_of::<DLManagedTensor>() == 8);
    assert!(offset_of!(DLManagedTensor, dl_tensor) == 0);
    assert!(offset_of!(DLManagedTensor, manager_ctx) == 48);
    assert!(offset_of!(DLManagedTensor, deleter) == 56);

    assert!(size_of::<DLManagedTensorVersioned>() == 80);
    assert!(align_of::<DLManagedTensorVersioned>() == 8);
    assert!(offset_of!(DLManagedTensorVersioned, version) == 0);
    assert!(offset_of!(DLManagedTensorVersioned, manager_ctx) == 8);
    assert!(offset_of!(DLManagedTensorVersioned, deleter) == 16);
    assert!(offset_of!(DLManagedTensorVersioned, flags) == 24);
    assert!(offset_of!(DLManagedTensorVersioned, dl_tensor) == 32);

    assert!(size_of::<DLPackExchangeAPIHeader>() == 16);
    assert!(align_of::<DLPackExchangeAPIHeader>() == 8);
    assert!(offset_of!(DLPackExchangeAPIHeader, version) == 0);
    assert!(offset_of!(DLPackExchangeAPIHeader, prev_api) == 8);

    assert!(size_of::<DLPackExchangeAPI>() == 56 && align_of::<DLPackExchangeAPI>() == 8);
    assert!(offset_of!(DLPackExchangeAPI, header) == 0);
    assert!(offset_of!(DLPackExchangeAPI, managed_tensor_allocator) == 16);
    assert!(offset_of!(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync) == 24);
    assert!(offset_of!(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync) == 32);
    assert!(offset_of!(DLPackExchangeAPI, dltensor_from_py_object_no_sync) == 40);
    assert!(offset_of!(DLPackExchangeAPI, current_work_stream) == 48);
};
