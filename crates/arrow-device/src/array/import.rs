//! Reading an `ArrowDeviceArray`.
//!
//! The base structure is moved in and kept whole, behind one owner that releases it once. What the structs of the tree say is
//! copied into a table of nodes, each struct read once; whatever host memory can show to be wrong is found on the way. No
//! buffer is read, nothing is waited for, and no driver is called.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::tree::{ForeignArray, Node, Nodes, Pending, Readiness, Storage, Tree};
use super::{Array, Window};
use crate::abi::{ArrowArray, ArrowDeviceArray};
use crate::convention;
use crate::device::account::Direction;
use crate::pending;
use crate::schema::{Check, Schema};
use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

impl Array {
    /// Takes an array over from the producer that filled the struct.
    ///
    /// The struct is moved: the source is marked released, whatever the outcome, and the producer's `release` is called once,
    /// when the last use of the data is over, or before this returns an error.
    ///
    /// Everything that can be checked without a device is checked, for every node: see the errors below. Nothing is read
    /// through a buffer pointer, and nothing is waited for.
    ///
    /// # Errors
    /// * [`Released`](ErrorKind::Released): the struct, or one inside it, is released.
    /// * [`Malformed`](ErrorKind::Malformed): a negative or overflowing length or offset, a null count out of range, a missing
    ///   table or buffer, an event on a device that has none.
    /// * [`SchemaMismatch`](ErrorKind::SchemaMismatch): other numbers of buffers or children than the type has.
    ///
    /// # Safety
    /// `array` is null, or points to a struct that may be read and written and that holds what the Arrow C device interface
    /// says: either it is released, or
    ///
    /// * every pointer that is not null points to what the interface describes: `buffers` to `n_buffers` entries, `children`
    ///   to `n_children`, each null or a struct of the same kind,
    /// * buffers that are not null lie on the device that is named and cover `offset + length` elements once `sync_event` has
    ///   passed, and are not written to until the release,
    /// * `sync_event` is null or what the convention of the device's type says (see [`convention`]), until the release,
    /// * `release` can be called once, on any thread.
    ///
    /// Everything that the errors name need not be ruled out.
    pub unsafe fn import(array: *mut ArrowDeviceArray, schema: &Schema) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let Some(source) = (unsafe { array.as_mut() }) else {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "no array: a null pointer").during("import")
            );
        };
        let moved = take(source);
        // SAFETY: as promised by the caller.
        unsafe { import(ForeignArray(moved), schema) }
    }

    /// Takes over a plain `ArrowArray`, which lies in host memory and is ready.
    ///
    /// # Safety
    /// As for [`import`](Self::import), with the buffers in host memory.
    pub unsafe fn import_host(array: *mut ArrowArray, schema: &Schema) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let Some(source) = (unsafe { array.as_mut() }) else {
            return Err(
                Error::new(ErrorKind::InvalidArgument, "no array: a null pointer").during("import")
            );
        };
        let moved = ArrowDeviceArray {
            array: std::mem::replace(source, ArrowArray::empty()),
            device_id: DeviceId::CPU.id,
            device_type: DeviceType::CPU.0,
            sync_event: ptr::null_mut(),
            reserved: [0; 3],
        };
        // SAFETY: as promised by the caller.
        unsafe { import(ForeignArray(moved), schema) }
    }
}

/// Moves a base structure out: "the consumer can *move* the structure by bitwise copying", and then the source "MUST" be
/// marked as released.
fn take(source: &mut ArrowDeviceArray) -> ArrowDeviceArray {
    let array = std::mem::replace(&mut source.array, ArrowArray::empty());
    let ArrowDeviceArray { device_id, device_type, sync_event, .. } = *source;
    // `reserved` is not looked at: shipped producers leave garbage there.
    ArrowDeviceArray { array, device_id, device_type, sync_event, reserved: [0; 3] }
}

/// # Safety
/// As for [`Array::import`].
unsafe fn import(foreign: ForeignArray, schema: &Schema) -> Result<Array> {
    // SAFETY: as promised by the caller.
    let Checked { device, ready, nodes } =
        unsafe { check(&foreign.0, schema) }.map_err(|error| error.during("import"))?;
    let mut tree =
        Tree::new(schema.clone(), device, ready, nodes, Storage::Foreign { _base: foreign });
    tree.keep_counted(tree.count(Direction::Imported));
    let array = Array::from_tree(Arc::new(tree));
    pending::tick();
    Ok(array)
}

