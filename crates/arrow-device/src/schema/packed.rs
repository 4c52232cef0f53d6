//! [`Packed`]: all that the table of a schema has in plain values, in one block.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use super::check::{Check, Rule};
use super::import::Record;
use super::kinds::Named;
use crate::exchange::pool::{self, Block};
use crate::{Error, ErrorKind, Result};

/// What goes into a block. The last four are of imported schemas alone, and describe the nodes until somebody asks for fields.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts<'parts> {
    pub(super) checks: &'parts [Check],
    pub(super) rules: &'parts [Rule],
    pub(super) records: &'parts [Record],
    /// The kinds that the rules are of.
    pub(super) kinds: &'parts [Named],
    pub(super) text: &'parts str,
    pub(super) metadata: &'parts [u8],
}

/// Copies of some [`Parts`], in recycled memory.
pub(super) struct Packed {
    pub(super) checks: Part<Check>,
    pub(super) rules: Part<Rule>,
    pub(super) records: Part<Record>,
    pub(super) kinds: Part<Named>,
    pub(super) text: Part<u8>,
    pub(super) metadata: Part<u8>,
    /// Dropped with them.
    _block: Block,
}

impl Packed {
    /// An error where there is no memory.
    pub(super) fn new(parts: Parts<'_>) -> Result<Self> {
        let Parts { checks, rules, records, kinds, text, metadata } = parts;
        let mut plan = Plan { end: 0 };
        let text = text.as_bytes();
        let rules_at = plan.place(rules)?;
        let records_at = plan.place(records)?;
        let kinds_at = plan.place(kinds)?;
        let checks_at = plan.place(checks)?;
        let text_at = plan.place(text)?;
        let metadata_at = plan.place(metadata)?;
        let block = Block::new(plan.end)?;
        // SAFETY: the place is the one that the plan of this block gave for these items, and is filled once.
        let rules = unsafe { fill(&block, rules_at, rules) };
        // SAFETY: as above.
        let records = unsafe { fill(&block, records_at, records) };
        // SAFETY: as above.
        let kinds = unsafe { fill(&block, kinds_at, kinds) };
        // SAFETY: as above.
        let checks = unsafe { fill(&block, checks_at, checks) };
        // SAFETY: as above.
        let text = unsafe { fill(&block, text_at, text) };
        // SAFETY: as above.
        let metadata = unsafe { fill(&block, metadata_at, metadata) };
        Ok(Self { checks, rules, records, kinds, text, metadata, _block: block })
    }
}

/// Some of the items in a block.
pub(super) struct Part<T: Copy> {
    start: NonNull<T>,
    count: usize,
    items: PhantomData<T>,
}

// SAFETY: the items are only read, and whoever has the part has the block.
unsafe impl<T: Copy + Send> Send for Part<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Sync> Sync for Part<T> {}

impl<T: Copy> Deref for Part<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `fill` wrote so many items from there on. A part is borrowed from the `Packed` that has the block, and
        // there it stays: nothing hands a part out by value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

/// Copies the items to their place.
///
/// # Safety
/// `at` is what the [`Plan`] of this block said for these items, and no part is there yet.
#[inline(always)]
unsafe fn fill<T: Copy>(block: &Block, at: usize, items: &[T]) -> Part<T> {
    // SAFETY: the plan counted these bytes among those of the block.
    let start = unsafe { block.bytes().add(at) }.cast::<T>();
    if items.is_empty() {
        return Part { start, count: 0, items: PhantomData };
    }
    // SAFETY: the plan keeps so many items behind `start`, aligned for them as blocks are aligned to 16, and for nothing else;
    // the items are not in the block, which is new.
    unsafe { ptr::copy_nonoverlapping(items.as_ptr(), start.as_ptr(), items.len()) };
    Part { start, count: items.len(), items: PhantomData }
}

/// Which bytes of a block are taken.
struct Plan {
    end: usize,
}

impl Plan {
    /// A place for these items, in bytes from the start of the block. No other place has these bytes.
    #[inline(always)]
    fn place<T: Copy>(&mut self, items: &[T]) -> Result<usize> {
        const { assert!(align_of::<T>() <= pool::ALIGNMENT, "blocks are aligned to that") };
        let at = self.end.checked_next_multiple_of(align_of::<T>());
        let Some((at, end)) = at.and_then(|at| Some((at, at.checked_add(size_of_val(items))?)))
        else {
            return Err(Error::new(ErrorKind::OutOfMemory, "a schema larger than all memory"));
        };
        self.end = end;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Nulls;
    use super::super::text::TextSpan;
    use super::*;

    #[test]
    fn all_parts_come_out_as_they_went_in() {
        let check = |rule| Check { rule, ..Check::leaf(Nulls::All) };
        let record =
            |flags| Record { name: TextSpan { start: 1, len: 2 }, flags, metadata: 3, parent: 4 };
        for count in [0, 1, 2, 7, 1000] {
            let checks: Vec<Check> = (0..count).map(check).collect();
            let records: Vec<Record> = (0..i64::from(count)).map(record).collect();
            let rules = vec![Rule::NONE; count as usize];
            let text = "é".repeat(count as usize);
            let metadata: Vec<u8> = (0..count).map(|byte| byte as u8).collect();
            let parts = Parts {
                checks: &checks,
                rules: &rules,
                records: &records,
                text: &text,
                metadata: &metadata,
                ..Parts::default()
            };
            let packed = Packed::new(parts).unwrap();
            assert!(packed.checks.iter().map(|check| check.rule).eq(0..count));
            assert!(packed.records.iter().map(|record| record.flags).eq(0..i64::from(count)));
            assert_eq!((&*packed.rules, &*packed.text), (&*rules, text.as_bytes()));
            assert_eq!((&*packed.metadata, packed.kinds.len()), (&*metadata, 0));
        }
    }
}
