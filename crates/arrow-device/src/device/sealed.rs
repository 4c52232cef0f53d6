//! [`SealedFile`]: memory in a file without a name, which other processes can map.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::driver::MemoryHandle;
use super::host::LARGEST_MEMORY;
use crate::{Error, ErrorKind, Result};

/// Memory in a file of `memfd_create`, on Linux: the file has no name, all of its pages are there,
/// and its length is sealed. A mapping of the file therefore never becomes longer than the file,
/// and reading the mapping never ends the process.
///
/// For drivers whose runtime uses memory of the host in place: see
/// [`Sharing`](super::driver::Sharing). A file is made by [`new`](Self::new), or is one that
/// another process sent ([`received`](Self::received)). Errors name neither the operation nor the
/// device.
#[derive(Debug)]
pub struct SealedFile {
    file: Arc<OwnedFd>,
    whole: usize,
    /// Whether a file of another process was sealed against writing before its pages were counted.
    /// Whoever can write to a file can also take pages away. A seal is never taken off. `None` for
    /// a file of this process.
    is_fixed: Option<bool>,
}

impl SealedFile {
    /// A file of at least this many bytes, in whole pages. The name shows in the lists of mappings
    /// that the system gives, and nowhere else.
    pub fn new(name: &CStr, len: u64) -> Result<Self> {
        let whole = Self::whole_pages(len)
            .ok_or_else(|| Error::new(ErrorKind::OutOfMemory, format!("{len} bytes asked for")))?;
        let file = new_file(name, whole).map_err(|error| Self::failed(len, &error))?;
        let sealed = Self { file: Arc::new(file), whole, is_fixed: None };
        sealed.add_seals(libc::F_SEAL_SHRINK | libc::F_SEAL_GROW, len)?;
        Ok(sealed)
    }

    /// The file of another process, which is announced to have `len` bytes.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed): the descriptor is of something else or cannot be
    /// written to, the length is not sealed, the file is shorter, or not all of its pages are there
    /// and of the usual size.
    pub fn received(file: impl Into<Arc<OwnedFd>>, len: u64) -> Result<Self> {
        let file = file.into();
        let refused = |message: String| Error::new(ErrorKind::Malformed, message);
        let seals = seals(&file).map_err(|error| {
            refused(format!("the descriptor is no file of memory that can be sealed: {error}"))
        })?;
        let of_length = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        if seals & of_length != of_length {
            return Err(refused("the length of the memory is not sealed".into()));
        }
        // Asked before the pages are counted: whoever can write to the file can take pages away.
        let is_fixed = Some(seals & libc::F_SEAL_WRITE != 0);
        let there = length(&file, len).map_err(|error| Self::failed(len, &error))?;
        match Self::whole_pages(len).filter(|_| len <= there) {
            Some(whole) => Ok(Self { file, whole, is_fixed }),
            None => Err(refused(format!(
                "the memory has {there} bytes with pages, and {len} were announced"
            ))),
        }
    }

    /// A length in whole pages. `None` where it is more than any memory.
    pub fn whole_pages(len: u64) -> Option<usize> {
        let len = usize::try_from(len).ok().filter(|_| len <= LARGEST_MEMORY)?;
        isize::try_from(len).ok()?;
        len.checked_next_multiple_of(Self::page())
    }

    /// The size of a page.
    pub fn page() -> usize {
        // SAFETY: a question to the system, without pointers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(page).unwrap_or(4096)
    }

    /// Whether the process may have files of this length. Making a longer one would end the process
    /// by the signal SIGXFSZ.
    pub fn may_have(len: u64) -> bool {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid for writes.
        let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
        is_known && libc::rlim_t::try_from(len).is_ok_and(|len| len <= limit.rlim_cur)
    }

    /// The length of the file in bytes: whole pages.
    pub fn whole(&self) -> usize {
        self.whole
    }

    /// Forbids everybody to write to the file, except through mappings that exist already.
    pub fn forbid_new_writers(&self) -> Result<()> {
        self.add_seals(libc::F_SEAL_FUTURE_WRITE, self.whole as u64)
    }

    /// Forbids everybody to write to the file. An error where a mapping exists through which the
    /// file can be written.
    pub fn forbid_writing(&self) -> Result<()> {
        self.add_seals(libc::F_SEAL_WRITE, self.whole as u64)
    }

    /// Whether nobody can write to the file any more. For a file of another process this is the
    /// answer from before its pages were counted ([`received`](Self::received)).
    pub fn is_fixed(&self) -> Result<bool> {
        if let Some(is_fixed) = self.is_fixed {
            return Ok(is_fixed);
        }
        let seals = seals(&self.file).map_err(|error| Self::failed(self.whole as u64, &error))?;
        Ok(seals & libc::F_SEAL_WRITE != 0)
    }

