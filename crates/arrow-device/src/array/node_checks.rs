//! What can be told of a node without a look at its data: whether the node has the buffers and
//! elements that its type and the node above need. `ArrayBuilder` and `WithinBuilder` check nodes
//! with these functions; the check of imported structs shares those for run ends.

use super::Window;
use crate::schema::{BufferKind, Layout, Rule, can_be_absent};
use crate::{DataType, Error, ErrorKind, Extent, NodePath, Result, Step};

/// The null count of a builder to which no null count was given.
pub(super) const NOT_GIVEN: i64 = -2;

/// The one offset of an array without elements. Writers of messages may leave this offset out, but
/// consumers of the C structs read it.
pub(super) static ONE_OFFSET: [u64; 1] = [0];

/// Checks the number of buffers, without the sizes of the data buffers of views.
pub(super) fn check_buffer_count(
    data_type: &DataType,
    layout: &Layout,
    given: usize,
) -> Result<()> {
    let buffers = layout.buffers().len();
    if given < buffers || (given > buffers && !layout.is_variadic()) {
        let at_least = if layout.is_variadic() { "at least " } else { "" };
        return Err(mismatch(format!("{data_type} has {at_least}{buffers} buffers, not {given}")));
    }
    Ok(())
}

/// Checks that no size in bytes of so many elements overflows.
pub(super) fn check_end(rule: &Rule, window: Window) -> Result<()> {
    let end = window.offset.checked_add(window.length);
    if end.is_none_or(|end| end > rule.largest_end) {
        let length = window.length;
        return Err(refused(format!("{length} elements are more than any memory holds")));
    }
    Ok(())
}

/// Checks that the buffers have the bytes that the elements need, and that none is missing. `None`
/// stands for a buffer that is absent.
pub(super) fn check_buffers(
    layout: &Layout,
    window: Window,
    extents: impl Iterator<Item = Option<Extent>>,
) -> Result<()> {
    let elements = u64::try_from(window.end()).unwrap_or(0);
    for (index, (kind, extent)) in layout.buffers().iter().zip(extents).enumerate() {
        match extent {
            None if window.length == 0 || can_be_absent(*kind) => {}
            None => {
                let length = window.length;
                return Err(refused(format!("buffer {index} is missing but length is {length}")));
            }
            Some(extent) => check_extent(index, *kind, extent, elements)?,
        }
    }
    Ok(())
}

fn check_extent(index: usize, kind: BufferKind, extent: Extent, elements: u64) -> Result<()> {
    let needed = kind.byte_len(elements).unwrap_or(0);
    if elements > 0 && matches!(extent, Extent::Exact(len) if len < needed) {
        return Err(refused(format!("buffer {index} has {extent} and needs {needed}")));
    }
    Ok(())
}

/// Checks that a child has the elements that the node above needs.
pub(super) fn check_child_length(parent_rule: &Rule, parent: Window, child: Window) -> Result<()> {
    let (end, elements) = (parent.end(), i64::from(parent_rule.elements_in_child));
    if child.length < end.saturating_mul(elements) {
        let length = child.length;
        let message = format!("{length} elements do not cover the {end} of the array above");
        return Err(refused(message));
    }
    Ok(())
}

/// What is wrong with the children of a run-end-encoded array.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunsFault {
    /// So many run ends are null.
    NullEnds(i64),
    /// The array has so many elements, and no run ends.
    NoEnds(i64),
    FewValues {
        ends: i64,
        values: i64,
    },
}

impl RunsFault {
    /// The child at fault.
    pub(super) fn child(&self) -> usize {
        usize::from(matches!(self, Self::FewValues { .. }))
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::NullEnds(count) => format!("{count} run ends are null, and none may be"),
            Self::NoEnds(elements) => format!("there are no run ends for {elements} elements"),
            Self::FewValues { ends, values } => {
                format!("there are {ends} run ends and {values} values")
            }
        }
    }
}

impl From<RunsFault> for Error {
    #[cold]
    fn from(fault: RunsFault) -> Self {
        refused(fault.message()).at(NodePath::new([Step::Child(fault.child())]))
    }
}

/// Checks that no run end is null, and that an array with elements has run ends.
pub(super) fn check_run_ends(array: Window, run_ends: Window) -> Result<(), RunsFault> {
    match (array.length, run_ends.length) {
        _ if run_ends.null_count > 0 => Err(RunsFault::NullEnds(run_ends.null_count)),
        (1.., ..1) => Err(RunsFault::NoEnds(array.length)),
        _ => Ok(()),
    }
}

/// Checks that there is a value for each run end.
pub(super) fn check_run_values(run_ends: Window, values: Window) -> Result<(), RunsFault> {
    let (ends, values) = (run_ends.length, values.length);
    if values < ends { Err(RunsFault::FewValues { ends, values }) } else { Ok(()) }
}

/// The window with its final null count. Without a given count, the count is 0, or -1 (not known)
/// where there is a bitmap. An error where the given count cannot be right.
pub(super) fn settled_null_count(
    data_type: &DataType,
    window: Window,
    has_bitmap: bool,
) -> Result<Window> {
    let length = window.length;
    let null_count = match window.null_count {
        _ if matches!(data_type, DataType::Null) => length,
        NOT_GIVEN if has_bitmap && length > 0 => -1,
        NOT_GIVEN => 0,
        told if told > length => {
            return Err(refused(format!("null count is {told} for length {length}")));
        }
        told if told > 0 && !has_bitmap => {
            return Err(refused(format!("null count is {told} and there is no validity bitmap")));
        }
        told => told,
    };
    Ok(Window { null_count, ..window })
}

/// Checks that a child or a dictionary has the type that the schema says. Metadata may differ.
pub(super) fn check_type(given: &DataType, expected: &DataType) -> Result<()> {
    if expected.equals_ignoring_metadata(given) {
        return Ok(());
    }
    let [given, expected] = given.told_apart(expected);
    Err(mismatch(format!("the type is {given}, not {expected}")))
}

pub(super) fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).during("build")
}

pub(super) fn mismatch(message: String) -> Error {
    Error::new(ErrorKind::SchemaMismatch, message).during("build")
}
