//! What is not needed any more and may not go yet, because a queue still uses it.
//!
//! One list for the whole process: a list per device would keep its own device open. It is looked
//! at whenever something here is dropped, imported or allocated, and by [`reclaim`], [`settle`] and
//! [`drain`]; never while a lock is held, never from a driver's callback, and not by a thread of
//! this crate unless a [`Reaper`] is asked for. What is still on it when the process ends is left
//! to the operating system, because drivers may be gone by then.
//!
//! One thread at a time asks the drivers, with the list in its hands. Whoever comes by in the
//! meantime does not wait for it but has it ask once more, so that what is over by then is not
//! overlooked.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::device::driver::Runtime;
use crate::sync::lock;
use crate::{Device, DeviceType, Error, ErrorKind, Event, Queue, Result};

static WAITING: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// How many entries wait, those included that a thread has taken out to look at.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many of them threads have in hand: taken off the list, and not yet put back or released.
static IN_HAND: AtomicUsize = AtomicUsize::new(0);
static LEAKED: AtomicUsize = AtomicUsize::new(0);

/// What becomes of the list at the moment: one of the three below.
static ASKING: AtomicU8 = AtomicU8::new(NOBODY);
const NOBODY: u8 = 0;
/// A thread has the list and asks the drivers.
const SOMEBODY: u8 = 1;
/// It will ask once more, because something may be over that was not when it asked.
const ONCE_MORE: u8 = 2;

struct Entry {
    uses: Vec<Use>,
    what: Box<dyn Any + Send>,
    process: u32,
}

impl Entry {
    /// Whether a device that is out of memory may have some after this is released.
    fn may_help(&self, device: &Device) -> bool {
        let runtime = device.driver().runtime();
        device.id().device_type == DeviceType::CPU
            || self.uses.iter().any(|used| used.runtime() == runtime)
    }
}

/// One queue's use of something, until a point of that queue.
#[derive(Debug)]
pub(crate) struct Use {
    queue: u64,
    until: Until,
}

#[derive(Debug)]
enum Until {
    Event(Event),
    /// The event could not be recorded.
    Idle(Queue),
}

impl Use {
    /// Everything submitted to the queue so far.
    pub(crate) fn record_now(queue: &Queue) -> Self {
        match queue.record() {
            Ok(event) => Self::until(queue, event),
            Err(_) => Self::until_idle(queue),
        }
    }

    pub(crate) fn until(queue: &Queue, event: Event) -> Self {
        Self { queue: queue.number(), until: Until::Event(event) }
    }

    pub(crate) fn until_idle(queue: &Queue) -> Self {
        Self { queue: queue.number(), until: Until::Idle(queue.clone()) }
    }

    /// The work that an event stands for, on whatever queue.
    pub(crate) fn before(event: Event) -> Self {
        Self { queue: 0, until: Until::Event(event) }
    }

    /// The number of the queue.
    pub(crate) fn queue(&self) -> u64 {
        self.queue
    }

    /// Whether it is over. A lost device uses nothing; of any other error nothing is known, so it
    /// is not over.
    pub(crate) fn is_over(&self) -> bool {
        Self::passed(match &self.until {
            Until::Event(event) => event.is_complete(),
            Until::Idle(queue) => queue.is_idle(),
        })
    }

    /// Waits until it is over; returns whether it is.
    fn wait(&self) -> bool {
        Self::passed(match &self.until {
            Until::Event(event) => event.synchronize().map(|()| true),
            Until::Idle(queue) => queue.synchronize().map(|()| true),
        })
    }

    fn runtime(&self) -> Runtime {
        match &self.until {
            Until::Event(event) => event.runtime(),
            Until::Idle(queue) => queue.device().driver().runtime(),
        }
    }

    fn passed(answer: Result<bool>) -> bool {
        answer.unwrap_or_else(|error| error.kind() == ErrorKind::DeviceLost)
    }
}

