//! The C device stream interface: arrays of one type, on one type of device, pulled one after the
//! other.
//!
//! The declaration is that of `abi.h` under `ARROW_C_DEVICE_STREAM_INTERFACE`.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use crate::{ArrowDeviceArray, ArrowDeviceType, ArrowSchema};

/// A source of arrays of one type on one type of device.
///
/// Who allocates: the consumer allocates the structure (zeroed, see [`empty`](Self::empty)) and the
/// producer fills it.
///
/// Who owns: whoever holds the structure whose `release` is not null. It is moved as an array is.
/// Schemas and arrays that `get_schema` and `get_next` hand out are released on their own and may
/// outlive the stream.
///
/// Released: `release` is null, and no callback may be called. One thread at a time calls the
/// callbacks.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowDeviceArrayStream {
    /// The device type of every array. Their `device_id`s may differ.
    pub device_type: ArrowDeviceType,
    /// Writes the type of all arrays to `out`. Returns 0, or an `errno` value.
    pub get_schema: Option<
        unsafe extern "C" fn(stream: *mut ArrowDeviceArrayStream, out: *mut ArrowSchema) -> c_int,
    >,
    /// Writes the next array to `out`, or a released one at the end. Returns 0, or an `errno`
    /// value.
    pub get_next: Option<
        unsafe extern "C" fn(
            stream: *mut ArrowDeviceArrayStream,
            out: *mut ArrowDeviceArray,
        ) -> c_int,
    >,
    /// A text for the error that the last call returned, or null. Valid until the next call on the
    /// stream.
    pub get_last_error:
        Option<unsafe extern "C" fn(stream: *mut ArrowDeviceArrayStream) -> *const c_char>,
    /// Frees the stream's own resources and sets this field to null. Null means released.
    pub release: Option<unsafe extern "C" fn(stream: *mut ArrowDeviceArrayStream)>,
    /// For the producer's own use.
    pub private_data: *mut c_void,
}

impl ArrowDeviceArrayStream {
    /// A released structure with every field zero, for a producer to fill. Zero is not a device
    /// type.
    pub const fn empty() -> Self {
        Self {
            device_type: 0,
            get_schema: None,
            get_next: None,
            get_last_error: None,
            release: None,
            private_data: null_mut(),
        }
    }

    /// Whether `release` is null: nothing is owned here, and no other field means anything.
    pub const fn is_released(&self) -> bool {
        self.release.is_none()
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};

    assert!(size_of::<ArrowDeviceArrayStream>() == 48);
    assert!(align_of::<ArrowDeviceArrayStream>() == 8);
    assert!(offset_of!(ArrowDeviceArrayStream, device_type) == 0);
    assert!(offset_of!(ArrowDeviceArrayStream, get_schema) == 8);
    assert!(offset_of!(ArrowDeviceArrayStream, get_next) == 16);
    assert!(offset_of!(ArrowDeviceArrayStream, get_last_error) == 24);
    assert!(offset_of!(ArrowDeviceArrayStream, release) == 32);
    assert!(offset_of!(ArrowDeviceArrayStream, private_data) == 40);
};
