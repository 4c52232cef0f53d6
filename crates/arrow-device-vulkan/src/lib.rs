//! Vulkan devices for [`arrow_device`]: Arrow data in `VkBuffer`s, ordered by `VkEvent`s.
//!
//! Nothing is linked. The Vulkan loader (`libvulkan.so.1`, `vulkan-1.dll`) is loaded by the first
//! call. A machine without a loader or without a driver gets an error that says what to install.
//!
//! ```
//! if let Err(why) = arrow_device_vulkan::is_available() {
//!     println!("no Vulkan here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_vulkan::open(0)?;
//! let queue = device.open_queue()?;
//! let array =
//!     arrow_device::Array::from_values(arrow_device::DataType::Int32, [Some(1), None])?;
//! let there = array.copy_to(&queue)?;
//! assert_eq!(there.device(), device.id());
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # What both sides agree on
//!
//! | member of `ArrowDeviceArray` | what it is |
//! |---|---|
//! | `device_type` | `ARROW_DEVICE_VULKAN`, 7 |
//! | `buffers[i]` | a `VkBuffer`, with the usages `STORAGE_BUFFER`, `TRANSFER_SRC` and `TRANSFER_DST`; shared by the families of all queues that were given, or exclusive where these are of one family. Never an offset into one |
//! | `device_id` | the value of the `VkDevice` handle |
//! | `sync_event` | null, or a pointer to a `VkEvent`, which is set by a command behind a full barrier, from all commands (`VK_PIPELINE_STAGE_ALL_COMMANDS_BIT`). The host may ask for its status: it is not made with `VK_EVENT_CREATE_DEVICE_ONLY_BIT` |
//!
//! Both sides use one `VkDevice`, its queues and their locks. The struct tells none of these, so
//! the application gives them to all libraries: [`open_from`] takes them, and afterwards
//! [`open_for`] finds the device of an array by its number. An application without a device of its
//! own gets one from [`open`], and passes the result of [`handles_of`] on to other libraries.
//!
//! # An engine's own device
//!
//! ```no_run
//! # let engine = || (1, 2, 3, 4, 0);
//! use std::sync::{Arc, Mutex};
//!
//! use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
//! use arrow_device::{Array, Schema};
//! use arrow_device_vulkan::{Handles, Placement, open_from};
//!
//! # let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
//! // The handles as numbers: `as_raw()` in ash.
//! let (instance, physical_device, device, queue, family) = engine();
//! let lock = Arc::new(Mutex::new(()));
//! let handles = Handles::new(instance, physical_device, device)
//!     .with_queue(queue, family, lock.clone());
//! // SAFETY: they are alive, were made for Vulkan 1.2 with timeline semaphores, and the engine
//! // holds the lock, too.
//! let device = unsafe { open_from(handles, Placement::Automatic) }?;
//! let queue = device.open_queue()?;
//!
//! // An array from somebody who was given the same device.
//! // SAFETY: the structs were filled by a producer that keeps to the interface.
//! let schema = unsafe { Schema::import(&mut c_schema) }?;
//! let array = unsafe { Array::import(&mut c_array, &schema) }?;
//! // From here on the `VkQueue` is behind the array's event.
//! let view = array.on(&queue)?;
//! let buffer = view.buffer(1).location().spot().base.bits(); // a `VkBuffer`, to be bound
//! {
//!     let _locked = lock.lock();
//!     // vkQueueSubmit(queue.raw().bits(), ...)
//! }
//! // The use ends here: the buffers are kept until the queue has passed what was submitted.
//! drop(view);
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! The device needs Vulkan 1.2 and the feature `timelineSemaphore`.
//!
//! # Queues
//!
//! [`Queue::raw`](arrow_device::Queue::raw) is a `VkQueue`. The order of the queue is that of
//! submission, by this crate and by others. The commands that this crate submits stand between full
//! barriers, so they are in order with all that was submitted before and will be submitted later.
//! Barriers between the application's own commands are left to the application. The queues that
//! were given take turns in [`open_queue`](arrow_device::Device::open_queue): with one queue all
//! callers share it. A device of [`open`] has one queue.
//!
//! A thread that holds a queue's [lock](SubmitLock) must not call this library, which takes the
//! lock for its own submissions.
//!
//! # Waiting
//!
//! The queues of a device wait for each other by timeline semaphores, for all events that were made
//! by this crate. For another library's `VkEvent` the struct does not tell which queue sets it, and
//! events may not cross queues. So the host waits, asking again and again. A device that is known
//! to have one queue ([`open`], [`Handles::with_all_queues`]) waits for such an event by a command.
//! The work that sets an event has to be submitted before the array is exported. An event that is
//! [adopted](arrow_device::Event::adopt) has to stay alive until the queues that wait for it have
//! passed it.
//!
//! # Memory
//!
//! Each allocation is a `VkDeviceMemory` with a `VkBuffer`. The buffers of an array that was copied
//! to the device are several `VkBuffer`s, bound to one memory. Where the number of allocations
//! matters, give the device an [allocator](arrow_device::Device::with_allocator):
//! [`Recycler`](arrow_device::Recycler), or your own with [`adopt_memory`].
//!
//! [`Placement`] chooses whether the host reads and writes the memory in place, or through staging
//! buffers. Host memory that is the source of a copy is read when the copy is submitted. Host
//! memory that is the target of a copy is written before this library says that the copy has
//! passed: the first thread that learns that the copy has passed empties the staging buffer.
//! Buffers that others made are read through staging buffers, also where their memory is mapped,
//! because Vulkan does not tell what memory a buffer has.
//!
//! # Other processes
//!
//! On Linux, memory that is allocated by a device of
//! [`Device::shareable`](arrow_device::Device::shareable) can be opened by another process, by the
//! extension `VK_KHR_external_memory_fd` with opaque descriptors. Devices of [`open`] have the
//! extension where the driver has it. An application that passes its own device says so by
//! [`Handles::with_external_memory`]. The driver has to export and import buffers that are not
//! dedicated to one memory. The other process needs a device with the same `deviceUUID` and
//! `driverUUID`: the same physical device, driven by the same build of the driver.
//!
//! Vulkan trusts both processes, so [sharing needs
//! trust](arrow_device::Device::sharing_needs_trust):
//!
//! * Whoever has a descriptor can write to the memory, and memory cannot be fixed.
//! * A descriptor is taken for what it is said to be. Before a descriptor is imported, this crate
//!   compares what the exporter says of it (the size of the allocation, the type of the memory)
//!   with what this device would have allocated for as many bytes. For drivers that run on the
//!   processor, the descriptor has to be a file of memory that is long enough, and for Mesa's
//!   driver the length of that file has to be sealed. For other drivers the descriptor may not be a
//!   file of memory, a pipe, a socket, a folder or a block device. The kernel tells drivers of GPUs
//!   whether a descriptor is of their memory.
//! * What remains: the driver of Mesa for the processor (lavapipe) keeps the length of the mapping,
//!   and where in it the memory begins, in the file itself, and reads both when the memory is
//!   imported and when it is freed, in both processes. It recognises its files by a constant that
//!   every process can read. So a peer that forges such a file, or writes to the beginning of a
//!   real one, can make the other process read or unmap other addresses than those of the memory.
//!   The files of SwiftShader are not sealed: a peer that shortens one ends the other process with
//!   SIGBUS when the other process reads the memory.
//!
//! Vulkan wants the ownership of a buffer to be transferred to the other process and back, by
//! commands. Both sides read at the same time here, so there are no such commands: drivers use them
//! for images, whose bytes they arrange in ways of their own, and the bytes of buffers have no
//! other arrangement.
//!
//! # A device that is lost
//!
//! A lost device stays lost: copies, waits and questions are an [`ErrorKind::DeviceLost`], and
//! everything that was kept for its queues is released.