/// Drops `what` after all the uses are over: now, if they are.
pub(crate) fn defer<T: Send + 'static>(what: T, uses: Vec<Use>) {
    if uses.iter().all(Use::is_over) {
        drop(what);
        tick();
        return;
    }
    defer_unasked(what, uses);
    tick();
}

/// The same without asking anybody yet, for what was submitted only just now.
pub(crate) fn defer_unasked<T: Send + 'static>(what: T, uses: Vec<Use>) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let entry = Entry { uses, what: Box::new(what), process: std::process::id() };
    lock(&WAITING).push(entry);
}

/// Looks at the list, if there is anything on it. Called where foreign code may run: in drops,
/// imports, allocations.
#[inline(always)]
pub(crate) fn tick() {
    if COUNT.load(Ordering::Relaxed) > 0 {
        look();
    }
}

#[cold]
fn look() {
    if ASKING.load(Ordering::Relaxed) == NOBODY {
        sweep();
    }
}

/// Releases everything whose last use has passed; returns how many things that were.
///
/// Never waits. Where another thread is at it already, that thread looks once more and releases
/// what is over by now, which may be a moment after this returns. Useful for a program that has
/// stopped calling this crate and wants memory back.
///
/// ```
/// assert_eq!(arrow_device::reclaim(), 0);
/// ```
pub fn reclaim() -> usize {
    sweep().unwrap_or(0)
}

/// Waits until everything whose last use has passed has been released, whichever thread is at it;
/// at most this long.
///
/// What a queue still uses stays. [`reclaim`] leaves to another thread what that thread has in
/// hand; after this it is done. For tests that count, and for whoever is about to look at what is
/// left. Not to be called with a lock held that a release of somebody's may want.
///
/// ```
/// arrow_device::settle(std::time::Duration::from_secs(1))?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub fn settle(timeout: Duration) -> Result<()> {
    wait_until(timeout, "settle", "are being released by other threads", || {
        // What others had in hand before this look was on the list for it, and what they have taken
        // since is looked for below.
        let looked = sweep().is_some();
        let in_hand = IN_HAND.load(Ordering::Acquire);
        if looked { in_hand } else { in_hand.max(1) }
    })
}

/// Waits until everything has been released, at most this long.
///
/// Call it before a device is closed by hand, or before a library is unloaded whose memory is still
/// in use.
pub fn drain(timeout: Duration) -> Result<()> {
    wait_until(timeout, "drain", "are still in use by a queue", || {
        sweep();
        pending()
    })
}

