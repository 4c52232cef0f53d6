//! A hand-written producer of device streams. It watches how it is called, and makes one mistake on
//! demand.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};

use super::{Books, Script, Step};
use crate::plan::Plan;
use crate::producer;

/// A mistake of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerFault {
    /// Names the type of device only with the first array.
    NamesTypeLate,
    /// Hands out arrays on other types of devices than it names.
    MixesTypes,
    /// Gives its schema only once.
    GivesSchemaOnce,
    /// Gives another schema after the first array.
    ChangesSchema,
    /// Ends with an error.
    EndsWithError,
    /// Begins again after the end.
    BeginsAgain,
    /// Ends where it should report an error.
    HidesError,
    /// Ends when it is asked again after an error.
    ForgetsError,
    /// Gives a text that is not UTF-8.
    GarblesText,
    /// Gives no text for any error.
    LosesText,
    /// Gives a code that is no `errno` value.
    LosesCode,
    /// Writes to its output although it returns an error.
    HandsOutWithError,
    /// Frees the format of its schemas when it is released.
    TakesSchemasAlong,
    /// Empties its arrays when it is released.
    TakesArraysAlong,
    /// Does not mark itself as released.
    LeavesReleaseSet,
    /// Keeps the address of the struct, which may be moved.
    KeepsAddress,
    /// Frees nothing when it is released.
    Leaks,
}

/// How long a call waits for another one to overlap with it. The first call does not wait.
#[derive(Clone, Copy, Debug)]
pub struct Watch(pub Duration);

/// The target of `private_data`. It is never freed, to see who calls after the release.
struct StreamData {
    books: Books,
    script: Script,
    fault: Option<ProducerFault>,
    watch: Watch,
    is_busy: AtomicBool,
    calls: AtomicUsize,
    state: Mutex<StreamState>,
}

#[derive(Default)]
struct StreamState {
    next: usize,
    is_released: bool,
    failed: bool,
    schemas: usize,
    address: usize,
    /// The text of the last error. Its memory holds question marks after the next call.
    text: Option<Raw>,
    formats: Vec<Raw>,
    tables: Vec<(*mut *const c_void, usize)>,
}

/// Bytes that are never freed, and are only touched through this pointer.
#[derive(Clone, Copy)]
struct Raw(*mut u8, usize);

// SAFETY: behind a lock.
unsafe impl Send for StreamState {}

static ALL: Mutex<Vec<Arc<StreamData>>> = Mutex::new(Vec::new());

/// Makes a stream that follows the script.
pub fn produce(
    script: &Script,
    fault: Option<ProducerFault>,
    books: &Books,
) -> ArrowDeviceArrayStream {
    produce_watched(script, fault, books, Watch(Duration::ZERO))
}

/// Makes a stream whose calls wait for others to overlap with them.
pub fn produce_watched(
    script: &Script,
    fault: Option<ProducerFault>,
    books: &Books,
    watch: Watch,
) -> ArrowDeviceArrayStream {
    books.stream.opened();
    let private = Arc::new(StreamData {
        books: books.clone(),
        script: script.clone(),
        fault,
        watch,
        is_busy: AtomicBool::new(false),
        calls: AtomicUsize::new(0),
        state: Mutex::default(),
    });
    let private_data = Arc::as_ptr(&private).cast_mut().cast();
    ALL.lock().unwrap().push(private);
    let is_late = fault == Some(ProducerFault::NamesTypeLate);
    ArrowDeviceArrayStream {
        device_type: if is_late { 0 } else { script.device_type },
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data,
    }
}

impl StreamData {
    unsafe fn of<'a>(stream: *mut ArrowDeviceArrayStream) -> &'a Self {
        unsafe { &*(*stream).private_data.cast::<Self>() }
    }

    fn complain(&self, complaint: &str) {
        self.books.stream.complain(complaint);
    }

    /// Runs a call, and checks whether it may come now.
    fn call<T>(&self, name: &str, body: impl FnOnce(&mut StreamState) -> T) -> T {
        if self.is_busy.swap(true, Ordering::SeqCst) {
            self.complain("two calls overlap");
        }
        if self.calls.fetch_add(1, Ordering::SeqCst) > 0 {
            let end = Instant::now() + self.watch.0;
            while Instant::now() < end && self.books.stream.complaints().is_ok() {
                std::thread::yield_now();
            }
        }
        let mut state = self.state.lock().unwrap();
        if state.is_released {
            self.complain(&format!("{name} was called after release"));
        }
        let result = body(&mut state);
        drop(state);
        self.is_busy.store(false, Ordering::SeqCst);
        result
    }

    /// Returns the step that comes now.
    fn step(&self, state: &mut StreamState) -> Option<Step> {
        let step = self.script.steps.get(state.next).cloned();
        match (&step, self.fault) {
            (None, Some(ProducerFault::BeginsAgain)) => state.next = 0,
            (Some(Step::Error(..)), fault) if fault != Some(ProducerFault::ForgetsError) => {}
            (Some(_), _) => state.next += 1,
            (None, _) => {}
        }
        step
    }

    fn chunk(&self, state: &mut StreamState, plan: &Plan, device: (i32, i64)) -> ArrowDeviceArray {
        let mut array = producer::array(plan, &self.books.chunks);
        if self.fault == Some(ProducerFault::TakesArraysAlong) {
            let table = in_kept_memory(array.buffers, array.n_buffers as usize);
            array.buffers = table;
            state.tables.push((table, array.n_buffers as usize));
        }
        producer::on_device(array, device.0, device.1)
    }
}

impl StreamState {
    /// Overwrites the text of the last error, as a new call does.
    fn forget_error(&mut self) {
        self.failed = false;
        if let Some(text) = self.text.take() {
            text.fill(b'?');
        }
    }