    /// Maps all of the file, at an address that the system chooses, or in place of what is at an
    /// address. The system exchanges pages in one step for every thread that reads them meanwhile.
    ///
    /// # Safety
    /// With an address: [`whole`](Self::whole) bytes are mapped there, from a page's beginning on,
    /// and the caller may replace them.
    pub unsafe fn map(
        &self,
        rights: c_int,
        flags: c_int,
        instead_of: Option<*mut c_void>,
    ) -> Result<*mut c_void> {
        let (at, flags) = match instead_of {
            Some(address) => (address, flags | libc::MAP_FIXED),
            None => (std::ptr::null_mut(), flags),
        };
        let file = self.file.as_raw_fd();
        // SAFETY: a new mapping replaces nothing. With an address, the caller may replace what is
        // there.
        let address = unsafe { libc::mmap(at, self.whole, rights, flags, file, 0) };
        if address == libc::MAP_FAILED {
            return Err(Self::failed(self.whole as u64, &io::Error::last_os_error()));
        }
        Ok(address)
    }

    /// A handle with the descriptor of the file, which stays open as long as the handle does.
    pub fn handle(&self) -> MemoryHandle {
        MemoryHandle::from_descriptor(self.file.clone())
    }

    fn add_seals(&self, seals: c_int, len: u64) -> Result<()> {
        // SAFETY: a call with numbers alone, on an open descriptor.
        succeeded(unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_ADD_SEALS, seals) })
            .map_err(|error| Self::failed(len, &error))
    }

    /// The error of a call of the system about shared memory of this length.
    #[cold]
    fn failed(len: u64, error: &io::Error) -> Error {
        let (kind, why) = match error.raw_os_error() {
            Some(libc::ENOMEM | libc::ENOSPC | libc::EFBIG) => (ErrorKind::OutOfMemory, ""),
            Some(libc::EMFILE | libc::ENFILE) => (ErrorKind::LimitExceeded, ""),
            Some(libc::EBUSY) => {
                let why = "; another process can write to it, such as a child of `fork` until it has ended or called `exec`: share a copy of the array, or share the array before the fork";
                (ErrorKind::Driver, why)
            }
            _ => (ErrorKind::Driver, ""),
        };
        Error::new(kind, format!("shared memory of {len} bytes: {error}{why}"))
    }
}

impl AsFd for SealedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A file of memory of this length, with all its pages.
fn new_file(name: &CStr, len: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // By the number of the call, because glibc has the function since 2.27 only.
    // SAFETY: the call takes the name, which is nul-terminated as every `CStr`, and the flags.
    let file = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), flags) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    let file = c_int::try_from(file).map_err(io::Error::other)?;
    // SAFETY: the descriptor was opened above, and nothing else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    if !SealedFile::may_have(len as u64) {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let len = libc::off_t::try_from(len).map_err(io::Error::other)?;
    // SAFETY: takes pages for a file of this function's own.
    succeeded(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) })?;
    Ok(file)
}

fn seals(file: &OwnedFd) -> io::Result<c_int> {
    // SAFETY: a question about an open descriptor, without pointers.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    succeeded(seals.min(0))?;
    Ok(seals)
}

/// How many bytes a file has, if all of them have pages of the usual size: otherwise 0. The length
/// of the file is sealed, and was announced to be `len` bytes. A hole would get its page when it is
/// read, which ends the process where the system has no page to give. Huge pages can only be
/// unmapped in other lengths.
///
/// The system tells how many pages a file has, and not where they are. A file may also have pages
/// behind its end. The file is therefore cut at its end, which a sealed length admits and which
/// takes these pages away. Nobody can add new ones there, because the length is sealed in both
/// directions. As many pages as the file is long are then all pages of the file.
fn length(file: &OwnedFd, len: u64) -> io::Result<u64> {
    // Most files have the announced length, in whole pages. Then one call cuts the file and proves
    // the length: a sealed file admits no cut at another one.
    let is_cut = SealedFile::whole_pages(len).is_some_and(|whole| cut(file, whole as u64));
    let mut found = status(file)?;
    let there = u64::try_from(found.st_size).unwrap_or(0);
    if !is_cut {
        if !cut(file, there) {
            // The descriptor cannot be written to, such as one that was opened again by its path.
            return Ok(0);
        }
        found = status(file)?;
    }
    // Files of huge pages say so by the size of their blocks. A file of pages of the usual size may
    // say that, too.
    if u64::try_from(found.st_blksize) != Ok(SealedFile::page() as u64) && is_of_huge_pages(file)? {
        return Ok(0);
    }
    let with_pages = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
    Ok(if with_pages >= there { there } else { 0 })
}

/// Cuts a file, whose length is sealed, at this length. That succeeds, and is `true`, only where
/// the file has this length.
fn cut(file: &OwnedFd, len: u64) -> bool {
    let Ok(len) = libc::off_t::try_from(len) else { return false };
    // SAFETY: a call with numbers alone, on an open descriptor.
    unsafe { libc::ftruncate(file.as_raw_fd(), len) == 0 }
}

fn is_of_huge_pages(file: &OwnedFd) -> io::Result<bool> {
    let mut system = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: `system` is valid for writes and aligned.
    succeeded(unsafe { libc::fstatfs(file.as_raw_fd(), system.as_mut_ptr()) })?;
    // SAFETY: a successful `fstatfs` has written all of it.
    let system = unsafe { system.assume_init() };
    Ok(i128::from(system.f_type) == i128::from(libc::HUGETLBFS_MAGIC))
}

fn status(file: &OwnedFd) -> io::Result<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` is valid for writes and aligned.
    succeeded(unsafe { libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) })?;
    // SAFETY: a successful `fstat` has written all of it.
    Ok(unsafe { status.assume_init() })
}

fn succeeded(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
