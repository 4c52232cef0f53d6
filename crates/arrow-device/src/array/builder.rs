//! [`ArrayBuilder`]: puts an array together from buffers and other arrays.
//!
//! The steps, in `finish_over`:
//!
//! 1. All parts have to be on one device of this process and, where the device's id has several
//!    runtimes, in memory of one runtime.
//! 2. The numbers of buffers and children, the types and the lengths have to be those that the
//!    schema asks for (`node_checks`). No data is read.
//! 3. The readiness of the array is joined from the events of the arrays below and from what the
//!    `finish` function of the caller names (`readiness`).
//! 4. The nodes of all arrays below are copied into one table, level by level (`assemble`). Their
//!    tables of pointers are not copied: the new nodes point there, and the tree keeps the arrays.
//!
//! What must stay true: parts are not freed while submitted work may still write to them, even
//! where the array is refused (`keep_parts`).

use std::sync::Arc;

use super::node::{ArrayNode, BufferPointer, Nodes, Tables};
use super::node_checks::{
    ONE_OFFSET, UNTOLD, check_buffer_count, check_buffers, check_child_length, check_end,
    check_run_ends, check_run_values, mismatch, refused, settled_null_count,
};
use super::readiness::{Pending, ReadyWhen, distinct_pending};
use super::sole::owned_tree;
use super::tree::{Below, Built, Tree};
use super::{Array, Window};
use crate::convention;
use crate::device::deferred::{self, QueueUse};
use crate::device::driver::{Raw, Readiness, Runtime};
use crate::device::{BytesOwner, ClaimedMemory, Moment};
use crate::pool::shared::Shared;
use crate::schema::{Layout, Schema};
use crate::{
    Buffer, DataType, Device, DeviceId, DeviceType, Error, ErrorKind, Event, Extent, NodePath,
    Queue, Result, Step,
};

/// An array that is being put together; see [`Array::builder`].
///
/// Buffers are in the order of the C data interface: for most types validity, then offsets where
/// there are any, then data. `None` stands for a buffer that is absent; where an array in memory of
/// the host has no elements, the one offset that consumers read is supplied. View types take their
/// data buffers after the views; the builder writes the sizes that the interface wants behind them.
/// Children and dictionaries are arrays. A slice that is given as a child stays a slice.
///
/// Finishing checks what can be told without reading the data: the numbers of buffers and children,
/// their types, lengths and devices.
#[derive(Debug)]
#[must_use]
pub struct ArrayBuilder {
    schema: Result<Schema>,
    window: Window,
    length_given: bool,
    buffers: Vec<Option<Buffer>>,
    children: Vec<Array>,
    dictionary: Option<Array>,
    device: Option<DeviceId>,
}

impl Array {
    /// Begins an array of this type: give it a length and buffers, then say how it becomes ready.
    pub fn builder<S>(schema: S) -> ArrayBuilder
    where
        S: TryInto<Schema>,
        Error: From<S::Error>,
    {
        ArrayBuilder::new(schema.try_into().map_err(Error::from))
    }
}

impl ArrayBuilder {
    pub(super) fn new(schema: Result<Schema>) -> Self {
        let window = Window { offset: 0, length: 0, null_count: UNTOLD };
        Self {
            schema,
            window,
            length_given: false,
            buffers: Vec::new(),
            children: Vec::new(),
            dictionary: None,
            device: None,
        }
    }

    /// A builder that only checks what an array is put together of: see
    /// [`settle_parts`](Self::settle_parts).
    pub(super) fn of_parts(memory: Buffer, children: Vec<Array>) -> Self {
        let schema = Err(Error::new(ErrorKind::InvalidArgument, "taken"));
        Self { buffers: vec![Some(memory)], children, ..Self::new(schema) }
    }

    /// The memory and the children of [`of_parts`](Self::of_parts).
    pub(super) fn into_parts(self) -> (Option<Buffer>, Vec<Array>) {
        (self.buffers.into_iter().next().flatten(), self.children)
    }

