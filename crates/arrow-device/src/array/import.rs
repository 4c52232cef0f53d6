//! Reading an `ArrowDeviceArray`.
//!
//! The base structure is moved in and kept whole, behind one owner that releases it once. What the structs of the tree say is
//! copied into a table of nodes, each struct read once; whatever host memory can show to be wrong is found on the way. No
//! buffer is read, nothing is waited for, and no driver is called.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use super::tree::{ForeignArray, Node, Nodes, Pending, Readiness, Storage, Tree};
use super::{Array, Window};
use crate::abi::{ArrowArray, ArrowDeviceArray};
use crate::convention;
use crate::device::account::Direction;
use crate::exchange::list::List;
use crate::exchange::shared::Shared;
use crate::pending;
use crate::schema::{Check, NO_BUFFER, Schema};
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
    let array = Array::from_tree(Shared::new(tree)?);
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
        let node = unsafe { read_node(root, check) }
            .ok_or_else(|| Fault::Node.explain(schema, 0, root))?;
        return Ok(Nodes::One([node]));
    }
    // Nodes are numbered in the order in which they are found here, level by level.
    let mut nodes = List::with_capacity(checks.len())?;
    nodes.push(unvisited(root));
    for (number, check) in checks.iter().enumerate() {
        // Most nodes are leaves, and were read with their parent.
        if check.is_leaf {
            continue;
        }
        let Some(node) = nodes.get_mut(number) else { break };
        // SAFETY: `unvisited` put a struct's address there: the root's, or one that was seen not to be null in the table of
        // its parent, which the caller vouches for.
        let source = unsafe { &*node.buffers.cast::<ArrowArray>() };
        // SAFETY: as promised by the caller.
        *node = unsafe { read_node(source, check) }
            .ok_or_else(|| Fault::Node.explain(schema, number as u32, source))?;
        let first = check.first_child as usize;
        let below = first + check.children as usize + usize::from(check.has_dictionary);
        let below = checks.get(first..below).unwrap_or_default();
        // SAFETY: as promised by the caller, for a struct that keeps to its rules.
        unsafe { read_below(source, check, below, &mut nodes) }
            .map_err(|fault| fault.explain(schema, number as u32, source))?;
    }
    Ok(Nodes::Imported(nodes))
}

/// A node whose struct is still to be read. Until then `buffers` holds where it is.
fn unvisited(source: *const ArrowArray) -> Node {
    let window = Window { offset: 0, length: 0, null_count: 0 };
    Node { window, buffers: source.cast(), n_buffers: 0, extents: Node::NO_EXTENTS }
}

/// What is wrong with a node or with one right below it.
enum Fault {
    /// The node breaks a rule of its own.
    Node,
    /// The child is not what the node needs.
    Child(usize),
    /// The child, which is a leaf, breaks a rule of its own.
    Leaf(usize),
}

/// Looks at the children and the dictionary of a node: reads the leaves, and notes where the others are.
///
/// # Safety
/// As for [`Array::import`]; the node's own struct keeps to its rules.
#[inline(never)]
unsafe fn read_below(
    source: &ArrowArray,
    check: &Check,
    below: &[Check],
    nodes: &mut List<Node>,
) -> Result<(), Fault> {
    let regular = check.children as usize;
    // No overflow: `largest_end` takes the elements into account.
    let least = (source.offset + source.length) * i64::from(check.elements_in_child);
    for (index, check) in below.iter().take(regular).enumerate() {
        // SAFETY: the table is there and has `regular` entries: the node keeps to its rules.
        let child = unsafe { source.children.wrapping_add(index).read() };
        // SAFETY: as promised by the caller.
        nodes.push(unsafe { read_child(child, check, least, index) }?);
    }
    if let Some(check) = below.get(regular) {
        // SAFETY: as promised by the caller.
        nodes.push(unsafe { read_child(source.dictionary, check, 0, regular) }?);
    }
    if check.is_run_ends {
        // SAFETY: as promised by the caller; both children were seen just now.
        unsafe { check_run_ends(source) }?;
    }
    Ok(())
}

/// Reads a child if it is a leaf, and otherwise notes where it is.
///
/// # Safety
/// As for [`Array::import`]: the pointer is null or leads to a struct.
#[inline(always)]
unsafe fn read_child(
    pointer: *const ArrowArray,
    check: &Check,
    least: i64,
    index: usize,
) -> Result<Node, Fault> {
    // SAFETY: as promised by the caller.
    let Some(child) = (unsafe { pointer.as_ref() }) else { return Err(Fault::Child(index)) };
    if child.is_released() | (child.length < least) {
        return Err(Fault::Child(index));
    }
    if !check.is_leaf {
        return Ok(unvisited(pointer));
    }
    // SAFETY: as promised by the caller.
    unsafe { read(child, check, true) }.ok_or(Fault::Leaf(index))
}

