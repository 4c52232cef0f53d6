//! A consumer of asynchronous streams.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use arrow_device::abi::{
    ArrowAsyncDeviceStreamHandler, ArrowAsyncProducer, ArrowAsyncTask, ArrowDeviceArray,
    ArrowSchema,
};

use super::{Outcome, text_of};
use crate::consumer::{SeenSchema, read_metadata};
use crate::ledger::Ledger;
use crate::{Verdict, require};

/// A mistake of a consumer. Each breaks one rule and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkFault {
    /// The handler has no `on_schema`.
    NoOnSchema,
    /// The handler has no `on_next_task`.
    NoOnNextTask,
    /// The handler has no `on_error`.
    NoOnError,
    /// The handler has no `release`.
    NoRelease,
    /// A task is extracted twice.
    ExtractsTwice,
    /// A task is taken and never extracted.
    NeverExtracts,
    /// A task is extracted and then refused.
    ExtractsThenRefuses,
    /// The schema is left where it is.
    LeavesSchema,
    /// The text of an error is read after the call.
    KeepsText,
    /// `request` is called after the release.
    RequestsAfterRelease,
    /// `cancel` is called after the release.
    CancelsAfterRelease,
    /// `request` is called from inside `on_error`.
    RequestsInsideError,
    /// `cancel` is called from inside `release`.
    CancelsInsideRelease,
    /// Nothing is requested at all.
    RequestsNothing,
    /// Tasks that come after `cancel` are forgotten.
    ForgetsAfterCancel,
    /// The producer is used without a check whether there is one. The process ends when there is
    /// none.
    NeedsProducer,
}

/// A consumer that keeps what it gets. Keep this value until the producer is done.
pub struct Sink(Arc<SharedSink>);

struct SharedSink {
    handler: *mut ArrowAsyncDeviceStreamHandler,
    window: i64,
    fault: Option<SinkFault>,
    books: Ledger,
    state: Mutex<SinkState>,
}

#[derive(Default)]
struct SinkState {
    producer: Option<*mut ArrowAsyncProducer>,
    device_type: i32,
    schema: Option<SeenSchema>,
    stream_metadata: Vec<u8>,
    tasks: VecDeque<(ArrowAsyncTask, Vec<u8>)>,
    requested: i64,
    arrived: i64,
    cancelled: bool,
    ended: bool,
    error: Option<(i32, Option<String>, Vec<u8>)>,
    refused: bool,
    released: usize,
    failed_extract: bool,
    /// The callbacks that are running.
    inside: Vec<&'static str>,
    /// The method of the producer that is running, and the thread it runs on.
    calling: Option<(&'static str, ThreadId)>,
    refuse_schema: Option<i32>,
    refuse_task: Option<(i64, i32)>,
    kept_text: Option<*const c_char>,
    linger: Duration,
}

// SAFETY: what is shared is under the lock; the structs belong to the test.
unsafe impl Send for SharedSink {}
unsafe impl Sync for SharedSink {}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sink")
    }
}

impl Sink {
    /// Makes a consumer that asks for `window` tasks when it has the schema, and for one more task
    /// with each that it takes.
    pub fn new(window: i64, fault: Option<SinkFault>) -> Self {
        let handler = Box::into_raw(Box::new(ArrowAsyncDeviceStreamHandler {
            on_schema: (fault != Some(SinkFault::NoOnSchema)).then_some(on_schema as _),
            on_next_task: (fault != Some(SinkFault::NoOnNextTask)).then_some(on_next_task as _),
            on_error: (fault != Some(SinkFault::NoOnError)).then_some(on_error as _),
            release: (fault != Some(SinkFault::NoRelease)).then_some(release as _),
            ..ArrowAsyncDeviceStreamHandler::empty()
        }));
        let (books, state) = (Ledger::default(), Mutex::default());
        let inner = Arc::new(SharedSink { handler, window, fault, books, state });
        unsafe { (*handler).private_data = Arc::as_ptr(&inner).cast_mut().cast() };
        Self(inner)
    }

    /// Stays in `on_next_task` for this long, so that two calls at once are seen.
    pub fn lingering(self, time: Duration) -> Self {
        self.0.state.lock().unwrap().linger = time;
        self
    }

    /// Returns the handler, for a producer.
    pub fn handler(&self) -> *mut ArrowAsyncDeviceStreamHandler {
        self.0.handler
    }

    /// Makes the consumer answer the schema with this code.
    pub fn refuse_schema(&self, code: i32) {
        self.0.state.lock().unwrap().refuse_schema = Some(code);
    }

