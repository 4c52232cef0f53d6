//! An array in a message: its allocations, and where its nodes and buffers lie in them.
//!
//! The body begins with the number of the array and the list of its allocations, each with its
//! length and what its runtime needs to open it. Then comes a node for each array of the tree,
//! parents before their children and a dictionary last: length, offset, count of nulls, and for
//! each buffer the number of the allocation, the place there and the length. The sizes of the data
//! buffers of views are not written: the receiver makes them anew.
//!
//! A node without elements is written with the offset 0 and without buffers, so that no allocation
//! is shared for it. The exception is the buffer of offsets, which has one entry even then, and
//! which consumers of C structs read: for memory of the host the receiver makes this buffer, and
//! for memory of another device the buffer is sent.
//!
//! Writing walks over a view of the array. For each buffer the device is asked which allocation the
//! buffer lies in, unless the allocation before has it. Reading walks over the schema. What must
//! stay true: no number of a message is used before it was checked, and a buffer becomes a part of
//! an array only by a [`WithinBuilder`], which knows how long the allocation is.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_device::driver::{Addressing, HostAccess, MemoryHandle, OpenedBuffer, Raw, SharedPlace};
use arrow_device::{
    Array, Buffer, DataType, Device, DeviceId, Error, ErrorKind, Event, Extent, Layout, Memory,
    NodeView, Result, View, WithinBuilder,
};

use crate::frames;
use crate::problem::{limited, malformed, shortened};
use crate::shape::{Node, Shape};
use crate::wire::{Reader, Writer};

/// The allocation number of a buffer that is absent.
const ABSENT: u32 = u32::MAX;

/// The count of nulls that is not known.
const UNKNOWN: i64 = -1;

/// The most buffers that an array has by its type.
const MOST_FIXED: usize = 3;

/// The fewest bytes that a node takes: three numbers and the count of its buffers.
const LEAST_NODE: usize = 3 * 8 + 4;

/// An array as a message: the body, without the number and the allocations before it, and what the
/// allocations are.
#[derive(Debug)]
pub(crate) struct Described {
    nodes: Writer,
    allocations: Vec<SharedPlace>,
    numbers: HashMap<usize, u32>,
}

impl Described {
    /// Describes the array of a view. The device is that of the array. An error where there are
    /// more allocations than a message has room for.
    pub(crate) fn new(view: &View, device: &Device) -> Result<Self> {
        let mut described =
            Self { nodes: Writer::default(), allocations: Vec::new(), numbers: HashMap::new() };
        described.node(&view.root(), device, "")?;
        let count = described.allocations.len();
        let most = count.saturating_mul(LEAST_ALLOCATION + MemoryHandle::MAX_NOTE);
        frames::require_room(BEFORE_ALLOCATIONS + most + described.nodes.0.len(), count)?;
        Ok(described)
    }

    fn node(&mut self, node: &NodeView<'_>, device: &Device, name: &str) -> Result<()> {
        let offset = if node.is_empty() { 0 } else { node.offset() };
        let null_count = node.null_count().map_or(UNKNOWN, |count| count as i64);
        let layout = Layout::of(node.data_type());
        let fixed = layout.buffers().len();
        // The last buffer of views has the sizes of those before it.
        let last = usize::from(layout.is_variadic());
        let count = node.buffer_count().saturating_sub(last).max(fixed);
        self.nodes.node([node.len(), offset, null_count], u32::try_from(count).unwrap_or(u32::MAX));
        for index in 0..count {
            let len = if index < fixed { None } else { Some(node.data_buffer_len(index)?) };
            self.buffer(node, index, len, device).map_err(|error| within(error, name))?;
        }
        let data_type = node.data_type();
        for (index, field) in data_type.children().enumerate() {
            self.node(&node.child(index)?, device, field.name())?;
        }
        if data_type.dictionary_values().is_some() {
            self.node(&node.dictionary()?, device, name)?;
        }
        Ok(())
    }

