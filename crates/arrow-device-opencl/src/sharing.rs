//! Memory that other processes can open: files without a name, which the runtime uses in place.
//!
//! 1. An allocation is one file of `memfd_create`, as an allocation of shared host memory is. The
//!    pages of the file are taken at once, its length is sealed, and it is sealed against writing
//!    by others.
//! 2. The mapping of the file becomes a `cl_mem` with `CL_MEM_USE_HOST_PTR`. With shared virtual
//!    memory, whose addresses only the runtime gives, the mapping is laid over the pages of a block
//!    of the runtime; before the block is given back, ordinary pages are laid there again.
//! 3. Whether the runtime uses the pages in place is seen and not believed: when a device is first
//!    asked whether it shares, bytes go through the device into a file and out of one
//!    (`is_in_place`). Where they do not come, the device shares nothing.
//! 4. A mapping of a `cl_mem` is ended by the runtime's own notice that the memory "can be reused
//!    or freed", because commands may hold a `cl_mem` longer than its owner does.
//! 5. Memory of another process is mapped to be read, and is a `cl_mem` that neither kernels nor
//!    the host write.
//! 6. A table has the allocations, and those parts of them that are `cl_mem`s of their own. The
//!    allocation of a place is looked up there, because the place may be no handle that the runtime
//!    knows.
//!
//! On a processor, the pages behind an address can be exchanged for pages that cannot be written,
//! and then the system lets nobody write to the file any more. Other devices may have taken hold of
//! the pages, so their memory is not fixed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_device::driver::{
    MemoryHandle, OpenedMemory, Raw, SealedFile, SharedPlace, SharedUse, Sharing, SharingDomain,
};
use arrow_device::{Error, ErrorKind, Memory, Queue, Result};

use crate::api::{Api, BLOCKING, Handle, SvmApi};
use crate::driver::{OpenClDriver, READ_WRITE};
use crate::info::{DEVICE_NAME, DEVICE_PLATFORM, DRIVER_VERSION, PLATFORM_NAME, list, text, value};

const READ_ONLY: u64 = 1 << 2;
const USE_HOST_MEMORY: u64 = 1 << 3;
const HOST_READ_ONLY: u64 = 1 << 8;

const DEVICE_TYPE: u32 = 0x1000;
const PROCESSOR: u64 = 1 << 1;
const DEVICE_LARGEST_BUFFER: u32 = 0x1010;
const DEVICE_VERSION: u32 = 0x102f;
const DEVICE_EXTENSIONS: u32 = 0x1030;
const DEVICE_UUID: u32 = 0x106a;
const DRIVER_UUID: u32 = 0x106b;
const PLATFORM_VERSION: u32 = 0x0901;

/// The name of the files, which shows in the lists of mappings.
const NAME: &CStr = c"arrow-device-opencl";

const READ: c_int = libc::PROT_READ;
const WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// How a device shares memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    domain: SharingDomain,
    /// Whether the device is a processor, which has hold of no pages.
    is_processor: bool,
    /// How many bytes one buffer can have.
    largest: u64,
}

/// The memory of this process that is shared.
#[derive(Default)]
struct Table {
    /// The allocations, by their handles or addresses.
    made: BTreeMap<usize, Made>,
    /// The parts of allocations, by their handles: the allocation of each part, and where the part
    /// begins in the allocation.
    parts: HashMap<usize, (usize, u64)>,
    /// The blocks of the runtime under mappings that are addresses.
    blocks: HashMap<usize, Block>,
}

/// An allocation that can be exported: one that was made here, or that was opened to be passed on.
struct Made {
    file: SealedFile,
    mapping: Mapping,
    len: u64,
    used: SharedUse,
    /// Whether nobody can write to the file any more.
    is_fixed: bool,
}

/// Pages of a file in this process.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    address: *mut c_void,
    /// The length in whole pages.
    whole: usize,
}

// SAFETY: an address and a length.
unsafe impl Send for Mapping {}

/// Shared virtual memory with a mapping laid over some of its pages.
#[derive(Clone, Copy, Debug)]
struct Block {
    memory: *mut c_void,
    mapping: Mapping,
}

// SAFETY: addresses and a length.
unsafe impl Send for Block {}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// The table, under its lock. No call of the runtime is made under the lock.
fn table() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that a handle is a part of a memory object, if this is an allocation that is shared.
pub(crate) fn remember_part(root: Handle, part: Handle, offset: u64) {
    if let Some(table) = table().as_mut()
        && table.made.contains_key(&root.addr())
    {
        table.parts.insert(part.addr(), (root.addr(), offset));
    }
}