    /// Makes the consumer answer the task with this number, from 0, with this code.
    pub fn refuse_task(&self, number: i64, code: i32) {
        self.0.state.lock().unwrap().refuse_task = Some((number, code));
    }

    /// Asks for more tasks.
    pub fn request(&self, count: i64) {
        self.0.request(count);
    }

    /// Asks the producer to stop.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Returns how many tasks wait to be taken.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().unwrap().tasks.len()
    }

    /// Returns how many tasks have come.
    pub fn arrived(&self) -> i64 {
        self.0.state.lock().unwrap().arrived
    }

    /// Returns the encoded metadata of the stream, of the next task and of the error.
    pub fn metadata(&self) -> [Vec<u8>; 3] {
        let state = self.0.state.lock().unwrap();
        let of_task = state.tasks.front().map(|(_, metadata)| metadata.clone());
        let of_error = state.error.as_ref().map(|(_, _, metadata)| metadata.clone());
        [state.stream_metadata.clone(), of_task.unwrap_or_default(), of_error.unwrap_or_default()]
    }

    /// Extracts the next task, releases its array and asks for one more. `Err` is the code that
    /// `extract_data` returned; `None` means that no task waits. The result is the array's length.
    pub fn take(&self) -> Option<Result<i64, i32>> {
        let extracted = self.extract_only()?;
        if !self.is_over() && self.0.fault != Some(SinkFault::RequestsNothing) {
            self.0.request(1);
        }
        Some(extracted)
    }

    /// [`take`](Self::take) without asking for more.
    pub fn extract_only(&self) -> Option<Result<i64, i32>> {
        let (mut task, device_type) = {
            let mut state = self.0.state.lock().unwrap();
            (state.tasks.pop_front()?.0, state.device_type)
        };
        if self.0.fault == Some(SinkFault::NeverExtracts) {
            return Some(Ok(0));
        }
        let mut array = ArrowDeviceArray::empty();
        array.reserved = [0x5a; 3];
        let extract = task.extract_data.unwrap();
        let code = unsafe { extract(&raw mut task, &raw mut array) };
        if self.0.fault == Some(SinkFault::ExtractsTwice) {
            unsafe { extract(&raw mut task, ptr::null_mut()) };
        }
        if code != 0 {
            if array.reserved != [0x5a; 3] || !array.array.is_released() {
                self.0.books.complain("`extract_data` failed and wrote something");
            }
            self.0.state.lock().unwrap().failed_extract = true;
            return Some(Err(code));
        }
        if array.array.is_released() {
            self.0.books.complain("`extract_data` gave nothing and said nothing");
            return Some(Ok(0));
        }
        if array.device_type != device_type {
            self.0.books.complain("an array is on another type of device than the stream");
        }
        let length = array.array.length;
        if let Err(complaint) = crate::consumer::release(array.array) {
            self.0.books.complain(complaint);
        }
        Some(Ok(length))
    }

    /// Extracts all waiting tasks with NULL, which discards them.
    pub fn discard(&self) {
        self.0.discard();
    }

    /// Whether the producer can be called: it has passed its struct, and is not done.
    pub fn is_open_to_calls(&self) -> bool {
        let state = self.0.state.lock().unwrap();
        state.producer.is_some() && state.released == 0
    }

    /// Whether the end came. Only the release may follow.
    pub fn was_told_the_end(&self) -> bool {
        self.0.state.lock().unwrap().ended
    }

    /// Whether an error came. Only the release may follow.
    pub fn was_told_an_error(&self) -> bool {
        self.0.state.lock().unwrap().error.is_some()
    }

    /// Returns the result of the stream so far.
    pub fn outcome(&self) -> Outcome {
        let state = self.0.state.lock().unwrap();
        match (&state.error, state.ended, state.released) {
            (_, _, 0) => Outcome::Open,
            (Some((code, text, _)), ..) => {
                let text = state.kept_text.map_or_else(|| text.clone(), text_of);
                Outcome::Failed(*code, text)
            }
            (None, true, _) => Outcome::Ended,
            (None, false, _) => Outcome::Released,
        }
    }

    /// Checks that the producer kept to its rules, and is done.
    pub fn settle(&self) -> Verdict {
        self.0.books.complaints()?;
        let released = self.0.state.lock().unwrap().released;
        require(released == 1, || format!("`release` was called {released} times"))
    }

    /// Checks that the producer kept to its rules so far.
    pub fn complaints(&self) -> Verdict {
        self.0.books.complaints()
    }

    fn is_over(&self) -> bool {
        let state = self.0.state.lock().unwrap();
        state.released > 0 || state.error.is_some() || state.ended || state.refused
    }
}

