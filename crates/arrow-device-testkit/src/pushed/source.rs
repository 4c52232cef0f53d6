//! A producer of asynchronous streams.

use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use arrow_device::abi::{
    ArrowAsyncDeviceStreamHandler, ArrowAsyncProducer, ArrowAsyncTask, ArrowDeviceArray,
};

use super::{batch, numbers};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::{Verdict, plan, producer, require};

/// A mistake of a producer. Each breaks one rule and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFault {
    /// `producer` of the handler stays null.
    NoProducer,
    /// The producer has no `request`.
    NoRequest,
    /// The producer has no `cancel`.
    NoCancel,
    /// The schema comes a second time.
    SchemaTwice,
    /// The schema is a released one.
    NoSchema,
    /// A task comes before the schema.
    TaskBeforeSchema,
    /// The end comes before the schema.
    EndBeforeSchema,
    /// One more task comes than was asked for.
    TaskTooMany,
    /// `request` sends the tasks before it returns.
    SendsInsideRequest,
    /// A request for nothing, or for less, counts as a request for all tasks.
    TakesAnyCount,
    /// `cancel` is answered with `on_error`.
    ErrorOnCancel,
    /// `cancel` calls `release`.
    ReleaseInsideCancel,
    /// A request after `cancel` is honoured, and a request for nothing after it is reported.
    RequestAfterCancelCounts,
    /// The end is not reported before there is credit for it.
    EndNeedsCredit,
    /// A task comes after the end.
    TaskAfterEnd,
    /// The end comes twice.
    EndTwice,
    /// An error comes after the end.
    ErrorAfterEnd,
    /// A task has no `extract_data`.
    NoExtract,
    /// `extract_data` fails, and the stream goes on.
    ExtractFailsSilently,
    /// `extract_data` fails, and only the release follows.
    ExtractFailsAndReleases,
    /// `extract_data` fails and writes to its output anyway.
    ExtractFailsAndWrites,
    /// `extract_data` succeeds and writes nothing.
    ExtractGivesNothing,
    /// A refused task leads to an error.
    ErrorAfterRefusal,
    /// A refused schema leads to the end of the stream.
    EndAfterRefusal,
    /// A refused task is not cleaned up.
    RefusedTaskLeaks,
    /// A task that was extracted and then refused is freed once more. The process ends.
    FreesRefusedTaskTwice,
    /// A task comes after the error.
    TaskAfterError,
    /// The release comes with nothing before it.
    ReleasesAtOnce,
    /// The release comes before the end.
    ReleasesEarly,
    /// The release comes twice.
    ReleasesTwice,
    /// The release does not come.
    NeverReleases,
    /// A task comes after the release.
    TaskAfterRelease,
    /// The first task comes on another thread while `on_schema` is still running.
    Overlaps,
    /// The metadata of the stream says that there are -1 pairs.
    BadMetadata,
    /// The metadata of a task says that there are -1 pairs.
    BadTaskMetadata,
    /// An array is on another type of device.
    StrayArray,
    /// An array is of another type.
    OtherType,
}

type ReleaseHandler = unsafe extern "C" fn(*mut ArrowAsyncDeviceStreamHandler);

/// A producer of tasks with three numbers each. Keep this value until the consumer is done.
pub struct Source(Arc<SharedSource>);

struct SharedSource {
    handler: *mut ArrowAsyncDeviceStreamHandler,
    /// The release callback of the handler. It is read once, because a consumer may clear it.
    release: Option<ReleaseHandler>,
    producer: *mut ArrowAsyncProducer,
    fault: Option<SourceFault>,
    total: usize,
    /// Returns the plan of the array with this first number.
    array: fn(i64) -> Plan,
    books: Arc<Ledger>,
    _metadata: Vec<u8>,
    state: Mutex<SourceState>,
}

