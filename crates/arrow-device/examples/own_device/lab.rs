//! The driver of a device that is made of host memory and threads: each queue is a thread that does
//! what it is sent.
//!
//! This is all that a backend has to bring. Its convention, which the interface leaves to the two
//! sides for `EXT_DEV`: a buffer is an address, `device_id` is the instance with [`TAG`] added, and
//! `sync_event` points to a variable that holds the handle of an event. The library pretends that
//! the host cannot read the memory.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use arrow_device::driver::{
    Driver, Properties, Raw, Region, Route, Runtime, Spot, SyncEvent, Waiting,
};
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result};

/// Tells the numbers of these devices from those of other extension devices.
pub(crate) const TAG: i64 = 0x1AB << 32;

/// Opens a device, and makes it known to the library.
pub(crate) fn open(instance: i64) -> Device {
    let id = DeviceId::new(DeviceType::EXT_DEV, TAG + instance);
    Device::new(Lab { id, properties: Properties::new("threads in a lab") })
}

/// Submits a kernel to a queue of this device.
pub(crate) fn launch(queue: &Queue, kernel: impl FnOnce() + Send + 'static) -> Result<()> {
    // SAFETY: the queue keeps its handle alive, and all queues here are opened by this driver.
    unsafe { worker(queue.raw()) }.submit(kernel)
}

/// How many bytes all devices of this kind have given out.
pub(crate) fn allocated() -> u64 {
    ALLOCATED.load(Ordering::SeqCst)
}

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Lab {
    id: DeviceId,
    properties: Properties,
}

/// What the handle of a queue points to.
struct Worker {
    work: Sender<Box<dyn FnOnce() + Send>>,
    unfinished: Arc<AtomicUsize>,
}

/// What the handle of an event points to, behind an [`Arc`]: the queues that were sent to it hold
/// it too.
#[derive(Default)]
struct Signal {
    passed: Mutex<bool>,
    changed: Condvar,
}

// SAFETY: memory is the global allocator's, 64 bytes aligned. A queue is one thread, which does one
// thing after the other; `record` and `wait` are such things, so an event passes after everything
// before it, and nothing after a wait begins before the event has passed. `synchronize` waits for
// an event of its own. `map` is not offered.
unsafe impl Driver for Lab {
    fn id(&self) -> DeviceId {
        self.id
    }

