//! [`Table`]: the table of a schema, in one block of recycled memory.
//!
//! All plain values of the table lie in the block, behind the table itself. A [`Draft`] is a table
//! that is being written. The room for each part of a draft is guessed from the number of nodes.
//! Where a guess was too low, everything moves to a larger block, in which that part has at least
//! twice the room. So a schema usually takes one block, and no list is allocated for its values.

use crate::numbered::fitted;
use crate::once::{OnceBox, OnceSlice};
use std::ffi::CStr;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use super::Text;
use super::check::Check;
use super::kind::NamedKind;
use super::metadata::MAX_ENCODED_BYTES;
use super::node::SchemaNode;
use super::rules::Rule;
use super::table::MAX_NODES;
use super::text::TextSpan;
use crate::abi::ArrowSchema;
use crate::pool::block;
use crate::pool::shared::{Shared, Unique, Vacancy};
use crate::{Error, ErrorKind, Result};

pub(super) struct Table {
    pub(super) packed: Packed,
    /// The nodes. A schema that was made of fields has its nodes from the start. An imported schema
    /// makes its nodes when somebody first asks for one.
    pub(super) nodes: OnceSlice<SchemaNode>,
    pub(super) image: OnceBox<Image>,
}

/// The plain values, which lie in the block of their table. Only imported schemas have the last
/// four parts, which describe the nodes until somebody asks for fields.
pub(super) struct Packed {
    pub(super) checks: PackedItems<Check>,
    pub(super) rules: PackedItems<Rule>,
    pub(super) records: PackedItems<Record>,
    /// The kinds to which the rules belong.
    pub(super) kinds: PackedItems<NamedKind>,
    pub(super) metadata: PackedItems<u8>,
    pub(super) text: PackedItems<u8>,
}

/// What an `ArrowSchema` says of a node beside its format and its children, which the [`Check`]
/// has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) name: TextSpan,
    pub(super) flags: i64,
    /// Where the metadata of this node starts in the metadata of all nodes, plus one; 0 for none.
    pub(super) metadata: u32,
    pub(super) parent: u32,
}

/// What every exported struct of a schema says, apart from its links.
pub(crate) struct Image {
    pub(super) nodes: Box<[ArrowSchema]>,
    /// The format strings that are not a part of the program. The schema keeps names and metadata.
    pub(super) _formats: Box<[Text]>,
}

// SAFETY: the pointers in the structs lead to bytes that are never written to, and that the image
// or its schema keeps.
unsafe impl Send for Image {}
// SAFETY: the pointers in the structs lead to bytes that are never written to, and that the image
// or its schema keeps. Nothing here changes.
unsafe impl Sync for Image {}

/// The number of items of each part for which there is, or has to be, room.
#[derive(Clone, Copy, Default)]
pub(super) struct PackedRoom {
    pub(super) checks: usize,
    pub(super) rules: usize,
    pub(super) records: usize,
    pub(super) kinds: usize,
    pub(super) metadata: usize,
    pub(super) text: usize,
}

impl PackedRoom {
    /// The room that most schemas with this number of nodes need.
    #[inline(always)]
    pub(super) fn for_nodes(nodes: usize) -> Self {
        let kinds = nodes.min(8);
        Self { checks: nodes, rules: kinds, records: nodes, kinds, metadata: 0, text: 8 * nodes }
    }
}

/// The longest text of all names and formats. A hostile schema could have one long name at a
/// quarter of a million nodes.
const LONGEST_TEXT: usize = MAX_ENCODED_BYTES;

/// A table that is being written and not shared yet.
pub(super) struct Draft(Unique<Table>);