/// Looks again and again until nothing is left, at longer and longer intervals.
fn wait_until(
    timeout: Duration,
    operation: &'static str,
    still: &str,
    left: impl Fn() -> usize,
) -> Result<()> {
    // No deadline where the clock does not reach that far.
    let deadline = Instant::now().checked_add(timeout);
    let mut pause = Duration::from_micros(20);
    loop {
        let left = left();
        if left == 0 {
            return Ok(());
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let message = format!("{left} things {still} after {timeout:?}");
            return Err(Error::new(ErrorKind::TimedOut, message).during(operation));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// How many things wait for their last use to pass.
pub fn pending() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// How many things were given up on, because releasing them would not have been safe or went wrong.
pub fn leaked() -> usize {
    LEAKED.load(Ordering::Relaxed)
}

pub(crate) fn count_leaked() {
    LEAKED.fetch_add(1, Ordering::Relaxed);
}

/// Waits for the oldest thing on the list that a queue of this device's runtime uses, and releases
/// it; returns whether there was one. On the host any queue's will do: what a device still uses may
/// be host memory.
pub(crate) fn release_oldest(device: &Device) -> bool {
    if sweep().is_some_and(|released| released > 0) {
        return true;
    }
    let oldest = {
        let mut waiting = lock(&WAITING);
        let found = waiting.iter().position(|entry| entry.may_help(device));
        let oldest = found.map(|index| waiting.remove(index));
        IN_HAND.fetch_add(usize::from(oldest.is_some()), Ordering::Relaxed);
        oldest
    };
    let Some(entry) = oldest else { return another_thread_releases() };
    if entry.uses.iter().all(Use::wait) {
        release(entry);
        return true;
    }
    put_back(vec![entry]);
    false
}

/// Waits a moment for a thread that has taken the list to look at it; returns whether it released
/// something or put something back.
fn another_thread_releases() -> bool {
    let before = pending();
    let patience = Instant::now() + Duration::from_millis(50);
    while before > 0 && Instant::now() < patience {
        if pending() < before || !lock(&WAITING).is_empty() {
            return true;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    false
}

/// Releases what can be released. Returns how many things that were, or nothing where another
/// thread has the list or this one is in the middle of it.
fn sweep() -> Option<usize> {
    thread_local! {
        /// A release that drops something of ours must not start a sweep of its own: the stack
        /// would grow with the list.
        static SWEEPING: Cell<bool> = const { Cell::new(false) };
    }
    // While a thread is being torn down there is no flag any more, and no sweep.
    if SWEEPING.try_with(|sweeping| sweeping.replace(true)).unwrap_or(true) {
        return None;
    }
    let mut released = None;
    if ASKING.swap(ONCE_MORE, Ordering::AcqRel) == NOBODY {
        loop {
            let over = take_what_is_over();
            // Before the releases, which may take long: meanwhile another thread may look.
            let before = ASKING.swap(NOBODY, Ordering::AcqRel);
            released = Some(released.unwrap_or(0) + over.len());
            over.into_iter().for_each(release);
            let nobody_else_looks = || ASKING.swap(ONCE_MORE, Ordering::AcqRel) == NOBODY;
            if before != ONCE_MORE || !nobody_else_looks() {
                break;
            }
        }
    }
    let _ = SWEEPING.try_with(|sweeping| sweeping.set(false));
    released
}

/// Takes off the list what nothing uses any more. The caller is the one that asks.
fn take_what_is_over() -> Vec<Entry> {
    ASKING.store(SOMEBODY, Ordering::Release);
    let taken = {
        let mut waiting = lock(&WAITING);
        IN_HAND.fetch_add(waiting.len(), Ordering::Relaxed);
        std::mem::take(&mut *waiting)
    };
    let (mut over, mut still_used) = (Vec::new(), Vec::with_capacity(taken.len()));
    for entry in taken {
        let list = if entry.uses.iter().all(Use::is_over) { &mut over } else { &mut still_used };
        list.push(entry);
    }
    put_back(still_used);
    over
}

/// Back onto the list, before what has come since.
fn put_back(entries: Vec<Entry>) {
    if !entries.is_empty() {
        let count = entries.len();
        let mut waiting = lock(&WAITING);
        let newer = std::mem::replace(&mut *waiting, entries);
        waiting.extend(newer);
        IN_HAND.fetch_sub(count, Ordering::Release);
    }
}

fn release(entry: Entry) {
    let Entry { uses, what, process } = entry;
    if process != std::process::id() {
        // A child of `fork` has the addresses and none of the device state behind them.
        std::mem::forget(what);
        std::mem::forget(uses);
        count_leaked();
    } else {
        drop(uses);
        // A panic in somebody's `Drop` must not keep the others from being released.
        if catch_unwind(AssertUnwindSafe(|| drop(what))).is_err() {
            count_leaked();
        }
    }
    COUNT.fetch_sub(1, Ordering::Release);
    IN_HAND.fetch_sub(1, Ordering::Release);
}

/// A thread that calls [`reclaim`] from time to time. Stops when dropped.
///
/// A program that keeps calling this crate does not need it.
#[derive(Debug)]
pub struct Reaper {
    stop: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Reaper {
    /// Starts one that looks every `interval`.
    pub fn start(interval: Duration) -> Result<Self> {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let work = move || {
            while stopped.recv_timeout(interval) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                reclaim();
            }
        };
        let thread =
            std::thread::Builder::new().name("arrow-device-reaper".into()).spawn(work).map_err(
                |error| Error::new(ErrorKind::OutOfMemory, format!("no thread to be had: {error}")),
            )?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