    /// Sets the number of elements. By default, a struct or a sparse union has as many elements as
    /// its first child.
    pub fn len(mut self, length: usize) -> Self {
        self.window.length = i64::try_from(length).unwrap_or(i64::MAX);
        self.length_given = true;
        self
    }

    /// Sets how many elements of the buffers come before the first element of the array.
    pub fn offset(mut self, offset: usize) -> Self {
        self.window.offset = i64::try_from(offset).unwrap_or(i64::MAX);
        self
    }

    /// Sets the number of null elements. By default the number is 0 without a validity bitmap, and
    /// unknown with one.
    pub fn null_count(mut self, null_count: usize) -> Self {
        self.window.null_count = i64::try_from(null_count).unwrap_or(i64::MAX);
        self
    }

    /// Sets the buffers.
    pub fn buffers(mut self, buffers: impl IntoIterator<Item = Option<Buffer>>) -> Self {
        self.buffers = buffers.into_iter().collect();
        self
    }

    /// Sets the children.
    pub fn children(mut self, children: impl IntoIterator<Item = Array>) -> Self {
        self.children = children.into_iter().collect();
        self
    }

    /// Sets the values of the dictionary.
    pub fn dictionary(mut self, dictionary: Array) -> Self {
        self.dictionary = Some(dictionary);
        self
    }

    /// Sets the device of an array that has neither buffers nor children, which would say where the
    /// array is. The default is the host.
    pub fn device(mut self, device: DeviceId) -> Self {
        self.device = Some(device);
        self
    }

    /// Makes the array of data that is complete, or will be after the work that was submitted for
    /// the data: the array is ready after what was submitted by now to the queues that filled a
    /// [`Memory`](crate::Memory) of its buffers, and at once where there are none. On a device that
    /// has no events ([`Readiness::HostWait`](crate::driver::Readiness::HostWait)), this waits on
    /// the host.
    ///
    /// Children stay as ready as they are: an array of columns that wait for different events is
    /// ready after all of them.
    pub fn finish_ready(self) -> Result<Array> {
        self.finish_with([])
    }

    /// Makes the array of data that is complete when this queue has done all submitted work: an
    /// event is recorded on the queue.
    ///
    /// Children that wait for other events, and queues that filled a [`Memory`](crate::Memory) of
    /// the buffers, make the queue wait for those first, so that one event stands for all. On a
    /// device that has no events ([`Readiness::HostWait`](crate::driver::Readiness::HostWait)),
    /// this waits on the host.
    ///
    /// # Errors
    /// [`NotReachable`](ErrorKind::NotReachable): work on the queue cannot have written the memory.
    /// Any queue can be named for memory of the host.
    pub fn finish_on(mut self, queue: &Queue) -> Result<Array> {
        let finished = self.finish(|parts| {
            parts.require_reach(queue)?;
            let pending = parts.sources.iter().flat_map(|source| {
                let tree = source.tree();
                tree.ready.pending().iter().map(move |one| (tree, one))
            });
            distinct_pending(pending.chain(parts.in_order.iter().map(|(tree, one)| (*tree, one))))
                .into_iter()
                .try_for_each(|(tree, one)| tree.wait_for(queue, one))?;
            let others = parts.in_flight.iter().filter(|other| other.number() != queue.number());
            others.into_iter().try_for_each(|other| queue.wait(&other.record()?))?;
            Ok(parts.after(queue)?.map_or(ReadyWhen::Now, ReadyWhen::After))
        });
        // The array was refused, but work on the queue may still write the buffers, and the queue
        // may wait for events of the arrays below.
        if finished.is_err() {
            self.keep_parts(|| QueueUse::until_now(queue));
        }
        finished
    }

