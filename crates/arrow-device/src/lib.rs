//! Share Arrow data that lives on a device between any two runtimes in a process, without copying it.

mod device;
mod device_id;
mod error;
mod pending;
mod place;
mod sync;

pub use device::{Buffer, BufferView, Device, Event, Extent, KeepAlive, Location, Memory, Queue, driver};
pub use device_id::{DeviceId, DeviceType};
pub use error::{Error, ErrorKind, Result, Vendor};
pub use pending::{Reaper, drain, leaked, pending, reclaim};
pub use place::{Place, Step};

/// The C structs themselves, as other languages see them.
pub use arrow_device_abi as abi;
