//! Host memory that other processes can open: files without a name, which each process maps.
//!
//! 1. An allocation is one file of `memfd_create`, which the maker maps. Its pages are taken at
//!    once, so that a lack of memory is an error here and no signal later.
//! 2. The length of the file is sealed, so that no mapping ends sooner than it says: reading never
//!    ends the process with SIGBUS.
//! 3. The file is sealed against writing by others (`F_SEAL_FUTURE_WRITE`): the maker's mapping is
//!    the last one that can be written, and the other process can neither write nor map to write.
//! 4. To fix the bytes, the maker's mapping is replaced, at its address, by a private one that can
//!    only be read. Then nothing can write to the file, and the system seals it (`F_SEAL_WRITE`).
//! 5. What comes from another process may be any descriptor. It is mapped only if it is such a file
//!    (only these have seals), if its length is sealed, if it is long enough, and if all its pages
//!    are there, of the usual size.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

use super::driver::{
    MemoryHandle, OpenedMemory, PerProcess, Raw, SharedPlace, SharedUse, Sharing, SharingDomain,
};
use super::host::{LARGEST_MEMORY, out_of_memory};
use super::{Memory, Queue};
use crate::sync::lock;
use crate::{DeviceId, Error, ErrorKind, Result, process};

/// The seals of an allocation: the length stays, and others cannot write.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE;

/// The allocations that this process made, by their addresses. A child of `fork` begins without
/// any: it has the mappings of its parent, and exports none of them.
static MADE: PerProcess<Mutex<BTreeMap<usize, SharedFile>>> =
    PerProcess::new(Mutex::new(BTreeMap::new()));

/// The file of an allocation.
struct SharedFile {
    file: OwnedFd,
    len: usize,
    used: SharedUse,
    /// Whether nobody can write to the file any more.
    is_fixed: bool,
}

/// How the host shares memory.
#[derive(Debug)]
pub(super) struct HostSharing;

// SAFETY: `allocate` maps a file of its own, at a multiple of the page size, which nobody else has
// and which is there until `close`. `find` knows just these. `open` maps a file whose length it has
// seen to be sealed and long enough, so every byte can be read until `close`. A file that is sealed
// against writing is fixed. Nothing unwinds, waits for a device or calls the library.
unsafe impl Sharing for HostSharing {
    fn domain(&self) -> SharingDomain {
        SharingDomain { way: "memfd", device: [0; 16] }
    }

    unsafe fn allocate(
        &self,
        len: u64,
        _queue: Option<Raw<Queue>>,
        used: SharedUse,
    ) -> Result<Raw<Memory>> {
        let whole = whole_pages(len).ok_or_else(|| out_of_memory(len))?;
        let file = new_file(whole).map_err(|error| failed("allocate", len, &error))?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let address = map(&file, whole, rights, libc::MAP_SHARED, None)
            .and_then(|address| {
                // After the mapping, which is the last one that can be written.
                let sealed = add_seals(&file, SEALS).inspect_err(|_| unmap(address, whole));
                sealed.map(|()| address)
            })
            .map_err(|error| failed("allocate", len, &error))?;
        process::watch();
        let made = SharedFile { file, len: whole, used, is_fixed: false };
        lock(MADE.get()).insert(address.addr(), made);
        Ok(Raw::from_ptr(address))
    }

    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        let made = lock(MADE.get());
        let (address, file) = made.range(..=place.bits()).next_back()?;
        let offset = place.bits() - address;
        let memory = Raw::from_ptr(place.as_ptr().wrapping_byte_sub(offset));
        (offset < file.len).then_some(SharedPlace {
            memory,
            offset: offset as u64,
            len: file.len as u64,
            can_be_fixed: file.used == SharedUse::Once,
        })
    }

    unsafe fn export(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle> {
        let mut made = lock(MADE.get());
        let Some(file) = made.get_mut(&memory.bits()) else {
            let message = "the memory was not allocated to be shared by this process";
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("export memory"));
        };
        if fixed && file.used == SharedUse::Again {
            let message = "memory that an allocator may give out again cannot be fixed";
            return Err(Error::new(ErrorKind::Unsupported, message).during("export memory"));
        }
        if fixed && !file.is_fixed {
            // SAFETY: the mapping of this length is this file's, and its bytes stay where they are.
            unsafe { replace(memory.as_ptr(), file) }
                .and_then(|()| add_seals(&file.file, libc::F_SEAL_WRITE))
                .map_err(|error| failed(FIX, file.len as u64, &error))?;
            file.is_fixed = true;
        }
        let copy = file.file.try_clone();
        let copy = copy.map_err(|error| failed("export memory", file.len as u64, &error))?;
        Ok(MemoryHandle::from_descriptor(copy))
    }

    unsafe fn open(&self, handle: MemoryHandle, len: u64) -> Result<OpenedMemory> {
        let refused = |message: String| {
            Error::new(ErrorKind::Malformed, message).during("open memory").on_device(DeviceId::CPU)
        };
        let Some(file) = handle.descriptor.filter(|_| handle.note.is_empty()) else {
            return Err(refused("host memory is shared by a descriptor without a note".into()));
        };
        let seals = seals(&file).map_err(|error| {
            refused(format!("the descriptor is no file of memory that can be sealed: {error}"))
        })?;
        if seals & libc::F_SEAL_SHRINK == 0 {
            return Err(refused("the length of the memory is not sealed".into()));
        }
        let there = length(&file).map_err(|error| failed("open memory", len, &error))?;
        let whole = whole_pages(len).filter(|_| len <= there);
        let Some(whole) = whole else {
            return Err(refused(format!(
                "the memory has {there} bytes with pages, and {len} were announced"
            )));
        };
        let address = map(&file, whole, libc::PROT_READ, libc::MAP_PRIVATE, None)
            .map_err(|error| failed("open memory", len, &error))?;
        let is_fixed = seals & libc::F_SEAL_WRITE != 0;
        Ok(OpenedMemory { memory: Raw::from_ptr(address), is_fixed })
    }

    unsafe fn close(&self, memory: Raw<Memory>, len: u64) {
        let Some(whole) = whole_pages(len) else { return };
        // Taken off the list first: another thread may get the address at once.
        let made = lock(MADE.get()).remove(&memory.bits());
        unmap(memory.as_ptr(), whole);
        drop(made);
    }
}

