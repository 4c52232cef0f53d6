//! The structs, fields, types and constants of `arrow-device-abi` are those of the C headers; wrong
//! ones are noticed.
//!
//! The build script has generated one function for each comparison. A comparison that fails sets a
//! flag and prints what differs. The type of each field is compared by the C compiler, while the
//! build script runs.

// The generated code has other habits than this project.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod right {
    use std::sync::atomic::Ordering::Relaxed;

    use arrow_device_abi::dlpack::*;
    use arrow_device_abi::*;

    include!(concat!(env!("OUT_DIR"), "/right.rs"));

    // Requirement: ABI-1, ABI-3, ABI-7, DLP-1
    #[test]
    fn rust_and_c_declare_the_same() {
        run_all();
        assert!(!FAILED.load(Relaxed));
        let count = NTESTS.load(Relaxed);
        assert_eq!(count, COMPARISONS);
    }

    /// Size and alignment of 17 structs and 6 aliases, of which one is an integer with a sign;
    /// offset, size and address of 78 fields; 58 constants.
    const COMPARISONS: usize = 2 * (17 + 6) + 1 + 3 * 78 + 58;
}

mod wrong {
    use std::sync::atomic::Ordering::Relaxed;

    use abi_headers::wrong::*;

    include!(concat!(env!("OUT_DIR"), "/wrong.rs"));

    // Requirement: ABI-1, ABI-2, ABI-3
    #[test]
    fn wrong_declarations_are_noticed() {
        assert!(fails(ctest_field_size_offset_ShuffledDeviceArray_device_id));
        assert!(fails(ctest_field_size_offset_ShuffledDeviceArray_device_type));
        assert!(!fails(ctest_field_size_offset_ShuffledDeviceArray_reserved));
        assert!(fails(ctest_size_align_ShortDeviceArray));
        assert!(!fails(ctest_field_size_offset_ShortDeviceArray_sync_event));
        assert!(fails(ctest_size_align_StingyDeviceArray));
        assert!(fails(ctest_field_size_offset_StingyDeviceArray_reserved));
        assert!(fails(ctest_size_align_NarrowDeviceType));
        assert!(fails(ctest_const_WRONG_DEVICE_CUDA));
    }

    fn fails(comparison: fn()) -> bool {
        comparison();
        FAILED.swap(false, Relaxed)
    }
}
