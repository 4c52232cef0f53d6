//! [`Device`]: a shared driver.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::account::{self, Account, Held};
use super::allocator::Allocator;
use super::deferred::{QueueTimeline, timeline_on};
use super::driver::{Addressing, Driver, Properties, Raw, Readiness};
use super::guarded::Guarded;
use super::staging::Staging;
use super::{ClaimedMemory, Memory, Moment, Owner, Queue, host, registry};
use crate::pool::per_fork::PerFork;
use crate::process::MadeIn;
use crate::{DeviceId, DeviceType, Result, convention};

/// An opened device.
///
/// Cloning increments a reference count. Queues, events and memory keep their device open. The
/// device is closed after the last of them.
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
pub struct Device {
    opened: Arc<OpenDevice>,
    allocator: Option<Arc<dyn Allocator>>,
}

/// The state that all handles of one opened device share.
pub(super) struct OpenDevice {
    /// Dropped before the driver, whose memory it may hold.
    staging: Staging,
    account: Account,
    made_in: MadeIn,
    /// The one timeline of the default queue, so that everything that waits for the queue waits
    /// together.
    default_timeline: PerFork<Mutex<Option<Arc<QueueTimeline>>>>,
    driver: Arc<dyn Driver>,
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        registry::remove(self);
    }
}

