//! Memory of a logical device: what types there are, allocating, parts of what was allocated, and which `VkBuffer`
//! is where.
//!
//! Vulkan does not tell what a buffer is bound to, so a table does, for all buffers that were made or adopted
//! here. Others' are not in it: of those only the handle is known.

use std::ptr::NonNull;

use arrow_device::{Error, ErrorKind, Result};
use ash::vk::{self, Handle};

use crate::logical::{Logical, lock};
use crate::staging::StagingBuffer;

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);
/// What the host can use without telling the driver of each access.
const VISIBLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

/// Where a buffer lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) memory: vk::DeviceMemory,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Where the host sees its first byte.
    pub(crate) address: Option<NonNull<u8>>,
}

// SAFETY: handles, and an address that is used under the rules of `Driver::map`, which holds on every thread.
unsafe impl Send for Block {}

/// A type of memory that buffers of this crate can be bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryType {
    pub(crate) index: u32,
    /// The whole heap.
    heap: u64,
    pub(crate) is_visible: bool,
}

/// What there is to choose from.
pub(crate) struct MemoryTypes {
    all: Vec<(MemoryType, vk::MemoryPropertyFlags)>,
    pub(crate) alignment: u64,
    /// No allocation is larger.
    pub(crate) largest: u64,
}

impl MemoryTypes {
    /// Those that fit the kind of buffer that is made here.
    pub(crate) fn new(
        device: &ash::Device,
        families: &[u32],
        properties: &vk::PhysicalDeviceMemoryProperties,
        largest: u64,
    ) -> Result<Self, vk::Result> {
        let probe = create_buffer(device, families, 1)?;
        // SAFETY: it was just made.
        let needs = unsafe { device.get_buffer_memory_requirements(probe) };
        // SAFETY: as above, and nothing uses it.
        unsafe { device.destroy_buffer(probe, None) };
        let heaps = properties.memory_heaps_as_slice();
        let list = |(index, memory_type): (usize, &vk::MemoryType)| {
            let heap = heaps.get(memory_type.heap_index as usize)?.size;
            // "memoryTypeBits is a bitmask and contains one bit set for every supported memory type", and is the
            // same for all buffers of the same usage.
            let is_allowed = needs.memory_type_bits.checked_shr(index as u32)? & 1 == 1;
            let flags = memory_type.property_flags;
            let special = vk::MemoryPropertyFlags::PROTECTED
                | vk::MemoryPropertyFlags::LAZILY_ALLOCATED
                | vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD;
            let is_plain = !flags.intersects(special);
            let is_visible = flags.contains(VISIBLE);
            let found = MemoryType { index: index as u32, heap, is_visible };
            (is_allowed && is_plain).then_some((found, flags))
        };
        let types = properties.memory_types_as_slice().iter().enumerate();
        Ok(Self { all: types.filter_map(list).collect(), alignment: needs.alignment, largest })
    }

    /// The first type with all of this; the driver's order says which is better.
    fn find(&self, wanted: vk::MemoryPropertyFlags) -> Option<MemoryType> {
        self.all.iter().find(|(_, flags)| flags.contains(wanted)).map(|(found, _)| *found)
    }

    /// The device's own, if the host reads it fast.
    pub(crate) fn unified(&self) -> Option<MemoryType> {
        let cached = vk::MemoryPropertyFlags::HOST_CACHED;
        self.find(vk::MemoryPropertyFlags::DEVICE_LOCAL | VISIBLE | cached)
    }

    pub(crate) fn device_local(&self) -> Option<MemoryType> {
        let first = || self.all.first().map(|(found, _)| *found);
        self.find(vk::MemoryPropertyFlags::DEVICE_LOCAL).or_else(first)
    }

    pub(crate) fn host_visible(&self) -> Option<MemoryType> {
        let cached = vk::MemoryPropertyFlags::HOST_CACHED;
        self.unified().or_else(|| self.find(VISIBLE | cached)).or_else(|| self.find(VISIBLE))
    }
}

fn create_buffer(
    device: &ash::Device,
    families: &[u32],
    len: u64,
) -> Result<vk::Buffer, vk::Result> {
    let info = vk::BufferCreateInfo::default().size(len).usage(USAGE);
    let info = match families {
        [] | [_] => info,
        several => info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(several),
    };
    // SAFETY: the device is alive in whoever calls; the length is not 0.
    unsafe { device.create_buffer(&info, None) }
}

impl Logical {
    /// Allocates; where the host sees the memory, it does from the start.
    pub(crate) fn allocate_memory(
        &self,
        memory_type: MemoryType,
        len: u64,
    ) -> Result<(vk::Buffer, Block)> {
        // "maxMemoryAllocationSize is the maximum allowed size for a single memory allocation", and no memory type
        // gives more than its heap has; asking for more is a mistake, not a question.
        if len > self.types.largest.min(memory_type.heap) {
            let message = format!("{len} bytes asked for, more than there are in one piece");
            let error = Error::new(ErrorKind::OutOfMemory, message);
            return Err(error.during("allocate").on_device(self.id));
        }
        let buffer = self.check(create_buffer(&self.vk, &self.families, len), "allocate")?;
        let bound = self.bind_new_memory(buffer, memory_type, len);
        bound.map(|block| (buffer, block)).inspect_err(|_| {
            // SAFETY: it was just made, and nothing uses it.
            unsafe { self.vk.destroy_buffer(buffer, None) };
        })
    }

