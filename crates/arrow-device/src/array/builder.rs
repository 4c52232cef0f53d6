//! [`ArrayBuilder`]: puts an array together from buffers and other arrays.
//!
//! The steps, in `finish`:
//!
//! 1. All parts have to be on one device of this process and, where the device's id has several
//!    runtimes, in memory of one runtime (`parts`).
//! 2. The numbers of buffers and children, the types and the lengths have to be those that the
//!    schema asks for (`node_checks`). No data is read.
//! 3. The readiness of the array is joined from the events of the arrays below and from what the
//!    `finish_` function of the caller names (`parts`).
//! 4. The nodes of all arrays below are copied into one table, level by level (`assemble`). Their
//!    tables of pointers are not copied: the new nodes point there, and the tree keeps the arrays.
//!
//! What must stay true: parts are not freed while submitted work may still write to them, even
//! where the array is refused (`keep_parts`).

use std::sync::Arc;

use super::node::{ArrayNode, BufferPointer, Nodes, Tables};
use super::node_checks::{
    NOT_GIVEN, ONE_OFFSET, check_buffer_count, check_buffers, check_child_length, check_end,
    check_run_ends, check_run_values, check_type, mismatch, refused, settled_null_count,
};
use super::parts::{ArrayParts, PartEvents, Settled};
use super::readiness::{Pending, ReadyWhen};
use super::tree::{Below, Built, Tree};
use super::{Array, Window};
use crate::device::deferred::{self, QueueUse};
use crate::device::driver::Raw;
use crate::pool::shared::Shared;
use crate::schema::{Layout, Schema, can_be_absent};
use crate::{
    Buffer, DataType, DeviceId, DeviceType, Error, ErrorKind, Event, Extent, NodePath, Queue,
    Result, Step,
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
    parts: ArrayParts,
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
        let window = Window { offset: 0, length: 0, null_count: NOT_GIVEN };
        Self { schema, window, length_given: false, parts: ArrayParts::default() }
    }

    /// Sets the number of elements. By default, a struct or a sparse union has as many elements as
    /// its first child.
    pub fn len(mut self, length: usize) -> Self {
        self.window.length = i64::try_from(length).unwrap_or(i64::MAX);
        self.length_given = true;
        self
    }

    /// Sets how many elements of the buffers come before the first element of the array. Where the
    /// array has no elements, and a buffer is absent that elements would need, the offset is 0.
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
        self.parts.buffers = buffers.into_iter().collect();
        self
    }

    /// Sets the children.
    pub fn children(mut self, children: impl IntoIterator<Item = Array>) -> Self {
        self.parts.children = children.into_iter().collect();
        self
    }

    /// Sets the values of the dictionary.
    pub fn dictionary(mut self, dictionary: Array) -> Self {
        self.parts.dictionary = Some(dictionary);
        self
    }

    /// Sets the device of an array that has neither buffers nor children, which would say where the
    /// array is. The default is the host.
    pub fn device(mut self, device: DeviceId) -> Self {
        self.parts.device = Some(device);
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
        let finished = self.finish(|events| events.ready_on(queue));
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
        let finished = self.finish(|events| Ok(events.ready_after(&event)));
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
        self.finish(|events| events.ready(others))
    }

    /// After a refusal, keeps the remaining parts until the use ends that may write to them or wait
    /// for them.
    #[cold]
    fn keep_parts(&mut self, used: impl FnOnce() -> QueueUse) {
        let owners: Vec<_> = self.parts.take_owners().collect();
        let ArrayParts { children, dictionary, .. } = std::mem::take(&mut self.parts);
        let below = (children, dictionary);
        if !owners.is_empty() || !below.0.is_empty() || below.1.is_some() {
            deferred::defer((owners, below), vec![used()], true);
        }
    }

    /// Makes the array. After a refusal, the builder still has its parts, unless a tree was made of
    /// them.
    fn finish(
        &mut self,
        ready: impl FnOnce(&PartEvents<'_>) -> Result<ReadyWhen>,
    ) -> Result<Array> {
        let schema = std::mem::replace(
            &mut self.schema,
            Err(Error::new(ErrorKind::InvalidArgument, "taken")),
        )?;
        let device = self.parts.check()?;
        if !self.length_given
            && let Some(first) = self.parts.children.first()
        {
            self.window.length = first.window().length;
        }
        self.check_counts(&schema)?;
        let layout = &schema.root().layout;
        if self.window.length == 0 {
            self.settle_absent_buffers(layout, device);
        }
        if layout.is_variadic() {
            self.add_variadic_sizes()?;
        }
        self.check_buffers(&schema)?;
        self.check_children(&schema)?;
        self.settle_null_count(&schema)?;
        let settled = self.parts.settle(device, ready)?;
        let tree = self.assemble(schema, device, settled)?;
        Ok(Array::from_tree(Shared::new(tree)?))
    }

    fn check_counts(&self, schema: &Schema) -> Result<()> {
        let data_type = schema.data_type();
        check_buffer_count(data_type, &schema.root().layout, self.parts.buffers.len())?;
        let children = schema.children(0).len();
        if self.parts.children.len() != children {
            return Err(mismatch(format!(
                "{data_type} has {children} children, not {}",
                self.parts.children.len()
            )));
        }
        if self.parts.dictionary.is_some() != schema.dictionary(0).is_some() {
            let has =
                if self.parts.dictionary.is_some() { "no dictionary" } else { "a dictionary" };
            return Err(mismatch(format!("{data_type} has {has}")));
        }
        check_end(schema.rule(0), self.window)
    }

    /// Settles what is absent of an array without elements: there is nothing before the elements
    /// either, and on the host the one offset is supplied.
    #[cold]
    fn settle_absent_buffers(&mut self, layout: &Layout, device: DeviceId) {
        let is_on_host = device.device_type == DeviceType::CPU;
        for (buffer, kind) in self.parts.buffers.iter_mut().zip(layout.buffers()) {
            if can_be_absent(*kind) || buffer.as_ref().is_some_and(|buffer| !buffer.is_null()) {
                continue;
            }
            self.window.offset = 0;
            if kind.has_one_more() && is_on_host {
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
            .parts
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
        self.parts.buffers.push((!sizes.is_empty()).then(|| sizes.into()));
        Ok(())
    }

    fn check_buffers(&self, schema: &Schema) -> Result<()> {
        let extents =
            self.parts.buffers.iter().map(|buffer| {
                buffer.as_ref().filter(|buffer| !buffer.is_null()).map(Buffer::extent)
            });
        check_buffers(&schema.root().layout, self.window, extents)
    }

    fn check_children(&self, schema: &Schema) -> Result<()> {
        let numbers = schema.children(0);
        for (index, (number, child)) in numbers.zip(&self.parts.children).enumerate() {
            let place = NodePath::new([Step::Child(index)]);
            let expected = schema.node(number).field.data_type();
            check_type(child.data_type(), expected)
                .and_then(|()| check_child_length(schema.rule(0), self.window, child.window()))
                .map_err(|error| error.at(place))?;
        }
        if let (DataType::RunEndEncoded { .. }, [run_ends, values]) =
            (schema.data_type(), &*self.parts.children)
        {
            let (run_ends, values) = (run_ends.window(), values.window());
            check_run_ends(self.window, run_ends)?;
            check_run_values(run_ends, values)?;
        }
        if let (Some(number), Some(dictionary)) = (schema.dictionary(0), &self.parts.dictionary) {
            let expected = schema.node(number).field.data_type();
            check_type(dictionary.data_type(), expected)
                .map_err(|error| error.at(NodePath::new([Step::Dictionary])))?;
        }
        Ok(())
    }

    fn settle_null_count(&mut self, schema: &Schema) -> Result<()> {
        let layout = &schema.root().layout;
        let bitmap = self.parts.buffers.first().and_then(Option::as_ref);
        let has_bitmap = layout.has_validity() && bitmap.is_some_and(|bitmap| !bitmap.is_null());
        self.window = settled_null_count(schema.data_type(), self.window, has_bitmap)?;
        Ok(())
    }

    /// Builds the tree. The root is made of the buffers, and everything below the root of the given
    /// arrays, whose tables are shared.
    fn assemble(&mut self, schema: Schema, device: DeviceId, settled: Settled) -> Result<Tree> {
        self.parts.buffers.iter_mut().flatten().try_for_each(Buffer::name_part)?;
        let pointers: Arc<[BufferPointer]> = self
            .parts
            .buffers
            .iter()
            .map(|buffer| {
                buffer.as_ref().map_or(Ok(std::ptr::null()), Buffer::c_pointer).map(BufferPointer)
            })
            .collect::<Result<_>>()?;
        let mut extents: Vec<Extent> = self
            .parts
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
        let below: Box<[Array]> = self.parts.below().cloned().collect();
        let is_of_parts = !below.is_empty();
        // Goes level by level, as the nodes of the schema are numbered. The root is node 0, so the
        // array at position `n` of the list becomes node `n + 1`.
        let mut arrays = std::mem::take(&mut self.parts.children);
        arrays.extend(self.parts.dictionary.take());
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
        let tables = Tables { extents: extents.into(), pointers };
        let owners = self.parts.take_owners().collect();
        let Settled { ready, came_without_event, came } = settled;
        let below = Below::in_order(below);
        let built = Built { nodes: Nodes::from(nodes), owners, below, came_without_event, tables };
        let mut tree = Tree::built(schema, device, ready, built);
        tree.set_parts(came, is_of_parts);
        Ok(tree)
    }
}
