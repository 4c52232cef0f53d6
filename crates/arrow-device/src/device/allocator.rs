//! [`Allocator`]: where the memory of a device comes from, if not straight from its driver; and
//! [`Recycler`], an allocator that keeps freed memory for later requests.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::driver::{Raw, Runtime};
use super::kept_blocks::{KeptBlocks, RecycledBlock};
use super::{Device, Memory, Owner, Queue, deferred};
use crate::pool::per_fork::PerFork;
use crate::process::{ForkMoment, PerProcess};
use crate::sync::lock;
use crate::{Result, process};

/// A source of memory: a pool, an arena, a stream-ordered allocator of another library.
///
/// An allocator is given to a device ([`Device::with_allocator`]) or to one copy
/// ([`copy::Options`](crate::copy::Options)). A closure with the arguments of
/// [`allocate`](Self::allocate) is an allocator too.
///
/// An implementation allocates from the device that it is given, or hands out memory of its own
/// with [`Memory::adopt`]. [`Device::allocate`] of the given device asks the driver, and not this
/// allocator again.
pub trait Allocator: Any + Send + Sync {
    /// Memory of at least this many bytes on the device, which is not 0.
    ///
    /// Where a queue is named, work that was submitted to that queue may still use memory that
    /// somebody else allocated ([`Memory::adopt`]): other queues and the host come behind that
    /// work. Where no queue is named, nothing that was submitted may use it.
    ///
    /// The returned memory says when it is ready. Memory of the driver ([`Device::allocate`],
    /// [`Queue::allocate`]) and of a [`Recycler`] is ready at once if it was not used since, and
    /// the host may fill it where it can. All other memory, adopted memory included, is ready in
    /// the order of the named queue: the host writes nothing there before that queue has passed
    /// what was submitted to it.
    ///
    /// Where the device copies whole [units](crate::driver::Properties::copy_unit), memory consists
    /// of whole units: the bytes behind its length up to the next unit belong to nobody else.
    fn allocate(&self, device: &Device, len: u64, queue: Option<&Queue>) -> Result<Memory>;
}

impl<F> Allocator for F
where
    F: Fn(&Device, u64, Option<&Queue>) -> Result<Memory> + Send + Sync + 'static,
{
    fn allocate(&self, device: &Device, len: u64, queue: Option<&Queue>) -> Result<Memory> {
        self(device, len, queue)
    }
}

/// An allocator that keeps freed memory and gives it out again.
///
/// A recycler is for destinations of copies that come again and again. Fresh host memory costs more
/// in page faults than the copy does, and fresh device memory may wait for the device.
///
/// A block comes back after its last use has passed. A block serves requests from its own length
/// down to half of that length, and of the blocks that fit, the shortest one is used. Blocks beyond
/// the bound are freed, the oldest first. A block is also freed where work failed or a device was
/// lost while the block was in use, because the memory itself may be what failed. An allocation
/// that finds no memory, here or elsewhere in the process, frees all kept blocks of its runtime and
/// tries again.
///
/// Memory that other processes can open ([`Device::shareable`]) has the same pages in a child of
/// `fork` as in the parent. A block of such memory that is in use at a fork is freed after its last
/// use, in both processes.
///
/// Kept blocks hold their device open, until [`clear`](Self::clear) or until the last clone of the
/// recycler is dropped. A child of `fork` begins without kept blocks.
///
/// On a device whose memory is named by handles (OpenCL, Vulkan), a block is kept with the handles
/// of the parts that a copy divided it into. The next copy that divides the block in the same way
/// makes no handles. Batches with equal numbers of rows, for example, are divided in the same way.
///
/// ```
/// use arrow_device::{Device, Recycler};
///
/// let recycler = Recycler::new(64 << 20);
/// let device = Device::host().with_allocator(recycler.clone());
/// drop(device.allocate(1 << 20)?);
/// assert_eq!(recycler.kept(), 1 << 20);
/// let again = device.allocate(1_000_000)?;
/// assert_eq!((again.len(), recycler.kept()), (1_000_000, 0));
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Recycler(Arc<RecyclerInner>);

pub(super) struct RecyclerInner {
    bound: u64,
    /// The kept blocks. A child of `fork` has its own.
    free: PerFork<Mutex<KeptBlocks>>,
}

/// All recyclers that this process made. A child of `fork` has a list of its own.
static RECYCLERS: PerProcess<Mutex<KnownRecyclers>> =
    PerProcess::new(Mutex::new(KnownRecyclers { all: Vec::new(), most: 0 }));

#[derive(Default)]
struct KnownRecyclers {
    all: Vec<Weak<RecyclerInner>>,
    /// How many entries there may be before the entries of dropped recyclers are removed.
    most: usize,
}

impl KnownRecyclers {
    fn add(&mut self, recycler: &Arc<RecyclerInner>) {
        if self.all.len() >= self.most {
            self.all.retain(|known| known.strong_count() > 0);
            self.most = 2 * self.all.len() + 8;
        }
        self.all.push(Arc::downgrade(recycler));
    }
}

fn recyclers() -> MutexGuard<'static, KnownRecyclers> {
    // From here on there is a lock that a child of `fork` could wait for.
    process::watch();
    lock(RECYCLERS.get())
}

