//! Tickets and resting places: why a call that comes too late finds nothing.
//!
//! Some shipped libraries call `request` after `release`, or extract a task twice. If
//! `private_data` were a pointer to our state, such a call would read freed memory. Therefore:
//!
//! 1. `private_data` holds a *ticket*: a number that is looked up, and never issued again.
//! 2. The structs to which another party holds pointers lie in *places*. A place goes back to this
//!    module and not to the allocator, and is used again only after [`RESTING`] others.
//!
//! A late call reads a struct of the right type, and finds that its ticket is gone. A child of
//! `fork` has tickets and places of its own, so a call through a struct of the parent finds
//! nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::lock;

/// The values of tickets.
pub(super) struct Tickets<T>(Mutex<BTreeMap<usize, T>>);

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Default for Places<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Tickets<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Issues a ticket for a value, as a `private_data`.
    pub(super) fn issue(&self, what: T) -> *mut c_void {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&self.0).insert(number, what);
        ptr::without_provenance_mut(number)
    }

    /// Takes the value of a ticket. `None` the second time.
    pub(super) fn take(&self, ticket: *mut c_void) -> Option<T> {
        lock(&self.0).remove(&ticket.addr())
    }
}

impl<T: Clone> Tickets<T> {
    pub(super) fn find(&self, ticket: *mut c_void) -> Option<T> {
        lock(&self.0).get(&ticket.addr()).cloned()
    }
}

/// How many places rest before the one that has rested longest is used again.
const RESTING: usize = 64;

/// The unused places of one kind of struct.
pub(super) struct Places<C>(Mutex<VecDeque<Pinned<C>>>);

/// Memory for one struct that C holds a pointer to. It is never freed, and used again after a rest.
pub(super) struct Pinned<C>(NonNull<C>);

// SAFETY: a place is an address, which can be used on any thread. Each function that reads or
// writes there has a proof of its own.
unsafe impl<C> Send for Pinned<C> {}
// SAFETY: a place is an address that does not change. Each function that reads or writes there has
// a proof of its own.
unsafe impl<C> Sync for Pinned<C> {}

impl<C> Places<C> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// Puts a struct into a place.
    pub(super) fn put(&self, c_struct: C) -> Pinned<C> {
        let rested = {
            let mut places = lock(&self.0);
            if places.len() > RESTING { places.pop_front() } else { None }
        };
        match rested {
            Some(place) => {
                // SAFETY: the place was made below, is not freed, and was nobody's any more.
                unsafe { place.as_ptr().write(c_struct) };
                place
            }
            None => Pinned(NonNull::from(Box::leak(Box::new(c_struct)))),
        }
    }

    /// Lets a place rest, with its struct unchanged.
    pub(super) fn rest(&self, place: Pinned<C>) {
        lock(&self.0).push_back(place);
    }

    /// [`rest`](Self::rest) for the pointer that C has.
    ///
    /// # Safety
    /// The pointer is that of a place from [`put`](Self::put), which rests once.
    pub(super) unsafe fn rest_at(&self, pointer: *mut C) {
        if let Some(place) = NonNull::new(pointer) {
            self.rest(Pinned(place));
        }
    }
}

impl<C> Pinned<C> {
    pub(super) fn as_ptr(&self) -> *mut C {
        self.0.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let tickets = Tickets::new();
        let (first, second) = (tickets.issue("one"), tickets.issue("two"));
        assert_eq!(tickets.find(first), Some("one"));
        assert_eq!((tickets.take(first), tickets.take(first)), (Some("one"), None));
        assert_eq!((tickets.find(first), tickets.find(ptr::null_mut())), (None, None));
        assert_ne!(tickets.issue("three"), first, "numbers come back never");
        assert_eq!(tickets.take(second), Some("two"));
    }

    #[test]
    fn a_place_rests_long_before_it_is_used_again() {
        static PLACES: Places<u64> = Places::new();
        let first = PLACES.put(7);
        let address = first.as_ptr();
        PLACES.rest(first);
        for round in 0..RESTING {
            let place = PLACES.put(8);
            assert_ne!(place.as_ptr(), address, "after {round} others");
            PLACES.rest(place);
        }
        // SAFETY: places are never freed.
        let left = unsafe { address.read() };
        assert_eq!(left, 7, "and is as it was left");
        assert_eq!(PLACES.put(9).as_ptr(), address);
    }
}
