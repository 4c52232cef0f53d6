//! Checks the C structs of an array that is imported.
//!
//! Reads each struct of the tree, and for most structs the table of its buffers. Of trees of
//! several levels, the addresses of the structs are copied. Nothing else is copied.
//!
//! The steps:
//!
//! 1. The root is compared with the rule of its type: numbers of buffers and children, length,
//!    offset, null count, and the buffers that have to be there.
//! 2. Where the schema is a row of columns without anything below them, one loop over the columns
//!    checks all of them (`leaves`).
//! 3. For deeper trees the nodes are visited level by level (`all`). A visit to a node with
//!    children checks the leaves among them in full, and looks whether the others are there and
//!    long enough. The addresses of the children are appended to a table. Entry `n - 1` of the
//!    table is node `n` of the schema, so a node is found there after its parent was visited.
//!
//! Why this is fast:
//!
//! 1. The loops are driven by the schema, whose rules are numbers (`Rule`). A cyclic or endless
//!    tree of structs ends where the schema ends.
//! 2. Columns next to each other often have one type. The limits of the type are looked up once
//!    (`LeafLimits`), and most structs pass after a few comparisons with them. Any other struct is
//!    checked by its full rule.
//! 3. A negative number is a large unsigned one, so one comparison checks both ends of a range.
//! 4. The first look only tells that something is wrong. `explain` looks a second time and finds
//!    the words of the error.
//!
//! What must stay true: a struct that the [`LeafLimits`] accept is one that [`leaf_keeps`] accepts,
//! and `explain` finds a fault in each struct that `keeps` or `leaf_keeps` refuses. A test compares
//! the three on generated structs.

use crate::numbered::{all_numbered, numbered};
use std::ffi::c_void;
use std::ptr;

use super::Window;
use super::node_checks::{RunsFault, check_run_ends, check_run_values};
use super::structs::StructsBelow;
use crate::abi::ArrowArray;
use crate::convention;
use crate::pool::list::List;
use crate::schema::{Check, NO_BUFFER, Rule, Schema};
use crate::{DataType, DeviceId, DeviceType, Error, ErrorKind, Result};

/// Checks everything that host memory shows, for every node, and takes nothing over. Returns where
/// the structs below the root are. [`validate::layout`](crate::validate::layout) calls this too.
///
/// # Safety
/// UNS-3, during the call, and `sync_event` keeps UNS-5.
#[inline(always)]
pub(crate) unsafe fn check(
    base: &ArrowArray,
    device: DeviceId,
    sync_event: *mut c_void,
    schema: &Schema,
) -> Result<StructsBelow> {
    if base.is_released() {
        return Err(Error::new(ErrorKind::Released, "the array is released").on_device(device));
    }
    if device.device_type == UNFILLED {
        return Err(unfilled());
    }
    check_event(device, sync_event)?;
    // SAFETY: UNS-3 and UNS-5, which the caller promises.
    unsafe { check_nodes(base, schema) }.map_err(|error| error.on_device(device))
}

/// The type of device in a struct of zeros. The specification has no such type.
const UNFILLED: DeviceType = DeviceType(0);

#[cold]
fn unfilled() -> Error {
    let message =
        "the type of device is 0, which no device has: the producer has not filled the struct";
    Error::new(ErrorKind::Malformed, message)
}

/// Refuses an event on a type of device that has none.
pub(crate) fn check_event(device: DeviceId, sync_event: *mut c_void) -> Result<()> {
    if sync_event.is_null() || convention::may_have_event(device.device_type) {
        Ok(())
    } else {
        Err(event_on(device))
    }
}

#[cold]
fn event_on(device: DeviceId) -> Error {
    let message = "there is a `sync_event`, and this type of device has none";
    Error::new(ErrorKind::Malformed, message).on_device(device)
}

