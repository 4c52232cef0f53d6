//! [`Queue`]: an ordered lane of work.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::driver::{Driver, PlaceOwner, Raw, Region, Route, Waiting, Watched, WatchedPlace};
use super::event::has_not_passed;
use super::granular::{self, GranularCopy, Slack};
use super::numbered_list::NumberedEntry;
use super::{Allocator, ClaimedMemory, Device, Event, KeepAlive, Memory, Owner};
use crate::device::deferred::{self, QueueTimeline, QueueUse};
use crate::trace::told_while;
use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

/// An ordered lane of work on a device: a CUDA stream, an OpenCL command queue, the host's own
/// program order.
///
/// Cloning increments a reference count. The queue is closed with the last clone, unless it was
/// adopted. Work that was submitted before still finishes.
#[derive(Clone)]
pub struct Queue(Arc<QueueInner>);

struct QueueInner {
    device: Device,
    raw: Raw<Queue>,
    owned: bool,
    /// Whether the driver is told to whom places are told for this queue.
    is_watched: bool,
    timeline: Arc<QueueTimeline>,
    /// Keeps a queue open that somebody else opened.
    owner: Option<Box<dyn KeepAlive>>,
}

impl Queue {
    pub(super) fn owned(device: Device, raw: Raw<Queue>) -> Self {
        Self::new(device, raw, true, None)
    }

    pub(super) fn adopted(
        device: Device,
        raw: Raw<Queue>,
        owner: Option<Box<dyn KeepAlive>>,
    ) -> Self {
        Self::new(device, raw, false, owner)
    }

    /// The queue of this timeline, which is never closed.
    pub(super) fn always_open(
        device: Device,
        raw: Raw<Queue>,
        timeline: Arc<QueueTimeline>,
    ) -> Self {
        let is_watched = device.properties().watches;
        let (owned, owner) = (false, None);
        Self(Arc::new(QueueInner { device, raw, owned, is_watched, timeline, owner }))
    }

    fn new(
        device: Device,
        raw: Raw<Queue>,
        owned: bool,
        owner: Option<Box<dyn KeepAlive>>,
    ) -> Self {
        let timeline = deferred::timeline_on(&device);
        let is_watched = device.properties().watches;
        Self(Arc::new(QueueInner { device, raw, owned, is_watched, timeline, owner }))
    }

    /// The queue of the host, where work is done as it is submitted.
    pub fn host() -> Self {
        super::host::queue()
    }

    /// The device that the queue is on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The runtime's handle, for submitting work of one's own. Valid as long as this queue.
    pub fn raw(&self) -> Raw<Queue> {
        self.0.raw
    }