#[derive(Default)]
struct SourceState {
    credits: i64,
    has_schema: bool,
    schemas: usize,
    sent: usize,
    cancels: usize,
    error: Option<(i32, Option<&'static str>)>,
    stage: SourceStage,
    tasks: Vec<*mut Sent>,
    /// The callback that is running, and the thread it runs on.
    silent_in: Option<(&'static str, ThreadId)>,
    refusal: Option<i32>,
    /// The texts of errors, which may not be read any more.
    texts: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SourceStage {
    #[default]
    Open,
    /// Only the release is left.
    Closing,
    Released,
}

struct Sent {
    source: *const SharedSource,
    number: usize,
    answer: Option<c_int>,
    extracted: usize,
}

// SAFETY: what is shared is under the lock; the structs belong to the test.
unsafe impl Send for SharedSource {}
unsafe impl Sync for SharedSource {}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

impl Source {
    /// Makes a producer of `total` tasks for this handler. It calls nothing yet.
    pub fn new(
        handler: *mut ArrowAsyncDeviceStreamHandler,
        total: usize,
        fault: Option<SourceFault>,
    ) -> Self {
        Self::of(handler, total, fault, numbers)
    }

    /// Makes a producer as [`new`](Self::new) does, whose arrays are columns of batches.
    pub fn of_batches(
        handler: *mut ArrowAsyncDeviceStreamHandler,
        total: usize,
        fault: Option<SourceFault>,
    ) -> Self {
        Self::of(handler, total, fault, batch)
    }

    fn of(
        handler: *mut ArrowAsyncDeviceStreamHandler,
        total: usize,
        fault: Option<SourceFault>,
        array: fn(i64) -> Plan,
    ) -> Self {
        use SourceFault::{BadMetadata, NoCancel, NoProducer, NoRequest};
        let metadata = match fault {
            Some(BadMetadata) => (-1_i32).to_ne_bytes().to_vec(),
            _ => plan::metadata(&[(b"rows", b"many")]),
        };
        let producer = Box::into_raw(Box::new(ArrowAsyncProducer {
            device_type: 1,
            request: (fault != Some(NoRequest)).then_some(request as _),
            cancel: (fault != Some(NoCancel)).then_some(cancel as _),
            additional_metadata: metadata.as_ptr().cast(),
            private_data: ptr::null_mut(),
        }));
        let books = Ledger::new();
        let state = Mutex::default();
        let release = unsafe { (*handler).release };
        let inner = Arc::new(SharedSource {
            handler,
            release,
            producer,
            fault,
            total,
            array,
            books,
            _metadata: metadata,
            state,
        });
        unsafe { (*producer).private_data = Arc::as_ptr(&inner).cast_mut().cast() };
        if fault != Some(NoProducer) {
            unsafe { (*handler).producer = producer };
        }
        let source = Self(inner);
        source.0.require_callbacks();
        source
    }

    /// Makes the next call that is due. Returns whether there was one.
    pub fn step(&self) -> bool {
        self.0.step()
    }

    /// Makes all calls that are due.
    pub fn run(&self) {
        while self.step() {}
    }

    /// Gives the producer an error to report.
    pub fn fail(&self, code: i32, text: Option<&'static str>) {
        self.0.state.lock().unwrap().error = Some((code, text));
    }

    /// Calls `release` now, whatever is due.
    pub fn release(&self) {
        self.0.release();
    }

    /// Whether the release was called.
    pub fn is_released(&self) -> bool {
        self.0.state.lock().unwrap().stage == SourceStage::Released
    }

    /// Returns how many tasks were sent.
    pub fn sent(&self) -> usize {
        self.0.sent()
    }

    /// Returns how often the consumer has asked to stop.
    pub fn cancels(&self) -> usize {
        self.0.state.lock().unwrap().cancels
    }

    /// Returns how many more tasks may be sent.
    pub fn credits(&self) -> i64 {
        self.0.state.lock().unwrap().credits
    }

    /// Returns the code with which the consumer refused something, if it did.
    pub fn refusal(&self) -> Option<i32> {
        self.0.state.lock().unwrap().refusal
    }

    /// Checks that the consumer kept to its rules: everything was taken once, and nothing is left.
    pub fn settle(&self) -> Verdict {
        self.0.books.complaints()?;
        let state = self.0.state.lock().unwrap();
        for task in &state.tasks {
            let Sent { number, answer, extracted, .. } = unsafe { &**task };
            match (answer, extracted) {
                (Some(0), 1) => {}
                (Some(0), 0) => return Err(format!("task {number} was never extracted")),
                (Some(_), 0) => {}
                (Some(0), more) => return Err(format!("task {number} was extracted {more} times")),
                _ => return Err(format!("task {number} was extracted, and then refused")),
            }
        }
        let live = self.0.books.live();
        require(live == 0, || format!("{live} allocations leaked"))
    }
}

impl Drop for Source {
    /// A failed test drops things in any order. The state that the other side may still call is
    /// leaked.
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.clone());
        }
    }
}