    fn buffer(
        &mut self,
        node: &NodeView<'_>,
        index: usize,
        len: Option<u64>,
        device: &Device,
    ) -> Result<()> {
        let place = node.buffer(index);
        let extent = len.map_or(place.extent(), Extent::Exact);
        // Without elements only the one offset is read, which a builder supplies on the host.
        let is_needless = node.is_empty()
            && (device.id() == DeviceId::CPU || !has_offsets(node.data_type(), index));
        if is_needless || place.location().is_null() || extent == Extent::Exact(0) {
            self.absent();
            return Ok(());
        }
        let found = self.find(place.location().spot().base, device);
        if found.is_none() && node.is_empty() {
            // The one offset lies in memory that is not shared.
            self.absent();
            return Ok(());
        }
        let (number, offset, left) = found.ok_or_else(|| {
            let message = format!(
                "buffer {index} does not lie in memory that other processes can open; share a copy that `to_shareable` makes. Fixed memory of another process can be sent on where its receiver was told to pass it on"
            );
            Error::new(ErrorKind::Unsupported, message).during("share").on_device(device.id())
        })?;
        let len = match extent {
            Extent::Exact(len) | Extent::AtLeast(len) => len,
            // The data ends where the last offset says, which nobody has read: somewhere before the
            // end of the allocation.
            Extent::Unknown => left,
        };
        if len > left {
            let message = format!("buffer {index} has {len} bytes, and its allocation {left}");
            return Err(Error::new(ErrorKind::InvalidData, message).during("share"));
        }
        self.nodes.place(number, [offset, len]);
        Ok(())
    }

    fn absent(&mut self) {
        self.nodes.place(ABSENT, [0, 0]);
    }

    /// The number of the allocation that a place lies in, the offset there, and how many bytes
    /// there are from there on.
    fn find(&mut self, place: Raw<Memory>, device: &Device) -> Option<(u32, u64, u64)> {
        let is_address = device.properties().addressing == Addressing::Address;
        if is_address && let Some(last) = self.allocations.last() {
            let offset = (place.bits() as u64).wrapping_sub(last.memory.bits() as u64);
            if offset < last.len {
                let number = self.allocations.len() - 1;
                return Some((u32::try_from(number).ok()?, offset, last.len - offset));
            }
        }
        let found = device.find_shared(place)?;
        let next = u32::try_from(self.allocations.len()).ok()?;
        let number = *self.numbers.entry(found.memory.bits()).or_insert(next);
        if number == next {
            self.allocations.push(found);
        }
        Some((number, found.offset, found.len.checked_sub(found.offset)?))
    }

    /// The allocations that the array lies in.
    pub(crate) fn allocations(&self) -> &[SharedPlace] {
        &self.allocations
    }

    /// The body of the message about the array of this number, with a handle for each allocation.
    /// The descriptors of the handles go beside the message, in their order.
    pub(crate) fn body(self, number: u64, handles: &[MemoryHandle]) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(self.nodes.0.len() + 16 * (handles.len() + 1)));
        out.u64(number);
        out.u32(u32::try_from(handles.len()).unwrap_or(u32::MAX));
        for (allocation, handle) in self.allocations.iter().zip(handles) {
            out.u64(allocation.len);
            out.u8(handle.descriptor.is_some().into());
            let note = handle.note.get(..MemoryHandle::MAX_NOTE).unwrap_or(&handle.note);
            out.u16(note.len() as u16);
            out.raw(note);
        }
        out.raw(&self.nodes.0);
        out.0
    }
}

/// The number of the array and that of its allocations.
const BEFORE_ALLOCATIONS: usize = 8 + 4;

/// The fewest bytes that an allocation takes in a message.
const LEAST_ALLOCATION: usize = 8 + 1 + 2;

/// What the receiver does with messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) device: &'a Device,
    /// Whether the sender is trusted: with memory of the host that the sender can still write to,
    /// and with descriptors of a runtime that cannot tell which memory a descriptor stands for.
    pub(crate) trusts: bool,
    /// Whether the memory is to be exported again.
    pub(crate) passes_on: bool,
    /// The most bytes that one allocation may have.
    pub(crate) largest: u64,
    /// When the data is there, where it is not there yet.
    pub(crate) event: Option<&'a Event>,
}

