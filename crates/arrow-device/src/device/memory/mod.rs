//! [`Memory`]: an allocation that this process made and nobody else sees yet.

mod parted;

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use self::parted::AllocationPart;
pub(crate) use self::parted::Parted;
use super::allocator::{Lent, free_what_is_kept};
use super::driver::{Addressing, PlaceOwner, Raw, Region, Route, SharedUse, Spot, Watched};
use super::kept_blocks::RecycledBlock;
use super::numbered_list::{NumberedEntry, NumberedList};
use super::{Allocator, Arrival, Buffer, Device, Extent, Moment, Queue, host};
use crate::device::deferred::{self, QueueUse, Shortage};
use crate::process::{self, MadeIn};
use crate::{DeviceType, Error, ErrorKind, Result};

/// An allocation on a device with one owner, to be filled and then shared as a [`Buffer`].
///
/// Like a vector, memory has a length ([`len`](Self::len)) and a written part
/// ([`written`](Self::written)), which begins at its first byte. Fresh memory counts as not
/// written, whatever its bytes are. [`write`](Self::write) fills it. Work of one's own fills it at
/// the place that [`spot`](Self::spot) tells, and is declared with
/// [`assume_written`](Self::assume_written). [`into_buffer`](Self::into_buffer) shares the written
/// part.
///
/// Memory knows in which queue's order it was allocated, and which queues were given its place.
/// Another queue that is given the place waits for the first one. An array that is made of the
/// memory is ready after what was submitted to all of these queues. Dropping the memory, or the
/// last array that holds it, waits for nothing: the memory is freed once the queues that were given
/// its place have passed what was submitted by then.
///
/// ```
/// use arrow_device::{Device, Extent, Queue};
///
/// let mut memory = Device::host().allocate(64)?;
/// memory.write(&Queue::host(), &[1; 24])?;
/// assert_eq!((memory.len(), memory.written()), (64, 24));
/// assert_eq!(memory.into_buffer().extent(), Extent::Exact(24));
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub struct Memory {
    block: ManuallyDrop<OwnedAllocation>,
    /// The queues that may still use the memory: those that [`spot`](Self::spot) was called with,
    /// and those that used the memory here and were not waited for since.
    used_on: NumberedList<MemoryQueue>,
    /// The length of the written part.
    written: u64,
    /// After what the next owner may use the memory.
    free_after: FreeAfter,
}

/// A queue that memory is used on.
pub(super) struct MemoryQueue {
    queue: Queue,
    /// Whether somebody outside of the library knows the place, and may submit work to the queue
    /// until the memory is shared or dropped.
    is_told: bool,
}

impl NumberedEntry for MemoryQueue {
    fn number(&self) -> u64 {
        self.queue.number()
    }
}

/// After what the memory may be used by a queue or host that was not given the place yet.
enum FreeAfter {
    /// At once: nothing that was submitted uses the memory.
    Nothing,
    /// After the allocation, which the driver made in the order of this queue. The place was not
    /// told since.
    Allocation(Queue),
    /// After what was submitted to this queue, which may still use the memory.
    Work(Queue),
}

/// The allocation itself.
struct OwnedAllocation {
    device: Device,
    raw: Raw<Memory>,
    len: u64,
    home: MemoryHome,
    counted: bool,
    /// Handles of parts that are not in use. The next division into the same parts uses them again.
    parts: Vec<AllocationPart>,
}

/// Where memory goes back to.
pub(super) enum MemoryHome {
    Driver,
    Recycler(Lent),
    Other {
        _owner: Box<dyn Send + Sync>,
    },
    /// Memory that other processes can open, or that another process exported, with its owner.
    Shared {
        _owner: Option<Box<dyn Send + Sync>>,
        /// Whether it may be fixed, so that nobody can write to it any more.
        is_of_one_use: bool,
        /// The process that allocated or opened it. A child of `fork` has the same pages.
        made_in: MadeIn,
    },
}

impl Memory {
    pub(in crate::device) fn allocate(
        device: &Device,
        len: u64,
        queue: Option<&Queue>,
    ) -> Result<Self> {
        Self::allocate_by(device, len, queue, device.allocator().map(|allocator| &**allocator))
    }

