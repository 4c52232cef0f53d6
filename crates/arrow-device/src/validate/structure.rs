//! Level 1: the structs alone, without a schema.
//!
//! Walks the tree of a C struct within budgets, and checks counts and pointers. Nothing is
//! released, moved or written to, and no buffer is read.

use super::Summary;
use crate::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use crate::array::check::check_event;
use crate::schema::{MAX_BUFFERS, MAX_DEPTH, MAX_NODES};
use crate::{DeviceId, DeviceType, Error, ErrorKind, NodePath, Result, Step};

/// Checks an array's structs without knowing the array's type.
///
/// The following are errors, which name their place: negative or overflowing counts; null counts
/// out of range; missing tables; children that are null, misaligned, released, or in the tree
/// twice; an event on a type of device that has none; and more levels or nodes than a schema may
/// have. Every type of device is accepted. A tree without end has too many levels.
///
/// ```
/// use arrow_device::abi::ArrowDeviceArray;
/// use arrow_device::{Array, DataType, validate};
///
/// let numbers = Array::builder(DataType::Int8)
///     .len(2)
///     .buffers([None, Some(vec![1_i8, 2].into())])
///     .finish_ready()?;
/// let mut c_array = ArrowDeviceArray::empty();
/// numbers.export(&mut c_array)?;
/// let summary = unsafe { validate::structure(&c_array) }?;
/// assert_eq!((summary.nodes, summary.buffers, summary.depth), (1, 2, 0));
/// # unsafe { Array::import(&mut c_array, &numbers.schema()?) }?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
///
/// # Safety
/// UNS-12: every pointer that is not null points to what the interface describes, during the call,
/// as UNS-3 of [`Array::import`](crate::Array::import) says. `release` is not called. The caller
/// need not rule out what the errors name.
pub unsafe fn structure(array: &ArrowDeviceArray) -> Result<Summary> {
    let device = DeviceId::new(DeviceType(array.device_type), array.device_id);
    let explain = |error: Error| error.during("validate").on_device(device);
    // SAFETY: UNS-12 and UNS-3, which the caller promises.
    let summary = unsafe { walk(&array.array) }.map_err(explain)?;
    check_event(device, array.sync_event).map_err(explain)?;
    Ok(summary)
}

/// Checks the structs of a type, as [`structure`] checks those of an array. Formats, names and
/// metadata are not read: [`Schema::import`](crate::Schema::import) reads them.
///
/// # Safety
/// UNS-12: the struct is as UNS-2 of [`Schema::import`](crate::Schema::import) says, during the
/// call. `release` is not called.
pub unsafe fn schema_structure(schema: &ArrowSchema) -> Result<Summary> {
    // SAFETY: UNS-12 and UNS-2, which the caller promises.
    unsafe { walk(schema) }.map_err(|error| error.during("validate"))
}

/// What both kinds of struct have in common.
trait Struct: Sized {
    fn is_released(&self) -> bool;
    fn n_children(&self) -> i64;
    fn children(&self) -> *const *mut Self;
    fn dictionary(&self) -> *const Self;
    /// The number of buffers, or what is wrong with the other members.
    fn buffers(&self) -> Result<usize, String>;
}

impl Struct for ArrowArray {
    fn is_released(&self) -> bool {
        self.release.is_none()
    }

    fn n_children(&self) -> i64 {
        self.n_children
    }

    fn children(&self) -> *const *mut Self {
        self.children.cast_const()
    }

    fn dictionary(&self) -> *const Self {
        self.dictionary
    }

    fn buffers(&self) -> Result<usize, String> {
        let Self { length, offset, null_count, n_buffers, .. } = *self;
        if length < 0 {
            return Err(format!("length is {length}"));
        }
        if offset < 0 {
            return Err(format!("offset is {offset}"));
        }
        if offset.checked_add(length).is_none() {
            return Err(format!(
                "offset {offset} and length {length} are more than any memory holds"
            ));
        }
        if null_count < -1 || null_count > length {
            return Err(format!("null count is {null_count} for length {length}"));
        }
        let buffers = usize::try_from(n_buffers).ok().filter(|_| n_buffers <= MAX_BUFFERS);
        let Some(buffers) = buffers else {
            return Err(format!("the number of buffers is {n_buffers}"));
        };
        check_table(self.buffers.cast_const(), buffers, "buffers")?;
        Ok(buffers)
    }
}

