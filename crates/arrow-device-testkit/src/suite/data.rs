//! Helpers of the suite: reading bytes back, building arrays, comparing.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::driver::{Driver, Raw, Region, Route, Spot, Waiting};
use arrow_device::{
    Array, ArrayBuilder, Buffer, DeviceId, Field, HostArray, NodeView, Queue, Result, Schema, View,
};

use super::pace::Pace;
use crate::consumer::{self, Seen, SeenSchema};
use crate::ledger::{Bytes, Ledger};
use crate::plan::{Content, Plan};
use crate::{Verdict, require};

/// Returns the text of an error.
pub(super) fn text(error: arrow_device::Error) -> String {
    error.to_string()
}

/// Structs that are released unless they are handed over.
pub(super) struct HeldStructs {
    pub(super) schema: ArrowSchema,
    pub(super) array: ArrowDeviceArray,
}

impl HeldStructs {
    /// Moves the array out.
    pub(super) fn take_array(&mut self) -> ArrowDeviceArray {
        std::mem::replace(&mut self.array, ArrowDeviceArray::empty())
    }
}

impl Drop for HeldStructs {
    fn drop(&mut self) {
        let _ = consumer::release(consumer::move_out(&raw mut self.schema));
        let _ = consumer::release(consumer::move_out(&raw mut self.array.array));
    }
}

// ---- what an array says of itself

/// Returns the contents of an array, with addresses as a view tells them.
pub(super) fn seen_by(view: &View) -> Seen {
    seen(&view.root(), view.array())
}

fn seen(node: &NodeView<'_>, array: &Array) -> Seen {
    let buffer = |index| node.buffer(index).location().handle().0.expose_provenance();
    Seen {
        length: node.len(),
        null_count: array.null_count().map_or(-1, |count| count as i64),
        offset: node.offset(),
        buffers: (0..node.buffer_count()).map(buffer).collect(),
        children: (0..array.child_count())
            .map(|index| seen(&node.child(index).unwrap(), &array.child(index).unwrap()))
            .collect(),
        dictionary: (array.dictionary())
            .map(|values| Box::new(seen(&node.dictionary().unwrap(), &values))),
    }
}

/// Returns the contents that a consumer should see of an array that was built from this plan, with
/// its buffers at these places, node by node.
pub(super) fn planned(
    plan: &Plan,
    schema: &SeenSchema,
    places: &mut dyn Iterator<Item = usize>,
) -> Seen {
    let mut buffers: Vec<usize> = plan
        .buffers
        .iter()
        .take(plan.device_buffers())
        .map(
            |content| if matches!(content, Content::Null) { 0 } else { places.next().unwrap_or(0) },
        )
        .collect();
    // The builder itself makes the sizes of view data buffers, and only it knows where they are.
    buffers.resize(plan.buffers.len(), 0);
    let null_count = if plan.length == 0 { 0 } else { plan.null_count };
    let own = Seen {
        length: plan.length,
        null_count,
        offset: plan.offset,
        buffers,
        children: vec![],
        dictionary: None,
    };
    let own_schema = SeenSchema { children: vec![], dictionary: None, ..schema.clone() };
    let children = plan.children.iter().zip(&schema.children);
    let children = children.map(|(plan, schema)| planned(plan, schema, places)).collect();
    let dictionary = plan.dictionary.as_deref().zip(schema.dictionary.as_deref());
    let dictionary = dictionary.map(|(plan, schema)| Box::new(planned(plan, schema, places)));
    Seen { children, dictionary, ..own.with_known_nulls(&own_schema) }
}

