//! A device of an application with its queue, and what is under way on the queue.
//!
//! wgpu has one queue, which is in order. Three things are added to it here:
//!
//! * **Writes** (`Queue::write_buffer`) take their bytes at once, and stay in wgpu until something
//!   is submitted. An event that is recorded submits them first ([`flush`](Logical::flush)).
//! * **Points** are events: wgpu calls back once all is done that was submitted before the point,
//!   and the reads before it are in host memory. wgpu calls nobody back about work that failed, but
//!   for mappings: a read that fails reaches every point behind it.
//! * **Reads** pass through staging buffers: see [`reads`](crate::reads). So do lists of pieces
//!   from the host: see [`uploads`](crate::uploads).
//!
//! wgpu accepts calls on a lost device in silence, and tells of the loss by one callback, which is
//! the application's. Where the application gave the flag that this callback sets, the flag is
//! looked at. Where it gave none, a buffer that is to be mapped from its creation tells: a lost
//! device shows no bytes of it ([`look_for_loss`](Logical::look_for_loss)).
//!
//! What must stay true: no lock of a [`Logical`] is held in calls in which wgpu may run callbacks.
//! These are polls and submissions.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

#[cfg(not(target_arch = "wasm32"))]
use arrow_device::driver::ask_until;
use arrow_device::driver::{LibraryUse, PerProcess, ask_for_a_moment};
use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Result};
use wgpu::{BufferUsages, ErrorFilter};

use crate::error::{Answer, Caught, asked};
use crate::reads::Reads;
use crate::table::Table;
use crate::uploads::Uploads;
use crate::{Limits, Opening};

/// What is in front of the number of a device: "wgpu". No address has these bits on processors with
/// 64 bits, so that no number is the handle of a `WGPUDevice`.
const TAG: i64 = 0x7767_7075 << 32;
/// After how many questions a wait looks whether the device is lost.
#[cfg(not(target_arch = "wasm32"))]
const LOSS_TURNS: u32 = 2048;

/// Guards the use of wgpu.
static LIBRARY: LibraryUse = LibraryUse::new();
/// The devices that are open.
static OPEN: PerProcess<Mutex<Vec<Weak<Logical>>>> = PerProcess::new(Mutex::new(Vec::new()));
/// The number of the next opening.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// An error in a child of `fork` whose parent has opened a device, and after the process has begun
/// to exit.
pub(crate) fn enter() -> Result<()> {
    LIBRARY.enter()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What belongs to wgpu. It is not dropped in a child of `fork`, nor while the process ends.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) table: Table,
    pub(crate) reads: Mutex<Reads>,
    pub(crate) uploads: Mutex<Uploads>,
}

/// An answer of an error scope that has not come.
struct Later {
    order: u64,
    answer: Pin<Box<Answer>>,
}

pub(crate) struct Logical {
    pub(crate) held: ManuallyDrop<Held>,
    pub(crate) id: DeviceId,
    pub(crate) name: String,
    pub(crate) limits: Limits,
    is_lost: Arc<AtomicBool>,
    /// Whether the application sets the flag.
    is_told_of_loss: bool,
    /// How many writes were given to wgpu, and how many of them were submitted.
    writes: AtomicU64,
    submitted: AtomicU64,
    begun_reads: AtomicU64,
    order: AtomicU64,
    /// The place of the first work that failed, or `u64::MAX`.
    failed: AtomicU64,
    later: Mutex<Vec<Later>>,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Point {
    /// Set by wgpu's callback.
    is_done: Arc<AtomicBool>,
    /// The place among all work.
    order: u64,
    /// The reads with smaller numbers are in front of the point.
    reads: u64,
    /// Whether the point was found to have passed, which it stays.
    has_passed: AtomicBool,
}

impl Logical {
    pub(crate) fn open(opening: Opening) -> Result<Arc<Self>> {
        enter()?;
        let Opening { device, queue, is_lost, name } = opening;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = DeviceId::new(DeviceType::WEBGPU, TAG | number.cast_signed());
        let limits = Limits::of(&device.limits());
        let name = name.unwrap_or_else(|| device.adapter_info().name);
        let (table, reads, uploads) = (Table::default(), Mutex::default(), Mutex::default());
        let logical = Arc::new(Self {
            held: ManuallyDrop::new(Held { device, queue, table, reads, uploads }),
            id,
            name,
            limits,
            is_told_of_loss: is_lost.is_some(),
            is_lost: is_lost.unwrap_or_default(),
            writes: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            begun_reads: AtomicU64::new(0),
            order: AtomicU64::new(0),
            failed: AtomicU64::new(u64::MAX),
            later: Mutex::default(),
        });
        LIBRARY.loaded();
        let mut open = lock(OPEN.get());
        open.retain(|known| known.strong_count() > 0);
        open.push(Arc::downgrade(&logical));
        drop(open);
        logical.check()?;
        #[cfg(not(target_arch = "wasm32"))]
        logical.check_queue()?;
        Ok(logical)
    }