pub(crate) fn forget_part(part: Handle) {
    if let Some(table) = table().as_mut() {
        table.parts.remove(&part.addr());
    }
}

// SAFETY: `allocate` gives memory over a file of its own, mapped at a multiple of the page size,
// which nobody else has and which stays until `close`. `find` knows just these and their parts.
// `open` maps a file whose length it has seen to be sealed and long enough, so every byte can be
// read until `close`. A file that is sealed against writing is fixed. Nothing unwinds, waits for
// work or calls the library.
unsafe impl Sharing for OpenClDriver {
    fn domain(&self) -> SharingDomain {
        self.shared().map_or(SharingDomain::NONE, |shared| shared.domain)
    }

    unsafe fn allocate(
        &self,
        len: u64,
        _queue: Option<Raw<Queue>>,
        used: SharedUse,
    ) -> Result<Raw<Memory>> {
        let largest = self.shared().map_or(0, |shared| shared.largest);
        let about = |error: Error| error.during("allocate").on_device(self.id);
        if len > largest {
            let message = format!("{len} bytes asked for, more than there are in one piece");
            return Err(about(Error::new(ErrorKind::OutOfMemory, message)));
        }
        let file = SealedFile::new(NAME, len).map_err(about)?;
        let memory = self.over(&file, len, true, "allocate")?;
        // After the mapping, which is the last one that can be written.
        file.forbid_new_writers().map_err(|error| {
            self.release(memory);
            about(error)
        })?;
        let (handle, mapping) = memory.parts();
        let made = Made { file, mapping, len, used, is_fixed: false };
        let mut table = table();
        let table = table.get_or_insert_default();
        table.made.insert(handle.addr(), made);
        if let Home::Svm(block) = memory {
            table.blocks.insert(handle.addr(), block);
        }
        Ok(Raw::from_ptr(handle))
    }

    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        // Asked before the table is locked: the answer may need calls of the runtime.
        let is_processor = self.shared().is_some_and(|shared| shared.is_processor);
        let table = table();
        let table = table.as_ref()?;
        let (root, offset) = match table.parts.get(&place.bits()) {
            Some(part) => *part,
            None if self.svm.is_none() => (place.bits(), 0),
            None => {
                let (address, _) = table.made.range(..=place.bits()).next_back()?;
                (*address, (place.bits() - address) as u64)
            }
        };
        let made = table.made.get(&root).filter(|made| offset < made.len)?;
        Some(SharedPlace {
            memory: Raw::from_bits(root),
            offset,
            len: made.len,
            can_be_fixed: is_processor && made.used == SharedUse::Once,
        })
    }

    unsafe fn export(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle> {
        let refused = |kind, message| {
            Err(Error::new(kind, message).during("export memory").on_device(self.id))
        };
        let is_processor = self.shared().is_some_and(|shared| shared.is_processor);
        let mut table = table();
        let made = table.as_mut().and_then(|table| table.made.get_mut(&memory.bits()));
        let Some(made) = made else {
            let message = "the memory was not allocated to be shared";
            return refused(ErrorKind::InvalidArgument, message);
        };
        if fixed && !(is_processor && made.used == SharedUse::Once) {
            let message = "the memory cannot be fixed: it may be given out again, or the device \
                           has hold of it";
            return refused(ErrorKind::Unsupported, message);
        }
        if fixed && !made.is_fixed {
            // The bytes stay where they are, and become read-only in one step for every thread that
            // reads them. Nobody writes to them any more, says the caller.
            let address = Some(made.mapping.address);
            // SAFETY: the pages are those of the file's own mapping.
            unsafe { made.file.map(READ, libc::MAP_PRIVATE, address) }
                .and_then(|_| made.file.forbid_writing())
                .map_err(|error| error.during("fix memory").on_device(self.id))?;
            made.is_fixed = true;
        }
        Ok(made.file.handle())
    }

    unsafe fn open(&self, handle: MemoryHandle, len: u64) -> Result<OpenedMemory> {
        let about = |error: Error| error.during("open memory").on_device(self.id);
        let is_passed_on = handle.is_passed_on;
        let Some(file) = handle.descriptor.filter(|_| handle.note.is_empty()) else {
            let message = "this memory is shared by a descriptor without a note";
            return Err(about(Error::new(ErrorKind::Malformed, message)));
        };
        let file = SealedFile::received(file, len).map_err(about)?;
        let is_fixed = file.is_fixed().map_err(about)?;
        let memory = self.over(&file, len, false, "open memory")?;
        let (handle, mapping) = memory.parts();
        let mut table = table();
        let table = table.get_or_insert_default();
        if let Home::Svm(block) = memory {
            table.blocks.insert(handle.addr(), block);
        }
        if is_fixed && is_passed_on {
            let opened = Made { file, mapping, len, used: SharedUse::Once, is_fixed };
            table.made.insert(handle.addr(), opened);
        }
        Ok(OpenedMemory { memory: Raw::from_ptr(handle), is_fixed })
    }

    unsafe fn close(&self, memory: Raw<Memory>, _len: u64) {
        // Taken off the table first: another thread may get the handle or the address at once.
        let (made, block) = match table().as_mut() {
            Some(table) => (table.made.remove(&memory.bits()), table.blocks.remove(&memory.bits())),
            None => (None, None),
        };
        match (block, self.svm) {
            (Some(block), _) => self.release(Home::Svm(block)),
            // The mapping is ended by the runtime's notice.
            (None, None) => {
                let (memory, mapping) = (memory.as_ptr(), Mapping::NONE);
                self.release(Home::Buffer { memory, mapping });
            }
            // The table has no such address, so nothing is known of the memory.
            (None, Some(_)) => {}
        }
        drop(made);
    }
}