impl Struct for ArrowSchema {
    fn is_released(&self) -> bool {
        self.release.is_none()
    }

    fn n_children(&self) -> i64 {
        self.n_children
    }

    fn children(&self) -> *const *mut Self {
        self.children.cast_const()
    }

    fn dictionary(&self) -> *const Self {
        self.dictionary
    }

    fn buffers(&self) -> Result<usize, String> {
        if self.format.is_null() { Err("the format is null".into()) } else { Ok(0) }
    }
}

fn check_table<T>(table: *const T, entries: usize, of: &str) -> Result<(), String> {
    match entries {
        0 => Ok(()),
        _ if table.is_null() => Err(format!("the table of {entries} {of} is null")),
        _ if !table.is_aligned() => Err(format!("the table of {entries} {of} is not aligned")),
        _ => Ok(()),
    }
}

/// A struct that was found, and the path to it.
struct Found<T> {
    address: *const T,
    /// The number of the parent, and the step from there; `None` for the root.
    way: Option<(usize, Step)>,
    depth: usize,
}

/// Visits the tree level by level. The table of found structs is also the list of what the walk
/// still has to visit.
///
/// # Safety
/// UNS-12.
unsafe fn walk<T: Struct>(root: &T) -> Result<Summary> {
    let mut found = vec![Found { address: root, way: None, depth: 0 }];
    let mut summary = Summary::default();
    while let Some(&Found { address, way, depth }) = found.get(summary.nodes) {
        let fault = |kind, message: String| Error::new(kind, message).at(place(&found, way));
        let malformed = |message: String| fault(ErrorKind::Malformed, message);
        if address.is_null() {
            return Err(malformed("a null pointer in place of a struct".into()));
        }
        if !address.is_aligned() {
            return Err(malformed("the pointer to it is not aligned".into()));
        }
        // SAFETY: neither null nor misaligned, and so a struct, says the caller.
        let node = unsafe { &*address };
        if node.is_released() {
            return Err(fault(ErrorKind::Released, "this struct is released".into()));
        }
        summary.buffers += node.buffers().map_err(malformed)?;
        let count = node.n_children();
        if count < 0 {
            return Err(malformed(format!("the number of children is {count}")));
        }
        // On targets with 32-bit addresses, a number that `usize` cannot hold is too large as well.
        let children = usize::try_from(count).unwrap_or(usize::MAX);
        let below = children.saturating_add(usize::from(!node.dictionary().is_null()));
        if below > MAX_NODES - found.len().min(MAX_NODES) {
            let message =
                format!("with {count} children here there are more than {MAX_NODES} structs");
            return Err(fault(ErrorKind::LimitExceeded, message));
        }
        if below > 0 && depth == MAX_DEPTH {
            let message = format!("there are more than {MAX_DEPTH} levels");
            return Err(fault(ErrorKind::LimitExceeded, message));
        }
        check_table(node.children(), children, "children").map_err(malformed)?;
        let number = summary.nodes;
        let find = |address, step| Found { address, way: Some((number, step)), depth: depth + 1 };
        for index in 0..children {
            // SAFETY: the table is there and has `n_children` entries, says the caller.
            let child = unsafe { node.children().wrapping_add(index).read() };
            found.push(find(child.cast_const(), Step::Child(index)));
        }
        if !node.dictionary().is_null() {
            found.push(find(node.dictionary(), Step::Dictionary));
        }
        summary.depth = depth;
        summary.nodes += 1;
    }
    each_once(&found)?;
    Ok(summary)
}

/// Checks that no struct is in the tree twice: the release of a tree would release such a struct
/// twice.
fn each_once<T>(found: &[Found<T>]) -> Result<()> {
    let mut order: Vec<&Found<T>> = found.iter().collect();
    order.sort_by_key(|node| node.address.addr());
    for pair in order.windows(2) {
        if let [first, second] = pair
            && first.address == second.address
        {
            let message = format!("the same struct is at {} too", place(found, first.way));
            return Err(Error::new(ErrorKind::Malformed, message).at(place(found, second.way)));
        }
    }
    Ok(())
}

fn place<T>(found: &[Found<T>], mut way: Option<(usize, Step)>) -> NodePath {
    let mut steps = Vec::new();
    while let Some((parent, step)) = way {
        steps.push(step);
        way = found.get(parent).and_then(|parent| parent.way);
    }
    steps.reverse();
    NodePath::new(steps)
}
