//! Tickets for values that are taken once. [`Tickets`](super::tickets::Tickets) has a lock, and the
//! slots here have none: one thread makes tasks and another one takes them, so that a lock would be
//! contended for each task.
//!
//! 1. Values lie in *slots*. Slots are in chunks of doubling size, are used again and never freed,
//!    so a late access always reads a slot.
//! 2. Each use of a slot has a number, its *generation*. A ticket is the number of a slot and the
//!    generation.
//! 3. To issue a ticket, a thread takes a slot off the free list, or a new one, writes the value,
//!    and marks the generation as begun.
//! 4. To take the value, a thread ends the generation with one compare-and-exchange. Only one
//!    thread can; a late or repeated call names a generation that is over, and gets nothing. The
//!    slot then goes back to the free list.
//!
//! What must stay true: the head of the free list has a counter that grows with each change, so
//! that a slot that came back in the meantime is noticed (the ABA problem). A slot whose
//! generations are used up is never used again, so no ticket is issued twice.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::once::OnceSlice;

/// How many bits of a ticket are the number of its slot.
const NUMBER_BITS: u32 = if usize::BITS == 64 { 24 } else { 16 };
const NUMBERS: usize = 1 << NUMBER_BITS;
const LAST_GENERATION: usize = (1 << (usize::BITS - NUMBER_BITS - 1)) - 1;

/// How many slots the first chunk has. Each further chunk has twice as many as the one before.
const FIRST: usize = 64;
const CHUNKS: usize = (NUMBER_BITS - FIRST.ilog2()) as usize;

/// The values of tickets.
pub(super) struct Slots<T> {
    chunks: [OnceSlice<TicketSlot<T>>; CHUNKS],
    /// The head of the free list. The lower half is the number of the slot that was freed last,
    /// counted from 1, and 0 for none. The upper half counts the changes of the head, so that a
    /// slot which came back in the meantime is noticed.
    free: AtomicU64,
    /// The number of the first slot that was never used.
    unused: AtomicUsize,
}

