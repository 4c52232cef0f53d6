//! Return codes. CUDA and HIP have the same numbers for what both know, and other names.

use std::ffi::CStr;

/// What a call returns when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) i32);

/// The result of a call.
pub(crate) type Answer<T = ()> = Result<T, Code>;

impl Code {
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const DEINITIALIZED: Self = Self(4);
    pub(crate) const INVALID_DIRECTION: Self = Self(21);
    pub(crate) const NO_DEVICE: Self = Self(100);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const PEER_ACCESS_UNSUPPORTED: Self = Self(217);
    pub(crate) const OPERATING_SYSTEM: Self = Self(304);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const PEER_ACCESS_ALREADY_ENABLED: Self = Self(704);
    pub(crate) const CONTEXT_IS_DESTROYED: Self = Self(709);
    pub(crate) const NOT_PERMITTED: Self = Self(800);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const CAPTURE_UNSUPPORTED: Self = Self(900);
    pub(crate) const CAPTURE_INVALIDATED: Self = Self(901);
    pub(crate) const CAPTURE_UNMATCHED: Self = Self(903);
    pub(crate) const CAPTURE_UNJOINED: Self = Self(904);
    pub(crate) const CAPTURE_ISOLATION: Self = Self(905);
    pub(crate) const CAPTURE_IMPLICIT: Self = Self(906);
    pub(crate) const CAPTURED_EVENT: Self = Self(907);
    pub(crate) const CAPTURE_WRONG_THREAD: Self = Self(908);
    pub(crate) const UNKNOWN: Self = Self(999);
}

