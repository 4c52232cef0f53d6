//! Whole copies between a device and the host: every buffer of every node, nothing packed and nothing trimmed.
//!
//! Each copy is an array of its own with the windows of its source. Nothing is checked but what a copy needs: the lengths that
//! the data itself says.

use super::Array;
use super::host::{read_i32, read_i64};
use super::tree::Node;
use crate::device::driver::{Raw, Readiness, Region, Route, Spot};
use crate::{
    Buffer, BufferKind, Device, DeviceId, DeviceType, Error, ErrorKind, Event, Extent, Memory,
    Queue, Result,
};

impl Array {
    /// Copies the array to host memory, in the order of this queue, and waits for it. An array that is there already is
    /// shared and not copied; it is as ready as it was.
    ///
    /// The result equals this array, with the same offset. It costs a copy of every buffer up to the end of its array, what
    /// comes before an offset and children that are not referred to included; and one wait, or two where there is text or are
    /// bytes with offsets, because their length is in the data.
    ///
    /// ```
    /// use arrow_device::{Array, DataType, Queue};
    ///
    /// let numbers = Array::builder(DataType::Int8).len(2).buffers([None, Some(vec![1_i8, 2].into())]).finish_ready()?;
    /// assert!(numbers.to_host(&Queue::host())?.is_same(&numbers));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`NotReachable`](ErrorKind::NotReachable): the queue cannot touch the memory.
    /// * [`InvalidData`](ErrorKind::InvalidData): a last offset is negative, or past the end of a buffer whose length is known.
    pub fn to_host(&self, queue: &Queue) -> Result<Self> {
        if self.device().device_type == DeviceType::CPU {
            return Ok(self.clone());
        }
        let copied = self.copy_to_host(queue);
        copied.map_err(|error| error.during("copy to the host").on_device(self.device()))
    }

    /// Copies an array that lies in host memory to the device of this queue. Waits for the array, and for the device only where
    /// that has no events. An array that is on the host and shall stay there is shared and not copied.
    ///
    /// The result equals this array, with the same offset, and is ready after an event on the queue. The host memory is kept
    /// until the queue has passed the copy. It costs a copy of every buffer up to the end of its array, and an allocation for
    /// each.
    ///
    /// # Errors
    /// * [`Unsupported`](ErrorKind::Unsupported): the array is not in plain host memory.
    /// * [`InvalidData`](ErrorKind::InvalidData): as for [`to_host`](Self::to_host).
    pub fn to_device(&self, queue: &Queue) -> Result<Self> {
        let device = queue.device().id();
        let copied = if self.device().device_type != DeviceType::CPU {
            let message = "only host memory is copied to a device; copy it to the host first";
            Err(Error::new(ErrorKind::Unsupported, message).on_device(self.device()))
        } else if device.device_type == DeviceType::CPU {
            Ok(self.clone())
        } else {
            self.copy_to_device(queue)
        };
        copied.map_err(|error| error.during("copy to a device"))
    }

    fn copy_to_host(&self, queue: &Queue) -> Result<Self> {
        let nodes = self.nodes_below()?;
        // Keeps the memory, and has ordered the queue behind the data.
        let view = self.on(queue)?;
        let mut landing = Landing { pieces: Vec::new(), queue };
        for (node, array) in nodes.iter().enumerate() {
            for index in 0..array.copied_buffers() {
                if let Some(len) = array.len_without_data(index)? {
                    landing.add(array, node, index, len)?;
                }
            }
        }
        landing.fetch(0)?;
        let known = landing.pieces.len();
        for (node, array) in nodes.iter().enumerate() {
            if array.buffer_kind(2) == Some(BufferKind::VariableBytes) {
                let offsets = landing
                    .pieces
                    .iter()
                    .take(known)
                    .find(|piece| (piece.node, piece.index) == (node, 1));
                let last = offsets.map_or(Ok(0), |piece| array.last_offset(piece.bytes()));
                let len = last.map_err(|error| error.at(self.place_of(array)))?;
                landing.add(array, node, 2, len)?;
            }
        }
        landing.fetch(known)?;
        drop(view);
        let pieces = std::mem::take(&mut landing.pieces);
        let copies = pieces.into_iter().map(|piece| (piece.node, piece.index, piece.memory));
        rebuild(&nodes, copies, DeviceId::CPU, None)
    }

