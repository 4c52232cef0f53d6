//! The functions of a driver's library, and what a vendor does in its own way.

use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::fmt;

use arrow_device::{DeviceType, ErrorKind};

use crate::{Found, Kind};

/// A stream, an event, a context, or an address.
pub type Handle = *mut c_void;
/// What every function returns: 0 for success. The two vendors use the same numbers.
pub type Code = i32;

/// The functions that both vendors have in the same form, under other names.
///
/// Those that are optional are missing in older drivers; everything works without them.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are those of the functions, without prefix")]
pub struct Functions {
    pub init: unsafe extern "system" fn(u32) -> Code,
    pub driver_version: unsafe extern "system" fn(*mut i32) -> Code,
    pub device_count: unsafe extern "system" fn(*mut i32) -> Code,
    pub device_name: unsafe extern "system" fn(*mut c_char, i32, i32) -> Code,
    pub device_attribute: unsafe extern "system" fn(*mut i32, i32, i32) -> Code,
    pub device_total_memory: unsafe extern "system" fn(*mut usize, i32) -> Code,
    pub device_can_access_peer: Option<unsafe extern "system" fn(*mut i32, i32, i32) -> Code>,

    pub mem_get_info: unsafe extern "system" fn(*mut usize, *mut usize) -> Code,
    pub mem_alloc: unsafe extern "system" fn(*mut Handle, usize) -> Code,
    pub mem_free: unsafe extern "system" fn(Handle) -> Code,
    pub mem_host_alloc: unsafe extern "system" fn(*mut Handle, usize, u32) -> Code,
    pub mem_free_host: unsafe extern "system" fn(Handle) -> Code,
    pub mem_alloc_managed: Option<unsafe extern "system" fn(*mut Handle, usize, u32) -> Code>,
    pub mem_alloc_async: Option<unsafe extern "system" fn(*mut Handle, usize, Handle) -> Code>,
    pub pointer_attribute: unsafe extern "system" fn(*mut c_void, i32, Handle) -> Code,
    pub mem_get_address_range:
        Option<unsafe extern "system" fn(*mut Handle, *mut usize, Handle) -> Code>,

    pub memcpy_host_to_device: unsafe extern "system" fn(Handle, Handle, usize, Handle) -> Code,
    pub memcpy_device_to_host: unsafe extern "system" fn(Handle, Handle, usize, Handle) -> Code,
    pub memcpy_device_to_device: unsafe extern "system" fn(Handle, Handle, usize, Handle) -> Code,

    pub stream_create: unsafe extern "system" fn(*mut Handle, u32) -> Code,
    pub stream_destroy: unsafe extern "system" fn(Handle) -> Code,
    pub stream_query: unsafe extern "system" fn(Handle) -> Code,
    pub stream_synchronize: unsafe extern "system" fn(Handle) -> Code,
    pub stream_wait_event: unsafe extern "system" fn(Handle, Handle, u32) -> Code,
    pub stream_is_capturing: Option<unsafe extern "system" fn(Handle, *mut i32) -> Code>,
    pub exchange_capture_mode: Option<unsafe extern "system" fn(*mut i32) -> Code>,

    pub event_create: unsafe extern "system" fn(*mut Handle, u32) -> Code,
    pub event_destroy: unsafe extern "system" fn(Handle) -> Code,
    pub event_record: unsafe extern "system" fn(Handle, Handle) -> Code,
    pub event_query: unsafe extern "system" fn(Handle) -> Code,
    pub event_synchronize: unsafe extern "system" fn(Handle) -> Code,
}

/// A device as calls name it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its number in this process.
    pub ordinal: i32,
    /// Its handle, which some functions take in place of the number.
    pub device: i32,
    /// Its primary context; null where the vendor has none to name.
    pub context: Handle,
}

// SAFETY: the vendors' handles may be used on any thread, says the first rule of both manuals: contexts are usable from all
// threads, one at a time per call.
unsafe impl Send for Place {}
// SAFETY: as for `Send`; it is three numbers that do not change.
unsafe impl Sync for Place {}

/// What a vendor calls things.
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
    /// The number of the attribute that managed memory can be used by host and device at the same time.
    pub concurrent_managed_access: i32,
    /// The number of the attribute that there is managed memory.
    pub managed_memory: i32,
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

/// A list of copies for one call.
#[derive(Debug)]
pub struct Batch {
    /// Where each goes.
    pub to: Vec<Handle>,
    /// Where each comes from.
    pub from: Vec<Handle>,
    /// How long each is.
    pub len: Vec<usize>,
}

/// A driver's library: its functions, and what the vendor does in its own way.
///
/// Functions that work on a device are called between [`enter`](Self::enter) and [`leave`](Self::leave).
pub trait Api: fmt::Debug + Send + Sync + 'static {
    /// What [`enter`](Self::enter) found and [`leave`](Self::leave) puts back.
    type Saved;

    /// The functions.
    fn functions(&self) -> &Functions;

    /// The names.
    fn vendor(&self) -> &'static Vendor;

    /// Where the library was found, its version in words, and the optional functions that it lacks.
    fn library(&self) -> (&Found, Result<String, Code>);

    /// Gets a device ready: where there are contexts, retains the primary one, once in the life of the process.
    fn place(&self, ordinal: i32) -> Result<Place, Code>;

    /// Makes a device the current one of this thread.
    fn enter(&self, place: &Place) -> Result<Self::Saved, Code>;

    /// Gives the thread back what was current before.
    fn leave(&self, saved: Self::Saved);

    /// Submits a copy between any two kinds of memory.
    ///
    /// # Safety
    /// Both sides have this many bytes and stay until the stream has passed, which is alive.
    unsafe fn copy(&self, to: Handle, from: Handle, len: usize, stream: Handle) -> Code;

    /// Submits a copy from the memory of another device; `None` where there is no function for it.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy); the two sides lie on these devices.
    unsafe fn copy_from_peer(
        &self,
        to: (Handle, &Place),
        from: (Handle, &Place),
        len: usize,
        stream: Handle,
    ) -> Option<Code>;

    /// Submits a list of copies in one call; `None` where there is no function for it.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy), for each of them.
    unsafe fn copy_batch(&self, batch: &mut Batch, stream: Handle) -> Option<Code>;

    /// Lets the current device reach the memory of another one, those pools included that it allocates from in the order of a
    /// stream. `None` where there is no function for it.
    fn enable_peer(&self, own: &Place, peer: &Place) -> Option<Code>;

    /// What kind of memory lies at an address; `None` where the driver does not know the address.
    ///
    /// # Safety
    /// None but that a device is current.
    unsafe fn kind_at(&self, address: Handle) -> Result<Option<Kind>, Code>;

    /// The vendor's name of a code.
    fn error_name(&self, code: Code) -> Option<Cow<'static, str>>;

    /// What a code means, where it does not mean the same for both vendors.
    fn meaning(&self, code: Code) -> Option<(ErrorKind, &'static str)> {
        let _ = code;
        None
    }

    /// Called after a call failed: takes the error out of where the vendor keeps the last one.
    fn forget_error(&self) {}
}
