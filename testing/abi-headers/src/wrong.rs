//! Wrong declarations of `ArrowDeviceArray` and its device type, as found in hand-written copies.
//! The comparison with the headers must refuse each. This file is also compiled alone, so it uses
//! nothing from elsewhere.

use core::ffi::c_void;

/// An eight-bit device type: 257 becomes 1.
pub type NarrowDeviceType = i8;

/// The value of another constant.
pub const WRONG_DEVICE_CUDA: i32 = 3;

/// The device's type before its number.
#[repr(C)]
#[derive(Debug)]
pub struct ShuffledDeviceArray {
    /// In place of the `ArrowArray`.
    pub array: [u64; 10],
    /// Should be the second.
    pub device_type: i32,
    /// Should be the first.
    pub device_id: i64,
    /// In its place.
    pub sync_event: *mut c_void,
    /// In its place.
    pub reserved: [i64; 3],
}

/// Without the reserved words: a consumer's structure would be too small for what a producer
/// writes.
#[repr(C)]
#[derive(Debug)]
pub struct ShortDeviceArray {
    /// In place of the `ArrowArray`.
    pub array: [u64; 10],
    /// In its place.
    pub device_id: i64,
    /// In its place.
    pub device_type: i32,
    /// In its place.
    pub sync_event: *mut c_void,
}

/// With two reserved words in place of three.
#[repr(C)]
#[derive(Debug)]
pub struct StingyDeviceArray {
    /// In place of the `ArrowArray`.
    pub array: [u64; 10],
    /// In its place.
    pub device_id: i64,
    /// In its place.
    pub device_type: i32,
    /// In its place.
    pub sync_event: *mut c_void,
    /// One word short.
    pub reserved: [i64; 2],
}
