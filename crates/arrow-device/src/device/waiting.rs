//! The circles that a wait of threads for each other could close.
//!
//! Threads wait for turns ([`Turns`](super::turns::Turns)), for releases and for other threads. A
//! thread that is about to wait:
//!
//! 1. takes the lock of the list of waiting threads, the door;
//! 2. looks at the threads that it would wait for, at those that these wait for, and so on;
//! 3. gets an error, and does not wait, if it finds itself among them;
//! 4. otherwise notes what it waits for, and waits. The note is taken back after the wait.
//!
//! So the last thread that would close a circle is told. What must stay true: the look and the note
//! are made under one lock, and the end of a turn removes the notes of the threads that wait for
//! it, even of those that still sleep.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::deferred;
use crate::process::{self, PerProcess};
use crate::sync::lock;
use crate::{Error, ErrorKind, Result};

/// The number of this thread, which is not 0, and stays in a child of `fork`.
pub(super) fn this_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    while NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// The list of waiting threads, and what they sleep on. A child of `fork` has its own.
#[derive(Default)]
struct WaitingPlace {
    door: Mutex<WaitingThreads>,
    /// Notified when an awaited turn has ended.
    ended: Condvar,
}

/// What threads wait for, by the number of the thread. Each has a stack of waits, because a thread
/// that waits for releases runs destructors, and these may wait for a turn.
#[derive(Default)]
struct WaitingThreads(BTreeMap<u32, Vec<ThreadWait>>);

struct ThreadWait {
    awaits: AwaitedEnd,
    /// Whether the thread has something that counts as being released, so that a wait for all
    /// releases waits for this thread.
    has_releases_in_hand: bool,
}

enum AwaitedEnd {
    /// The end of a turn that another thread has.
    Turn {
        /// The address of the value's `Turns`.
        at: usize,
        holder: u32,
    },
    /// The end of another thread.
    Thread(u32),
    /// The end of all releases, on whatever thread.
    Releases,
}

static WAITING: PerProcess<WaitingPlace> = PerProcess::new(WaitingPlace {
    door: Mutex::new(WaitingThreads(BTreeMap::new())),
    ended: Condvar::new(),
});

impl WaitingThreads {
    /// Whether one of these threads waits for `to`, directly or by way of others.
    fn lead_to(&self, mut threads: Vec<u32>, to: &Awaiting) -> bool {
        let mut seen = Vec::new();
        while let Some(thread) = threads.pop() {
            if thread == to.thread {
                return true;
            }
            if seen.contains(&thread) {
                continue;
            }
            seen.push(thread);
            for waiting in self.0.get(&thread).into_iter().flatten() {
                match waiting.awaits {
                    AwaitedEnd::Turn { holder: other, .. } | AwaitedEnd::Thread(other) => {
                        threads.push(other);
                    }
                    AwaitedEnd::Releases if to.has_releases_in_hand => return true,
                    AwaitedEnd::Releases => threads.extend(self.with_releases_in_hand()),
                }
            }
        }
        false
    }

    /// The waiting threads that have something that counts as being released.
    fn with_releases_in_hand(&self) -> Vec<u32> {
        let has_any = |stack: &[ThreadWait]| stack.iter().any(|one| one.has_releases_in_hand);
        let in_hand = self.0.iter().filter(|(_, stack)| has_any(stack));
        in_hand.map(|(thread, _)| *thread).collect()
    }

    /// Removes the notes of threads that wait for this turn, which has ended. The threads may sleep
    /// yet.
    fn end_turn(&mut self, address: usize) {
        let has_ended =
            |one: &ThreadWait| matches!(one.awaits, AwaitedEnd::Turn { at, .. } if at == address);
        self.0.values_mut().for_each(|stack| stack.retain(|one| !has_ended(one)));
    }
}

/// A thread that is about to wait.
struct Awaiting {
    thread: u32,
    has_releases_in_hand: bool,
}

impl Awaiting {
    fn this() -> Self {
        let has_releases_in_hand = deferred::has_releases_in_hand();
        Self { thread: this_thread(), has_releases_in_hand }
    }

    /// Notes what the thread waits for. Returns how many waits the thread had noted before, for
    /// [`forget`](Self::forget).
    fn note(&self, door: &mut WaitingThreads, awaits: AwaitedEnd) -> usize {
        let stack = door.0.entry(self.thread).or_default();
        let before = stack.len();
        stack.push(ThreadWait { awaits, has_releases_in_hand: self.has_releases_in_hand });
        before
    }