/// Removes the buffers that the builder itself supplies, and only the builder knows where they are:
/// the sizes of view data buffers, and the one offset of an array without elements whose buffer of
/// offsets is absent in `planned`.
pub(super) fn without_supplied(mut seen: Seen, planned: &Seen, schema: &SeenSchema) -> Seen {
    let has_offsets = matches!(&*schema.format, b"z" | b"Z" | b"u" | b"U" | b"+l" | b"+L" | b"+m");
    let is_absent = planned.buffers.get(1) == Some(&0) && planned.offset + planned.length == 0;
    let supplied = if schema.format.starts_with(b"v") {
        seen.buffers.last_mut()
    } else if has_offsets && is_absent {
        seen.buffers.get_mut(1)
    } else {
        None
    };
    if let Some(buffer) = supplied {
        *buffer = 0;
    }
    let below = seen.children.into_iter().zip(&planned.children).zip(&schema.children);
    seen.children =
        below.map(|((child, planned), schema)| without_supplied(child, planned, schema)).collect();
    let below = seen.dictionary.zip(planned.dictionary.as_deref());
    seen.dictionary = below
        .zip(schema.dictionary.as_deref())
        .map(|((values, planned), schema)| Box::new(without_supplied(*values, planned, schema)));
    seen
}

// ---- bytes

/// Bytes of a device on their way to the host.
pub(super) struct Landing {
    expected: Vec<Vec<u8>>,
    bytes: Vec<Vec<u8>>,
}

impl Landing {
    /// Submits copies of all buffers of a view to its queue.
    pub(super) fn of(view: &View, plan: &Plan, pace: Pace<'_>) -> Result<Self> {
        Self::submit(view.queue(), parts(view, plan), pace)
    }

    /// Submits copies of these bytes of the queue's device.
    pub(super) fn submit(
        queue: &Queue,
        parts: Vec<(Spot, Vec<u8>)>,
        pace: Pace<'_>,
    ) -> Result<Self> {
        let whole = |expected: &Vec<u8>| pace.whole(queue, expected.len());
        let bytes = parts.iter().map(|(_, expected)| vec![0xa5; whole(expected)]).collect();
        let expected = parts.iter().map(|(_, expected)| expected.clone()).collect();
        let mut landing = Self { expected, bytes };
        let to = |bytes: &mut Vec<u8>| Spot {
            base: Raw::from_ptr(bytes.as_mut_ptr().cast()),
            offset: 0,
        };
        let regions: Vec<Region> = landing
            .bytes
            .iter_mut()
            .zip(&parts)
            .map(|(bytes, (from, _))| Region {
                from: *from,
                to: to(bytes),
                len: bytes.len() as u64,
            })
            .collect();
        // SAFETY: the sources hold as many bytes, as the plan says, or whole units of them (DRV-9);
        // the targets are kept until the queue has passed.
        unsafe { queue.copy(Route::ToHost, &regions) }?;
        Ok(landing)
    }

    /// Waits for the bytes and compares them with the expected ones.
    pub(super) fn finish(mut self, queue: &Queue, pace: Pace<'_>) -> Verdict {
        pace.synchronize(queue).map_err(text)?;
        for (bytes, expected) in self.bytes.iter().zip(&self.expected) {
            let bytes = &bytes[..expected.len()];
            require(bytes == expected, || difference(bytes, expected))?;
        }
        self.bytes = Vec::new();
        Ok(())
    }

    /// Whether the expected bytes are there, as far as the host sees now.
    pub(super) fn has_landed(&self) -> bool {
        let mut both = self.bytes.iter().zip(&self.expected);
        both.all(|(bytes, expected)| bytes.starts_with(expected))
    }

    /// Makes a target for bytes that the caller copies, with the bytes that are expected in the
    /// end.
    pub(super) fn around(before: Vec<u8>, expected: Vec<u8>) -> Self {
        Self { bytes: vec![before], expected: vec![expected] }
    }

    /// Returns the place of the first bytes in host memory.
    pub(super) fn spot(&self) -> Spot {
        let address = self.bytes.first().map_or(std::ptr::null(), |bytes| bytes.as_ptr());
        Spot { base: Raw::from_ptr(address.cast_mut().cast()), offset: 0 }
    }
}

