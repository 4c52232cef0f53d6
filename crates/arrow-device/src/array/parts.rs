//! [`ArrayParts`]: the buffers and arrays that an array is put together of, and what they say of
//! the array: its device, when it is ready, and when its memory came.
//!
//! [`ArrayBuilder`](super::ArrayBuilder) and [`WithinBuilder`](super::WithinBuilder) put arrays
//! together of such parts. Whether the parts fit a type is not looked at here.

use super::Array;
use super::node_checks::refused;
use super::only_share::owned_tree;
use super::readiness::{Pending, ReadyWhen, distinct_pending};
use super::tree::Tree;
use crate::convention;
use crate::device::driver::{Readiness, Runtime};
use crate::device::{BytesOwner, ClaimedMemory, Moment, NumberedList};
use crate::pool::shared::Shared;
use crate::{Buffer, Device, DeviceId, DeviceType, Event, Queue, Result};

/// The buffers and arrays that an array is put together of.
#[derive(Debug, Default)]
pub(super) struct ArrayParts {
    pub(super) buffers: Vec<Option<Buffer>>,
    pub(super) children: Vec<Array>,
    pub(super) dictionary: Option<Array>,
    /// The device that was named, which all parts have to be on.
    pub(super) device: Option<DeviceId>,
}

impl ArrayParts {
    /// The children, and behind them the dictionary.
    pub(super) fn below(&self) -> impl Iterator<Item = &Array> + Clone {
        self.children.iter().chain(&self.dictionary)
    }

    /// Checks that the parts can be parts of one array: all are on one device of this process and,
    /// where the device's id has several runtimes, in memory of one runtime. Returns the device.
    pub(super) fn check(&self) -> Result<DeviceId> {
        let device = self.common_device()?;
        self.check_process()?;
        self.check_runtime(device)?;
        Ok(device)
    }

