//! A Vulkan loader with something in between: calls that fail when told to, and a second queue.
//!
//! Vulkan's functions carry no state for whoever comes between, so that there is one set of orders
//! for a process: tests that give some have a process of their own.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex};

use arrow_device_vulkan::{Handles, SubmitLock};
use ash::vk;

/// Calls that may fail are counted down, and the one at 0 fails with `CODE`; if `FOR_EVER`, so do
/// all after it.
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);
static CODE: AtomicI32 = AtomicI32::new(0);
static FOR_EVER: AtomicI32 = AtomicI32::new(0);
/// Semaphores that the second queue was told to wait for.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// Whether a watched lock is held, and how many submissions came without it.
static IS_HELD: AtomicBool = AtomicBool::new(false);
static UNLOCKED: AtomicU64 = AtomicU64::new(0);
/// How many submissions were made.
static SUBMISSIONS: AtomicU64 = AtomicU64::new(0);
/// How many of them the second calls of a lock made that submits twice.
static SECOND_SUBMISSIONS: AtomicU64 = AtomicU64::new(0);
/// How many allocations were made, and how large the largest was.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicU64 = AtomicU64::new(0);
/// Whether the families of queues say that they only transfer.
static TRANSFERS_ONLY: AtomicBool = AtomicBool::new(false);
/// What was recorded, a letter for each command.
static COMMANDS_SEEN: Mutex<String> = Mutex::new(String::new());

/// From now on the call after so many fails.
pub(crate) fn fail_after(calls: i64, code: vk::Result) {
    FOR_EVER.store(0, SeqCst);
    CODE.store(code.as_raw(), SeqCst);
    LEFT.store(calls, SeqCst);
}

/// From now on every call fails.
pub(crate) fn fail_always(code: vk::Result) {
    fail_after(0, code);
    FOR_EVER.store(1, SeqCst);
}

/// From now on none fails; returns whether one did.
pub(crate) fn obey() -> bool {
    LEFT.swap(i64::MAX, SeqCst) < 0
}

pub(crate) fn waits() -> u64 {
    WAITS.load(SeqCst)
}

/// How many submissions came without the lock of a [`watched`] queue.
pub(crate) fn unlocked() -> u64 {
    UNLOCKED.swap(0, SeqCst)
}

/// From now on allocations are counted.
pub(crate) fn count_allocations() {
    ALLOCATIONS.store(0, SeqCst);
    LARGEST.store(0, SeqCst);
}

/// How many allocations were made, and how large the largest was.
pub(crate) fn allocations() -> (usize, u64) {
    (ALLOCATIONS.load(SeqCst), LARGEST.load(SeqCst))
}

/// What was recorded since the last time: `(` begins, `)` ends, `|` is a full barrier, `c` a copy,
/// `s` sets an event.
pub(crate) fn commands_seen() -> String {
    std::mem::take(&mut COMMANDS_SEEN.lock().unwrap())
}

/// Says from now on whether queues only transfer.
pub(crate) fn set_transfers_only(transfers_only: bool) {
    TRANSFERS_ONLY.store(transfers_only, SeqCst);
}

fn see(command: char) {
    COMMANDS_SEEN.lock().unwrap().push(command);
}

struct Watched(Arc<dyn SubmitLock>);

impl SubmitLock for Watched {
    fn while_locked(&self, submit: &mut dyn FnMut()) {
        self.0.while_locked(&mut || {
            IS_HELD.store(true, SeqCst);
            submit();
            IS_HELD.store(false, SeqCst);
        });
    }
}

/// The same device, with an eye on its queue's lock.
pub(crate) fn watched(mut handles: Handles) -> Handles {
    for queue in &mut handles.queues {
        queue.lock = Arc::new(Watched(queue.lock.clone()));
    }
    hooked(handles)
}

/// A lock that calls twice what it is to call once.
struct Twice(Arc<dyn SubmitLock>);

impl SubmitLock for Twice {
    fn while_locked(&self, submit: &mut dyn FnMut()) {
        self.0.while_locked(&mut || {
            submit();
            let first = SUBMISSIONS.load(SeqCst);
            submit();
            SECOND_SUBMISSIONS.fetch_add(SUBMISSIONS.load(SeqCst) - first, SeqCst);
        });
    }
}