/// The number that a message gives its array. The rest of the message may be wrong.
pub(crate) fn number_of(body: &[u8]) -> Result<u64> {
    Reader::new(body).u64()
}

/// Opens the array that a message describes. `owner` is dropped once nothing uses the array any
/// more, also if it is refused.
pub(crate) fn opened<O: Send + Sync + 'static>(
    body: &[u8],
    descriptors: Vec<std::os::fd::OwnedFd>,
    shape: &Shape,
    opening: Opening<'_>,
    owner: &Arc<O>,
) -> Result<Array> {
    let mut from = Reader::new(body);
    from.u64()?;
    let count = from.u32()? as usize;
    if count.saturating_mul(LEAST_ALLOCATION) > from.left() {
        return Err(malformed(format!("{count} allocations are announced, and are not there")));
    }
    let mut descriptors = descriptors.into_iter();
    let mut buffers = Vec::with_capacity(count);
    for number in 0..count {
        let len = from.u64()?;
        let has_descriptor = from.u8()? != 0;
        let note_len = usize::from(from.u16()?);
        if note_len > MemoryHandle::MAX_NOTE {
            return Err(malformed("the note of a handle is too long"));
        }
        let mut handle = MemoryHandle::default().with_note(from.raw(note_len)?);
        handle.is_passed_on = opening.passes_on;
        if has_descriptor {
            handle.descriptor = descriptors.next().map(Arc::new);
            if handle.descriptor.is_none() {
                return Err(malformed(format!("allocation {number} has no descriptor")));
            }
        }
        buffers.push(opening.open(handle, len, owner).map_err(|error| {
            let message = format!("allocation {number}: {}", error.message());
            Error::new(error.kind(), message).during("receive").on_device(opening.device.id())
        })?);
    }
    if descriptors.next().is_some() {
        return Err(malformed("there are more descriptors than allocations"));
    }
    let array = array(&mut from, shape, &buffers, opening)?;
    from.finish()?;
    opening.finished(array)
}

