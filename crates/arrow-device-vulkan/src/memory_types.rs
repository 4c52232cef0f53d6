//! The types of memory of a device, and the record of where a buffer lies.

use std::ptr::NonNull;

use ash::vk;

use crate::external::Origin;

pub(crate) const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);
/// How memory is exported and imported.
pub(crate) const EXTERNAL: vk::ExternalMemoryHandleTypeFlags =
    vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD;
/// The flags of memory that the host can use without telling the driver of each access.
const VISIBLE: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

/// The memory that a buffer is bound to, and where the buffer begins there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferLocation {
    pub(crate) memory: vk::DeviceMemory,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The host's address of the first byte, where the memory is mapped.
    pub(crate) address: Option<NonNull<u8>>,
    pub(crate) origin: Origin,
}

// SAFETY: handles, and an address that is used under the rules of `Driver::map`, which holds on
// every thread.
unsafe impl Send for BufferLocation {}

/// A type of memory that buffers of this crate can be bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryType {
    pub(crate) index: u32,
    /// The size of the whole heap.
    pub(crate) heap: u64,
    pub(crate) is_visible: bool,
}

/// The types of memory to choose from.
pub(crate) struct MemoryTypes {
    all: Vec<(MemoryType, vk::MemoryPropertyFlags)>,
    pub(crate) alignment: u64,
    /// The largest size that one allocation can have.
    pub(crate) largest: u64,
}

impl MemoryTypes {
    /// Lists the types that the buffers of this crate can be bound to.
    pub(crate) fn new(
        device: &ash::Device,
        families: &[u32],
        properties: &vk::PhysicalDeviceMemoryProperties,
        largest: u64,
    ) -> Result<Self, vk::Result> {
        let needs = needs_of_buffers(device, families, false)?;
        let heaps = properties.memory_heaps_as_slice();
        let list = |(index, memory_type): (usize, &vk::MemoryType)| {
            let heap = heaps.get(memory_type.heap_index as usize)?.size;
            // "memoryTypeBits is a bitmask and contains one bit set for every supported memory
            // type", and is the same for all buffers of the same usage.
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

    /// Returns the type with this index, if buffers of this crate can be bound to it.
    #[cfg(target_os = "linux")]
    pub(crate) fn with_index(&self, index: u32) -> Option<MemoryType> {
        self.all.iter().map(|(found, _)| *found).find(|found| found.index == index)
    }

    /// Returns the first type with all of these flags. Drivers list better types first.
    fn find(&self, wanted: vk::MemoryPropertyFlags) -> Option<MemoryType> {
        self.all.iter().find(|(_, flags)| flags.contains(wanted)).map(|(found, _)| *found)
    }

    /// Returns the device's own memory, if the host reads it fast.
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

/// Asks what memory the buffers of this crate need.
pub(crate) fn needs_of_buffers(
    device: &ash::Device,
    families: &[u32],
    is_external: bool,
) -> Result<vk::MemoryRequirements, vk::Result> {
    let probe = create_buffer(device, families, 1, is_external)?;
    // SAFETY: it was just made.
    let needs = unsafe { device.get_buffer_memory_requirements(probe) };
    // SAFETY: the buffer was just made, and nothing uses it.
    unsafe { device.destroy_buffer(probe, None) };
    Ok(needs)
}

/// Makes a buffer with the usages and the sharing mode that all buffers of this crate have.
///
/// A buffer is external if its memory can be exported or was imported: "If the value of
/// VkExportMemoryAllocateInfo::handleTypes used to allocate memory is not 0, it must include at
/// least one of the handles set in VkExternalMemoryBufferCreateInfo::handleTypes when buffer was
/// created".
pub(crate) fn create_buffer(
    device: &ash::Device,
    families: &[u32],
    len: u64,
    is_external: bool,
) -> Result<vk::Buffer, vk::Result> {
    let info = vk::BufferCreateInfo::default().size(len).usage(USAGE);
    let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(EXTERNAL);
    let info = if is_external { info.push_next(&mut external) } else { info };
    let info = match families {
        [] | [_] => info,
        several => info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(several),
    };
    // SAFETY: the device is alive in whoever calls; the length is not 0.
    unsafe { device.create_buffer(&info, None) }
}

/// Returns the address `bytes` further on in the same mapping.
pub(crate) fn advance(address: NonNull<u8>, bytes: u64) -> NonNull<u8> {
    NonNull::new(address.as_ptr().wrapping_add(bytes as usize)).unwrap_or(address)
}