impl Drop for SharedSource {
    fn drop(&mut self) {
        drop(unsafe { Box::from_raw(self.producer) });
        for task in self.state.get_mut().unwrap().tasks.drain(..) {
            drop(unsafe { Box::from_raw(task) });
        }
    }
}

impl SharedSource {
    fn has(&self, fault: SourceFault) -> bool {
        self.fault == Some(fault)
    }

    fn sent(&self) -> usize {
        self.state.lock().unwrap().sent
    }

    fn require_callbacks(&self) {
        let handler = unsafe { &*self.handler };
        let all = [
            handler.on_schema.is_some(),
            handler.on_next_task.is_some(),
            handler.on_error.is_some(),
            handler.release.is_some(),
        ];
        if all.contains(&false) {
            self.books.complain("the handler lacks a callback");
        }
    }

    fn step(&self) -> bool {
        use SourceFault as F;
        let mut state = self.state.lock().unwrap();
        if state.stage == SourceStage::Released {
            return false;
        }
        if state.stage == SourceStage::Closing {
            drop(state);
            if self.has(F::NeverReleases) {
                return false;
            }
            self.release();
            if self.has(F::ReleasesTwice) {
                self.call_release();
            }
            return false;
        }
        if self.has(F::ReleasesAtOnce) {
            state.stage = SourceStage::Closing;
            return true;
        }
        if let Some((code, text)) = state.error.take() {
            state.stage = SourceStage::Closing;
            drop(state);
            self.report(code, text);
            if self.has(F::TaskAfterError) {
                self.send();
            }
            return true;
        }
        if !state.has_schema {
            if self.has(F::TaskBeforeSchema) || self.has(F::EndBeforeSchema) {
                state.stage = SourceStage::Closing;
                drop(state);
                if self.has(F::TaskBeforeSchema) {
                    self.send()
                } else {
                    self.end()
                };
                return true;
            }
            drop(state);
            return self.show_schema();
        }
        if self.has(F::SchemaTwice) && state.schemas < 2 {
            drop(state);
            return self.show_schema();
        }
        if state.cancels > 0 && (state.credits <= 0 || state.sent == self.total) {
            state.stage = SourceStage::Closing;
            return true;
        }
        if state.sent < self.total {
            let extra = i64::from(self.has(F::TaskTooMany));
            if state.credits + extra <= 0 {
                return false;
            }
            if self.has(F::ReleasesEarly) && state.sent == 1 {
                state.stage = SourceStage::Closing;
                return true;
            }
            drop(state);
            self.send();
            return true;
        }
        if self.has(F::EndNeedsCredit) && state.credits <= 0 {
            return false;
        }
        state.stage = SourceStage::Closing;
        drop(state);
        self.end();
        match self.fault {
            Some(F::TaskAfterEnd) => self.send(),
            Some(F::EndTwice) => self.end(),
            Some(F::ErrorAfterEnd) => self.report(libc::EIO, Some("after the end")),
            _ => {}
        }
        true
    }

    fn show_schema(&self) -> bool {
        let mut schema = match self.fault {
            Some(SourceFault::NoSchema) => arrow_device::abi::ArrowSchema::empty(),
            _ => producer::schema(&(self.array)(0), &self.books),
        };
        let handler = unsafe { &*self.handler };
        {
            let mut state = self.state.lock().unwrap();
            state.has_schema = true;
            state.schemas += 1;
        }
        let code = unsafe { handler.on_schema.unwrap()(self.handler, &raw mut schema) };
        if let Some(release) = schema.release {
            unsafe { release(&raw mut schema) };
            if code == 0 {
                self.books.complain("the schema was not moved out");
            }
        }
        // A consumer that kept the pointer sees these bytes.
        unsafe { (&raw mut schema).cast::<u8>().write_bytes(0xaa, size_of_val(&schema)) };
        self.answered(code);
        if code != 0 && self.has(SourceFault::EndAfterRefusal) {
            self.end();
        }
        true
    }