    pub(in crate::device) fn allocate_by(
        device: &Device,
        len: u64,
        queue: Option<&Queue>,
        allocator: Option<&dyn Allocator>,
    ) -> Result<Self> {
        // The first release may free too little, so this goes on as long as there is something to
        // wait for.
        let mut shortage = None;
        let runtime = device.driver().runtime();
        loop {
            match Self::attempt(device, len, queue, allocator) {
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    let is_first = shortage.is_none();
                    let shortage = shortage.get_or_insert_with(|| Shortage::on(device, len));
                    let is_helped = free_what_is_kept(runtime) && (is_first || shortage.has_time());
                    if !is_helped && !shortage.wait() {
                        return Err(shortage.explained(error));
                    }
                }
                result => return result,
            }
        }
    }

    /// Memory of the driver, and of no allocator, for work on this queue, which is on the device
    /// where it can be.
    pub(crate) fn of_driver(device: &Device, len: u64, queue: &Queue) -> Result<Self> {
        let queue = Some(queue).filter(|queue| queue.device().id() == device.id());
        Self::allocate_by(device, len, queue, None)
    }

    /// [`allocate`](Self::allocate), without a wait for memory that is held back. Where no memory
    /// is left, what has passed is released first.
    pub(in crate::device) fn allocate_at_once(
        device: &Device,
        len: u64,
        queue: Option<&Queue>,
        allocator: Option<&dyn Allocator>,
    ) -> Result<Self> {
        match Self::attempt(device, len, queue, allocator) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                free_what_is_kept(device.driver().runtime());
                deferred::release_finished();
                Self::attempt(device, len, queue, allocator)
            }
            result => result,
        }
    }

    #[inline(always)]
    fn attempt(
        device: &Device,
        len: u64,
        queue: Option<&Queue>,
        allocator: Option<&dyn Allocator>,
    ) -> Result<Self> {
        if len == 0 {
            return Ok(Self::new(device, Raw::NULL, len, MemoryHome::Driver, false));
        }
        if let Some(allocator) = allocator {
            return Self::from_allocator(allocator, device, len, queue);
        }
        // SAFETY: a queue that is named is alive in its owner and belongs to this device.
        let raw = unsafe { device.driver().allocate(len, queue.map(Queue::raw)) }?;
        Ok(Self::new(device, raw, len, MemoryHome::Driver, true).allocated_on(queue))
    }

    /// Memory that other processes can open, which the driver allocated for this queue.
    pub(in crate::device) fn shareable(
        device: &Device,
        raw: Raw<Memory>,
        len: u64,
        queue: Option<&Queue>,
        used: SharedUse,
    ) -> Self {
        let is_of_one_use = used == SharedUse::Once;
        let made_in = MadeIn::watched();
        let home = MemoryHome::Shared { _owner: None, is_of_one_use, made_in };
        Self::new(device, raw, len, home, true).allocated_on(queue)
    }

    /// Memory that another process exported, all of it written.
    pub(in crate::device) fn opened(
        device: &Device,
        raw: Raw<Memory>,
        len: u64,
        owner: Box<dyn Send + Sync>,
    ) -> Self {
        let made_in = MadeIn::watched();
        let home = MemoryHome::Shared { _owner: Some(owner), is_of_one_use: true, made_in };
        let mut memory = Self::new(device, raw, len, home, false);
        memory.written = len;
        memory
    }

    /// This memory, which the driver allocated for this queue.
    #[inline(always)]
    fn allocated_on(mut self, queue: Option<&Queue>) -> Self {
        if let Some(queue) = queue.filter(|queue| !host::is_host(queue.device())) {
            // The memory may come into being in the order of the queue, and must not be freed
            // before that.
            self.used_on.add(MemoryQueue { queue: queue.clone(), is_told: false });
            self.free_after = FreeAfter::Allocation(queue.clone());
        }
        self
    }

    /// Takes memory from the allocator of another party, and checks it.
    fn from_allocator(
        allocator: &dyn Allocator,
        device: &Device,
        len: u64,
        queue: Option<&Queue>,
    ) -> Result<Self> {
        let mut memory = allocator.allocate(&device.plain(), len, queue)?;
        let is_ours = Arc::ptr_eq(memory.device().driver(), device.driver());
        if !is_ours || memory.len() < len || memory.block.raw.is_null() {
            let message = format!("{len} bytes asked for, and the allocator gave {memory:?}");
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(error.during("allocate").on_device(device.id()));
        }
        memory.order_after_its_allocator(queue)?;
        Ok(memory)
    }

    /// Makes memory of an allocator ready for everybody, or in the order of the queue that the
    /// allocator was told.
    fn order_after_its_allocator(&mut self, queue: Option<&Queue>) -> Result<()> {
        // What the allocator wrote is no data of the next owner.
        self.written = 0;
        let is_alone = |on: &Queue| self.used_on.is_of_one(on.number());
        let is_fresh = matches!(&self.free_after, FreeAfter::Allocation(on) if is_alone(on));
        if is_fresh || (self.is_the_drivers() && !self.is_used_on_a_queue()) {
            return Ok(());
        }
        let Some(queue) = queue.filter(|queue| !host::is_host(queue.device())) else {
            return self.settle();
        };
        self.order_behind_all(queue)?;
        self.note_queue(queue);
        self.free_after = FreeAfter::Work(queue.clone());
        Ok(())
    }

    /// Whether the memory comes from the driver, whose allocations nobody uses, or from a recycler,
    /// which takes a block back only after its last use.
    fn is_the_drivers(&self) -> bool {
        !matches!(self.block.home, MemoryHome::Other { .. })
    }

    /// Whether the memory is filled once and never given out again: it can be fixed.
    pub(in crate::device) fn is_of_one_use(&self) -> bool {
        matches!(self.block.home, MemoryHome::Shared { is_of_one_use: true, .. })
    }

    /// The process that made the memory, where a child of `fork` has the pages together with its
    /// parent, and no copy of them.
    pub(crate) fn maker_of_shared_pages(&self) -> Option<MadeIn> {
        match &self.block.home {
            MemoryHome::Shared { made_in, .. } => Some(*made_in),
            MemoryHome::Recycler(lent) => lent.block()?.whole.maker_of_shared_pages(),
            MemoryHome::Driver | MemoryHome::Other { .. } => None,
        }
    }

    /// Whether a parent of this process fills the memory.
    fn is_of_a_parent(&self) -> bool {
        let is_of_this_process = self.block.device.is_of_this_process();
        !is_of_this_process || self.maker_of_shared_pages().is_some_and(|made| !made.is_this())
    }

    pub(in crate::device) fn adopted(
        device: &Device,
        raw: Raw<Memory>,
        len: u64,
        owner: Box<dyn Send + Sync>,
    ) -> Self {
        Self::new(device, raw, len, MemoryHome::Other { _owner: owner }, true)
    }

    /// A block of a recycler, lent to a user. The block was counted where it was allocated.
    pub(in crate::device) fn lent(mut block: Box<RecycledBlock>, len: u64) -> Self {
        let room = std::mem::take(&mut block.room);
        let OwnedAllocation { device, raw, parts, .. } = &mut *block.whole.block;
        let (device, raw, parts) = (device.clone(), *raw, std::mem::take(parts));
        let home = MemoryHome::Recycler(Lent::new(block));
        let mut lent = Self::of(OwnedAllocation { device, raw, len, home, counted: false, parts });
        lent.used_on = NumberedList::with_room_of(room);
        lent
    }

    fn new(device: &Device, raw: Raw<Memory>, len: u64, home: MemoryHome, counted: bool) -> Self {
        let device = device.clone();
        if counted {
            device.account().allocated(len);
        }
        Self::of(OwnedAllocation { device, raw, len, home, counted, parts: Vec::new() })
    }

    fn of(block: OwnedAllocation) -> Self {
        let block = ManuallyDrop::new(block);
        Self { block, used_on: NumberedList::new(), written: 0, free_after: FreeAfter::Nothing }
    }

    pub(crate) fn raw(&self) -> Raw<Memory> {
        self.block.raw
    }

    /// The device that the memory is on.
    pub fn device(&self) -> &Device {
        &self.block.device
    }

    /// The length of the memory in bytes.
    pub fn len(&self) -> u64 {
        self.block.len
    }

    /// Whether the memory has no bytes. Such memory has the null handle.
    pub fn is_empty(&self) -> bool {
        self.block.len == 0
    }

    /// The length of the written part in bytes. [`into_buffer`](Self::into_buffer) makes a buffer
    /// of this length.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Where the memory is, for work on this queue that fills it.
    ///
    /// As with arrays, a place is told only to somebody who names the queue that will use it. A
    /// queue that is named for the first time waits for the queue that the memory was allocated on.
    pub fn spot(&mut self, queue: &Queue) -> Result<Spot> {
        let spot = self.spot_to_fill(queue)?;
        if let Some(used) = self.used_on.get_mut(queue.number())
            && !std::mem::replace(&mut used.is_told, true)
        {
            queue.tell(Watched::Told, PlaceOwner::OfMemory, spot.base, self.block.len);
        }
        if let FreeAfter::Allocation(first) = &self.free_after {
            // From now on the caller may submit work that the library does not know of.
            self.free_after = FreeAfter::Work(first.clone());
        }
        Ok(spot)
    }

    /// [`spot`](Self::spot) for a caller in the library, which asks
    /// [`may_be_filled_by_host`](Self::may_be_filled_by_host) before it submits anything.
    pub(crate) fn spot_to_fill(&mut self, queue: &Queue) -> Result<Spot> {
        self.require_reach(queue)?;
        self.order(queue)?;
        Ok(Spot { base: self.block.raw, offset: 0 })
    }

    /// Refuses a queue whose work may not touch the memory.
    fn require_reach(&self, queue: &Queue) -> Result<()> {
        let device = &self.block.device;
        if self.is_of_a_parent() {
            return Err(process::of_the_parent().on_device(device.id()));
        }
        queue.reaches(device.id())?;
        let is_of_another_runtime = queue.driver().runtime() != device.driver().runtime();
        if is_of_another_runtime && device.id().device_type != DeviceType::CPU {
            let message = "the memory is of another runtime than the queue";
            return Err(Error::new(ErrorKind::NotReachable, message).on_device(device.id()));
        }
        Ok(())
    }

    /// Declares that the first `len` bytes are written, in addition to those that
    /// [`write`](Self::write) wrote.
    ///
    /// # Safety
    /// UNS-33: `len` is not more than [`len`](Self::len). Each of the bytes has been written, or is
    /// written by work that is submitted before the memory is shared, to a queue that
    /// [`spot`](Self::spot) was called with.
    pub unsafe fn assume_written(&mut self, len: u64) {
        debug_assert!(len <= self.len());
        self.written = self.written.max(len.min(self.len()));
    }

    /// Makes a queue wait until the memory may be used, if it was not given the place yet.
    fn order(&mut self, queue: &Queue) -> Result<()> {
        if let FreeAfter::Allocation(first) | FreeAfter::Work(first) = &self.free_after
            && !self.used_on.has(queue.number())
        {
            queue.wait(&first.record()?)?;
        }
        self.note_queue(queue);
        Ok(())
    }

    /// Records a queue that is given the place. The queue waits already for what it has to wait
    /// for.
    fn note_queue(&mut self, queue: &Queue) {
        match &self.free_after {
            FreeAfter::Nothing => {}
            // The host has waited, so nobody else has to.
            _ if host::is_host(queue.device()) => self.free_after = FreeAfter::Nothing,
            FreeAfter::Allocation(first) if first.number() != queue.number() => {
                self.free_after = FreeAfter::Work(first.clone());
            }
            FreeAfter::Allocation(_) | FreeAfter::Work(_) => {}
        }
        // Work on the host's queue is over when the call returns.
        if !self.used_on.has(queue.number()) && !host::is_host(queue.device()) {
            self.used_on.add(MemoryQueue { queue: queue.clone(), is_told: false });
        }
    }

    /// Makes a queue wait for all that was submitted to the other queues that were given the place.
    fn order_behind_all(&self, queue: &Queue) -> Result<()> {
        self.used_on.others(queue.number()).try_for_each(|used| queue.wait(&used.queue.record()?))
    }

    /// Waits on the host until nothing that was submitted uses the memory.
    fn settle(&mut self) -> Result<()> {
        self.used_on.as_slice().iter().try_for_each(|used| used.queue.synchronize())?;
        self.forget_queues();
        Ok(())
    }

    /// Whether the host may write to the memory before this queue uses it. That is so for memory as
    /// the driver allocated it for the queue, and where nothing that was submitted uses the memory.
    pub(crate) fn may_be_filled_by_host(&self, queue: &Queue) -> bool {
        let is_alone = || self.used_on.is_of_one(queue.number());
        match &self.free_after {
            FreeAfter::Nothing => is_alone(),
            FreeAfter::Allocation(on) => on.number() == queue.number() && is_alone(),
            FreeAfter::Work(_) => false,
        }
    }

    /// Whether a queue has to pass something before the memory may be freed.
    pub(in crate::device) fn is_used_on_a_queue(&self) -> bool {
        !self.used_on.as_slice().is_empty()
    }

    /// Forgets the queues that used the memory in the library, after they were waited for: the
    /// memory can then be freed at once. Queues for which somebody outside was told the place stay,
    /// because more work may be submitted to them.
    pub(crate) fn forget_queues(&mut self) {
        self.used_on.retain(|used| used.is_told);
        self.free_after = FreeAfter::Nothing;
    }

    /// Tells the driver that nobody writes to the memory from now on.
    pub(crate) fn tell_shared(&self) {
        self.block.device.driver().share(self.block.raw, self.block.len);
    }

    /// Shares the [written](Self::written) part. From now on nobody writes to the memory.
    ///
    /// However an array of the buffer is finished, it is ready after what was submitted by then to
    /// the queues that were given the place. Memory that only [`write`](Self::write) filled is
    /// ready at once.
    pub fn into_buffer(self) -> Buffer {
        self.tell_shared();
        let in_flight = self.used_on.as_slice().iter().map(|used| used.queue.clone()).collect();
        let written = self.written;
        self.into_bytes(0, written).in_flight_on(in_flight)
    }

    /// Shares some of the bytes.
    ///
    /// # Safety
    /// The bytes lie inside. An array that is made of them is ready after the work that writes
    /// them.
    pub(crate) unsafe fn into_written_part(self, offset: u64, len: u64) -> Buffer {
        self.tell_shared();
        self.into_bytes(offset, len)
    }

    /// Shares the first `len` bytes with one other party, who may then write to them. An allocator
    /// may have given more bytes than were asked for.
    ///
    /// # Safety
    /// `len` is not more than [`len`](Self::len). An array that is made of the bytes is ready after
    /// the work that writes them, all of them.
    pub(crate) unsafe fn into_unshared_buffer(self, len: u64) -> Buffer {
        debug_assert!(len <= self.len());
        self.into_bytes(0, len)
    }

    fn into_bytes(self, offset: u64, len: u64) -> Buffer {
        let (device, base) = (self.block.device.id(), self.block.raw);
        let properties = self.block.device.properties();
        let has_parts = properties.parts && properties.addressing == Addressing::Handle;
        let is_named = properties.separate || (has_parts && self.is_the_drivers());
        let divides = is_named.then(|| self.block.device.clone());
        let arrival = Arrival { process: self.block.device.made_in(), moment: Moment::now() };
        // The parent may still write to the pages.
        let parent = self.maker_of_shared_pages().filter(|made_in| !made_in.is_this());
        let owner: super::BytesOwner = Arc::new(self);
        Buffer::from_parts(device, base, offset, Extent::Exact(len), Some(owner))
            .that_came(arrival)
            .filled_by_a_parent(parent)
            .divided_by(divides)
    }

    /// Writes to the first bytes of the memory from host memory, and waits until they are written.
    /// The write comes after all that was submitted to the queues that were given the place.
    pub fn write(&mut self, queue: &Queue, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        if len > self.len() {
            let message = format!("{len} bytes do not fit into {}", self.len());
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(error.during("write").on_device(self.block.device.id()));
        }
        if len == 0 {
            return Ok(());
        }
        // The source is a copy of the bytes: if the wait fails, the device may read the source long
        // after `bytes` is gone.
        let staged = bytes.to_vec();
        let from = Spot { base: Raw::from_ptr(staged.as_ptr().cast_mut().cast()), offset: 0 };
        self.require_reach(queue)?;
        let device = &self.block.device;
        queue.require_units(device.id(), || Some(device.clone()))?;
        self.order_behind_all(queue)?;
        self.note_queue(queue);
        let to = Spot { base: self.block.raw, offset: 0 };
        let region = Region { from, to, len };
        let nobody_knows = || self.used_on.as_slice().iter().all(|used| !used.is_told);
        let submitted = if self.written == 0 && nobody_knows() {
            // SAFETY: both sides hold `len` bytes; the source outlives the copy, by the wait or by
            // `keep_until_done`; this memory has no other user (`&mut self`), and nothing is
            // written in it, since nobody was told the place.
            unsafe { queue.copy_into_fresh(Route::FromHost, &[region]) }
        } else {
            // SAFETY: both sides hold `len` bytes; the source outlives the copy, by the wait or by
            // `keep_until_done`; this memory has no other user (`&mut self`).
            unsafe { queue.copy(Route::FromHost, &[region]) }
        };
        // A copy that failed may have been submitted in part.
        submitted
            .and_then(|()| queue.synchronize())
            .inspect_err(|_| queue.keep_until_done(staged))?;
        // The queue waited for all others before the copy.
        self.forget_queues();
        self.written = self.written.max(len);
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `block` is not touched again: this is the only place that takes it, and `self` is
        // being dropped.
        let mut block = unsafe { ManuallyDrop::take(&mut self.block) };
        if block.len == 0 {
            return;
        }
        let mut used_on = std::mem::take(&mut self.used_on).into_vec();
        for used in used_on.iter().filter(|used| used.is_told) {
            used.queue.tell(Watched::Withdrawn, PlaceOwner::OfMemory, block.raw, block.len);
        }
        let uses = used_on.drain(..).map(|used| QueueUse::until_now(&used.queue));
        let uses: Vec<_> = uses.collect();
        if let MemoryHome::Recycler(lent) = &mut block.home
            && let Some(recycled) = lent.block_mut()
        {
            recycled.room = used_on;
        }
        if uses.is_empty() {
            return;
        }
        let frees_host_memory = block.device.id().device_type == DeviceType::CPU;
        deferred::defer(block, uses, frees_host_memory);
    }
}

