//! Vulkan devices for [`arrow_device`].

mod driver;
mod error;
mod events;
mod handles;
mod lane;
mod loader;
mod logical;
mod memory;
mod own;
mod staging;
mod transfer;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_device::driver::Raw;
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Memory, Result};
use ash::vk::{self, Handle};

use driver::VulkanDriver;
use logical::Logical;
use memory::Block;

pub use handles::{Handles, Placement, SharedQueue, SubmitLock};

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// What [`open`] takes.
    pub index: usize,
    /// Its name, for people.
    pub name: String,
    /// Whether it has what is needed: Vulkan 1.2, timeline semaphores, a queue that computes.
    pub can_open: bool,
}

/// Whether there is a device; where not, the error says why and what to install.
pub fn is_available() -> Result<()> {
    let listed = own::list()?;
    if listed.iter().any(|device| device.can_open) {
        return Ok(());
    }
    let message = match listed.first() {
        None => "Vulkan has no device".to_owned(),
        Some(first) => format!("{} has no Vulkan 1.2 with timeline semaphores", first.name),
    };
    Err(Error::new(ErrorKind::DeviceMissing, message))
}

/// The devices of all drivers, those of the processor included.
pub fn devices() -> Result<Vec<Listed>> {
    own::list()
}

/// Opens a device, with one queue. All who open it in this process share one `VkDevice`, which is kept.
pub fn open(index: usize) -> Result<Device> {
    open_with(index, Placement::Automatic)
}

/// The same, with a choice of memory: [`ErrorKind::Unsupported`] where the device does not have it.
pub fn open_with(index: usize, placement: Placement) -> Result<Device> {
    let logical = own::open(index)?;
    VulkanDriver::new(logical, placement).map(Device::new)
}

/// Opens a device that the application made.
///
/// Opened again, by another library with the same handles, it is the same device: both use its queues under the locks of
/// whoever came first.
///
/// # Safety
/// The handles are those of one instance, of one of its physical devices, and of a device and its queues that were made from
/// it as [`Handles`] says. They are alive until the owner that [`kept_by`](Handles::kept_by) was given is dropped, or without
/// one, as long as anything of the device is there: call [`drain`](arrow_device::drain) before destroying it. Everybody who
/// submits to a queue holds its lock.
pub unsafe fn open_from(handles: Handles, placement: Placement) -> Result<Device> {
    // SAFETY: promised by the caller.
    let logical = unsafe { Logical::of(handles) }?;
    VulkanDriver::new(logical, placement).map(Device::new)
}

/// The open device of an `ArrowDeviceArray`'s `device_id`, which is the value of a `VkDevice`.
///
/// The struct does not tell the instance, the queues and their locks. So the device has to be open in this process already:
/// [`ErrorKind::DeviceMissing`] where it is not.
pub fn open_for(device_id: i64) -> Result<Device> {
    let id = DeviceId::new(DeviceType::VULKAN, device_id);
    Device::find(id).ok_or_else(|| {
        let message = format!(
            "the VkDevice {:#x} is not open here: whoever made it has to give it to `open_from`",
            device_id.cast_unsigned()
        );
        Error::new(ErrorKind::DeviceMissing, message).during("open").on_device(id)
    })
}

/// The handles of an open device, to make pipelines on it and to submit to its queues.
///
/// Whoever submits to a queue holds its lock. [`Queue::raw`](arrow_device::Queue::raw) is the `VkQueue` of a queue.
pub fn handles_of(device: &Device) -> Result<Handles> {
    find(device).map(|logical| logical.handles())
}

/// Where a `VkBuffer` of somebody else's lies.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The `VkBuffer`, with the usages `STORAGE_BUFFER`, `TRANSFER_SRC` and `TRANSFER_DST`.
    pub buffer: u64,
    /// The `VkDeviceMemory` that it is bound to.
    pub memory: u64,
    /// Where in that it begins: a multiple of the device's [`alignment`](arrow_device::driver::Properties::alignment).
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
    /// Where the host sees its first byte, if the memory is coherent and stays mapped.
    pub mapped: Option<NonNull<c_void>>,
}

/// Memory that somebody else allocated, such as the application's allocator: for an
/// [`Allocator`](arrow_device::Allocator) of one's own.
///
/// [`Memory::adopt`](arrow_device::Memory::adopt) knows the buffer alone. This one knows what it is bound to as well, so that the
/// host can fill it and parts of it can get buffers of their own.
///
/// # Safety
/// All of it is true of a buffer that is alive and that nobody else uses until `owner` is dropped. The memory has room up to the
/// next multiple of the alignment, and is of a type that such buffers can be bound to.
pub unsafe fn adopt_memory(
    device: &Device,
    binding: Binding,
    owner: impl Send + Sync + 'static,
) -> Result<Memory> {
    let logical = find(device)?;
    let Binding { buffer, memory, offset, len, mapped } = binding;
    let alignment = device.properties().alignment as u64;
    if buffer == 0 || memory == 0 || len == 0 || offset % alignment != 0 {
        let message = format!("{binding:?} is not a buffer at a multiple of {alignment}");
        return Err(logical.error(ErrorKind::InvalidArgument, message).during("adopt_memory"));
    }
    let memory = vk::DeviceMemory::from_raw(memory);
    let block = Block { memory, offset, len, address: mapped.map(NonNull::cast) };
    logical.remember(vk::Buffer::from_raw(buffer), block);
    let owner = Adopted { logical, buffer: vk::Buffer::from_raw(buffer), _owner: owner };
    // SAFETY: promised by the caller.
    Ok(unsafe { Memory::adopt(device, Raw::from_bits(buffer as usize), len, owner) })
}

/// Forgets a buffer before it goes back to its owner.
struct Adopted<T> {
    logical: Arc<Logical>,
    buffer: vk::Buffer,
    _owner: T,
}

impl<T> Drop for Adopted<T> {
    fn drop(&mut self) {
        self.logical.forget(self.buffer);
    }
}

fn find(device: &Device) -> Result<Arc<Logical>> {
    let id = device.id();
    let found = (id.device_type == DeviceType::VULKAN)
        .then(|| Logical::find(id.id.cast_unsigned()))
        .flatten();
    found.ok_or_else(|| {
        let message = "it is not a Vulkan device of this crate";
        Error::new(ErrorKind::InvalidArgument, message).on_device(id)
    })
}