    fn answered(&self, code: c_int) {
        let mut state = self.state.lock().unwrap();
        if code != 0 {
            state.refusal = Some(code);
            state.stage = SourceStage::Closing;
            if self.has(SourceFault::ErrorAfterRefusal) {
                drop(state);
                self.report(libc::EIO, Some("nobody may say this"));
            }
        }
    }

    fn send(&self) {
        let (task, number) = {
            let mut state = self.state.lock().unwrap();
            let number = state.sent;
            state.sent += 1;
            state.credits -= 1;
            let sent = Sent { source: self, number, answer: None, extracted: 0 };
            let task = Box::into_raw(Box::new(sent));
            state.tasks.push(task);
            self.books.opened();
            (task, number)
        };
        let mut c_task = ArrowAsyncTask {
            extract_data: (!self.has(SourceFault::NoExtract)).then_some(extract as _),
            private_data: task.cast(),
        };
        let metadata = match self.fault {
            Some(SourceFault::BadTaskMetadata) => (-1_i32).to_ne_bytes().to_vec(),
            _ => plan::metadata(&[(b"number", number.to_string().as_bytes())]),
        };
        let on_next_task = unsafe { (*self.handler).on_next_task }.unwrap();
        let code = unsafe { on_next_task(self.handler, &raw mut c_task, metadata.as_ptr().cast()) };
        // A consumer that kept the pointer sees these bytes.
        unsafe { (&raw mut c_task).cast::<u8>().write_bytes(0xaa, size_of_val(&c_task)) };
        unsafe { (*task).answer = Some(code) };
        if code != 0
            && unsafe { (*task).extracted } > 0
            && self.has(SourceFault::FreesRefusedTaskTwice)
        {
            // The C library ends a process that frees twice.
            std::process::abort();
        }
        if code != 0
            && unsafe { (*task).extracted } == 0
            && !self.has(SourceFault::RefusedTaskLeaks)
        {
            self.books.closed();
        }
        self.answered(code);
    }

    fn end(&self) {
        let on_next_task = unsafe { (*self.handler).on_next_task }.unwrap();
        let code = unsafe { on_next_task(self.handler, ptr::null_mut(), ptr::null()) };
        self.answered(code);
    }

    fn report(&self, code: i32, text: Option<&str>) {
        let text = text.map(|text| CString::new(text).unwrap().into_bytes_with_nul());
        let metadata = plan::metadata(&[(b"where", b"there")]);
        let on_error = unsafe { (*self.handler).on_error }.unwrap();
        let text_pointer = text.as_ref().map_or(ptr::null(), |text| text.as_ptr().cast());
        self.quietly("on_error", || unsafe {
            on_error(self.handler, code, text_pointer, metadata.as_ptr().cast());
        });
        // A consumer that kept the pointer sees these letters.
        if let Some(mut text) = text {
            text.iter_mut().rev().skip(1).for_each(|byte| *byte = b'x');
            self.state.lock().unwrap().texts.push(text);
        }
    }

    fn release(&self) {
        self.call_release();
        if self.has(SourceFault::TaskAfterRelease) {
            self.send();
        }
    }

    fn call_release(&self) {
        let Some(release) = self.release else { return };
        self.quietly("release", || unsafe { release(self.handler) });
        self.state.lock().unwrap().stage = SourceStage::Released;
    }

    /// Runs a callback from which the producer may not be called.
    fn quietly(&self, callback: &'static str, body: impl FnOnce()) {
        let before = {
            let mut state = self.state.lock().unwrap();
            state.silent_in.replace((callback, std::thread::current().id()))
        };
        body();
        self.state.lock().unwrap().silent_in = before;
    }