    /// Makes the array of data that is complete after this event. Events of the children are added
    /// to it.
    ///
    /// The event may be of another runtime than that of the array's device. Such an event orders
    /// the uses in this process, but is not exported: see [`Array::export`].
    ///
    /// # Safety
    /// UNS-32: when the event has passed, all work that writes the buffers has finished. (An event
    /// does not tell which work comes before it. [`finish_on`](Self::finish_on) records one behind
    /// all.)
    pub unsafe fn finish_after(mut self, event: Event) -> Result<Array> {
        let finished = self.finish(|parts| {
            let pending = parts.pending().chain([Pending::Event(event.clone())]);
            Ok(ReadyWhen::join(pending))
        });
        if finished.is_err() {
            self.keep_parts(|| QueueUse::before(event));
        }
        finished
    }

    /// Makes an array that is ready as [`finish_ready`](Self::finish_ready) says, and after
    /// `others`: the events of other arrays whose memory the buffers are.
    pub(crate) fn finish_with(
        mut self,
        others: impl IntoIterator<Item = Pending>,
    ) -> Result<Array> {
        self.finish(|parts| parts.ready(others))
    }

    /// After a refusal, keeps the remaining parts until the use ends that may write to them or wait
    /// for them.
    #[cold]
    fn keep_parts(&mut self, used: impl FnOnce() -> QueueUse) {
        let owners: Vec<_> = self.take_owners().collect();
        let below = std::mem::take(&mut self.children);
        if !owners.is_empty() || !below.is_empty() {
            deferred::defer((owners, below), vec![used()], true);
        }
    }

    /// Takes the owners of the buffers out of the builder.
    fn take_owners(&mut self) -> impl Iterator<Item = BytesOwner> {
        let buffers = std::mem::take(&mut self.buffers);
        buffers.into_iter().filter_map(|buffer| buffer.and_then(Buffer::into_owner))
    }

