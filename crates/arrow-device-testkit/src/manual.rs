//! A device whose work is complete when a test says so. Its driver is written against the driver
//! trait from outside the library's crate.
//!
//! The device's memory is host memory, which the host is told not to look at. A queue counts the
//! work that was submitted to it, and an event is such a count. A test can order mistakes that
//! drivers make.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::time::Duration;

use arrow_device::driver::{
    DefaultQueues, Driver, Properties, Raw, Readiness, Region, Route, Runtime, SyncEvent, Waiting,
};
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result};

/// A device type that nobody knows.
pub const MANUAL: DeviceType = DeviceType(4711);

/// The control that a test has over the device.
#[derive(Clone, Debug)]
pub struct Manual(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: DeviceId,
    properties: Properties,
    state: Mutex<ManualState>,
}

/// The fate of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManualCopies {
    /// The device refuses to copy.
    #[default]
    Unsupported,
    /// A copy is submitted, and moves no byte.
    Submitted,
    /// A copy is submitted, and then the driver returns an error.
    Failing,
    /// A copy is submitted, and then the driver panics.
    Panicking,
}

#[derive(Debug, Default)]
struct ManualState {
    /// For each queue, how much work was submitted and how much of it is complete.
    queues: Vec<(u64, u64)>,
    /// For each event that exists, its queue and how much work comes before it.
    events: HashMap<usize, (usize, u64)>,
    next_event: usize,
    /// Each queue that was told to wait, and the event.
    waits: Vec<(usize, usize)>,
    memory: HashMap<usize, u64>,
    /// Whether the driver answers wrongly that everything is complete.
    lies: bool,
    cannot_record: bool,
    is_lost: bool,
    /// The next question about an event is answered only after two meetings at this barrier.
    held_answer: Option<Arc<Barrier>>,
    /// The next record returns only after two meetings at this barrier.
    held_record: Option<Arc<Barrier>>,
    /// Whether a wait with a limit ends when the time is over, and not with the work.
    is_slow: bool,
    /// Whether a wait without a limit ends at once, and not with the work.
    gives_up: bool,
    /// Whether the host may not wait for an event.
    may_not_wait: bool,
    cannot_tell: bool,
    /// How many questions about events and queues were asked.
    questions: u64,
    /// How many bytes the device has, if that is limited.
    limit: Option<u64>,
    copies: ManualCopies,
}

/// Numbers for devices that need more than 32 bits.
static WIDE_NUMBERS: AtomicI64 = AtomicI64::new(1 << 40);
/// Numbers for devices whose tensors are exchanged, because DLPack has 32 bits for a number.
static SHORT_NUMBERS: AtomicI64 = AtomicI64::new(1 << 24);

impl Manual {
    /// Opens a new device with events. Its number needs more than 32 bits.
    pub fn open() -> (Self, Device) {
        Self::open_with(Readiness::Event)
    }

    /// Opens a new device that tells others in this way that data is complete.
    pub fn open_with(readiness: Readiness) -> (Self, Device) {
        Self::open_like(Properties::new("manual").with_readiness(readiness), &WIDE_NUMBERS)
    }

    /// Opens a new device with events and a number that fits into DLPack.
    pub fn open_for_tensors() -> (Self, Device) {
        Self::open_like(Properties::new("manual"), &SHORT_NUMBERS)
    }

    /// Opens a new device with a default queue, which nobody has to open, and a number that fits
    /// into DLPack.
    pub fn open_with_default_queue() -> (Self, Device) {
        let default_queues = DefaultQueues { of_device: Raw::from_bits(1), of_thread: None };
        let properties = Properties::new("manual").with_default_queues(default_queues);
        let (manual, device) = Self::open_like(properties, &SHORT_NUMBERS);
        manual.state().queues.push((0, 0));
        (manual, device)
    }

    fn open_like(properties: Properties, numbers: &AtomicI64) -> (Self, Device) {
        let id = DeviceId::new(MANUAL, numbers.fetch_add(1, Ordering::Relaxed));
        let manual = Self(Arc::new(Shared { id, properties, state: Mutex::default() }));
        let device = Device::new(ManualDriver(manual.clone()));
        (manual, device)
    }