/// What a struct that keeps to the rules says.
pub(crate) struct Checked {
    device: DeviceId,
    ready: Readiness,
    nodes: Nodes,
}

/// Checks everything that host memory shows, for every node, and takes nothing over. Also what
/// [`validate::layout`](crate::validate::layout) does.
///
/// # Safety
/// As for [`Array::import`], `release` left aside.
pub(crate) unsafe fn check(base: &ArrowDeviceArray, schema: &Schema) -> Result<Checked> {
    let device = DeviceId::new(DeviceType(base.device_type), base.device_id);
    if base.array.is_released() {
        return Err(Error::new(ErrorKind::Released, "the array is released").on_device(device));
    }
    let ready = readiness(device, base.sync_event)?;
    // SAFETY: as promised by the caller.
    let nodes =
        unsafe { read_nodes(&base.array, schema) }.map_err(|error| error.on_device(device))?;
    Ok(Checked { device, ready, nodes })
}

pub(crate) fn readiness(device: DeviceId, sync_event: *mut c_void) -> Result<Readiness> {
    match NonNull::new(sync_event) {
        None => Ok(Readiness::Now),
        Some(_) if !convention::may_have_event(device.device_type) => {
            let message = "there is a `sync_event`, and this type of device has none";
            Err(Error::new(ErrorKind::Malformed, message).on_device(device))
        }
        Some(event) => Ok(Readiness::After(Pending::Foreign(event))),
    }
}

/// Reads all nodes, parents before their children.
///
/// # Safety
/// As for [`Array::import`].
unsafe fn read_nodes(root: &ArrowArray, schema: &Schema) -> Result<Nodes> {
    let checks = schema.checks();
    if let [check] = checks {
        // SAFETY: as promised by the caller.
        let node = unsafe { read_node(root, check, &mut []) }
            .map_err(|fault| fault.explain(schema, 0, root))?;
        return Ok(Nodes::One([node]));
    }
    let mut nodes = vec![unvisited(root); checks.len()];
    for (number, check) in checks.iter().enumerate() {
        let (visited, rest) = nodes.split_at_mut(number + 1);
        let Some(node) = visited.last_mut() else { continue };
        // SAFETY: `unvisited` put a struct's address there: the root's, or one that `read_node` saw not to be null in the
        // table of its parent, which the caller vouches for.
        let source = unsafe { &*node.buffers.cast::<ArrowArray>() };
        // Children have larger numbers than their parent.
        let first = (check.first_child as usize).saturating_sub(number + 1);
        let below = check.children as usize + usize::from(check.has_dictionary);
        let children = rest.get_mut(first..first + below).unwrap_or_default();
        // SAFETY: as promised by the caller.
        *node = unsafe { read_node(source, check, children) }
            .map_err(|fault| fault.explain(schema, number as u32, source))?;
    }
    Ok(Nodes::Many(nodes.into()))
}

/// A node whose struct is still to be read. Until then `buffers` holds where it is.
fn unvisited(source: *const ArrowArray) -> Node {
    let window = Window { offset: 0, length: 0, null_count: 0 };
    Node { window, buffers: source.cast(), n_buffers: 0, extents: Node::NO_EXTENTS }
}

/// What is wrong with a node. Kept small, so that a check that passes costs nothing for it.
#[derive(Clone, Copy)]
enum Fault {
    Node,
    Child(usize),
}

