//! A `VkDevice` that the application made, with its queue, its lock, its events and its memory,
//! through the header's functions.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use arrow_device::{DeviceId, DeviceType, ErrorKind};
use arrow_device_capi::*;
use arrow_device_testkit::application::vulkan::Vulkan;
use arrow_device_testkit::release_until;
use arrow_device_testkit::required::skip;
use ash::vk::{self as api, Handle};

use crate::processes::memory_goes_only_where_both_sides_trust;
use crate::support::face::{Owned, call, made};
use crate::support::objects::{END, Ends, copy, int64, numbers, parts, values_of};

fn pointer(handle: impl Handle) -> *mut c_void {
    ptr::with_exposed_provenance_mut(handle.as_raw() as usize)
}

/// A lock as C has one, which knows whether it is held.
#[derive(Default)]
struct Lock {
    is_held: AtomicBool,
    taken: AtomicUsize,
}

unsafe extern "C" fn lock(context: *mut c_void) {
    let lock = unsafe { &*context.cast::<Lock>() };
    while lock.is_held.swap(true, SeqCst) {
        std::thread::yield_now();
    }
    lock.taken.fetch_add(1, SeqCst);
}

unsafe extern "C" fn unlock(context: *mut c_void) {
    assert!(unsafe { &*context.cast::<Lock>() }.is_held.swap(false, SeqCst));
}

/// What the application made.
struct Application {
    vulkan: Arc<Vulkan>,
    lock: Lock,
}

impl Application {
    /// `None` where there is no Vulkan.
    fn new() -> Option<&'static Self> {
        if let Err(reason) = arrow_device_vulkan::is_available() {
            skip("vulkan", &reason.to_string());
            return None;
        }
        let vulkan = Vulkan::new(false).unwrap();
        Some(Box::leak(Box::new(Self { vulkan, lock: Lock::default() })))
    }

    fn handles(&self) -> ArdevVulkanHandles {
        ArdevVulkanHandles {
            get_instance_proc_addr: None,
            instance: pointer(self.vulkan.instance.handle()),
            physical_device: pointer(self.vulkan.physical),
            device: pointer(self.vulkan.device.handle()),
            ..ArdevVulkanHandles::default()
        }
    }

    fn queue(&self) -> ArdevVulkanQueue {
        ArdevVulkanQueue {
            handle: pointer(self.vulkan.queue),
            family: self.vulkan.family,
            context: (&raw const self.lock).cast_mut().cast(),
            lock: Some(lock),
            unlock: Some(unlock),
            ..ArdevVulkanQueue::default()
        }
    }

    fn open_with(
        &self,
        memory: i32,
        ends: &'static Ends,
    ) -> arrow_device::Result<*mut ArdevDevice> {
        let (handles, queue) = (self.handles(), self.queue());
        let context = ends.context();
        made(|out, error| unsafe {
            ardev_device_open_vulkan(&handles, &queue, 1, memory, context, END, out, error)
        })
    }

    fn open(&self, ends: &'static Ends) -> (*mut ArdevDevice, *mut ArdevQueue) {
        let device = self.open_with(ARDEV_MEMORY_AUTOMATIC, ends).unwrap();
        let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
        (device, queue)
    }
}

fn close(device: *mut ArdevDevice, queue: *mut ArdevQueue, ends: &Ends, expected: usize) {
    unsafe { ardev_queue_free(queue) };
    unsafe { ardev_device_free(device) };
    assert!(release_until(|| ends.count() == expected), "{} of {expected}", ends.count());
}

