//! When the data of an array may be used, and who waits: the host, or a queue.
//!
//! `Tree::order` puts a queue behind the data before anybody is told where the data is:
//!
//! 1. The queue has to reach the memory, and the device has to be one of this process.
//! 2. The queue has to wait for the events of the tree. Where only the order of another queue says
//!    when the data is ready, an event is recorded on that queue (`event_in_order`).
//! 3. The queue waits for each of these events, and is noted. Further views on one of the last 64
//!    noted queues take no further wait.
//!
//! What must stay true: an event of a producer lives until the release of the tree and no longer
//! (UNS-5). Where a queue waits for some of the events already and a later step fails, the tree is
//! kept until the queue has passed the waits.

use std::borrow::Cow;

use super::readiness::{Pending, ReadyWhen};
use super::tree::{Storage, Tree};
use super::{Array, View};
use crate::device::deferred::QueueUse;
use crate::device::driver::Driver;
use crate::device::has_not_passed;
use crate::{Device, DeviceType, Error, ErrorKind, Event, Queue, Result, convention, process};

/// How many queues a tree notes that wait for its data.
const MOST_WAITED: usize = 64;

/// When an array's data may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ready {
    /// The data may be used at once.
    Now,
    /// The data may be used after one event. (Work on the one queue of a device whose arrays are
    /// ready [in its order](crate::driver::Readiness::QueueOrder) need not wait for the event.
    /// Where data came without an event from a type of device that may have such a queue, and the
    /// device is not open, there may be such an event.)
    AfterEvent,
    /// The data may be used after this number of events: columns with different events were put
    /// together. [`Array::export_on`] joins the events.
    AfterEvents(usize),
}

/// What is known of the queue in whose order data is ready.
enum QueueOrder {
    /// Nothing but the events of the data says when it is ready.
    None,
    /// The order of this device's one queue says when the data is ready, and no event does.
    Of(Device),
    /// The data came without an event, and its device is not open. A device of its type may have
    /// one queue in whose order its data is ready.
    Unknown,
}

impl Array {
    /// When the data may be used. Asks no device.
    pub fn ready(&self) -> Ready {
        let in_order = self.tree.is_in_queue_order() || self.tree.has_unknown_order();
        match self.tree.ready.pending().len() + usize::from(in_order) {
            0 => Ready::Now,
            1 => Ready::AfterEvent,
            several => Ready::AfterEvents(several),
        }
    }

    /// Whether the data may be used by now. Asks the device where there is an event; never waits.
    ///
    /// # Errors
    /// Those of the driver. [`DeviceMissing`](ErrorKind::DeviceMissing): the device has to be asked
    /// and is not open in this process. The device also has to be asked where the data came without
    /// an event from a type of device whose arrays may be ready in the order of its queue: Metal,
    /// WebGPU and extensions.
    pub fn is_ready(&self) -> Result<bool> {
        for pending in &*self.tree.known_pending()? {
            let passed = match pending {
                Pending::Event(event) => event.is_complete(),
                Pending::Foreign(_) => self.with_foreign_event(pending, |driver, event| {
                    // SAFETY: `with_foreign_event` gives a live event of this driver's runtime.
                    unsafe { driver.is_complete(event) }
                }),
            }?;
            if !passed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits on the host until the data may be used.
    ///
    /// An array that came with an event of its own can only be waited for while its device is open
    /// in this process: see [`Device::new`]. So can an array that came without an event from a type
    /// of device whose arrays may be ready in the order of its queue: Metal, WebGPU and extensions.
    /// A program that has a queue uses [`on`](Self::on) instead, and does not wait at all.
    pub fn wait(&self) -> Result<()> {
        self.tree.known_pending()?.iter().try_for_each(|pending| match pending {
            Pending::Event(event) => event.synchronize(),
            Pending::Foreign(_) => self.with_foreign_event(pending, |driver, event| {
                // SAFETY: `with_foreign_event` gives a live event of this driver's runtime.
                let passed = unsafe { driver.wait_on_host(event, None) }?;
                if passed { Ok(()) } else { Err(has_not_passed(&self.open_device()?)) }
            }),
        })
    }

    fn with_foreign_event<T>(
        &self,
        pending: &Pending,
        ask: impl FnOnce(&dyn Driver, crate::device::driver::Raw<crate::Event>) -> Result<T>,
    ) -> Result<T> {
        let device = self.open_device()?;
        match pending {
            Pending::Event(event) => ask(&**device.driver(), event.raw()),
            Pending::Foreign(sync_event) => {
                // SAFETY: the `sync_event` of an array on this device that the tree keeps alive.
                let event = unsafe { device.driver().read_sync_event(*sync_event) }?;
                ask(&**device.driver(), event)
            }
        }
    }

    /// The open device that has the data. Where several runtimes are open by the id of the array's
    /// [device](Self::device), the memory tells which one it is.
    ///
    /// # Errors
    /// [`DeviceMissing`](ErrorKind::DeviceMissing): the device is not open in this process, or
    /// nothing tells which one has the data.
    pub fn open_device(&self) -> Result<Device> {
        self.tree.check_process()?;
        self.tree.open_device().ok_or_else(|| {
            let message = if Device::find(self.device()).is_some() {
                "several runtimes were or may have been open by this id, and nothing tells which one the array is of"
            } else {
                "this device is not open in this process; open it, or name a queue"
            };
            Error::new(ErrorKind::DeviceMissing, message).on_device(self.device())
        })
    }

    /// Orders a queue behind the data and tells where the buffers are.
    ///
    /// Costs one wait for each queue and array, however often it is asked (an array remembers the
    /// last 64 queues), and none where the data was ready from the start. The memory is kept until
    /// the queue has passed what is submitted before the view is dropped, whatever happens to the
    /// array.
    pub fn on(&self, queue: &Queue) -> Result<View> {
        View::new(self, queue)
    }
}

impl Tree {
    /// An error in a child of `fork`, for data on a device of the parent.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_of_the_parents_device() {
            return Err(process::of_the_parent().on_device(self.device));
        }
        Ok(())
    }