    fn called(&self, what: &str) {
        let state = self.state.lock().unwrap();
        if state.stage == SourceStage::Released {
            self.books.complain(format!("`{what}` was called after the release"));
        }
        let here = state.silent_in.filter(|(_, thread)| *thread == std::thread::current().id());
        if let Some((callback, _)) = here {
            self.books.complain(format!("`{what}` was called from inside `{callback}`"));
        }
    }
}

/// Returns the source of a producer. The share lasts as long as the callback, whatever other
/// threads drop.
fn inner(producer: *mut ArrowAsyncProducer) -> Arc<SharedSource> {
    let shared: *const SharedSource = unsafe { (*producer).private_data }.cast();
    unsafe { Arc::increment_strong_count(shared) };
    unsafe { Arc::from_raw(shared) }
}

unsafe extern "C" fn request(producer: *mut ArrowAsyncProducer, count: i64) {
    use SourceFault as F;
    let source = inner(producer);
    source.called("request");
    let mut state = source.state.lock().unwrap();
    if state.cancels > 0 && !source.has(F::RequestAfterCancelCounts) {
        return;
    }
    if count <= 0 {
        if source.has(F::TakesAnyCount) {
            state.credits = i64::MAX / 2;
        } else {
            source.books.complain(format!("{count} tasks were requested"));
            state.error = Some((libc::EINVAL, Some("at least one must be requested")));
        }
        return;
    }
    state.credits += count;
    drop(state);
    if source.has(F::SendsInsideRequest) {
        source.send();
    }
    // The consumer calls `request` from inside `on_schema`.
    if source.has(F::Overlaps) && source.sent() == 0 {
        std::thread::scope(|threads| {
            threads.spawn(|| source.send());
        });
    }
}

unsafe extern "C" fn cancel(producer: *mut ArrowAsyncProducer) {
    use SourceFault as F;
    let source = inner(producer);
    source.called("cancel");
    let first = {
        let mut state = source.state.lock().unwrap();
        state.cancels += 1;
        state.cancels == 1
    };
    if first && source.has(F::ErrorOnCancel) {
        source.state.lock().unwrap().stage = SourceStage::Closing;
        source.report(libc::EINVAL, Some("the consumer cancelled"));
    }
    if first && source.has(F::ReleaseInsideCancel) {
        source.call_release();
    }
}

unsafe extern "C" fn extract(task: *mut ArrowAsyncTask, out: *mut ArrowDeviceArray) -> c_int {
    use SourceFault as F;
    let sent = unsafe { &mut *(*task).private_data.cast::<Sent>() };
    let source = unsafe { &*sent.source };
    sent.extracted += 1;
    if sent.extracted == 1 {
        source.books.closed();
    }
    if sent.extracted > 1 || out.is_null() {
        return 0;
    }
    let array = || {
        let mut plan = (source.array)(sent.number as i64);
        if source.has(F::OtherType) && sent.number == 1 {
            plan.buffers.push(crate::plan::Content::Null);
        }
        let array = producer::array(&plan, &source.books);
        let device_type = if source.has(F::StrayArray) && sent.number == 1 { 3 } else { 1 };
        producer::on_device(array, device_type, if device_type == 1 { -1 } else { 0 })
    };
    match source.fault {
        Some(F::ExtractFailsSilently) if sent.number == 1 => libc::EIO,
        Some(F::ExtractFailsAndReleases) if sent.number == 1 => {
            let mut state = source.state.lock().unwrap();
            if state.stage == SourceStage::Open {
                state.stage = SourceStage::Closing;
            }
            libc::EIO
        }
        Some(F::ExtractFailsAndWrites) if sent.number == 1 => {
            let scribble = ArrowDeviceArray { device_type: 77, ..ArrowDeviceArray::empty() };
            unsafe { out.write(scribble) };
            source.state.lock().unwrap().error = Some((libc::EIO, Some("no data")));
            libc::EIO
        }
        Some(F::ExtractGivesNothing) if sent.number == 1 => 0,
        _ => {
            unsafe { out.write(array()) };
            0
        }
    }
}
