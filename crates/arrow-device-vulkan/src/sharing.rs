//! Memory that other processes can open: `VK_KHR_external_memory_fd` with opaque descriptors.
//!
//! 1. An allocation is one `VkDeviceMemory` that was made to be exported, with one `VkBuffer` of
//!    all of it, and `VkBuffer`s of parts. The table of all buffers has for each buffer its place
//!    in memory and its allocation, so that the allocation of a buffer is found without asking
//!    Vulkan.
//! 2. An export is a new descriptor and a note. The note has what an import must repeat: "the
//!    values of allocationSize and memoryTypeIndex must match those specified when the payload
//!    being imported was created".
//! 3. An import compares the note with what this device would have allocated for as many bytes,
//!    looks at the descriptor as far as a descriptor can be looked at, and imports it.
//!
//! A descriptor does not show what it stands for. Vulkan asks for "a valid handle of the type
//! specified by handleType", and leaves open what happens with another one. So memory is opened
//! only from processes that are trusted. The checks here find mistakes, and keep descriptors from
//! the driver that are known to do harm: a pipe, from which a driver would read for ever, and a
//! file that can become shorter than its mapping.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use arrow_device::driver::{
    MemoryHandle, OpenedMemory, Raw, SharedPlace, SharedUse, Sharing, SharingDomain,
};
use arrow_device::{ErrorKind, Memory, Queue, Result};
use ash::vk;

use crate::driver::{VulkanDriver, buffer_of, raw};
use crate::external::{Exportable, External, Files, Origin};
use crate::memory_types::{BufferLocation, EXTERNAL};

/// What an import has to repeat of an export: 13 bytes, the numbers in little-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    /// The size of the `VkDeviceMemory`.
    size: u64,
    memory_type: u32,
    /// Whether the `VkDeviceMemory` belongs to one buffer. Never so by this version.
    is_dedicated: bool,
}

impl Note {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.size.to_le_bytes().to_vec();
        bytes.extend(self.memory_type.to_le_bytes());
        bytes.push(self.is_dedicated.into());
        bytes
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (size, rest) = bytes.split_first_chunk()?;
        let (memory_type, rest) = rest.split_first_chunk()?;
        let is_dedicated = match rest {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let (size, memory_type) = (u64::from_le_bytes(*size), u32::from_le_bytes(*memory_type));
        Some(Self { size, memory_type, is_dedicated })
    }
}

// SAFETY: `allocate` gives what the driver's `allocate` gives, in memory that can be exported.
// `find` knows the buffers in such memory, each until it is destroyed. `open`
// imports memory of the size that the exporter allocated for at least `len` bytes, which the note
// and the descriptor have to agree with, and binds a buffer of `len` bytes to it; where the
// descriptor's file could be shortened by its owner, the caller trusts the owner not to. Nothing is
// said to be fixed.
unsafe impl Sharing for VulkanDriver {
    fn domain(&self) -> SharingDomain {
        self.logical.external.as_ref().map_or(SharingDomain::NONE, |external| external.domain)
    }

    unsafe fn allocate(
        &self,
        len: u64,
        _queue: Option<Raw<Queue>>,
        _used: SharedUse,
    ) -> Result<Raw<Memory>> {
        let (buffer, block) = self.logical.allocate_memory(self.memory_type, len, true)?;
        self.logical.remember(buffer, block);
        Ok(raw(buffer))
    }

