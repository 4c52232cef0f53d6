//! Memory of a logical device: allocations, parts of them, and the table of where each `VkBuffer`
//! lies.
//!
//! Vulkan does not tell what memory a buffer is bound to. So a table has the place of each buffer
//! that was made or adopted here. Of buffers of others only the handles are known.

use std::ptr::NonNull;

use arrow_device::{Error, ErrorKind, Result};
use ash::vk::{self, Handle};

use crate::external::{Exportable, Origin};
use crate::logical::{Logical, lock};
use crate::memory_types::{BufferLocation, EXTERNAL, MemoryType, advance, create_buffer};
use crate::staging::{STAGED_AT_ONCE, StagingBuffer};

impl Logical {
    /// Allocates memory with a buffer. Memory that the host can see is mapped from the start. With
    /// `is_external`, it can be exported.
    pub(crate) fn allocate_memory(
        &self,
        memory_type: MemoryType,
        len: u64,
        is_external: bool,
    ) -> Result<(vk::Buffer, BufferLocation)> {
        let (buffer, size) = self.new_buffer(memory_type, len, is_external)?;
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(EXTERNAL);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(size)
            .memory_type_index(memory_type.index);
        let info = if is_external { info.push_next(&mut export) } else { info };
        // SAFETY: the type is one of the device's, and the size within its limits.
        let memory = self.check(unsafe { self.vk.allocate_memory(&info, None) }, "allocate");
        let origin = match is_external {
            true => Origin::Exportable(Exportable {
                buffer,
                len,
                size,
                memory_type: info.memory_type_index,
            }),
            false => Origin::Own,
        };
        let bound = memory.and_then(|memory| self.bind(buffer, memory, memory_type, len, origin));
        bound.map(|block| (buffer, block)).inspect_err(|_| {
            // SAFETY: it was just made, and nothing uses it.
            unsafe { self.vk.destroy_buffer(buffer, None) };
        })
    }

    /// Makes a buffer. Returns it with the size of the allocation that it needs.
    pub(crate) fn new_buffer(
        &self,
        memory_type: MemoryType,
        len: u64,
        is_external: bool,
    ) -> Result<(vk::Buffer, u64)> {
        // "maxMemoryAllocationSize is the maximum allowed size for a single memory allocation", and
        // no memory type has more than its heap. Vulkan does not allow asking for more.
        if len > self.types.largest.min(memory_type.heap) {
            let message = format!("{len} bytes asked for, more than there are in one piece");
            let error = Error::new(ErrorKind::OutOfMemory, message);
            return Err(error.during("allocate").on_device(self.id));
        }
        let buffer = create_buffer(&self.vk, &self.families, len, is_external);
        let buffer = self.check(buffer, "allocate")?;
        // SAFETY: the buffer was just made.
        let needs = unsafe { self.vk.get_buffer_memory_requirements(buffer) };
        // The buffers of parts have requirements of their own, which end at a multiple of the
        // alignment.
        Ok((buffer, needs.size.max(len).next_multiple_of(needs.alignment.max(1))))
    }

    /// Binds a buffer of [`new_buffer`](Self::new_buffer) to memory of its own, which is freed
    /// where that fails.
    pub(crate) fn bind(
        &self,
        buffer: vk::Buffer,
        memory: vk::DeviceMemory,
        memory_type: MemoryType,
        len: u64,
        origin: Origin,
    ) -> Result<BufferLocation> {
        // SAFETY: memory that was just made for this buffer, with room for it.
        let bound = unsafe { self.vk.bind_buffer_memory(buffer, memory, 0) };
        let mapped = self.check(bound, "allocate").and_then(|()| match memory_type.is_visible {
            true => self.map_memory(memory).map(Some),
            false => Ok(None),
        });
        match mapped {
            Ok(address) => Ok(BufferLocation { memory, offset: 0, len, address, origin }),
            Err(error) => {
                // SAFETY: nothing uses it; the buffer that is bound to it is destroyed by the
                // caller and not used before.
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
        // SAFETY: nothing uses either any more, as the caller promises.
        unsafe { self.vk.destroy_buffer(buffer, None) };
        // SAFETY: nothing uses either any more, as the caller promises; freeing unmaps.
        unsafe { self.vk.free_memory(memory, None) };
    }

    pub(crate) fn remember(&self, buffer: vk::Buffer, block: BufferLocation) {
        lock(&self.blocks).insert(buffer.as_raw(), block);
    }

    pub(crate) fn forget(&self, buffer: vk::Buffer) -> Option<BufferLocation> {
        lock(&self.blocks).remove(&buffer.as_raw())
    }

    pub(crate) fn block_of(&self, buffer: vk::Buffer) -> Option<BufferLocation> {
        lock(&self.blocks).get(&buffer.as_raw()).copied()
    }

    /// Makes a buffer for a part of another buffer, bound to the same memory.
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
        let part = create_buffer(&self.vk, &self.families, len, whole.origin.is_external());
        let part = self.check(part, "part")?;
        // SAFETY: the memory is alive, says the caller of `Driver::part`. It has room up to the end
        // of the part, rounded up to the alignment, and no buffer needs more ("size is never
        // greater than the result of aligning VkBufferCreateInfo::size with the alignment member").
        let bound = unsafe { self.vk.bind_buffer_memory(part, whole.memory, begin) };
        self.check(bound, "part").inspect_err(|_| {
            // SAFETY: it was just made.
            unsafe { self.vk.destroy_buffer(part, None) };
        })?;
        let address = whole.address.map(|address| advance(address, offset));
        self.remember(part, BufferLocation { offset: begin, len, address, ..whole });
        Ok(part)
    }

    /// Returns a buffer that the host reads and writes.
    pub(crate) fn take_staging(&self, len: u64) -> Result<StagingBuffer> {
        // A size that is a power of two fits the next copy too. For a large buffer that would waste
        // memory. Copies pass in pieces, so a large buffer is for a mapping.
        let len = match len {
            0..=STAGED_AT_ONCE => len.next_power_of_two().max(4096),
            _ => len.checked_next_multiple_of(1 << 20).unwrap_or(len),
        };
        if let Some(spare) = self.spare.take(len) {
            return Ok(spare);
        }
        let memory_type = self.types.host_visible().ok_or_else(|| {
            self.error(ErrorKind::Unsupported, "the device has no memory that the host can see")
        })?;
        let (buffer, block) = self.allocate_memory(memory_type, len, false)?;
        match block.address {
            Some(address) => Ok(StagingBuffer { buffer, memory: block.memory, address, len }),
            None => {
                // SAFETY: both were just made.
                unsafe { self.free_memory(buffer, block.memory) };
                Err(self.error(ErrorKind::Unsupported, "the host cannot see the memory"))
            }
        }
    }

    /// Takes back staging buffers that nothing uses any more.
    pub(crate) fn return_staging(&self, buffers: impl IntoIterator<Item = StagingBuffer>) {
        for rest in buffers.into_iter().flat_map(|buffer| self.spare.keep(buffer)) {
            // SAFETY: a staging buffer that is passed by value has no other user: whoever gave it
            // back has seen its copies pass, or has submitted none.
            unsafe { self.free_memory(rest.buffer, rest.memory) };
        }
    }
}