    /// Makes a queue wait until the data is ready, unless the queue waits already.
    pub(crate) fn order(&self, queue: &Queue) -> Result<()> {
        self.require_reach(queue)?;
        self.check_process()?;
        self.require_known_order(queue)?;
        let pending = self.pending_for(queue)?;
        if pending.is_empty()
            || self.records.lock(|records| &records.waited).contains(&queue.number())
        {
            return Ok(());
        }
        self.wait_for_all(queue, &pending)?;
        self.note_waiting(queue);
        Ok(())
    }

    /// [`order`](Self::order) without a wait on the host. Returns false where the host would have
    /// to wait for an event that has not passed. `seen_to` counts the events that the queue is
    /// behind already, from the first one on; the call adds to the count.
    pub(crate) fn is_ordered(&self, queue: &Queue, seen_to: &mut usize) -> Result<bool> {
        self.require_reach(queue)?;
        self.check_process()?;
        self.require_known_order(queue)?;
        let pending = self.pending_for(queue)?;
        if pending.is_empty()
            || self.records.lock(|records| &records.waited).contains(&queue.number())
        {
            return Ok(true);
        }
        let before = *seen_to;
        let mut ordered = Ok(true);
        while let (Ok(true), Some(next)) = (&ordered, pending.get(*seen_to)) {
            ordered = self.is_behind(queue, next);
            *seen_to += usize::from(matches!(ordered, Ok(true)));
        }
        // The queue may wait for some events already, so the tree is kept for it, whatever becomes
        // of the copy.
        if *seen_to > before {
            self.note_use(QueueUse::until_now(queue));
        }
        if let Ok(true) = ordered {
            self.note_waiting(queue);
        }
        ordered
    }

    /// Notes that this queue waits for the data. As long as the device is not open of a part that
    /// may be ready in the order of a queue, one more event may come.
    fn note_waiting(&self, queue: &Queue) {
        if self.has_unknown_order() {
            return;
        }
        let mut waited = self.records.lock(|records| &records.waited);
        if !waited.contains(&queue.number()) {
            // A queue that is forgotten waits once more.
            if waited.len() == MOST_WAITED {
                waited.remove(0);
            }
            waited.push(queue.number());
        }
    }

    /// Makes a queue wait for the event where the queue can. Where the host would have to wait,
    /// says whether the event has passed.
    fn is_behind(&self, queue: &Queue, pending: &Pending) -> Result<bool> {
        match pending {
            Pending::Event(event) => Ok(queue.waits_by_itself(event)? || event.is_complete()?),
            Pending::Foreign(_) if self.is_unknown_to(queue) => Err(self.unknown_event()),
            // SAFETY: the pointer is the `sync_event` of an array that `storage` keeps alive, and
            // `is_ordered` asked whether the queue reaches its device.
            Pending::Foreign(sync_event) => unsafe { queue.is_behind_foreign(*sync_event) },
        }
    }