    /// Whether both are one queue of the runtime. Work on one is then in order with work on the
    /// other. Handles alone do not tell: the default stream of each CUDA device is null.
    pub fn is_same(&self, other: &Self) -> bool {
        let (device, another) = (self.device(), other.device());
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.raw == other.0.raw
                && device.id().id == another.id().id
                && device.driver().runtime() == another.driver().runtime())
    }

    /// Whether the driver is told of places that are told for this queue.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_watched
    }

    /// Where the driver watches, tells it that somebody was told this place for the queue, or that
    /// nobody uses the place on the queue any more.
    pub(crate) fn tell(
        &self,
        what: fn(Raw<Self>, PlaceOwner) -> Watched,
        owner: PlaceOwner,
        memory: Raw<Memory>,
        len: u64,
    ) {
        if self.is_watched() {
            self.driver().watch(what(self.raw(), owner), &[WatchedPlace { memory, len }]);
        }
    }

    /// Records an event behind everything submitted so far.
    pub fn record(&self) -> Result<Event> {
        self.prepare_event()?.record().map_err(|(error, _)| error)
    }

    /// Makes this queue wait for the event: nothing submitted from now on starts before the event
    /// has passed.
    ///
    /// Where neither this queue nor its runtime can wait for the event, the host waits here.
    pub fn wait(&self, event: &Event) -> Result<()> {
        if self.waits_by_itself(event)? { Ok(()) } else { event.synchronize() }
    }

    /// Makes this queue wait for the event, if the queue can. Where the host would have to wait,
    /// does nothing and returns false.
    pub(crate) fn waits_by_itself(&self, event: &Event) -> Result<bool> {
        // In a child of `fork`, an event of the parent is an error of the driver.
        let is_ours = event.runtime() == self.driver().runtime() && event.is_of_this_process();
        if !is_ours {
            return Ok(false);
        }
        // DRV-4: what is submitted later on such a device comes after the event.
        if self.is_ordered_behind(event) {
            return Ok(true);
        }
        // SAFETY: both handles are alive in their owners, and of one runtime.
        let waiting = unsafe { self.driver().wait(self.0.raw, event.raw()) }?;
        Ok(waiting == Waiting::Queued)
    }

    /// Whether the event stands for work of this queue, which is the only one of its device.
    fn is_ordered_behind(&self, event: &Event) -> bool {
        let device = self.device();
        device.is_in_queue_order() && event.device().id() == device.id() && event.is_of_its_device()
    }

    /// Waits on the host until everything submitted so far has finished.
    pub fn synchronize(&self) -> Result<()> {
        told_while!("wait", device = %self.0.device.id());
        let point = self.0.timeline.highest_point();
        // SAFETY: the handle is alive in its owner.
        unsafe { self.driver().synchronize(self.0.raw) }?;
        self.0.timeline.pass(point);
        Ok(())
    }

    /// Whether everything submitted so far has finished. Never waits. Some devices say no for a
    /// moment longer than is true.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the handle is alive in its owner.
        unsafe { self.driver().is_idle(self.0.raw) }
    }

    /// Allocates memory for work on this queue, perhaps in the order of the queue. Another queue
    /// that is given the place ([`Memory::spot`], [`Memory::write`]) waits for this one first.
    pub fn allocate(&self, len: u64) -> Result<Memory> {
        Memory::allocate(&self.0.device, len, Some(self))
    }

    /// [`allocate`](Self::allocate), with an allocator for this one request.
    pub(crate) fn allocate_by(
        &self,
        len: u64,
        allocator: Option<&dyn Allocator>,
    ) -> Result<Memory> {
        match allocator {
            Some(_) => Memory::allocate_by(&self.0.device, len, Some(self), allocator),
            None => self.allocate(len),
        }
    }

    /// [`allocate`](Self::allocate), without a wait for memory that is held back.
    pub(crate) fn allocate_at_once(
        &self,
        len: u64,
        allocator: Option<&dyn Allocator>,
    ) -> Result<Memory> {
        let own = self.device().allocator().map(|allocator| &**allocator);
        Memory::allocate_at_once(&self.0.device, len, Some(self), allocator.or(own))
    }

    /// Keeps something alive until everything submitted so far has finished: memory, or what a
    /// callback refers to.
    ///
    /// A later call into this crate drops it, on the thread of that call: see
    /// [`deferred`](crate::deferred).
    pub fn keep_until_done(&self, what: impl Send + 'static) {
        let what = Owner::on(self.0.device.id(), what);
        deferred::defer(what, vec![QueueUse::until_now(self)], true);
    }

    /// Submits copies as one piece of work.
    ///
    /// Any bytes can be copied on any device. Where a device only copies [whole units], or only
    /// [between two allocations], and the regions ask for more, this waits for the queue. Bytes
    /// that the device cannot copy pass through host memory or through fresh memory of the device.
    ///
    /// [whole units]: crate::driver::Properties::copy_unit
    /// [between two allocations]: crate::driver::Properties::distinct_copies
    ///
    /// # Safety
    /// Each region lies inside memory that may be read and written so by work on this queue, and
    /// that stays allocated until this queue has passed the copies; nobody else writes to a unit
    /// that a destination has a part of. A source in host memory holds its bytes already: work of
    /// this queue that writes there was waited for, too (UNS-21).
    pub unsafe fn copy(&self, route: Route<'_>, regions: &[Region]) -> Result<()> {
        // SAFETY: UNS-21, as the caller promises.
        unsafe { self.copy_leaving(Slack::Kept, route, regions) }
    }

    /// [`copy`](Self::copy) into memory in which each destination begins at a unit, and the bytes
    /// behind a destination up to the next unit belong to nobody.
    ///
    /// # Safety
    /// UNS-21, and what is said of the memory.
    pub(crate) unsafe fn copy_into_fresh(
        &self,
        route: Route<'_>,
        regions: &[Region],
    ) -> Result<()> {
        // SAFETY: UNS-21, and what the caller promises of slack.
        unsafe { self.copy_leaving(Slack::Nobodys, route, regions) }
    }

    /// [`copy_into_fresh`](Self::copy_into_fresh), without a wait. An error where the device only
    /// copies whole units, or only between two allocations, and the regions ask for more.
    ///
    /// # Safety
    /// UNS-21, and what is said of the memory.
    pub(crate) unsafe fn copy_units_into_fresh(
        &self,
        route: Route<'_>,
        regions: &[Region],
    ) -> Result<()> {
        if granular::takes_anything(self.device().properties(), &route) {
            // SAFETY: UNS-21, as the caller promises.
            return unsafe { self.submit_copies(route, regions) };
        }
        // SAFETY: UNS-21, and what the caller promises of slack.
        unsafe { GranularCopy::new(self, Slack::Nobodys).submit_as_is(route, regions) }
    }

    /// # Safety
    /// UNS-21, and what `slack` says is so.
    unsafe fn copy_leaving(
        &self,
        slack: Slack,
        route: Route<'_>,
        regions: &[Region],
    ) -> Result<()> {
        if granular::takes_anything(self.device().properties(), &route) {
            // SAFETY: UNS-21, as the caller promises.
            return unsafe { self.submit_copies(route, regions) };
        }
        // SAFETY: UNS-21, and what the caller promises of slack.
        unsafe { GranularCopy::new(self, slack).submit(route, regions) }
    }

    /// An error where copies on this queue would reach past the end of memory on that device: the
    /// queue's device copies larger [units](crate::driver::Properties::copy_unit) than the memory
    /// consists of. The host's memory has any number of bytes. `holder` tells the device that has
    /// the memory.
    pub(crate) fn require_units(
        &self,
        memory: DeviceId,
        holder: impl FnOnce() -> Option<Device>,
    ) -> Result<()> {
        let unit = self.device().properties().copy_unit;
        if unit == 1 || memory == self.device().id() {
            return Ok(());
        }
        let theirs = match memory.device_type {
            DeviceType::CPU => None,
            _ => holder(),
        };
        if theirs.is_some_and(|device| device.properties().copy_unit >= unit) {
            return Ok(());
        }
        let message = format!(
            "the queue's device copies units of {unit} bytes, and the memory has no such units; name a queue of the memory's device"
        );
        Err(Error::new(ErrorKind::NotReachable, message).on_device(memory))
    }

    /// Gives copies to the driver.
    ///
    /// # Safety
    /// UNS-21, and what the device's properties say of regions.
    pub(super) unsafe fn submit_copies(&self, route: Route<'_>, regions: &[Region]) -> Result<()> {
        if regions.is_empty() {
            return Ok(());
        }
        // SAFETY: this queue's handle is alive; the rest is UNS-21 and what the properties say, as
        // the caller promises.
        unsafe { self.driver().copy(self.0.raw, route, regions) }
    }

    /// Whether work on this queue may touch memory on that device.
    pub fn reaches(&self, memory: DeviceId) -> Result<()> {
        self.driver().reaches(memory)
    }

    /// Whether work on this queue may touch memory on that device. Where the device is another one,
    /// or its id may stand for several runtimes, the drivers are asked about the memory itself:
    /// `memory` tells a part of it, if there is any.
    ///
    /// # Safety
    /// What `memory` tells is a `buffers[i]` of an array that claims to be on that device, or what
    /// may become one, and is alive.
    pub(crate) unsafe fn reaches_memory(
        &self,
        device: DeviceId,
        memory: impl FnOnce() -> Option<ClaimedMemory>,
    ) -> Result<()> {
        self.reaches(device)?;
        let is_told_by_id = device.device_type == DeviceType::CPU
            || (device == self.device().id() && !Device::ids_are_ambiguous());
        let claimed = if is_told_by_id { None } else { memory() };
        // SAFETY: the memory is as the caller promises.
        if claimed.is_none_or(|claimed| unsafe { self.device().holds_on(device, claimed) }) {
            return Ok(());
        }
        let message = "the memory is of another runtime, or none that is open by this id says that it has it; copy the data first";
        Err(Error::new(ErrorKind::NotReachable, message).on_device(device))
    }

    /// The queue that stands for this one on any thread: once it has passed what is submitted to it
    /// from now on, everything is over that was submitted to this queue before. That is the default
    /// queue of the device, where this handle stands for another queue on each thread, and
    /// otherwise this queue itself.
    pub(crate) fn on_any_thread(&self) -> Self {
        match self.driver().properties().default_queues {
            Some(queues) if queues.of_thread == Some(self.raw()) => {
                self.device().default_queue().unwrap_or_else(|| self.clone())
            }
            _ => self.clone(),
        }
    }

    /// Whether this is the host's queue, whose work is done when the submitting call returns.
    pub(crate) fn is_the_hosts(&self) -> bool {
        super::host::is_host(self.device())
    }

    /// A number that no other queue of this process has, ever.
    pub(crate) fn number(&self) -> u64 {
        self.0.timeline.number()
    }

    /// The timeline of the queue: the order in which it passes uses.
    pub(crate) fn timeline(&self) -> &Arc<QueueTimeline> {
        &self.0.timeline
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        self.0.device.driver()
    }

    /// Makes this queue wait for an event that another party shows.
    ///
    /// # Safety
    /// `sync_event` is that of an array that is alive and lies on a device that this queue reaches.
    pub(crate) unsafe fn wait_for_foreign(&self, sync_event: NonNull<c_void>) -> Result<()> {
        // SAFETY: `sync_event` is that of an array that is alive and lies on a device that this
        // queue reaches (UNS-5), as the caller promises.
        let Some(event) = unsafe { self.host_waits_for(sync_event) }? else { return Ok(()) };
        // SAFETY: the event lives as long as the array (specification: the event is "allocated and
        // maintained by the producer" and freed by the release callback), which the caller keeps
        // alive (UNS-5).
        let passed = unsafe { self.driver().wait_on_host(event, None) }?;
        if passed { Ok(()) } else { Err(has_not_passed(self.device())) }
    }

    /// Makes this queue wait for an event that another party shows, if the queue can. Where the
    /// host would have to wait, does nothing and says whether the event has passed.
    ///
    /// # Safety
    /// `sync_event` is that of an array that is alive and lies on a device that this queue reaches.
    pub(crate) unsafe fn is_behind_foreign(&self, sync_event: NonNull<c_void>) -> Result<bool> {
        // SAFETY: `sync_event` is that of an array that is alive and lies on a device that this
        // queue reaches (UNS-5), as the caller promises.
        let Some(event) = unsafe { self.host_waits_for(sync_event) }? else { return Ok(true) };
        // SAFETY: the event lives as long as the array (specification: the event is "allocated and
        // maintained by the producer" and freed by the release callback), which the caller keeps
        // alive (UNS-5).
        unsafe { self.driver().is_complete(event) }
    }

    /// Makes this queue wait for an event that another party shows. Returns the event where the
    /// host has to wait for it instead.
    ///
    /// # Safety
    /// `sync_event` is that of an array that is alive and lies on a device that this queue reaches.
    #[inline(always)]
    unsafe fn host_waits_for(&self, sync_event: NonNull<c_void>) -> Result<Option<Raw<Event>>> {
        // SAFETY: the caller promises that the pointer is that of a live array, and the producer
        // promises that it is what the convention of the device's type says ("a void* which can be
        // coerced into a pointer to whatever the device appropriate type is").
        let event = unsafe { self.driver().read_sync_event(sync_event) }?;
        // SAFETY: the queue is alive in its owner, the event as long as the array (specification:
        // the event is "allocated and maintained by the producer" and freed by the release
        // callback).
        let waiting = unsafe { self.driver().wait(self.0.raw, event) }?;
        Ok((waiting == Waiting::HostMustWait).then_some(event))
    }

    pub(crate) fn prepare_event(&self) -> Result<PreparedEvent> {
        let raw = self.driver().make_event()?;
        Ok(PreparedEvent { queue: self.clone(), raw, recorded: false })
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: `raw` came from `open_queue` of this driver, `Queue::owned` took it over, and
            // this is the last clone.
            unsafe { self.device.driver().close_queue(self.raw) }
        }
    }
}

