//! Address space without access rights, and a second mapping of the same pages for the engine.
//!
//! There is one range for the whole process. It is never given back, so a late read meets a page
//! without rights however late it comes. A child of `fork` has a range of its own, because both
//! mappings are shared, and what the child wrote there would be in the memory of its parent.
//!
//! Each part is taken behind the part that was taken last, and from the beginning again where there
//! is no room behind it. So a freed part is used again only after what lies behind it: a freed
//! address stays without rights for long.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_device::driver::{ForkMutex, PerProcess, SealedFile};

use super::PAGE;

/// How much address space is asked for first. Each further attempt asks for a quarter of the one
/// before, because there is little under valgrind and `ulimit -v`.
const LARGEST: usize = if usize::BITS == 64 { 1 << (usize::BITS - 24) } else { 1 << 29 };
const SMALLEST: usize = 1 << 24;

/// The engine's mapping is made accessible in steps of this size, so that tools that look through
/// all readable memory have little to read.
const STEP: usize = 1 << 22;

/// How much address space is asked for first, `LARGEST` or less.
static FIRST: AtomicUsize = AtomicUsize::new(LARGEST);

static REGION: PerProcess<OnceLock<Option<Region>>> = PerProcess::new(OnceLock::new());

struct Region {
    device: NonNull<u8>,
    engine: NonNull<u8>,
    len: usize,
    file: c_int,
    /// The parts that are free. Forks are counted from the making of this lock on.
    free: ForkMutex<Free>,
}

// SAFETY: two addresses of mappings that live as long as the process; who may use which part is
// ruled by `Range`.
unsafe impl Send for Region {}
// SAFETY: the addresses are of mappings that live as long as the process and do not change, and the
// list of free parts is behind a lock.
unsafe impl Sync for Region {}

fn region() -> Option<&'static Region> {
    REGION.get().get_or_init(Region::open).as_ref()
}

/// Limits how much address space is asked for, if none was taken yet.
pub(super) fn limit(bytes: usize) {
    FIRST.store(bytes.clamp(SMALLEST, LARGEST), Ordering::Relaxed);
}

pub(super) fn is_available() -> bool {
    region().is_some()
}

pub(super) fn contains(address: usize) -> bool {
    region().is_some_and(|region| {
        address.checked_sub(region.device.addr().get()).is_some_and(|offset| offset < region.len)
    })
}

impl Region {
    fn open() -> Option<Self> {
        let (name, flags) = (c"device-memory".as_ptr(), libc::MFD_CLOEXEC);
        // By the number of the call, because glibc has the function since 2.27 only.
        // SAFETY: the call takes a name, which is constant and nul-terminated, and flags.
        let file = unsafe { libc::syscall(libc::SYS_memfd_create, name, flags) };
        let file = c_int::try_from(file).ok().filter(|file| *file >= 0)?;
        let mut len = FIRST.load(Ordering::Relaxed);
        while len >= SMALLEST {
            if let Some(region) = Self::of(file, len) {
                return Some(region);
            }
            len /= 4;
        }
        // SAFETY: the descriptor was opened above, and nothing else has it.
        unsafe { libc::close(file) };
        None
    }

    fn of(file: c_int, len: usize) -> Option<Self> {
        let size = libc::off_t::try_from(len).ok()?;
        if !SealedFile::may_have(len as u64) {
            return None;
        }
        // SAFETY: sets the length of a file that is this function's own.
        if unsafe { libc::ftruncate(file, size) } != 0 {
            return None;
        }
        let device = map(file, len, libc::PROT_NONE)?;
        let Some(engine) = map(file, len, libc::PROT_NONE) else {
            // SAFETY: the mapping of this length was made above, and nobody has its address.
            unsafe { libc::munmap(device.as_ptr().cast(), len) };
            return None;
        };
        let free = ForkMutex::new(Free { parts: BTreeMap::from([(0, len)]), cursor: 0, opened: 0 });
        Some(Self { device, engine, len, file, free })
    }
}