impl Opening<'_> {
    /// Makes an array of what was read, or the values of its dictionary, ready when the data is.
    fn finished(self, array: WithinBuilder) -> Result<Array> {
        match self.event {
            None => array.finish_ready(),
            // SAFETY: UNS-32: the sender says so. If it lies, or an answer of its driver comes
            // too early, then it writes to memory that is not fixed, of which `open` says why that
            // does no harm here.
            Some(event) => unsafe { array.finish_after(event.clone()) },
        }
    }

    fn open<O: Send + Sync + 'static>(
        self,
        handle: MemoryHandle,
        len: u64,
        owner: &Arc<O>,
    ) -> Result<Buffer> {
        if len > self.largest {
            let largest = self.largest;
            return Err(limited(format!("it has {len} bytes, and {largest} are the limit")));
        }
        if self.device.sharing_needs_trust() && !self.trusts {
            let message = "the runtime takes what a sender says of it for true; only a receiver that \
                           trusts its sender opens it";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // SAFETY: UNS-37: the sender holds the array, and says so by its message, until the owner
        // is dropped. A sender that lies can change memory that is not fixed. Such a buffer is
        // dropped below, unless the receiver was made to trust the sender, or nothing on the host
        // reads the memory of the device: then what the device reads is copied before it is looked
        // at. Where sharing needs trust, the receiver was made to trust the sender to have exported
        // what it sent (UNS-38).
        let opened = unsafe { self.device.open_shared(handle, len, owner.clone()) }?;
        let OpenedBuffer { buffer, is_fixed } = opened;
        let is_read_in_place = self.device.properties().host_access == HostAccess::Mapped;
        if is_fixed || self.trusts || !is_read_in_place {
            return Ok(buffer);
        }
        let message = "the sender can still write to it; send memory that no allocator uses again, \
                       or let the receiver trust its sender";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// Begins the array of a message as one tree over its allocations, which is fast where there are
/// many columns. The values of a dictionary are a tree of their own.
fn array(
    from: &mut Reader<'_>,
    shape: &Shape,
    allocations: &[Buffer],
    opening: Opening<'_>,
) -> Result<WithinBuilder> {
    let (first, more) = match allocations {
        [first, more @ ..] => (first.clone(), more),
        [] => (Buffer::null(opening.device.id()), allocations),
    };
    let builder = Array::builder_within(&shape.schema, first);
    let mut builder = more.iter().cloned().fold(builder, WithinBuilder::with_memory);
    nodes(from, &shape.root, allocations, opening, &mut builder)?;
    Ok(builder)
}

/// Gives a node, and all that is below it, to the builder.
fn nodes(
    from: &mut Reader<'_>,
    node: &Node,
    allocations: &[Buffer],
    opening: Opening<'_>,
    builder: &mut WithinBuilder,
) -> Result<()> {
    let below = node.children.len() + usize::from(node.dictionary.is_some());
    if below.saturating_mul(LEAST_NODE) > from.left() {
        return Err(malformed("a message ends before its last column"));
    }
    let (len, offset, nulls) = (from.count()?, from.count()?, from.i64()?);
    let offset = if len == 0 { 0 } else { offset };
    let count = from.u32()? as usize;
    let fixed = node.layout.buffers().len();
    if count < fixed || (count > fixed && !node.layout.is_variadic()) {
        let message = format!("{} has {fixed} buffers, and not {count}", node.data_type);
        return Err(malformed(message));
    }
    if count.saturating_mul(4 + 8 + 8) > from.left() {
        return Err(malformed(format!("{count} buffers are announced, and are not there")));
    }
    let nulls = match nulls {
        UNKNOWN => None,
        nulls => {
            let nulls = usize::try_from(nulls).ok().filter(|nulls| *nulls <= len);
            Some(nulls.ok_or_else(|| malformed("more elements are null than there are"))?)
        }
    };
    let mut places = [const { None }; MOST_FIXED];
    for place in places.iter_mut().take(fixed) {
        *place = buffer(from, allocations)?;
    }
    let places = places.into_iter().take(fixed);
    if count == fixed {
        builder.node_of(offset, len, nulls, places)?;
    } else {
        let data = (fixed..count).map(|_| buffer(from, allocations)).collect::<Result<Vec<_>>>()?;
        builder.node_of(offset, len, nulls, places.chain(data))?;
    }
    for child in &node.children {
        nodes(from, child, allocations, opening, builder)?;
    }
    if let Some(dictionary) = &node.dictionary {
        let values = array(from, dictionary, allocations, opening)?;
        builder.dictionary(opening.finished(values)?)?;
    }
    Ok(())
}

/// Whether the buffer has one entry more than there are elements.
fn has_offsets(data_type: &DataType, index: usize) -> bool {
    Layout::of(data_type).buffers().get(index).is_some_and(|kind| kind.has_one_more())
}

/// The allocation that the next buffer lies in, and its place there. `None` for a buffer that is
/// absent.
fn buffer(from: &mut Reader<'_>, allocations: &[Buffer]) -> Result<Option<(usize, Range<u64>)>> {
    let (number, offset, len) = (from.u32()?, from.u64()?, from.u64()?);
    if number == ABSENT {
        return Ok(None);
    }
    let (number, count) = (number as usize, allocations.len());
    let allocation = allocations.get(number).ok_or_else(|| {
        malformed(format!("a buffer lies in allocation {number}, and there are {count}"))
    })?;
    let extent = allocation.extent();
    let end = offset.checked_add(len).filter(|end| *end <= extent.at_least());
    let outside = || format!("bytes {offset}+{len} are not inside a buffer of {extent}");
    let end = end.ok_or_else(|| malformed(outside()))?;
    Ok(Some((number, offset..end)))
}

fn within(error: Error, name: &str) -> Error {
    if name.is_empty() {
        return error;
    }
    let message = format!("`{}`: {}", shortened(name), error.message());
    let named = Error::new(error.kind(), message).during("share");
    match error.device() {
        Some(device) => named.on_device(device),
        None => named,
    }
}
