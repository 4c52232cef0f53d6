//! Vulkan by hand, on the same `VkDevice`: one `VkBuffer` for all columns, filled in the ways that
//! there are.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use arrow_device::{Batch, Device};
use arrow_device_vulkan::{Handles, SharedQueue, handles_of};
use ash::vk::{self, Handle};

use super::by_hand::Sources;
use crate::case::{Case, Peer, WorkloadKey};

struct VulkanHand {
    /// Keeps the device, and has the queue's lock.
    handles: Handles,
    vk: ash::Device,
    queue: vk::Queue,
    /// One that the host sees.
    memory_type: u32,
    alignment: usize,
    pool: vk::CommandPool,
    fence: vk::Fence,
    staging: MappedBuffer,
    sources: Sources,
    places: Vec<usize>,
    end: usize,
    /// What was filled before and is free again.
    spare: RefCell<Vec<MappedBuffer>>,
}

/// A buffer, its memory, where the host sees it, and buffers for its parts.
struct MappedBuffer {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    address: *mut u8,
    parts: Vec<vk::Buffer>,
}

/// How the memory is filled.
#[derive(Clone, Copy)]
enum VulkanFill {
    /// From a staging buffer that is there already, a command for each column.
    Copies {
        submit_each: bool,
    },
    Mapped {
        parts: bool,
    },
}

/// All ways, over one batch.
pub(super) fn by_hand(
    what: WorkloadKey,
    device: &Device,
    batch: impl Fn() -> Batch + 'static,
) -> Vec<Case> {
    let made: Rc<OnceCell<VulkanHand>> = Rc::default();
    let batch = Rc::new(batch);
    let ways = [
        ("submit each, blocking", VulkanFill::Copies { submit_each: true }),
        ("copy each, one submit", VulkanFill::Copies { submit_each: false }),
        ("mapped gather", VulkanFill::Mapped { parts: false }),
        ("mapped, handles", VulkanFill::Mapped { parts: true }),
    ];
    let case = |(name, how)| {
        let (made, batch, device) = (made.clone(), batch.clone(), device.clone());
        let hand =
            move || made.get_or_init(|| VulkanHand::new(&device, &batch())) as *const VulkanHand;
        let after = hand.clone();
        // SAFETY: the cell keeps it as long as the case.
        let timed = move |hand: *const VulkanHand| unsafe { &*hand }.fill(how);
        // SAFETY: the cell keeps it as long as the case.
        let after = move |memory| unsafe { &*after() }.free(memory);
        Case::step(what, Peer::ByHand(name), hand, timed, after)
    };
    ways.map(case).into()
}

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw(),
);

fn create_buffer(device: &ash::Device, len: usize) -> vk::Buffer {
    let info = vk::BufferCreateInfo::default().size(len as u64).usage(USAGE);
    // SAFETY: the device is alive; the length is not 0.
    unsafe { device.create_buffer(&info, None) }.unwrap()
}

impl VulkanHand {
    fn new(device: &Device, batch: &Batch) -> Self {
        let handles = handles_of(device).unwrap();
        // SAFETY: the loader's initializers are trusted.
        let entry = unsafe { ash::Entry::load() }.unwrap();
        let instance = vk::Instance::from_raw(handles.instance);
        // SAFETY: the instance is alive, and of the same loader.
        let instance = unsafe { ash::Instance::load(entry.static_fn(), instance) };
        // SAFETY: the instance is alive, and of the same loader.
        let vk =
            unsafe { ash::Device::load(instance.fp_v1_0(), vk::Device::from_raw(handles.device)) };
        let SharedQueue { handle, family, .. } = handles.queues[0].clone();
        let physical = vk::PhysicalDevice::from_raw(handles.physical_device);
        // SAFETY: the physical device is the instance's.
        let types = unsafe { instance.get_physical_device_memory_properties(physical) };
        let visible =
            vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let memory_type = types.memory_types_as_slice().iter();
        let memory_type = memory_type.clone().position(|one| one.property_flags.contains(visible));
        let probe = create_buffer(&vk, 1);
        // SAFETY: it was just made.
        let alignment = unsafe { vk.get_buffer_memory_requirements(probe) }.alignment as usize;
        // SAFETY: nothing uses it.
        unsafe { vk.destroy_buffer(probe, None) };
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(family);
        // SAFETY: the family is one of the device's.
        let pool = unsafe { vk.create_command_pool(&info, None) }.unwrap();
        // SAFETY: the device is alive.
        let fence = unsafe { vk.create_fence(&vk::FenceCreateInfo::default(), None) }.unwrap();
        let sources = Sources::of(batch);
        let (places, end) = sources.places(alignment.max(64));
        let memory_type = memory_type.unwrap() as u32;
        let staging = allocate(&vk, memory_type, end);
        let queue = vk::Queue::from_raw(handle);
        Self {
            handles,
            vk,
            queue,
            memory_type,
            alignment,
            pool,
            fence,
            staging,
            sources,
            places,
            end,
            spare: RefCell::default(),
        }
    }