/// The length in whole pages. `None` where it is more than any memory.
fn whole_pages(len: u64) -> Option<usize> {
    usize::try_from(len).ok().filter(|_| len <= LARGEST_MEMORY)?.checked_next_multiple_of(page())
}

fn page() -> usize {
    // SAFETY: a question to the system, without pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).unwrap_or(4096)
}

/// A file of memory of this length, with all its pages.
fn new_file(len: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a constant and nul-terminated.
    let file = unsafe { libc::memfd_create(c"arrow-device".as_ptr(), flags) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened above, and nothing else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    let len = libc::off_t::try_from(len).map_err(io::Error::other)?;
    require_size(len)?;
    // SAFETY: takes pages for a file of this function's own.
    succeeded(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) })?;
    Ok(file)
}

/// Refuses a length that the process may give no file. Asking for the pages would end the process
/// by SIGXFSZ.
fn require_size(len: libc::off_t) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    succeeded(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) })?;
    let is_within = libc::rlim_t::try_from(len).is_ok_and(|len| len <= limit.rlim_cur);
    is_within.then_some(()).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Maps a file from its beginning, at an address that the system chooses, or in place of the
/// mapping at an address.
fn map(
    file: &OwnedFd,
    len: usize,
    rights: c_int,
    flags: c_int,
    instead_of: Option<*mut c_void>,
) -> io::Result<*mut c_void> {
    let (at, flags) = match instead_of {
        Some(address) => (address, flags | libc::MAP_FIXED),
        None => (std::ptr::null_mut(), flags),
    };
    // SAFETY: a new mapping replaces nothing. With an address, `replace` vouches for what is there.
    let address = unsafe { libc::mmap(at, len, rights, flags, file.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address) }
}

/// Replaces the mapping that can be written by one of the same bytes that cannot. The system does
/// so in one step for every thread that reads the bytes meanwhile.
///
/// # Safety
/// The mapping of the whole file is at this address, and nobody writes to it any more.
unsafe fn replace(address: *mut c_void, file: &SharedFile) -> io::Result<()> {
    map(&file.file, file.len, libc::PROT_READ, libc::MAP_PRIVATE, Some(address)).map(|_| ())
}

fn unmap(address: *mut c_void, len: usize) {
    // SAFETY: the mapping of this length was made here, and nobody uses it any more, as the caller
    // of `close` promises.
    unsafe { libc::munmap(address, len) };
}

fn add_seals(file: &OwnedFd, seals: c_int) -> io::Result<()> {
    // SAFETY: a call with numbers alone, on an open descriptor.
    succeeded(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })
}

fn seals(file: &OwnedFd) -> io::Result<c_int> {
    // SAFETY: a question about an open descriptor, without pointers.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    succeeded(seals.min(0))?;
    Ok(seals)
}

/// How many bytes of a file have pages of the usual size. A hole would get its page when it is
/// read, which ends the process where the system has none to give, and huge pages are taken off the
/// address space in other lengths.
fn length(file: &OwnedFd) -> io::Result<u64> {
    let mut system = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `system` is valid for writes and aligned.
    succeeded(unsafe { libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) })?;
    // SAFETY: a successful `fstatfs` has written all of it.
    let system = unsafe { system.assume_init() };
    if i128::from(system.f_type) == i128::from(libc::HUGETLBFS_MAGIC) {
        return Ok(0);
    }
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` is valid for writes and aligned.
    succeeded(unsafe { libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: a successful `fstat` has written all of it.
    let status = unsafe { status.assume_init() };
    let with_pages = u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512);
    Ok(u64::try_from(status.st_size).unwrap_or(0).min(with_pages))
}

fn succeeded(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The operation of an error where memory cannot be fixed.
const FIX: &str = "fix memory";

/// The error of a call of the system about memory of this length.
#[cold]
fn failed(operation: &'static str, len: u64, error: &io::Error) -> Error {
    let kind = match error.raw_os_error() {
        Some(libc::ENOMEM | libc::ENOSPC | libc::EFBIG) => ErrorKind::OutOfMemory,
        Some(libc::EMFILE | libc::ENFILE) => ErrorKind::LimitExceeded,
        _ => ErrorKind::Driver,
    };
    let why = match (operation, error.raw_os_error()) {
        (FIX, Some(libc::EBUSY)) => "; another process can write to it, such as a child of `fork`",
        _ => "",
    };
    Error::new(kind, format!("shared memory of {len} bytes: {error}{why}"))
        .during(operation)
        .on_device(DeviceId::CPU)
}