impl Region {
    /// Makes a further part of the engine's mapping accessible.
    fn open_engine(&self, from: usize, to: usize) -> bool {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let start = self.engine.as_ptr().wrapping_add(from);
        // SAFETY: changes whole pages of our own mapping, which nothing refers to yet.
        unsafe { libc::mprotect(start.cast(), to - from, rights) == 0 }
    }
}

fn map(file: c_int, len: usize, rights: c_int) -> Option<NonNull<u8>> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address that the system chooses replaces nothing.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, file, 0) };
    if address == libc::MAP_FAILED { None } else { NonNull::new(address.cast()) }
}

/// The part of the region that a block has.
pub(super) struct Range {
    region: &'static Region,
    offset: usize,
    /// Whole pages, without the free page behind them.
    len: usize,
    /// The file that lies there in place of the region's own pages, for memory that other processes
    /// can open.
    file: Option<SealedFile>,
    /// Whether pages of a file lie there.
    is_laid_over: bool,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Range({}+{})", self.offset, self.len)
    }
}

impl Range {
    pub(super) fn reserve(len: usize) -> Option<Self> {
        let region = region()?;
        let len = len.max(1).checked_next_multiple_of(PAGE)?;
        let mut free = region.free.lock().ok()?;
        let whole = len.checked_add(PAGE)?;
        let offset = free.take(whole)?;
        if free.opened < offset + whole {
            let opened = (offset + whole).next_multiple_of(STEP).min(region.len);
            if !region.open_engine(free.opened, opened) {
                free.give(offset, whole);
                return None;
            }
            free.opened = opened;
        }
        Some(Self { region, offset, len, file: None, is_laid_over: false })
    }

    /// Reserves memory that other processes can open: a file of its own in place of the region's
    /// pages.
    pub(super) fn shareable(len: usize) -> Option<Self> {
        let range = Self::reserve(len)?;
        let file = SealedFile::new(c"shared-device-memory", range.len as u64).ok()?;
        range.laid_with(file)
    }

    /// Reserves a range for memory that another process shared. `None` where the file is not such
    /// memory, or is shorter than `len`.
    ///
    /// The descriptor is not kept, so nothing exports the memory again: the other process could
    /// write there as soon as this one has ended.
    pub(super) fn opened(file: Arc<OwnedFd>, len: usize) -> Option<Self> {
        let mut range = Self::reserve(len)?;
        let file = SealedFile::received(file, range.len as u64).ok()?;
        range.lay_file(&file).then_some(range)
    }

    /// Lays a file over both mappings of the range. Its length is sealed and no shorter.
    fn laid_with(mut self, file: SealedFile) -> Option<Self> {
        let number = file.as_fd().as_raw_fd();
        // From here on the drop lays the region's own pages back.
        self.file = Some(file);
        self.is_laid_over = true;
        self.lay(number, 0).then_some(self)
    }

    /// Lays a file of somebody else over the range, which has no file. `false` where the file is
    /// shorter than the range, or cannot be mapped.
    pub(super) fn lay_file(&mut self, file: &SealedFile) -> bool {
        if file.whole() < self.len {
            return false;
        }
        let number = file.as_fd().as_raw_fd();
        self.is_laid_over = true;
        let is_laid = self.lay(number, 0);
        if !is_laid {
            self.take_file_off();
        }
        is_laid
    }

    /// Lays the region's own pages back in place of a file.
    pub(super) fn take_file_off(&mut self) -> bool {
        let is_off = self.lay(self.region.file, self.offset);
        self.is_laid_over &= !is_off;
        is_off
    }

    fn lay(&self, file: c_int, offset: usize) -> bool {
        let Ok(offset) = libc::off_t::try_from(offset) else { return false };
        let places = [
            (self.address(), libc::PROT_NONE),
            (self.bytes().as_ptr(), libc::PROT_READ | libc::PROT_WRITE),
        ];
        places.into_iter().all(|(at, rights)| {
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
            // SAFETY: replaces whole pages of this range, which nobody uses: it was reserved just
            // now, or is being dropped.
            let laid = unsafe { libc::mmap(at.cast(), self.len, rights, flags, file, offset) };
            laid != libc::MAP_FAILED
        })
    }