    /// What the parts say of an array on this device, which is ready when `ready` says so.
    #[inline]
    pub(super) fn settle(
        &self,
        device: DeviceId,
        ready: impl FnOnce(&PartEvents<'_>) -> Result<ReadyWhen>,
    ) -> Result<Settled> {
        let in_flight = self.buffers.iter().flatten().flat_map(Buffer::in_flight);
        let in_flight: NumberedList<Queue> = in_flight.cloned().collect();
        let in_flight = in_flight.as_slice();
        let memory = self.buffers.iter().flatten().find(|buffer| !buffer.is_null());
        let memory = memory.map(Buffer::claimed);
        // Data on the host came complete where no event came with it.
        let (in_order, came_without_event) = match device.device_type {
            DeviceType::CPU => (Vec::new(), false),
            _ => self.order_of_parts()?,
        };
        let events = PartEvents { device, memory, parts: self, in_order, in_flight };
        let ready = ready(&events)?.shown_on(|event| events.may_show(event));
        Ok(Settled { ready, came_without_event, came: self.came(device) })
    }

    /// The device that all given parts are on. An error where they are on different devices.
    fn common_device(&self) -> Result<DeviceId> {
        let buffers =
            self.buffers.iter().flatten().filter(|buffer| !buffer.is_null()).map(Buffer::device);
        let arrays = self.below().map(Array::device);
        let mut found = self.device;
        for device in buffers.chain(arrays) {
            match found {
                Some(first) if !first.is_same_device(device) => {
                    let message = format!(
                        "an array lies on one device, and this has parts on {first} and on {device}"
                    );
                    return Err(refused(message));
                }
                Some(_) => {}
                None => found = Some(device),
            }
        }
        Ok(found.unwrap_or(DeviceId::CPU))
    }

    /// In a child of `fork`, refuses data that lies on a device of the parent.
    fn check_process(&self) -> Result<()> {
        self.buffers.iter().flatten().try_for_each(Buffer::check_process)?;
        self.below().map(Array::tree).try_for_each(|tree| tree.check_process())
    }

    /// Where several runtimes are open by one id, the memory tells which runtime owns it. All
    /// memory of an array has to be of one runtime. No driver is asked where only one runtime is
    /// open.
    fn check_runtime(&self, device: DeviceId) -> Result<()> {
        if device.device_type == DeviceType::CPU || !Device::has_several_runtimes(device) {
            return Ok(());
        }
        let buffers = self.buffers.iter().enumerate().filter_map(|(index, buffer)| {
            let buffer = buffer.as_ref().filter(|buffer| !buffer.is_null())?;
            Some((format!("buffer {index}"), buffer.claimed()))
        });
        let children = self.children.iter().enumerate();
        let children = children.map(|(index, child)| (format!("child {index}"), child));
        let dictionary = self.dictionary.iter().map(|values| ("the dictionary".to_owned(), values));
        let below = children.chain(dictionary);
        let runtime_of = |holder: Option<Device>| holder.map(|holder| holder.driver().runtime());
        let buffers = buffers.map(|(name, claimed)| {
            // SAFETY: the buffer, which `self` has, keeps the memory, and its maker promised that
            // it is on this device and what the convention says, which is what `buffers[i]` of an
            // array is.
            (name, runtime_of(unsafe { Device::find_holding(device, claimed) }))
        });
        let below = below.filter(|(_, part)| part.tree().tells_runtime());
        let below =
            below.map(|(name, part)| (name, part.tree(), runtime_of(part.tree().open_device())));
        let below: Vec<_> = below.collect();
        let is_unknown =
            |runtime: &Option<Runtime>, part: &Tree| runtime.is_none() && part.has_telling_event();
        if let Some((name, ..)) = below.iter().find(|(_, part, runtime)| is_unknown(runtime, part))
        {
            let message = format!(
                "{name} has no memory that tells which runtime its event is of, and several were open by this id"
            );
            return Err(refused(message).on_device(device));
        }
        let below = below.into_iter().map(|(name, _, runtime)| (name, runtime));
        let mut parts = buffers.chain(below);
        let Some(first) = parts.next() else { return Ok(()) };
        // Two parts of which no runtime is known cannot be shown to be of the same runtime.
        let differs = |part: &(String, Option<Runtime>)| part.1 != first.1 || part.1.is_none();
        let Some(other) = parts.find(differs) else { return Ok(()) };
        let told = |(name, holder): &(String, Option<Runtime>)| match holder {
            Some(runtime) => format!("{name} is of {} {:#x}", runtime.name, runtime.instance),
            None => format!("{name} is of none that says so"),
        };
        let message = format!(
            "an array lies in the memory of one runtime; several are open by this id, and {}, while {}; copy one part first",
            told(&first),
            told(&other)
        );
        Err(refused(message).on_device(device))
    }

    /// Takes the owners of the buffers out of the parts.
    pub(super) fn take_owners(&mut self) -> impl Iterator<Item = BytesOwner> {
        let buffers = std::mem::take(&mut self.buffers);
        buffers.into_iter().filter_map(|buffer| buffer.and_then(Buffer::into_owner))
    }

    /// The events of those parts that came without an event and are ready in the order of a queue.
    /// Also tells whether there is a part for which no event is found: its device is not open.
    fn order_of_parts(&self) -> Result<(EventsInOrder<'_>, bool)> {
        let (mut events, mut is_left) = (Vec::new(), false);
        let owners = self.buffers.iter().flatten().filter_map(Buffer::owner);
        let trees = self.below().map(Array::tree).chain(owners.filter_map(owned_tree));
        for tree in trees.filter(|tree| tree.came_without_event()) {
            match tree.event_in_order()? {
                Some(event) => events.push((tree, Pending::Event(event))),
                None => is_left = true,
            }
        }
        Ok((events, is_left))
    }

    /// When the memory came. The moment is unknown where parts came at different moments, and a
    /// device was opened or closed by the id between them. Parts without memory are left out,
    /// unless such a part has the event of a producer: only the moment tells which runtime the
    /// event is of.
    fn came(&self, device: DeviceId) -> Moment {
        let buffers = self.buffers.iter().flatten().filter(|buffer| !buffer.is_null());
        let buffers = buffers.map(|buffer| buffer.claimed().came);
        let below = self.below().map(|array| array.tree());
        let with_memory = below.clone().filter(|tree| tree.any_memory().is_some());
        let is_foreign = |pending: &Pending| pending.event().is_none();
        let with_event = below.clone().filter(move |tree| {
            tree.any_memory().is_none() && tree.ready.pending().iter().any(is_foreign)
        });
        let of_memory = buffers.chain(with_memory.chain(with_event).map(|tree| tree.came()));
        let of_events = below.filter(|tree| !tree.ready.pending().is_empty());
        Device::common_moment(device, of_memory)
            .or_else(|| Device::common_moment(device, of_events.map(|tree| tree.came())))
            .unwrap_or_else(Moment::now)
    }
}

/// What the parts of an array say of it.
pub(super) struct Settled {
    pub(super) ready: ReadyWhen,
    /// Whether there is a part that came without an event, for which `ready` has none either.
    pub(super) came_without_event: bool,
    /// When the memory came.
    pub(super) came: Moment,
}

/// Events behind the work of queues, each with a tree that is ready in the order of its queue.
type EventsInOrder<'parts> = Vec<(&'parts Shared<Tree>, Pending)>;