    fn needs_trust(&self) -> bool {
        true
    }

    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        let (block, made) = self.exportable(place)?;
        Some(SharedPlace {
            memory: raw(made.buffer),
            offset: block.offset,
            len: made.len,
            can_be_fixed: false,
        })
    }

    unsafe fn export(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle> {
        let refused =
            |kind, message| Err(self.logical.error(kind, message).during("export memory"));
        if fixed {
            return refused(ErrorKind::Unsupported, "memory of Vulkan cannot be fixed");
        }
        let (Some((block, made)), Ok(external)) = (self.exportable(memory), self.external()) else {
            let message = "the memory was not allocated to be shared";
            return refused(ErrorKind::InvalidArgument, message);
        };
        let info = vk::MemoryGetFdInfoKHR::default().memory(block.memory).handle_type(EXTERNAL);
        // SAFETY: UNS-22, which the caller keeps: the memory is there, and `allocate` made it to be
        // exported in this way.
        let descriptor = unsafe { external.functions.get_memory_fd(&info) };
        let descriptor = self.logical.check(descriptor, "export memory")?;
        // SAFETY: "Each call to vkGetMemoryFdKHR must create a new file descriptor", which belongs
        // to the caller.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let note = Note { size: made.size, memory_type: made.memory_type, is_dedicated: false };
        Ok(MemoryHandle::from_descriptor(descriptor).with_note(note.to_bytes()))
    }

    unsafe fn open(&self, mut handle: MemoryHandle, len: u64) -> Result<OpenedMemory> {
        let external = self.external()?;
        let refused = |message: String| {
            self.logical.error(ErrorKind::Malformed, message).during("open memory")
        };
        let descriptor = handle.take_descriptor().map_err(|error| refused(error.to_string()))?;
        let (Some(descriptor), Some(note)) = (descriptor, Note::of(&handle.note)) else {
            return Err(refused("memory of Vulkan is shared by a descriptor and a note".into()));
        };
        let memory_type = self.logical.types.with_index(note.memory_type);
        let memory_type = memory_type.filter(|memory_type| external.admits(*memory_type));
        let Some(mut memory_type) = memory_type.filter(|_| !note.is_dedicated) else {
            return Err(refused(format!("the device has no such memory: {note:?}")));
        };
        if note.size < len {
            return Err(refused(format!("{len} bytes were announced, and {note:?}")));
        }
        // As the driver's own memory: read in place only where this is fast.
        memory_type.is_visible &= self.memory_type.is_visible;
        let descriptor = external.files.check(descriptor, note.size).map_err(refused)?;
        let new = self.logical.new_buffer(memory_type, len, true);
        let (buffer, size) = new.map_err(|error| error.during("open memory"))?;
        let imported = if size == note.size {
            self.import(descriptor, note, external.files)
        } else {
            Err(refused(format!("{len} bytes were announced, which have {size}, and not {note:?}")))
        };
        let bound = imported
            .and_then(|memory| {
                self.logical.bind(buffer, memory, memory_type, len, Origin::Imported)
            })
            .inspect_err(|_| {
                // SAFETY: it was just made, and nothing uses it.
                unsafe { self.logical.vk.destroy_buffer(buffer, None) };
            })?;
        self.logical.remember(buffer, bound);
        Ok(OpenedMemory { memory: raw(buffer), is_fixed: false })
    }

    unsafe fn close(&self, memory: Raw<Memory>, _len: u64) {
        let buffer = buffer_of(memory);
        let Some(block) = self.logical.forget(buffer) else { return };
        // SAFETY: `allocate` or `open` gave both, and nothing uses them any more.
        unsafe { self.logical.free_memory(buffer, block.memory) };
    }
}

impl VulkanDriver {
    fn external(&self) -> Result<&External> {
        self.logical.external.as_ref().ok_or_else(|| {
            self.logical.error(ErrorKind::Unsupported, "the device shares no memory")
        })
    }

    /// Where a buffer lies, if this is an allocation that can be exported.
    fn exportable(&self, buffer: Raw<Memory>) -> Option<(BufferLocation, Exportable)> {
        let block = self.logical.block_of(buffer_of(buffer))?;
        match block.origin {
            Origin::Exportable(made) => Some((block, made)),
            Origin::Own | Origin::Imported => None,
        }
    }