/// How many bytes are shown in full.
const SHOWN: usize = 64;

/// Shows the bytes, or where they differ.
fn difference(bytes: &[u8], expected: &[u8]) -> String {
    if bytes.len() <= SHOWN {
        return format!("reads {bytes:x?} and not {expected:x?}");
    }
    let at = bytes.iter().zip(expected).position(|(one, other)| one != other).unwrap_or(0);
    let wrong = bytes.iter().zip(expected).filter(|(one, other)| one != other).count();
    let part = |bytes: &[u8]| format!("{:x?}", &bytes[at..bytes.len().min(at + 8)]);
    let (found, planned) = (part(bytes), part(expected));
    format!(
        "reads {found} and not {planned} at byte {at}, and {wrong} of {} are wrong",
        bytes.len()
    )
}

impl Drop for Landing {
    fn drop(&mut self) {
        // The device may still write there.
        std::mem::forget(std::mem::take(&mut self.bytes));
    }
}

/// Returns the places of a plan's bytes, as a view tells them.
pub(super) fn parts(view: &View, plan: &Plan) -> Vec<(Spot, Vec<u8>)> {
    let mut parts = Vec::new();
    parts_of_view(&view.root(), plan, &mut parts);
    parts
}

fn parts_of_view(node: &NodeView<'_>, plan: &Plan, parts: &mut Vec<(Spot, Vec<u8>)>) {
    for index in 0..plan.device_buffers() {
        if let Content::Bytes(bytes) = &plan.buffers[index]
            && !bytes.is_empty()
        {
            parts.push((node.buffer(index).location().spot(), bytes.clone()));
        }
    }
    for (index, child) in plan.children.iter().enumerate() {
        parts_of_view(&node.child(index).unwrap(), child, parts);
    }
    if let Some(values) = &plan.dictionary {
        parts_of_view(&node.dictionary().unwrap(), values, parts);
    }
}

/// Returns the places of a plan's bytes as the C structs show them, for a reader who has nothing
/// else.
pub(super) fn parts_of_struct(
    array: &arrow_device::abi::ArrowArray,
    plan: &Plan,
    parts: &mut Vec<(Spot, Vec<u8>)>,
) {
    for index in 0..plan.device_buffers() {
        if let Content::Bytes(bytes) = &plan.buffers[index]
            && !bytes.is_empty()
        {
            // SAFETY: the array has as many buffers as its plan, as was compared before.
            let buffer = unsafe { array.buffers.wrapping_add(index).read() };
            let base = Raw::from_ptr(buffer.cast_mut());
            parts.push((Spot { base, offset: 0 }, bytes.clone()));
        }
    }
    for (index, child) in plan.children.iter().enumerate() {
        // SAFETY: the array has as many children as its plan, as was compared before.
        let node = unsafe { array.children.wrapping_add(index).read() };
        // SAFETY: each child of an array that was imported is a struct that stays until the release
        // (UNS-3).
        parts_of_struct(unsafe { &*node }, child, parts);
    }
    if let Some(values) = &plan.dictionary {
        // SAFETY: the array has a dictionary where its plan has one, as was compared before, and it
        // stays until the release (UNS-3).
        parts_of_struct(unsafe { &*array.dictionary }, values, parts);
    }
}

/// Makes a queue wait for the event that an array shows, using only the driver.
pub(super) fn wait_for(queue: &Queue, sync_event: *mut c_void, pace: Pace<'_>) -> Verdict {
    let Some(sync_event) = NonNull::new(sync_event) else { return Ok(()) };
    let driver: &Arc<dyn Driver> = queue.device().driver();
    // SAFETY: the array that shows the event is not released.
    let event = unsafe { driver.read_sync_event(sync_event) }.map_err(text)?;
    // SAFETY: UNS-22: the array that shows the event is not released, and the queue is alive.
    match unsafe { driver.wait(queue.raw(), event) }.map_err(text)? {
        Waiting::Queued => Ok(()),
        Waiting::HostMustWait => {
            // SAFETY: UNS-22: the array that shows the event is not released.
            unsafe { pace.wait_for_raw(&**driver, event) }.map_err(text)
        }
    }
}

