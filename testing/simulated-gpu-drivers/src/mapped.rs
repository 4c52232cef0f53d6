//! Memory that is mapped by hand: allocations without an address, address space without memory, and
//! what has descriptors that other processes import.
//!
//! An allocation is a file of memory, so another process that imports its descriptor has the same
//! pages. The file's name says which driver and which device made the file: a descriptor of
//! anything else is refused, as by a driver that knows its own. Address space is mapped as a whole,
//! and once at a time.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};

use arrow_device::driver::SealedFile;
use arrow_device_sim::Site;
use arrow_device_sim::hardware::{Placement, Reserved};

use crate::call::{Then, entries};
use crate::code::{Answer, Code};
use crate::machine::Machine;
use crate::pools::Access;
use crate::record::Mistake;

/// Descriptors as the type of shareable handles.
const DESCRIPTOR: i32 = 1;
const PINNED: i32 = 1;
const DEVICE: i32 = 1;
const READ: i32 = 1;
const ALL: i32 = 3;

/// How many bytes of fresh memory hold garbage. The rest is zero.
const GARBAGE: usize = 64 << 10;

/// What an allocation is to be like: a kind of memory (1), a type of handles (1 for descriptors, 0
/// for none), a place, and flags that are all 0 here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    memory: i32,
    handles: i32,
    place: i32,
    number: i32,
    security: usize,
    flags: u64,
}

/// The tables of what was made and not given back.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    allocations: BTreeMap<usize, Handle>,
    spaces: BTreeMap<usize, Space>,
    /// What was allocated by this process, as long as something has it.
    made: Vec<Weak<Physical>>,
    mappings: usize,
}

/// An allocation without an address. It is there as long as a handle or a mapping has it.
#[derive(Debug)]
struct Physical {
    device: usize,
    len: u64,
    file: SealedFile,
}

/// A handle of an allocation.
#[derive(Debug)]
struct Handle {
    physical: Arc<Physical>,
    /// The type of the handles that may be made of it.
    handles: i32,
    made: Site,
}

/// Address space, and what is mapped to it.
#[derive(Debug)]
struct Space {
    len: u64,
    made: Site,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Empty(Reserved),
    Mapped {
        physical: Arc<Physical>,
        number: usize,
    },
    /// The pages of the address space could not be put back.
    Lost,
}

impl Machine {
    /// The unit of sizes: in CUDA's drivers that of large pages, in HIP's that of small ones.
    fn granule(&self, is_cuda: bool) -> u64 {
        if is_cuda { 2 << 20 } else { 4 << 10 }
    }

