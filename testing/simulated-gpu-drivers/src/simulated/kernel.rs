//! [`Kernel`]: a closure that stands for work on the device, and says what it reads and writes.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Simulated, c_string};
use crate::control::Span;
use crate::work::KernelFunction;

/// Work of a test's own, to be launched on a stream. Made by [`Simulated::kernel`].
#[derive(Debug)]
#[must_use = "nothing happens until it is launched"]
pub struct Kernel<'driver> {
    driver: &'driver Simulated,
    name: String,
    reads: Vec<Span>,
    writes: Vec<Span>,
}

/// The bytes that a kernel said it uses, while it runs: copies, of which those that it writes are
/// written back.
#[derive(Debug)]
pub struct Memory<'run> {
    inputs: Vec<&'run [u8]>,
    outputs: Vec<&'run mut [u8]>,
}

impl Memory<'_> {
    /// The bytes of the n-th `reads`. Empty where there was no such call.
    pub fn input(&self, number: usize) -> &[u8] {
        self.inputs.get(number).copied().unwrap_or_default()
    }

    /// The bytes of the n-th `writes`, as they are now. Empty where there was no such call.
    pub fn output(&mut self, number: usize) -> &mut [u8] {
        self.outputs.get_mut(number).map_or(&mut [], |bytes| bytes)
    }
}

type Run = Box<dyn FnOnce(&mut Memory<'_>) + Send>;

/// What travels through the library: the closure, and how long its bytes are.
struct Launched {
    run: Run,
    reads: Vec<usize>,
    writes: Vec<usize>,
}

type Launch = unsafe extern "C" fn(
    u64,
    *const c_char,
    *const Span,
    usize,
    usize,
    KernelFunction,
    *mut c_void,
) -> i32;

impl<'driver> Kernel<'driver> {
    pub(super) fn new(driver: &'driver Simulated, name: &str) -> Self {
        Self { driver, name: name.to_owned(), reads: Vec::new(), writes: Vec::new() }
    }

    /// It reads these bytes. It finds them as [`Memory::input`] with the number of this call,
    /// from 0.
    pub fn reads(mut self, address: u64, len: u64) -> Self {
        self.reads.push(Span { address, len });
        self
    }

    /// It writes these bytes. It finds them as [`Memory::output`] with the number of this call,
    /// from 0.
    pub fn writes(mut self, address: u64, len: u64) -> Self {
        self.writes.push(Span { address, len });
        self
    }

    /// Submits it to a stream, by its handle. Returns the driver's code.
    ///
    /// It runs when somebody waits for it, on that thread, and must not call the driver. On a lost
    /// device, and on a stream that is captured, it never runs and its closure is leaked.
    pub fn launch(self, stream: u64, run: impl FnOnce(&mut Memory<'_>) + Send + 'static) -> i32 {
        let lengths = |spans: &[Span]| spans.iter().map(|span| span.len as usize).collect();
        let (reads, writes) = (lengths(&self.reads), lengths(&self.writes));
        let launched = Box::into_raw(Box::new(Launched { run: Box::new(run), reads, writes }));
        let spans = [&self.reads[..], &self.writes[..]].concat();
        let (name, counts) = (c_string(&self.name), (self.reads.len(), self.writes.len()));
        // SAFETY: the type is that of the function.
        let launch: Launch = unsafe { self.driver.control("launch") };
        // SAFETY: the text ends with a zero, the spans are as many as said, and `start` takes its
        // pointer for what it is.
        let code = unsafe {
            launch(
                stream,
                name.as_ptr(),
                spans.as_ptr(),
                counts.0,
                counts.1,
                start,
                launched.cast(),
            )
        };
        if code != 0 {
            // SAFETY: made above; a kernel that was refused is never started.
            drop(unsafe { Box::from_raw(launched) });
        }
        code
    }
}

/// Runs a kernel in the process of the test. A panic stays here.
///
/// # Safety
/// Called by the library, once, with what `launch` gave it and arrays as long as its lists.
unsafe extern "C" fn start(
    launched: *mut c_void,
    inputs: *const *const u8,
    outputs: *const *mut u8,
) {
    // SAFETY: called by the library, once, with what `launch` gave it and arrays as long as its
    // lists, as the caller promises.
    let Launched { run, reads, writes } = *unsafe { Box::from_raw(launched.cast::<Launched>()) };
    // SAFETY: called by the library, once, with what `launch` gave it and arrays as long as its
    // lists, as the caller promises.
    let inputs = unsafe { crate::call::entries(inputs, reads.len()) };
    // SAFETY: called by the library, once, with what `launch` gave it and arrays as long as its
    // lists, as the caller promises.
    let outputs = unsafe { crate::call::entries(outputs, writes.len()) };
    let inputs = inputs.into_iter().zip(reads).map(|(bytes, len)| {
        // SAFETY: the library has that many bytes there while the kernel runs.
        unsafe { std::slice::from_raw_parts(bytes, len) }
    });
    let outputs = outputs.into_iter().zip(writes).map(|(bytes, len)| {
        // SAFETY: the library has that many bytes there while the kernel runs, and nobody else has
        // them.
        unsafe { std::slice::from_raw_parts_mut(bytes, len) }
    });
    let mut memory = Memory { inputs: inputs.collect(), outputs: outputs.collect() };
    if catch_unwind(AssertUnwindSafe(|| run(&mut memory))).is_err() {
        eprintln!("a kernel of this test panicked: what it wrote is not to be believed");
    }
}