/// Memory of the runtime over a mapping.
#[derive(Clone, Copy)]
enum Home {
    /// A `cl_mem`, which ends the mapping once the runtime says so.
    Buffer { memory: Handle, mapping: Mapping },
    /// A block of shared virtual memory, with the mapping laid over it.
    Svm(Block),
}

impl Home {
    /// The handle or the address, and the mapping.
    fn parts(self) -> (Handle, Mapping) {
        match self {
            Self::Buffer { memory, mapping } => (memory, mapping),
            Self::Svm(block) => (block.mapping.address, block.mapping),
        }
    }
}

impl OpenClDriver {
    /// Makes memory of the runtime over a file, to be read and written or only to be read.
    fn over(
        &self,
        file: &SealedFile,
        len: u64,
        is_written: bool,
        operation: &'static str,
    ) -> Result<Home> {
        let about = |error: Error| error.during(operation).on_device(self.id);
        let whole = file.whole();
        let (rights, sharing) =
            if is_written { (WRITE, libc::MAP_SHARED) } else { (READ, libc::MAP_PRIVATE) };
        if let Some(svm) = self.svm {
            let flags = if is_written { READ_WRITE } else { READ_ONLY };
            let block = self.block(svm, whole, flags).ok_or_else(|| {
                let message = format!("{len} bytes of shared virtual memory asked for");
                about(Error::new(ErrorKind::OutOfMemory, message))
            })?;
            let address = Some(block.mapping.address);
            // SAFETY: the pages lie inside of a block that nobody else has.
            let laid = unsafe { file.map(rights, sharing, address) };
            return match laid {
                Ok(_) => Ok(Home::Svm(block)),
                Err(error) => {
                    self.release(Home::Svm(block));
                    Err(about(error))
                }
            };
        }
        // SAFETY: a mapping at an address of the system's choice replaces nothing.
        let mapped = unsafe { file.map(rights, sharing, None) };
        let address = mapped.map_err(about)?;
        let mapping = Mapping { address, whole };
        let flags = if is_written { READ_WRITE } else { READ_ONLY | HOST_READ_ONLY };
        let (context, mut code) = (self.context.handle(), 0);
        // SAFETY: the context is alive in its owner. The host memory has this many bytes, which
        // stay until the runtime has told that it does not use them any more.
        let memory = unsafe {
            (self.api.create_buffer)(
                context,
                flags | USE_HOST_MEMORY,
                len as usize,
                address,
                &mut code,
            )
        };
        self.check(code, operation).inspect_err(|_| mapping.end())?;
        let told = Box::into_raw(Box::new(mapping));
        // SAFETY: the memory was just made. `end_mapping` gets the box that was just made, once.
        let code = unsafe { (self.api.on_release_of_memory)(memory, end_mapping, told.cast()) };
        self.check(code, operation).inspect_err(|_| {
            // SAFETY: the reference is the one that was just given.
            let _ = unsafe { (self.api.release_memory)(memory) };
            // SAFETY: the box is this function's, because the runtime did not take it.
            drop(unsafe { Box::from_raw(told) });
            mapping.end();
        })?;
        Ok(Home::Buffer { memory, mapping })
    }