/// Checks all nodes, parents before their children. Returns where the structs below the root are.
///
/// # Safety
/// UNS-3.
#[inline(always)]
unsafe fn check_nodes(root: &ArrowArray, schema: &Schema) -> Result<StructsBelow> {
    let checks = schema.checks();
    let Some((check, rest)) = checks.split_first() else { unreachable!("a schema has a root") };
    // SAFETY: UNS-3, which the caller promises.
    if !unsafe { keeps(root, schema.rule(0), check) } {
        return Err(StructFault::Node.explain(schema, 0, root));
    }
    if rest.is_empty() {
        return Ok(StructsBelow::Children);
    }
    let walk = StructWalk { rules: schema.rules() };
    if check.has_simple_columns() {
        // A row of columns needs no table of nodes, because the root's own table leads to the
        // columns.
        // SAFETY: UNS-3, which the caller promises, for a root that keeps to its rule.
        let found = unsafe { walk.leaves(root, schema.rule(0), rest) };
        found.map_err(|fault| fault.explain(schema, 0, root))?;
        return Ok(StructsBelow::Children);
    }
    let mut table = List::with_capacity(rest.len())?;
    // SAFETY: UNS-3, which the caller promises, for a root that keeps to its rule.
    let found = unsafe { walk.all(root, checks, &mut table) };
    found.map_err(|(fault, number, source)| fault.explain(schema, number, source))?;
    Ok(StructsBelow::Table(table))
}

/// What is wrong with a node or with one right below it.
enum StructFault {
    /// The node breaks a rule of its own.
    Node,
    /// The child is not what the node needs, or breaks a rule of its own.
    Child(usize),
    /// The run ends and the values do not go together.
    Runs(RunsFault),
}

/// A walk over the structs of a tree.
struct StructWalk<'schema> {
    rules: &'schema [Rule],
}

