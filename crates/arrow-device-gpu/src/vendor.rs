//! What a vendor calls things.

use arrow_device::DeviceType;
use arrow_device::driver::LibraryUse;

use crate::{FunctionNames, Kind};

/// The names, numbers and types of device that are a vendor's own.
#[derive(Debug)]
pub struct Vendor {
    /// The runtime's name, for people.
    pub name: &'static str,
    /// The runtime's name, for comparing queues.
    pub runtime: &'static str,
    /// Device memory.
    pub device: DeviceType,
    /// Pinned memory.
    pub host: DeviceType,
    /// Managed memory, where Arrow has a type for it.
    pub managed: Option<DeviceType>,
    /// What to do where the library is missing or too old.
    pub install: &'static str,
    /// The number of the attribute that managed memory can be used by host and device at the same
    /// time.
    pub concurrent_managed_access: i32,
    /// The number of the attribute that there is managed memory.
    pub managed_memory: i32,
    /// Whether the attributes of an address tell the whole range that it lies in. Where not,
    /// `mem_get_address_range` is the way to ask, and has to be there.
    pub ranges_are_attributes: bool,
    /// An attribute of devices, and its value on those where a list of copies is not given to the
    /// driver in one call unless somebody asks for that.
    pub batches_break_on: Option<(i32, i32)>,
    /// The environment variable that names another library to load.
    pub library_variable: &'static str,
    /// The environment variable that has [`Options`](crate::Options).
    pub options_variable: &'static str,
    /// The libraries to look for; the first that there is will do.
    pub libraries: &'static [&'static str],
    /// The names of the functions that both vendors have.
    pub functions: FunctionNames,
    /// The handle of the stream that every blocking stream of the device is ordered with, the
    /// default streams of threads among them.
    pub legacy_default_stream: usize,
    /// The handle of the default stream of the calling thread.
    pub per_thread_default_stream: usize,
    /// Which process uses the library.
    pub library_use: LibraryUse,
}

impl Vendor {
    /// The type of device of a kind of memory.
    pub fn device_type(&self, kind: Kind) -> Option<DeviceType> {
        match kind {
            Kind::Device => Some(self.device),
            Kind::Host => Some(self.host),
            Kind::Managed => self.managed,
        }
    }

    /// The kind of memory of a type of device; `None` for another vendor's.
    pub fn kind(&self, device_type: DeviceType) -> Option<Kind> {
        [Kind::Device, Kind::Host, Kind::Managed]
            .into_iter()
            .find(|kind| self.device_type(*kind) == Some(device_type))
    }
}