    /// The file of memory that other processes can open.
    pub(super) fn file(&self) -> Option<&SealedFile> {
        self.file.as_ref()
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.region.device.as_ptr().wrapping_add(self.offset)
    }

    pub(super) fn bytes(&self) -> NonNull<u8> {
        // SAFETY: the part lies inside the region, which is one mapping.
        unsafe { self.region.engine.add(self.offset) }
    }

    pub(super) fn set_host_readable(&self, readable: bool) -> bool {
        self.set_rights(if readable { libc::PROT_READ } else { libc::PROT_NONE })
    }

    pub(super) fn open_to_host(&self) -> bool {
        self.set_rights(libc::PROT_READ | libc::PROT_WRITE)
    }

    fn set_rights(&self, rights: c_int) -> bool {
        // SAFETY: changes whole pages of our own mapping, which hold nothing but device memory.
        unsafe { libc::mprotect(self.address().cast(), self.len, rights) == 0 }
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let own = REGION.get().get().and_then(Option::as_ref);
        if !own.is_some_and(|own| ptr::eq(own, self.region)) {
            // In a child of `fork` the pages are also the parent's, and stay as they are.
            return;
        }
        // Pages of other processes are left to these. Where the region's own cannot come back, the
        // range is never used again.
        if self.is_laid_over && !self.lay(self.region.file, self.offset) {
            return;
        }
        // Nobody may read a freed page, whether it was mapped or not.
        self.set_host_readable(false);
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, len) = (self.offset as libc::off_t, self.len as libc::off_t);
        // SAFETY: gives back the pages of this part of our own file; nobody reads them before they
        // are written again.
        unsafe { libc::fallocate(self.region.file, how, offset, len) };
        if let Ok(mut free) = self.region.free.lock() {
            free.give(self.offset, self.len + PAGE);
        }
    }
}

/// The parts that are free, by offset, and the end of the part that was taken last.
#[derive(Debug)]
struct Free {
    parts: BTreeMap<usize, usize>,
    cursor: usize,
    /// How far the engine has access.
    opened: usize,
}

impl Free {
    /// Takes the first part that fits from the cursor on, so that the part that was freed last is
    /// used last.
    fn take(&mut self, len: usize) -> Option<usize> {
        let offset = self.find(self.cursor, len).or_else(|| self.find(0, len))?;
        let (start, whole) = self.parts.range(..=offset).next_back().map(|(s, l)| (*s, *l))?;
        self.parts.remove(&start);
        if start < offset {
            self.parts.insert(start, offset - start);
        }
        let (end, whole_end) = (offset + len, start + whole);
        if end < whole_end {
            self.parts.insert(end, whole_end - end);
        }
        self.cursor = end;
        Some(offset)
    }

    fn find(&self, from: usize, len: usize) -> Option<usize> {
        let before = self.parts.range(..from).next_back();
        before.into_iter().chain(self.parts.range(from..)).find_map(|(start, whole)| {
            let offset = (*start).max(from);
            (start + whole).checked_sub(offset).filter(|left| *left >= len).map(|_| offset)
        })
    }

    fn give(&mut self, offset: usize, len: usize) {
        let (mut start, mut end) = (offset, offset + len);
        if let Some((before, whole)) = self.parts.range(..offset).next_back().map(|(s, l)| (*s, *l))
            && before + whole == offset
        {
            start = before;
        }
        if let Some(whole) = self.parts.remove(&end) {
            end += whole;
        }
        self.parts.insert(start, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_taken_onwards_and_grow_together_again() {
        let mut free = Free { parts: BTreeMap::from([(0, 100)]), cursor: 0, opened: 0 };
        assert_eq!((free.take(40), free.take(40)), (Some(0), Some(40)));
        free.give(0, 40);
        assert_eq!(free.take(20), Some(80), "not what was freed just now");
        assert_eq!(free.take(30), Some(0), "round again");
        assert_eq!(free.take(30), None);
        free.give(40, 40);
        free.give(80, 20);
        free.give(0, 30);
        assert_eq!(free.parts, BTreeMap::from([(0, 100)]));
    }
}