    fn may_map(&mut self) -> Answer {
        if self.config.mapping { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    }

    /// The device that properties name, and the type of handles.
    ///
    /// # Safety
    /// Null, or properties of an allocation.
    unsafe fn wanted(&mut self, properties: *const Wanted) -> Answer<(usize, i32)> {
        if properties.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: null, or properties of an allocation, as the caller promises.
        let wanted = unsafe { entries(properties, 1) };
        let [Wanted { memory, handles, place, number, security, flags }] = wanted[..] else {
            return Err(Code::INVALID_VALUE);
        };
        if (memory, place, security, flags) != (PINNED, DEVICE, 0, 0) {
            return Err(Code::INVALID_VALUE);
        }
        if !matches!(handles, 0 | DESCRIPTOR) {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok((self.device_number(number)?, handles))
    }

    /// # Safety
    /// Null, or properties of an allocation.
    pub(crate) unsafe fn granularity(
        &mut self,
        properties: *const Wanted,
        option: i32,
        is_cuda: bool,
    ) -> Answer<usize> {
        self.may_map()?;
        // SAFETY: null, or properties of an allocation, as the caller promises.
        unsafe { self.wanted(properties) }?;
        match option {
            0 => Ok(self.granule(is_cuda) as usize),
            1 => Ok(2 << 20),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// # Safety
    /// Null, or properties of an allocation.
    pub(crate) unsafe fn make_physical(
        &mut self,
        len: usize,
        properties: *const Wanted,
        flags: u64,
        is_cuda: bool,
    ) -> Answer<usize> {
        self.may_map()?;
        self.must_be_safe()?;
        // SAFETY: null, or properties of an allocation, as the caller promises.
        let (device, handles) = unsafe { self.wanted(properties) }?;
        self.alive(device)?;
        let len = len as u64;
        if flags != 0 || len == 0 || !len.is_multiple_of(self.granule(is_cuda)) {
            return Err(Code::INVALID_VALUE);
        }
        if !self.has_left(device, len, None) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let name = CString::new(name(is_cuda, device)).unwrap_or_default();
        let file = SealedFile::new(&name, len).map_err(|_| Code::OUT_OF_MEMORY)?;
        if let Ok(copy) = file.as_fd().try_clone_to_owned() {
            // What a device has there before somebody writes.
            let garbage = [0x9d; GARBAGE];
            let _ =
                File::from(copy).write_all_at(garbage.get(..len as usize).unwrap_or(&garbage), 0);
        }
        let physical = Arc::new(Physical { device, len, file });
        self.mapped.made.retain(|made| made.strong_count() > 0);
        self.mapped.made.push(Arc::downgrade(&physical));
        Ok(self.add_handle(physical, handles))
    }

    fn add_handle(&mut self, physical: Arc<Physical>, handles: i32) -> usize {
        let (handle, made) = (self.new_handle(), self.hardware.here());
        self.mapped.allocations.insert(handle, Handle { physical, handles, made });
        handle
    }

    /// Bytes of allocations that were made here.
    pub(crate) fn physical(&self, device: usize) -> u64 {
        let made = self.mapped.made.iter().filter_map(Weak::upgrade);
        made.filter(|made| made.device == device).map(|made| made.len).sum()
    }

    fn handle(&mut self, handle: usize) -> Answer<&Handle> {
        if !self.mapped.allocations.contains_key(&handle) {
            return Err(self.misuse(
                "UnknownHandle",
                Code::INVALID_VALUE,
                "This handle is no allocation of the driver, or one that was released.",
            ));
        }
        self.mapped.allocations.get(&handle).ok_or(Code::INVALID_VALUE)
    }

    /// What is mapped stays until it is unmapped.
    pub(crate) fn release_physical(&mut self, handle: usize) -> Answer {
        self.handle(handle)?;
        self.mapped.allocations.remove(&handle);
        Ok(())
    }

    /// A descriptor, which is the caller's.
    pub(crate) fn export(&mut self, handle: usize, kind: i32, flags: u64) -> Answer<i32> {
        let Handle { physical, handles, .. } = self.handle(handle)?;
        if flags != 0 || kind != DESCRIPTOR || *handles != kind {
            return Err(Code::INVALID_VALUE);
        }
        let copy = physical.file.as_fd().try_clone_to_owned();
        Ok(copy.map_err(|_| Code::OPERATING_SYSTEM)?.into_raw_fd())
    }

    /// The allocation that a descriptor is of, as another handle. The descriptor stays the
    /// caller's.
    pub(crate) fn import(&mut self, descriptor: i32, kind: i32, is_cuda: bool) -> Answer<usize> {
        self.may_map()?;
        if kind != DESCRIPTOR || descriptor < 0 {
            return Err(Code::INVALID_VALUE);
        }
        let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
        let link = link.map_err(|_| Code::INVALID_VALUE)?;
        let is_of = |device: &usize| {
            link.as_os_str() == format!("/memfd:{} (deleted)", name(is_cuda, *device)).as_str()
        };
        let device = (0..self.devices.len()).find(is_of).ok_or(Code::INVALID_VALUE)?;
        self.alive(device)?;
        // SAFETY: a descriptor of this name is there, as was just found, and the caller keeps it
        // during the call.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let file = borrowed.try_clone_to_owned().map_err(|_| Code::OPERATING_SYSTEM)?;
        let file = File::from(file);
        let len = file.metadata().map_err(|_| Code::INVALID_VALUE)?.len();
        let file =
            SealedFile::received(OwnedFd::from(file), len).map_err(|_| Code::INVALID_VALUE)?;
        Ok(self.add_handle(Arc::new(Physical { device, len, file }), DESCRIPTOR))
    }

    pub(crate) fn reserve(
        &mut self,
        len: usize,
        alignment: usize,
        flags: u64,
        is_cuda: bool,
    ) -> Answer<usize> {
        self.may_map()?;
        let unit = if is_cuda { 4 << 10 } else { self.granule(is_cuda) };
        let is_aligned = alignment == 0 || alignment.is_power_of_two();
        if len == 0 || flags != 0 || !is_aligned || !(len as u64).is_multiple_of(unit) {
            return Err(Code::INVALID_VALUE);
        }
        let space = self.hardware.reserve(len as u64).ok_or(Code::OUT_OF_MEMORY)?;
        let (address, made) = (space.address(), self.hardware.here());
        let space = Space { len: len as u64, made, content: Content::Empty(space) };
        self.mapped.spaces.insert(address, space);
        Ok(address)
    }

    fn space(&mut self, address: usize, len: usize) -> Answer<&mut Space> {
        let fits = |space: &&mut Space| space.len == len as u64;
        self.mapped.spaces.get_mut(&address).filter(fits).ok_or(Code::INVALID_VALUE)
    }

    /// Nothing may be mapped there.
    pub(crate) fn free_space(&mut self, address: usize, len: usize) -> Answer {
        match self.space(address, len)?.content {
            Content::Mapped { .. } => Err(self.misuse(
                "WrongFree",
                Code::INVALID_VALUE,
                "Address space is freed that has memory mapped to it.",
            )),
            Content::Empty(_) | Content::Lost => {
                self.mapped.spaces.remove(&address);
                Ok(())
            }
        }
    }

    /// All of a space is mapped, from the beginning of the allocation on.
    pub(crate) fn map(
        &mut self,
        (address, len): (usize, usize),
        offset: usize,
        handle: usize,
        flags: u64,
    ) -> Answer {
        self.must_be_safe()?;
        if offset != 0 || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let physical = self.handle(handle)?.physical.clone();
        self.alive(physical.device)?;
        let number = self.mapped.mappings;
        let hardware = self.hardware.clone();
        let space = self.space(address, len)?;
        if physical.len < space.len || !matches!(space.content, Content::Empty(_)) {
            return Err(Code::INVALID_VALUE);
        }
        if let Content::Empty(empty) = std::mem::replace(&mut space.content, Content::Lost) {
            if let Err(empty) = hardware.map(empty, &physical.file, physical.device, number) {
                space.content = Content::Empty(empty);
                return Err(Code::OUT_OF_MEMORY);
            }
            space.content = Content::Mapped { physical, number };
        }
        self.mapped.mappings += 1;
        Ok(())
    }

    pub(crate) fn unmap(&mut self, address: usize, len: usize) -> Answer<Then> {
        self.must_be_safe()?;
        let hardware = self.hardware.clone();
        let space = self.space(address, len)?;
        let Content::Mapped { physical, .. } = &space.content else {
            return Err(Code::INVALID_VALUE);
        };
        let device = physical.device;
        space.content = hardware.unmap(address).map_or(Content::Lost, Content::Empty);
        self.alive(device)?;
        Ok(if self.config.frees_wait { Then::Quiet } else { Then::Return })
    }

    /// Gives devices access to all that is mapped there. Taking access back is not done here.
    ///
    /// # Safety
    /// The list has that many entries.
    pub(crate) unsafe fn give_mapped(
        &mut self,
        address: usize,
        len: usize,
        list: *const Access,
        count: usize,
    ) -> Answer {
        self.must_be_safe()?;
        if list.is_null() || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let Content::Mapped { physical, number } = &self.space(address, len)?.content else {
            return Err(Code::INVALID_VALUE);
        };
        let (home, placement) = (physical.device, Placement::Mapped(*number));
        self.alive(home)?;
        // SAFETY: the list has that many entries, as the caller promises.
        for Access { place, number, rights } in unsafe { entries(list, count) } {
            let device = self.device_number(number)?;
            if place != DEVICE || !matches!(rights, READ | ALL) {
                return Err(Code::INVALID_VALUE);
            }
            if rights == READ && !self.config.read_only {
                return Err(Code::NOT_SUPPORTED);
            }
            if device != home && !self.config.peers {
                return Err(Code::INVALID_DEVICE);
            }
            self.hardware.give_access(device, home, placement);
            if rights == READ {
                self.hardware.forbid_writing(address, len as u64);
            }
        }
        Ok(())
    }

    /// Handles and address space that nobody gave back.
    pub(crate) fn leaked_mapped(&self) -> Vec<Mistake> {
        let (handle, space) =
            ("This allocation was not released.", "This address space was not freed.");
        let handles =
            self.mapped.allocations.values().map(|one| ("LeakedHandle", handle, &one.made));
        let spaces = self.mapped.spaces.values().map(|one| ("LeakedSpace", space, &one.made));
        handles.chain(spaces).map(|(kind, why, made)| Mistake::left(kind, why, made)).collect()
    }
}

/// The name of the file of an allocation, which the system shows.
fn name(is_cuda: bool, device: usize) -> String {
    let vendor = if is_cuda { "cuda" } else { "hip" };
    format!("simulated-{vendor}-{device}-memory")
}

/// The number of a descriptor that is given in place of a pointer, or that the pointer points to.
///
/// # Safety
/// A number, or a pointer that may be read, as the driver's version has it.
pub(crate) unsafe fn descriptor(given: usize, is_pointer: bool) -> Answer<i32> {
    if !is_pointer {
        return i32::try_from(given).map_err(|_| Code::INVALID_VALUE);
    }
    if given < 4096 {
        // Reading there ends the process.
        return Err(Code::INVALID_VALUE);
    }
    let place = std::ptr::with_exposed_provenance::<i32>(given);
    // SAFETY: a pointer that may be read, as the caller promises.
    Ok(unsafe { place.read_unaligned() })
}
