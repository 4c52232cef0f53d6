//! A producer whose buffers lie on a device. They are filled, recorded and freed with calls of the
//! driver, and not through owners of the library.
//!
//! An array belongs to the holder of its struct. The release waits for the producer's own work (or
//! has the library wait, where the thread may not) and then frees at once, as the interface allows:
//! a consumer that still uses the memory by then has made a mistake.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{Driver, Raw, Readiness, Region, Route, Spot, SyncEvent};
use arrow_device::{ErrorKind, Event, Memory, Queue, Result};

use crate::ledger::Ledger;
use crate::plan::{Content, Plan};
use crate::producer::{self, Manner};

/// Makes an array whose data is still being written by this queue, behind an event where the device
/// has events.
pub fn pending(
    plan: &Plan,
    queue: &Queue,
    ledger: &Arc<Ledger>,
    manner: Manner,
) -> Result<ArrowDeviceArray> {
    array(plan, queue, ledger, manner, Timing::Pending, &Queue::synchronize)
}

/// Makes an array as [`pending`] does, on a queue that has other work to do first. Until then the
/// memory holds other bytes than those of the array.
pub fn pending_behind(
    plan: &Plan,
    queue: &Queue,
    ledger: &Arc<Ledger>,
    manner: Manner,
    work: &dyn Fn() -> Result<()>,
) -> Result<ArrowDeviceArray> {
    array(plan, queue, ledger, manner, Timing::Behind(work), &Queue::synchronize)
}

/// Makes an array whose data was written by this queue before, and which needs no event.
pub fn settled(
    plan: &Plan,
    queue: &Queue,
    ledger: &Arc<Ledger>,
    manner: Manner,
) -> Result<ArrowDeviceArray> {
    array(plan, queue, ledger, manner, Timing::Settled, &Queue::synchronize)
}

/// When the data is written.
pub(crate) enum Timing<'a> {
    Settled,
    Pending,
    /// After this work. Before, the memory holds other bytes.
    Behind(&'a dyn Fn() -> Result<()>),
}

/// Makes an array. `wait` replaces the host's waits for the queue.
pub(crate) fn array(
    plan: &Plan,
    queue: &Queue,
    ledger: &Arc<Ledger>,
    manner: Manner,
    timing: Timing<'_>,
    wait: &dyn Fn(&Queue) -> Result<()>,
) -> Result<ArrowDeviceArray> {
    let mut deposit = Deposit {
        queue: queue.clone(),
        blocks: Vec::new(),
        event: None,
        shown: None,
        staged: Vec::new(),
        ledger: ledger.clone(),
        is_done: false,
    };
    let mut regions = Vec::new();
    let placed = deposit.place(plan, &mut regions)?;
    if let Timing::Behind(work) = timing {
        deposit.fill_with_other_bytes(&regions, wait)?;
        work()?;
    }
    // SAFETY: each region is an allocation of this deposit, and its source is kept until the queue
    // has passed.
    unsafe { queue.copy(Route::FromHost, &regions) }?;
    deposit.blocks.iter().for_each(|(memory, len)| deposit.driver().share(*memory, *len));
    let id = queue.device().id();
    let sync_event = match queue.device().properties().readiness {
        Readiness::Event if !matches!(timing, Timing::Settled) => deposit.record()?,
        // There is one queue, and its order is enough.
        Readiness::QueueOrder => ptr::null_mut(),
        _ => wait(queue).map(|()| ptr::null_mut())?,
    };
    let base = producer::array_owning(&placed, ledger, manner, deposit);
    let array = producer::on_device(base, id.device_type.0, id.id);
    Ok(ArrowDeviceArray { sync_event, ..array })
}

/// The owner of such an array.
struct Deposit {
    queue: Queue,
    blocks: Vec<(Raw<Memory>, u64)>,
    event: Option<Raw<Event>>,
    /// The target of `sync_event`, where that is the handle of the event.
    shown: Option<Box<ShownEvent>>,
    staged: Vec<Vec<u8>>,
    ledger: Arc<Ledger>,
    /// Whether the producer's own work is known to be over.
    is_done: bool,
}

struct ShownEvent(*mut c_void);

// SAFETY: the handle of an event, which can be used on any thread.
unsafe impl Send for ShownEvent {}

impl Deposit {
    fn driver(&self) -> &Arc<dyn Driver> {
        self.queue.device().driver()
    }

