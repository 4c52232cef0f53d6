//! The calls of OpenCL that a program with kernels makes itself: contexts, queues, kernels, user
//! events.
//!
//! An error of OpenCL names the call that failed.

use std::ffi::{CString, c_void};
use std::ptr;

use libloading::{Library, Symbol};

use super::Attempt;

/// Any object of OpenCL.
pub type ClHandle = *mut c_void;

const QUEUE_CONTEXT: u32 = 0x1090;
const QUEUE_DEVICE: u32 = 0x1091;
const OUT_OF_ORDER: u64 = 1;

/// The library of the OpenCL loader.
#[derive(Debug)]
pub struct Cl(Library);

type ReleaseHandle = unsafe extern "system" fn(ClHandle) -> i32;
type WaitList = unsafe extern "system" fn(ClHandle, u32, *const ClHandle, *mut ClHandle) -> i32;

impl Cl {
    /// Loads the library.
    ///
    /// # Errors
    /// The library is not installed.
    pub fn load() -> Attempt<Self> {
        // SAFETY: the OpenCL loader.
        Ok(Self(unsafe { Library::new("libOpenCL.so.1") }?))
    }

    /// # Safety
    /// `T` is the type of the function of that name.
    unsafe fn function<T>(&self, name: &str) -> Attempt<Symbol<'_, T>> {
        // SAFETY: `T` is the type of the function of that name, as the caller promises.
        Ok(unsafe { self.0.get(name.as_bytes()) }?)
    }

    /// Calls a function that takes a handle and nothing else, such as `clReleaseEvent` and
    /// `clFlush`.
    pub fn call(&self, name: &str, handle: ClHandle) -> Attempt<()> {
        // SAFETY: they all have this type.
        let function = unsafe { self.function::<ReleaseHandle>(name) }?;
        // SAFETY: the handles in this program are alive while they are used.
        done(name, unsafe { function(handle) })
    }

    /// Returns the context and the device of a queue.
    pub fn home_of(&self, queue: ClHandle) -> Attempt<(ClHandle, ClHandle)> {
        type Info =
            unsafe extern "system" fn(ClHandle, u32, usize, *mut ClHandle, *mut usize) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let info = unsafe { self.function::<Info>("clGetCommandQueueInfo") }?;
        let ask = |what| {
            let mut answer = ptr::null_mut();
            // SAFETY: the answer is one handle.
            let code =
                unsafe { info(queue, what, size_of::<ClHandle>(), &mut answer, ptr::null_mut()) };
            done("clGetCommandQueueInfo", code).map(|()| answer)
        };
        Ok((ask(QUEUE_CONTEXT)?, ask(QUEUE_DEVICE)?))
    }

    /// Makes a context of one device.
    pub fn create_context(&self, device: ClHandle) -> Attempt<ClHandle> {
        self.create_context_of(&[device])
    }

    /// Makes a context of several devices of one platform.
    pub fn create_context_of(&self, devices: &[ClHandle]) -> Attempt<ClHandle> {
        type Create = unsafe extern "system" fn(
            *const isize,
            u32,
            *const ClHandle,
            *const c_void,
            *mut c_void,
            *mut i32,
        ) -> ClHandle;
        // SAFETY: the type of OpenCL's headers.
        let create = unsafe { self.function::<Create>("clCreateContext") }?;
        let mut code = 0;
        let (count, list) = (devices.len() as u32, devices.as_ptr());
        // SAFETY: so many devices, no properties, no callback.
        let context =
            unsafe { create(ptr::null(), count, list, ptr::null(), ptr::null_mut(), &mut code) };
        done("clCreateContext", code).map(|()| context)
    }

    /// Makes a queue that runs its commands in any order.
    pub fn create_out_of_order_queue(
        &self,
        context: ClHandle,
        device: ClHandle,
    ) -> Attempt<ClHandle> {
        type Create = unsafe extern "system" fn(ClHandle, ClHandle, u64, *mut i32) -> ClHandle;
        // SAFETY: the type of OpenCL's headers.
        let create = unsafe { self.function::<Create>("clCreateCommandQueue") }?;
        let mut code = 0;
        // SAFETY: both are alive.
        let queue = unsafe { create(context, device, OUT_OF_ORDER, &mut code) };
        done("clCreateCommandQueue", code).map(|()| queue)
    }

    /// Makes an event that the host completes.
    pub fn create_user_event(&self, context: ClHandle) -> Attempt<ClHandle> {
        type Create = unsafe extern "system" fn(ClHandle, *mut i32) -> ClHandle;
        // SAFETY: the type of OpenCL's headers.
        let create = unsafe { self.function::<Create>("clCreateUserEvent") }?;
        let mut code = 0;
        // SAFETY: the context is alive.
        let event = unsafe { create(context, &mut code) };
        done("clCreateUserEvent", code).map(|()| event)
    }

    /// Sets the status of a user event: 0 completes it, a negative number says that its work
    /// failed.
    pub fn set_status(&self, event: ClHandle, status: i32) -> Attempt<()> {
        type Set = unsafe extern "system" fn(ClHandle, i32) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let set = unsafe { self.function::<Set>("clSetUserEventStatus") }?;
        // SAFETY: the event is alive.
        done("clSetUserEventStatus", unsafe { set(event, status) })
    }

    /// Has a queue wait for an event.
    pub fn wait_for(&self, queue: ClHandle, event: ClHandle) -> Attempt<()> {
        let name = "clEnqueueBarrierWithWaitList";
        // SAFETY: the type of OpenCL's headers.
        let barrier = unsafe { self.function::<WaitList>(name) }?;
        // SAFETY: both are alive.
        done(name, unsafe { barrier(queue, 1, &event, ptr::null_mut()) })
    }

    /// Returns an event behind all that was submitted to a queue.
    pub fn record(&self, queue: ClHandle) -> Attempt<ClHandle> {
        let name = "clEnqueueBarrierWithWaitList";
        // SAFETY: the type of OpenCL's headers.
        let barrier = unsafe { self.function::<WaitList>(name) }?;
        let mut event = ptr::null_mut();
        // SAFETY: the queue is alive; there is room for one event.
        done(name, unsafe { barrier(queue, 0, ptr::null(), &mut event) }).map(|()| event)
    }

    /// Returns the number of references to a `cl_mem` (0x1105), a `cl_event` (0x11D2) or a
    /// `cl_command_queue` (0x1092).
    pub fn references(&self, name: &str, handle: ClHandle, what: u32) -> Attempt<u32> {
        type Info = unsafe extern "system" fn(ClHandle, u32, usize, *mut u32, *mut usize) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let info = unsafe { self.function::<Info>(name) }?;
        let mut count = 0;
        // SAFETY: the handle is alive; the answer is one number.
        let code = unsafe { info(handle, what, 4, &mut count, ptr::null_mut()) };
        done(name, code).map(|()| count)
    }

    /// Builds a program, and returns one kernel of it.
    pub fn create_kernel(&self, context: ClHandle, source: &str, name: &str) -> Attempt<ClHandle> {
        type Source = unsafe extern "system" fn(
            ClHandle,
            u32,
            *const *const u8,
            *const usize,
            *mut i32,
        ) -> ClHandle;
        type Build = unsafe extern "system" fn(
            ClHandle,
            u32,
            *const ClHandle,
            *const u8,
            *const c_void,
            *mut c_void,
        ) -> i32;
        type Kernel = unsafe extern "system" fn(ClHandle, *const i8, *mut i32) -> ClHandle;
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

    /// Submits a kernel over `items` items. Its arguments are buffers.
    pub fn launch(
        &self,
        queue: ClHandle,
        kernel: ClHandle,
        buffers: &[ClHandle],
        items: usize,
    ) -> Attempt<()> {
        type SetArg = unsafe extern "system" fn(ClHandle, u32, usize, *const ClHandle) -> i32;
        type Launch = unsafe extern "system" fn(
            ClHandle,
            ClHandle,
            u32,
            *const usize,
            *const usize,
            *const usize,
            u32,
            *const ClHandle,
            *mut ClHandle,
        ) -> i32;
        // SAFETY: the type of OpenCL's headers.
        let set = unsafe { self.function::<SetArg>("clSetKernelArg") }?;
        for (index, buffer) in buffers.iter().enumerate() {
            // SAFETY: a buffer argument is a handle.
            let code = unsafe { set(kernel, index as u32, size_of::<ClHandle>(), buffer) };
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

fn done(call: &str, code: i32) -> Attempt<()> {
    if code == 0 { Ok(()) } else { Err(format!("{call}: {code}").into()) }
}

/// A gate that holds work back until it is opened: a user event.
#[derive(Debug)]
pub struct UserEventGate<'cl> {
    cl: &'cl Cl,
    event: ClHandle,
    is_closed: bool,
}

impl<'cl> UserEventGate<'cl> {
    /// Closes a gate in front of everything that is submitted to this queue from now on.
    pub fn before(cl: &'cl Cl, queue: ClHandle) -> Attempt<Self> {
        let gate = Self::alone(cl, cl.home_of(queue)?.0)?;
        cl.wait_for(queue, gate.event)?;
        Ok(gate)
    }

    /// Makes a closed gate that nothing waits for yet.
    pub fn alone(cl: &'cl Cl, context: ClHandle) -> Attempt<Self> {
        Ok(Self { cl, event: cl.create_user_event(context)?, is_closed: true })
    }

    /// The user event.
    pub fn event(&self) -> ClHandle {
        self.event
    }

    /// Lets the work go on.
    pub fn open(&mut self) -> Attempt<()> {
        self.end(0)
    }

    /// Opens the gate with a status, which may say that the work failed.
    pub fn end(&mut self, status: i32) -> Attempt<()> {
        self.is_closed = false;
        self.cl.set_status(self.event, status)
    }
}

impl Drop for UserEventGate<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            let _ = self.open();
        }
        let _ = self.cl.call("clReleaseEvent", self.event);
    }
}
