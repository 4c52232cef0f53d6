//! Share Arrow data that lives on a device between any two runtimes in a process, without copying it.

mod array;
pub mod convention;
mod device;
mod device_id;
mod error;
mod exchange;
mod pending;
mod place;
mod schema;
mod sync;
mod values;

pub use array::{
    Array, ArrayBuilder, Batch, BufferPlace, HostArray, HostBytes, NodeView, Ready, View,
};
pub use device::{
    Buffer, BufferView, Device, Event, Extent, KeepAlive, Location, Memory, Plain, Queue, driver,
};
pub use device_id::{DeviceId, DeviceType};
pub use error::{Error, ErrorKind, Result, Vendor};
pub use pending::{Reaper, drain, leaked, pending, reclaim};
pub use place::{Place, Step};
pub use schema::{
    BufferKind, DataType, Extension, Field, IntervalUnit, Layout, Metadata, MetadataPairs, Schema,
    Text, TimeUnit, UnionMode,
};

pub use values::{Bools, Bytes, Decimal, Lists, Native, Texts, Value, Values};

/// The C structs themselves, as other languages see them.
pub use arrow_device_abi as abi;