    fn import(&self, descriptor: OwnedFd, note: Note, files: Files) -> Result<vk::DeviceMemory> {
        let identity = files.identity(&descriptor);
        let number = descriptor.into_raw_fd();
        let mut import = vk::ImportMemoryFdInfoKHR::default().handle_type(EXTERNAL).fd(number);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(note.size)
            .memory_type_index(note.memory_type)
            .push_next(&mut import);
        // SAFETY: the size and the type are those of the export, as far as the note tells, and
        // within the limits of this device. The descriptor was looked at, and is from a process
        // that is trusted, so it is one that the driver exported.
        let memory = unsafe { self.logical.vk.allocate_memory(&info, None) };
        if memory.is_err() && files.is_still(number, identity) {
            // SAFETY: "Importing memory from a file descriptor transfers ownership of the file
            // descriptor from the application to the Vulkan implementation", once it succeeds. It
            // did not, and the driver has not closed the descriptor all the same.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
        self.logical.check(memory, "open memory").map_err(|error| match error.kind() {
            ErrorKind::Driver => {
                let message = "the descriptor is not of memory of this device";
                let refused = self.logical.error(ErrorKind::Malformed, message);
                refused.during("open memory")
            }
            _ => error,
        })
    }
}

impl Files {
    /// Looks whether a descriptor may be one that the driver exported for an allocation of this
    /// size. Returns the descriptor to import.
    fn check(self, descriptor: OwnedFd, size: u64) -> Result<OwnedFd, String> {
        let file = File::from(descriptor);
        let status = file.metadata().map_err(|error| format!("the descriptor: {error}"))?;
        let (kind, there) = (status.file_type(), status.len());
        let seals = seals(&file);
        match (self, seals) {
            (Self::OfKernel, None) => {
                if kind.is_fifo() || kind.is_socket() || kind.is_dir() || kind.is_block_device() {
                    return Err("the descriptor is not of memory of a device".into());
                }
                Ok(file.into())
            }
            (Self::OfKernel, Some(_)) => {
                Err("the descriptor is of memory of the host, and not of a device".into())
            }
            (Self::Sealed | Self::Memory, None) => {
                Err("the descriptor is not of memory of the host".into())
            }
            (Self::Sealed, Some(seals)) if seals & libc::F_SEAL_SHRINK == 0 => {
                Err("the length of the memory is not sealed".into())
            }
            (Self::Sealed | Self::Memory, Some(_)) if there < size => {
                Err(format!("the memory has {there} bytes, and {size} were announced"))
            }
            (Self::Sealed | Self::Memory, Some(_)) => Ok(opened_anew(file).into()),
        }
    }

    /// The file of a descriptor, where files can be told from each other.
    fn identity(self, descriptor: &OwnedFd) -> Option<(libc::dev_t, libc::ino_t)> {
        match self {
            Self::OfKernel => None,
            Self::Sealed | Self::Memory => identity(descriptor.as_raw_fd()),
        }
    }

    /// Whether a descriptor that could not be imported is still open. The driver of Mesa for the
    /// processor closes it, and then the number may already stand for something else.
    fn is_still(self, number: i32, before: Option<(libc::dev_t, libc::ino_t)>) -> bool {
        match self {
            Self::OfKernel => true,
            Self::Sealed | Self::Memory => before.is_some() && identity(number) == before,
        }
    }
}

/// The file of a descriptor, which may be closed.
fn identity(number: i32) -> Option<(libc::dev_t, libc::ino_t)> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `status` is valid for writes and aligned. A number that is no descriptor is an error.
    if unsafe { libc::fstat(number, status.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: a successful `fstat` has written all of it.
    let status = unsafe { status.assume_init() };
    Some((status.st_dev, status.st_ino))
}

/// The seals of a file of memory. `None` for everything else.
fn seals(file: &File) -> Option<i32> {
    // SAFETY: a question about an open descriptor, without pointers.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    (seals >= 0).then_some(seals)
}

/// Opens the file of a descriptor once more, which gives a descriptor with a position of its own.
///
/// Drivers for the processor set the position and read the beginning of the file. All descriptors
/// that were exported of one allocation have one position, in all processes: while one of them
/// reads, another one may set it.
fn opened_anew(file: File) -> File {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again: io::Result<File> = File::options().read(true).write(true).open(path);
    let is_same = |again: &File| match (again.metadata(), file.metadata()) {
        (Ok(again), Ok(file)) => (again.dev(), again.ino()) == (file.dev(), file.ino()),
        _ => false,
    };
    again.ok().filter(is_same).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_what_an_import_repeats_and_nothing_else() {
        let note = Note { size: 1 << 40, memory_type: 7, is_dedicated: false };
        let bytes = note.to_bytes();
        assert!(bytes.len() <= MemoryHandle::MAX_NOTE);
        assert_eq!(Note::of(&bytes), Some(note));
        for wrong in [&[][..], &bytes[..12], &[&bytes[..], &[0]].concat(), &[9; 13]] {
            assert_eq!(Note::of(wrong), None);
        }
    }
}
