//! Host memory that other processes can open: files without a name, which each process maps.
//!
//! 1. An allocation is one file of `memfd_create`, which the maker maps. The pages of the file are
//!    taken at once, so that a lack of memory is an error here and not a signal later.
//! 2. The length of the file is sealed, so that no mapping becomes longer than the file: reading
//!    never ends the process with SIGBUS.
//! 3. The file is sealed against writing by others (`F_SEAL_FUTURE_WRITE`): the maker's mapping is
//!    the last one that can be written, and the other process can neither write nor map to write.
//! 4. To fix the bytes, the maker's mapping is replaced, at its address, by a private one that can
//!    only be read. Then nothing can write to the file, and the system seals it (`F_SEAL_WRITE`).
//! 5. What comes from another process may be any descriptor. It is mapped only if it is such a file
//!    (only these have seals), if its length is sealed, if it is long enough, and if all its pages
//!    are there, of the usual size.
//! 6. Memory that came from another process and is fixed can be exported again, where the receiver
//!    asked for that: its descriptor is kept then.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

use super::driver::{
    MemoryHandle, OpenedMemory, PerProcess, Raw, SealedFile, SharedPlace, SharedUse, Sharing,
    SharingDomain,
};
use super::{Memory, Queue};
use crate::sync::lock;
use crate::{DeviceId, Error, ErrorKind, Result, process};

/// The allocations that this process made, and those that it opened to pass them on, by their
/// addresses. A child of `fork` begins without any: it has the mappings of its parent, and exports
/// none of them.
static MADE: PerProcess<Mutex<BTreeMap<usize, SharedFile>>> =
    PerProcess::new(Mutex::new(BTreeMap::new()));

/// The file of an allocation.
struct SharedFile {
    file: SealedFile,
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
        let about = |error: Error| error.during("allocate").on_device(DeviceId::CPU);
        let file = SealedFile::new(c"arrow-device", len).map_err(about)?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a mapping at an address of the system's choice replaces nothing.
        let address = unsafe { file.map(rights, libc::MAP_SHARED, None) }.map_err(about)?;
        // After the mapping, which is the last one that can be written.
        file.forbid_new_writers().map_err(|error| {
            unmap(address, file.whole());
            about(error)
        })?;
        process::watch();
        let made = SharedFile { file, used, is_fixed: false };
        lock(MADE.get()).insert(address.addr(), made);
        Ok(Raw::from_ptr(address))
    }

    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        let made = lock(MADE.get());
        let (address, file) = made.range(..=place.bits()).next_back()?;
        let offset = place.bits() - address;
        let memory = Raw::from_ptr(place.as_ptr().wrapping_byte_sub(offset));
        let len = file.file.whole();
        (offset < len).then_some(SharedPlace {
            memory,
            offset: offset as u64,
            len: len as u64,
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
        let SharedFile { file, is_fixed, .. } = file;
        if fixed && !*is_fixed {
            let rights = libc::PROT_READ;
            // SAFETY: the mapping at this address is of all of the file, and its bytes stay where
            // they are. Nobody writes to them any more, as the caller promises.
            unsafe { file.map(rights, libc::MAP_PRIVATE, Some(memory.as_ptr())) }
                .and_then(|_| file.forbid_writing())
                .map_err(|error| error.during("fix memory").on_device(DeviceId::CPU))?;
            *is_fixed = true;
        }
        Ok(file.handle())
    }

    unsafe fn open(&self, handle: MemoryHandle, len: u64) -> Result<OpenedMemory> {
        let about = |error: Error| error.during("open memory").on_device(DeviceId::CPU);
        let is_passed_on = handle.is_passed_on;
        let Some(file) = handle.descriptor.filter(|_| handle.note.is_empty()) else {
            let message = "host memory is shared by a descriptor without a note";
            return Err(about(Error::new(ErrorKind::Malformed, message)));
        };
        let file = SealedFile::received(file, len).map_err(about)?;
        let is_fixed = file.is_fixed().map_err(about)?;
        // SAFETY: a mapping at an address of the system's choice replaces nothing.
        let address = unsafe { file.map(libc::PROT_READ, libc::MAP_PRIVATE, None) };
        let address = address.map_err(about)?;
        if is_fixed && is_passed_on {
            let opened = SharedFile { file, used: SharedUse::Once, is_fixed };
            lock(MADE.get()).insert(address.addr(), opened);
        }
        Ok(OpenedMemory { memory: Raw::from_ptr(address), is_fixed })
    }

    unsafe fn close(&self, memory: Raw<Memory>, len: u64) {
        let Some(whole) = SealedFile::whole_pages(len) else { return };
        // Taken off the list first: another thread may get the address at once.
        let made = lock(MADE.get()).remove(&memory.bits());
        unmap(memory.as_ptr(), whole);
        drop(made);
    }
}

fn unmap(address: *mut c_void, len: usize) {
    // SAFETY: the mapping of this length was made here, and nobody uses it any more, as the caller
    // of `close` promises.
    unsafe { libc::munmap(address, len) };
}