    /// Allocates shared virtual memory that contains `whole` bytes of whole pages.
    fn block(&self, svm: &SvmApi, whole: usize, flags: u64) -> Option<Block> {
        let size = whole.checked_add(SealedFile::page())?;
        // SAFETY: the context is alive in its owner; an alignment of 0 is the device's largest.
        let memory = unsafe { (svm.allocate)(self.context.handle(), flags, size, 0) };
        if memory.is_null() {
            return None;
        }
        let before = memory.addr().next_multiple_of(SealedFile::page()) - memory.addr();
        let address = memory.wrapping_byte_add(before);
        Some(Block { memory, mapping: Mapping { address, whole } })
    }

    /// Gives memory of `over` back to the runtime.
    fn release(&self, memory: Home) {
        let block = match memory {
            Home::Buffer { memory, .. } => {
                // SAFETY: the reference is the one that `over` got, and nothing uses the memory any
                // more, as the caller of `close` promises.
                let _ = unsafe { (self.api.release_memory)(memory) };
                return;
            }
            Home::Svm(block) => block,
        };
        let Some(svm) = self.svm else { return };
        // The runtime gets its own pages back, which it can write.
        if block.mapping.become_ordinary() {
            // SAFETY: `block` got it from the runtime, and nothing uses it any more.
            unsafe { (svm.free)(self.context.handle(), block.memory) };
        }
        // Without ordinary pages there, the block is leaked.
    }
}

/// Ends the mapping under a `cl_mem` that the runtime does not use any more.
extern "system" fn end_mapping(_memory: Handle, told: *mut c_void) {
    // SAFETY: `over` gave the box for this one call.
    let mapping = unsafe { Box::from_raw(told.cast::<Mapping>()) };
    mapping.end();
}

impl Mapping {
    const NONE: Self = Self { address: ptr::null_mut(), whole: 0 };

    fn end(self) {
        // SAFETY: the mapping was made here, and nobody uses it any more.
        unsafe { libc::munmap(self.address, self.whole) };
    }

    /// Lays ordinary pages in place of those of the file. Returns whether they are there.
    fn become_ordinary(self) -> bool {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the pages are those of a mapping that was made here, and nobody uses their bytes
        // any more.
        let laid = unsafe { libc::mmap(self.address, self.whole, WRITE, flags, -1, 0) };
        laid != libc::MAP_FAILED
    }
}

impl OpenClDriver {
    /// How the device shares memory. `None` where it cannot.
    pub(crate) fn shared(&self) -> Option<Shared> {
        *self.shared.get_or_init(|| Shared::of(self))
    }
}

impl Shared {
    /// Finds out how the device of a driver shares memory. `None` where it cannot.
    fn of(driver: &OpenClDriver) -> Option<Self> {
        // SAFETY: the device is one of this process.
        let (is_processor, largest) = unsafe { driver.api.type_and_largest(driver.device) }.ok()?;
        // Shared virtual memory is only known to be ordinary memory where the device is a
        // processor.
        let may_be = is_processor || (driver.is_unified && driver.svm.is_none());
        // Another device of the context may have the only valid bytes of a buffer.
        let is_alone = matches!(driver.reachable.as_slice(), [_]);
        if !may_be || !is_alone {
            return None;
        }
        // SAFETY: the device is one of this process.
        let identity = unsafe { driver.api.identity_of(driver.device) }.ok()?;
        if !is_known_in_place(driver) {
            return None;
        }
        // That two devices have one hash does no harm: the memory is the host's, and what one
        // runtime uses in place another one does too, or copies when it opens the memory.
        let domain = SharingDomain::of("opencl memfd", &[&identity]);
        Some(Self { domain, is_processor, largest })
    }
}

/// [`is_in_place`], asked once for each device and kind of memory.
fn is_known_in_place(driver: &OpenClDriver) -> bool {
    /// The device, whether it is about shared virtual memory, and the answer.
    type Answer = (usize, bool, bool);
    static KNOWN: Mutex<Vec<Answer>> = Mutex::new(Vec::new());
    let (device, is_svm) = (driver.device.addr(), driver.svm.is_some());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.iter().find(|(one, svm, _)| (*one, *svm) == (device, is_svm));
    if let Some((_, _, answer)) = found {
        return *answer;
    }
    let answer = is_in_place(driver).unwrap_or(false);
    known.push((device, is_svm, answer));
    answer
}