impl Drop for Sink {
    /// A failed test drops things in any order. The state that the other side may still call is
    /// leaked.
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.clone());
        }
    }
}

impl Drop for SharedSink {
    fn drop(&mut self) {
        drop(unsafe { Box::from_raw(self.handler) });
        // Because such consumers exist, producers do not trust their callers.
        let Some(producer) = self.state.get_mut().unwrap().producer else { return };
        match self.fault {
            Some(SinkFault::RequestsAfterRelease) => unsafe {
                (*producer).request.unwrap()(producer, 1)
            },
            Some(SinkFault::CancelsAfterRelease) => unsafe {
                (*producer).cancel.unwrap()(producer)
            },
            _ => {}
        }
    }
}

impl SharedSink {
    fn has(&self, fault: SinkFault) -> bool {
        self.fault == Some(fault)
    }

    fn request(&self, count: i64) {
        let producer = {
            let mut state = self.state.lock().unwrap();
            state.requested += count.max(0);
            state.producer.unwrap()
        };
        self.calling("request", || unsafe { (*producer).request.unwrap()(producer, count) });
    }

    fn cancel(&self) {
        let producer = {
            let mut state = self.state.lock().unwrap();
            state.cancelled = true;
            state.producer.unwrap()
        };
        self.calling("cancel", || unsafe { (*producer).cancel.unwrap()(producer) });
    }

    fn discard(&self) {
        loop {
            let Some((mut task, _)) = self.state.lock().unwrap().tasks.pop_front() else { return };
            let code = unsafe { task.extract_data.unwrap()(&raw mut task, ptr::null_mut()) };
            if code != 0 {
                self.books.complain(format!("a task that nobody wants answers {code}"));
            }
        }
    }

    fn calling(&self, method: &'static str, body: impl FnOnce()) {
        let before = {
            let mut state = self.state.lock().unwrap();
            state.calling.replace((method, std::thread::current().id()))
        };
        body();
        self.state.lock().unwrap().calling = before;
    }

    /// Notes that a callback began, and complains about what is wrong with it in general.
    fn enter(&self, callback: &'static str) {
        let mut state = self.state.lock().unwrap();
        let complain = |complaint: String| self.books.complain(complaint);
        if state.released > 0 {
            complain(format!("`{callback}` was called after the release"));
        }
        if let Some((method, thread)) = state.calling {
            let allowed = method == "cancel" && callback == "on_error";
            if thread == std::thread::current().id() && !allowed {
                complain(format!("`{method}` called `{callback}` before it returned"));
            }
        }
        let nested = callback == "on_error" && state.calling.is_some();
        if let (Some(other), false) = (state.inside.last(), nested) {
            complain(format!("`{callback}` was called while `{other}` was running"));
        }
        let last = if state.error.is_some() {
            Some("`on_error`")
        } else if state.refused {
            Some("a refusal")
        } else {
            state.ended.then_some("the end")
        };
        if let (Some(last), false) = (last, callback == "release") {
            complain(format!("`{callback}` was called after {last}"));
        }
        if callback == "on_next_task" && state.schema.is_none() && !state.refused {
            complain("`on_next_task` was called before `on_schema`".into());
        }
        if callback != "release" && unsafe { (*self.handler).producer }.is_null() {
            complain(format!("`{callback}` was called before `producer` was set"));
        }
        state.inside.push(callback);
    }

    fn leave(&self, code: c_int) -> c_int {
        let mut state = self.state.lock().unwrap();
        state.inside.pop();
        state.refused |= code != 0;
        code
    }
}

/// Returns the sink of a handler. The share lasts as long as the callback, because another thread
/// may drop the sink's own share as soon as it sees that `release` was called.
fn inner(handler: *mut ArrowAsyncDeviceStreamHandler) -> Arc<SharedSink> {
    let shared: *const SharedSink = unsafe { (*handler).private_data }.cast();
    unsafe { Arc::increment_strong_count(shared) };
    unsafe { Arc::from_raw(shared) }
}