    fn bind_new_memory(
        &self,
        buffer: vk::Buffer,
        memory_type: MemoryType,
        len: u64,
    ) -> Result<Block> {
        // SAFETY: the buffer was just made.
        let needs = unsafe { self.vk.get_buffer_memory_requirements(buffer) };
        // Parts have requirements of their own, which end at a multiple of the alignment.
        let size = needs.size.max(len).next_multiple_of(needs.alignment.max(1));
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(size)
            .memory_type_index(memory_type.index);
        // SAFETY: the type is one of the device's, and the size within its limits.
        let memory = self.check(unsafe { self.vk.allocate_memory(&info, None) }, "allocate")?;
        // SAFETY: memory that was just made for this buffer, with room for it.
        let bound = unsafe { self.vk.bind_buffer_memory(buffer, memory, 0) };
        let mapped = self.check(bound, "allocate").and_then(|()| match memory_type.is_visible {
            true => self.map_memory(memory).map(Some),
            false => Ok(None),
        });
        match mapped {
            Ok(address) => Ok(Block { memory, offset: 0, len, address }),
            Err(error) => {
                // SAFETY: nothing uses it; the buffer that is bound to it is destroyed by the caller and not used
                // before.
                unsafe { self.vk.free_memory(memory, None) };
                Err(error)
            }
        }
    }

    fn map_memory(&self, memory: vk::DeviceMemory) -> Result<NonNull<u8>> {
        let flags = vk::MemoryMapFlags::empty();
        // SAFETY: it was just made of a type that is visible to the host, and is not mapped yet.
        let mapped = unsafe { self.vk.map_memory(memory, 0, vk::WHOLE_SIZE, flags) };
        let address = self.check(mapped, "map")?;
        NonNull::new(address.cast())
            .ok_or_else(|| self.error(ErrorKind::Driver, "it was mapped at address 0"))
    }

    /// # Safety
    /// Nothing uses either any more.
    pub(crate) unsafe fn free_memory(&self, buffer: vk::Buffer, memory: vk::DeviceMemory) {
        // SAFETY: promised by the caller.
        unsafe { self.vk.destroy_buffer(buffer, None) };
        // SAFETY: promised by the caller; freeing unmaps.
        unsafe { self.vk.free_memory(memory, None) };
    }

    pub(crate) fn remember(&self, buffer: vk::Buffer, block: Block) {
        lock(&self.blocks).insert(buffer.as_raw(), block);
    }

    pub(crate) fn forget(&self, buffer: vk::Buffer) -> Option<Block> {
        lock(&self.blocks).remove(&buffer.as_raw())
    }

    pub(crate) fn block_of(&self, buffer: vk::Buffer) -> Option<Block> {
        lock(&self.blocks).get(&buffer.as_raw()).copied()
    }

    /// A buffer for a part of what another one has, bound to the same memory.
    pub(crate) fn part_of(&self, buffer: vk::Buffer, offset: u64, len: u64) -> Result<vk::Buffer> {
        let whole = self.block_of(buffer).ok_or_else(|| {
            let message =
                "it is not known what memory the buffer is bound to: `adopt_memory` takes both";
            self.error(ErrorKind::Unsupported, message)
        })?;
        let begin = whole.offset.saturating_add(offset);
        let is_inside = offset.checked_add(len).is_some_and(|end| end <= whole.len && len > 0);
        if !is_inside || begin % self.types.alignment.max(1) != 0 {
            let message = format!(
                "a part lies inside the whole and begins at a multiple of {}",
                self.types.alignment
            );
            return Err(self.error(ErrorKind::InvalidArgument, message));
        }
        let part = self.check(create_buffer(&self.vk, &self.families, len), "part")?;
        // SAFETY: the memory is alive, says the caller of `Driver::part`. It has room up to the end of the part,
        // rounded up to the alignment, and no buffer needs more ("size is never greater than the result of
        // aligning VkBufferCreateInfo::size with the alignment member").
        let bound = unsafe { self.vk.bind_buffer_memory(part, whole.memory, begin) };
        self.check(bound, "part").inspect_err(|_| {
            // SAFETY: it was just made.
            unsafe { self.vk.destroy_buffer(part, None) };
        })?;
        let address = whole.address.map(|address| advance(address, offset));
        self.remember(part, Block { memory: whole.memory, offset: begin, len, address });
        Ok(part)
    }

    /// A buffer that the host reads and writes.
    pub(crate) fn take_staging(&self, len: u64) -> Result<StagingBuffer> {
        if let Some(spare) = self.spare.take(len) {
            return Ok(spare);
        }
        let memory_type = self.types.host_visible().ok_or_else(|| {
            self.error(ErrorKind::Unsupported, "the device has no memory that the host can see")
        })?;
        // A power of two is more likely to fit the next one, too.
        let len = len.checked_next_power_of_two().unwrap_or(len).max(4096);
        let (buffer, block) = self.allocate_memory(memory_type, len)?;
        match block.address {
            Some(address) => Ok(StagingBuffer { buffer, memory: block.memory, address, len }),
            None => {
                // SAFETY: both were just made.
                unsafe { self.free_memory(buffer, block.memory) };
                Err(self.error(ErrorKind::Unsupported, "the host cannot see the memory"))
            }
        }
    }

    /// Takes staging back that nothing uses any more.
    pub(crate) fn return_staging(&self, buffers: impl IntoIterator<Item = StagingBuffer>) {
        for rest in buffers.into_iter().filter_map(|buffer| self.spare.keep(buffer)) {
            // SAFETY: promised by the caller.
            unsafe { self.free_memory(rest.buffer, rest.memory) };
        }
    }
}

/// So many bytes further on in the same mapping.
pub(crate) fn advance(address: NonNull<u8>, bytes: u64) -> NonNull<u8> {
    NonNull::new(address.as_ptr().wrapping_add(bytes as usize)).unwrap_or(address)
}