mod driver;
mod error;
mod events;
mod external;
mod handles;
mod lane;
mod loader;
mod logical;
mod memory;
mod memory_types;
mod outstanding;
mod own;
#[cfg(target_os = "linux")]
mod sharing;
mod staging;
mod transfer;

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_device::driver::Raw;
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Memory, Result};
use ash::vk::{self, Handle};

use driver::VulkanDriver;
use external::Origin;
use logical::Logical;
use memory_types::BufferLocation;

pub use handles::{Handles, Placement, SharedQueue, SubmitLock};

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The index for [`open`].
    pub index: usize,
    /// The name of the device, for people.
    pub name: String,
    /// How many bytes of its own memory the device has, or of the host's memory if it has none of
    /// its own.
    pub memory: u64,
    /// The version of the driver, in the driver's words.
    pub driver_version: String,
    /// Whether the device has what this crate needs: Vulkan 1.2, timeline semaphores, and a queue
    /// that computes.
    pub can_open: bool,
}

/// Checks whether there is a device. The error says why there is none and what to install.
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

/// Lists the devices of all drivers, including those that run on the processor.
pub fn devices() -> Result<Vec<Listed>> {
    own::list()
}

/// Opens a device with one queue. All who open a device in this process share one `VkDevice`, which
/// is kept.
pub fn open(index: usize) -> Result<Device> {
    open_with(index, Placement::Automatic)
}