#[test]
fn a_device_of_the_application_is_used_under_its_locks() {
    static ENDS: Ends = Ends::new();
    let Some(application) = Application::new() else { return };
    let refused = application.open_with(ARDEV_MEMORY_SVM, &ENDS).unwrap_err();
    assert_eq!((refused.kind(), ENDS.count()), (ErrorKind::Unsupported, 1));

    let (device, queue) = application.open(&ENDS);
    let there = copy(&numbers(7), queue, ptr::null()).unwrap();
    assert_eq!(values_of(&copy(&there, ptr::null(), queue).unwrap()), [7, 8, 9]);
    let taken = application.lock.taken.load(SeqCst);
    assert!(taken > 1 && !application.lock.is_held.load(SeqCst), "{taken}");

    // What is the application's comes back as it is.
    let mut handles = application.handles();
    handles.instance = ptr::null_mut();
    call(|error| unsafe { ardev_device_vulkan_handles(device, &mut handles, error) }).unwrap();
    let given = application.handles();
    assert_eq!(
        (handles.instance, handles.physical_device, handles.device),
        (given.instance, given.physical_device, given.device)
    );
    assert!(handles.get_instance_proc_addr.is_some());
    let handle = made(|out, error| unsafe { ardev_queue_handle(queue, out, error) }).unwrap();
    assert_eq!(handle, application.queue().handle);
    let mut family = u32::MAX;
    call(|error| unsafe { ardev_queue_vulkan_family(queue, &mut family, error) }).unwrap();
    assert_eq!(family, application.vulkan.family);

    // An array's number leads to it, also with the loader that it was called by, and as long as it
    // is open.
    let id = DeviceId::new(DeviceType::VULKAN, given.device.addr() as i64);
    let find = || {
        made(|out, error| unsafe {
            ardev_device_open_for(id.device_type.0, ptr::null(), id.id, out, error)
        })
    };
    unsafe { ardev_device_free(find().unwrap()) };
    let again = made(|out, error| unsafe {
        let queues = application.queue();
        ardev_device_open_vulkan(&handles, &queues, 1, 0, ptr::null_mut(), None, out, error)
    });
    unsafe { ardev_device_free(again.unwrap()) };
    drop(there);
    close(device, queue, &ENDS, 2);
    assert_eq!(find().unwrap_err().kind(), ErrorKind::DeviceMissing);
}

#[test]
fn memory_goes_to_another_process_only_where_both_sides_trust() {
    let test = "vulkan::memory_goes_to_another_process_only_where_both_sides_trust";
    let device_type = DeviceType::VULKAN.0;
    memory_goes_only_where_both_sides_trust(test, "vulkan", device_type, || {
        arrow_device_vulkan::is_available().map_err(|reason| reason.to_string())
    });
}

/// What a submission of the application's needs, and what it saw.
struct Submission {
    application: &'static Application,
    commands: api::CommandBuffer,
    was_locked: bool,
}

unsafe extern "C" fn submit(context: *mut c_void) -> c_int {
    let submission = unsafe { &mut *context.cast::<Submission>() };
    let Submission { application, commands, .. } = submission;
    submission.was_locked = application.lock.is_held.load(SeqCst);
    let commands = [*commands];
    let batch = [api::SubmitInfo::default().command_buffers(&commands)];
    let vulkan = &application.vulkan;
    let done = unsafe { vulkan.device.queue_submit(vulkan.queue, &batch, api::Fence::null()) };
    if done.is_ok() { 0 } else { 5 }
}

unsafe extern "C" fn refuse(_: *mut c_void) -> c_int {
    71 // EPROTO
}

