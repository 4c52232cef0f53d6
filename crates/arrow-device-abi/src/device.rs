//! The C device data interface: an array, the device it lies on, and when it is ready.
//!
//! The declarations are those of `abi.h` under `ARROW_C_DEVICE_DATA_INTERFACE`.

use core::ffi::c_void;
use core::ptr::null_mut;

use crate::ArrowArray;

/// The kind of device that memory belongs to: one of the `ARROW_DEVICE_*` constants, or a value
/// that is not known here.
///
/// The type is an integer and not an `enum`: any value may arrive, and is carried as it is. The
/// values are DLPack's ([`DLDeviceType`](crate::dlpack::DLDeviceType)), so each converts into the
/// other by its number.
pub type ArrowDeviceType = i32;

/// Host memory; the same as using [`ArrowArray`] directly.
pub const ARROW_DEVICE_CPU: ArrowDeviceType = 1;
/// Memory of a CUDA GPU.
pub const ARROW_DEVICE_CUDA: ArrowDeviceType = 2;
/// Host memory pinned by CUDA (`cudaMallocHost`).
pub const ARROW_DEVICE_CUDA_HOST: ArrowDeviceType = 3;
/// Memory of an OpenCL device.
pub const ARROW_DEVICE_OPENCL: ArrowDeviceType = 4;
/// A Vulkan buffer.
pub const ARROW_DEVICE_VULKAN: ArrowDeviceType = 7;
/// Memory of an Apple GPU, used through Metal.
pub const ARROW_DEVICE_METAL: ArrowDeviceType = 8;
/// A buffer of a Verilog simulator.
pub const ARROW_DEVICE_VPI: ArrowDeviceType = 9;
/// Memory of an AMD GPU, used through ROCm.
pub const ARROW_DEVICE_ROCM: ArrowDeviceType = 10;
/// Host memory pinned by ROCm (`hipMallocHost`).
pub const ARROW_DEVICE_ROCM_HOST: ArrowDeviceType = 11;
/// A device outside this list. Its meaning is agreed between the producer and the consumer.
pub const ARROW_DEVICE_EXT_DEV: ArrowDeviceType = 12;
/// CUDA managed (unified) memory (`cudaMallocManaged`).
pub const ARROW_DEVICE_CUDA_MANAGED: ArrowDeviceType = 13;
/// Unified shared memory of a oneAPI device. Only the oneAPI runtime can say which device, and
/// which kind of memory.
pub const ARROW_DEVICE_ONEAPI: ArrowDeviceType = 14;
/// A WebGPU buffer.
pub const ARROW_DEVICE_WEBGPU: ArrowDeviceType = 15;
/// Memory shared with a Qualcomm Hexagon DSP.
pub const ARROW_DEVICE_HEXAGON: ArrowDeviceType = 16;

/// Microsoft MAIA. DLPack has had this value since 1.0. The Arrow specification promises to follow
/// DLPack's list but does not name it yet, so neither does `abi.h`.
pub const ARROW_DEVICE_MAIA: ArrowDeviceType = 17;
/// AWS Trainium (`kDLTrn`). As [`ARROW_DEVICE_MAIA`], it is DLPack's and not yet named by Arrow.
pub const ARROW_DEVICE_TRAINIUM: ArrowDeviceType = 18;

/// An array whose buffers live on a device.
///
/// Who allocates: the consumer allocates this structure (zeroed, see [`empty`](Self::empty)) and
/// the producer fills it. Everything it points to, the event included, is the producer's, and lives
/// until `array.release`.
///
/// Who owns: whoever holds the structure whose `array.release` is not null. There is no second
/// release callback: the embedded array's frees the buffers, the event and all that belongs to
/// them. To move the structure, copy the bytes and set the source's `array.release` to null without
/// calling it.
///
/// Released: `array.release` is null. All other fields are then meaningless.
///
/// Only the targets of `array.buffers[i]`, and of the buffers of children and dictionaries, are on
/// the device. The structs, the tables of pointers and the event handle are host memory.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowDeviceArray {
    /// The array. Its buffers are device pointers or handles, and may be read only after the event.
    pub array: ArrowArray,
    /// Which device of this type. -1 is recommended where the type has no such number, as with CPU.
    pub device_id: i64,
    /// The type of device that can access the buffers.
    pub device_type: ArrowDeviceType,
    /// A *pointer to* the device's event handle (`cudaEvent_t*`, `hipEvent_t*`, `cl_event*`, ...),
    /// or null if the data is ready now. A consumer waits for it before it touches the buffers.
    pub sync_event: *mut c_void,
    /// Zero, written by every producer. Ignored by consumers: shipped producers leave garbage here.
    pub reserved: [i64; 3],
}

impl ArrowDeviceArray {
    /// A released structure with every field zero, for a producer to fill. Zero is not a device
    /// type.
    pub const fn empty() -> Self {
        Self {
            array: ArrowArray::empty(),
            device_id: 0,
            device_type: 0,
            sync_event: null_mut(),
            reserved: [0; 3],
        }
    }

    /// Whether the embedded array's `release` is null: nothing is owned here, and no other field
    /// means anything.
    pub const fn is_released(&self) -> bool {
        self.array.is_released()
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};

    assert!(size_of::<ArrowDeviceType>() == 4);
    assert!(size_of::<ArrowDeviceArray>() == 128);
    assert!(align_of::<ArrowDeviceArray>() == 8);
    assert!(offset_of!(ArrowDeviceArray, array) == 0);
    assert!(offset_of!(ArrowDeviceArray, device_id) == 80);
    assert!(offset_of!(ArrowDeviceArray, device_type) == 88);
    assert!(offset_of!(ArrowDeviceArray, sync_event) == 96);
    assert!(offset_of!(ArrowDeviceArray, reserved) == 104);
};