impl Draft {
    /// An empty table. An error where there is no memory.
    #[inline(always)]
    pub(super) fn new(room: PackedRoom) -> Result<Self> {
        let mut plan = BlockPlan { end: 0 };
        let rules_at = plan.place::<Rule>(room.rules)?;
        let kinds_at = plan.place::<NamedKind>(room.kinds)?;
        let records_at = plan.place::<Record>(room.records)?;
        let checks_at = plan.place::<Check>(room.checks)?;
        let metadata_at = plan.place::<u8>(room.metadata)?;
        let text_at = plan.place::<u8>(room.text)?;
        let place = Vacancy::with_room(plan.end)?;
        let start = place.room();
        // The rest of the block is for names.
        let left = Vacancy::<Table>::room_for(plan.end).saturating_sub(text_at);
        let text = left.min(LONGEST_TEXT);
        // SAFETY: `rules_at` is the place that the plan of this room gave for so many items, in the
        // block that `start` lies in.
        let rules = unsafe { PackedItems::new(start, rules_at, room.rules) };
        // SAFETY: `kinds_at` is the place that the plan of this room gave for so many items, in the
        // block that `start` lies in.
        let kinds = unsafe { PackedItems::new(start, kinds_at, room.kinds) };
        // SAFETY: `records_at` is the place that the plan of this room gave for so many items, in
        // the block that `start` lies in.
        let records = unsafe { PackedItems::new(start, records_at, room.records) };
        // SAFETY: `checks_at` is the place that the plan of this room gave for so many items, in
        // the block that `start` lies in.
        let checks = unsafe { PackedItems::new(start, checks_at, room.checks) };
        // SAFETY: `metadata_at` is the place that the plan of this room gave for so many bytes, in
        // the block that `start` lies in.
        let metadata = unsafe { PackedItems::new(start, metadata_at, room.metadata) };
        // SAFETY: `text_at` is the last place that the plan of this room gave, and all the room of
        // the block behind it is left for text.
        let text = unsafe { PackedItems::new(start, text_at, text) };
        let packed = Packed { checks, rules, records, kinds, metadata, text };
        Ok(Self(Unique::new(
            place,
            Table { packed, nodes: OnceSlice::new(), image: OnceBox::new() },
        )))
    }

    /// The table of a schema that is made of nodes.
    pub(super) fn of(nodes: Vec<SchemaNode>) -> Result<Self> {
        let (checks, rules) = Check::all(&nodes);
        let room = PackedRoom { checks: checks.len(), rules: rules.len(), ..PackedRoom::default() };
        let mut draft = Self::new(room)?;
        let table = &mut draft.0;
        let fits = table.packed.checks.extend(&checks) && table.packed.rules.extend(&rules);
        fitted(fits);
        table.nodes = OnceSlice::from(nodes.into_boxed_slice());
        Ok(draft)
    }

    /// The values that were written so far.
    pub(super) fn packed(&self) -> &Packed {
        &self.0.packed
    }

    /// The checks that were written so far, to be changed.
    pub(super) fn checks_mut(&mut self) -> &mut [Check] {
        &mut self.0.packed.checks
    }

    /// Adds the check of a node. The caller adds its record next.
    pub(super) fn add_check(&mut self, check: &Check) -> Result<()> {
        if !self.0.packed.checks.push(check) {
            self.grow(PackedRoom { checks: 1, records: 1, ..PackedRoom::default() })?;
            fitted(self.0.packed.checks.push(check));
        }
        Ok(())
    }

    pub(super) fn add_record(&mut self, record: Record) -> Result<()> {
        if !self.0.packed.records.push(&record) {
            self.grow(PackedRoom { records: 1, ..PackedRoom::default() })?;
            fitted(self.0.packed.records.push(&record));
        }
        Ok(())
    }

    /// Adds a kind and its rule, and returns their number.
    #[inline(always)]
    pub(super) fn add_kind(&mut self, kind: &NamedKind, rule: &Rule) -> Result<u32> {
        // A schema has at most `MAX_NODES` nodes, and not more kinds than nodes.
        let number = self.0.packed.kinds.count as u32;
        if !self.0.packed.kinds.push(kind) {
            self.grow(PackedRoom { kinds: 1, rules: 1, ..PackedRoom::default() })?;
            fitted(self.0.packed.kinds.push(kind));
        }
        if !self.0.packed.rules.push(rule) {
            self.grow(PackedRoom { rules: 1, ..PackedRoom::default() })?;
            fitted(self.0.packed.rules.push(rule));
        }
        Ok(number)
    }

    /// Adds a text with its NUL byte, and returns its place.
    pub(super) fn add_text(&mut self, text: &CStr) -> Result<TextSpan> {
        // All texts together have at most `LONGEST_TEXT` bytes.
        let start = self.0.packed.text.count as u32;
        if !self.0.packed.text.extend(text.to_bytes_with_nul()) {
            self.add_more_text(text.to_bytes_with_nul())?;
        }
        // The text is not longer than all texts together, whose length fits.
        Ok(TextSpan { start, len: text.count_bytes() as u32 })
    }

    /// Adds a text of at most seven bytes, which zeros follow. `None` where there is no room for
    /// all eight bytes.
    #[inline(always)]
    pub(super) fn add_short_text(&mut self, (bytes, len): ([u8; 8], usize)) -> Option<TextSpan> {
        let text = &mut self.0.packed.text;
        let (start, len) = (text.count, len.min(7));
        if !text.extend(&bytes) {
            return None;
        }
        text.count = start + len + 1;
        Some(TextSpan { start: start as u32, len: len as u32 })
    }

