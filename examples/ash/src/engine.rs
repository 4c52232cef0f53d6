//! What an application with `ash` has anyway: a device with a queue, buffers, and submissions.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

type Attempt<T> = Result<T, Box<dyn Error>>;

/// A device with one queue, destroyed with its instance when nobody has a share of it.
pub(crate) struct Engine {
    _entry: ash::Entry,
    pub(crate) instance: ash::Instance,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) device: ash::Device,
    pub(crate) family: u32,
    pub(crate) queue: vk::Queue,
    /// Held by whoever submits to the queue.
    pub(crate) lock: Arc<Mutex<()>>,
}

/// A buffer with memory that the host sees.
pub(crate) struct HostBuffer {
    engine: Arc<Engine>,
    pub(crate) handle: vk::Buffer,
    memory: vk::DeviceMemory,
}

/// Commands that were submitted.
pub(crate) struct Submitted {
    engine: Arc<Engine>,
    pool: vk::CommandPool,
    fence: vk::Fence,
}

impl Engine {
    /// The first device that computes.
    pub(crate) fn new() -> Attempt<Arc<Self>> {
        // SAFETY: the Vulkan loader.
        let entry = unsafe { ash::Entry::load() }?;
        // What arrow-device-vulkan asks for: Vulkan 1.2, and `timelineSemaphore` below.
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: everything that the description points to is alive.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance is alive.
        let all = unsafe { instance.enumerate_physical_devices() }?;
        let physical = *all.first().ok_or("no device")?;
        // SAFETY: the device was just listed.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let computes = |family: &vk::QueueFamilyProperties| {
            family.queue_flags.contains(vk::QueueFlags::COMPUTE)
        };
        let family = families.iter().position(computes).ok_or("no queue computes")? as u32;
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(family)
            .queue_priorities(&[1.0])];
        let mut timeline =
            vk::PhysicalDeviceTimelineSemaphoreFeatures::default().timeline_semaphore(true);
        let info =
            vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut timeline);
        // SAFETY: everything that the description points to is alive.
        let device = unsafe { instance.create_device(physical, &info, None) }?;
        // SAFETY: one queue of this family was asked for.
        let queue = unsafe { device.get_device_queue(family, 0) };
        let lock = Arc::default();
        Ok(Arc::new(Self { _entry: entry, instance, physical, device, family, queue, lock }))
    }

    /// A buffer with the usages that arrays need.
    pub(crate) fn buffer(self: &Arc<Self>, size: u64) -> Attempt<HostBuffer> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: the device is alive.
        let handle = unsafe { self.device.create_buffer(&info, None) }?;
        // SAFETY: the buffer was just made.
        let needs = unsafe { self.device.get_buffer_memory_requirements(handle) };
        // SAFETY: the device was listed by this instance.
        let types = unsafe { self.instance.get_physical_device_memory_properties(self.physical) };
        let wanted = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let fits = |(index, kind): &(usize, &vk::MemoryType)| {
            needs.memory_type_bits >> index & 1 == 1 && kind.property_flags.contains(wanted)
        };
        let kind = types.memory_types_as_slice().iter().enumerate().find(fits);
        let index = kind.ok_or("the host sees no memory")?.0 as u32;
        let info =
            vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
        // SAFETY: the type is one of the device's.
        let memory = unsafe { self.device.allocate_memory(&info, None) }?;
        // SAFETY: the memory has the size and the type that the buffer needs.
        unsafe { self.device.bind_buffer_memory(handle, memory, 0) }?;
        Ok(HostBuffer { engine: self.clone(), handle, memory })
    }

    /// Records and submits commands, and does not wait.
    pub(crate) fn submit(
        self: &Arc<Self>,
        record: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Attempt<Submitted> {
        let device = &self.device;
        // SAFETY: the device is alive.
        let fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }?;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
        // SAFETY: the family is one of the device's.
        let pool = unsafe { device.create_command_pool(&info, None) }?;
        let info =
            vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
        // SAFETY: the pool was just made.
        let made = unsafe { device.allocate_command_buffers(&info) }?;
        let commands = *made.first().ok_or("no commands")?;
        // SAFETY: the commands were just made.
        unsafe { device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()) }?;
        record(device, commands);
        // SAFETY: the commands are being recorded.
        unsafe { device.end_command_buffer(commands) }?;
        let made = [commands];
        let batch = [vk::SubmitInfo::default().command_buffers(&made)];
        let _locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock is held, and the handles are alive.
        unsafe { device.queue_submit(self.queue, &batch, fence) }?;
        Ok(Submitted { engine: self.clone(), pool, fence })
    }
}

impl HostBuffer {
    /// The first numbers of the buffer.
    pub(crate) fn read(&self, count: usize) -> Attempt<Vec<u32>> {
        let (device, flags) = (&self.engine.device, vk::MemoryMapFlags::empty());
        // SAFETY: the memory is the host's to see, and is mapped once.
        let mapped = unsafe { device.map_memory(self.memory, 0, vk::WHOLE_SIZE, flags) }?;
        // SAFETY: the memory has so many numbers, which a command has written that has passed.
        let values = unsafe { std::slice::from_raw_parts(mapped.cast::<u32>(), count) }.to_vec();
        // SAFETY: the memory is mapped.
        unsafe { device.unmap_memory(self.memory) };
        Ok(values)
    }
}

impl Submitted {
    /// Waits until the commands have passed.
    pub(crate) fn wait(&self) -> Attempt<()> {
        // SAFETY: the fence is one of the device's.
        Ok(unsafe { self.engine.device.wait_for_fences(&[self.fence], true, u64::MAX) }?)
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        let _ = self.wait();
        // SAFETY: the commands have passed.
        unsafe { self.engine.device.destroy_command_pool(self.pool, None) };
        // SAFETY: the commands have passed.
        unsafe { self.engine.device.destroy_fence(self.fence, None) };
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: whoever drops this has waited for what used the buffer.
        unsafe { self.engine.device.destroy_buffer(self.handle, None) };
        // SAFETY: the buffer is gone.
        unsafe { self.engine.device.free_memory(self.memory, None) };
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: all that was made of the device has a share of this, and is gone.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: the device is gone.
        unsafe { self.instance.destroy_instance(None) };
    }
}