    /// Returns the plan with its bytes replaced by memory of the device. Nothing is submitted yet.
    fn place(&mut self, plan: &Plan, regions: &mut Vec<Region>) -> Result<Plan> {
        let mut placed = plan.clone();
        let on_device = plan.device_buffers();
        for buffer in placed.buffers.iter_mut().take(on_device) {
            if let Content::Bytes(bytes) = buffer {
                let memory = self.place_bytes(std::mem::take(bytes), regions)?;
                *buffer = Content::On(memory);
            }
        }
        for child in placed.children.iter_mut().chain(placed.dictionary.as_deref_mut()) {
            *child = self.place(child, regions)?;
        }
        Ok(placed)
    }

    /// Allocates memory for bytes. On a device that copies whole units, the source and the copy
    /// have whole units, so that nobody has to wait for the bytes behind the destination.
    fn place_bytes(
        &mut self,
        mut bytes: Vec<u8>,
        regions: &mut Vec<Region>,
    ) -> Result<Raw<Memory>> {
        let len = bytes.len().max(1) as u64;
        // SAFETY: the length is not 0; the queue is alive.
        let memory = unsafe { self.driver().allocate(len, Some(self.queue.raw())) }?;
        self.blocks.push((memory, len));
        self.ledger.opened();
        let unit = self.queue.device().properties().copy_unit as usize;
        bytes.resize(bytes.len().next_multiple_of(unit), 0);
        if !bytes.is_empty() {
            let from = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
            let to = Spot { base: memory, offset: 0 };
            regions.push(Region { from, to, len: bytes.len() as u64 });
        }
        self.staged.push(bytes);
        Ok(memory)
    }

    /// Fills every place with bytes that nobody may read, so that a reader that comes too early is
    /// seen.
    fn fill_with_other_bytes(
        &mut self,
        regions: &[Region],
        wait: &dyn Fn(&Queue) -> Result<()>,
    ) -> Result<()> {
        let longest = regions.iter().map(|region| region.len).max().unwrap_or(0);
        let other = vec![0x5c; longest as usize];
        let from = Spot { base: Raw::from_ptr(other.as_ptr().cast_mut().cast()), offset: 0 };
        self.staged.push(other);
        let regions: Vec<Region> =
            regions.iter().map(|region| Region { from, ..*region }).collect();
        // SAFETY: each region is an allocation of this deposit, and its source is kept until the
        // queue has passed.
        unsafe { self.queue.copy(Route::FromHost, &regions) }?;
        wait(&self.queue)
    }

    /// Has the queue keep everything until it has passed the producer's own work, because this
    /// thread may not wait for that.
    fn hand_on(&mut self) {
        let rest = Self {
            queue: self.queue.clone(),
            blocks: std::mem::take(&mut self.blocks),
            event: self.event.take(),
            shown: self.shown.take(),
            staged: std::mem::take(&mut self.staged),
            ledger: self.ledger.clone(),
            is_done: true,
        };
        self.queue.keep_until_done(rest);
    }

    /// Records an event behind what was submitted, and returns the pointer that a consumer is
    /// shown.
    fn record(&mut self) -> Result<*mut c_void> {
        let driver = self.driver().clone();
        let made = driver.make_event()?;
        self.event = Some(made);
        // SAFETY: the event was made by this driver and is recorded once, on a queue that is alive.
        let event = unsafe { driver.record(self.queue.raw(), made) }?;
        self.event = Some(event);
        Ok(match driver.sync_event(event)? {
            SyncEvent::Address(address) => address.as_ptr(),
            SyncEvent::Handle(handle) => {
                let shown = self.shown.insert(Box::new(ShownEvent(handle)));
                (&raw mut shown.0).cast()
            }
        })
    }
}

impl Drop for Deposit {
    fn drop(&mut self) {
        // Waits for the producer's own work only. A device may fail once and go on.
        let wait = || self.queue.synchronize();
        let is_done = if self.is_done { Ok(()) } else { wait().or_else(|_| wait()) };
        if let Err(error) = is_done {
            if error.kind() == ErrorKind::NotReady {
                return self.hand_on();
            }
            // The device may still read there.
            std::mem::forget(std::mem::take(&mut self.staged));
            if error.kind() != ErrorKind::DeviceLost {
                return;
            }
        }
        if let Some(event) = self.event.take() {
            // SAFETY: made by this driver, and destroyed once.
            unsafe { self.driver().destroy_event(event) };
        }
        for (memory, len) in std::mem::take(&mut self.blocks) {
            // SAFETY: allocated with this length; whoever released the array promised that its own
            // use is over.
            unsafe { self.driver().free(memory, len) };
            self.ledger.closed();
        }
    }
}