    /// Any queue here can wait for any event here.
    fn runtime(&self) -> Runtime {
        Runtime { name: "lab", instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        // SAFETY: the size is not zero: `len` is not, says the trait.
        let address = layout(len).map(|layout| unsafe { std::alloc::alloc(layout) });
        match address.filter(|address| !address.is_null()) {
            Some(address) => {
                ALLOCATED.fetch_add(len, Ordering::SeqCst);
                Ok(Raw::from_ptr(address.cast()))
            }
            None => Err(Error::new(ErrorKind::OutOfMemory, format!("{len} bytes asked for"))
                .during("allocate")
                .on_device(self.id)),
        }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        let Some(layout) = layout(len) else { return };
        ALLOCATED.fetch_sub(len, Ordering::SeqCst);
        // SAFETY: `allocate` gave it, with the layout of this length.
        unsafe { std::alloc::dealloc(memory.as_ptr().cast(), layout) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        let (work, receive) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let unfinished = Arc::new(AtomicUsize::new(0));
        let count = unfinished.clone();
        let run = move || {
            for work in receive {
                work();
                count.fetch_sub(1, Ordering::Release);
            }
        };
        std::thread::Builder::new().name("lab queue".into()).spawn(run).map_err(|error| {
            Error::new(ErrorKind::Driver, format!("no thread: {error}")).on_device(self.id)
        })?;
        let worker = Box::new(Worker { work, unfinished });
        Ok(Raw::from_ptr(Box::into_raw(worker).cast()))
    }

    /// The thread does what it was sent, and ends.
    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: `open_queue` made it from a box, and nobody uses it after this.
        drop(unsafe { Box::from_raw(queue.as_ptr().cast::<Worker>()) });
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        let signal = Arc::new(Signal::default());
        let passed = signal.clone();
        // SAFETY: the caller passes a queue of this driver that is alive.
        unsafe { worker(queue) }.submit(move || passed.pass())?;
        signal.wait(None);
        Ok(())
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        // SAFETY: the caller passes a queue of this driver that is alive.
        Ok(unsafe { worker(queue) }.unfinished.load(Ordering::Acquire) == 0)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::from_ptr(Arc::into_raw(Arc::new(Signal::default())).cast_mut().cast()))
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // SAFETY: `make_event` gave this share away, and nobody uses it after this.
            drop(unsafe { Arc::from_raw(event.as_ptr().cast::<Signal>()) });
        }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        // SAFETY: the caller passes an event of this runtime that is alive.
        let signal = unsafe { signal(event) };
        // SAFETY: the caller passes a queue of this driver that is alive.
        unsafe { worker(queue) }.submit(move || signal.pass())?;
        Ok(event)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        // SAFETY: the caller passes an event of this driver that is alive.
        let signal = unsafe { signal(event) };
        // SAFETY: the caller passes a queue of this driver that is alive.
        unsafe { worker(queue) }.submit(move || {
            signal.wait(None);
        })?;
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: the caller passes an event of this driver that is alive.
        Ok(unsafe { signal(event) }.wait(Some(Duration::ZERO)))
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: the caller passes an event of this driver that is alive.
        Ok(unsafe { signal(event) }.wait(timeout))
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(event.as_ptr()))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: by the convention of this device it points to a variable with the handle.
        Ok(Raw::from_ptr(unsafe { sync_event.cast::<*mut c_void>().read() }))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, _route: Route<'_>, regions: &[Region]) -> Result<()> {
        // The routes differ in nothing here: all memory is the host's.
        let regions = regions.to_vec();
        // SAFETY: the caller passes a queue of this driver that is alive.
        unsafe { worker(queue) }.submit(move || {
            for Region { from, to, len } in regions {
                // SAFETY: both sides hold `len` bytes until this is done, and do not overlap, says
                // the trait.
                unsafe { address(from).copy_to_nonoverlapping(address(to), len as usize) }
            }
        })
    }
}

impl Worker {
    fn submit(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        self.unfinished.fetch_add(1, Ordering::Relaxed);
        let sent = self.work.send(Box::new(work));
        sent.map_err(|_| Error::new(ErrorKind::DeviceLost, "the thread of the queue is gone"))
    }
}

impl Signal {
    fn pass(&self) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until it has passed, or until the time is over; returns whether it has passed.
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = timeout.unwrap_or(Duration::MAX);
        let waited = self.changed.wait_timeout_while(passed, timeout, |passed| !*passed);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// # Safety
/// The queue was opened by this driver and is alive as long as the result.
unsafe fn worker<'queue>(queue: Raw<Queue>) -> &'queue Worker {
    // SAFETY: the handle is the address of a box that `open_queue` made and that is alive.
    unsafe { &*queue.as_ptr().cast::<Worker>() }
}

/// Another share of an event.
///
/// # Safety
/// The event was made by this driver and is alive.
unsafe fn signal(event: Raw<Event>) -> Arc<Signal> {
    let signal = event.as_ptr().cast_const().cast::<Signal>();
    // SAFETY: the handle is a share that `make_event` gave away.
    unsafe { Arc::increment_strong_count(signal) };
    // SAFETY: the handle is a share that `make_event` gave away; this is the share just made.
    unsafe { Arc::from_raw(signal) }
}

fn layout(len: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(len).ok()?, 64).ok()
}

fn address(spot: Spot) -> *mut u8 {
    spot.base.as_ptr().cast::<u8>().wrapping_add(spot.offset as usize)
}
