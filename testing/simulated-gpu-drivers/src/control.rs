//! What the library exports besides the drivers' functions: for tests, which use it through
//! [`crate::Simulated`].
//!
//! Texts end with a zero and are the library's; they are good during the call that shows them.
//! Results are 0 for success.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use arrow_device_sim::hardware::Hardware;

use crate::call;
use crate::config::Config;
use crate::record::Mistake;
use crate::work::KernelFunction;

/// Is shown each mistake: the caller's own pointer, its kind, its number, and the thread.
pub(crate) type EachReport = unsafe extern "C" fn(*mut c_void, *const c_char, u64, u64);

/// Is shown a text.
type ShowText = unsafe extern "C" fn(*mut c_void, *const c_char);

/// Mistakes that were looked through and not taken, since they are another thread's.
static UNTOLD: Mutex<Vec<Mistake>> = Mutex::new(Vec::new());

/// All mistakes that were shown. They stay, so that their texts can be asked for.
static SHOWN: Mutex<Vec<Mistake>> = Mutex::new(Vec::new());

/// Is shown each call: the caller's own pointer, its name, its arguments, its code, and the thread.
pub(crate) type EachCall =
    unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, c_int, u64);

/// Bytes that a kernel reads or writes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) address: u64,
    pub(crate) len: u64,
}

/// # Safety
/// Null, or a text that ends with a zero.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: null, or a text that ends with a zero, as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// A new machine, without anything that the old one had. The text is that of [`Config::parse`].
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_reset(configuration: *const c_char) -> c_int {
    // SAFETY: a text of the caller's.
    match Config::parse(&unsafe { text(configuration) }) {
        Ok(config) => {
            call::replace(config);
            UNTOLD.lock().unwrap_or_else(PoisonError::into_inner).clear();
            0
        }
        Err(_) => 1,
    }
}

/// Shows all mistakes since the last time, of one thread or, with 0, of all, and forgets them.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_take_reports(thread: u64, each: EachReport, to: *mut c_void) {
    // SAFETY: the callback and its context go together, as the caller promises.
    unsafe { show(take_reports(thread), each, to) }
}

/// Runs what was submitted, and shows all mistakes and what was left behind.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_finish(_thread: u64, each: EachReport, to: *mut c_void) {
    let hardware = call::hardware();
    hardware.run_all();
    let mut all = take_reports(0);
    // Nobody can give back what a lost device had.
    if call::with(|machine| machine.devices.iter().all(|device| device.lost.is_none())) {
        all.extend(left_behind(&hardware));
    }
    // SAFETY: the callback and its context go together, as the caller promises.
    unsafe { show(all, each, to) }
}

/// Shows what is still there that somebody has to give back: memory, streams, events. Nothing is
/// forgotten by that.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_left(_thread: u64, each: EachReport, to: *mut c_void) {
    let left = left_behind(&call::hardware());
    // SAFETY: the callback and its context go together, as the caller promises.
    unsafe { show(left, each, to) }
}

/// Shows the text of a mistake, by its number. Nothing is shown for a number that was not given
/// out.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_text(number: u64, show: ShowText, to: *mut c_void) {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mistake) = usize::try_from(number).ok().and_then(|number| shown.get(number)) else {
        return;
    };
    let text = c_text(&mistake.to_string());
    drop(shown);
    // SAFETY: the callback and its context go together, as the caller promises.
    unsafe { show(to, text.as_ptr()) };
}

fn take_reports(thread: u64) -> Vec<Mistake> {
    let mut all = UNTOLD.lock().unwrap_or_else(PoisonError::into_inner);
    all.extend(call::with(|machine| machine.record.take_mistakes()));
    all.extend(of_engine(call::hardware().take_reports()));
    let is_wanted = |mistake: &mut Mistake| thread == 0 || mistake.thread() == thread;
    all.extract_if(.., is_wanted).collect()
}

fn left_behind(hardware: &Hardware) -> Vec<Mistake> {
    let mut all: Vec<Mistake> = of_engine(hardware.leaks()).collect();
    #[cfg(all(target_os = "linux", not(miri)))]
    all.extend(call::with(|machine| machine.leaked_mapped()));
    all
}