    #[cold]
    #[inline(never)]
    fn add_more_text(&mut self, with_nul: &[u8]) -> Result<()> {
        let text = with_nul.len();
        if text > LONGEST_TEXT - self.0.packed.text.count {
            let message = format!(
                "the names of a schema together are longer than {} MiB",
                LONGEST_TEXT >> 20
            );
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        self.grow(PackedRoom { text, ..PackedRoom::default() })?;
        let fits = self.0.packed.text.extend(with_nul);
        fitted(fits);
        Ok(())
    }

    /// Adds the metadata of all nodes.
    #[cold]
    pub(super) fn add_metadata(&mut self, bytes: &[u8]) -> Result<()> {
        self.grow(PackedRoom { metadata: bytes.len(), ..PackedRoom::default() })?;
        let fits = self.0.packed.metadata.extend(bytes);
        fitted(fits);
        Ok(())
    }

    /// Makes room for more nodes.
    pub(super) fn reserve_nodes(&mut self, nodes: usize) -> Result<()> {
        if self.0.packed.checks.left() < nodes {
            self.grow(PackedRoom { checks: nodes, records: nodes, ..PackedRoom::default() })?;
        }
        Ok(())
    }

    /// Moves to a block with room for more items. Parts that need no more room keep theirs.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: PackedRoom) -> Result<()> {
        let Packed { checks, rules, records, kinds, metadata, text } = &self.0.packed;
        let mut room = PackedRoom {
            checks: checks.larger(more.checks),
            rules: rules.larger(more.rules),
            records: records.larger(more.records),
            kinds: kinds.larger(more.kinds),
            metadata: metadata.larger(more.metadata),
            text: text.larger(more.text),
        };
        // From half of the most nodes or of the longest text on, there is room for all of them:
        // each further move would need two large blocks at once.
        if room.records > MAX_NODES / 2 || room.text > LONGEST_TEXT / 2 {
            room.checks = checks.room.max(MAX_NODES);
            room.records = records.room.max(MAX_NODES);
            room.text = LONGEST_TEXT;
        }
        let mut next = Self::new(room)?;
        let packed = &mut next.0.packed;
        let fits = packed.checks.extend(checks)
            && packed.rules.extend(rules)
            && packed.records.extend(records)
            && packed.kinds.extend(kinds)
            && packed.metadata.extend(metadata)
            && packed.text.extend(text);
        fitted(fits);
        *self = next;
        Ok(())
    }

    /// The finished table.
    pub(super) fn finish(self) -> Shared<Table> {
        self.0.share()
    }
}

/// A part of a block: some items, and room for more.
pub(super) struct PackedItems<T: Copy> {
    start: NonNull<T>,
    count: usize,
    room: usize,
}

// SAFETY: a part is the only way to its items, and whoever has it has the block.
unsafe impl<T: Copy + Send> Send for PackedItems<T> {}
// SAFETY: a part is the only way to its items, which are only read through a shared part.
unsafe impl<T: Copy + Sync> Sync for PackedItems<T> {}

impl<T: Copy> PackedItems<T> {
    /// An empty part.
    ///
    /// # Safety
    /// From this byte behind `start` on there is room for so many items, as a [`BlockPlan`] says,
    /// in the block of the table that the part becomes a part of. No other part has these bytes.
    unsafe fn new(start: NonNull<u8>, at: usize, room: usize) -> Self {
        // SAFETY: from this byte behind `start` on there is room for so many items, as a
        // `BlockPlan` says, in the block of the table that the part becomes a part of, as the
        // caller promises.
        Self { start: unsafe { start.add(at) }.cast(), count: 0, room }
    }

    /// For how many more items there is room.
    fn left(&self) -> usize {
        self.room - self.count
    }

    /// How much room to make for `more` items, so that many small steps take few moves.
    fn larger(&self, more: usize) -> usize {
        let needed = self.count.saturating_add(more);
        if needed <= self.room { self.room } else { needed.max(self.room.saturating_mul(2)) }
    }

    /// Adds an item. Returns false where there is no room.
    #[must_use]
    fn push(&mut self, item: &T) -> bool {
        self.extend(std::slice::from_ref(item))
    }