    /// Whether nothing shows that the event of a producer is of this queue's runtime.
    fn is_unknown_to(&self, queue: &Queue) -> bool {
        self.any_memory().is_none() && !queue.device().has_events_of(self.device, self.came())
    }

    fn unknown_event(&self) -> Error {
        let message = "the array has no memory, and nothing else tells which runtime its event is of; open its device, and wait for the event there";
        Error::new(ErrorKind::NotReachable, message).on_device(self.device)
    }

    /// Whether the data may be used at once.
    #[inline(always)]
    pub(crate) fn waits_for_nothing(&self) -> bool {
        self.ready.pending().is_empty()
            && !(Device::any_is_in_queue_order() && self.is_in_queue_order())
    }

    /// The events that have to pass before the data may be used.
    pub(crate) fn pending(&self) -> Result<Cow<'_, [Pending]>> {
        let in_order = if Device::any_is_in_queue_order() { self.event_in_order()? } else { None };
        Ok(self.pending_and(in_order))
    }

    /// The events that have to pass before the data may be used. An error where nobody here can
    /// tell whether these events are all.
    #[inline]
    pub(crate) fn known_pending(&self) -> Result<Cow<'_, [Pending]>> {
        if self.has_unknown_order() {
            return Err(self.unknown_order());
        }
        self.pending()
    }

    /// The events that this queue has to wait for. The queue in whose order the data is ready needs
    /// no event for that order (DRV-4).
    fn pending_for(&self, queue: &Queue) -> Result<Cow<'_, [Pending]>> {
        let device = queue.device();
        let is_in_order = || device.is_in_queue_order() && device.id() == self.device;
        let in_order = if Device::any_is_in_queue_order() && !is_in_order() {
            self.event_in_order()?
        } else {
            None
        };
        Ok(self.pending_and(in_order))
    }

    fn pending_and(&self, in_order: Option<Event>) -> Cow<'_, [Pending]> {
        let told = self.ready.pending();
        match in_order {
            None => Cow::Borrowed(told),
            Some(event) => told.iter().cloned().chain([Pending::Event(event)]).collect(),
        }
    }

    /// An event behind the work that makes the data, for an array without an event on a device
    /// whose arrays are ready in the order of its queue. The maker of the array submitted that work
    /// before the array was made.
    #[cold]
    pub(crate) fn event_in_order(&self) -> Result<Option<Event>> {
        if !self.may_be_in_queue_order() {
            return Ok(None);
        }
        self.check_process()?;
        let QueueOrder::Of(device) = self.queue_order() else { return Ok(None) };
        if let Some(known) = &*self.records.lock(|records| &records.in_order) {
            return Ok(Some(known.clone()));
        }
        // Two threads may both record an event here. Either event is right.
        let event = device.open_queue()?.record()?;
        let other = self.records.lock(|records| &records.in_order).replace(event.clone());
        // The event that is not needed is destroyed after the lock was given back.
        drop(other);
        Ok(Some(event))
    }

    /// What is known of the queue in whose order the data is ready.
    fn queue_order(&self) -> QueueOrder {
        if self.device.device_type == DeviceType::CPU || !self.came_without_event() {
            return QueueOrder::None;
        }
        match self.open_device() {
            Some(device) if device.is_in_queue_order() => QueueOrder::Of(device),
            None if convention::may_be_in_queue_order(self.device.device_type) => {
                QueueOrder::Unknown
            }
            _ => QueueOrder::None,
        }
    }

    /// Whether only the order of a queue says when the data is complete, as far as can be told
    /// here. In a child of `fork` nothing can be told of data on a device of the parent.
    #[cold]
    pub(super) fn is_in_queue_order(&self) -> bool {
        self.may_be_in_queue_order()
            && (self.is_of_the_parents_device() || matches!(self.queue_order(), QueueOrder::Of(_)))
    }

    /// Whether the data may be ready in the order of a queue: the data came without an event, and a
    /// device with such a queue was open at some time. Arrays that are built here have events for
    /// their data. But a built array may consist of imported ones, whose device may have been
    /// opened later.
    fn may_be_in_queue_order(&self) -> bool {
        Device::any_is_in_queue_order()
            && self.device.device_type != DeviceType::CPU
            && self.came_without_event()
    }

    /// Whether the data, or a part of it, came without an event, and no event here stands for it.
    pub(super) fn came_without_event(&self) -> bool {
        match &*self.storage {
            Storage::Foreign(_) => matches!(self.ready, ReadyWhen::Now) && !self.is_complete,
            Storage::Built(built) => built.came_without_event,
        }
    }

    /// Whether nobody can tell here if the data is ready in the order of a queue.
    #[inline]
    pub(crate) fn has_unknown_order(&self) -> bool {
        self.device.device_type != DeviceType::CPU && self.has_unknown_order_on_device()
    }

    /// A function of its own, so that an export keeps no register for the device that is found.
    #[inline(never)]
    fn has_unknown_order_on_device(&self) -> bool {
        // Of most types the convention answers, without a look for the device.
        convention::may_be_in_queue_order(self.device.device_type)
            && matches!(self.queue_order(), QueueOrder::Unknown)
    }

    /// An error where the queue of another device cannot be ordered behind the queue in whose order
    /// the data may be ready.
    #[inline]
    fn require_known_order(&self, queue: &Queue) -> Result<()> {
        if queue.device().id() != self.device && self.has_unknown_order() {
            return Err(self.unknown_order());
        }
        Ok(())
    }

    #[cold]
    fn unknown_order(&self) -> Error {
        if let Err(of_the_parent) = self.check_process() {
            return of_the_parent;
        }
        let message = "the array came without an event, and its device is not open, so that nothing tells whether the work on its data is done; open the device";
        Error::new(ErrorKind::DeviceMissing, message).on_device(self.device)
    }

    /// Whether the event stands for work of the array's own device, whose data is ready in the
    /// order of its queue. A consumer then needs no event.
    pub(crate) fn is_in_order_of(&self, event: &Event) -> bool {
        let of = event.device();
        let holds = |claimed| {
            // SAFETY: this tree keeps the memory, which is a `buffers[i]` of its own.
            unsafe { of.holds(claimed) }
        };
        of.is_in_queue_order()
            && of.id() == self.device
            && event.is_of_its_device()
            && self.telling_memory().is_none_or(holds)
            && !self.is_mixed()
    }

    /// Whether work on a queue may touch the data.
    pub(crate) fn require_reach(&self, queue: &Queue) -> Result<()> {
        if self.is_mixed() {
            let message = "the array was put together of memory of several runtimes, and a queue works on one; copy the parts first";
            return Err(Error::new(ErrorKind::NotReachable, message).on_device(self.device));
        }
        // SAFETY: this tree keeps the memory.
        unsafe { queue.reaches_memory(self.device, || self.any_memory()) }
    }

    /// Makes a queue wait for all of these events, and records an event behind them. The event of a
    /// producer stays until the release and no longer (UNS-5), so the tree is kept until the queue
    /// has passed the new event.
    pub(crate) fn joined(&self, queue: &Queue, all: &[Pending]) -> Result<Event> {
        self.wait_for_all(queue, all)?;
        match queue.record() {
            Ok(event) => {
                self.note_use(QueueUse::before(event.clone()));
                Ok(event)
            }
            Err(error) => {
                self.note_use(QueueUse::until_now(queue));
                Err(error)
            }
        }
    }

    /// Makes a queue wait for all of these events. If one wait fails, the tree is kept for the
    /// events that the queue waits for already.
    fn wait_for_all(&self, queue: &Queue, all: &[Pending]) -> Result<()> {
        for (number, pending) in all.iter().enumerate() {
            if let Err(error) = self.wait_for(queue, pending) {
                if number > 0 {
                    self.note_use(QueueUse::until_now(queue));
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn wait_for(&self, queue: &Queue, pending: &Pending) -> Result<()> {
        match pending {
            Pending::Event(event) => queue.wait(event),
            Pending::Foreign(_) if self.is_unknown_to(queue) => Err(self.unknown_event()),
            // SAFETY: the pointer is the `sync_event` of an array that `storage` keeps alive, and
            // `order` and `export_on` asked whether the queue reaches its device.
            Pending::Foreign(sync_event) => unsafe { queue.wait_for_foreign(*sync_event) },
        }
    }
}