impl Drop for OwnedAllocation {
    fn drop(&mut self) {
        if self.counted {
            self.device.account().freed(self.len);
        }
        if let MemoryHome::Recycler(lent) = &mut self.home
            && let Some(recycled) = lent.block_mut()
        {
            recycled.whole.block.parts = std::mem::take(&mut self.parts);
        }
        for part in self.parts.drain(..) {
            // SAFETY: `part` of this driver gave the handle, and the memory is freed after this.
            unsafe { self.device.driver().free_part(part.handle) }
        }
        match self.home {
            _ if self.len == 0 => {}
            MemoryHome::Driver => {
                // SAFETY: `raw` came from `allocate` of this driver with this length and is freed
                // once, here.
                unsafe { self.device.driver().free(self.raw, self.len) }
            }
            // The party that the memory was adopted from may give these bytes to somebody else.
            MemoryHome::Other { .. } => self.device.driver().reuse(self.raw, self.len),
            // The recycler tells the driver when it gives the bytes to the next user.
            MemoryHome::Recycler(_) => {}
            MemoryHome::Shared { .. } => {
                let Some(sharing) = self.device.driver().sharing() else { return };
                // SAFETY: `raw` came from `allocate` or `open` of this driver's sharing with this
                // length and is closed once, here.
                unsafe { sharing.close(self.raw, self.len) }
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.len(), self.block.device.id())
    }
}