/// Frees the blocks of a runtime that recyclers keep. Returns whether there were any.
pub(super) fn free_what_is_kept(runtime: Runtime) -> bool {
    let all: Vec<_> = recyclers().all.iter().filter_map(Weak::upgrade).collect();
    let mut kept = Vec::new();
    for recycler in &all {
        kept.extend(recycler.free().take_of(runtime));
    }
    let has_any = !kept.is_empty();
    // The driver is called without the locks.
    drop(kept);
    drop(all);
    has_any
}

impl RecyclerInner {
    fn free(&self) -> MutexGuard<'_, KeptBlocks> {
        lock(self.free.of_this_process())
    }
}

impl Recycler {
    /// A recycler that keeps at most this many bytes.
    pub fn new(bound: u64) -> Self {
        let inner = Arc::new(RecyclerInner { bound, free: PerFork::new() });
        recyclers().add(&inner);
        Self(inner)
    }

    /// How many bytes the recycler keeps at the moment.
    pub fn kept(&self) -> u64 {
        self.0.free().bytes()
    }

    /// Frees all memory that the recycler keeps.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.0.free());
        // The driver is called without the lock.
        drop(all);
    }
}

impl Allocator for Recycler {
    fn allocate(&self, device: &Device, len: u64, _queue: Option<&Queue>) -> Result<Memory> {
        let failures = deferred::failures();
        // Before the block is taken: a child that is made meanwhile may get the block.
        let forks = ForkMoment::now();
        let kept = self.0.free().take_fitting(device, len);
        let mut block = match kept {
            Some(block) => block,
            None => {
                // The block is not allocated in the order of a queue: the next user may have
                // another queue.
                let whole = device.allocate(len)?;
                if whole.is_of_one_use() {
                    // Once shared, such memory cannot be written any more, and a fresh block is as
                    // good.
                    return Ok(whole);
                }
                RecycledBlock::new(whole, Arc::downgrade(&self.0))
            }
        };
        (block.failures, block.forks) = (failures, forks);
        device.driver().reuse(block.whole.raw(), block.whole.len());
        // The block has at least `len` bytes, and nobody else has it: it is new, or was taken off
        // the list.
        Ok(Memory::lent(block, len))
    }
}

/// A block that goes back to its recycler when it is dropped.
pub(super) struct Lent(Option<Box<RecycledBlock>>);

impl Lent {
    pub(super) fn new(block: Box<RecycledBlock>) -> Self {
        Self(Some(block))
    }

    /// The block.
    pub(super) fn block(&self) -> Option<&RecycledBlock> {
        self.0.as_deref()
    }

    /// The block.
    pub(super) fn block_mut(&mut self) -> Option<&mut RecycledBlock> {
        self.0.as_deref_mut()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(block) = self.0.take() else { return };
        let Some(home) = block.home.upgrade() else { return };
        // The failed work may have used this block, and the memory itself may be what failed.
        let runtime = block.whole.device().driver().runtime();
        let has_failed = deferred::has_failed_since(block.failures, runtime);
        // A parent and its child have the pages of such a block together, and what was made of it
        // at the fork lives on in both: whoever is finished first must not write to it.
        let is_in_two_processes =
            block.whole.maker_of_shared_pages().is_some() && !block.forks.has_no_child_since();
        let rest = match has_failed || is_in_two_processes {
            true => vec![block],
            false => home.free().keep_newest(block, home.bound),
        };
        // The driver is called without the lock.
        drop(rest);
    }
}

impl fmt::Debug for Recycler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recycler({} of {} bytes)", self.kept(), self.0.bound)
    }
}

impl Memory {
    /// Memory that somebody else allocated on this device. None of it counts as
    /// [written](Memory::written). To make arrays of data in the memory, declare the data with
    /// [`assume_written`](Memory::assume_written), or make a [foreign
    /// buffer](crate::Buffer::foreign) of it instead.
    ///
    /// `owner` is dropped when nothing here uses the memory any more: after the queues that were
    /// given its place have passed what was submitted by then, possibly on another thread.
    ///
    /// # Safety
    /// `base` is what the device's own memory is, an address or a handle; it names `len` bytes that
    /// are valid and that nobody else uses until `owner` is dropped (UNS-18). Nothing that was
    /// submitted uses them either, but for an [`Allocator`] that was named a queue: there, work on
    /// that queue may.
    pub unsafe fn adopt(
        device: &Device,
        base: Raw<Memory>,
        len: u64,
        owner: impl Send + Sync + 'static,
    ) -> Self {
        Self::adopted(device, base, len, Box::new(Owner::on(device.id(), owner)))
    }
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;
    use arrow_device_testkit::process::{alone, forked};

    // Requirement: SAF-27
    #[test]
    fn a_child_makes_recyclers_though_a_thread_of_its_parent_held_the_list() {
        alone(|| {
            let (locked, wait) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let holder = std::thread::spawn(move || {
                let all = recyclers();
                locked.send(()).unwrap();
                let _ = ended.recv();
                drop(all);
            });
            wait.recv().unwrap();
            forked(|| {
                let recycler = Recycler::new(1 << 20);
                let device = Device::host().with_allocator(recycler.clone());
                drop(device.allocate(100).map_err(|error| error.to_string())?);
                let is_kept = recycler.kept() == 100;
                let is_freed = free_what_is_kept(Device::host().driver().runtime());
                let is_right = is_kept && is_freed && recycler.kept() == 0;
                if is_right { Ok(()) } else { Err(format!("{recycler:?}")) }
            });
            drop(end);
            holder.join().unwrap();
        });
    }
}