impl StructWalk<'_> {
    fn rule(&self, check: &Check) -> &Rule {
        numbered(self.rules.get(check.rule as usize))
    }

    /// Checks a tree of several levels, and appends the addresses of the structs of the nodes from
    /// 1 on to the table, level by level, as the nodes are numbered. An error names a node and its
    /// struct.
    ///
    /// # Safety
    /// UNS-3; the root keeps to its rule.
    #[inline(never)]
    unsafe fn all<'a>(
        &self,
        root: &'a ArrowArray,
        checks: &[Check],
        table: &mut List<*const ArrowArray>,
    ) -> Result<(), (StructFault, u32, &'a ArrowArray)> {
        for (number, check) in checks.iter().enumerate() {
            // Leaves were checked together with their parent.
            if check.is_leaf {
                continue;
            }
            let rule = *self.rule(check);
            let noted = match number.checked_sub(1) {
                None => ptr::from_ref(root),
                // The parent was visited before, and appended the addresses of all of its children.
                Some(index) => *numbered(table.get(index)),
            };
            // SAFETY: the root, or what was seen not to be null in the table of its parent, and so
            // is a struct (UNS-3).
            let source = unsafe { &*noted };
            let fault = |fault| (fault, number as u32, source);
            if number > 0 {
                // SAFETY: UNS-3, which the caller promises.
                if !unsafe { keeps(source, &rule, check) } {
                    return Err(fault(StructFault::Node));
                }
            }
            let first = check.first_child as usize;
            let end = first + check.children as usize + usize::from(check.has_dictionary);
            let below = all_numbered(checks, first..end);
            // SAFETY: UNS-3, which the caller promises, for a struct that keeps to its rules.
            unsafe { self.below(source, &rule, check, below, table) }.map_err(fault)?;
        }
        Ok(())
    }

    /// Checks the children and the dictionary of a node, and appends their addresses to the table.
    /// Of nodes that are not leaves, only their presence and length are checked here. They are
    /// checked in full when they are visited.
    ///
    /// # Safety
    /// UNS-3; the node's own struct keeps to its rules.
    unsafe fn below(
        &self,
        source: &ArrowArray,
        rule: &Rule,
        check: &Check,
        below: &[Check],
        table: &mut List<*const ArrowArray>,
    ) -> Result<(), StructFault> {
        let children = check.children as usize;
        let least = least(source, rule);
        for (index, check) in below.iter().enumerate() {
            let (pointer, least) = if index < children {
                // SAFETY: the table is there and has `children` entries: the node keeps to its
                // rules.
                (unsafe { source.children.wrapping_add(index).read() }, least)
            } else {
                (source.dictionary, 0)
            };
            let is_as_needed = if check.is_leaf {
                // SAFETY: UNS-3, which the caller promises.
                unsafe { leaf_keeps(pointer, self.rule(check), least) }
            } else {
                // SAFETY: UNS-3, which the caller promises: null or a struct.
                unsafe { pointer.as_ref() }
                    .is_some_and(|child| !child.is_released() & (child.length >= least))
            };
            if !is_as_needed {
                return Err(StructFault::Child(index));
            }
            table.push(pointer);
        }
        if rule.is_run_ends {
            // SAFETY: UNS-3, which the caller promises; both children were seen just now.
            unsafe { check_runs(source) }.map_err(StructFault::Runs)?;
        }
        Ok(())
    }

    /// Checks the children of a node whose children are all leaves.
    ///
    /// # Safety
    /// UNS-3; the node's own struct keeps to its rules, and it has as many children as there are
    /// checks.
    #[inline(never)]
    unsafe fn leaves(
        &self,
        source: &ArrowArray,
        rule: &Rule,
        checks: &[Check],
    ) -> Result<(), StructFault> {
        let least = least(source, rule);
        // SAFETY: the table is there and has so many entries, which nobody writes to: the node
        // keeps to its rules, and `import`'s caller promises the rest.
        let children = unsafe {
            std::slice::from_raw_parts(source.children.cast_const().cast(), checks.len())
        };
        let children: &[*const ArrowArray] = children;
        let (mut number, mut limits) = (u32::MAX, LeafLimits::NOTHING);
        for (index, (check, &pointer)) in checks.iter().zip(children).enumerate() {
            if check.rule != number {
                (number, limits) = (check.rule, LeafLimits::of(self.rule(check), least));
            }
            // SAFETY: UNS-3, which the caller promises: each entry is null or a struct.
            let is_usual = unsafe { limits.accept(pointer) };
            // SAFETY: UNS-3, which the caller promises: each entry is null or a struct.
            if !is_usual && !unsafe { leaf_keeps_out_of_line(pointer, self.rule(check), least) } {
                return Err(StructFault::Child(index));
            }
        }
        if rule.is_run_ends {
            // SAFETY: UNS-3, which the caller promises; both children were seen just now.
            unsafe { check_runs(source) }.map_err(StructFault::Runs)?;
        }
        Ok(())
    }
}

/// The limits that most leaves of a rule keep, which a few comparisons show: a bitmap and one or
/// two more buffers, of which the first has to be there, and an allowed number of elements. A leaf
/// outside of these limits is checked by [`leaf_keeps`].
#[derive(Clone, Copy)]
struct LeafLimits {
    buffers: i64,
    least: i64,
    largest_end: i64,
    /// How many elements a leaf may have beyond `least`.
    room: u64,
}

impl LeafLimits {
    /// Limits that no leaf keeps, because no leaf has so many buffers.
    const NOTHING: Self = Self { buffers: i64::MIN, least: 0, largest_end: 0, room: 0 };

    #[inline(always)]
    fn of(rule: &Rule, least: i64) -> Self {
        let largest_end = rule.largest_end;
        if !rule.is_ordinary || rule.more_buffers > 0 || least > largest_end {
            return Self::NOTHING;
        }
        let room = largest_end.wrapping_sub(least).cast_unsigned();
        Self { buffers: i64::from(rule.buffers), least, largest_end, room }
    }