fn of_engine(reports: Vec<arrow_device_sim::Report>) -> impl Iterator<Item = Mistake> {
    reports.into_iter().map(|report| Mistake::OfEngine(Box::new(report)))
}

/// # Safety
/// `each` may be called with `to`.
unsafe fn show(all: Vec<Mistake>, each: EachReport, to: *mut c_void) {
    for mistake in all {
        let (kind, thread) = (c_text(&mistake.kind()), mistake.thread());
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        shown.push(mistake);
        let number = shown.len() as u64 - 1;
        drop(shown);
        // SAFETY: `each` may be called with `to`, as the caller promises.
        unsafe { each(to, kind.as_ptr(), number, thread) };
    }
}

/// Shows all calls since they were last forgotten.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_log(each: EachCall, to: *mut c_void) {
    let calls = call::with(|machine| machine.record.calls.clone());
    for call in calls {
        let (name, arguments) = (c_text(call.name), c_text(&call.arguments));
        // SAFETY: the callback and its context go together, as the caller promises.
        unsafe { each(to, name.as_ptr(), arguments.as_ptr(), call.code, call.thread) };
    }
}

/// Forgets all calls, and counts from 0 again.
#[unsafe(no_mangle)]
extern "C" fn simulated_driver_forget_calls() {
    call::with(|machine| machine.record.forget_calls());
}

/// How often a function was called; with null, how often any was.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_count(name: *const c_char) -> u64 {
    // SAFETY: a text of the caller's.
    let name = unsafe { text(name) };
    call::with(|machine| {
        let counts = &machine.record.counts;
        if name.is_empty() {
            counts.values().sum()
        } else {
            counts.get(name.as_str()).copied().unwrap_or(0)
        }
    })
}

/// How often something has happened that is no call, such as `pool growths`.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_noted(what: *const c_char) -> u64 {
    // SAFETY: a text of the caller's.
    let what = unsafe { text(what) };
    call::with(|machine| machine.record.notes.get(what.as_str()).copied().unwrap_or(0))
}

/// The n-th call of a function from now on, counted from 1, returns this code and does nothing.
/// Once.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_fail(name: *const c_char, nth: u64, code: c_int) {
    // SAFETY: a text of the caller's.
    let name = unsafe { text(name) };
    call::with(|machine| machine.record.plan(&name, nth, code));
}

/// A device is lost: all calls that are about it return this code from now on.
#[unsafe(no_mangle)]
extern "C" fn simulated_driver_lose(device: c_int, code: c_int) {
    call::with(|machine| {
        if let Ok(device) = usize::try_from(device) {
            machine.lose(device, code);
        }
    });
}

/// From now on each device has so many bytes.
#[unsafe(no_mangle)]
extern "C" fn simulated_driver_set_memory(bytes: u64) {
    call::hardware().set_limit(bytes);
}

/// The host reads memory that it shares with a device: a mistake where it has not waited for what
/// writes there.
#[unsafe(no_mangle)]
extern "C" fn simulated_driver_host_reads(address: u64, len: u64) {
    call::hardware().host_reads(address as usize, len);
}

/// The devices do all that they were given. The host does not learn of it.
#[unsafe(no_mangle)]
extern "C" fn simulated_driver_run_until_idle() {
    call::hardware().run_all();
}

/// Launches a kernel: a function that is called when the stream gets there. A stream without a
/// device of its own is that of the thread's current one, or of device 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn simulated_driver_launch(
    stream: u64,
    name: *const c_char,
    spans: *const Span,
    reads: usize,
    writes: usize,
    run: KernelFunction,
    data: *mut c_void,
) -> c_int {
    // SAFETY: a text of the caller's.
    let name = unsafe { text(name) };
    // SAFETY: the caller has first the reads and then the writes there.
    let spans = unsafe { call::entries(spans, reads + writes) };
    let spans: Vec<(usize, u64)> =
        spans.into_iter().map(|span| (span.address as usize, span.len)).collect();
    let (reads, writes) = spans.split_at(reads);
    call::call("simulated_driver_launch", &[("stream", stream)], |machine| {
        let chosen = || crate::thread::with(|thread| thread.device);
        let current = crate::thread::current().map(|current| current.device).or_else(chosen);
        let (work, spans) = ((run, data), (reads, writes));
        machine.launch(current, stream as usize, name, spans, work).map(|_| ())
    })
}