    fn copy_to_device(&self, queue: &Queue) -> Result<Self> {
        let nodes = self.nodes_below()?;
        let host = self.host()?;
        let mut regions = Vec::new();
        let mut copies = Vec::new();
        for (node, array) in nodes.iter().enumerate() {
            let on_host = host.of(array.clone());
            for index in 0..array.copied_buffers() {
                let bytes =
                    on_host.buffer(index).map_err(|error| error.at(self.place_of(array)))?;
                if bytes.is_empty() {
                    continue;
                }
                let len = bytes.len() as u64;
                let mut memory = queue.allocate(len)?;
                let from = spot(array.node(), index);
                regions.push(Region { from, to: memory.spot(queue)?, len });
                copies.push((node, index, memory));
            }
        }
        // SAFETY: the sources hold `len` bytes, as `HostArray::buffer` found, and are kept below until the queue has passed the
        // copy, the targets because they were given a spot for this queue; no two regions have a target in common.
        let submitted = unsafe { queue.copy(Route::FromHost, &regions) };
        queue.keep_until_done(self.clone());
        submitted?;
        let event = match queue.device().properties().readiness {
            Readiness::Event => Some(queue.record()?),
            Readiness::QueueOrder => None,
            Readiness::HostWait => queue.synchronize().map(|()| None)?,
        };
        rebuild(&nodes, copies, queue.device().id(), event)
    }

    fn place_of(&self, node: &Self) -> crate::Place {
        let steps = self.tree().schema.steps_between(self.node_number(), node.node_number());
        crate::Place::new(steps)
    }

    /// How many buffers are on the device. The sizes of the data buffers of views are always in host memory.
    fn copied_buffers(&self) -> usize {
        let sizes = usize::from(self.schema_node().layout.is_variadic());
        self.buffer_count().saturating_sub(sizes)
    }

    /// How many bytes of a buffer belong to the array, where host memory says so.
    fn len_without_data(&self, index: usize) -> Result<Option<u64>> {
        let elements = self.window().end().unsigned_abs();
        match self.buffer_kind(index) {
            _ if self.is_empty() || self.node().buffer(index).is_null() => Ok(Some(0)),
            Some(BufferKind::VariableBytes) => Ok(None),
            Some(kind) => Ok(kind.byte_len(elements)),
            None => self.data_buffer_len(index).map(Some),
        }
    }

    /// The last of these offsets, which is the length of the buffer behind them.
    fn last_offset(&self, offsets: &[u8]) -> Result<u64> {
        let end = self.window().end().unsigned_abs() as usize;
        let last = match self.buffer_kind(1) {
            Some(BufferKind::Offsets64) => read_i64(offsets, end),
            _ => read_i32(offsets, end).map(i64::from),
        };
        let last = last.unwrap_or(0);
        let invalid = |message| Error::new(ErrorKind::InvalidData, message);
        match (u64::try_from(last), self.extent(2)) {
            (Err(_), _) => Err(invalid(format!("the last offset is {last}"))),
            (Ok(last), Extent::Exact(len)) if last > len => {
                Err(invalid(format!("the last offset is {last}, and buffer 2 has {len} bytes")))
            }
            (Ok(last), _) => Ok(last),
        }
    }
}

fn spot(node: &Node, index: usize) -> Spot {
    Spot { base: Raw::from_ptr(node.buffer(index).cast_mut()), offset: 0 }
}

/// Host memory that a queue writes to.
struct Landing<'queue> {
    pieces: Vec<Piece>,
    queue: &'queue Queue,
}

