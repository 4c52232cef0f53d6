//! What threads wait for that other threads have to end: turns, and releases.
//!
//! Each thread that is about to wait looks whether those it would wait for wait for it, by way of
//! any number of others. Whoever comes last and would close such a circle is told, and does not
//! wait.

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

/// Where threads wait for a turn, at whatever value. A child of `fork` has a place of its own.
#[derive(Default)]
struct WaitingPlace {
    door: Mutex<WaitingThreads>,
    /// A turn that was awaited has ended.
    ended: Condvar,
}

/// What threads wait for.
#[derive(Default)]
struct WaitingThreads(BTreeMap<u32, WaitingThread>);

struct WaitingThread {
    awaits: AwaitedEnd,
    /// Whoever waits for all releases waits for this thread.
    has_releases_in_hand: bool,
}

enum AwaitedEnd {
    /// The end of a turn that another thread has.
    Turn {
        /// The address of the value's `Turns`.
        at: usize,
        holder: u32,
    },
    /// All that is being released, by whatever thread.
    Releases,
}

static WAITING: PerProcess<WaitingPlace> = PerProcess::new(WaitingPlace {
    door: Mutex::new(WaitingThreads(BTreeMap::new())),
    ended: Condvar::new(),
});

impl WaitingThreads {
    /// Whether one of these threads waits for another one, be it by way of others.
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
            match self.0.get(&thread).map(|waiting| &waiting.awaits) {
                Some(AwaitedEnd::Turn { holder, .. }) => threads.push(*holder),
                Some(AwaitedEnd::Releases) if to.has_releases_in_hand => return true,
                Some(AwaitedEnd::Releases) => threads.extend(self.with_releases_in_hand()),
                None => {}
            }
        }
        false
    }

    /// Those of the threads that wait in the middle of a release.
    fn with_releases_in_hand(&self) -> Vec<u32> {
        let in_hand = self.0.iter().filter(|(_, waiting)| waiting.has_releases_in_hand);
        in_hand.map(|(thread, _)| *thread).collect()
    }
}

/// This thread, which is about to wait.
struct Awaiting {
    thread: u32,
    has_releases_in_hand: bool,
}

impl Awaiting {
    fn this() -> Self {
        let has_releases_in_hand = deferred::has_releases_in_hand();
        Self { thread: this_thread(), has_releases_in_hand }
    }

    /// Notes what the thread waits for. Returns what it waited for until now: in a wait for
    /// releases it runs destructors, which may wait for a turn.
    fn note(&self, door: &mut WaitingThreads, awaits: AwaitedEnd) -> Option<WaitingThread> {
        let has_releases_in_hand = self.has_releases_in_hand;
        door.0.insert(self.thread, WaitingThread { awaits, has_releases_in_hand })
    }

    /// Takes the note back.
    fn forget(&self, door: &mut WaitingThreads, before: Option<WaitingThread>) {
        match before {
            Some(before) => door.0.insert(self.thread, before),
            None => door.0.remove(&self.thread),
        };
    }
}

/// Waits for the end of the turn that a thread has at an address. Returns `false`, and does not
/// wait, where that thread waits for this one.
///
/// `note` leaves word that the end of the turn is awaited. Where it returns `false`, the turn has
/// ended.
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

/// Wakes those who wait for the end of the turn at this address.
pub(super) fn end_turn(address: usize) {
    let place = WAITING.get();
    let has_ended =
        |awaits: &AwaitedEnd| matches!(awaits, AwaitedEnd::Turn { at, .. } if *at == address);
    // They have nobody to wait for, although they sleep yet.
    lock(&place.door).0.retain(|_, waiting| !has_ended(&waiting.awaits));
    place.ended.notify_all();
}

/// Waits for all that is being released, unless a destructor that another thread runs waits for a
/// turn of this thread, or for one of a thread that waits for this one.
pub(super) fn while_waiting_for_releases<T>(wait: impl FnOnce() -> T) -> Result<T> {
    /// Takes the note back also where a destructor panics that the wait runs.
    struct Forgotten(&'static WaitingPlace, Awaiting, Option<WaitingThread>);

    impl Drop for Forgotten {
        fn drop(&mut self) {
            // In a child of `fork` that began in the wait, the door is another one.
            if ptr::eq(self.0, WAITING.get()) {
                self.1.forget(&mut lock(&self.0.door), self.2.take());
            }
        }
    }

    // From here on there is a lock that a child could wait for.
    process::watch();
    let (place, this) = (WAITING.get(), Awaiting::this());
    let mut door = lock(&place.door);
    if door.lead_to(door.with_releases_in_hand(), &this) {
        let message =
            "a destructor that another thread runs waits for a call that this thread is in";
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    let before = this.note(&mut door, AwaitedEnd::Releases);
    drop(door);
    let _forgotten = Forgotten(place, this, before);
    Ok(wait())
}