    /// # Safety
    /// UNS-3: the pointer is null or leads to a struct.
    #[inline(always)]
    unsafe fn accept(self, pointer: *const ArrowArray) -> bool {
        // SAFETY: UNS-3, which the caller promises: null or a struct.
        let Some(source) = (unsafe { pointer.as_ref() }) else { return false };
        let ArrowArray { length, offset, null_count, n_buffers, buffers, .. } = *source;
        let below = source.n_children.cast_unsigned() | source.dictionary.addr() as u64;
        let is_shaped = (below == 0) & !source.is_released() & (n_buffers == self.buffers);
        let is_long = length.wrapping_sub(self.least).cast_unsigned() <= self.room
            && offset.cast_unsigned() <= (self.largest_end - length).cast_unsigned();
        let is_counted =
            null_count.wrapping_add(1).cast_unsigned() <= length.wrapping_add(1).cast_unsigned();
        if !is_shaped || !is_long || !is_counted || buffers.is_null() {
            return false;
        }
        // SAFETY: the table is there, and has a bitmap and one more entry at least.
        let data = unsafe { buffers.wrapping_add(1).read() };
        // SAFETY: the table is there, and its first entry is that of the bitmap.
        !data.is_null() && (null_count <= 0 || !unsafe { buffers.read() }.is_null())
    }
}

/// [`leaf_keeps`] as a function of its own, which keeps the loop over the usual leaves short.
///
/// # Safety
/// UNS-3: the pointer is null or leads to a struct.
#[inline(never)]
unsafe fn leaf_keeps_out_of_line(pointer: *const ArrowArray, rule: &Rule, least: i64) -> bool {
    // SAFETY: UNS-3, which the caller promises.
    unsafe { leaf_keeps(pointer, rule, least) }
}

/// How many elements the children of a node must have at least. The product does not overflow:
/// `largest_end` takes `elements_in_child` into account.
fn least(source: &ArrowArray, rule: &Rule) -> i64 {
    (source.offset + source.length) * i64::from(rule.elements_in_child)
}

/// Whether the pointer leads to a struct that has nothing below it, has at least `least` elements,
/// and keeps to its rule.
///
/// # Safety
/// UNS-3: the pointer is null or leads to a struct.
#[inline(always)]
unsafe fn leaf_keeps(pointer: *const ArrowArray, rule: &Rule, least: i64) -> bool {
    // SAFETY: UNS-3, which the caller promises.
    let Some(source) = (unsafe { pointer.as_ref() }) else { return false };
    let has_nothing_below =
        (source.n_children.cast_unsigned() | source.dictionary.addr() as u64) == 0;
    // SAFETY: UNS-3, which the caller promises.
    unsafe { node_keeps(source, rule, least, has_nothing_below & !source.is_released()) }
}

/// Whether a struct keeps to all rules that need no look at other structs. [`explain`] says which
/// rule it breaks.
///
/// # Safety
/// UNS-3.
#[inline(always)]
unsafe fn keeps(source: &ArrowArray, rule: &Rule, check: &Check) -> bool {
    let below_fits = (source.n_children == i64::from(check.children))
        & (source.dictionary.is_null() != check.has_dictionary)
        & (source.children.is_null() <= (check.children == 0));
    // SAFETY: UNS-3, which the caller promises.
    unsafe { node_keeps(source, rule, 0, below_fits) }
}

