//! Whether two arrays hold the same values.
//!
//! 1. Elements are compared from the root down, many at a time where they lie one behind the other
//!    ([`Flat`]). The first difference ends the comparison, so everything that was compared before
//!    is equal.
//! 2. A few bytes can name one large value many times. Once there have been more steps than
//!    elements, ranges that were compared are remembered, and not compared again. Both ends of such
//!    a range move together, so it is stored on its *diagonal*: all pairs of places with one
//!    distance. Ranges of a diagonal that overlap or touch are joined.
//! 3. After a bounded number of steps for each element, the comparison is given up with an error.
//!
//! What must stay true: without shared elements there are no more steps than elements, so nothing
//! is remembered; and the number of remembered ranges is bounded by the number of elements.

use std::collections::BTreeMap;
use std::ops::Range;

use super::blocks::{BLOCK, Flat, are_present};
use super::bytes::BytePlaces;
use super::follow::is_followed;
use super::lists::Lists;
use crate::{Array, DataType, Error, ErrorKind, HostArray, Result};

impl Array {
    /// Whether two arrays are of the same type and hold the same values, whatever their layout in
    /// memory is.
    ///
    /// Offsets, what lies below a null, the order of a dictionary's values, and where runs and list
    /// views are cut make no difference. Floats are equal if their bits are. Metadata is ignored.
    /// Waits for both arrays, and reads them on the host, as [`host`](Self::host) does.
    ///
    /// A few bytes can name one large value many times, on each of many levels: as the value of a
    /// dictionary, of a union or of a run, as an item of list views, as bytes of views. Parts that
    /// take long to compare are then compared once. That does not help where each array shares its
    /// parts in another way. A comparison that takes more than a million steps, plus 64 for each
    /// element of both arrays on every level, fails with
    /// [`LimitExceeded`](ErrorKind::LimitExceeded). A kilobyte of text counts as an element.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let one = Array::from_values(DataType::Int32, [Some(1), None, Some(3)])?;
    /// let other = Array::from_values(DataType::Int32, [None, Some(3)])?;
    /// assert!(one.slice(1, 2)?.equals(&other)?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn equals(&self, other: &Self) -> Result<bool> {
        if self.len() != other.len()
            || !self.data_type().equals_ignoring_metadata(other.data_type())
        {
            return Ok(false);
        }
        let (one, other) = (self.host()?, other.host()?);
        let all = 0..one.len();
        Comparison::new(&one, &other).are_equal((&one, all.clone()), (&other, all))
    }
}

/// How many elements are added to those of the arrays when steps are counted.
const FREE_ELEMENTS: usize = 1 << 14;
/// The largest number of steps for each element.
const MOST_STEPS: usize = 64;
/// A range is remembered if its comparison took more steps than this.
const WORTH_REMEMBERING: usize = 16;
/// How many bytes of one element are compared in about the time of a step.
const STEP_BYTES: usize = 1024;
/// At least so many elements are compared together in about the time of a step.
const STEP_ELEMENTS: usize = 16;

/// A range of elements of an array.
type SomeElements<'a> = (&'a HostArray, Range<usize>);

/// A comparison of two arrays: see the page of this module.
struct Comparison<'a> {
    arrays: [&'a HostArray; 2],
    /// How many steps were taken: comparisons of two elements, or of [`STEP_BYTES`] of their bytes.
    steps: usize,
    /// The number of steps after which [`go_on`](Self::go_on) decides what is next.
    until: usize,
    /// The number of elements of both arrays, plus [`FREE_ELEMENTS`]. Counted only when there are
    /// many steps. No more ranges than this are remembered.
    elements: Option<usize>,
    is_remembering: bool,
    /// Ranges that are equal: the end of each, by its diagonal and its start. Ranges of one
    /// diagonal neither overlap nor touch.
    known: BTreeMap<(Diagonal, usize), usize>,
}

/// All pairs of places in both arrays with one distance. Places are elements of one node, or bytes
/// of two of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Diagonal {
    node: u32,
    buffers: Option<(usize, usize)>,
    /// How far the place in the second array is behind the place in the first one. The number wraps
    /// around.
    shift: usize,
}

