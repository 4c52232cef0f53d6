//! What `arrow-device-cuda` and `arrow-device-rocm` have in common.
//!
//! The driver interfaces of CUDA and HIP have the same shape: devices with ordinals, streams,
//! events, device, pinned and managed memory. [`GpuDriver`] is written once over that shape. What
//! differs is behind [`Api`], which each of the two crates implements: what the functions are
//! called, how a device is made current, and what constants are called.
//!
//! Nobody else needs this crate; it changes together with the two.

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
mod vendor;

pub use api::{Api, text};
pub use code::{Code, ok};
pub use copy_list::CopyList;
pub use diagnosis::{Diagnosis, Listed, diagnose, list};
pub use driver::GpuDriver;
pub use error::error;
pub use functions::{
    CopyAttributes, FunctionNames, Functions, Handle, HostFunction, MemoryLocation, PoolAccess,
};
pub use library::{Found, Loaded, ReadyDevice, load};
pub use options::{Options, Pool};
pub use pool::PoolProperties;
pub use vendor::Vendor;

/// What memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The device's own memory.
    #[default]
    Device,
    /// Pinned memory of the host, which the device reaches and the host reads in place.
    Host,
    /// Managed memory, which moves to whoever uses it.
    Managed,
}
