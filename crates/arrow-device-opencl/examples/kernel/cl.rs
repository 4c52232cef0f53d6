//! The part of OpenCL that a program with kernels calls itself: programs, kernels, user events.
//!
//! It knows nothing of arrow-device. Where OpenCL reports an error, the call is named in it.

#![allow(dead_code, reason = "each program uses a part of it")]

use std::ffi::{CString, c_void};
use std::ptr;

use libloading::{Library, Symbol};

pub(crate) type Handle = *mut c_void;
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const QUEUE_CONTEXT: u32 = 0x1090;
const QUEUE_DEVICE: u32 = 0x1091;
const OUT_OF_ORDER: u64 = 1;

/// The loader's library.
pub(crate) struct Cl(Library);

type Release = unsafe extern "system" fn(Handle) -> i32;
type WaitList = unsafe extern "system" fn(Handle, u32, *const Handle, *mut Handle) -> i32;

impl Cl {
    pub(crate) fn load() -> Result<Self> {
        // SAFETY: the OpenCL loader.
        Ok(Self(unsafe { Library::new("libOpenCL.so.1") }?))
    }

    /// # Safety
    /// `T` is the type of the function of that name.
    unsafe fn function<T>(&self, name: &str) -> Result<Symbol<'_, T>> {
        // SAFETY: promised by the caller.
        Ok(unsafe { self.0.get(name.as_bytes()) }?)
    }

    /// One of the calls that take a handle and nothing else: `clReleaseEvent`, `clFlush` and their like.
    pub(crate) fn call(&self, name: &str, handle: Handle) -> Result<()> {
        // SAFETY: they all have this type.
        let function = unsafe { self.function::<Release>(name) }?;
        // SAFETY: the handles in this program are alive while they are used.
        done(name, unsafe { function(handle) })
    }

    /// The context and the device of a queue.
    pub(crate) fn home_of(&self, queue: Handle) -> Result<(Handle, Handle)> {
        type Info = unsafe extern "system" fn(Handle, u32, usize, *mut Handle, *mut usize) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let info = unsafe { self.function::<Info>("clGetCommandQueueInfo") }?;
        let ask = |what| {
            let mut answer = ptr::null_mut();
            // SAFETY: the answer is one handle.
            let code =
                unsafe { info(queue, what, size_of::<Handle>(), &mut answer, ptr::null_mut()) };
            done("clGetCommandQueueInfo", code).map(|()| answer)
        };
        Ok((ask(QUEUE_CONTEXT)?, ask(QUEUE_DEVICE)?))
    }

    pub(crate) fn create_context(&self, device: Handle) -> Result<Handle> {
        type Create = unsafe extern "system" fn(
            *const isize,
            u32,
            *const Handle,
            *const c_void,
            *mut c_void,
            *mut i32,
        ) -> Handle;
        // SAFETY: the type of OpenCL's headers.
        let create = unsafe { self.function::<Create>("clCreateContext") }?;
        let mut code = 0;
        // SAFETY: one device, no properties, no callback.
        let context =
            unsafe { create(ptr::null(), 1, &device, ptr::null(), ptr::null_mut(), &mut code) };
        done("clCreateContext", code).map(|()| context)
    }

    pub(crate) fn create_out_of_order_queue(
        &self,
        context: Handle,
        device: Handle,
    ) -> Result<Handle> {
        type Create = unsafe extern "system" fn(Handle, Handle, u64, *mut i32) -> Handle;
        // SAFETY: the type of OpenCL's headers.
        let create = unsafe { self.function::<Create>("clCreateCommandQueue") }?;
        let mut code = 0;
        // SAFETY: both are alive.
        let queue = unsafe { create(context, device, OUT_OF_ORDER, &mut code) };
        done("clCreateCommandQueue", code).map(|()| queue)
    }

    /// An event that the host completes.
    pub(crate) fn create_user_event(&self, context: Handle) -> Result<Handle> {
        type Create = unsafe extern "system" fn(Handle, *mut i32) -> Handle;
        // SAFETY: the type of OpenCL's headers.
        let create = unsafe { self.function::<Create>("clCreateUserEvent") }?;
        let mut code = 0;
        // SAFETY: the context is alive.
        let event = unsafe { create(context, &mut code) };
        done("clCreateUserEvent", code).map(|()| event)
    }

    /// 0 completes the event, a negative number says that its work failed.
    pub(crate) fn set_status(&self, event: Handle, status: i32) -> Result<()> {
        type Set = unsafe extern "system" fn(Handle, i32) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let set = unsafe { self.function::<Set>("clSetUserEventStatus") }?;
        // SAFETY: the event is alive.
        done("clSetUserEventStatus", unsafe { set(event, status) })
    }

    /// Has a queue wait for an event.
    pub(crate) fn wait_for(&self, queue: Handle, event: Handle) -> Result<()> {
        let name = "clEnqueueBarrierWithWaitList";
        // SAFETY: the type of OpenCL's headers.
        let barrier = unsafe { self.function::<WaitList>(name) }?;
        // SAFETY: both are alive.
        done(name, unsafe { barrier(queue, 1, &event, ptr::null_mut()) })
    }

    /// How many references there are to a `cl_mem` (0x1105) or a `cl_event` (0x11D2).
    pub(crate) fn references(&self, name: &str, handle: Handle, what: u32) -> Result<u32> {
        type Info = unsafe extern "system" fn(Handle, u32, usize, *mut u32, *mut usize) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let info = unsafe { self.function::<Info>(name) }?;
        let mut count = 0;
        // SAFETY: the handle is alive; the answer is one number.
        let code = unsafe { info(handle, what, 4, &mut count, ptr::null_mut()) };
        done(name, code).map(|()| count)
    }

    /// Builds a program and takes one kernel of it.
    pub(crate) fn create_kernel(
        &self,
        context: Handle,
        source: &str,
        name: &str,
    ) -> Result<Handle> {
        type Source = unsafe extern "system" fn(
            Handle,
            u32,
            *const *const u8,
            *const usize,
            *mut i32,
        ) -> Handle;
        type Build = unsafe extern "system" fn(
            Handle,
            u32,
            *const Handle,
            *const u8,
            *const c_void,
            *mut c_void,
        ) -> i32;
        type Kernel = unsafe extern "system" fn(Handle, *const i8, *mut i32) -> Handle;
        let (text, length) = (source.as_ptr(), source.len());
        let mut code = 0;
        // SAFETY: the type of OpenCL's headers.
        let create = unsafe { self.function::<Source>("clCreateProgramWithSource") }?;
        // SAFETY: one text of this length.
        let program = unsafe { create(context, 1, &text, &length, &mut code) };
        done("clCreateProgramWithSource", code)?;
        // SAFETY: the type of OpenCL's headers.
        let build = unsafe { self.function::<Build>("clBuildProgram") }?;
        // SAFETY: for all devices, without options or a callback.
        let code =
            unsafe { build(program, 0, ptr::null(), ptr::null(), ptr::null(), ptr::null_mut()) };
        done("clBuildProgram", code)?;
        let name = CString::new(name)?;
        // SAFETY: the type of OpenCL's headers.
        let kernel = unsafe { self.function::<Kernel>("clCreateKernel") }?;
        let mut code = 0;
        // SAFETY: the program is built, and the name ends with a zero.
        let kernel = unsafe { kernel(program, name.as_ptr().cast(), &mut code) };
        done("clCreateKernel", code)?;
        self.call("clReleaseProgram", program)?;
        Ok(kernel)
    }

    /// Submits a kernel over so many items, whose arguments are buffers.
    pub(crate) fn launch(
        &self,
        queue: Handle,
        kernel: Handle,
        buffers: &[Handle],
        items: usize,
    ) -> Result<()> {
        type SetArg = unsafe extern "system" fn(Handle, u32, usize, *const Handle) -> i32;
        type Launch = unsafe extern "system" fn(
            Handle,
            Handle,
            u32,
            *const usize,
            *const usize,
            *const usize,
            u32,
            *const Handle,
            *mut Handle,
        ) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let set = unsafe { self.function::<SetArg>("clSetKernelArg") }?;
        for (index, buffer) in buffers.iter().enumerate() {
            // SAFETY: a buffer argument is a handle.
            let code = unsafe { set(kernel, index as u32, size_of::<Handle>(), buffer) };
            done("clSetKernelArg", code)?;
        }
        // SAFETY: the type of OpenCL's headers.
        let launch = unsafe { self.function::<Launch>("clEnqueueNDRangeKernel") }?;
        let (no_size, no_events) = (ptr::null(), ptr::null());
        // SAFETY: one dimension; the caller keeps the buffers until the kernel is done.
        let code = unsafe {
            launch(queue, kernel, 1, no_size, &items, no_size, 0, no_events, ptr::null_mut())
        };
        done("clEnqueueNDRangeKernel", code)
    }
}

fn done(call: &str, code: i32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(format!("{call}: {code}").into()) }
}

/// Holds work back until it is opened.
pub(crate) struct Gate<'cl> {
    cl: &'cl Cl,
    event: Handle,
    is_closed: bool,
}

impl<'cl> Gate<'cl> {
    /// Closes it before whatever is submitted to this queue from now on.
    pub(crate) fn before(cl: &'cl Cl, queue: Handle) -> Result<Self> {
        let gate = Self::alone(cl, cl.home_of(queue)?.0)?;
        cl.wait_for(queue, gate.event)?;
        Ok(gate)
    }

    pub(crate) fn alone(cl: &'cl Cl, context: Handle) -> Result<Self> {
        Ok(Self { cl, event: cl.create_user_event(context)?, is_closed: true })
    }

    pub(crate) fn event(&self) -> Handle {
        self.event
    }

    pub(crate) fn open(&mut self) -> Result<()> {
        self.end(0)
    }

    /// Says instead that what it stands for failed.
    pub(crate) fn end(&mut self, status: i32) -> Result<()> {
        self.is_closed = false;
        self.cl.set_status(self.event, status)
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            let _ = self.open();
        }
        let _ = self.cl.call("clReleaseEvent", self.event);
    }
}