impl Diagonal {
    fn new(node: &HostArray, buffers: Option<(usize, usize)>, (i, j): (usize, usize)) -> Self {
        Self { node: node.array().node_number(), buffers, shift: j.wrapping_sub(i) }
    }
}

impl<'a> Comparison<'a> {
    fn new(one: &'a HostArray, other: &'a HostArray) -> Self {
        Self {
            arrays: [one, other],
            steps: 0,
            until: FREE_ELEMENTS,
            elements: None,
            is_remembering: false,
            known: BTreeMap::new(),
        }
    }

    fn take_steps(&mut self, more: usize) -> Result<()> {
        self.steps = self.steps.saturating_add(more);
        if self.steps > self.until { self.go_on() } else { Ok(()) }
    }

    /// Begins to remember, or gives up.
    #[cold]
    fn go_on(&mut self) -> Result<()> {
        let elements = match self.elements {
            Some(elements) => elements,
            None => count_elements(self.arrays)?.saturating_add(FREE_ELEMENTS),
        };
        self.elements = Some(elements);
        self.is_remembering = self.steps > elements;
        let each = if self.is_remembering { MOST_STEPS } else { 1 };
        self.until = elements.saturating_mul(each);
        if self.steps > self.until {
            let message = "the arrays share their values more often than can be compared";
            return Err(Error::new(ErrorKind::LimitExceeded, message).during("equals"));
        }
        Ok(())
    }

    /// How far the arrays are known to be equal from a place on.
    fn known_from(&self, diagonal: Diagonal, start: usize) -> usize {
        if !self.is_remembering {
            return 0;
        }
        match self.known.range(..=(diagonal, start)).next_back() {
            Some(((of, _), end)) if *of == diagonal => end.saturating_sub(start),
            _ => 0,
        }
    }

    /// Remembers that a range is equal.
    fn remember(&mut self, diagonal: Diagonal, range: Range<usize>) {
        if !self.is_remembering || Some(self.known.len()) >= self.elements {
            return;
        }
        let Range { mut start, mut end } = range;
        // Ranges that overlap or touch this one are joined with it, the last one first.
        while let Some(((of, first), last)) = self.known.range(..=(diagonal, end)).next_back() {
            if *of != diagonal || *last < start {
                break;
            }
            (start, end) = (start.min(*first), end.max(*last));
            let first = *first;
            self.known.remove(&(diagonal, first));
        }
        self.known.insert((diagonal, start), end);
    }

    /// Whether elements of two arrays of one type are equal. Both ranges have the same length.
    ///
    /// There may be more elements than a loop could visit, if they take no memory: elements without
    /// width, and those of a run.
    fn are_equal(
        &mut self,
        (a, here): SomeElements<'_>,
        (b, there): SomeElements<'_>,
    ) -> Result<bool> {
        if here.len() != there.len() {
            return Ok(false);
        }
        let (mut done, before) = (0_usize, self.steps);
        // Where the next block begins. Elements of a block that differs are compared one by one.
        let mut block = 0_usize;
        while done < here.len() {
            if done >= block && here.len() > 1 {
                let left = here.len() - done;
                let same =
                    self.same_block((a, here.start + done), (b, there.start + done), left)?;
                done = done.saturating_add(same);
                // A struct is compared again after each block, because its elements may take no
                // memory.
                let is_struct = same > 0 && matches!(a.data_type(), DataType::Struct(_));
                block = done.saturating_add(if is_struct { 1 } else { BLOCK });
                continue;
            }
            match self.same_from((a, here.start + done), (b, there.start + done))? {
                0 => return Ok(false),
                same => done = done.saturating_add(same),
            }
        }
        if self.steps - before > WORTH_REMEMBERING {
            self.remember(Diagonal::new(a, None, (here.start, there.start)), here);
        }
        Ok(true)
    }

