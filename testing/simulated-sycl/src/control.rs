//! What the library exports for tests, beside dpctl's functions.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::devices::{Context, Device, DeviceList};
use crate::memory;
use crate::objects::{self, Handle, find, give, take};
use crate::queues::{self, Event, FAILS_NEXT, FAILS_NEXT_ALONE, Queue};
use crate::work::Signal;

/// Keeps all work that is submitted to a queue later from its start, until
/// [`simulated_sycl_open`].
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_gate(queue: Handle) -> Handle {
    let Some(queue) = find::<Queue>(queue) else { return ptr::null_mut() };
    let gate = Signal::new(true);
    queue.hold(&gate);
    give(gate)
}

/// Opens a gate, which is gone then.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_open(gate: Handle) {
    if let Some(signal) = find::<Signal>(gate) {
        signal.complete();
        take::<Signal>(gate);
    }
}

/// Has the next copy fail that is submitted to any queue. The work behind it goes on as if the copy
/// had gone well, and says that it is complete.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_fail_next_alone() {
    FAILS_NEXT_ALONE.store(true, Ordering::SeqCst);
}

/// How many barriers were submitted.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_barriers() -> u64 {
    queues::barriers()
}

/// Has the next copy fail that is submitted to any queue, and with it the work behind it.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_fail_next() {
    FAILS_NEXT.store(true, Ordering::SeqCst);
}

/// How many objects are alive: 0 for allocations, 1 for events, 2 for queues, 3 for contexts, 4 for
/// devices and their lists.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_live(what: i32) -> u64 {
    match what {
        0 => memory::live(),
        1 => objects::live::<Event>(),
        2 => objects::live::<Queue>(),
        3 => objects::live::<Context>(),
        _ => objects::live::<Device>() + objects::live::<DeviceList>(),
    }
}

/// How many mistakes of callers were seen.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_mistakes() -> u64 {
    objects::mistakes()
}

/// An event of no queue, which passes when the gate opens.
#[unsafe(no_mangle)]
extern "C" fn simulated_sycl_event(gate: Handle) -> Handle {
    let signal = find::<Signal>(gate);
    signal.map_or(ptr::null_mut(), |signal| give(Arc::new(Event::of(signal))))
}