/// The events and queues of the parts of an array, which decide when the array is ready.
pub(super) struct PartEvents<'parts> {
    device: DeviceId,
    /// The memory of one of the array's own buffers.
    memory: Option<ClaimedMemory>,
    parts: &'parts ArrayParts,
    /// The events of parts that came without an event and are ready in the order of a queue.
    in_order: EventsInOrder<'parts>,
    /// The queues that may still write the buffers.
    in_flight: &'parts [Queue],
}

impl PartEvents<'_> {
    /// The events that the parts wait for.
    pub(super) fn pending(&self) -> impl Iterator<Item = Pending> {
        let all = self.parts.below().flat_map(|array| array.tree().ready.pending());
        all.chain(self.in_order.iter().map(|(_, one)| one)).cloned()
    }

    /// The array is ready after `others`, after the parts, and after what was submitted to the
    /// queues that may still write the buffers.
    pub(super) fn ready(&self, others: impl IntoIterator<Item = Pending>) -> Result<ReadyWhen> {
        let mut after = Vec::new();
        for queue in self.in_flight {
            after.extend(self.after(queue)?);
        }
        Ok(ReadyWhen::join(self.pending().chain(others).chain(after)))
    }

    /// The array is ready after this event and after the parts. The event stands for all that may
    /// still write the buffers.
    pub(super) fn ready_after(&self, event: &Event) -> ReadyWhen {
        ReadyWhen::join(self.pending().chain([Pending::Event(event.clone())]))
    }

    /// The array is ready after an event that this queue records behind its own work, behind the
    /// events of the parts, and behind the queues that may still write the buffers.
    pub(super) fn ready_on(&self, queue: &Queue) -> Result<ReadyWhen> {
        self.require_reach(queue)?;
        let pending = self.parts.below().flat_map(|array| {
            let tree = array.tree();
            tree.ready.pending().iter().map(move |one| (tree, one))
        });
        distinct_pending(pending.chain(self.in_order.iter().map(|(tree, one)| (*tree, one))))
            .into_iter()
            .try_for_each(|(tree, one)| tree.wait_for(queue, one))?;
        let others = self.in_flight.iter().filter(|other| other.number() != queue.number());
        others.into_iter().try_for_each(|other| queue.wait(&other.record()?))?;
        Ok(self.after(queue)?.map_or(ReadyWhen::Now, ReadyWhen::After))
    }

    /// Refuses a queue whose work cannot have written the memory. Queues of all devices write to
    /// host memory.
    fn require_reach(&self, queue: &Queue) -> Result<()> {
        if self.device.device_type == DeviceType::CPU {
            return Ok(());
        }
        // SAFETY: the buffer or the tree keeps the memory, and its maker promised that it is on
        // this device and what the convention says, which is what `buffers[i]` of an array is.
        unsafe { queue.reaches_memory(self.device, || self.any_memory()) }
    }

    /// Memory of the array, which tells the runtime that the array is of.
    fn any_memory(&self) -> Option<ClaimedMemory> {
        let below = || self.parts.below().find_map(|array| array.tree().any_memory());
        self.memory.or_else(below)
    }

    /// Whether the memory is of this device's runtime, where several are open by its id or the
    /// device is another one that reaches the memory.
    fn is_of(&self, device: &Device) -> bool {
        if device.id() == self.device && !Device::ids_are_ambiguous() {
            return true;
        }
        let Some(claimed) = self.any_memory() else { return true };
        // SAFETY: the buffer or the tree keeps the memory, and its maker promised that it is on
        // this device and what the convention says, which is what `buffers[i]` of an array is.
        unsafe { device.holds_on(self.device, claimed) }
    }

    /// Stands for the work that was submitted to a queue by now: an event, or `None` after a wait
    /// where the queue's device has no events.
    fn after(&self, queue: &Queue) -> Result<Option<Pending>> {
        match queue.device().properties().readiness {
            Readiness::Event => Ok(Some(Pending::Event(queue.record()?))),
            Readiness::QueueOrder if queue.device().id() == self.device => {
                Ok(Some(Pending::Event(queue.record()?)))
            }
            Readiness::QueueOrder | Readiness::HostWait => queue.synchronize().map(|()| None),
        }
    }

    /// Whether the event may be the `sync_event` of the array, by the convention of the array's
    /// device. On a device with one queue the convention shows no event.
    fn may_show(&self, event: &Event) -> bool {
        let of = event.device();
        if of.id() == self.device {
            // An adopted event need not be of the one queue of its device.
            return self.is_of(of) && (!of.is_in_queue_order() || event.is_of_its_device());
        }
        of.properties().readiness == Readiness::Event
            && convention::have_same_events(of.id().device_type, self.device.device_type)
            && of.driver().reaches(self.device).is_ok()
            && self.is_of(of)
    }
}
