//! A walk that stops wherever offsets have to be read, for callers that read them without a wait.
//!
//! [`walk`](super::walk::walk) reads the offsets itself and waits. A [`StoppedWalk`] instead says
//! which bytes it needs, and goes on when it gets them. Between two readings it borrows nothing, so
//! that an `async` function can hold it while it waits.

use super::Note;
use super::lengths::spans_of;
use super::pack::Pieces;
use super::walk::{Awaited, Item, Learned, Terms, Walk, Walked};
use crate::Result;
use crate::copy::source::Span;
use crate::schema::Schema;

/// A walk between two readings. It borrows nothing of what it walks over.
pub(in crate::copy) struct StoppedWalk {
    schema: Schema,
    items: Vec<Item>,
    known: usize,
    slots: Vec<u32>,
    sizes: Vec<(u32, Vec<i64>)>,
    pieces: Pieces,
    notes: Vec<Note>,
    learned: Learned,
    /// The offsets that have to be read. Empty at the end of the walk.
    awaited: Vec<Awaited>,
}

impl StoppedWalk {
    /// Begins a walk, and goes on until something has to be read.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    pub(in crate::copy) unsafe fn begin(terms: Terms<'_>) -> Result<Self> {
        let schema = terms.array.schema()?;
        let walk = Walk::new(terms, &schema)?;
        // SAFETY: W1, which the caller promises.
        unsafe { Self::go_on(walk) }
    }

    /// The bytes that have to be read before the walk can go on. Empty at the end of the walk.
    pub(in crate::copy) fn asks_for(&self) -> Vec<Span> {
        spans_of(&self.awaited)
    }

    /// Goes on with the bytes of the spans that were asked for, one span after the other.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk); the terms are those that the walk began with.
    pub(in crate::copy) unsafe fn answer(self, terms: Terms<'_>, bytes: &[u8]) -> Result<Self> {
        let Self { schema, items, known, slots, sizes, pieces, notes, learned, awaited } = self;
        let (tree, kinds) = (terms.array.tree(), schema.nodes());
        let mut walk = Walk {
            terms,
            schema: &schema,
            kinds,
            tree,
            items,
            known,
            slots,
            sizes,
            pieces,
            notes,
            learned,
        };
        // SAFETY: W1, which the caller promises.
        unsafe { walk.settle_read(&awaited, bytes) }?;
        // SAFETY: W1, which the caller promises.
        unsafe { Self::go_on(walk) }
    }

    /// The result of the walk, at its end.
    pub(in crate::copy) fn end(self) -> Result<Walked> {
        let Self { schema, items, slots, sizes, pieces, notes, learned, .. } = self;
        pieces.check()?;
        Ok(Walked { schema, items, slots, sizes, pieces, notes, learned })
    }

    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    unsafe fn go_on(mut walk: Walk<'_>) -> Result<Self> {
        let mut awaited = Vec::new();
        // SAFETY: W1, which the caller promises.
        unsafe { walk.settle_known(&mut awaited) }?;
        walk.note_reads(&awaited)?;
        let Walk { schema, items, known, slots, sizes, pieces, notes, learned, .. } = walk;
        let schema = schema.clone();
        Ok(Self { schema, items, known, slots, sizes, pieces, notes, learned, awaited })
    }
}
