//! Memory of the caller's in place of the driver's.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use arrow_device::driver::Raw;
use arrow_device::{Allocator, Device, Memory, Queue, Result};

use crate::call::{Out, get, null, run};
use crate::context::{ArdevRelease, Context, answer};
use crate::device::ArdevDevice;
use crate::error::ArdevError;
use crate::sized::{self, Grows, Known};
use crate::vulkan::{ArdevVulkanBinding, adopt};

pub type ArdevAllocate = unsafe extern "C" fn(
    context: *mut c_void,
    size: u64,
    queue: *mut c_void,
    out: *mut *mut c_void,
) -> c_int;
pub type ArdevFree = unsafe extern "C" fn(context: *mut c_void, memory: *mut c_void, size: u64);
pub type ArdevBind = unsafe extern "C" fn(
    context: *mut c_void,
    memory: *mut c_void,
    out: *mut ArdevVulkanBinding,
) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevAllocator {
    pub struct_size: usize,
    pub context: *mut c_void,
    pub allocate: Option<ArdevAllocate>,
    pub free: Option<ArdevFree>,
    pub release: ArdevRelease,
    pub vulkan_binding: Option<ArdevBind>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_with_allocator(
    device: *const ArdevDevice,
    allocator: *const ArdevAllocator,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: the header asks for an allocator, which is read here.
        let given = unsafe { sized::read(allocator, "allocator") }?;
        let context = Context::new(given.context, given.release);
        let allocate = given.allocate.ok_or_else(|| null("allocator.allocate"))?;
        let free = given.free.ok_or_else(|| null("allocator.free"))?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        let allocator = CallersAllocator(Arc::new(AllocatorFunctions {
            context,
            allocate,
            free,
            bind: given.vulkan_binding,
        }));
        out?.give(ArdevDevice(device.0.with_allocator(allocator)))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

/// An allocator that calls the caller's functions.
struct CallersAllocator(Arc<AllocatorFunctions>);

struct AllocatorFunctions {
    context: Context,
    allocate: ArdevAllocate,
    free: ArdevFree,
    bind: Option<ArdevBind>,
}

impl Allocator for CallersAllocator {
    fn allocate(&self, device: &Device, len: u64, queue: Option<&Queue>) -> Result<Memory> {
        let functions = &self.0;
        let queue = queue.map_or(std::ptr::null_mut(), |queue| queue.raw().as_ptr());
        let mut base = std::ptr::null_mut();
        // SAFETY: the header asks for a function that can be called so.
        let code =
            unsafe { (functions.allocate)(functions.context.pointer, len, queue, &raw mut base) };
        answer(code, "allocate").map_err(|error| error.on_device(device.id()))?;
        if base.is_null() {
            return Err(crate::call::invalid("`allocate` succeeded and gave no memory"));
        }
        let block = CallersMemory { functions: functions.clone(), base: Raw::from_ptr(base), len };
        if let Some(bind) = functions.bind {
            let mut known = Known::<ArdevVulkanBinding>::nothing();
            let out = (&raw mut known).cast::<ArdevVulkanBinding>();
            // SAFETY: the header asks for a function that can be called so.
            let code = unsafe { bind(functions.context.pointer, base, out) };
            answer(code, "vulkan_binding").map_err(|error| error.on_device(device.id()))?;
            // SAFETY: the header asks for a binding that holds until `free`, which the block calls.
            return unsafe { adopt(device, &known.value, block) };
        }
        // SAFETY: the header asks `allocate` for that many bytes, until `free`, which the block
        // calls.
        Ok(unsafe { Memory::adopt(device, block.base, len, block) })
    }
}

/// Memory that the caller allocated, and that goes back to the caller.
struct CallersMemory {
    functions: Arc<AllocatorFunctions>,
    base: Raw<Memory>,
    len: u64,
}

impl Drop for CallersMemory {
    fn drop(&mut self) {
        let AllocatorFunctions { context, free, .. } = &*self.functions;
        // SAFETY: `allocate` gave it, and this is the only owner.
        unsafe { free(context.pointer, self.base.as_ptr(), self.len) }
    }
}