    /// How many of `count` elements from these two on are equal, if many can be compared at a time.
    fn same_block(
        &mut self,
        (a, i): (&HostArray, usize),
        (b, j): (&HostArray, usize),
        count: usize,
    ) -> Result<usize> {
        // Elements past the end cannot be compared. The caller, who compares them one by one,
        // reports that.
        let has_all = |host: &HostArray, first: usize| {
            first.checked_add(count).is_some_and(|end| end <= host.len())
        };
        if !has_all(a, i) || !has_all(b, j) {
            return Ok(0);
        }
        let known = self.known_from(Diagonal::new(a, None, (i, j)), i);
        if known > 0 {
            return Ok(known.min(count));
        }
        if let DataType::Struct(fields) = a.data_type() {
            let count = count.min(BLOCK);
            if !are_present(a, i, count)? || !are_present(b, j, count)? {
                return Ok(0);
            }
            let (i, j) = (a.array().offset() + i, b.array().offset() + j);
            for number in 0..fields.len() {
                let (one, other) = (a.node_child(number)?, b.node_child(number)?);
                if !self.are_equal((&one, i..i + count), (&other, j..j + count))? {
                    return Ok(0);
                }
            }
            return Ok(count);
        }
        let (Some(one), Some(other)) = (Flat::of(a)?, Flat::of(b)?) else { return Ok(0) };
        let same = one.same_from(i, &other, j, count);
        let steps = (same / STEP_ELEMENTS).max(one.bytes(i, same) / STEP_BYTES);
        self.take_steps(steps.saturating_add(1))?;
        Ok(same)
    }

    /// How many elements from these two on are known to be equal, in arrays of one type. 0 where
    /// these two are not equal. The number may go past the end of the arrays.
    fn same_from(&mut self, one: (&HostArray, usize), other: (&HostArray, usize)) -> Result<usize> {
        const ALL: usize = usize::MAX;
        let ((a, i), (b, j)) = (one, other);
        if matches!(a.data_type(), DataType::Null) {
            return Ok(ALL);
        }
        self.take_steps(1)?;
        let known = self.known_from(Diagonal::new(a, None, (i, j)), i);
        if known > 0 {
            return Ok(known);
        }
        if matches!(a.data_type(), DataType::RunEndEncoded { .. }) {
            let ((values, run, left), (other_values, other_run, other_left)) =
                (a.run_at(i)?, b.run_at(j)?);
            return Ok(match self.same_from((&values, run), (&other_values, other_run))? {
                0 => 0,
                _ => left.min(other_left),
            });
        }
        let (found, others) = match (a.follow(i)?, b.follow(j)?) {
            (Some(found), Some(others)) => (found, others),
            (one, other) => {
                // An element of a dictionary is null if its key or its value is.
                let are_null = (one.is_none() || is_no_value(a, i)?)
                    && (other.is_none() || is_no_value(b, j)?);
                return Ok(are_null.into());
            }
        };
        // How many elements from these two on are not null, as far as one look tells.
        let present = if says_who_is_null(a) || says_who_is_null(b) { 1 } else { ALL };
        match a.data_type() {
            DataType::Union { type_ids, .. }
                if a.variant(type_ids, i)? != b.variant(type_ids, j)? =>
            {
                Ok(0)
            }
            data_type if is_followed(data_type) => {
                Ok(self.same_from((&found.0, found.1), (&others.0, others.1))?.min(1))
            }
            DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => Ok(present),
            DataType::Struct(fields) => {
                let (i, j) = (a.array().offset() + i, b.array().offset() + j);
                let mut same = present;
                for number in 0..fields.len() {
                    same = same.min(
                        self.same_from((&a.node_child(number)?, i), (&b.node_child(number)?, j))?,
                    );
                    if same == 0 {
                        break;
                    }
                }
                Ok(same)
            }
            data_type if data_type.is_nested() => {
                let (lists, other_lists) = (Lists::of(a)?, Lists::of(b)?);
                let range = lists.at(a, i)?.unwrap_or(0..0);
                let others = other_lists.at(b, j)?.unwrap_or(0..0);
                let (items, other_items) = (lists.items(), other_lists.items());
                let mut first = 0;
                if let DataType::FixedSizeList(_, size) = data_type {
                    // The items of all lists lie one behind the other.
                    first = self.same_from((items, range.start), (other_items, others.start))?;
                    let whole_lists = first / usize::try_from(*size).unwrap_or(1).max(1);
                    if first == 0 || whole_lists > 0 {
                        return Ok(whole_lists.min(present));
                    }
                }
                let (rest, other_rest) =
                    (range.start + first..range.end, others.start + first..others.end);
                Ok(self.are_equal((items, rest), (other_items, other_rest))?.into())
            }
            data_type if is_bytes(data_type) => {
                self.are_same_bytes((a, i), (b, j)).map(usize::from)
            }
            _ => Ok((a.leaf(i)? == b.leaf(j)?).into()),
        }
    }

