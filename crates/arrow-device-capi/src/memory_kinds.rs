//! The kinds of memory that a device can be opened with.

pub const ARDEV_MEMORY_AUTOMATIC: i32 = 0;
pub const ARDEV_MEMORY_SVM: i32 = 1;
pub const ARDEV_MEMORY_HOST_VISIBLE: i32 = 2;
pub const ARDEV_MEMORY_DEVICE_ONLY: i32 = 3;
pub const ARDEV_MEMORY_USM_HOST: i32 = 4;
pub const ARDEV_MEMORY_USM_SHARED: i32 = 5;