#[test]
fn memory_work_and_events_of_the_application_go_in_and_out() {
    static ENDS: Ends = Ends::new();
    static OF_MEMORY: Ends = Ends::new();
    let Some(application) = Application::new() else { return };
    let vulkan = &application.vulkan;
    let (device, queue) = application.open(&ENDS);

    // Memory of the application's allocator, filled by a command of the application's.
    let block = Block::new(vulkan, 24);
    let binding = block.binding();
    let buffer = made(|out, error| unsafe {
        let context = OF_MEMORY.context();
        ardev_buffer_adopt_vulkan(device, &binding, context, END, out, error)
    })
    .unwrap();
    let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
    call(|error| unsafe { ardev_buffer_place(buffer, queue, &mut place, error) }).unwrap();
    assert_eq!((place.base, place.offset, place.size), (binding.buffer.cast_const(), 0, 24));
    let event = unsafe { vulkan.device.create_event(&api::EventCreateInfo::default(), None) };
    let event = event.unwrap();
    let (pool, commands) = vulkan
        .record(&|commands| unsafe {
            vulkan.device.cmd_fill_buffer(commands, block.buffer, 0, api::WHOLE_SIZE, 0x0303_0303);
            let (all, before) =
                (api::PipelineStageFlags::ALL_COMMANDS, api::AccessFlags::MEMORY_WRITE);
            let after = api::AccessFlags::MEMORY_READ | api::AccessFlags::MEMORY_WRITE;
            let barrier =
                [api::MemoryBarrier::default().src_access_mask(before).dst_access_mask(after)];
            let none = api::DependencyFlags::empty();
            vulkan.device.cmd_pipeline_barrier(commands, all, all, none, &barrier, &[], &[]);
            vulkan.device.cmd_set_event(commands, event, all);
        })
        .unwrap();
    let mut submission = Submission { application, commands, was_locked: false };
    let context = (&raw mut submission).cast();
    call(|error| unsafe { ardev_queue_submit(queue, Some(submit), context, error) }).unwrap();
    assert!(submission.was_locked && !application.lock.is_held.load(SeqCst));
    let refused = call(|error| unsafe { ardev_queue_submit(queue, Some(refuse), context, error) });
    assert_eq!(refused.unwrap_err().to_string().matches("`submit` returned 71").count(), 1);

    // Its event says when the array is ready.
    let adopted = made(|out, error| unsafe {
        ardev_event_adopt(device, pointer(event), ENDS.context(), END, out, error)
    })
    .unwrap();
    let (schema, buffers) = (int64(), [ptr::null_mut(), buffer]);
    let all =
        ArdevParts { buffers: buffers.as_ptr(), n_buffers: 2, event: adopted, ..parts(schema, 3) };
    let array = Owned(made(|out, error| unsafe { ardev_array_build(&all, out, error) }).unwrap());
    unsafe { ardev_buffer_free(buffer) };
    unsafe { ardev_schema_free(schema) };
    let here = copy(&array, ptr::null(), queue).unwrap();
    assert_eq!(values_of(&here), [0x0303_0303_0303_0303; 3]);
    let handle = made(|out, error| unsafe { ardev_event_handle(adopted, out, error) }).unwrap();
    assert_eq!(handle, pointer(event));
    let is_complete = |event| {
        let mut passed = false;
        call(|error| unsafe { ardev_event_is_complete(event, &mut passed, error) }).unwrap();
        passed
    };
    assert!(is_complete(adopted));
    unsafe { vulkan.device.reset_event(event) }.unwrap();
    assert!(!is_complete(adopted));

    // An event of the library's is a `VkEvent`.
    let recorded = made(|out, error| unsafe { ardev_queue_record(queue, out, error) }).unwrap();
    let handle = made(|out, error| unsafe { ardev_event_handle(recorded, out, error) }).unwrap();
    call(|error| unsafe { ardev_event_wait(recorded, -1, error) }).unwrap();
    let raw = api::Event::from_raw(handle.expose_provenance() as u64);
    assert!(unsafe { vulkan.device.get_event_status(raw) }.unwrap());
    unsafe { ardev_event_free(recorded) };

    // All is given back once, when nothing needs it any more.
    assert_eq!((ENDS.count(), OF_MEMORY.count()), (0, 0));
    unsafe { vulkan.device.set_event(event) }.unwrap();
    unsafe { ardev_event_free(adopted) };
    drop((array, here));
    close(device, queue, &ENDS, 2);
    assert_eq!(OF_MEMORY.count(), 1);
    vulkan.finish().unwrap();
    unsafe { vulkan.device.destroy_event(event, None) };
    unsafe { vulkan.device.destroy_command_pool(pool, None) };
}

/// A `VkBuffer` with memory of its own.
struct Block {
    vulkan: Arc<Vulkan>,
    buffer: api::Buffer,
    memory: api::DeviceMemory,
    size: u64,
}

impl Block {
    fn new(vulkan: &Arc<Vulkan>, size: u64) -> Self {
        let usage = api::BufferUsageFlags::STORAGE_BUFFER
            | api::BufferUsageFlags::TRANSFER_SRC
            | api::BufferUsageFlags::TRANSFER_DST;
        let info = api::BufferCreateInfo::default().size(size).usage(usage);
        let of_memory = api::MemoryAllocateInfo::default().allocation_size(size + 4096);
        unsafe {
            let buffer = vulkan.device.create_buffer(&info, None).unwrap();
            let memory = vulkan.device.allocate_memory(&of_memory, None).unwrap();
            vulkan.device.bind_buffer_memory(buffer, memory, 0).unwrap();
            Self { vulkan: vulkan.clone(), buffer, memory, size }
        }
    }

