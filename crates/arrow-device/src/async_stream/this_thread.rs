//! Numbers of threads, by which the protocol recognises a call inside another one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number for this thread, which no other thread of the process ever has.
pub(super) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    let fresh = || NEXT.fetch_add(1, Ordering::Relaxed);
    // While a thread is being torn down it gets a new number each time. None of its calls is
    // running then.
    NUMBER
        .try_with(|number| {
            if number.get() == 0 {
                number.set(fresh());
            }
            number.get()
        })
        .unwrap_or_else(|_| fresh())
}