/// The same device, whose queue's lock submits twice.
pub(crate) fn locked_twice(mut handles: Handles) -> Handles {
    for queue in &mut handles.queues {
        queue.lock = Arc::new(Twice(queue.lock.clone()));
    }
    hooked(handles)
}

/// How many submissions the first calls and the second calls of a lock that submits twice made.
pub(crate) fn submissions() -> [u64; 2] {
    let second = SECOND_SUBMISSIONS.load(SeqCst);
    [SUBMISSIONS.load(SeqCst) - second, second]
}

fn failure() -> Option<vk::Result> {
    let left = LEFT.fetch_sub(1, SeqCst);
    let fails = left == 0 || (left < 0 && FOR_EVER.load(SeqCst) == 1);
    fails.then(|| vk::Result::from_raw(CODE.load(SeqCst)))
}

/// The same device, called through what is here.
pub(crate) fn hooked(mut handles: Handles) -> Handles {
    let entry = unsafe { ash::Entry::load() }.unwrap();
    REAL.0.store(entry.static_fn().get_instance_proc_addr as *mut c_void, SeqCst);
    std::mem::forget(entry);
    let loader: vk::PFN_vkGetInstanceProcAddr = instance_proc_addr;
    handles.loader = NonNull::new(loader as *mut c_void);
    handles
}

/// The same with a second queue, which is the first one by another name.
pub(crate) fn with_two_queues(handles: Handles) -> Handles {
    let first = handles.queues.first().unwrap().clone();
    hooked(handles).with_queue(first.handle | 1, first.family, first.lock)
}

struct Real(AtomicPtr<c_void>);

static REAL: Real = Real(AtomicPtr::new(std::ptr::null_mut()));
static DEVICE_PROC_ADDR: Real = Real(AtomicPtr::new(std::ptr::null_mut()));

impl Real {
    fn keep(&self, found: vk::PFN_vkVoidFunction) {
        let address = found.map_or(std::ptr::null_mut(), |function| function as *mut c_void);
        self.0.store(address, SeqCst);
    }

    /// # Safety
    /// `F` is the function's type.
    unsafe fn get<F: Copy>(&self) -> F {
        let address = self.0.load(SeqCst);
        assert!(!address.is_null());
        unsafe { std::mem::transmute_copy(&address) }
    }
}

fn void<F: Copy>(function: F) -> vk::PFN_vkVoidFunction {
    assert_eq!(size_of::<F>(), size_of::<usize>());
    unsafe { std::mem::transmute_copy(&function) }
}

unsafe extern "system" fn instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let real: vk::PFN_vkGetInstanceProcAddr = unsafe { REAL.get() };
    let found = unsafe { real(instance, name) };
    if unsafe { CStr::from_ptr(name) } == c"vkGetPhysicalDeviceQueueFamilyProperties" {
        FAMILIES.keep(found);
        return void(families as vk::PFN_vkGetPhysicalDeviceQueueFamilyProperties);
    }
    if unsafe { CStr::from_ptr(name) } == c"vkGetDeviceProcAddr" {
        DEVICE_PROC_ADDR.keep(found);
        return void(device_proc_addr as vk::PFN_vkGetDeviceProcAddr);
    }
    found
}

static FAMILIES: Real = Real(AtomicPtr::new(std::ptr::null_mut()));

unsafe extern "system" fn families(
    physical: vk::PhysicalDevice,
    count: *mut u32,
    out: *mut vk::QueueFamilyProperties,
) {
    let real: vk::PFN_vkGetPhysicalDeviceQueueFamilyProperties = unsafe { FAMILIES.get() };
    unsafe { real(physical, count, out) };
    if !out.is_null() && TRANSFERS_ONLY.load(SeqCst) {
        for family in unsafe { std::slice::from_raw_parts_mut(out, *count as usize) } {
            family.queue_flags = vk::QueueFlags::TRANSFER;
        }
    }
}

/// A function that fails when told to, and is the real one otherwise.
macro_rules! hook {
    ($real:ident $hook:ident $type:ty, ($($argument:ident: $argument_type:ty),*)) => {
        static $real: Real = Real(AtomicPtr::new(std::ptr::null_mut()));

        unsafe extern "system" fn $hook($($argument: $argument_type),*) -> vk::Result {
            match failure() {
                Some(code) => code,
                None => unsafe { $real.get::<$type>()($($argument),*) },
            }
        }
    };
}

