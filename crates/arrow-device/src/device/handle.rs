//! [`Device`]: a driver, shared.

use std::fmt;
use std::sync::Arc;

use super::driver::{Driver, Properties, Raw};
use super::{Memory, Queue, host, registry};
use crate::{DeviceId, Result};

/// An opened device.
///
/// Cheap to clone. Queues, events and memory keep their device open, so it is closed after the last of them.
///
/// ```
/// use arrow_device::Device;
///
/// let device = Device::host();
/// let queue = device.open_queue()?;
/// let memory = device.allocate(4096)?;
/// assert_eq!(memory.len(), 4096);
/// queue.synchronize()?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(Arc<dyn Driver>);

impl Device {
    /// The device of a driver. From now on [`Device::find`] finds it by its id, as long as it is open.
    pub fn new(driver: impl Driver) -> Self {
        let driver: Arc<dyn Driver> = Arc::new(driver);
        registry::add(&driver);
        Self(driver)
    }

    /// The host: plain memory that every thread reads and writes. Always there.
    pub fn host() -> Self {
        host::device()
    }

    /// An open device of this process by its id. Of several with the same id, the one opened last.
    ///
    /// The number of the host does not matter; [`Device::host`] is found for all of them.
    pub fn find(id: DeviceId) -> Option<Self> {
        registry::find(id)
    }

    /// Which device this is.
    pub fn id(&self) -> DeviceId {
        self.0.id()
    }

    /// What it is like.
    pub fn properties(&self) -> &Properties {
        self.0.properties()
    }

    /// Opens a queue on it.
    pub fn open_queue(&self) -> Result<Queue> {
        let raw = self.0.open_queue()?;
        Ok(Queue::owned(self.clone(), raw))
    }

    /// A queue that somebody else opened on this device and will close.
    ///
    /// # Safety
    /// `raw` is a queue of this device's runtime, as its driver's documentation says, and stays open as long as any clone of
    /// the result, any event recorded on it, and any data used on it.
    pub unsafe fn adopt_queue(&self, raw: Raw<Queue>) -> Queue {
        Queue::adopted(self.clone(), raw)
    }

    /// Allocates memory on it.
    ///
    /// When there is none left, this releases what was waiting for its last use and tries once more. For memory that is used
    /// on one queue only, [`Queue::allocate`] may be faster.
    pub fn allocate(&self, len: u64) -> Result<Memory> {
        Memory::allocate(self, len, None)
    }

    /// The driver beneath.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.0
    }

    pub(super) fn from_driver(driver: Arc<dyn Driver>) -> Self {
        Self(driver)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} {:?})", self.id(), self.properties().name)
    }
}