unsafe extern "C" fn on_schema(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    schema: *mut ArrowSchema,
) -> c_int {
    let sink = inner(handler);
    sink.enter("on_schema");
    let producer = unsafe { (*handler).producer };
    if sink.has(SinkFault::NeedsProducer) && producer.is_null() {
        // Reading there would end the process.
        std::process::abort();
    }
    let is_second = sink.state.lock().unwrap().schema.is_some();
    if is_second {
        sink.books.complain("there was a schema already");
        return sink.leave(libc::EINVAL);
    }
    if producer.is_null() || unsafe { (*schema).is_released() } {
        sink.books.complain("there is no producer, or no schema");
        return sink.leave(libc::EINVAL);
    }
    let callbacks = unsafe { ((*producer).request.is_some(), (*producer).cancel.is_some()) };
    if callbacks != (true, true) {
        sink.books.complain("the producer lacks a callback");
        return sink.leave(libc::EINVAL);
    }
    let pairs = unsafe { (*producer).additional_metadata };
    if !pairs.is_null() && unsafe { pairs.cast::<i32>().read_unaligned() } < 0 {
        sink.books.complain("the metadata of the stream is malformed");
        return sink.leave(libc::EINVAL);
    }
    let refusal = {
        let mut state = sink.state.lock().unwrap();
        state.producer = Some(producer);
        state.device_type = unsafe { (*producer).device_type };
        state.stream_metadata = read_metadata(pairs.cast());
        state.schema = Some(SeenSchema::of(unsafe { &*schema }));
        state.refuse_schema
    };
    if !sink.has(SinkFault::LeavesSchema) {
        let moved = crate::consumer::move_out(schema);
        if let Err(complaint) = crate::consumer::release(moved) {
            sink.books.complain(complaint);
        }
    }
    if let Some(code) = refusal {
        return sink.leave(code);
    }
    if sink.window > 0 && !sink.has(SinkFault::RequestsNothing) {
        sink.request(sink.window);
    }
    sink.leave(0)
}

unsafe extern "C" fn on_next_task(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    task: *mut ArrowAsyncTask,
    metadata: *const c_char,
) -> c_int {
    let sink = inner(handler);
    sink.enter("on_next_task");
    let linger = sink.state.lock().unwrap().linger;
    if !linger.is_zero() {
        std::thread::sleep(linger);
    }
    if task.is_null() {
        let mut state = sink.state.lock().unwrap();
        if state.failed_extract {
            sink.books.complain("the end came although a task has failed");
        }
        state.ended = true;
        drop(state);
        return sink.leave(0);
    }
    let taken = unsafe { task.read() };
    let Some(extract) = taken.extract_data else {
        sink.books.complain("a task has no `extract_data`");
        return sink.leave(libc::EINVAL);
    };
    if !metadata.is_null() && unsafe { metadata.cast::<i32>().read_unaligned() } < 0 {
        sink.books.complain("the metadata of a task is malformed");
        return sink.leave(libc::EINVAL);
    }
    let metadata = read_metadata(metadata.cast());
    let mut state = sink.state.lock().unwrap();
    let number = state.arrived;
    state.arrived += 1;
    if state.arrived > state.requested {
        sink.books.complain("there are more tasks than were requested");
    }
    if state.failed_extract {
        sink.books.complain("the stream goes on although a task has failed");
    }
    let refusal = state.refuse_task.filter(|(refused, _)| *refused == number);
    let cancelled = state.cancelled;
    if let Some((_, code)) = refusal {
        drop(state);
        if sink.has(SinkFault::ExtractsThenRefuses) {
            let mut taken = taken;
            unsafe { extract(&raw mut taken, ptr::null_mut()) };
        }
        return sink.leave(code);
    }
    if cancelled && sink.has(SinkFault::ForgetsAfterCancel) {
        drop(state);
        return sink.leave(0);
    }
    state.tasks.push_back((taken, metadata));
    drop(state);
    if cancelled {
        sink.discard();
    }
    sink.leave(0)
}

unsafe extern "C" fn on_error(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    code: c_int,
    message: *const c_char,
    metadata: *const c_char,
) {
    let sink = inner(handler);
    sink.enter("on_error");
    {
        let mut state = sink.state.lock().unwrap();
        if state.cancelled && !state.failed_extract {
            sink.books.complain("a cancel led to an error");
        }
        if code == 0 {
            sink.books.complain("an error has the code 0");
        }
        let metadata = read_metadata(metadata.cast());
        state.kept_text = sink.has(SinkFault::KeepsText).then_some(message);
        state.error = Some((code, text_of(message), metadata));
    }
    if sink.has(SinkFault::RequestsInsideError) {
        sink.request(1);
    }
    sink.leave(0);
}

unsafe extern "C" fn release(handler: *mut ArrowAsyncDeviceStreamHandler) {
    let sink = inner(handler);
    sink.enter("release");
    // Without a schema there is no producer to call.
    let has_producer = sink.state.lock().unwrap().producer.is_some();
    if sink.has(SinkFault::CancelsInsideRelease) && has_producer {
        sink.cancel();
    }
    sink.state.lock().unwrap().released += 1;
    sink.leave(0);
}
