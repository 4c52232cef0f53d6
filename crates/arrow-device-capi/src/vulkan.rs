//! Vulkan devices that the application made: their handles in and out, locks of their queues,
//! memory that is bound.

use std::ffi::{c_int, c_void};

use arrow_device::{Device, Memory, Queue, Result};

use crate::buffer::ArdevBuffer;
use crate::call::{Out, get, null, run};
use crate::context::{ArdevRelease, Context, answer};
use crate::device::ArdevDevice;
use crate::error::ArdevError;
use crate::queue::ArdevQueue;
use crate::sized::{self, OutGrows};

pub type ArdevFunction = unsafe extern "C" fn();
pub type ArdevLock = unsafe extern "C" fn(context: *mut c_void);
pub type ArdevSubmit = unsafe extern "C" fn(context: *mut c_void) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevVulkanHandles {
    pub struct_size: usize,
    pub get_instance_proc_addr: Option<ArdevFunction>,
    pub instance: *mut c_void,
    pub physical_device: *mut c_void,
    pub device: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevVulkanQueue {
    pub struct_size: usize,
    pub handle: *mut c_void,
    pub family: u32,
    pub context: *mut c_void,
    pub lock: Option<ArdevLock>,
    pub unlock: Option<ArdevLock>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevVulkanBinding {
    pub struct_size: usize,
    pub buffer: *mut c_void,
    pub memory: *mut c_void,
    pub offset: u64,
    pub size: u64,
    pub mapped: *mut c_void,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_open_vulkan(
    handles: *const ArdevVulkanHandles,
    queues: *const ArdevVulkanQueue,
    n_queues: usize,
    memory: i32,
    context: *mut c_void,
    release: ArdevRelease,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        let context = Context::new(context, release);
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let handles = unsafe { sized::read(handles, "handles") }?;
        let ArdevVulkanHandles { instance, physical_device, device, .. } = handles;
        for (handle, name) in [
            (instance, "handles.instance"),
            (physical_device, "handles.physical_device"),
            (device, "handles.device"),
        ] {
            if handle.is_null() {
                return Err(null(name));
            }
        }
        if queues.is_null() {
            return Err(null("queues"));
        }
        // SAFETY: the header asks for so many queues.
        let queues = unsafe { sized::read_all(queues, n_queues, "queues") }?;
        if queues.iter().any(|queue| queue.handle.is_null()) {
            return Err(null("queues[].handle"));
        }
        if queues.iter().any(|queue| queue.lock.is_some() != queue.unlock.is_some()) {
            return Err(null("queues[].lock or queues[].unlock"));
        }
        // SAFETY: the header asks for handles that belong together and stay until `release`.
        out.give(ArdevDevice(unsafe { built::open(&handles, &queues, memory, context) }?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_vulkan_handles(
    device: *const ArdevDevice,
    out: *mut ArdevVulkanHandles,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { OutGrows::new(out, "out") }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        out.put(built::handles(&device.0)?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_vulkan_family(
    queue: *const ArdevQueue,
    out: *mut u32,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, 0, "out") }?;
        // SAFETY: rule 2 of the header.
        let queue = unsafe { get(queue, "queue") }?;
        out.put(built::family(&queue.0)?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_submit(
    queue: *const ArdevQueue,
    submit: Option<ArdevSubmit>,
    context: *mut c_void,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let queue = unsafe { get(queue, "queue") }?;
        let submit = submit.ok_or_else(|| null("submit"))?;
        // An error in a child of `fork`, where a thread of the parent may have the lock for ever,
        // and where the process is about to end.
        queue.0.reaches(queue.0.device().id())?;
        let mut code = 0;
        built::while_locked(&queue.0, &mut || {
            // SAFETY: the header asks for a function that can be called so.
            code = unsafe { submit(context) };
        })?;
        answer(code, "submit")
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_buffer_adopt_vulkan(
    device: *const ArdevDevice,
    binding: *const ArdevVulkanBinding,
    context: *mut c_void,
    release: ArdevRelease,
    out: *mut *mut ArdevBuffer,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        let context = Context::new(context, release);
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        // SAFETY: rule 2 of the header.
        let binding = unsafe { sized::read(binding, "binding") }?;
        // SAFETY: the header asks for a buffer as the binding says, until `release`, which the
        // context calls.
        out.give(ArdevBuffer::own(unsafe { adopt(&device.0, &binding, context) }?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

/// Memory that is bound as the caller says.
///
/// # Safety
/// What the caller says of the buffer stays true until the owner is dropped (UNS-18).
pub(crate) unsafe fn adopt(
    device: &Device,
    binding: &ArdevVulkanBinding,
    owner: impl Send + Sync + 'static,
) -> Result<Memory> {
    if binding.buffer.is_null() {
        return Err(null("binding.buffer"));
    }
    if binding.memory.is_null() {
        return Err(null("binding.memory"));
    }
    // SAFETY: UNS-18, which the caller promises.
    unsafe { built::adopt(device, binding, owner) }
}

/// With Vulkan.
#[cfg(feature = "vulkan")]
mod built {
    use std::mem::transmute;
    use std::ptr::NonNull;
    use std::sync::{Arc, Mutex};

    use arrow_device::DeviceType;
    use arrow_device_vulkan::{Binding, Handles, SharedQueue, SubmitLock};

    use super::*;
    use crate::backends::vulkan::placement;
    use crate::call::invalid;

    /// # Safety
    /// UNS-29 and UNS-30, as [`open_from`](arrow_device_vulkan::open_from) has them; what has to
    /// stay does so until the context is released.
    pub(super) unsafe fn open(
        handles: &ArdevVulkanHandles,
        queues: &[ArdevVulkanQueue],
        memory: i32,
        context: Context,
    ) -> Result<Device> {
        let placement = placement(memory)?;
        let number = |handle: *mut c_void| handle.expose_provenance() as u64;
        let mut all = Handles::new(
            number(handles.instance),
            number(handles.physical_device),
            number(handles.device),
        );
        for queue in queues {
            let lock: Arc<dyn SubmitLock> = match (queue.lock, queue.unlock) {
                (Some(lock), Some(unlock)) => Arc::new(CallersLock {
                    context: Context::new(queue.context, None),
                    lock,
                    unlock,
                }),
                _ => Arc::new(Mutex::new(())),
            };
            all = all.with_queue(number(queue.handle), queue.family, lock);
        }
        if let Some(function) = handles.get_instance_proc_addr
            && let Some(pointer) = NonNull::new(function as *mut c_void)
        {
            all = all.with_loader(pointer);
        }
        // SAFETY: UNS-29 and UNS-30, which the caller promises.
        unsafe { arrow_device_vulkan::open_from(all.kept_by(context), placement) }
    }

    pub(super) fn handles(device: &Device) -> Result<ArdevVulkanHandles> {
        let handles = arrow_device_vulkan::handles_of(device)?;
        let pointer = |handle: u64| std::ptr::with_exposed_provenance_mut(handle as usize);
        let get_instance_proc_addr = handles.loader.map(|loader| {
            // SAFETY: it is the address of a function, and whoever calls it gives it back its type.
            unsafe { transmute::<*mut c_void, ArdevFunction>(loader.as_ptr()) }
        });
        Ok(ArdevVulkanHandles {
            struct_size: 0,
            get_instance_proc_addr,
            instance: pointer(handles.instance),
            physical_device: pointer(handles.physical_device),
            device: pointer(handles.device),
        })
    }

    pub(super) fn family(queue: &Queue) -> Result<u32> {
        shared(queue).map(|queue| queue.family)
    }

    pub(super) fn while_locked(queue: &Queue, submit: &mut dyn FnMut()) -> Result<()> {
        if queue.device().id().device_type == DeviceType::VULKAN {
            shared(queue)?.lock.while_locked(submit);
        } else {
            submit();
        }
        Ok(())
    }

    /// The queue as it was given with the device.
    fn shared(queue: &Queue) -> Result<SharedQueue> {
        let handles = arrow_device_vulkan::handles_of(queue.device())?;
        let handle = queue.raw().bits() as u64;
        let found = handles.queues.into_iter().find(|queue| queue.handle == handle);
        found.ok_or_else(|| {
            invalid("it is none of the device's queues").on_device(queue.device().id())
        })
    }

    /// # Safety
    /// UNS-18, as [`adopt_memory`](arrow_device_vulkan::adopt_memory) has it.
    pub(super) unsafe fn adopt(
        device: &Device,
        binding: &ArdevVulkanBinding,
        owner: impl Send + Sync + 'static,
    ) -> Result<Memory> {
        let binding = Binding {
            buffer: binding.buffer.addr() as u64,
            memory: binding.memory.addr() as u64,
            offset: binding.offset,
            len: binding.size,
            mapped: NonNull::new(binding.mapped),
        };
        // SAFETY: UNS-18, which the caller promises.
        unsafe { arrow_device_vulkan::adopt_memory(device, binding, owner) }
    }

    /// A lock of the application's.
    struct CallersLock {
        context: Context,
        lock: ArdevLock,
        unlock: ArdevLock,
    }

    impl SubmitLock for CallersLock {
        fn while_locked(&self, submit: &mut dyn FnMut()) {
            // SAFETY: the header asks for a function that can be called so.
            unsafe { (self.lock)(self.context.pointer) };
            submit();
            // SAFETY: the header asks for a function that can be called so, after a `lock` on this
            // thread.
            unsafe { (self.unlock)(self.context.pointer) };
        }
    }
}

/// Without Vulkan.
#[cfg(not(feature = "vulkan"))]
mod built {
    use arrow_device::DeviceType;

    use super::*;
    use crate::backends::not_built_in;

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn open(
        _: &ArdevVulkanHandles,
        _: &[ArdevVulkanQueue],
        _: i32,
        _: Context,
    ) -> Result<Device> {
        Err(not_built_in(DeviceType::VULKAN))
    }

    pub(super) fn handles(_: &Device) -> Result<ArdevVulkanHandles> {
        Err(not_built_in(DeviceType::VULKAN))
    }

    pub(super) fn family(_: &Queue) -> Result<u32> {
        Err(not_built_in(DeviceType::VULKAN))
    }

    pub(super) fn while_locked(_: &Queue, submit: &mut dyn FnMut()) -> Result<()> {
        submit();
        Ok(())
    }

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn adopt(
        _: &Device,
        _: &ArdevVulkanBinding,
        _: impl Send + Sync + 'static,
    ) -> Result<Memory> {
        Err(not_built_in(DeviceType::VULKAN))
    }
}