    fn binding(&self) -> ArdevVulkanBinding {
        ArdevVulkanBinding {
            buffer: pointer(self.buffer),
            memory: pointer(self.memory),
            offset: 0,
            size: self.size,
            ..ArdevVulkanBinding::default()
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        unsafe {
            self.vulkan.device.destroy_buffer(self.buffer, None);
            self.vulkan.device.free_memory(self.memory, None);
        }
    }
}

/// The application's allocator.
struct Blocks {
    vulkan: Arc<Vulkan>,
    blocks: Mutex<Vec<Block>>,
    made: AtomicUsize,
}

fn blocks<'a>(context: *mut c_void) -> &'a Blocks {
    unsafe { &*context.cast::<Blocks>() }
}

unsafe extern "C" fn allocate(
    context: *mut c_void,
    size: u64,
    _: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    let all = blocks(context);
    let block = Block::new(&all.vulkan, size);
    unsafe { out.write(pointer(block.buffer)) };
    all.made.fetch_add(1, SeqCst);
    all.blocks.lock().unwrap().push(block);
    0
}

unsafe extern "C" fn free(context: *mut c_void, memory: *mut c_void, _: u64) {
    blocks(context).blocks.lock().unwrap().retain(|block| pointer(block.buffer) != memory);
}

unsafe extern "C" fn bind(
    context: *mut c_void,
    memory: *mut c_void,
    out: *mut ArdevVulkanBinding,
) -> c_int {
    let all = blocks(context).blocks.lock().unwrap();
    let block = all.iter().find(|block| pointer(block.buffer) == memory).unwrap();
    unsafe { out.write(block.binding()) };
    0
}

#[test]
fn the_application_allocates_by_itself() {
    static ENDS: Ends = Ends::new();
    let Some(application) = Application::new() else { return };
    let (device, queue) = application.open(&ENDS);
    let vulkan = application.vulkan.clone();
    let all = Blocks { vulkan, blocks: Mutex::default(), made: AtomicUsize::new(0) };
    for vulkan_binding in [None, Some(bind as ArdevBind)] {
        let allocator = ArdevAllocator {
            context: (&raw const all).cast_mut().cast(),
            allocate: Some(allocate),
            free: Some(free),
            vulkan_binding,
            ..ArdevAllocator::default()
        };
        let own = made(|out, error| unsafe {
            ardev_device_with_allocator(device, &allocator, out, error)
        })
        .unwrap();
        let lane = made(|out, error| unsafe { ardev_queue_open(own, out, error) }).unwrap();
        // Two columns are parts of one allocation, which only that has whose binding is known.
        let batch = batch_of(&[numbers(1), numbers(4)]);
        let there = copy(&batch, lane, ptr::null());
        match vulkan_binding {
            None => assert_eq!(there.unwrap_err().kind(), ErrorKind::Unsupported),
            Some(_) => {
                let here = copy(&there.unwrap(), ptr::null(), lane).unwrap();
                let column =
                    made(|out, error| unsafe { ardev_array_column(here.0, 1, out, error) });
                assert_eq!(values_of(&Owned(column.unwrap())), [4, 5, 6]);
            }
        }
        unsafe { ardev_queue_free(lane) };
        unsafe { ardev_device_free(own) };
        assert!(release_until(|| all.blocks.lock().unwrap().is_empty()));
    }
    assert_eq!(all.made.load(SeqCst), 2);
    close(device, queue, &ENDS, 1);
}

/// A batch of two columns.
fn batch_of(numbers: &[Owned; 2]) -> Owned {
    let column = int64();
    let columns = [column.cast_const(); 2];
    let schema = made(|out, error| unsafe {
        let (format, no_name, no_dictionary) = (c"+s".as_ptr(), ptr::null(), ptr::null());
        ardev_schema_new(format, no_name, 0, columns.as_ptr(), 2, no_dictionary, out, error)
    })
    .unwrap();
    let (buffers, children) =
        ([ptr::null_mut()], numbers.each_ref().map(|column| column.0.cast_const()));
    let all = ArdevParts {
        buffers: buffers.as_ptr(),
        n_buffers: 1,
        children: children.as_ptr(),
        n_children: 2,
        ..parts(schema, 3)
    };
    let batch = made(|out, error| unsafe { ardev_array_build(&all, out, error) });
    unsafe { ardev_schema_free(schema) };
    unsafe { ardev_schema_free(column) };
    Owned(batch.unwrap())
}
