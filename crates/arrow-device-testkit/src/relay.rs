//! Relays: peers that take a schema and an array over from one side and hand the same on to
//! another.
//!
//! [`Ours`] is the library. [`Handwritten`] is a small relay made of a box for each node. It is
//! right unless it is given a fault. Each fault breaks one rule, to see that [`check_relay`] finds
//! it.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Schema};

use crate::consumer::{self, Order, Seen, SeenSchema};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::producer::{self, Manner};
use crate::{Verdict, require};

/// A relay. If it refuses a struct, it has released it.
pub trait Relay {
    /// Takes both structs over, and makes the structs that are handed on.
    fn relay(
        &self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<(ArrowSchema, ArrowDeviceArray), String>;
}

/// The library, as a relay and as an importer of hostile structs.
#[derive(Clone, Copy, Debug)]
pub struct Ours;

impl Relay for Ours {
    fn relay(
        &self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<(ArrowSchema, ArrowDeviceArray), String> {
        let text = |error: arrow_device::Error| error.to_string();
        // Without its schema an array cannot be taken over, so it is released here.
        let schema = unsafe { Schema::import(schema) }.map_err(|error| {
            release(&mut array.array);
            text(error)
        })?;
        let array = unsafe { Array::import(array, &schema) }.map_err(text)?;
        let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        // The consumer's memory holds arbitrary bytes.
        c_array.reserved = [-1; 3];
        array.schema().and_then(|schema| schema.export(&mut c_schema)).map_err(text)?;
        array.export(&mut c_array).map_err(text)?;
        Ok((c_schema, c_array))
    }
}

/// A mistake of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayFault {
    /// Hands on copies, at other addresses.
    CopiesBuffers,
    /// Hands on an offset of 0.
    ForgetsOffset,
    /// Hands on a null count of its own.
    InventsNullCount,
    /// Keeps only 32 bits of the device id.
    TruncatesDeviceId,
    /// Says that every array is on the host.
    ForgetsDeviceType,
    /// Says that every array is ready.
    DropsEvent,
    /// Does not write `reserved`.
    LeavesGarbageInReserved,
    /// Takes the struct over and does not mark it as moved.
    LeavesSourceUnreleased,
    /// Never releases what it took over.
    Leaks,
    /// Releases while its own consumer still has the array.
    ReleasesEarly,
    /// Calls the release of the base twice.
    ReleasesTwice,
    /// Calls the children's releases before that of the base.
    ReleasesChildren,
    /// Calls the children's releases after that of the base.
    ReleasesChildrenLast,
    /// Keeps the address of a struct that is moved.
    KeepsAddressOfStruct,
    /// Takes the buffers of children away that were moved out.
    EndsMovedChildren,
    /// Does not mark a struct as released in the release of that struct.
    LeavesReleaseSet,
    /// Writes to a buffer.
    WritesData,
    /// Reads a buffer on the host.
    ReadsData,
    /// Keeps only 8 bits of the device type.
    TruncatesDeviceType,
    /// Keeps only the flag that it knows.
    LosesFlags,
    /// Hands on a schema without names.
    LosesNames,
    /// Hands on a schema without metadata, so that extension types become their storage.
    LosesMetadata,
    /// Hands on dictionary-encoded types as their indices.
    LosesDictionary,
    /// Refuses dictionaries.
    RefusesDictionaries,
}

/// A relay with at most one fault.
#[derive(Clone, Copy, Debug)]
pub struct Handwritten(pub Option<RelayFault>);

struct HeldBase {
    base: ArrowDeviceArray,
    fault: Option<RelayFault>,
}

// SAFETY: the specification lets a struct be used and released on any thread.
unsafe impl Send for HeldBase {}
// SAFETY: the specification lets a struct be used on any thread, and nothing in it changes.
unsafe impl Sync for HeldBase {}

impl Drop for HeldBase {
    fn drop(&mut self) {
        let fault = self.fault;
        if fault == Some(RelayFault::Leaks) {
            return;
        }
        let copy = ArrowDeviceArray { ..unsafe { ptr::read(&self.base) } };
        if fault == Some(RelayFault::ReleasesChildren) {
            release_below(&copy.array);
        }
        release(&mut self.base.array);
        if fault == Some(RelayFault::ReleasesTwice) {
            release(&mut { copy }.array);
        } else if fault == Some(RelayFault::ReleasesChildrenLast) {
            release_below(&copy.array);
        }
    }
}

fn release(array: &mut ArrowArray) {
    if let Some(release) = array.release {
        unsafe { release(array) };
    }
}

fn release_below(array: &ArrowArray) {
    for index in 0..array.n_children as usize {
        release(unsafe { &mut **array.children.add(index) });
    }
}

/// The data that a node of [`Handwritten`] owns.
struct NodeData {
    held: Arc<HeldBase>,
    address: *const ArrowArray,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    /// The data of the children when they were made, wherever the children are now.
    of_children: Vec<*mut NodeData>,
    dictionary: *mut ArrowArray,
    _copies: Vec<Vec<u64>>,
}

impl Relay for Handwritten {
    fn relay(
        &self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<(ArrowSchema, ArrowDeviceArray), String> {
        let fault = self.0;
        if fault == Some(RelayFault::RefusesDictionaries) && !schema.dictionary.is_null() {
            consumer::release(consumer::move_out(schema))?;
            consumer::release(consumer::move_out(&raw mut array.array))?;
            return Err("dictionaries are beyond me".into());
        }
        let (device_id, device_type, sync_event) =
            (array.device_id, array.device_type, array.sync_event);
        let moved = ArrowDeviceArray {
            array: unsafe { ptr::read(&array.array) },
            device_id,
            device_type,
            sync_event,
            reserved: [0; 3],
        };
        if fault != Some(RelayFault::LeavesSourceUnreleased) {
            array.array.release = None;
        }
        if let (Some(RelayFault::ReadsData | RelayFault::WritesData), Some(buffer)) =
            (fault, first_buffer(&moved.array))
        {
            let byte = unsafe { buffer.read_volatile() };
            if fault == Some(RelayFault::WritesData) {
                unsafe { buffer.write(!byte) };
            }
        }
        let held = Arc::new(HeldBase { base: moved, fault });
        let mut node = copy(&held.base.array, &held, None);
        if fault == Some(RelayFault::ReleasesEarly) {
            release(&mut ArrowArray { ..unsafe { ptr::read(&held.base.array) } });
            std::mem::forget(held);
        }
        match fault {
            Some(RelayFault::ForgetsOffset) => node.offset = 0,
            Some(RelayFault::InventsNullCount) => node.null_count = node.length + 1,
            _ => {}
        }
        let out = ArrowDeviceArray {
            array: node,
            device_id: if fault == Some(RelayFault::TruncatesDeviceId) {
                i64::from(device_id as i32)
            } else {
                device_id
            },
            device_type: match fault {
                Some(RelayFault::ForgetsDeviceType) => 1,
                Some(RelayFault::TruncatesDeviceType) => i32::from(device_type as u8),
                _ => device_type,
            },
            sync_event: if fault == Some(RelayFault::DropsEvent) {
                ptr::null_mut()
            } else {
                sync_event
            },
            reserved: [i64::from(fault == Some(RelayFault::LeavesGarbageInReserved)); 3],
        };
        let mut schema = consumer::move_out(schema);
        match fault {
            Some(RelayFault::LosesFlags) => schema.flags &= 2,
            Some(RelayFault::LosesNames) => schema.name = ptr::null(),
            Some(RelayFault::LosesMetadata) => schema.metadata = ptr::null(),
            Some(RelayFault::LosesDictionary) => schema.dictionary = ptr::null_mut(),
            _ => {}
        }
        Ok((schema, out))
    }
}

impl Handwritten {
    /// Tells a base structure of this relay where it lies now. A peer in C, which writes the struct
    /// there itself, knows that.
    pub fn settle_at(node: *mut ArrowArray) {
        unsafe { (*(*node).private_data.cast::<NodeData>()).address = node };
    }
}

/// Returns the first buffer that is there.
fn first_buffer(array: &ArrowArray) -> Option<*mut u8> {
    let own = (0..array.n_buffers as usize).map(|index| unsafe { *array.buffers.add(index) });
    let own = own.map(|buffer| buffer.cast_mut().cast()).find(|buffer: &*mut u8| !buffer.is_null());
    let below = || {
        let child = |index: i64| unsafe { &**array.children.add(index as usize) };
        (0..array.n_children).find_map(|index| first_buffer(child(index)))
    };
    own.or_else(below)
}

fn copy(source: &ArrowArray, held: &Arc<HeldBase>, at: Option<*const ArrowArray>) -> ArrowArray {
    let fault = held.fault;
    let below = |source: *mut ArrowArray| {
        let node = Box::into_raw(Box::new(ArrowArray::empty()));
        unsafe { *node = copy(&*source, held, Some(node)) };
        node
    };
    let mut copies = Vec::new();
    let mut buffers: Vec<*const c_void> = (0..source.n_buffers as usize)
        .map(|index| unsafe { *source.buffers.add(index) })
        .map(|buffer| {
            if fault != Some(RelayFault::CopiesBuffers) || buffer.is_null() {
                return buffer;
            }
            copies.push(vec![0_u64; 8]);
            copies.last().unwrap().as_ptr().cast()
        })
        .collect();
    let mut children: Vec<*mut ArrowArray> = (0..source.n_children as usize)
        .map(|index| below(unsafe { *source.children.add(index) }))
        .collect();
    let of_children =
        children.iter().map(|child| unsafe { (**child).private_data.cast() }).collect();
    let dictionary =
        if source.dictionary.is_null() { ptr::null_mut() } else { below(source.dictionary) };
    ArrowArray {
        // A peer that does not look at a bitmap knows only what the source says.
        null_count: source.null_count,
        length: source.length,
        offset: source.offset,
        n_buffers: source.n_buffers,
        n_children: source.n_children,
        buffers: buffers.as_mut_ptr(),
        children: children.as_mut_ptr(),
        dictionary,
        release: Some(release_node),
        private_data: Box::into_raw(Box::new(NodeData {
            held: held.clone(),
            address: at.unwrap_or(ptr::null()),
            buffers,
            children,
            of_children,
            dictionary,
            _copies: copies,
        }))
        .cast(),
    }
}

unsafe extern "C" fn release_node(node: *mut ArrowArray) {
    let private = unsafe { (*node).private_data.cast::<NodeData>() };
    let fault = unsafe { &*private }.held.fault;
    if fault == Some(RelayFault::KeepsAddressOfStruct) && unsafe { (*private).address } != node {
        unsafe { (*node).release = None };
        return;
    }
    let private = unsafe { Box::from_raw(private) };
    for (index, below) in private.children.iter().copied().chain([private.dictionary]).enumerate() {
        if below.is_null() {
            continue;
        }
        if fault == Some(RelayFault::EndsMovedChildren) && index < private.children.len() {
            let child = unsafe { &*private.of_children[index] };
            child.buffers.iter().enumerate().for_each(|(index, _)| {
                unsafe { *child.buffers.as_ptr().cast_mut().add(index) = ptr::null() };
            });
        }
        if let Some(release) = unsafe { (*below).release } {
            unsafe { release(below) };
        }
        drop(unsafe { Box::from_raw(below) });
    }
    if fault != Some(RelayFault::LeavesReleaseSet) {
        unsafe { (*node).release = None };
    }
    if fault == Some(RelayFault::EndsMovedChildren) {
        // The parent looks at the data even after this.
        let private = Box::leak(private);
        unsafe { ptr::drop_in_place(&raw mut private.held) };
    }
}

/// Where an array is said to lie, and what it waits for.
#[derive(Clone, Copy, Debug)]
pub struct On {
    /// The type of device.
    pub device_type: i32,
    /// The number of the device.
    pub device_id: i64,
    /// The event, or null.
    pub sync_event: *mut c_void,
}

impl On {
    /// The host.
    pub const CPU: Self = Self::device(1, -1);