    /// Whether two elements that are not null have the same bytes.
    fn are_same_bytes(
        &mut self,
        (a, i): (&HostArray, usize),
        (b, j): (&HostArray, usize),
    ) -> Result<bool> {
        let (places, others) = (BytePlaces::of(a)?, BytePlaces::of(b)?);
        let ((buffer, data), (other_buffer, other_data)) =
            (places.data_of(a, i)?, others.data_of(b, j)?);
        let data = data.as_deref().unwrap_or_default();
        let other_data = other_data.as_deref().unwrap_or_default();
        let (bytes, other_bytes) = (places.find_in(a, i, data)?, others.find_in(b, j, other_data)?);
        if bytes.len() != other_bytes.len() || bytes.len() <= STEP_BYTES {
            return Ok(bytes == other_bytes);
        }
        // These bytes are more than a view holds itself, so they lie in the buffers.
        let start = bytes.as_ptr().addr() - data.as_ptr().addr();
        let other_start = other_bytes.as_ptr().addr() - other_data.as_ptr().addr();
        let diagonal = Diagonal::new(a, Some((buffer, other_buffer)), (start, other_start));
        let known = self.known_from(diagonal, start).min(bytes.len());
        self.take_steps((bytes.len() - known) / STEP_BYTES)?;
        let are_same = bytes.get(known..) == other_bytes.get(known..);
        if are_same {
            self.remember(diagonal, start..start + bytes.len());
        }
        Ok(are_same)
    }
}

/// Whether an element is null, with the nulls of dictionaries and runs. An element of a union
/// counts as not null, because it has at least a type.
fn is_no_value(host: &HostArray, index: usize) -> Result<bool> {
    match (host.follow(index)?, host.data_type()) {
        (None, _) => Ok(true),
        (Some((values, number)), DataType::Dictionary { .. } | DataType::RunEndEncoded { .. }) => {
            is_no_value(&values, number)
        }
        (Some(_), _) => Ok(false),
    }
}

/// Whether an array has a bitmap.
fn says_who_is_null(host: &HostArray) -> bool {
    !host.array().node().buffer(0).is_null()
}

/// Whether elements are texts or bytes of any size.
fn is_bytes(data_type: &DataType) -> bool {
    data_type.is_text()
        || data_type.is_binary()
        || matches!(data_type, DataType::FixedSizeBinary(_))
}

/// The number of elements in the nodes of both arrays, plus the number of steps that their bytes
/// take. A node whose elements take no memory counts no more than all others together.
fn count_elements(arrays: [&HostArray; 2]) -> Result<usize> {
    let (mut nodes, mut pieces) = (Vec::new(), 0_usize);
    for array in arrays {
        add_nodes(array, &mut nodes, &mut pieces)?;
    }
    let in_memory = nodes.iter().filter(|(_, bytes)| *bytes > 0);
    let in_memory = in_memory.fold(0, |sum: usize, (len, _)| sum.saturating_add(*len));
    let elements = nodes.iter().map(|(len, _)| (*len).min(in_memory));
    Ok(elements.fold(pieces, usize::saturating_add))
}

/// Adds the number of elements of each node, and of their bytes.
fn add_nodes(host: &HostArray, nodes: &mut Vec<(usize, usize)>, pieces: &mut usize) -> Result<()> {
    // A buffer that cannot be read is an error only when its elements are compared.
    let lens = (0..host.array().buffer_count())
        .map(|index| host.buffer(index).map_or(0, |bytes| bytes.len()));
    let bytes = lens.fold(0, usize::saturating_add);
    nodes.push((host.len(), bytes));
    *pieces = pieces.saturating_add(bytes / STEP_BYTES);
    for number in 0..host.array().child_count() {
        add_nodes(&host.node_child(number)?, nodes, pieces)?;
    }
    host.node_dictionary().map_or(Ok(()), |values| add_nodes(&values, nodes, pieces))
}