    /// Takes a note back.
    fn forget(&self, door: &mut WaitingThreads, before: usize) {
        if before == 0 {
            door.0.remove(&self.thread);
        } else if let Some(stack) = door.0.get_mut(&self.thread) {
            stack.truncate(before);
        }
    }
}

/// Waits for the end of the turn that a thread has at an address. Returns `false`, and does not
/// wait, where that thread waits for this one.
///
/// `note` records in the turn that its end is awaited. If it returns `false`, the turn has ended.
pub(super) fn wait_for_turn(at: usize, holder: u32, note: impl FnOnce() -> bool) -> bool {
    let (place, this) = (WAITING.get(), Awaiting::this());
    let mut door = lock(&place.door);
    if door.lead_to(vec![holder], &this) {
        return false;
    }
    if note() {
        let before = this.note(&mut door, AwaitedEnd::Turn { at, holder });
        let mut door = place.ended.wait(door).unwrap_or_else(PoisonError::into_inner);
        this.forget(&mut door, before);
    }
    true
}

/// Wakes the threads that wait for the end of the turn at this address.
pub(super) fn end_turn(address: usize) {
    let place = WAITING.get();
    lock(&place.door).end_turn(address);
    place.ended.notify_all();
}

/// Whether a thread that has something that counts as being released waits for this thread.
pub(super) fn is_awaited_in_release() -> bool {
    let door = lock(&WAITING.get().door);
    door.lead_to(door.with_releases_in_hand(), &Awaiting::this())
}

/// Waits for the end of another thread, by its number. Returns `false`, and does not wait, where
/// that thread waits for this one.
pub(super) fn while_joining(thread: u32, join: impl FnOnce()) -> bool {
    while_noted(AwaitedEnd::Thread(thread), |_| vec![thread], join).is_some()
}

/// Runs a wait, with a note of what it waits for. Returns `None`, and does not wait, where a thread
/// that the wait is for waits for this one.
fn while_noted<T>(
    awaits: AwaitedEnd,
    threads: impl FnOnce(&WaitingThreads) -> Vec<u32>,
    wait: impl FnOnce() -> T,
) -> Option<T> {
    // From here on there is a lock that a child of `fork` could wait for.
    process::watch();
    let (place, this) = (WAITING.get(), Awaiting::this());
    let mut door = lock(&place.door);
    if door.lead_to(threads(&door), &this) {
        return None;
    }
    let before = this.note(&mut door, awaits);
    drop(door);
    let _forgotten = Forgotten { place, this, before };
    Some(wait())
}

/// Takes a note back, even where a destructor that runs in the wait panics.
struct Forgotten {
    place: &'static WaitingPlace,
    this: Awaiting,
    before: usize,
}

impl Drop for Forgotten {
    fn drop(&mut self) {
        // In a child of `fork` that began in the wait, the list is another one.
        if ptr::eq(self.place, WAITING.get()) {
            self.this.forget(&mut lock(&self.place.door), self.before);
        }
    }
}

/// Waits for all releases. Refused where a destructor on another thread waits for a turn of this
/// thread, directly or by way of other threads.
pub(super) fn while_waiting_for_releases<T>(wait: impl FnOnce() -> T) -> Result<T> {
    let waited = while_noted(AwaitedEnd::Releases, WaitingThreads::with_releases_in_hand, wait);
    waited.ok_or_else(|| {
        let message =
            "a destructor that another thread runs waits for a call that this thread is in";
        Error::new(ErrorKind::InvalidArgument, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: SAF-24
    #[test]
    fn a_turn_that_ends_leaves_what_else_a_thread_waits_for() {
        let mut door = WaitingThreads::default();
        let [waiting, other, releasing] = [(1, false), (2, false), (3, true)]
            .map(|(thread, has_releases_in_hand)| Awaiting { thread, has_releases_in_hand });
        assert_eq!(waiting.note(&mut door, AwaitedEnd::Releases), 0);
        let before = waiting.note(&mut door, AwaitedEnd::Turn { at: 8, holder: other.thread });
        assert!(door.lead_to(vec![waiting.thread], &other));
        door.end_turn(8);
        assert!(!door.lead_to(vec![waiting.thread], &other));
        assert!(door.lead_to(vec![waiting.thread], &releasing), "it waits for releases yet");
        waiting.forget(&mut door, before);
        assert!(door.lead_to(vec![waiting.thread], &releasing));
        waiting.forget(&mut door, 0);
        assert!(!door.lead_to(vec![waiting.thread], &releasing));
    }
}