/// The part of [`keeps`] and [`leaf_keeps`] that does not look at what is below the node. The
/// caller has looked, and `below_fits` is its finding.
///
/// # Safety
/// UNS-3.
#[inline(always)]
unsafe fn node_keeps(source: &ArrowArray, rule: &Rule, least: i64, below_fits: bool) -> bool {
    let ArrowArray { length, offset, null_count, n_buffers, buffers, .. } = *source;
    let Rule { largest_end, .. } = *rule;
    let expected = i64::from(rule.buffers);
    let more = n_buffers.wrapping_sub(expected).cast_unsigned();
    if !below_fits || more > u64::from(rule.more_buffers) || (buffers.is_null() && expected > 0) {
        return false;
    }
    // Each comparison checks both ends of a range: as an unsigned number, a negative number is a
    // large one.
    if length < least
        || length > largest_end
        || offset.cast_unsigned() > (largest_end - length).cast_unsigned()
        || null_count.wrapping_add(1).cast_unsigned() > (length + 1).cast_unsigned()
    {
        return false;
    }
    if rule.is_ordinary {
        // SAFETY: the table is there, and has a bitmap and one more entry at least.
        let bitmap = unsafe { buffers.read() };
        // SAFETY: the table is there, and has a bitmap and one more entry at least.
        let data = unsafe { buffers.wrapping_add(1).read() };
        if (data.is_null() && length > 0) || (bitmap.is_null() & (null_count > 0)) {
            return false;
        }
    } else {
        // SAFETY: the table is there and has at least as many entries.
        let missing = unsafe { missing(buffers.cast_const(), rule.fixed_buffers) };
        if (length > 0 && missing & rule.required != 0)
            || (null_count > 0 && missing & rule.required_for_nulls != 0)
        {
            return false;
        }
    }
    if more > 0 {
        if buffers.is_null() {
            return false;
        }
        // More buffers of a null column are the producer's own, and are not looked at.
        if rule.has_sizes() {
            // SAFETY: the table is there; it has `n_buffers` entries, and that is at least one.
            let sizes = unsafe { buffers.wrapping_add(n_buffers as usize - 1).read() };
            return !sizes.is_null();
        }
    }
    true
}

/// Which of the first buffers are null: a bit for each, [`NO_BUFFER`] among them.
///
/// # Safety
/// `buffers` has `count` entries.
#[inline]
unsafe fn missing(buffers: *const *const c_void, count: u8) -> u8 {
    let is_null = |index: u8| {
        // SAFETY: `buffers` has `count` entries, as the caller promises.
        let buffer = unsafe { buffers.wrapping_add(usize::from(index)).read() };
        u8::from(buffer.is_null()) << index
    };
    (0..count).map(is_null).fold(NO_BUFFER, |all, one| all | one)
}

/// Checks the run ends of a struct, and that there is a value for each of them.
///
/// # Safety
/// UNS-3; the struct has two children that are not null.
unsafe fn check_runs(source: &ArrowArray) -> Result<(), RunsFault> {
    // SAFETY: the node has two children, as the caller promises.
    let run_ends = unsafe { source.children.read() };
    // SAFETY: the child is not null, as the caller promises, and so is a struct (UNS-3).
    let run_ends = unsafe { &*run_ends };
    // SAFETY: the node has two children, as the caller promises.
    let values = unsafe { source.children.wrapping_add(1).read() };
    // SAFETY: the child is not null, as the caller promises, and so is a struct (UNS-3).
    let values = unsafe { &*values };
    check_run_ends(Window::of(source), Window::of(run_ends))?;
    check_run_values(Window::of(run_ends), Window::of(values))
}