/// Checks a struct, copies it, and notes where the structs of its children are.
///
/// # Safety
/// As for [`Array::import`].
#[inline]
unsafe fn read_node(
    source: &ArrowArray,
    check: &Check,
    children: &mut [Node],
) -> Result<Node, Fault> {
    // SAFETY: as promised by the caller.
    if !unsafe { keeps_to(source, check) } {
        return Err(Fault::Node);
    }
    let regular = check.children as usize;
    let end = source.offset + source.length;
    for (index, child) in children.iter_mut().enumerate() {
        let pointer: *const ArrowArray = if index < regular {
            // SAFETY: `keeps_to` saw that the table is there and has `regular` entries.
            unsafe { source.children.wrapping_add(index).read() }
        } else {
            source.dictionary
        };
        // SAFETY: null or a struct, says the caller.
        let Some(below) = (unsafe { pointer.as_ref() }) else { return Err(Fault::Child(index)) };
        let elements = i64::from(check.elements_in_child);
        // No overflow: `largest_end` takes `elements` into account.
        if below.is_released() | ((index < regular) & (below.length < end * elements)) {
            return Err(Fault::Child(index));
        }
        *child = unvisited(pointer);
    }
    if check.is_run_ends {
        // SAFETY: as promised by the caller; both children were seen just now.
        unsafe { check_run_ends(source) }?;
    }
    let null_count = if check.is_all_null {
        source.length
    } else if !check.has_validity || source.null_count == 0 {
        0
    } else {
        // SAFETY: `keeps_to` saw that there is a first buffer.
        let validity = unsafe { source.buffers.read() };
        // Without a bitmap nothing is null, counted or not.
        if validity.is_null() { 0 } else { source.null_count }
    };
    Ok(Node {
        window: Window { offset: source.offset, length: source.length, null_count },
        buffers: source.buffers.cast_const(),
        n_buffers: source.n_buffers as u32,
        extents: Node::NO_EXTENTS,
    })
}

/// Whether a struct keeps to all rules that can be seen in it alone. [`explain`] says which one it breaks.
///
/// # Safety
/// As for [`Array::import`].
unsafe fn keeps_to(source: &ArrowArray, check: &Check) -> bool {
    let (length, offset, null_count) = (source.length, source.offset, source.null_count);
    let buffers = i64::from(check.buffers);
    let fits = (length >= 0)
        & (offset >= 0)
        & (offset.saturating_add(length) <= check.largest_end)
        & (null_count >= -1)
        & (null_count <= length)
        & (source.n_children == i64::from(check.children))
        & (source.dictionary.is_null() != check.has_dictionary)
        & (source.children.is_null() <= (check.children == 0))
        & if check.is_variadic {
            (source.n_buffers >= buffers) & (source.n_buffers <= MAX_BUFFERS)
        } else {
            source.n_buffers == buffers
        }
        & (source.buffers.is_null() <= (buffers == 0));
    if !fits {
        return false;
    }
    let mut missing = 0_u8;
    for index in 0..usize::from(check.buffers) - usize::from(check.is_variadic) {
        // SAFETY: the table is there and has at least this many entries.
        let buffer = unsafe { source.buffers.wrapping_add(index).read() };
        missing |= u8::from(buffer.is_null()) << index;
    }
    let nulls_need_bitmap =
        null_count > 0 && (!check.has_validity || missing & 1 != 0) && !check.is_all_null;
    if nulls_need_bitmap || (length > 0 && missing & !check.may_be_null != 0) {
        return false;
    }
    if check.is_variadic && source.n_buffers > buffers {
        // SAFETY: the table has `n_buffers` entries, and that is at least one.
        let sizes = unsafe { source.buffers.wrapping_add(source.n_buffers as usize - 1).read() };
        return !sizes.is_null();
    }
    true
}

/// More data buffers than this no view array has.
pub(crate) const MAX_BUFFERS: i64 = i32::MAX as i64;

/// Run ends are not null, and there are as many as values.
///
/// # Safety
/// As for [`Array::import`]; the struct has two children that are not null.
unsafe fn check_run_ends(source: &ArrowArray) -> Result<(), Fault> {
    // SAFETY: as promised by the caller.
    let run_ends = unsafe { source.children.read() };
    // SAFETY: as above.
    let run_ends = unsafe { &*run_ends };
    // SAFETY: as above.
    let values = unsafe { source.children.wrapping_add(1).read() };
    // SAFETY: as above.
    let values = unsafe { &*values };
    let none_null = run_ends.null_count <= 0;
    let enough = source.length == 0 || run_ends.length > 0;
    if !none_null || !enough {
        return Err(Fault::Child(0));
    }
    if values.length < run_ends.length { Err(Fault::Child(1)) } else { Ok(()) }
}