impl Device {
    /// Opens a device with its driver. From now on [`Device::find`] finds the device by its id, as
    /// long as it is open.
    ///
    /// The driver is called through a guard. In a child of `fork` the driver's operations are
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported). After the end of the process has
    /// begun they are [`ErrorKind::ShutDown`](crate::ErrorKind::ShutDown). In both cases nothing is
    /// given back. A panic of the driver is an [`ErrorKind::Panicked`](crate::ErrorKind::Panicked).
    /// What was not given back is counted by [`held_back`](crate::deferred::held_back).
    pub fn new(driver: impl Driver) -> Self {
        let device = Self::of(Arc::new(Guarded::new(driver)));
        if device.properties().watches {
            account::exchanges_are_looked_at();
        }
        registry::add(&device, &device.opened);
        device
    }

    /// Opens a device that [`Device::find`] does not find: one that has no memory, and of which
    /// nothing but its events is used ([`Event::adopt_of`](crate::Event::adopt_of)). Whatever its
    /// id is, no memory and no other device is taken to be of its runtime.
    ///
    /// The driver is called through the guard that [`new`](Self::new) describes.
    pub fn unlisted(driver: impl Driver) -> Self {
        Self::of(Arc::new(Guarded::new(driver)))
    }

    pub(super) fn of(driver: Arc<dyn Driver>) -> Self {
        let (staging, account) = (Staging::default(), Account::default());
        let (made_in, default_timeline) = (MadeIn::this(), PerFork::new());
        let opened = OpenDevice { staging, account, made_in, default_timeline, driver };
        Self::from_opened(Arc::new(opened))
    }

    pub(super) fn from_opened(opened: Arc<OpenDevice>) -> Self {
        Self { opened, allocator: None }
    }

    /// The host: plain memory that every thread reads and writes. The host is always open.
    pub fn host() -> Self {
        host::device()
    }

    /// Finds an open device of this process by its id. If several have the id, the result is the
    /// one that was opened last.
    ///
    /// The number in the id of the host does not matter: every number finds [`Device::host`].
    pub fn find(id: DeviceId) -> Option<Self> {
        registry::find(id)
    }

    /// Whether an id may stand for several runtimes in this process. Only memory tells then which
    /// runtime it is of.
    pub(crate) fn ids_are_ambiguous() -> bool {
        registry::is_ambiguous()
    }

    /// Whether this id has stood for several runtimes in this process.
    pub(crate) fn has_several_runtimes(id: DeviceId) -> bool {
        registry::is_ambiguous() && registry::has_several_runtimes(id)
    }

    /// Whether the device has one queue, in whose order its arrays are ready.
    pub(crate) fn is_in_queue_order(&self) -> bool {
        self.properties().readiness == Readiness::QueueOrder
    }

    /// Whether arrays of any device of this process may be ready in the order of its queue.
    #[inline(always)]
    pub(crate) fn any_is_in_queue_order() -> bool {
        registry::any_in_queue_order()
    }

    /// Whether memory on this device is named by addresses, to which a number can be added. The
    /// answer is no for devices that are not open and not known.
    ///
    /// Where the id has stood for several runtimes, `holder` is asked for the device that has the
    /// memory.
    #[inline]
    pub(crate) fn addressing_of(id: DeviceId, holder: impl FnOnce() -> Option<Self>) -> Addressing {
        if id.device_type == DeviceType::CPU {
            return Addressing::Address;
        }
        Self::addressing_of_opened(id, holder)
    }

    #[inline(never)]
    fn addressing_of_opened(id: DeviceId, holder: impl FnOnce() -> Option<Self>) -> Addressing {
        let found = Self::find(id);
        // Asked after `find`, which may have found a runtime that was opened just now.
        let device = if Self::has_several_runtimes(id) { holder() } else { found };
        match device {
            Some(device) => device.properties().addressing,
            None if has_addresses(id.device_type) => Addressing::Address,
            None => Addressing::Handle,
        }
    }

    /// The open device of this id that has this memory. `None` where several runtimes are open by
    /// the id and nothing tells which one has the memory.
    ///
    /// # Safety
    /// The memory is a `buffers[i]` of an array that claims to be on this device and is alive.
    pub(crate) unsafe fn find_holding(id: DeviceId, claimed: ClaimedMemory) -> Option<Self> {
        // SAFETY: the memory is a `buffers[i]` of an array that claims to be on this device and is
        // alive, as the caller promises.
        unsafe { registry::find_holding(id, claimed) }
    }

    /// Whether this memory is of the device's runtime, and certainly of no other runtime that is
    /// open by the device's id.
    ///
    /// # Safety
    /// The memory is a `buffers[i]` of an array that claims to be on this device and is alive.
    pub(crate) unsafe fn holds(&self, claimed: ClaimedMemory) -> bool {
        // SAFETY: the memory is a `buffers[i]` of an array that claims to be on this device and is
        // alive, as the caller promises.
        let holder = unsafe { registry::find_holding(self.id(), claimed) };
        holder.is_some_and(|holder| holder.driver().runtime() == self.driver().runtime())
    }

    /// Whether memory on a device that this one reaches by its id, such as a peer, is of this
    /// device's runtime. The id does not tell the runtime: two OpenCL contexts number the devices
    /// alike.
    ///
    /// # Safety
    /// The memory is a `buffers[i]` of an array that claims to be on that device and is alive.
    pub(crate) unsafe fn holds_on(&self, id: DeviceId, claimed: ClaimedMemory) -> bool {
        if id == self.id() {
            // SAFETY: the memory is a `buffers[i]` of an array that claims to be on this device and
            // is alive, as the caller promises.
            return unsafe { self.holds(claimed) };
        }
        // SAFETY: the memory is a `buffers[i]` of an array that claims to be on that device, which
        // this one reaches, and is alive, as the caller promises.
        let told = unsafe { self.driver().holds(claimed.memory) };
        // Another runtime may have a device with the id that this device reaches, now or later.
        registry::note_runtime(id, self.driver().runtime(), Moment::BEFORE_ALL);
        match told {
            Some(answer) => answer,
            None => {
                // SAFETY: the memory is a `buffers[i]` of an array that claims to be on that device
                // and is alive, as the caller promises.
                let holder = unsafe { registry::find_holding(id, claimed) };
                let is_ours = |holder: Self| holder.driver().runtime() == self.driver().runtime();
                let is_nobodys = || {
                    let runtime = self.driver().runtime();
                    registry::of_each_runtime(id).is_empty()
                        && (!registry::has_another_runtime(id, runtime)
                            || registry::is_open_since(self, claimed.came)
                                && !registry::was_another_open(id, runtime, claimed.came))
                };
                holder.map_or_else(is_nobodys, is_ours)
            }
        }
    }

    /// The common moment of several things that came to a device: the last one, if no device was
    /// opened or closed by the id between them, and unknown otherwise.
    pub(crate) fn common_moment(
        id: DeviceId,
        mut moments: impl Iterator<Item = Moment>,
    ) -> Option<Moment> {
        let first = moments.next()?;
        let common = moments.try_fold(first, |common, moment| match moment == common {
            true => Some(common),
            false => registry::is_undivided(id, [common, moment]).then(|| common.max(moment)),
        });
        Some(common.unwrap_or(Moment::UNKNOWN))
    }

    /// The open device of this id whose runtime the event of a producer is of. The producer's array
    /// came at that moment and has no memory. `None` where nothing tells.
    pub(crate) fn find_sending(id: DeviceId, came: Moment) -> Option<Self> {
        registry::find_sending(id, came)
    }

    /// Whether the event of a producer on that device is certainly of this device's runtime. The
    /// producer's array came at that moment and has no memory. The answer is yes in three cases:
    /// the device is this one; the types of both devices are of one vendor's runtime; or the
    /// runtime has opened that device and no other runtime has. Where the id has stood for several
    /// runtimes, the moment decides.
    pub(crate) fn has_events_of(&self, id: DeviceId, came: Moment) -> bool {
        let (own, runtime) = (self.id(), self.driver().runtime());
        let is_of_vendor = has_addresses(id.device_type)
            && convention::have_same_events(own.device_type, id.device_type);
        let is_open = || {
            let mut known = registry::of_each_runtime(id).into_iter();
            known.any(|(device, _)| device.driver().runtime() == runtime)
        };
        if Self::has_several_runtimes(id) {
            let is_ours =
                |device: Self| host::is_host(self) || device.driver().runtime() == runtime;
            return Self::find_sending(id, came).is_some_and(is_ours);
        }
        own == id
            || host::is_host(self)
            || is_of_vendor
            || (!registry::has_another_runtime(id, runtime) && is_open())
    }

    /// The id of the device.
    pub fn id(&self) -> DeviceId {
        self.driver().id()
    }

    /// What the device can do, as the driver says.
    pub fn properties(&self) -> &Properties {
        self.driver().properties()
    }

    /// Opens a queue on the device.
    pub fn open_queue(&self) -> Result<Queue> {
        let raw = self.driver().open_queue()?;
        Ok(Queue::owned(self.clone(), raw))
    }

    /// Adopts a queue that somebody else opened on this device and will close.
    ///
    /// # Safety
    /// `raw` is a queue of this device's runtime, as its driver's documentation says, and stays
    /// open as long as any clone of the result, any event recorded on it, and any data used on it
    /// (UNS-20).
    pub unsafe fn adopt_queue(&self, raw: Raw<Queue>) -> Queue {
        Queue::adopted(self.clone(), raw, None)
    }

    /// Adopts a queue that somebody else opened on this device, with an owner that keeps the queue
    /// open. The owner is dropped with the last clone of the result, possibly on another thread.
    ///
    /// # Safety
    /// `raw` is a queue of this device's runtime, as its driver's documentation says, and stays
    /// open until `owner` is dropped (UNS-20).
    pub unsafe fn adopt_queue_of(
        &self,
        raw: Raw<Queue>,
        owner: impl Send + Sync + 'static,
    ) -> Queue {
        let owner = Owner::on(self.id(), owner);
        Queue::adopted(self.clone(), raw, Some(Box::new(owner)))
    }

    /// The queue for work that names no queue, if the runtime has one: the legacy default stream of
    /// CUDA and HIP. It is open as long as the process (DRV-26).
    pub fn default_queue(&self) -> Option<Queue> {
        let queues = self.properties().default_queues?;
        let mut known = self.opened.default_timeline.lock(|known| known);
        let timeline = known.get_or_insert_with(|| timeline_on(self)).clone();
        drop(known);
        Some(Queue::always_open(self.clone(), queues.of_device, timeline))
    }

    /// Allocates memory on the device.
    ///
    /// Where no memory is left, this releases what was waiting for its last use, and tries again.
    /// For memory that is used on one queue only, [`Queue::allocate`] may be faster.
    pub fn allocate(&self, len: u64) -> Result<Memory> {
        Memory::allocate(self, len, None)
    }

    /// This device with another allocator, from which the result, the queues that it opens, and
    /// copies to these queues take their memory. This handle and other handles of the device keep
    /// their allocator.
    pub fn with_allocator(&self, allocator: impl Allocator) -> Self {
        let allocator = Arc::new(Owner::on(self.id(), allocator));
        Self { opened: self.opened.clone(), allocator: Some(allocator) }
    }

    /// How many bytes of the device this process holds at the moment.
    pub fn held(&self) -> Held {
        self.opened.account.held()
    }

    /// Starts to count the bytes of arrays that are imported from this device and exported on it,
    /// for [`held`](Self::held).
    ///
    /// After the first call, each import and export of the process looks up its device, which takes
    /// some tens of nanoseconds. Imports and exports of this device also walk over their nodes.
    /// Before the first call, the counts cost nothing. Lengths that only the device has, such as
    /// those of text, are not counted.
    pub fn count_exchanges(&self) {
        self.account().count_exchanges();
    }

    /// The driver of the device, behind its guard (see [`new`](Self::new)).
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.opened.driver
    }

    pub(super) fn allocator(&self) -> Option<&Arc<dyn Allocator>> {
        self.allocator.as_ref()
    }

    /// This device, with the driver's own memory.
    pub(super) fn plain(&self) -> Self {
        Self::from_opened(self.opened.clone())
    }

    /// Whether this is the host, or a device that this process opened itself, and not a parent of
    /// it.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.opened.made_in.is_this() || host::is_host(self)
    }

    /// Whether this is the host, or a device that this process opened, and the end of the process
    /// has not begun.
    pub(crate) fn goes_on(&self) -> bool {
        self.opened.made_in.goes_on() || host::is_host(self)
    }

    /// The process that opened the device.
    pub(crate) fn made_in(&self) -> MadeIn {
        self.opened.made_in
    }

    pub(crate) fn account(&self) -> &Account {
        &self.opened.account
    }

    pub(crate) fn staging(&self) -> &Staging {
        &self.opened.staging
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} {:?})", self.id(), self.properties().name)
    }
}

/// Whether all memory of this type of device is named by addresses.
fn has_addresses(device_type: DeviceType) -> bool {
    matches!(
        device_type,
        DeviceType::CPU
            | DeviceType::CUDA
            | DeviceType::CUDA_HOST
            | DeviceType::CUDA_MANAGED
            | DeviceType::ROCM
            | DeviceType::ROCM_HOST
            | DeviceType::ONEAPI
            | DeviceType::VPI
            | DeviceType::HEXAGON
    )
}