impl NumberedEntry for Queue {
    fn number(&self) -> u64 {
        Queue::number(self)
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({} {:?})", self.0.device.id(), self.0.raw)
    }
}

/// An event that was made and is not recorded yet.
pub(crate) struct PreparedEvent {
    queue: Queue,
    raw: Raw<Event>,
    recorded: bool,
}

impl PreparedEvent {
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Records the event. On failure the event is destroyed, and the queue is returned with the
    /// error.
    pub(crate) fn record(mut self) -> Result<Event, (Error, Queue)> {
        let QueueInner { device, raw, timeline, owner, .. } = &*self.queue.0;
        let (point, recorded) = timeline.record(|| {
            // SAFETY: the queue is alive in its owner; the event was made by this driver and is not
            // recorded yet.
            unsafe { device.driver().record(*raw, self.raw) }
        });
        let raw = recorded.map_err(|error| {
            if error.kind() == ErrorKind::Panicked {
                // The driver may have replaced this event by another one, and destroyed it.
                self.recorded = true;
                deferred::count_abandoned();
            }
            (error, self.queue.clone())
        })?;
        self.recorded = true;
        // An adopted queue stays open as long as any event recorded on it (UNS-20).
        let kept = owner.is_some().then(|| self.queue.clone());
        Ok(Event::owned(device.clone(), raw, timeline.clone(), point, kept))
    }
}

impl Drop for PreparedEvent {
    fn drop(&mut self) {
        if !self.recorded {
            // SAFETY: `make_event` gave it, it is not recorded, and nobody else has it.
            unsafe { self.queue.driver().destroy_event(self.raw) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_the_same_however_it_was_come_by() {
        // SAFETY: the host's queue has no object.
        let adopted = unsafe { Device::host().adopt_queue(Raw::NULL) };
        assert!(adopted.is_same(&Queue::host()) && adopted.is_same(&adopted.clone()));
        let handle = std::ptr::without_provenance_mut::<c_void>(8);
        // SAFETY: nothing is submitted to it, and the host's driver looks at no handle.
        let another = unsafe { Device::host().adopt_queue(Raw::from_ptr(handle)) };
        assert!(!adopted.is_same(&another));
    }

    #[test]
    fn what_keeps_a_queue_open_goes_with_its_last_clone() {
        let owner = Arc::new(());
        // SAFETY: the host's queue has no object.
        let queue = unsafe { Device::host().adopt_queue_of(Raw::NULL, owner.clone()) };
        let clone = queue.clone();
        drop(queue);
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