    /// Fills memory and waits.
    fn fill(&self, how: VulkanFill) -> MappedBuffer {
        let spare = self.spare.borrow_mut().pop();
        let mut memory = spare.unwrap_or_else(|| allocate(&self.vk, self.memory_type, self.end));
        match how {
            VulkanFill::Copies { submit_each } => {
                // SAFETY: the staging buffer has room, and nothing uses it.
                unsafe {
                    self.sources.gather(&self.places, 0..self.places.len(), self.staging.address)
                };
                let regions = self.sources.buffers.iter().zip(&self.places);
                let regions = regions.map(|((_, len), at)| {
                    let at = *at as u64;
                    vk::BufferCopy { src_offset: at, dst_offset: at, size: *len as u64 }
                });
                let regions: Vec<vk::BufferCopy> = regions.collect();
                let each = if submit_each { 1 } else { regions.len() };
                regions.chunks(each).for_each(|regions| self.submit(&memory, regions));
            }
            VulkanFill::Mapped { parts } => {
                // SAFETY: it is mapped, and has room.
                unsafe { self.sources.gather(&self.places, 0..self.places.len(), memory.address) };
                let parts = self.sources.buffers.iter().zip(&self.places).filter(|_| parts);
                let part = |((_, len), at): (&(*const u8, usize), &usize)| {
                    let part = create_buffer(&self.vk, *len);
                    assert_eq!(at % self.alignment, 0);
                    // SAFETY: the memory has room from there on.
                    unsafe { self.vk.bind_buffer_memory(part, memory.memory, *at as u64) }.unwrap();
                    part
                };
                let parts = parts.map(part).collect();
                memory.parts = parts;
            }
        }
        memory
    }

    /// A command for each region, and a wait.
    fn submit(&self, memory: &MappedBuffer, regions: &[vk::BufferCopy]) {
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .command_buffer_count(1);
        // SAFETY: the pool is used on this thread only.
        let commands = unsafe { self.vk.allocate_command_buffers(&info) }.unwrap();
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: it was just made.
        unsafe { self.vk.begin_command_buffer(commands[0], &begin) }.unwrap();
        for region in regions {
            let (from, to, region) =
                (self.staging.buffer, memory.buffer, std::slice::from_ref(region));
            // SAFETY: the region is inside both.
            unsafe { self.vk.cmd_copy_buffer(commands[0], from, to, region) };
        }
        // SAFETY: it is being recorded.
        unsafe { self.vk.end_command_buffer(commands[0]) }.unwrap();
        let submit = vk::SubmitInfo::default().command_buffers(&commands);
        self.handles.queues[0].lock.while_locked(&mut || {
            // SAFETY: the queue's lock is held, and all handles are alive.
            let submitted = unsafe {
                self.vk.queue_submit(self.queue, std::slice::from_ref(&submit), self.fence)
            };
            submitted.unwrap();
        });
        // SAFETY: submitted just now.
        unsafe { self.vk.wait_for_fences(&[self.fence], true, u64::MAX) }.unwrap();
        // SAFETY: it has passed.
        unsafe { self.vk.reset_fences(&[self.fence]) }.unwrap();
        // SAFETY: it has passed.
        unsafe { self.vk.free_command_buffers(self.pool, &commands) };
    }

    fn free(&self, mut memory: MappedBuffer) {
        for part in memory.parts.drain(..) {
            // SAFETY: nothing uses it any more.
            unsafe { self.vk.destroy_buffer(part, None) };
        }
        self.spare.borrow_mut().push(memory);
    }
}

fn allocate(vk: &ash::Device, memory_type: u32, len: usize) -> MappedBuffer {
    let buffer = create_buffer(vk, len);
    // SAFETY: it was just made.
    let needs = unsafe { vk.get_buffer_memory_requirements(buffer) };
    let info = vk::MemoryAllocateInfo::default()
        .allocation_size(needs.size)
        .memory_type_index(memory_type);
    // SAFETY: the type is one of the device's.
    let memory = unsafe { vk.allocate_memory(&info, None) }.unwrap();
    // SAFETY: memory that was made for it.
    unsafe { vk.bind_buffer_memory(buffer, memory, 0) }.unwrap();
    // SAFETY: the host sees memory of this type, and it is not mapped yet.
    let address = unsafe { vk.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
    MappedBuffer { buffer, memory, address: address.unwrap().cast(), parts: Vec::new() }
}
