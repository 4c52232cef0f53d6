//! Queues, and the events of what is submitted to them.
//!
//! A queue knows the ends of the work that later work has to come after. A barrier comes after all
//! earlier work. Behind a barrier on a queue out of order, later work does not wait: that is what
//! DPC++ 2026.2 does where the barrier itself waits for a task of the host.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::devices::{Context, Device};
use crate::memory;
use crate::objects::{Handle, find, give, lock, take};
use crate::work::{self, Signal, Task, Work};

/// dpctl's property of a queue in order.
const IN_ORDER: i32 = 1 << 1;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) context: Arc<Context>,
    pub(crate) device: Device,
    is_in_order: bool,
    ends: Mutex<Ends>,
}

#[derive(Debug, Default)]
struct Ends {
    /// The last work of a queue in order, which all later work comes after.
    last: Option<Arc<Signal>>,
    /// All work of a queue out of order since its last barrier, and that barrier. Only a barrier
    /// comes after these.
    loose: Vec<Arc<Signal>>,
}

/// A `sycl::event`.
#[derive(Debug)]
pub(crate) struct Event(Arc<Signal>);

pub(crate) static FAILS_NEXT: AtomicBool = AtomicBool::new(false);
/// The same for a copy whose failure the work behind it does not share.
pub(crate) static FAILS_NEXT_ALONE: AtomicBool = AtomicBool::new(false);
static BARRIERS: AtomicU64 = AtomicU64::new(0);

/// How many barriers were submitted to any queue.
pub(crate) fn barriers() -> u64 {
    BARRIERS.load(Ordering::SeqCst)
}

impl Event {
    pub(crate) fn of(signal: Arc<Signal>) -> Self {
        Self(signal)
    }
}

impl Queue {
    pub(crate) fn submit(
        &self,
        task: Task,
        is_barrier: bool,
        events: &[Arc<Signal>],
    ) -> Arc<Signal> {
        let end = Signal::new(!self.device.waits_for_flush());
        let mut ends = lock(&self.ends);
        let mut after: Vec<Arc<Signal>> = ends.last.iter().chain(events).cloned().collect();
        if self.is_in_order {
            ends.last = Some(end.clone());
        } else {
            if is_barrier {
                after.append(&mut ends.loose);
            }
            ends.loose.push(end.clone());
        }
        // Under the lock, so that work is submitted in the order of its ends.
        work::submit(Work { after, task, end: end.clone() });
        drop(ends);
        // Another queue waits for these.
        events.iter().for_each(work::flush_before);
        end
    }

    /// What ends with the gate is submitted in front of all later work.
    pub(crate) fn hold(&self, gate: &Arc<Signal>) {
        self.submit(Task::Nothing, true, std::slice::from_ref(gate));
    }
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_Create(
    context: Handle,
    device: Handle,
    _handler: Handle,
    properties: i32,
) -> Handle {
    let found = find::<Context>(context).zip(find::<Device>(device));
    let Some((context, device)) = found else { return ptr::null_mut() };
    let is_in_order = properties & IN_ORDER != 0;
    give(Arc::new(Queue { context, device: *device, is_in_order, ends: Mutex::default() }))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_Delete(queue: Handle) {
    take::<Queue>(queue);
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_Copy(queue: Handle) -> Handle {
    find::<Queue>(queue).map_or(ptr::null_mut(), give)
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_Hash(queue: Handle) -> usize {
    find::<Queue>(queue).map_or(0, |queue| Arc::as_ptr(&queue).addr())
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_GetContext(queue: Handle) -> Handle {
    find::<Queue>(queue).map_or(ptr::null_mut(), |queue| give(queue.context.clone()))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_GetDevice(queue: Handle) -> Handle {
    find::<Queue>(queue).map_or(ptr::null_mut(), |queue| give(Arc::new(queue.device)))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_IsInOrder(queue: Handle) -> bool {
    find::<Queue>(queue).is_some_and(|queue| queue.is_in_order)
}

/// # Safety
/// The list is null or has so many events.
#[unsafe(no_mangle)]
unsafe extern "C" fn DPCTLQueue_MemcpyWithEvents(
    queue: Handle,
    to: Handle,
    from: Handle,
    len: usize,
    events: *const Handle,
    count: usize,
) -> Handle {
    let Some(queue) = find::<Queue>(queue) else { return ptr::null_mut() };
    // SAFETY: the list is null or has so many events, as the caller promises.
    let Some(signals) = (unsafe { signals(events, count) }) else { return ptr::null_mut() };
    let (to, from) = (to.expose_provenance(), from.expose_provenance());
    let context = queue.context.number;
    if !(memory::may_use(context, to, len) && memory::may_use(context, from, len)) {
        return ptr::null_mut();
    }
    let task = if FAILS_NEXT.swap(false, Ordering::SeqCst) {
        Task::Fail { is_shared: true }
    } else if FAILS_NEXT_ALONE.swap(false, Ordering::SeqCst) {
        Task::Fail { is_shared: false }
    } else {
        Task::Copy { to, from, len }
    };
    give(Arc::new(Event(queue.submit(task, false, &signals))))
}

/// The signals of a list of events. `None` where one of them is no event.
///
/// # Safety
/// The list is null or has so many events.
unsafe fn signals(events: *const Handle, count: usize) -> Option<Vec<Arc<Signal>>> {
    if events.is_null() {
        return Some(Vec::new());
    }
    // SAFETY: the list has so many events, as the caller promises.
    let events = unsafe { std::slice::from_raw_parts(events, count) };
    events.iter().map(|event| find::<Event>(*event).map(|event| event.0.clone())).collect()
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLQueue_SubmitBarrier(queue: Handle) -> Handle {
    let Some(queue) = find::<Queue>(queue) else { return ptr::null_mut() };
    BARRIERS.fetch_add(1, Ordering::SeqCst);
    give(Arc::new(Event(queue.submit(Task::Nothing, true, &[]))))
}

/// # Safety
/// The list has so many events.
#[unsafe(no_mangle)]
unsafe extern "C" fn DPCTLQueue_SubmitBarrierForEvents(
    queue: Handle,
    events: *const Handle,
    count: usize,
) -> Handle {
    let Some(queue) = find::<Queue>(queue) else { return ptr::null_mut() };
    // SAFETY: the list has so many events, as the caller promises.
    let Some(signals) = (unsafe { signals(events, count) }) else { return ptr::null_mut() };
    BARRIERS.fetch_add(1, Ordering::SeqCst);
    give(Arc::new(Event(queue.submit(Task::Nothing, true, &signals))))
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLEvent_GetCommandExecutionStatus(event: Handle) -> i32 {
    find::<Event>(event).map_or(work::UNKNOWN, |event| event.0.asked())
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLEvent_Copy(event: Handle) -> Handle {
    let copied = find::<Event>(event).map(|event| give(Arc::new(Event(event.0.clone()))));
    copied.unwrap_or(ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn DPCTLEvent_Delete(event: Handle) {
    take::<Event>(event);
}