/// Whether the runtime uses the pages of a file in place: what the device writes is in the file at
/// once, and what comes into the file is what the device reads.
fn is_in_place(driver: &OpenClDriver) -> Result<bool> {
    const LEN: usize = 16;
    let (there, back) = ([0x5a_u8; LEN], [0xc3_u8; LEN]);
    let file = SealedFile::new(NAME, LEN as u64)?;
    let memory = driver.over(&file, LEN as u64, true, "share")?;
    let (handle, _) = memory.parts();
    let result = (|| {
        driver.transfer(handle, Bytes::ToDevice(&there))?;
        let mut bytes = [0; LEN];
        // SAFETY: `bytes` has this many bytes.
        let read =
            unsafe { libc::pread(file.as_fd().as_raw_fd(), bytes.as_mut_ptr().cast(), LEN, 0) };
        // SAFETY: `back` has this many bytes.
        let written =
            unsafe { libc::pwrite(file.as_fd().as_raw_fd(), back.as_ptr().cast(), LEN, 0) };
        if [read, written] != [LEN as isize; 2] || bytes != there {
            return Ok(false);
        }
        driver.transfer(handle, Bytes::FromDevice(&mut bytes))?;
        Ok(bytes == back)
    })();
    driver.release(memory);
    result
}

/// Bytes of the host that are copied.
enum Bytes<'a> {
    ToDevice(&'a [u8]),
    FromDevice(&'a mut [u8]),
}

impl OpenClDriver {
    /// Copies the first bytes of memory on the driver's own queue, and waits for it.
    fn transfer(&self, memory: Handle, bytes: Bytes<'_>) -> Result<()> {
        let (queue, wait, event) = (self.maps.handle(), ptr::null(), ptr::null_mut());
        let (host, len, is_read) = match bytes {
            Bytes::ToDevice(bytes) => (bytes.as_ptr().cast_mut().cast(), bytes.len(), false),
            Bytes::FromDevice(bytes) => (bytes.as_mut_ptr().cast(), bytes.len(), true),
        };
        let code = match self.svm {
            Some(svm) => {
                let (to, from) = if is_read { (host, memory) } else { (memory, host) };
                // SAFETY: both sides have this many bytes, and the call waits.
                unsafe { (svm.copy)(queue, BLOCKING, to, from, len, 0, wait, event) }
            }
            None => {
                let call = if is_read { self.api.read } else { self.api.write };
                // SAFETY: both sides have this many bytes, and the call waits. Bytes of the host
                // that are only borrowed are only read.
                unsafe { call(queue, memory, BLOCKING, 0, len, host, 0, wait, event) }
            }
        };
        self.check(code, "open")
    }
}

impl Api {
    /// Returns the identity of a device and of its driver's build: their numbers, where the driver
    /// has them, otherwise what both are called.
    ///
    /// # Safety
    /// The device is one of this process.
    unsafe fn identity_of(&self, device: Handle) -> Result<Vec<u8>> {
        const ASK: &str = "ask the device";
        let info = self.get_device_info;
        // SAFETY: the device is alive, as the caller promises.
        let extensions = unsafe { text(info, device, DEVICE_EXTENSIONS, ASK) }?;
        if extensions.split_whitespace().any(|name| name == "cl_khr_device_uuid") {
            // SAFETY: the device is alive, as the caller promises.
            let mut both = unsafe { list::<u8>(info, device, DEVICE_UUID, ASK) }?;
            // SAFETY: the device is alive, as the caller promises.
            both.extend(unsafe { list::<u8>(info, device, DRIVER_UUID, ASK) }?);
            return Ok(both);
        }
        // SAFETY: the device is alive, as the caller promises; the answer is a handle.
        let platform = unsafe { value(info, device, DEVICE_PLATFORM, ASK) }?;
        let mut names = Vec::new();
        for what in [PLATFORM_NAME, PLATFORM_VERSION] {
            // SAFETY: the device's own platform.
            names.push(unsafe { text(self.get_platform_info, platform, what, ASK) }?);
        }
        for what in [DEVICE_NAME, DEVICE_VERSION, DRIVER_VERSION] {
            // SAFETY: the device is alive, as the caller promises.
            names.push(unsafe { text(info, device, what, ASK) }?);
        }
        // A text has no zero.
        Ok(names.join("\0").into_bytes())
    }

    /// Returns whether a device is a processor, and how many bytes one of its buffers can have.
    ///
    /// # Safety
    /// The device is one of this process.
    unsafe fn type_and_largest(&self, device: Handle) -> Result<(bool, u64)> {
        let info = self.get_device_info;
        // SAFETY: the device is alive, as the caller promises; the answer is a `cl_bitfield`, which
        // is a `cl_ulong`.
        let device_type: u64 = unsafe { value(info, device, DEVICE_TYPE, "ask the device") }?;
        // SAFETY: the device is alive, as the caller promises; the answer is a `cl_ulong`.
        let largest = unsafe { value(info, device, DEVICE_LARGEST_BUFFER, "ask the device") }?;
        Ok((device_type & PROCESSOR != 0, largest))
    }
}
