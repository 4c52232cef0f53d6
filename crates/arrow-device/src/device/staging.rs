//! Host memory for data on its way to or from a device, kept for later copies up to a bound.
//!
//! 1. Copies ask for powers of two, and get a block of at most twice that size. A small copy never
//!    gets a large block, because the next large copy would then have to allocate another one.
//! 2. A block that comes back is kept. Where the bound is reached, the block that was used longest
//!    ago goes instead. Soon there are as many blocks of each size as are in use at a time, and no
//!    more are allocated.
//! 3. Before a block is allocated, queues of the device's runtime are asked for blocks that they
//!    have passed: a few of them in turn, so that copies on very many queues do not each ask about
//!    all.
//! 4. The bytes in use on one device are bounded. A copy that would exceed the bound waits for
//!    others; the first one may take what it likes.
//!
//! What must stay true: no driver is called under the lock of the kept blocks.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::Device;
use super::driver::{Driver, Spot, WaitingCopies};
use super::newest::keep_newest;
use crate::device::deferred;
use crate::sync::lock;
use crate::{Error, ErrorKind, Result, process};

/// How many blocks a device keeps. A staged copy uses two at a time, and several copies may be on
/// their way.
const KEPT_BLOCKS: usize = 32;
/// How many bytes the kept blocks have together at most.
const KEPT_BYTES: u64 = 64 << 20;

/// How many bytes may be in use on one device before a copy waits for some of them to come back.
/// Without this bound, data that is copied faster than the device takes it would pile up in host
/// memory.
const MOST_IN_USE: u64 = 256 << 20;

/// The blocks of host memory of a device.
#[derive(Default)]
pub(crate) struct Staging {
    /// The kept blocks. The block that came back last is at the end.
    free: Mutex<Vec<HostBlock>>,
    /// How many bytes the blocks in use have together.
    in_use: AtomicU64,
}

/// A block in use. Dropping it gives it back to its device. It is dropped after the queues have
/// passed the work that uses it.
pub(crate) struct StagingBlock {
    device: Device,
    block: Option<HostBlock>,
    address: NonNull<u8>,
}

/// A block of the driver's memory, or of plain memory.
struct HostBlock {
    driver: Arc<dyn Driver>,
    address: NonNull<u8>,
    len: u64,
    pinned: bool,
}

// SAFETY: plain memory that whoever has the block has alone, and that can be freed on any thread
// (DRV-1).
unsafe impl Send for HostBlock {}
// SAFETY: nothing can be done with a shared one but look at its numbers.
unsafe impl Sync for HostBlock {}
// SAFETY: the address is that of the block, which can be freed on any thread (DRV-1), and whoever
// has this value has the memory alone.
unsafe impl Send for StagingBlock {}
// SAFETY: nothing can be done with a shared one but look at its numbers.
unsafe impl Sync for StagingBlock {}

impl Staging {
    /// A block of at least this many bytes, which must not be 0, for copies to and from the device.
    /// The bytes of the block are whatever was there before.
    pub(crate) fn take(device: &Device, len: u64) -> Result<StagingBlock> {
        // Asked before the lock is taken, which a thread of the parent may have held.
        if !device.is_of_this_process() {
            return Err(process::of_the_parent().on_device(device.id()));
        }
        let kept = || {
            let mut free = lock(&device.staging().free);
            let fits = |block: &HostBlock| block.len >= len && block.len / 2 < len;
            free.iter().rposition(fits).map(|index| free.remove(index))
        };
        let returned = || {
            // Any queue of the runtime may hold a block.
            deferred::release_some_of(device.driver().runtime());
            kept()
        };
        let block = match kept().or_else(returned) {
            Some(block) => block,
            None => {
                let block = HostBlock::allocate(device.driver(), len)?;
                device.account().staged(block.len);
                block
            }
        };
        let address = block.address;
        device.staging().in_use.fetch_add(block.len, Ordering::Relaxed);
        Ok(StagingBlock { device: device.clone(), block: Some(block), address })
    }
}

impl Staging {
    /// Whether a copy may take so many bytes more. A copy may take any number where nothing is in
    /// use.
    pub(crate) fn has_room(device: &Device, len: u64) -> bool {
        let in_use = device.staging().in_use.load(Ordering::Relaxed);
        in_use == 0 || in_use.saturating_add(len) <= MOST_IN_USE
    }

    /// Waits until there is room for so many bytes, as long as queues hold back blocks that would
    /// make room.
    pub(crate) fn wait_for_room(device: &Device, len: u64) {
        if Self::has_room(device, len) {
            return;
        }
        let runtime = device.driver().runtime();
        deferred::release_passed_of(runtime);
        deferred::wait_for_runtime(runtime, &|| Self::has_room(device, len));
    }
}

impl StagingBlock {
    pub(crate) fn address(&self) -> *mut u8 {
        self.address.as_ptr()
    }