    /// An error if the queue was made with another device: what is copied would go to the buffers
    /// of that device, and no work would ever be seen to end.
    ///
    /// wgpu does not tell to which device a queue belongs, but an error of a queue goes to the
    /// scopes of its device. So the queue is asked for a write that every queue refuses: a write
    /// of nothing, at a place that is no multiple of four. A queue of another instance finds
    /// another buffer by the number of this one, or none, and then panics.
    #[cfg(not(target_arch = "wasm32"))]
    fn check_queue(&self) -> Result<()> {
        let buffer = self.create_buffer(4, BufferUsages::COPY_DST, false)?;
        let refused = || self.scoped(|| self.held.queue.write_buffer(&buffer, 1, &[]));
        if let Ok(((), Some(_))) = catch_unwind(AssertUnwindSafe(refused)) {
            return Ok(());
        }
        // A lost device refuses nothing.
        self.ask_for_loss();
        self.check_flag()?;
        let message = "the queue was made with another device than the one that is opened";
        Err(self.error(ErrorKind::InvalidArgument, message))
    }

    pub(crate) fn find(id: DeviceId) -> Option<Arc<Self>> {
        let open = lock(OPEN.get());
        // Shares are dropped only after the lock is given back: the last one closes a device.
        let known: Vec<Arc<Self>> = open.iter().filter_map(Weak::upgrade).collect();
        drop(open);
        known.into_iter().find(|known| known.id == id)
    }

    /// Tells the openings apart.
    pub(crate) fn number(&self) -> usize {
        (self.id.id & !TAG) as usize
    }