/// Opens a device, as [`open`] does, with this placement of memory. It is
/// [`ErrorKind::Unsupported`] where the device does not have such memory.
pub fn open_with(index: usize, placement: Placement) -> Result<Device> {
    let logical = own::open(index)?;
    VulkanDriver::new(logical, placement, None).map(Device::new)
}

/// Opens a device that the application made.
///
/// If the handles were opened before, by this or another library, the result is the same device:
/// both use its queues under the locks of the first opening.
///
/// # Safety
/// The handles are those of one instance, of one of its physical devices, and of a device and its
/// queues that were made from it as [`Handles`] says. They are alive until the owner that
/// [`kept_by`](Handles::kept_by) was given is dropped, or without one, as long as anything of the
/// device is there (UNS-29): call
/// [`wait_until_released`](arrow_device::deferred::wait_until_released) before destroying it.
/// Everybody who submits to a queue holds its lock (UNS-30).
pub unsafe fn open_from(handles: Handles, placement: Placement) -> Result<Device> {
    let owner = handles.owner.clone();
    // SAFETY: UNS-29 and UNS-30, which the caller promises.
    let logical = unsafe { Logical::of(handles) }?;
    VulkanDriver::new(logical, placement, owner).map(Device::new)
}

/// Finds the open device of an `ArrowDeviceArray`'s `device_id`, which is the value of a
/// `VkDevice`.
///
/// The struct does not tell the instance, the queues and their locks. So the device has to be open
/// in this process already. Otherwise this is [`ErrorKind::DeviceMissing`].
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

/// Returns the handles of an open device, to make pipelines on it and to submit to its queues.
///
/// Hold a queue's lock while submitting to it. [`Queue::raw`](arrow_device::Queue::raw) is the
/// `VkQueue` of a queue.
pub fn handles_of(device: &Device) -> Result<Handles> {
    find(device).map(|logical| logical.handles())
}

/// Where a `VkBuffer` lies that the application made.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The `VkBuffer`, with the usages `STORAGE_BUFFER`, `TRANSFER_SRC` and `TRANSFER_DST`.
    pub buffer: u64,
    /// The `VkDeviceMemory` that the buffer is bound to.
    pub memory: u64,
    /// Where in the memory the buffer begins: a multiple of the device's
    /// [`alignment`](arrow_device::driver::Properties::alignment).
    pub offset: u64,
    /// How many bytes the buffer has.
    pub len: u64,
    /// The host's address of the first byte, if the memory is coherent and stays mapped.
    pub mapped: Option<NonNull<c_void>>,
}

/// Adopts memory that the application allocated, for an [`Allocator`](arrow_device::Allocator) of
/// its own.
///
/// [`Memory::adopt`](arrow_device::Memory::adopt) knows only the buffer. This function also knows
/// the memory that the buffer is bound to, so the host can read it in place, and parts of it can
/// get buffers of their own.
///
/// # Safety
/// Every member of `binding` is true of a buffer that is alive and that nobody else uses until
/// `owner` is dropped (UNS-18). The memory has room up to the next multiple of the alignment, and
/// is of a type that buffers of these usages can be bound to.
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
    let address = mapped.map(NonNull::cast);
    let block = BufferLocation { memory, offset, len, address, origin: Origin::Own };
    logical.remember(vk::Buffer::from_raw(buffer), block);
    let owner = Adopted { logical, buffer: vk::Buffer::from_raw(buffer), _owner: owner };
    // SAFETY: UNS-18, which the caller promises.
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
    loader::enter()?;
    let id = device.id();
    let found = (id.device_type == DeviceType::VULKAN)
        .then(|| Logical::find(id.id.cast_unsigned()))
        .flatten();
    found.ok_or_else(|| {
        let message = "it is not a Vulkan device of this crate";
        Error::new(ErrorKind::InvalidArgument, message).on_device(id)
    })
}