impl StructFault {
    /// Says in words what is wrong, by a second look. Of `source`, only what the first look read is
    /// read.
    #[cold]
    fn explain(self, schema: &Schema, number: u32, source: &ArrowArray) -> Error {
        let (below, children) = (schema.below(number), schema.children(number).len());
        let place = schema.place(number);
        let data_type = schema.node(number).field.data_type();
        match self {
            Self::Node => {
                // SAFETY: `keeps` looked at the same members in the same order.
                let (kind, message) = unsafe { explain(source, schema, number) };
                Error::new(kind, message).at(place)
            }
            Self::Runs(fault) => {
                let child = below.first + fault.child() as u32;
                Error::new(ErrorKind::Malformed, fault.message()).at(schema.place(child))
            }
            Self::Child(index) => {
                let is_child = index < children;
                let least = if is_child { least(source, schema.rule(number)) } else { 0 };
                let child_number = below.first + index as u32;
                let child: *const ArrowArray = if is_child {
                    // SAFETY: the table was seen to be there and to have this entry.
                    unsafe { source.children.wrapping_add(index).read() }
                } else {
                    source.dictionary
                };
                // SAFETY: UNS-3: null or a struct.
                let (kind, message) = match unsafe { child.as_ref() } {
                    None => {
                        (ErrorKind::Malformed, "a null pointer in place of an array".to_owned())
                    }
                    Some(child) if child.is_released() => {
                        (ErrorKind::Released, "this part of the array is released".to_owned())
                    }
                    // The child has the needed shape, so it breaks a rule of its own.
                    Some(child) if child.length >= least => {
                        return Self::Node.explain(schema, child_number, child);
                    }
                    Some(child) => (ErrorKind::Malformed, explain_length(source, child, data_type)),
                };
                Error::new(kind, message).at(schema.place(child_number))
            }
        }
    }
}

/// Says why a child is too short for the node above.
fn explain_length(parent: &ArrowArray, child: &ArrowArray, parent_type: &DataType) -> String {
    let length = child.length;
    if length < 0 {
        return format!("length is {length}");
    }
    let end = Window::of(parent).end();
    format!("length is {length}, which does not cover the {end} elements of {parent_type} above it")
}

