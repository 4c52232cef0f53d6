//! The `errno` values for C callers, on every target.
//!
//! The values are those of the target's C library. WebAssembly without an operating system has no C
//! library. There the values are those of WASI, which Emscripten uses as well.

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub(crate) use libc::{
    E2BIG, EAGAIN, ECANCELED, EFAULT, EINVAL, EIO, ENODEV, ENOENT, ENOMEM, ENOSYS, ENOTCONN, ENXIO,
    EPROTO, ETIMEDOUT, EXDEV,
};

/// The value for work that has failed. The BSDs and WASI have no `ENODATA`, so `ENOMSG` is used
/// there.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple", windows))]
pub(crate) use libc::ENODATA as NO_DATA;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    windows,
    all(target_family = "wasm", target_os = "unknown")
)))]
pub(crate) use libc::ENOMSG as NO_DATA;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) use of_wasi::*;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod of_wasi {
    pub(crate) const E2BIG: i32 = 1;
    pub(crate) const EAGAIN: i32 = 6;
    pub(crate) const ECANCELED: i32 = 11;
    pub(crate) const EFAULT: i32 = 21;
    pub(crate) const EINVAL: i32 = 28;
    pub(crate) const EIO: i32 = 29;
    pub(crate) const ENODEV: i32 = 43;
    pub(crate) const ENOENT: i32 = 44;
    pub(crate) const ENOMEM: i32 = 48;
    pub(crate) const ENOSYS: i32 = 52;
    pub(crate) const ENOTCONN: i32 = 53;
    pub(crate) const ENXIO: i32 = 60;
    pub(crate) const EPROTO: i32 = 65;
    pub(crate) const ETIMEDOUT: i32 = 73;
    pub(crate) const EXDEV: i32 = 75;
    /// `ENOMSG`.
    pub(crate) const NO_DATA: i32 = 49;
}