    /// Adds all items. Returns false, and adds none, where there is no room for all.
    #[inline(always)]
    #[must_use]
    fn extend(&mut self, items: &[T]) -> bool {
        if items.len() > self.left() {
            return false;
        }
        // SAFETY: there is room for as many items as are there.
        let end = unsafe { self.start.add(self.count) };
        // SAFETY: there is room for these too; it is aligned for them, and this part's alone, so
        // they do not lie there.
        unsafe { ptr::copy_nonoverlapping(items.as_ptr(), end.as_ptr(), items.len()) };
        self.count += items.len();
        true
    }
}

impl<T: Copy> Deref for PackedItems<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many items were written from there on. A part is borrowed from the table that
        // lies in the block, and there it stays: nothing hands a part out by value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Copy> DerefMut for PackedItems<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: so many items were written from there on, and the part is borrowed for writing. A
        // part is borrowed from the table that lies in the block, and there it stays: nothing hands
        // a part out by value.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

/// The bytes of a block that are given to parts.
struct BlockPlan {
    end: usize,
}

impl BlockPlan {
    /// A place for this number of items, in bytes from where the room begins. No other place has
    /// these bytes.
    #[inline(always)]
    fn place<T: Copy>(&mut self, items: usize) -> Result<usize> {
        const { assert!(align_of::<T>() <= block::ALIGNMENT, "blocks are aligned to that") };
        let at = self.end.checked_next_multiple_of(align_of::<T>());
        let bytes = size_of::<T>().checked_mul(items);
        let Some((at, end)) =
            at.zip(bytes).and_then(|(at, bytes)| Some((at, at.checked_add(bytes)?)))
        else {
            return Err(Error::new(ErrorKind::OutOfMemory, "a schema larger than all memory"));
        };
        self.end = end;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::super::check::Nullability;
    use super::super::kinds::Kinds;
    use super::*;

    const NO_ROOM: PackedRoom =
        PackedRoom { checks: 0, rules: 0, records: 0, kinds: 0, metadata: 0, text: 0 };

    fn check(rule: u32) -> Check {
        Check { rule, ..Check::leaf(Nullability::All) }
    }

    fn record(number: u32) -> Record {
        let name = TextSpan { start: number, len: 2 };
        Record { name, flags: i64::from(number), metadata: 3, parent: 4 }
    }

    #[test]
    fn all_parts_come_out_as_they_went_in_wherever_they_moved() {
        for count in [0, 1, 2, 7, 9, 1000] {
            for room in
                [NO_ROOM, PackedRoom::for_nodes(1), PackedRoom::for_nodes(count as usize + 1)]
            {
                let mut draft = Draft::new(room).unwrap();
                let mut kinds = Kinds::default();
                kinds.begin();
                let mut spans = Vec::new();
                for number in 0..count {
                    draft.add_check(&check(number)).unwrap();
                    let format = CString::new(format!("w:{}", number % 10)).unwrap();
                    // SAFETY: it ends with a NUL.
                    unsafe { kinds.of(format.as_ptr(), &mut draft) }.unwrap();
                    let name = CString::new("é".repeat(number as usize % 9)).unwrap();
                    spans.push((draft.add_text(&name).unwrap(), name));
                    if let Some(span) = draft.add_short_text((*b"abc\0\0\0\0\0", 3)) {
                        spans.push((span, CString::from(c"abc")));
                    }
                    draft.add_record(record(number)).unwrap();
                    draft.reserve_nodes(number as usize % 3).unwrap();
                }
                let metadata: Vec<u8> = (0..count).map(|byte| byte as u8).collect();
                draft.add_metadata(&metadata).unwrap();
                let table = draft.finish();
                let packed = &table.packed;
                assert!(packed.checks.iter().map(|check| check.rule).eq(0..count));
                assert!(packed.records.iter().map(|record| record.flags).eq(0..i64::from(count)));
                let kinds = count.min(10) as usize;
                assert_eq!((packed.kinds.len(), packed.rules.len()), (kinds, kinds));
                assert!(*packed.metadata == metadata);
                for (span, name) in spans {
                    assert_eq!(span.bytes(&packed.text), name.to_bytes());
                    let end = (span.start + span.len) as usize;
                    assert_eq!(packed.text[end], 0, "a NUL follows each text");
                }
            }
        }
    }

    #[test]
    fn a_draft_that_is_dropped_gives_its_block_back() {
        let room = PackedRoom { text: 5000, ..NO_ROOM };
        let at = |draft: &Draft| ptr::from_ref(draft.packed()).addr();
        let first = Draft::new(room).unwrap();
        let address = at(&first);
        drop(first);
        assert_eq!(at(&Draft::new(room).unwrap()), address);
    }
}