/// # Safety
/// UNS-3.
unsafe fn explain(source: &ArrowArray, schema: &Schema, number: u32) -> (ErrorKind, String) {
    use ErrorKind::{Malformed, SchemaMismatch};
    let ArrowArray { length, offset, null_count, n_buffers, n_children, .. } = *source;
    let (node, rule) = (schema.node(number), schema.rule(number));
    let data_type = node.field.data_type();
    let children = schema.children(number).len();
    let has_dictionary = schema.dictionary(number).is_some();
    let expected = i64::from(rule.buffers);
    let has_validity = node.layout.has_validity();
    if length < 0 {
        return (Malformed, format!("length is {length}"));
    }
    if offset < 0 {
        return (Malformed, format!("offset is {offset}"));
    }
    if offset.saturating_add(length) > rule.largest_end {
        return (
            Malformed,
            format!("offset {offset} and length {length} are more than any memory holds"),
        );
    }
    if null_count < -1 || null_count > length {
        return (Malformed, format!("null count is {null_count} for length {length}"));
    }
    if n_children != children as i64 {
        return (
            SchemaMismatch,
            format!("{data_type} has {} children, not {n_children}", children),
        );
    }
    if source.dictionary.is_null() == has_dictionary {
        let found = if has_dictionary { "its dictionary is null" } else { "there is a dictionary" };
        return (SchemaMismatch, format!("the type is {data_type}, and {found}"));
    }
    if source.children.is_null() && children > 0 {
        return (Malformed, format!("the table of {n_children} children is null"));
    }
    if n_buffers < expected || n_buffers - expected > i64::from(rule.more_buffers) {
        let buffers = match rule.more_buffers {
            0 => format!("{expected} buffers"),
            1 => format!("{expected} buffers or {}", expected + 1),
            _ => format!("at least {expected} buffers"),
        };
        return (SchemaMismatch, format!("{data_type} has {buffers}, not {n_buffers}"));
    }
    if source.buffers.is_null() {
        return (Malformed, format!("the table of {n_buffers} buffers is null"));
    }
    for index in 0..usize::from(rule.fixed_buffers) {
        // SAFETY: the table is there and has this entry.
        let buffer = unsafe { source.buffers.wrapping_add(index).read() };
        if !buffer.is_null() {
            continue;
        }
        if index == 0 && has_validity && null_count > 0 {
            return (
                Malformed,
                format!("null count is {null_count} and there is no validity bitmap"),
            );
        }
        if length > 0 && rule.required & (1 << index) != 0 {
            return (Malformed, format!("buffer {index} is null but length is {length}"));
        }
    }
    if null_count > 0 && !has_validity {
        return (
            Malformed,
            format!("null count is {null_count}, and a {data_type} has no nulls of its own"),
        );
    }
    (Malformed, format!("the sizes of {} data buffers are null", n_buffers - expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, Schema};

    /// Numbers without an order, the same in each run.
    struct Choices(u64);

    impl Choices {
        fn of<T: Copy>(&mut self, all: &[T]) -> T {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all[(self.0 >> 33) as usize % all.len()]
        }
    }

    unsafe extern "C" fn release(_: *mut ArrowArray) {}

    // Requirement: ARR-17
    #[test]
    fn a_leaf_that_the_limits_accept_keeps_its_rule_and_one_that_breaks_its_rule_is_explained() {
        let schemas = [
            DataType::Int32,
            DataType::Boolean,
            DataType::Utf8,
            DataType::LargeBinary,
            DataType::Utf8View,
            DataType::Null,
            DataType::FixedSizeBinary(0),
            DataType::Decimal256 { precision: 70, scale: 0 },
        ]
        .map(|data_type| Schema::new(Field::new("", data_type, true)).unwrap());
        let mut choices = Choices(1);
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..if cfg!(miri) { 3000 } else { 300_000 } {
            let schema = &schemas[choices.of(&[0, 1, 2, 3, 4, 5, 6, 7])];
            let (rule, check) = (schema.rule(0), &schema.checks()[0]);
            let largest = rule.largest_end;
            let numbers = [0, 0, 1, 5, 5, -1, largest - 5, largest, i64::MAX, i64::MIN];
            let entry = [ptr::null(), (&raw const choices).cast(), (&raw const choices).cast()];
            let mut table = [(); 4].map(|()| choices.of(&entry));
            let table = table.as_mut_ptr();
            let mut other = ArrowArray::empty();
            let other = &raw mut other;
            let array = ArrowArray {
                length: choices.of(&numbers),
                offset: choices.of(&numbers),
                null_count: choices.of(&[0, 0, -1, -2, 1, 5, 6, i64::MAX, i64::MIN]),
                n_buffers: choices.of(&[2, 2, 3, 3, 1, 0, 4, -1, i64::MAX]),
                buffers: choices.of(&[table, table, ptr::null_mut()]),
                n_children: choices.of(&[0, 0, 0, 1, -1]),
                dictionary: choices.of(&[ptr::null_mut(), ptr::null_mut(), other]),
                release: choices.of(&[Some(release as _), Some(release as _), None]),
                ..ArrowArray::empty()
            };
            let least = choices.of(&[0, 0, 1, 5, largest]);
            // SAFETY: UNS-3: the struct is there, and has a table of four buffers or none.
            let is_accepted = unsafe { LeafLimits::of(rule, least).accept(&raw const array) };
            // SAFETY: UNS-3: the struct is there, and has a table of four buffers or none.
            let keeps_rule = unsafe { leaf_keeps(&raw const array, rule, least) };
            // SAFETY: UNS-3: the struct is there, and has a table of four buffers or none.
            let keeps_of_its_own = unsafe { keeps(&array, rule, check) };
            assert!(keeps_rule || !is_accepted, "{schema}, at least {least}: {array:?}");
            assert!(keeps_of_its_own || !keeps_rule, "{schema}, at least {least}: {array:?}");
            accepted += usize::from(is_accepted);
            if !keeps_of_its_own {
                // SAFETY: UNS-3: the struct is there, and has a table of four buffers or none.
                let (_, words) = unsafe { explain(&array, schema, 0) };
                let has_sizes = rule.has_sizes() && array.n_buffers > i64::from(rule.buffers);
                assert!(has_sizes || !words.contains("the sizes of"), "{schema}: {array:?}");
                refused += 1;
            }
        }
        let least = if cfg!(miri) { 0 } else { 50 };
        assert!(accepted > least && refused > 500, "{accepted} accepted, {refused} refused");
    }
}