    fn fail(&mut self, errno: c_int, text: Option<&[u8]>) -> c_int {
        self.failed = true;
        self.text = text.map(Raw::new);
        errno
    }
}

impl Raw {
    /// Copies bytes, and adds a NUL byte.
    fn new(bytes: &[u8]) -> Self {
        let copy = [bytes, b"\0"].concat().leak();
        LEAKED.lock().unwrap().push(Kept(copy.as_mut_ptr()));
        Self(LEAKED.lock().unwrap().last().unwrap().0, bytes.len())
    }

    fn fill(self, byte: u8) {
        unsafe { self.0.write_bytes(byte, self.1) };
    }
}

/// Copies a table into memory that is never freed: the stream writes to the table when it is
/// released, and the array may have been released before.
fn in_kept_memory(table: *mut *const c_void, entries: usize) -> *mut *const c_void {
    let copy = (0..entries).map(|index| unsafe { table.add(index).read() }).collect::<Vec<_>>();
    let copy = copy.leak().as_mut_ptr();
    LEAKED.lock().unwrap().push(Kept(copy.cast()));
    copy
}

/// Shows leak checkers the memory that is never freed.
static LEAKED: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

struct Kept(*mut u8);

// SAFETY: not looked at from here.
unsafe impl Send for Kept {}

unsafe extern "C" fn get_schema(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowSchema,
) -> c_int {
    let private = unsafe { StreamData::of(stream) };
    private.call("get_schema", |state| {
        state.forget_error();
        state.schemas += 1;
        if private.fault == Some(ProducerFault::GivesSchemaOnce) && state.schemas > 1 {
            return state.fail(libc::EINVAL, Some(b"asked twice"));
        }
        let mut plan = private.script.schema.clone();
        if private.fault == Some(ProducerFault::ChangesSchema) && state.next > 0 {
            plan.name = Some(c"another".into());
        }
        let mut schema = producer::schema(&plan, &private.books.schemas);
        if private.fault == Some(ProducerFault::TakesSchemasAlong) {
            let format = Raw::new(plan.format.as_bytes());
            schema.format = format.0.cast();
            state.formats.push(format);
        }
        unsafe { out.write(schema) };
        0
    })
}

unsafe extern "C" fn get_next(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowDeviceArray,
) -> c_int {
    let private = unsafe { StreamData::of(stream) };
    let fault = private.fault;
    private.call("get_next", |state| {
        state.forget_error();
        if fault == Some(ProducerFault::NamesTypeLate) {
            unsafe { (*stream).device_type = private.script.device_type };
        }
        let here = stream.addr();
        if fault == Some(ProducerFault::KeepsAddress) && ![0, here].contains(&state.address) {
            return state.fail(libc::EINVAL, Some(b"who are you?"));
        }
        state.address = here;
        let device_type = private.script.device_type;
        match private.step(state) {
            Some(Step::Chunk(plan, number)) => {
                let chunk = private.chunk(state, &plan, (device_type, number));
                unsafe { out.write(chunk) };
                0
            }
            Some(Step::Stray(plan, stray)) if fault == Some(ProducerFault::MixesTypes) => {
                let chunk = private.chunk(state, &plan, (stray, 0));
                unsafe { out.write(chunk) };
                0
            }
            Some(Step::Stray(..)) => {
                state.next -= 1;
                state.fail(libc::EINVAL, Some(b"an array on another type of device"))
            }
            Some(Step::Error(errno, text)) => private.fail(state, errno, text, out),
            None if fault == Some(ProducerFault::EndsWithError) => {
                state.fail(libc::EINVAL, Some(b"nothing more"))
            }
            None => {
                unsafe { (*out).array.release = None };
                0
            }
        }
    })
}

impl StreamData {
    fn fail(
        &self,
        state: &mut StreamState,
        errno: i32,
        text: Option<&'static str>,
        out: *mut ArrowDeviceArray,
    ) -> c_int {
        let text = text.map(str::as_bytes);
        match self.fault {
            Some(ProducerFault::HidesError) => {
                unsafe { (*out).array.release = None };
                0
            }
            Some(ProducerFault::GarblesText) => state.fail(errno, Some(b"\xff\xfe")),
            Some(ProducerFault::LosesText) => state.fail(errno, Some(b"it failed")),
            Some(ProducerFault::LosesCode) => state.fail(-1, text),
            Some(ProducerFault::HandsOutWithError) => {
                let chunk = producer::device_array(&self.script.schema, &self.books.chunks);
                unsafe { out.write(chunk) };
                state.fail(errno, text)
            }
            _ => state.fail(errno, text),
        }
    }
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowDeviceArrayStream) -> *const c_char {
    let private = unsafe { StreamData::of(stream) };
    private.call("get_last_error", |state| {
        if !state.failed {
            private.complain("get_last_error was called without an error");
        }
        state.text.map_or(ptr::null(), |text| text.0.cast_const().cast())
    })
}

unsafe extern "C" fn release(stream: *mut ArrowDeviceArrayStream) {
    let private = unsafe { StreamData::of(stream) };
    private.call("release", |state| {
        state.forget_error();
        state.is_released = true;
        private.books.stream.base_released();
        if private.fault == Some(ProducerFault::TakesSchemasAlong) {
            state.formats.iter().for_each(|format| format.fill(b' '));
        }
        if private.fault == Some(ProducerFault::TakesArraysAlong) {
            for (table, entries) in state.tables.drain(..) {
                (0..entries).for_each(|index| unsafe { table.add(index).write(ptr::null()) });
            }
        }
        if private.fault != Some(ProducerFault::Leaks) {
            private.books.stream.closed();
        }
        if private.fault != Some(ProducerFault::LeavesReleaseSet) {
            unsafe { (*stream).release = None };
        }
    });
}