impl Fault {
    /// Says in words what is wrong, looking a second time. `source` was read as far as the first look went.
    #[cold]
    fn explain(self, schema: &Schema, number: u32, source: &ArrowArray) -> Error {
        let node = schema.node(number);
        let place = schema.place(number);
        let data_type = node.field.data_type();
        match self {
            Self::Node => {
                // SAFETY: `keeps_to` looked at the same members in the same order.
                let (kind, message) = unsafe { explain(source, &Check::new(node), data_type) };
                Error::new(kind, message).at(place)
            }
            Self::Child(index) => {
                let below = node.below();
                let child_number = below.start + index as u32;
                let regular = node.children().len();
                let child: *const ArrowArray = if index < regular {
                    // SAFETY: the table was seen to be there and to have this entry.
                    unsafe { source.children.wrapping_add(index).read() }
                } else {
                    source.dictionary
                };
                // SAFETY: null or a struct, as import's caller promised.
                let (kind, message) = match unsafe { child.as_ref() } {
                    None => {
                        (ErrorKind::Malformed, "a null pointer in place of an array".to_owned())
                    }
                    Some(child) if child.is_released() => {
                        (ErrorKind::Released, "this part of the array is released".to_owned())
                    }
                    Some(child) => {
                        (ErrorKind::Malformed, explain_child(source, child, data_type, index))
                    }
                };
                Error::new(kind, message).at(schema.place(child_number))
            }
        }
    }
}

fn explain_child(
    parent: &ArrowArray,
    child: &ArrowArray,
    parent_type: &crate::DataType,
    index: usize,
) -> String {
    use crate::DataType;
    let end = parent.offset.saturating_add(parent.length);
    match parent_type {
        _ if child.length < 0 => format!("length is {}", child.length),
        DataType::RunEndEncoded { .. } if index == 0 && child.null_count > 0 => {
            format!("{} run ends are null, and none may be", child.null_count)
        }
        DataType::RunEndEncoded { .. } if index == 0 => {
            format!("there are no run ends, and the array has {} elements", parent.length)
        }
        DataType::RunEndEncoded { .. } => {
            format!("there are only {} values for the run ends", child.length)
        }
        _ => format!(
            "length is {}, which does not cover the {end} elements of {parent_type} above it",
            child.length
        ),
    }
}

/// # Safety
/// As for [`keeps_to`].
unsafe fn explain(
    source: &ArrowArray,
    check: &Check,
    data_type: &crate::DataType,
) -> (ErrorKind, String) {
    use ErrorKind::{Malformed, SchemaMismatch};
    let ArrowArray { length, offset, null_count, n_buffers, n_children, .. } = *source;
    let expected = i64::from(check.buffers);
    if length < 0 {
        return (Malformed, format!("length is {length}"));
    }
    if offset < 0 {
        return (Malformed, format!("offset is {offset}"));
    }
    if offset.saturating_add(length) > check.largest_end {
        return (
            Malformed,
            format!("offset {offset} and length {length} are more than any memory holds"),
        );
    }
    if null_count < -1 || null_count > length {
        return (Malformed, format!("null count is {null_count} for length {length}"));
    }
    if n_children != i64::from(check.children) {
        return (
            SchemaMismatch,
            format!("{data_type} has {} children, not {n_children}", check.children),
        );
    }
    if source.dictionary.is_null() == check.has_dictionary {
        let found =
            if check.has_dictionary { "its dictionary is null" } else { "there is a dictionary" };
        return (SchemaMismatch, format!("the type is {data_type}, and {found}"));
    }
    if source.children.is_null() && check.children > 0 {
        return (Malformed, format!("the table of {n_children} children is null"));
    }
    let count_is_wrong =
        if check.is_variadic { n_buffers < expected } else { n_buffers != expected };
    if count_is_wrong || n_buffers > MAX_BUFFERS {
        let least = if check.is_variadic { "at least " } else { "" };
        return (
            SchemaMismatch,
            format!("{data_type} has {least}{expected} buffers, not {n_buffers}"),
        );
    }
    if source.buffers.is_null() {
        return (Malformed, format!("the table of {n_buffers} buffers is null"));
    }
    for index in 0..usize::from(check.buffers) - usize::from(check.is_variadic) {
        // SAFETY: the table is there and has this entry.
        let buffer = unsafe { source.buffers.wrapping_add(index).read() };
        if !buffer.is_null() {
            continue;
        }
        if index == 0 && check.has_validity && null_count > 0 {
            return (
                Malformed,
                format!("null count is {null_count} and there is no validity bitmap"),
            );
        }
        if length > 0 && check.may_be_null & (1 << index) == 0 {
            return (Malformed, format!("buffer {index} is null but length is {length}"));
        }
    }
    if null_count > 0 && !check.has_validity {
        return (
            Malformed,
            format!("null count is {null_count}, and a {data_type} has no nulls of its own"),
        );
    }
    (Malformed, format!("the sizes of {} data buffers are null", n_buffers - expected))
}