/// Checks that each buffer that the host reads is as planned, as far as the elements need it.
pub(super) fn compare_on_host(array: &HostArray, plan: &Plan) -> Verdict {
    for (index, content) in plan.buffers.iter().enumerate() {
        let bytes = array.buffer(index).map_err(text)?;
        let planned = match content {
            Content::Bytes(bytes) => bytes.as_slice(),
            _ => &[],
        };
        require(planned.starts_with(&bytes), || {
            format!("reads {:x?} and not {planned:x?}", &bytes[..])
        })?;
        let is_read = plan.length > 0 && !planned.is_empty();
        require(!is_read || !bytes.is_empty(), || "reads no bytes".into())?;
    }
    for (index, child) in plan.children.iter().enumerate() {
        compare_on_host(&array.child(index).map_err(text)?, child)?;
    }
    match (array.dictionary(), &plan.dictionary) {
        (Some(values), Some(plan)) => compare_on_host(&values, plan),
        (None, None) => Ok(()),
        _ => Err("a dictionary is missing, or there is one too many".into()),
    }
}

// ---- building

/// Returns the type of a plan as a schema of the library.
pub(super) fn schema_of(plan: &Plan) -> Result<Schema> {
    let mut c_schema = crate::producer::schema(plan, &Ledger::new());
    // SAFETY: a schema of ours, by the rules.
    unsafe { Schema::import(&mut c_schema) }
}

/// Makes a buffer from bytes.
pub(super) type PlaceBytes<'a> = dyn FnMut(&[u8]) -> Result<Buffer> + 'a;

/// Builds an array of this plan in host memory that a ledger counts.
pub(super) fn on_host(plan: &Plan, ledger: &Arc<Ledger>) -> Result<Array> {
    let mut place = |contents: &[u8]| {
        let bytes = Bytes::new(contents.to_vec(), ledger);
        // SAFETY: the bytes are the buffer's owner.
        Ok(unsafe { Buffer::foreign(DeviceId::CPU, bytes.address(), bytes.len(), bytes) })
    };
    build(plan, schema_of(plan)?.field().clone(), DeviceId::CPU, &mut place)?.finish_ready()
}

/// Gives everything that a plan says to a builder. Children are finished.
pub(super) fn build(
    plan: &Plan,
    field: Field,
    device: DeviceId,
    place: &mut PlaceBytes<'_>,
) -> Result<ArrayBuilder> {
    let schema = Schema::new(field.clone())?;
    let data_type = field.data_type();
    let mut buffers = Vec::new();
    // The builder makes the sizes of view data buffers.
    for content in plan.buffers.iter().take(plan.device_buffers()) {
        buffers.push(match content {
            Content::Bytes(bytes) => Some(place(bytes)?),
            _ => None,
        });
    }
    let mut children = Vec::new();
    for (plan, field) in plan.children.iter().zip(data_type.children()) {
        children.push(build(plan, field.clone(), device, place)?.finish_ready()?);
    }
    let mut builder = Array::builder(&schema)
        .device(device)
        .len(plan.length as usize)
        .offset(plan.offset as usize)
        .buffers(buffers)
        .children(children);
    if let (Some(values), Some(field)) = (&plan.dictionary, data_type.dictionary_values()) {
        let values = build(values, field.clone(), device, place)?.finish_ready()?;
        builder = builder.dictionary(values);
    }
    let has_bitmap = !matches!(plan.buffers.first(), None | Some(Content::Null));
    if plan.null_count >= 0 && has_bitmap && !plan.format.to_bytes().starts_with(b"+u") {
        builder = builder.null_count(plan.null_count as usize);
    }
    Ok(builder)
}