/// A buffer on its way.
struct Piece {
    /// Which node, in the order of `nodes_below`, and which of its buffers.
    node: usize,
    index: usize,
    from: Spot,
    to: Spot,
    memory: Memory,
}

impl Piece {
    /// The bytes, after they have arrived.
    fn bytes(&self) -> &[u8] {
        let len = usize::try_from(self.memory.len()).unwrap_or(0);
        if len == 0 {
            return &[];
        }
        // SAFETY: host memory of this length, written to as a whole by the copy that `fetch` waited for, and not since.
        unsafe { std::slice::from_raw_parts(self.to.base.as_ptr().cast(), len) }
    }
}

impl Landing<'_> {
    fn add(&mut self, array: &Array, node: usize, index: usize, len: u64) -> Result<()> {
        if len == 0 || array.node().buffer(index).is_null() {
            return Ok(());
        }
        let mut memory = Device::host().allocate(len)?;
        // The host's own queue has always passed: what keeps the memory until the copy is over is `self`.
        let to = memory.spot(&Queue::host())?;
        self.pieces.push(Piece { node, index, from: spot(array.node(), index), to, memory });
        Ok(())
    }

    /// Copies the pieces from this one on, and waits.
    fn fetch(&mut self, first: usize) -> Result<()> {
        let pieces = self.pieces.get(first..).unwrap_or_default();
        if pieces.is_empty() {
            return Ok(());
        }
        let regions: Vec<Region> = pieces
            .iter()
            .map(|Piece { from, to, memory, .. }| Region {
                from: *from,
                to: *to,
                len: memory.len(),
            })
            .collect();
        // SAFETY: the sources hold as many bytes, by the contract of import or by how they were built, and the view of
        // `copy_to_host` keeps them; the targets were allocated with this length for this piece alone, and are kept until the
        // wait below has succeeded, or for ever.
        let submitted = unsafe { self.queue.copy(Route::ToHost, &regions) };
        let finished = self.queue.synchronize();
        if finished.is_err() {
            // Nobody knows whether the device still writes there.
            std::mem::forget(std::mem::take(&mut self.pieces));
        }
        submitted.and(finished)
    }
}

/// The same arrays over other buffers: the last node first, so that children are there before their parents.
fn rebuild(
    nodes: &[Array],
    copies: impl IntoIterator<Item = (usize, usize, Memory)>,
    device: DeviceId,
    event: Option<Event>,
) -> Result<Array> {
    let mut buffers: Vec<Vec<Option<Buffer>>> =
        nodes.iter().map(|array| vec![None; array.copied_buffers()]).collect();
    for (node, index, memory) in copies {
        if let Some(slot) = buffers.get_mut(node).and_then(|buffers| buffers.get_mut(index)) {
            *slot = Some(memory.into_buffer());
        }
    }
    // Those that have no parent yet. Of one parent they lie together, the first child last.
    let mut waiting: std::collections::VecDeque<Array> = std::collections::VecDeque::new();
    for (array, buffers) in nodes.iter().zip(buffers).rev() {
        let below = array.child_count() + usize::from(array.node_dictionary().is_some());
        // Nodes lie level by level, so the children of the last node without any are the first to have come.
        let mut children: Vec<Array> = waiting.drain(..below.min(waiting.len())).rev().collect();
        let mut builder = Array::builder(array.schema()?)
            .device(device)
            .offset(array.offset())
            .len(array.len())
            .buffers(buffers);
        if let Some(null_count) = array.null_count() {
            builder = builder.null_count(null_count);
        }
        if array.node_dictionary().is_some()
            && let Some(dictionary) = children.pop()
        {
            builder = builder.dictionary(dictionary);
        }
        let builder = builder.children(children);
        waiting.push_back(match &event {
            Some(event) => builder.finish_after(event.clone()),
            None => builder.finish_ready(),
        }?);
    }
    waiting.pop_back().ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "there is no array"))
}