hook!(ALLOCATE_REALLY allocate_really vk::PFN_vkAllocateMemory,
    (device: vk::Device, info: *const vk::MemoryAllocateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::DeviceMemory));
hook!(BUFFER buffer vk::PFN_vkCreateBuffer,
    (device: vk::Device, info: *const vk::BufferCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Buffer));
hook!(BIND bind vk::PFN_vkBindBufferMemory,
    (device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64));
hook!(MAP map vk::PFN_vkMapMemory,
    (device: vk::Device, memory: vk::DeviceMemory, offset: u64, size: u64, flags: vk::MemoryMapFlags, out: *mut *mut c_void));
hook!(EVENT event vk::PFN_vkCreateEvent,
    (device: vk::Device, info: *const vk::EventCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Event));
hook!(STATUS status vk::PFN_vkGetEventStatus, (device: vk::Device, event: vk::Event));
hook!(COMMANDS commands vk::PFN_vkAllocateCommandBuffers,
    (device: vk::Device, info: *const vk::CommandBufferAllocateInfo<'_>, out: *mut vk::CommandBuffer));
hook!(WAIT wait vk::PFN_vkWaitSemaphores,
    (device: vk::Device, info: *const vk::SemaphoreWaitInfo<'_>, timeout: u64));
hook!(COUNTER counter vk::PFN_vkGetSemaphoreCounterValue,
    (device: vk::Device, semaphore: vk::Semaphore, out: *mut u64));
hook!(POOL pool vk::PFN_vkCreateCommandPool,
    (device: vk::Device, info: *const vk::CommandPoolCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::CommandPool));
hook!(SEMAPHORE semaphore vk::PFN_vkCreateSemaphore,
    (device: vk::Device, info: *const vk::SemaphoreCreateInfo<'_>, callbacks: *const vk::AllocationCallbacks<'_>, out: *mut vk::Semaphore));

unsafe extern "system" fn allocate(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    callbacks: *const vk::AllocationCallbacks<'_>,
    out: *mut vk::DeviceMemory,
) -> vk::Result {
    ALLOCATIONS.fetch_add(1, SeqCst);
    LARGEST.fetch_max(unsafe { &*info }.allocation_size, SeqCst);
    unsafe { allocate_really(device, info, callbacks, out) }
}

static BEGIN: Real = Real(AtomicPtr::new(std::ptr::null_mut()));
static BARRIER: Real = Real(AtomicPtr::new(std::ptr::null_mut()));
static COPY: Real = Real(AtomicPtr::new(std::ptr::null_mut()));
static SET: Real = Real(AtomicPtr::new(std::ptr::null_mut()));

unsafe extern "system" fn begin(
    commands: vk::CommandBuffer,
    info: *const vk::CommandBufferBeginInfo<'_>,
) -> vk::Result {
    see('(');
    match failure() {
        Some(code) => code,
        None => unsafe { BEGIN.get::<vk::PFN_vkBeginCommandBuffer>()(commands, info) },
    }
}

unsafe extern "system" fn barrier(
    commands: vk::CommandBuffer,
    from: vk::PipelineStageFlags,
    to: vk::PipelineStageFlags,
    flags: vk::DependencyFlags,
    count: u32,
    barriers: *const vk::MemoryBarrier<'_>,
    buffer_count: u32,
    buffers: *const vk::BufferMemoryBarrier<'_>,
    image_count: u32,
    images: *const vk::ImageMemoryBarrier<'_>,
) {
    let all = vk::PipelineStageFlags::ALL_COMMANDS;
    let writes = vk::AccessFlags::MEMORY_WRITE;
    let reads = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::HOST_READ;
    let first = unsafe { std::slice::from_raw_parts(barriers, count as usize) }.first();
    let is_full = from.contains(all)
        && to.contains(all | vk::PipelineStageFlags::HOST)
        && first.is_some_and(|first| {
            first.src_access_mask.contains(writes) && first.dst_access_mask.contains(reads | writes)
        });
    see(if is_full { '|' } else { '?' });
    let real: vk::PFN_vkCmdPipelineBarrier = unsafe { BARRIER.get() };
    unsafe {
        real(
            commands,
            from,
            to,
            flags,
            count,
            barriers,
            buffer_count,
            buffers,
            image_count,
            images,
        );
    }
}

unsafe extern "system" fn copy(
    commands: vk::CommandBuffer,
    from: vk::Buffer,
    to: vk::Buffer,
    count: u32,
    regions: *const vk::BufferCopy,
) {
    see('c');
    unsafe { COPY.get::<vk::PFN_vkCmdCopyBuffer>()(commands, from, to, count, regions) };
}

unsafe extern "system" fn set(
    commands: vk::CommandBuffer,
    event: vk::Event,
    stages: vk::PipelineStageFlags,
) {
    see(if stages == vk::PipelineStageFlags::ALL_COMMANDS { 's' } else { '?' });
    unsafe { SET.get::<vk::PFN_vkCmdSetEvent>()(commands, event, stages) };
}

static END: Real = Real(AtomicPtr::new(std::ptr::null_mut()));

/// Recording ends also when that fails.
unsafe extern "system" fn end(commands: vk::CommandBuffer) -> vk::Result {
    see(')');
    let ended = unsafe { END.get::<vk::PFN_vkEndCommandBuffer>()(commands) };
    failure().unwrap_or(ended)
}

static SUBMIT: Real = Real(AtomicPtr::new(std::ptr::null_mut()));

unsafe extern "system" fn submit(
    queue: vk::Queue,
    count: u32,
    batches: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    SUBMISSIONS.fetch_add(1, SeqCst);
    use ash::vk::Handle;
    if !IS_HELD.load(SeqCst) {
        UNLOCKED.fetch_add(1, SeqCst);
    }
    if let Some(code) = failure() {
        return code;
    }
    if queue.as_raw() & 1 == 1 {
        let batches = unsafe { std::slice::from_raw_parts(batches, count as usize) };
        let waits: u32 = batches.iter().map(|batch| batch.wait_semaphore_count).sum();
        WAITS.fetch_add(waits.into(), SeqCst);
    }
    let real: vk::PFN_vkQueueSubmit = unsafe { SUBMIT.get() };
    unsafe { real(vk::Queue::from_raw(queue.as_raw() & !1), count, batches, fence) }
}

unsafe extern "system" fn device_proc_addr(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let real: vk::PFN_vkGetDeviceProcAddr = unsafe { DEVICE_PROC_ADDR.get() };
    let found = unsafe { real(device, name) };
    let (hooked, hook) = match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkAllocateMemory" => (&ALLOCATE_REALLY, void(allocate as vk::PFN_vkAllocateMemory)),
        b"vkCreateBuffer" => (&BUFFER, void(buffer as vk::PFN_vkCreateBuffer)),
        b"vkBindBufferMemory" => (&BIND, void(bind as vk::PFN_vkBindBufferMemory)),
        b"vkMapMemory" => (&MAP, void(map as vk::PFN_vkMapMemory)),
        b"vkCreateEvent" => (&EVENT, void(event as vk::PFN_vkCreateEvent)),
        b"vkGetEventStatus" => (&STATUS, void(status as vk::PFN_vkGetEventStatus)),
        b"vkAllocateCommandBuffers" => {
            (&COMMANDS, void(commands as vk::PFN_vkAllocateCommandBuffers))
        }
        b"vkBeginCommandBuffer" => (&BEGIN, void(begin as vk::PFN_vkBeginCommandBuffer)),
        b"vkCmdPipelineBarrier" => (&BARRIER, void(barrier as vk::PFN_vkCmdPipelineBarrier)),
        b"vkCmdCopyBuffer" => (&COPY, void(copy as vk::PFN_vkCmdCopyBuffer)),
        b"vkCmdSetEvent" => (&SET, void(set as vk::PFN_vkCmdSetEvent)),
        b"vkEndCommandBuffer" => (&END, void(end as vk::PFN_vkEndCommandBuffer)),
        b"vkWaitSemaphores" => (&WAIT, void(wait as vk::PFN_vkWaitSemaphores)),
        b"vkGetSemaphoreCounterValue" => {
            (&COUNTER, void(counter as vk::PFN_vkGetSemaphoreCounterValue))
        }
        b"vkCreateCommandPool" => (&POOL, void(pool as vk::PFN_vkCreateCommandPool)),
        b"vkCreateSemaphore" => (&SEMAPHORE, void(semaphore as vk::PFN_vkCreateSemaphore)),
        b"vkQueueSubmit" => (&SUBMIT, void(submit as vk::PFN_vkQueueSubmit)),
        _ => return found,
    };
    hooked.keep(found);
    hook
}
