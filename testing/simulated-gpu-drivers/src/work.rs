//! Work on streams that is no copy: functions of the host, and kernels.

use std::ffi::c_void;

use arrow_device_sim::KernelMemory;
use arrow_device_sim::hardware::Lane;

use crate::code::Answer;
use crate::machine::Machine;
use crate::thread;

/// A function that a stream calls on the host.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// What a kernel of a test does: its context, and the bytes that it reads and writes, in the order
/// in which it named them.
pub(crate) type KernelFunction =
    unsafe extern "C" fn(*mut c_void, *const *const u8, *const *mut u8);

/// Where bytes begin, and how many there are.
pub(crate) type Spans<'a> = &'a [(usize, u64)];

/// A function and its argument, on the way to the thread that will call it.
struct Callback<F> {
    run: F,
    data: *mut c_void,
}

// SAFETY: whoever submits a callback promises that it may be called, with its data, on any thread.
unsafe impl<F: Send> Send for Callback<F> {}

impl Callback<HostFunction> {
    fn run(self) {
        thread::with(|thread| thread.in_callback = true);
        // SAFETY: the submitter promised that the function may be called once with its data.
        unsafe { (self.run)(self.data) };
        thread::with(|thread| thread.in_callback = false);
    }
}

impl Callback<KernelFunction> {
    fn run(self, memory: &mut KernelMemory, reads: usize, writes: usize) {
        let inputs: Vec<*const u8> = (0..reads).map(|n| memory.input(n).as_ptr()).collect();
        let outputs: Vec<*mut u8> = (0..writes).map(|n| memory.output(n).as_mut_ptr()).collect();
        thread::with(|thread| thread.in_callback = true);
        // SAFETY: the submitter promised that the function may be called once with its data; the
        // bytes are the kernel's own while it runs.
        unsafe { (self.run)(self.data, inputs.as_ptr(), outputs.as_ptr()) };
        thread::with(|thread| thread.in_callback = false);
    }
}

impl Machine {
    /// A function that is called once all earlier work of the stream has run, and before any later.
    pub(crate) fn call_on_host(
        &mut self,
        current: Option<usize>,
        stream: usize,
        run: HostFunction,
        data: *mut c_void,
    ) -> Answer {
        let callback = Callback { run, data };
        self.submit(current, stream, |hardware, lane: Lane| {
            let run = Box::new(move |_: &mut KernelMemory| callback.run());
            hardware.launch(lane, "host function".to_owned(), &[], &[], run)
        })?;
        Ok(())
    }

    /// A kernel that a test gives.
    pub(crate) fn launch(
        &mut self,
        current: Option<usize>,
        stream: usize,
        name: String,
        (reads, writes): (Spans<'_>, Spans<'_>),
        (run, data): (KernelFunction, *mut c_void),
    ) -> Answer<bool> {
        let (callback, inputs, outputs) = (Callback { run, data }, reads.len(), writes.len());
        self.submit(current, stream, |hardware, lane| {
            let run =
                Box::new(move |memory: &mut KernelMemory| callback.run(memory, inputs, outputs));
            hardware.launch(lane, name, reads, writes, run)
        })
    }
}
