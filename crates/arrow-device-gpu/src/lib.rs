//! What `arrow-device-cuda` and `arrow-device-rocm` have in common.
//!
//! The driver interfaces of CUDA and HIP have the same shape: devices with ordinals, streams, events, device, pinned and
//! managed memory. [`GpuDriver`] is written once over that shape. What differs is behind [`Api`], which each of the two
//! crates implements: where the functions are found, how a device is made current, and what constants are called.
//!
//! Nobody else needs this crate; it changes together with the two.

mod api;
mod diagnosis;
mod driver;
mod error;
mod library;
mod memory;
mod process;

pub use api::{Api, Batch, Code, Functions, Handle, Place, Vendor};
pub use diagnosis::{Diagnosis, Listed, diagnose, list};
pub use driver::GpuDriver;
pub use error::error;
pub use library::{Found, find};

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