    fn state(&self) -> MutexGuard<'_, ManualState> {
        self.0.state.lock().unwrap()
    }

    /// Submits one piece of work to a queue.
    pub fn submit(&self, queue: &Queue) {
        self.state().queues[queue.raw().bits() - 1].0 += 1;
    }

    /// Returns how much work was submitted to a queue.
    pub fn submitted(&self, queue: &Queue) -> u64 {
        self.state().queues[queue.raw().bits() - 1].0
    }

    /// Completes all submitted work of a queue.
    pub fn complete(&self, queue: &Queue) {
        let mut state = self.state();
        let (submitted, done) = &mut state.queues[queue.raw().bits() - 1];
        *done = *submitted;
    }

    /// Whether all submitted work of a queue is complete.
    pub fn is_idle(&self, queue: &Queue) -> bool {
        let (submitted, done) = self.state().queues[queue.raw().bits() - 1];
        submitted == done
    }

    /// Makes the driver say from now on that everything is complete, though it is not.
    pub fn lie(&self) {
        self.state().lies = true;
    }

    /// Makes recording events fail from now on.
    pub fn refuse_to_record(&self) {
        self.state().cannot_record = true;
    }

    /// Lets events be recorded again.
    pub fn record_again(&self) {
        self.state().cannot_record = false;
    }

    /// Loses the device.
    pub fn lose(&self) {
        self.state().is_lost = true;
    }

    /// Holds the next answer about an event back after it was found: between the first meeting at
    /// the barrier and the second.
    pub fn hold_next_answer(&self) -> Arc<Barrier> {
        let barrier = Arc::new(Barrier::new(2));
        self.state().held_answer = Some(barrier.clone());
        barrier
    }

    /// Holds the next record back after the event was recorded: between the first meeting at the
    /// barrier and the second.
    pub fn hold_next_record(&self) -> Arc<Barrier> {
        let barrier = Arc::new(Barrier::new(2));
        self.state().held_record = Some(barrier.clone());
        barrier
    }

    /// Sets whether a wait with a limit ends when the time is over, with nothing done. Otherwise a
    /// wait completes the work.
    pub fn set_slow(&self, is_slow: bool) {
        self.state().is_slow = is_slow;
    }

    /// Sets whether a wait for an event without a limit ends at once and reports the true state,
    /// which is a mistake that drivers make.
    pub fn set_gives_up(&self, gives_up: bool) {
        self.state().gives_up = gives_up;
    }

    /// Makes each wait of the host for an event an error from now on, unless the event has passed.
    pub fn refuse_to_wait(&self) {
        self.state().may_not_wait = true;
    }

    /// Sets whether every question about an event or a queue is answered with an error.
    pub fn set_cannot_tell(&self, cannot_tell: bool) {
        self.state().cannot_tell = cannot_tell;
    }

    /// Returns how many questions about events and queues were asked.
    pub fn questions(&self) -> u64 {
        self.state().questions
    }

    /// Limits the memory of the device.
    pub fn limit_memory(&self, bytes: u64) {
        self.state().limit = Some(bytes);
    }

    /// Sets what happens to copies from now on.
    pub fn set_copies(&self, copies: ManualCopies) {
        self.state().copies = copies;
    }

    /// Returns how many events exist.
    pub fn live_events(&self) -> usize {
        self.state().events.len()
    }

    /// Returns how many allocations exist.
    pub fn live_memory(&self) -> usize {
        self.state().memory.len()
    }

    /// Whether the queue was told to wait for this event.
    pub fn waits_for(&self, queue: &Queue, event: usize) -> bool {
        self.state().waits.contains(&(queue.raw().bits(), event))
    }

    /// Returns how often a queue was told to wait.
    pub fn wait_count(&self) -> usize {
        self.state().waits.len()
    }

    /// Returns whether an event has passed, `None` if it does not exist.
    pub fn event(&self, event: usize) -> Option<bool> {
        let state = self.state();
        let (queue, point) = *state.events.get(&event)?;
        Some(state.queues[queue - 1].1 >= point)
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, "as the test ordered").on_device(self.0.id)
    }

    /// Completes the work of a queue up to a point.
    fn run_to(&self, queue: usize, point: u64) -> Result<()> {
        let mut state = self.state();
        if state.is_lost {
            return Err(self.error(ErrorKind::DeviceLost));
        }
        let done = &mut state.queues[queue - 1].1;
        *done = point.max(*done);
        Ok(())
    }
}

/// Returns the event that an array's `sync_event` shows.
pub fn shown_event(sync_event: *mut c_void) -> usize {
    assert!(!sync_event.is_null());
    // SAFETY: an event of the manual device is shown as a pointer to its handle, and lives as long
    // as its array.
    unsafe { sync_event.cast::<*mut c_void>().read() }.addr()
}

#[derive(Debug)]
struct ManualDriver(Manual);