    /// Returns a device, with an array that is ready now.
    pub const fn device(device_type: i32, device_id: i64) -> Self {
        Self { device_type, device_id, sync_event: ptr::null_mut() }
    }
}

/// Checks that a relay hands on what it was given: the same values, addresses, device and event. It
/// has to take the structs over by a move, and to release each base once, only after its own
/// consumer has released everything, in any order and from any address. It may call nothing else,
/// and write to nothing.
pub fn check_relay(
    relay: &dyn Relay,
    plan: &Plan,
    on: On,
    manner: Manner,
    order: Order,
) -> Verdict {
    let (schema_ledger, ledger) = (Ledger::new(), Ledger::new());
    let mut schema = producer::schema(plan, &schema_ledger);
    let base = producer::array_in_manner(plan, &ledger, manner);
    let mut array = producer::on_device(base, on.device_type, on.device_id);
    array.sync_event = on.sync_event;
    let expected_schema = SeenSchema::of(&schema);
    let expected = Seen::of(&array.array).with_known_nulls(&expected_schema);

    let (c_schema, c_array) = relay.relay(&mut schema, &mut array)?;
    require(schema.is_released() && array.is_released(), || {
        "the source was not marked as released".into()
    })?;
    require(ledger.base_releases() == 0, || {
        "the array was released while its consumer has it".into()
    })?;
    let seen_schema = SeenSchema::of(&c_schema);
    require(seen_schema == expected_schema, || {
        format!("the schema is {seen_schema:?} and was {expected_schema:?}")
    })?;
    Seen::of(&c_array.array).with_known_nulls(&seen_schema).require_same(&expected)?;
    require((c_array.device_type, c_array.device_id) == (on.device_type, on.device_id), || {
        format!("it lies on {}:{} now", c_array.device_type, c_array.device_id)
    })?;
    require(c_array.sync_event == on.sync_event, || "the event is another one now".into())?;
    require(c_array.reserved == [0; 3], || "`reserved` is not zero".into())?;

    let c_array = consumer::move_and_scribble(c_array);
    if order == Order::Half {
        consumer::release(c_schema)?;
        consumer::release_in_order(c_array.array, order)?;
    } else {
        consumer::release_in_order(c_array.array, order)?;
        consumer::release(c_schema)?;
    }
    schema_ledger.settle(1)?;
    ledger.settle(1)
}
