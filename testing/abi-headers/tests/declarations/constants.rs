//! The values of the constants, as numbers. (That Rust and C agree on them is in `layout.rs`.)

use arrow_device_abi::dlpack::*;
use arrow_device_abi::*;

/// The device types of the Arrow specification, each with its number there and DLPack's constant of
/// the same name.
const SPECIFIED: [(ArrowDeviceType, i32, DLDeviceType); 14] = [
    (ARROW_DEVICE_CPU, 1, kDLCPU),
    (ARROW_DEVICE_CUDA, 2, kDLCUDA),
    (ARROW_DEVICE_CUDA_HOST, 3, kDLCUDAHost),
    (ARROW_DEVICE_OPENCL, 4, kDLOpenCL),
    (ARROW_DEVICE_VULKAN, 7, kDLVulkan),
    (ARROW_DEVICE_METAL, 8, kDLMetal),
    (ARROW_DEVICE_VPI, 9, kDLVPI),
    (ARROW_DEVICE_ROCM, 10, kDLROCM),
    (ARROW_DEVICE_ROCM_HOST, 11, kDLROCMHost),
    (ARROW_DEVICE_EXT_DEV, 12, kDLExtDev),
    (ARROW_DEVICE_CUDA_MANAGED, 13, kDLCUDAManaged),
    (ARROW_DEVICE_ONEAPI, 14, kDLOneAPI),
    (ARROW_DEVICE_WEBGPU, 15, kDLWebGPU),
    (ARROW_DEVICE_HEXAGON, 16, kDLHexagon),
];

// Requirement: ABI-3
#[test]
fn device_types_have_the_specified_numbers_and_dlpacks() {
    for (arrow, number, dlpack) in SPECIFIED {
        assert_eq!(arrow, number);
        assert_eq!(dlpack, DLDeviceType(number));
    }
}

// Requirement: ABI-3
#[test]
fn dlpacks_later_device_types_are_carried_too() {
    assert_eq!((ARROW_DEVICE_MAIA, kDLMAIA), (17, DLDeviceType(17)));
    assert_eq!((ARROW_DEVICE_TRAINIUM, kDLTrn), (18, DLDeviceType(18)));
}

// Requirement: ABI-2
#[test]
fn a_device_type_is_an_int32_and_any_value_fits() {
    for value in [i32::MIN, -1, 0, 5, 6, 19, 257, 300, 4711, i32::MAX] {
        let array = ArrowDeviceArray { device_type: value, ..ArrowDeviceArray::empty() };
        let carried: i32 = array.device_type;
        assert_eq!(carried, value);
    }
}

#[test]
fn flags_have_the_specified_bits() {
    let flags: [i64; 3] =
        [ARROW_FLAG_DICTIONARY_ORDERED, ARROW_FLAG_NULLABLE, ARROW_FLAG_MAP_KEYS_SORTED];
    assert_eq!(flags, [1, 2, 4]);
}

// Requirement: DLP-1
#[test]
fn dlpack_type_codes_count_from_zero() {
    let codes = [
        kDLInt,
        kDLUInt,
        kDLFloat,
        kDLOpaqueHandle,
        kDLBfloat,
        kDLComplex,
        kDLBool,
        kDLFloat8_e3m4,
        kDLFloat8_e4m3,
        kDLFloat8_e4m3b11fnuz,
        kDLFloat8_e4m3fn,
        kDLFloat8_e4m3fnuz,
        kDLFloat8_e5m2,
        kDLFloat8_e5m2fnuz,
        kDLFloat8_e8m0fnu,
        kDLFloat6_e2m3fn,
        kDLFloat6_e3m2fn,
        kDLFloat4_e2m1fn,
    ];
    assert!(codes.into_iter().eq(0..18));
}

// Requirement: DLP-1
#[test]
fn dlpack_is_version_1_3_with_three_flags() {
    assert_eq!((DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION), (1, 3));
    let flags: [u64; 3] = [
        DLPACK_FLAG_BITMASK_READ_ONLY,
        DLPACK_FLAG_BITMASK_IS_COPIED,
        DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED,
    ];
    assert_eq!(flags, [1, 2, 4]);
}