/// Copies a struct, if it keeps to all rules that can be seen in it alone. [`explain`] says which one it breaks.
///
/// # Safety
/// As for [`Array::import`].
unsafe fn read_node(source: &ArrowArray, check: &Check) -> Option<Node> {
    // SAFETY: as promised by the caller.
    unsafe { read(source, check, false) }
}

/// [`read_node`], where it is known in advance that nothing may be below the node.
///
/// # Safety
/// As for [`Array::import`].
#[inline(always)]
unsafe fn read(source: &ArrowArray, check: &Check, is_leaf: bool) -> Option<Node> {
    let ArrowArray { length, offset, null_count, n_buffers, n_children, buffers, .. } = *source;
    let expected = i64::from(check.buffers);
    let end = length.wrapping_add(offset);
    // None of these is negative where all is well. The last three may overflow only where one before them is negative.
    let signs = length
        | offset
        | end
        | check.largest_end.wrapping_sub(end)
        | null_count.wrapping_add(1)
        | length.wrapping_sub(null_count);
    let more = n_buffers.wrapping_sub(expected).cast_unsigned();
    let below_fits = if is_leaf {
        (n_children.cast_unsigned() | source.dictionary.addr() as u64) == 0
    } else {
        (n_children == i64::from(check.children))
            & (source.dictionary.is_null() != check.has_dictionary)
            & (source.children.is_null() <= (check.children == 0))
    };
    let has_table = !buffers.is_null() | (expected == 0);
    if (signs < 0) | (more > u64::from(check.more_buffers)) | !below_fits | !has_table {
        return None;
    }
    // SAFETY: the table is there and has at least as many entries.
    let missing = unsafe { missing(buffers.cast_const(), check.fixed_buffers) };
    if ((length > 0) & (missing & check.required != 0))
        | ((null_count > 0) & (missing & check.required_for_nulls != 0))
    {
        return None;
    }
    if more > 0 {
        // SAFETY: the table has `n_buffers` entries, and that is at least one.
        let sizes = unsafe { buffers.wrapping_add(n_buffers as usize - 1).read() };
        if sizes.is_null() {
            return None;
        }
    }
    let null_count = match (check.has_validity, check.is_all_null) {
        // Without a bitmap nothing is null, counted or not.
        (true, _) if missing & 1 == 0 => null_count,
        (false, true) => length,
        _ => 0,
    };
    Some(Node {
        window: Window { offset, length, null_count },
        buffers: buffers.cast_const(),
        n_buffers: n_buffers as u32,
        extents: Node::NO_EXTENTS,
    })
}

/// Which of the first buffers are null, as bits, and [`NO_BUFFER`].
///
/// # Safety
/// `buffers` has `count` entries.
#[inline(always)]
unsafe fn missing(buffers: *const *const c_void, count: u8) -> u8 {
    let is_null = |index: u8| {
        // SAFETY: promised by the caller.
        let buffer = unsafe { buffers.wrapping_add(usize::from(index)).read() };
        u8::from(buffer.is_null()) << index
    };
    // No type has more than three that are not variadic.
    NO_BUFFER
        | match count {
            0 => 0,
            1 => is_null(0),
            2 => is_null(0) | is_null(1),
            _ => is_null(0) | is_null(1) | is_null(2),
        }
}

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
                // SAFETY: `read_node` looked at the same members in the same order.
                let (kind, message) = unsafe { explain(source, &Check::new(node), data_type) };
                Error::new(kind, message).at(place)
            }
            Self::Child(index) | Self::Leaf(index) => {
                let child_number = node.below().start + index as u32;
                let child: *const ArrowArray = if index < node.children().len() {
                    // SAFETY: the table was seen to be there and to have this entry.
                    unsafe { source.children.wrapping_add(index).read() }
                } else {
                    source.dictionary
                };
                // SAFETY: null or a struct, as import's caller promised.
                let (kind, message) = match unsafe { child.as_ref() } {
                    Some(child) if matches!(self, Self::Leaf(_)) => {
                        return Self::Node.explain(schema, child_number, child);
                    }
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
/// As for [`read_node`].
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
    if n_buffers < expected || n_buffers - expected > i64::from(check.more_buffers) {
        let least = if check.more_buffers > 0 { "at least " } else { "" };
        return (
            SchemaMismatch,
            format!("{data_type} has {least}{expected} buffers, not {n_buffers}"),
        );
    }
    if source.buffers.is_null() {
        return (Malformed, format!("the table of {n_buffers} buffers is null"));
    }
    for index in 0..usize::from(check.fixed_buffers) {
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
        if length > 0 && check.required & (1 << index) != 0 {
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
