//! The common part of `arrow-device-cuda` and `arrow-device-rocm`.
//!
//! The driver interfaces of CUDA and HIP have the same shape: devices with ordinals, streams,
//! events, device, pinned and managed memory. [`GpuDriver`] is written once over that shape. The
//! differences are behind [`Api`], which each of the two crates implements: the names of functions,
//! how a device is made current, and the values of constants.
//!
//! Only these two crates need this crate. It changes together with them.

mod api;
mod code;
mod copies;
mod copy_list;
mod diagnosis;
mod driver;
mod error;
mod functions;
mod library;
mod memory;
mod notices;
mod options;
mod peer;
mod pool;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod sharing;
mod vendor;

pub use api::{Api, text};
pub use code::{Code, ok};
pub use copy_list::CopyList;
pub use diagnosis::{Diagnosis, Listed, diagnose, list};
pub use driver::GpuDriver;
pub use error::error;
pub use functions::{
    AllocationProperties, CopyAttributes, FunctionNames, Functions, Handle, HostFunction, Mapping,
    MappingNames, MemoryLocation, PoolAccess,
};
pub use library::{Found, Loaded, ReadyDevice, load};
pub use options::{Options, Pool};
pub use pool::PoolProperties;
pub use vendor::Vendor;

/// The kind of memory of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The device's own memory.
    #[default]
    Device,
    /// Pinned memory of the host, which the device reaches and the host reads in place.
    Host,
    /// Managed memory, which moves to the device or the host when it is used there.
    Managed,
}