// SAFETY: as its state says: an event passes when its queue has done what was submitted before it,
// unless a test orders a driver that breaks this very promise.
unsafe impl Driver for ManualDriver {
    fn id(&self) -> DeviceId {
        self.0.0.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "manual", instance: self.0.0.id.id as usize }
    }

    fn properties(&self) -> &Properties {
        &self.0.0.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        {
            let state = self.0.state();
            let used: u64 = state.memory.values().sum();
            if state.limit.is_some_and(|limit| used + len > limit) {
                return Err(self.0.error(ErrorKind::OutOfMemory));
            }
        }
        // SAFETY: the length is not 0, as the trait says.
        let address = unsafe { std::alloc::alloc(layout(len)) };
        self.0.state().memory.insert(address.addr(), len);
        Ok(Raw::from_ptr(address.cast()))
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        // The library stops this panic, and the test sees the poisoned lock.
        let mut state = self.0.state();
        assert_eq!(state.memory.remove(&memory.bits()), Some(len));
        drop(state);
        // SAFETY: allocated here with the same length, as the books say, and freed once.
        unsafe { std::alloc::dealloc(memory.as_ptr().cast(), layout(len)) };
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        let mut state = self.0.state();
        state.queues.push((0, 0));
        Ok(Raw::from_bits(state.queues.len()))
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {}

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        let submitted = self.0.state().queues[queue.bits() - 1].0;
        self.0.run_to(queue.bits(), submitted)
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        let mut state = self.0.state();
        state.questions += 1;
        if state.is_lost {
            return Err(self.0.error(ErrorKind::DeviceLost));
        }
        if state.cannot_tell {
            return Err(self.0.error(ErrorKind::Driver));
        }
        let (submitted, done) = state.queues[queue.bits() - 1];
        Ok(state.lies || submitted == done)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // As in `free`, the test sees the poisoned lock.
            let mut state = self.0.state();
            assert!(state.events.remove(&event.bits()).is_some(), "destroyed twice");
        }
    }

    unsafe fn record(&self, queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        let mut state = self.0.state();
        if state.cannot_record {
            return Err(self.0.error(ErrorKind::Driver));
        }
        state.next_event += 1;
        let event = state.next_event;
        let submitted = state.queues[queue.bits() - 1].0;
        state.events.insert(event, (queue.bits(), submitted));
        let held = state.held_record.take();
        drop(state);
        if let Some(barrier) = held {
            barrier.wait();
            barrier.wait();
        }
        Ok(Raw::from_bits(event))
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        self.0.state().waits.push((queue.bits(), event.bits()));
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        let mut state = self.0.state();
        state.questions += 1;
        if state.is_lost {
            return Err(self.0.error(ErrorKind::DeviceLost));
        }
        if state.cannot_tell {
            return Err(self.0.error(ErrorKind::Driver));
        }
        let (queue, point) = state.events[&event.bits()];
        let is_complete = state.lies || state.queues[queue - 1].1 >= point;
        let held = state.held_answer.take();
        drop(state);
        if let Some(barrier) = held {
            barrier.wait();
            barrier.wait();
        }
        Ok(is_complete)
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        let ((queue, point), is_slow, may_not_wait) = {
            let state = self.0.state();
            (state.events[&event.bits()], state.is_slow, state.may_not_wait)
        };
        if may_not_wait && self.0.state().queues[queue - 1].1 < point {
            return Err(arrow_device::driver::may_not_wait(self.0.0.id));
        }
        if let (Some(timeout), true) = (timeout, is_slow) {
            std::thread::sleep(timeout);
            return Ok(self.0.state().queues[queue - 1].1 >= point);
        }
        if timeout.is_none() && self.0.state().gives_up {
            return Ok(self.0.state().queues[queue - 1].1 >= point);
        }
        self.0.run_to(queue, point).map(|()| true)
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(event.as_ptr()))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Ok(Raw::from_bits(shown_event(sync_event.as_ptr())))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, _route: Route<'_>, _regions: &[Region]) -> Result<()> {
        let copies = self.0.state().copies;
        if copies == ManualCopies::Unsupported {
            return Err(self.0.error(ErrorKind::Unsupported));
        }
        self.0.state().queues[queue.bits() - 1].0 += 1;
        match copies {
            ManualCopies::Unsupported | ManualCopies::Submitted => Ok(()),
            ManualCopies::Failing => Err(self.0.error(ErrorKind::Driver)),
            ManualCopies::Panicking => std::panic::resume_unwind(Box::new("as the test ordered")),
        }
    }
}

fn layout(len: u64) -> Layout {
    Layout::from_size_align(len as usize, 64).unwrap()
}