    /// An error where copies between this block and a device may wait for the queue. They may where
    /// the block is not of the device's driver, or where all copies of the device may.
    pub(crate) fn require_no_wait(&self, with: &Device) -> Result<()> {
        let is_its = || {
            let is_pinned = self.block.as_ref().is_some_and(|block| block.pinned);
            is_pinned && self.device.driver().runtime() == with.driver().runtime()
        };
        let goes_on = match with.properties().waiting_copies {
            WaitingCopies::None => true,
            WaitingCopies::OfPlainMemory => is_its(),
            WaitingCopies::All => false,
        };
        if goes_on {
            return Ok(());
        }
        let message = "copies of this memory may wait for the device's queue, which a polled copy may not do; use a copy that waits";
        Err(Error::new(ErrorKind::Unsupported, message).on_device(with.id()))
    }
}

impl Drop for StagingBlock {
    fn drop(&mut self) {
        let Some(block) = self.block.take() else { return };
        if !self.device.is_of_this_process() {
            // In a child of `fork` the block goes back without the lock, as far as that is
            // possible.
            return;
        }
        self.device.staging().in_use.fetch_sub(block.len, Ordering::Relaxed);
        let len = |block: &HostBlock| block.len;
        let mut free = lock(&self.device.staging().free);
        let rest = keep_newest(&mut free, block, len, KEPT_BYTES, KEPT_BLOCKS);
        drop(free);
        self.device.account().unstaged(rest.iter().map(|block| block.len).sum());
        // The driver is called without the lock.
        drop(rest);
    }
}

impl HostBlock {
    fn allocate(driver: &Arc<dyn Driver>, len: u64) -> Result<Self> {
        // SAFETY: the length is not 0.
        if let Some(address) = unsafe { driver.allocate_staging(len) }? {
            return Ok(Self { driver: driver.clone(), address, len, pinned: true });
        }
        let layout = super::host::layout(len)?;
        // SAFETY: the layout's size is not zero. Zeroed, so that gaps between what is copied there
        // are initialised.
        let address = unsafe { std::alloc::alloc_zeroed(layout) };
        let address = NonNull::new(address).ok_or_else(|| {
            Error::new(ErrorKind::OutOfMemory, format!("{len} bytes of host memory asked for"))
        })?;
        Ok(Self { driver: driver.clone(), address, len, pinned: false })
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        if self.pinned {
            // SAFETY: came from `allocate_staging` of this driver with this length, and nothing
            // uses it any more.
            unsafe { self.driver.free_staging(self.address, self.len) };
        } else if let Ok(layout) = super::host::layout(self.len) {
            // SAFETY: came from the global allocator with the same layout.
            unsafe { std::alloc::dealloc(self.address.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staging({} blocks)", lock(&self.free).len())
    }
}

impl fmt::Debug for StagingBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StagingBlock({:?} bytes)", self.block.as_ref().map(|block| block.len))
    }
}

/// Copies bytes of the host.
///
/// # Safety
/// What [`std::ptr::copy_nonoverlapping`] asks for.
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: u64) {
    // SAFETY: what `std::ptr::copy_nonoverlapping` asks for, as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(from, to, host_len(len)) }
}

/// A place in host memory as an address.
pub(crate) fn host_address(spot: Spot) -> *mut u8 {
    spot.base.as_ptr().cast::<u8>().wrapping_add(host_len(spot.offset))
}

/// The length of something in host memory. It fits, because the memory exists.
pub(crate) fn host_len(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// Plain host memory, all of it zero.
pub(crate) fn zeroed(len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let there = usize::try_from(len).ok().filter(|len| bytes.try_reserve_exact(*len).is_ok());
    let Some(len) = there else {
        let message = format!("{len} bytes of host memory asked for");
        return Err(Error::new(ErrorKind::OutOfMemory, message));
    };
    bytes.resize(len, 0);
    Ok(bytes)
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;
    use arrow_device_testkit::process::{alone, forked};

    #[test]
    fn a_child_does_not_wait_for_blocks_that_a_thread_of_its_parent_was_taking() {
        alone(|| {
            process::watch();
            let device = super::super::host::another();
            // Dropped in the parent when the lock is free again.
            let mut block = Some(Staging::take(&device, 64).unwrap());
            let (locked, wait) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let same = device.clone();
            let holder = std::thread::spawn(move || {
                let free = lock(&same.staging().free);
                locked.send(()).unwrap();
                let _ = ended.recv();
                drop(free);
            });
            wait.recv().unwrap();
            forked(|| {
                drop(block.take());
                let error = Staging::take(&device, 64).err().ok_or("a block was taken")?;
                let is_refused = error.kind() == ErrorKind::Unsupported;
                if is_refused { Ok(()) } else { Err(error.to_string()) }
            });
            drop(end);
            holder.join().unwrap();
        });
    }
}