struct TicketSlot<T> {
    /// Twice the generation, plus one while the slot has a value.
    state: AtomicUsize,
    /// The next free slot, counted from 1 as in [`Slots::free`].
    next: AtomicU32,
    what: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: what is in a slot is written by the one that took the slot off the free list, and read by
// the one that ended its generation; both are one thread at a time, and pass it on with release
// and acquire.
unsafe impl<T: Send> Sync for Slots<T> {}
// SAFETY: what is in a slot is written by the one that took the slot off the free list, and read by
// the one that ended its generation; both are one thread at a time, and pass it on with release
// and acquire. All else in a slot is atomic.
unsafe impl<T: Send> Sync for TicketSlot<T> {}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            chunks: [const { OnceSlice::new() }; CHUNKS],
            free: AtomicU64::new(0),
            unused: AtomicUsize::new(0),
        }
    }

    /// Issues a ticket for a value, as a `private_data`. The result is null, which is no ticket,
    /// where all slots are in use: nearly 2^24 of them, or 2^16 where addresses have 32 bits.
    pub(super) fn issue(&self, what: T) -> *mut c_void {
        let Some((number, slot)) = self.free_slot() else { return ptr::null_mut() };
        let generation = slot.state.load(Ordering::Relaxed) / 2;
        // SAFETY: the slot was free and is this thread's alone; what was in it was read by whoever
        // freed it.
        unsafe { slot.what.get().write(MaybeUninit::new(what)) };
        slot.state.store(2 * generation + 1, Ordering::Release);
        ptr::without_provenance_mut(generation << NUMBER_BITS | number)
    }

    /// Takes the value of a ticket. `None` the second time.
    pub(super) fn take(&self, ticket: *mut c_void) -> Option<T> {
        let (number, generation) = (ticket.addr() % NUMBERS, ticket.addr() >> NUMBER_BITS);
        let slot = self.slot(number)?;
        let over = 2 * generation.wrapping_add(1);
        let taken = slot.state.compare_exchange(
            2 * generation + 1,
            over,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        taken.ok()?;
        // SAFETY: this thread ended the generation, so it alone may read what is in the slot, until
        // the slot is freed below.
        let what = unsafe { slot.what.get().read() };
        // SAFETY: the generation had begun, so it was written.
        let what = unsafe { what.assume_init() };
        if generation < LAST_GENERATION {
            self.free(number, slot);
        }
        Some(what)
    }

    /// Takes a slot that no other thread uses.
    fn free_slot(&self) -> Option<(usize, &TicketSlot<T>)> {
        let mut first = self.free.load(Ordering::Acquire);
        while let Some(number) = (first as u32 as usize).checked_sub(1) {
            let slot = self.slot(number)?;
            let next = after(first, slot.next.load(Ordering::Relaxed));
            match self.free.compare_exchange_weak(first, next, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some((number, slot)),
                Err(now) => first = now,
            }
        }
        if self.unused.load(Ordering::Relaxed) >= NUMBERS - FIRST {
            return None;
        }
        let number = self.unused.fetch_add(1, Ordering::Relaxed);
        let (chunk, index) = place(number);
        let slots = self.chunks.get(chunk)?.get_or_make(|| fresh(FIRST << chunk));
        Some((number, slots.get(index)?))
    }

    fn free(&self, number: usize, slot: &TicketSlot<T>) {
        let mut first = self.free.load(Ordering::Relaxed);
        loop {
            slot.next.store(first as u32, Ordering::Relaxed);
            let now_first = after(first, number as u32 + 1);
            match self.free.compare_exchange_weak(
                first,
                now_first,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    fn slot(&self, number: usize) -> Option<&TicketSlot<T>> {
        let (chunk, index) = place(number);
        self.chunks.get(chunk)?.get()?.get(index)
    }
}

/// The chunk of a slot, and the slot's position in the chunk.
fn place(number: usize) -> (usize, usize) {
    let log = (number + FIRST).ilog2();
    ((log - FIRST.ilog2()) as usize, number + FIRST - (1 << log))
}

/// The new head of the free list, after the head that was seen.
fn after(seen: u64, first: u32) -> u64 {
    (seen >> 32).wrapping_add(1) << 32 | u64::from(first)
}

fn fresh<T>(count: usize) -> Box<[TicketSlot<T>]> {
    let slot = || TicketSlot {
        // Begins with generation 1, so that no ticket is null.
        state: AtomicUsize::new(2),
        next: AtomicU32::new(0),
        what: UnsafeCell::new(MaybeUninit::uninit()),
    };
    std::iter::repeat_with(slot).take(count).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let slots = Slots::new();
        let (first, second) = (slots.issue("one"), slots.issue("two"));
        assert_eq!((slots.take(first), slots.take(first)), (Some("one"), None));
        let third = slots.issue("three");
        assert_ne!(third, first, "numbers come back never");
        assert_eq!(third.addr() % NUMBERS, first.addr() % NUMBERS, "and slots do");
        assert_eq!((slots.take(first), slots.take(ptr::null_mut())), (None, None));
        assert_eq!(slots.take(ptr::without_provenance_mut(usize::MAX)), None);
        assert_eq!((slots.take(second), slots.take(third)), (Some("two"), Some("three")));
    }

    #[test]
    fn a_slot_without_turns_left_rests() {
        let slots = Slots::new();
        let first = slots.issue(1);
        let slot = slots.slot(0).unwrap();
        slot.state.store(2 * LAST_GENERATION + 1, Ordering::Relaxed);
        assert_eq!(slots.take(first), None);
        let last = ptr::without_provenance_mut(LAST_GENERATION << NUMBER_BITS);
        assert_eq!((slots.take(last), slots.take(last)), (Some(1), None));
        assert_ne!(slots.issue(2).addr() % NUMBERS, 0);
    }

    #[test]
    fn each_of_many_has_a_place_of_its_own() {
        let count = if cfg!(miri) { 200 } else { 20_000 };
        let slots = Slots::new();
        let tickets: Vec<_> = (0..count).map(|number| slots.issue(number)).collect();
        let distinct: HashSet<_> = tickets.iter().map(|ticket| ticket.addr()).collect();
        assert_eq!(distinct.len(), count);
        let taken = tickets.iter().map(|ticket| slots.take(*ticket).unwrap());
        assert!(taken.eq(0..count));
        assert_eq!(place(NUMBERS - FIRST - 1).0, CHUNKS - 1);
    }

    #[test]
    fn threads_that_race_for_a_ticket_get_it_once() {
        let slots = Slots::new();
        let turns = if cfg!(miri) { 20 } else { 2000 };
        let taken = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    for turn in 0..turns {
                        let mine = slots.issue(Box::new(turn));
                        // A ticket that may be another thread's, which may be taking it.
                        let guess = ptr::without_provenance_mut(mine.addr() ^ 1);
                        taken.fetch_add(slots.take(guess).map_or(0, |_| 1), Ordering::Relaxed);
                        taken.fetch_add(slots.take(mine).map_or(0, |_| 1), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), 3 * turns);
    }
}
