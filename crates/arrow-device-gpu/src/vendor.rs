//! The names and numbers of a vendor.

use arrow_device::DeviceType;
use arrow_device::driver::LibraryUse;

use crate::{FunctionNames, Kind, MappingNames};

/// The names, numbers and device types of a vendor.
#[derive(Debug)]
pub struct Vendor {
    /// The runtime's name, for people.
    pub name: &'static str,
    /// The runtime's name, for comparing queues.
    pub runtime: &'static str,
    /// The type of device memory.
    pub device: DeviceType,
    /// The type of pinned memory.
    pub host: DeviceType,
    /// The type of managed memory, where Arrow has one.
    pub managed: Option<DeviceType>,
    /// The advice to the user where the library is missing or too old.
    pub install: &'static str,
    /// The device attribute that says whether host and device may use managed memory at the same
    /// time.
    pub concurrent_managed_access: i32,
    /// The device attribute that says whether there is managed memory.
    pub managed_memory: i32,
    /// Whether the attributes of an address tell the range of its allocation. Where not,
    /// `mem_get_address_range` is required.
    pub ranges_are_attributes: bool,
    /// A device attribute and a value of it. On devices with that value, a list of copies is not
    /// submitted in one call unless the program asks for it.
    pub batches_break_on: Option<(i32, i32)>,
    /// The name of the way in which memory is shared with other processes.
    pub way: &'static str,
    /// The device attribute that says whether memory can be mapped by hand.
    pub mapping_by_hand: i32,
    /// The device attribute that says whether such memory has descriptors, where there is one.
    pub descriptors: Option<i32>,
    /// The environment variable that names another library to load.
    pub library_variable: &'static str,
    /// The environment variable that has the [`Options`](crate::Options).
    pub options_variable: &'static str,
    /// The names of the vendor's libraries. The first that is there is loaded.
    pub libraries: &'static [&'static str],
    /// The names of the functions that both vendors have.
    pub functions: FunctionNames,
    /// The names of the functions by which memory is mapped by hand.
    pub mapping: MappingNames,
    /// The handle of the stream that every blocking stream of the device is ordered with, including
    /// the default streams of threads.
    pub legacy_default_stream: usize,
    /// The handle of the default stream of the calling thread.
    pub per_thread_default_stream: usize,
    /// Knows in which process the library is used.
    pub library_use: LibraryUse,
}

impl Vendor {
    /// Returns the type of device for a kind of memory.
    pub fn device_type(&self, kind: Kind) -> Option<DeviceType> {
        match kind {
            Kind::Device => Some(self.device),
            Kind::Host => Some(self.host),
            Kind::Managed => self.managed,
        }
    }

    /// Returns the kind of memory of a type of device. `None` for a type of another vendor.
    pub fn kind(&self, device_type: DeviceType) -> Option<Kind> {
        [Kind::Device, Kind::Host, Kind::Managed]
            .into_iter()
            .find(|kind| self.device_type(*kind) == Some(device_type))
    }
}
