//! Share Arrow data that lives on a device between any two runtimes in a process, without copying it.

mod device_id;
mod error;
mod place;
#[cfg_attr(not(test), expect(dead_code, reason = "the C struct's import and export are its users"))]
mod schema;

pub use device_id::{DeviceId, DeviceType};
pub use error::{Error, ErrorKind, Result, Vendor};
pub use place::{Place, Step};
pub use schema::{
    BufferKind, DataType, Extension, Field, IntervalUnit, Layout, Metadata, MetadataPairs, Text,
    TimeUnit, UnionMode,
};

/// The C structs themselves, as other languages see them.
pub use arrow_device_abi as abi;