    pub(crate) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message.into()).on_device(self.id)
    }

    // ---- the loss of the device

    /// An error once the device is known to be lost. What is under way is given up then.
    pub(crate) fn check_flag(&self) -> Result<()> {
        if !self.is_lost.load(Ordering::Acquire) {
            return Ok(());
        }
        self.give_up();
        Err(self.error(ErrorKind::DeviceLost, "the device of wgpu is lost"))
    }

    /// Gives up what is under way on a lost device.
    fn give_up(&self) {
        lock(&self.held.reads).give_up();
        let uploads = lock(&self.held.uploads).give_up();
        // Without the lock.
        drop(uploads);
    }

    /// An error if the device is lost. Asks wgpu where the application does not tell.
    pub(crate) fn check(&self) -> Result<()> {
        self.look_for_loss();
        self.check_flag()
    }

    /// A lost device of wgpu makes buffers without an error, and shows no bytes of them.
    fn look_for_loss(&self) {
        if !self.is_told_of_loss && !self.is_lost.load(Ordering::Acquire) {
            self.ask_for_loss();
        }
    }

    /// Asks wgpu whether the device is lost.
    fn ask_for_loss(&self) {
        let (is_there, caught) = self.scoped(|| {
            let buffer = self.held.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 4,
                usage: BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            });
            buffer.get_mapped_range_mut(..).is_ok()
        });
        // An error with a reason, such as that no memory is left, is not the loss.
        if !is_there && caught.is_none() {
            self.is_lost.store(true, Ordering::Release);
        }
    }

    // ---- errors

    /// Makes calls under error scopes. Returns what a scope caught.
    pub(crate) fn scoped<R>(&self, call: impl FnOnce() -> R) -> (R, Option<Caught>) {
        let filters = [ErrorFilter::Internal, ErrorFilter::OutOfMemory, ErrorFilter::Validation];
        let scopes = filters.map(|filter| self.held.device.push_error_scope(filter));
        let result = call();
        let mut caught = None;
        for scope in scopes.into_iter().rev() {
            let mut answer: Pin<Box<Answer>> = Box::pin(scope.pop());
            match asked(answer.as_mut()) {
                Some(told) => caught = told.map(Caught::from).or(caught),
                // A browser answers later. What was refused is work that failed then.
                None => lock(&self.later).push(Later { order: self.next_order(), answer }),
            }
        }
        (result, caught)
    }

    /// Looks at the answers of scopes that had not come.
    fn take_answers(&self) {
        let mut waiting = std::mem::take(&mut *lock(&self.later));
        waiting.retain_mut(|later| match asked(later.answer.as_mut()) {
            Some(told) => {
                if told.is_some() {
                    self.tell_failure(later.order);
                }
                false
            }
            None => true,
        });
        lock(&self.later).append(&mut waiting);
    }

    /// The error for what a scope caught.
    pub(crate) fn refused(&self, caught: &Caught, operation: &'static str) -> Error {
        match self.check() {
            Err(lost) => lost.during(operation),
            Ok(()) => caught.error(operation).on_device(self.id),
        }
    }

    pub(crate) fn tell_failure(&self, order: u64) {
        self.failed.fetch_min(order, Ordering::AcqRel);
    }

    // ---- buffers

    /// Makes a buffer of a size that the device allows.
    pub(crate) fn create_buffer(
        &self,
        size: u64,
        usage: BufferUsages,
        mapped_at_creation: bool,
    ) -> Result<wgpu::Buffer> {
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation };
        let make = || self.scoped(|| self.held.device.create_buffer(&descriptor));
        let (mut buffer, mut caught) = make();
        if caught.as_ref().is_some_and(Caught::is_out_of_memory) {
            drop(buffer);
            // Buffers that were dropped are freed when wgpu is polled.
            let spare = lock(&self.held.uploads).give_up();
            drop(spare);
            self.poll();
            (buffer, caught) = make();
        }
        match caught {
            Some(caught) => Err(self.refused(&caught, "allocate")),
            None => Ok(buffer),
        }
    }

    // ---- commands

    /// Records commands and submits them, with all writes before them.
    pub(crate) fn submit(
        &self,
        operation: &'static str,
        encode: impl FnOnce(&mut wgpu::CommandEncoder),
    ) -> Result<()> {
        let (commands, caught) = self.scoped(|| {
            let mut encoder = self.held.device.create_command_encoder(&Default::default());
            encode(&mut encoder);
            encoder.finish()
        });
        // What was refused by then is not submitted.
        if let Some(caught) = caught {
            return Err(self.refused(&caught, operation));
        }
        self.submit_commands(operation, Some(commands))
    }

    fn submit_commands(
        &self,
        operation: &'static str,
        commands: Option<wgpu::CommandBuffer>,
    ) -> Result<()> {
        // A write is counted when wgpu has it, so that this submission has all of these. They count
        // as submitted only afterwards: another thread may record an event meanwhile.
        let writes = self.writes.load(Ordering::Acquire);
        let ((), caught) = self.scoped(|| _ = self.held.queue.submit(commands));
        self.submitted.fetch_max(writes, Ordering::AcqRel);
        match caught {
            Some(caught) => Err(self.refused(&caught, operation)),
            None => Ok(()),
        }
    }

    /// A write was given to wgpu.
    pub(crate) fn note_write(&self) {
        self.writes.fetch_add(1, Ordering::AcqRel);
    }

    /// Submits the writes that were not submitted yet.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.submitted.load(Ordering::Acquire) < self.writes.load(Ordering::Acquire) {
            self.submit_commands("submit writes", None)
        } else {
            Ok(())
        }
    }

    // ---- points

    /// The number of the next work.
    pub(crate) fn next_order(&self) -> u64 {
        self.order.fetch_add(1, Ordering::AcqRel)
    }

    pub(crate) fn next_read(&self) -> u64 {
        self.begun_reads.fetch_add(1, Ordering::AcqRel)
    }

    /// The point behind all that was submitted by now, with all writes.
    pub(crate) fn point(&self) -> Result<Point> {
        self.flush()?;
        let reads = self.begun_reads.load(Ordering::Acquire);
        let order = self.next_order();
        let is_done = Arc::new(AtomicBool::new(false));
        let told = is_done.clone();
        self.held.queue.on_submitted_work_done(move || told.store(true, Ordering::Release));
        Ok(Point { is_done, order, reads, has_passed: AtomicBool::new(false) })
    }

    /// Whether the point has passed. Failed work is an error.
    pub(crate) fn has_passed(&self, point: &Point) -> Result<bool> {
        self.check_flag()?;
        if point.has_passed.load(Ordering::Acquire) {
            return Ok(true);
        }
        if !self.is_over(point) {
            self.poll();
            self.finish_reads();
            self.check_flag()?;
        }
        if !self.is_over(point) {
            return Ok(false);
        }
        self.take_answers();
        self.check()?;
        if self.failed.load(Ordering::Acquire) <= point.order {
            let message = "wgpu told that work of the queue failed; its results are not there";
            return Err(self.error(ErrorKind::WorkFailed, message));
        }
        point.has_passed.store(true, Ordering::Release);
        Ok(true)
    }

    fn is_over(&self, point: &Point) -> bool {
        point.is_done.load(Ordering::Acquire) && !lock(&self.held.reads).has_before(point.reads)
    }

    /// Waits until the point has passed or the time is over.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn wait(&self, point: &Point, timeout: Option<Duration>) -> Result<bool> {
        let mut asked = 0_u32;
        ask_until(timeout, || {
            asked = asked.wrapping_add(1);
            if asked.is_multiple_of(LOSS_TURNS) {
                self.look_for_loss();
            }
            self.has_passed(point)
        })
    }

    /// In a browser nothing passes while somebody waits.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn wait(&self, point: &Point, _timeout: Option<Duration>) -> Result<bool> {
        if self.has_passed(point)? {
            Ok(true)
        } else {
            Err(arrow_device::driver::may_not_wait(self.id))
        }
    }

    /// Whether all that was submitted by now has passed.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let point = self.point()?;
        ask_for_a_moment(|| self.has_passed(&point))
    }

    /// Lets wgpu find out what is done, and call back. This also runs callbacks of the application.
    pub(crate) fn poll(&self) {
        let poll = || self.held.device.poll(wgpu::PollType::Poll);
        // wgpu panics where it finds the device lost in a poll.
        let Err(panic) = catch_unwind(AssertUnwindSafe(poll)) else { return };
        self.look_for_loss();
        if !self.is_lost.load(Ordering::Acquire) {
            // It was a callback of the application.
            resume_unwind(panic);
        }
    }

    /// Moves the bytes of reads whose buffers are mapped to host memory.
    fn finish_reads(&self) {
        let unmap = |buffer: &wgpu::Buffer| _ = self.scoped(|| buffer.unmap());
        lock(&self.held.reads).finish(unmap, |order| self.tell_failure(order));
    }
}

impl Drop for Logical {
    fn drop(&mut self) {
        // In a child of `fork`, and after the process has begun to exit, no runtime is called.
        if enter().is_err() {
            return;
        }
        let is_lost = self.is_lost.load(Ordering::Acquire);
        // Usually all work has passed, because everything that uses memory keeps the device open
        // until it has. wgpu keeps the buffers of what is under way by itself.
        if is_lost {
            self.give_up();
        }
        // SAFETY: this is the end of the value, and nobody uses the member after this.
        unsafe { ManuallyDrop::drop(&mut self.held) };
    }
}

impl std::fmt::Debug for Logical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Logical({}, {:?})", self.id, self.name)
    }
}