/// A code with its names in CUDA and in HIP, and what it says.
type Row = (i32, &'static CStr, &'static CStr, &'static CStr);

/// Text in our own words; the names are those of the vendors' headers. HIP has no name for what
/// only CUDA returns.
const ROWS: &[Row] = &[
    (0, c"CUDA_SUCCESS", c"hipSuccess", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"hipErrorInvalidValue", c"an argument is out of its range"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"hipErrorOutOfMemory", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"hipErrorNotInitialized", c"the driver is not initialised"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"hipErrorDeinitialized", c"the driver is shutting down"),
    (17, c"CUDA_ERROR_UNKNOWN", c"hipErrorInvalidDevicePointer", c"an address is none of a device"),
    (21, c"CUDA_ERROR_UNKNOWN", c"hipErrorInvalidMemcpyDirection", c"there is no such direction"),
    (34, c"CUDA_ERROR_STUB_LIBRARY", c"hipErrorUnknown", c"the library is a stub"),
    (35, c"CUDA_ERROR_UNKNOWN", c"hipErrorInsufficientDriver", c"the driver is too old"),
    (
        36,
        c"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
        c"hipErrorUnknown",
        c"the driver is too old for a call",
    ),
    (46, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"hipErrorUnknown", c"the device is busy or forbidden"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"hipErrorNoDevice", c"there is no device"),
    (
        101,
        c"CUDA_ERROR_INVALID_DEVICE",
        c"hipErrorInvalidDevice",
        c"there is no device of that number",
    ),
    (
        201,
        c"CUDA_ERROR_INVALID_CONTEXT",
        c"hipErrorInvalidContext",
        c"no such context, or none is current",
    ),
    (
        214,
        c"CUDA_ERROR_ECC_UNCORRECTABLE",
        c"hipErrorECCNotCorrectable",
        c"an uncorrectable memory error",
    ),
    (
        217,
        c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        c"hipErrorPeerAccessUnsupported",
        c"the devices have no way to each other",
    ),
    (
        304,
        c"CUDA_ERROR_OPERATING_SYSTEM",
        c"hipErrorOperatingSystem",
        c"a call of the system failed",
    ),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"hipErrorInvalidHandle", c"a handle names nothing"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"hipErrorNotFound", c"there is nothing of that name"),
    (600, c"CUDA_ERROR_NOT_READY", c"hipErrorNotReady", c"not finished yet"),
    (
        700,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"hipErrorIllegalAddress",
        c"work touched memory that is not there",
    ),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"hipErrorLaunchTimeOut", c"work took longer than it may"),
    (
        704,
        c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
        c"hipErrorPeerAccessAlreadyEnabled",
        c"the access was given before",
    ),
    (
        705,
        c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
        c"hipErrorPeerAccessNotEnabled",
        c"the access was not given",
    ),
    (
        709,
        c"CUDA_ERROR_CONTEXT_IS_DESTROYED",
        c"hipErrorContextIsDestroyed",
        c"the context was destroyed",
    ),
    (710, c"CUDA_ERROR_ASSERT", c"hipErrorAssert", c"an assertion of work that ran has failed"),
    (711, c"CUDA_ERROR_TOO_MANY_PEERS", c"hipErrorUnknown", c"no room for another peer"),
    (714, c"CUDA_ERROR_HARDWARE_STACK_ERROR", c"hipErrorUnknown", c"a stack of work overflowed"),
    (715, c"CUDA_ERROR_ILLEGAL_INSTRUCTION", c"hipErrorUnknown", c"work has no such instruction"),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"hipErrorUnknown", c"an address is not aligned"),
    (717, c"CUDA_ERROR_INVALID_ADDRESS_SPACE", c"hipErrorUnknown", c"memory of the wrong kind"),
    (718, c"CUDA_ERROR_INVALID_PC", c"hipErrorUnknown", c"work ran beyond its code"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"hipErrorLaunchFailure", c"work failed while it ran"),
    (800, c"CUDA_ERROR_NOT_PERMITTED", c"hipErrorUnknown", c"not allowed here"),
    (
        801,
        c"CUDA_ERROR_NOT_SUPPORTED",
        c"hipErrorNotSupported",
        c"this device or driver cannot do that",
    ),
    (802, c"CUDA_ERROR_SYSTEM_NOT_READY", c"hipErrorUnknown", c"the system is not ready"),
    (
        803,
        c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        c"hipErrorUnknown",
        c"the versions of the driver's parts differ",
    ),
    (
        804,
        c"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        c"hipErrorUnknown",
        c"no forward compatibility on this device",
    ),
    (805, c"CUDA_ERROR_MPS_CONNECTION_FAILED", c"hipErrorUnknown", c"no connection to MPS"),
    (807, c"CUDA_ERROR_MPS_SERVER_NOT_READY", c"hipErrorUnknown", c"MPS is not ready"),
    (810, c"CUDA_ERROR_MPS_CLIENT_TERMINATED", c"hipErrorUnknown", c"MPS has ended the client"),
    (
        900,
        c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"hipErrorStreamCaptureUnsupported",
        c"not allowed while a stream is captured",
    ),
    (
        901,
        c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"hipErrorStreamCaptureInvalidated",
        c"an earlier error has spoilt the capture",
    ),
    (
        902,
        c"CUDA_ERROR_STREAM_CAPTURE_MERGE",
        c"hipErrorStreamCaptureMerge",
        c"two captures would become one",
    ),
    (
        903,
        c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        c"hipErrorStreamCaptureUnmatched",
        c"the capture was not begun on this stream",
    ),
    (
        904,
        c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        c"hipErrorStreamCaptureUnjoined",
        c"a stream was left out of the capture's end",
    ),
    (
        905,
        c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        c"hipErrorStreamCaptureIsolation",
        c"a dependency on work outside of the capture",
    ),
    (
        906,
        c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        c"hipErrorStreamCaptureImplicit",
        c"the default stream would become part of a capture",
    ),
    (
        907,
        c"CUDA_ERROR_CAPTURED_EVENT",
        c"hipErrorCapturedEvent",
        c"the event was recorded in a capture",
    ),
    (
        908,
        c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        c"hipErrorStreamCaptureWrongThread",
        c"the capture belongs to another thread",
    ),
    (999, c"CUDA_ERROR_UNKNOWN", c"hipErrorUnknown", c"something else went wrong"),
];

fn row(code: i32) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.0 == code)
}

/// The name in CUDA, for codes that exist.
pub(crate) fn cuda_name(code: i32) -> Option<&'static CStr> {
    row(code).map(|row| row.1)
}

/// The name in HIP, for codes that exist.
pub(crate) fn hip_name(code: i32) -> Option<&'static CStr> {
    row(code).map(|row| row.2)
}

/// What it says, for codes that exist.
pub(crate) fn text(code: i32) -> Option<&'static CStr> {
    row(code).map(|row| row.3)
}