    /// Makes the array. After a refusal, the builder still has all arrays below as its children. It
    /// still has the buffers too, unless a tree was made of them.
    fn finish(
        &mut self,
        ready: impl FnOnce(&ArrayParts<'_>) -> Result<ReadyWhen>,
    ) -> Result<Array> {
        let mut sources = Vec::new();
        let finished = self.finish_over(&mut sources, ready);
        if finished.is_err() {
            self.children.append(&mut sources);
        }
        finished
    }

    /// Makes the array, and moves the arrays below to `sources`. Where the array is refused before
    /// a tree is made, the arrays stay in `sources`.
    fn finish_over(
        &mut self,
        sources: &mut Vec<Array>,
        ready: impl FnOnce(&ArrayParts<'_>) -> Result<ReadyWhen>,
    ) -> Result<Array> {
        let schema = std::mem::replace(
            &mut self.schema,
            Err(Error::new(ErrorKind::InvalidArgument, "taken")),
        )?;
        let device = self.common_device()?;
        self.check_process()?;
        self.check_runtime(device)?;
        if !self.length_given
            && let Some(first) = self.children.first()
        {
            self.window.length = first.window().length;
        }
        self.check_counts(&schema)?;
        let layout = &schema.root().layout;
        if self.window.end() == 0 && device.device_type == DeviceType::CPU {
            self.add_one_offset(layout);
        }
        if layout.is_variadic() {
            self.add_variadic_sizes()?;
        }
        self.check_buffers(&schema)?;
        self.check_children(&schema)?;
        self.settle_null_count(&schema)?;

        *sources = std::mem::take(&mut self.children);
        sources.extend(self.dictionary.take());
        let settled = self.readiness(device, sources, ready)?;
        let tree = self.assemble(schema, device, settled, sources)?;
        Ok(Array::from_tree(Shared::new(tree)?))
    }

    /// When an array of the buffers, and of the arrays below, is ready.
    #[inline]
    fn readiness(
        &self,
        device: DeviceId,
        sources: &[Array],
        ready: impl FnOnce(&ArrayParts<'_>) -> Result<ReadyWhen>,
    ) -> Result<Settled> {
        let mut in_flight: Vec<Queue> = Vec::new();
        for queue in self.buffers.iter().flatten().flat_map(Buffer::in_flight) {
            if in_flight.iter().all(|known| known.number() != queue.number()) {
                in_flight.push(queue.clone());
            }
        }
        let memory = self.buffers.iter().flatten().find(|buffer| !buffer.is_null());
        let memory = memory.map(Buffer::claimed);
        // Data on the host came complete where no event came with it.
        let (in_order, came_without_event) = match device.device_type {
            DeviceType::CPU => (Vec::new(), false),
            _ => self.order_of_parts(sources)?,
        };
        let parts = ArrayParts { device, memory, sources, in_order, in_flight: &in_flight };
        let ready = ready(&parts)?.shown_on(|event| parts.may_show(event));
        Ok(Settled { ready, came_without_event })
    }

    /// Checks that the buffers and the children can be parts of one array, and says which device
    /// the array is on, when it is ready, as [`finish_ready`](Self::finish_ready) decides, and when
    /// its memory came.
    pub(super) fn settle_parts(&self) -> Result<(DeviceId, Settled, Moment)> {
        let device = self.common_device()?;
        self.check_process()?;
        self.check_runtime(device)?;
        let settled = self.readiness(device, &self.children, |parts| parts.ready([]))?;
        Ok((device, settled, self.came(device, &self.children)))
    }

    /// The device that all given parts are on. An error where they are on different devices.
    fn common_device(&self) -> Result<DeviceId> {
        let buffers =
            self.buffers.iter().flatten().filter(|buffer| !buffer.is_null()).map(Buffer::device);
        let arrays = self.children.iter().chain(&self.dictionary).map(Array::device);
        let mut found = self.device.or(if self.buffers.is_empty() && self.children.is_empty() {
            self.dictionary.as_ref().map(Array::device)
        } else {
            None
        });
        for device in buffers.chain(arrays) {
            match found {
                Some(first) if !is_same_device(first, device) => {
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
        let below = self.children.iter().chain(&self.dictionary);
        below.map(Array::tree).try_for_each(|tree| tree.check_process())
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
            "an array lies in the memory of one runtime, and of several that are open by this id {} and {}; copy one part first",
            told(&first),
            told(&other)
        );
        Err(refused(message).on_device(device))
    }

    fn check_counts(&self, schema: &Schema) -> Result<()> {
        let node = schema.root();
        let data_type = schema.data_type();
        check_buffer_count(data_type, &node.layout, self.buffers.len())?;
        let children = node.children().len();
        if self.children.len() != children {
            return Err(mismatch(format!(
                "{data_type} has {children} children, not {}",
                self.children.len()
            )));
        }
        if self.dictionary.is_some() != node.dictionary().is_some() {
            let has = if self.dictionary.is_some() { "no dictionary" } else { "a dictionary" };
            return Err(mismatch(format!("{data_type} has {has}")));
        }
        check_end(schema.rule(0), self.window)
    }

    /// Supplies the one offset of an array without elements, where its buffer is absent.
    #[cold]
    fn add_one_offset(&mut self, layout: &Layout) {
        for (buffer, kind) in self.buffers.iter_mut().zip(layout.buffers()) {
            if kind.has_one_more() && buffer.as_ref().is_none_or(Buffer::is_null) {
                let base = Raw::from_ptr(ONE_OFFSET.as_ptr().cast_mut().cast());
                let len = size_of_val(&ONE_OFFSET) as u64;
                // A static needs no owner.
                let offset = Buffer::from_parts(DeviceId::CPU, base, 0, Extent::Exact(len), None);
                *buffer = Some(offset);
            }
        }
    }

    /// Adds the buffer with the sizes of the data buffers of views. The interface wants this last
    /// buffer in host memory.
    fn add_variadic_sizes(&mut self) -> Result<()> {
        let sizes: Vec<i64> = self
            .buffers
            .iter()
            .skip(2)
            .map(|buffer| match buffer.as_ref().map(Buffer::extent) {
                None => Ok(0),
                Some(Extent::Exact(len)) => {
                    i64::try_from(len).map_err(|_| refused("a data buffer is too large".into()))
                }
                Some(_) => {
                    Err(refused("the length of a data buffer of views has to be known".into()))
                }
            })
            .collect::<Result<_>>()?;
        self.buffers.push((!sizes.is_empty()).then(|| sizes.into()));
        Ok(())
    }

    fn check_buffers(&self, schema: &Schema) -> Result<()> {
        let extents = self
            .buffers
            .iter()
            .map(|buffer| buffer.as_ref().filter(|buffer| !buffer.is_null()).map(Buffer::extent));
        check_buffers(&schema.root().layout, self.window, extents)
    }

    fn check_children(&self, schema: &Schema) -> Result<()> {
        let root = schema.root();
        for (index, (number, child)) in root.children().zip(&self.children).enumerate() {
            let place = NodePath::new([Step::Child(index)]);
            let expected = schema.node(number).field.data_type();
            if !expected.equals_ignoring_metadata(child.data_type()) {
                return Err(mismatch(format!("the type is {}, not {expected}", child.data_type()))
                    .at(place));
            }
            check_child_length(schema.rule(0), self.window, child.window())
                .map_err(|error| error.at(place))?;
        }
        if let (DataType::RunEndEncoded { .. }, [run_ends, values]) =
            (schema.data_type(), &*self.children)
        {
            let (run_ends, values) = (run_ends.window(), values.window());
            check_run_ends(self.window, run_ends)?;
            check_run_values(run_ends, values)?;
        }
        if let (Some(number), Some(dictionary)) = (root.dictionary(), &self.dictionary) {
            let expected = schema.node(number).field.data_type();
            if !expected.equals_ignoring_metadata(dictionary.data_type()) {
                let message = format!("the type is {}, not {expected}", dictionary.data_type());
                return Err(mismatch(message).at(NodePath::new([Step::Dictionary])));
            }
        }
        Ok(())
    }

    fn settle_null_count(&mut self, schema: &Schema) -> Result<()> {
        let layout = &schema.root().layout;
        let bitmap = self.buffers.first().and_then(Option::as_ref);
        let has_bitmap = layout.has_validity() && bitmap.is_some_and(|bitmap| !bitmap.is_null());
        self.window = settled_null_count(schema.data_type(), self.window, has_bitmap)?;
        Ok(())
    }

    /// The events of those parts that came without an event and are ready in the order of a queue.
    /// Also tells whether there is a part for which no event is found: its device is not open.
    fn order_of_parts<'parts>(
        &'parts self,
        sources: &'parts [Array],
    ) -> Result<(EventsInOrder<'parts>, bool)> {
        let (mut events, mut is_left) = (Vec::new(), false);
        let owners = self.buffers.iter().flatten().filter_map(Buffer::owner);
        let trees = sources.iter().map(Array::tree).chain(owners.filter_map(owned_tree));
        for tree in trees.filter(|tree| tree.came_without_event()) {
            match tree.event_in_order()? {
                Some(event) => events.push((tree, Pending::Event(event))),
                None => is_left = true,
            }
        }
        Ok((events, is_left))
    }

    /// Builds the tree. The root is made of the buffers, and everything below the root of the given
    /// arrays, whose tables are shared.
    fn assemble(
        &mut self,
        schema: Schema,
        device: DeviceId,
        settled: Settled,
        sources: &mut Vec<Array>,
    ) -> Result<Tree> {
        self.buffers.iter_mut().flatten().try_for_each(Buffer::name_part)?;
        let pointers: Arc<[BufferPointer]> = self
            .buffers
            .iter()
            .map(|buffer| {
                buffer.as_ref().map_or(Ok(std::ptr::null()), Buffer::c_pointer).map(BufferPointer)
            })
            .collect::<Result<_>>()?;
        let mut extents: Vec<Extent> = self
            .buffers
            .iter()
            .map(|buffer| buffer.as_ref().map_or(Extent::Exact(0), Buffer::extent))
            .collect();
        let mut nodes = Vec::with_capacity(schema.nodes().len());
        nodes.push(ArrayNode {
            window: self.window,
            buffers: pointers.as_ptr().cast(),
            n_buffers: pointers.len() as u32,
            extents: 0,
        });
        let (came, is_of_parts) = (self.came(device, sources), !sources.is_empty());
        let below: Box<[Array]> = sources.as_slice().into();
        // Goes level by level, as the nodes of the schema are numbered. The root is node 0, so the
        // array at position `n` of the list becomes node `n + 1`.
        let mut arrays = std::mem::take(sources);
        let mut next = 0;
        while let Some(array) = arrays.get(next).cloned() {
            let first_extent = extents.len() as u32;
            extents.extend((0..array.buffer_count()).map(|index| array.extent(index)));
            nodes.push(ArrayNode { window: array.window(), extents: first_extent, ..array.node() });
            for index in 0..array.child_count() {
                arrays.push(array.node_child(index)?);
            }
            arrays.extend(array.node_dictionary());
            next += 1;
        }
        let tables = Tables { extents: extents.into(), _pointers: pointers };
        let owners = self.take_owners().collect();
        let Settled { ready, came_without_event } = settled;
        let below = Below::in_order(below);
        let built = Built { nodes: Nodes::from(nodes), owners, below, came_without_event, tables };
        let mut tree = Tree::built(schema, device, ready, built);
        tree.set_parts(came, is_of_parts);
        Ok(tree)
    }

    /// When the memory came. The moment is unknown where parts came at different moments, and a
    /// device was opened or closed by the id between them. Parts without memory are left out,
    /// unless such a part has the event of a producer: only the moment tells which runtime the
    /// event is of.
    fn came(&self, device: DeviceId, sources: &[Array]) -> Moment {
        let buffers = self.buffers.iter().flatten().filter(|buffer| !buffer.is_null());
        let buffers = buffers.map(|buffer| buffer.claimed().came);
        let below = sources.iter().map(|source| source.tree());
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

/// When an array of parts is ready.
pub(super) struct Settled {
    pub(super) ready: ReadyWhen,
    /// Whether there is a part that came without an event, for which `ready` has none either.
    pub(super) came_without_event: bool,
}

/// Events behind the work of queues, each with a tree that is ready in the order of its queue.
type EventsInOrder<'parts> = Vec<(&'parts Shared<Tree>, Pending)>;

/// The parts of an array that decide when the array is ready.
struct ArrayParts<'builder> {
    device: DeviceId,
    /// The memory of one of the array's own buffers.
    memory: Option<ClaimedMemory>,
    /// The arrays below.
    sources: &'builder [Array],
    /// The events of parts that came without an event and are ready in the order of a queue.
    in_order: EventsInOrder<'builder>,
    /// The queues that may still write the buffers.
    in_flight: &'builder [Queue],
}

impl ArrayParts<'_> {
    /// The events that the parts wait for.
    fn pending(&self) -> impl Iterator<Item = Pending> {
        let all = self.sources.iter().flat_map(|source| source.tree().ready.pending());
        all.chain(self.in_order.iter().map(|(_, one)| one)).cloned()
    }

    /// The array is ready after `others`, after the parts, and after what was submitted to the
    /// queues that may still write the buffers.
    fn ready(&self, others: impl IntoIterator<Item = Pending>) -> Result<ReadyWhen> {
        let mut after = Vec::new();
        for queue in self.in_flight {
            after.extend(self.after(queue)?);
        }
        Ok(ReadyWhen::join(self.pending().chain(others).chain(after)))
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
        let below = || self.sources.iter().find_map(|source| source.tree().any_memory());
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

/// Whether two ids name one device. All ids of host memory do.
fn is_same_device(one: DeviceId, other: DeviceId) -> bool {
    one == other || (one.device_type == DeviceType::CPU && other.device_type == DeviceType::CPU)
}
