//! [`Simulated`]: a private copy of the library, loaded, and what a test asks of it.

mod builder;
mod file;
mod kernel;
mod report;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::time::{Duration, Instant};

use libloading::Library;

pub use builder::{Builder, Vendor};
pub use kernel::{Kernel, Memory};
pub use report::Report;

use crate::control::{EachCall, EachReport};
use file::Copied;

/// A simulated driver of the test's own.
///
/// Its library stays in the process; its file goes when this is dropped. It panics then if there
/// are mistakes that nobody has taken, unless the thread is panicking already.
#[derive(Debug)]
pub struct Simulated {
    file: Copied,
    library: Library,
}

/// A call of one of the driver's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The function.
    pub name: String,
    /// Its arguments, the important ones: `bytes=0x40 stream=0x2`.
    pub arguments: String,
    /// What it returned.
    pub code: i32,
    /// The thread, by the system's number.
    pub thread: u64,
}

type Show = unsafe extern "C" fn(u64, EachReport, *mut c_void);

impl Simulated {
    /// Begins a driver: one device with a gibibyte, unless told otherwise.
    pub fn builder(vendor: Vendor) -> Builder {
        Builder::new(vendor)
    }

    /// Where the library is. Whoever loads this file gets this machine.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// A function of the library, or null where it has none of that name.
    pub fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the symbol is taken as an address; whoever calls it says what it is.
        let found = unsafe { self.library.get::<*mut c_void>(name.to_bytes_with_nul()) };
        found.map_or(std::ptr::null_mut(), |symbol| *symbol)
    }

    /// A function of this project's own, which is always there.
    ///
    /// # Safety
    /// `F` is its type.
    unsafe fn control<F: Copy>(&self, name: &str) -> F {
        // SAFETY: `F` is its type, as the caller promises.
        let found = unsafe { self.library.get::<F>(format!("simulated_driver_{name}").as_bytes()) };
        match found {
            Ok(symbol) => *symbol,
            Err(problem) => failed(&format!("the library lacks `{name}`: {problem}")),
        }
    }

    // ---- mistakes

    /// The mistakes since the last call of this, of all threads.
    pub fn take_reports(&self) -> Vec<Report> {
        self.shown("take_reports", 0)
    }

    /// The mistakes of this thread; those of others stay. What goes wrong while work runs is that
    /// of the thread which waits.
    pub fn take_reports_of_this_thread(&self) -> Vec<Report> {
        self.shown("take_reports", crate::thread::number())
    }

    /// Runs what was submitted, lets the library release what waited for it, and returns all
    /// mistakes that nobody has taken, and what was left behind.
    pub fn finish(self) -> Vec<Report> {
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut all = Vec::new();
        loop {
            // Asked first, as another thread may be looking through the library's list, and be done
            // before we have looked.
            let held = !arrow_device::deferred::held_back().is_nothing();
            arrow_device::deferred::release_finished();
            let shown = self.shown("finish", 0);
            let (leaks, mistakes): (Vec<_>, Vec<_>) =
                shown.into_iter().partition(|report| report.kind.starts_with("Leaked"));
            all.extend(mistakes);
            if leaks.is_empty() || !held || Instant::now() > deadline {
                all.extend(leaks);
                return all;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// What is still there that somebody has to give back: memory, streams, events.
    pub fn left(&self) -> Vec<Report> {
        self.shown("left", 0)
    }

    fn shown(&self, name: &str, thread: u64) -> Vec<Report> {
        let mut all: Vec<(String, u64, u64)> = Vec::new();
        // SAFETY: the type is that of both functions which show reports.
        let show: Show = unsafe { self.control(name) };
        // SAFETY: `report` takes what it is given for the list, which is there during the call.
        unsafe { show(thread, report, (&raw mut all).cast()) };
        // SAFETY: the type is that of the function.
        let text: report::Text = unsafe { self.control("text") };
        let made = |(kind, number, thread)| Report::new(kind, thread, number, text);
        all.into_iter().map(made).collect()
    }

    // ---- calls

    /// All calls since they were last forgotten.
    pub fn log(&self) -> Vec<Call> {
        let mut all: Vec<Call> = Vec::new();
        // SAFETY: the type is that of the function.
        let show: unsafe extern "C" fn(EachCall, *mut c_void) = unsafe { self.control("log") };
        // SAFETY: `logged` takes what it is given for the list, which is there during the call.
        unsafe { show(logged, (&raw mut all).cast()) };
        all
    }

    /// Forgets all calls, and counts from 0 again.
    pub fn clear_log(&self) {
        // SAFETY: the type is that of the function.
        let forget: unsafe extern "C" fn() = unsafe { self.control("forget_calls") };
        // SAFETY: a call without arguments.
        unsafe { forget() }
    }

    /// How often a function was called.
    pub fn count(&self, name: &str) -> u64 {
        self.counted(&c_string(name))
    }

    /// How often any function was called.
    pub fn calls(&self) -> u64 {
        self.counted(c"")
    }

    /// How often a pool took more memory of its device than it had reserved: what makes an
    /// allocation slow.
    pub fn pool_growths(&self) -> u64 {
        self.noted(c"pool growths")
    }

    /// How often a pool gave memory back to its device.
    pub fn pool_trims(&self) -> u64 {
        self.noted(c"pool trims")
    }

    fn noted(&self, what: &CStr) -> u64 {
        // SAFETY: the type is that of the function.
        let noted: unsafe extern "C" fn(*const c_char) -> u64 = unsafe { self.control("noted") };
        // SAFETY: a text that ends with a zero.
        unsafe { noted(what.as_ptr()) }
    }

    fn counted(&self, name: &CStr) -> u64 {
        // SAFETY: the type is that of the function.
        let count: unsafe extern "C" fn(*const c_char) -> u64 = unsafe { self.control("count") };
        // SAFETY: a text that ends with a zero.
        unsafe { count(name.as_ptr()) }
    }

    // ---- what may happen

    /// The n-th call of a function from now on, counted from 1, returns this code and does nothing.
    /// Once.
    pub fn fail(&self, name: &str, nth: u64, code: i32) {
        // SAFETY: the type is that of the function.
        let fail: unsafe extern "C" fn(*const c_char, u64, c_int) = unsafe { self.control("fail") };
        let name = c_string(name);
        // SAFETY: a text that ends with a zero.
        unsafe { fail(name.as_ptr(), nth, code) }
    }

    /// A device is lost: all calls that are about it return this code from now on.
    pub fn lose(&self, device: i32, code: i32) {
        // SAFETY: the type is that of the function.
        let lose: unsafe extern "C" fn(c_int, c_int) = unsafe { self.control("lose") };
        // SAFETY: numbers, which the function checks.
        unsafe { lose(device, code) }
    }

    /// From now on each device has so many bytes.
    pub fn set_memory(&self, bytes: u64) {
        // SAFETY: the type is that of the function.
        let set: unsafe extern "C" fn(u64) = unsafe { self.control("set_memory") };
        // SAFETY: a number.
        unsafe { set(bytes) }
    }

    /// The devices do all that they were given. The host does not learn of it.
    pub fn run_until_idle(&self) {
        // SAFETY: the type is that of the function.
        let run: unsafe extern "C" fn() = unsafe { self.control("run_until_idle") };
        // SAFETY: a call without arguments.
        unsafe { run() }
    }

    /// Says that the host reads memory here which it shares with a device, pinned or managed:
    /// reported where it has not waited for what writes there. The simulator cannot see such reads
    /// by itself.
    pub fn host_reads(&self, address: u64, len: u64) {
        // SAFETY: the type is that of the function.
        let reads: unsafe extern "C" fn(u64, u64) = unsafe { self.control("host_reads") };
        // SAFETY: numbers, which the function checks.
        unsafe { reads(address, len) }
    }

    /// Calls this when the driver tears itself down, as other threads of the program call it that
    /// go on meanwhile.
    pub fn at_its_end(&self, meanwhile: extern "C" fn()) {
        // SAFETY: the type is that of the function.
        let set: unsafe extern "C" fn(extern "C" fn()) = unsafe { self.control("meanwhile") };
        // SAFETY: the function may be called at any time.
        unsafe { set(meanwhile) }
    }

    /// Begins a kernel: work of the test's own, which says what it reads and writes.
    pub fn kernel(&self, name: &str) -> Kernel<'_> {
        Kernel::new(self, name)
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let reports = self.take_reports();
        if let Some(first) = reports.first() {
            failed(&format!(
                "the simulated driver saw {} mistakes; the first:\n\n{first}",
                reports.len()
            ));
        }
    }
}

/// A test that cannot go on, or must not.
#[expect(clippy::panic, reason = "what is wrong here has to fail the test")]
fn failed(reason: &str) -> ! {
    panic!("{reason}")
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// # Safety
/// The first is a list of what makes a report, the text ends with a zero.
unsafe extern "C" fn report(all: *mut c_void, kind: *const c_char, number: u64, thread: u64) {
    // SAFETY: the first is a list of what makes a report, the text ends with a zero, as the caller
    // promises.
    let all = unsafe { &mut *all.cast::<Vec<(String, u64, u64)>>() };
    // SAFETY: the first is a list of what makes a report, the text ends with a zero, as the caller
    // promises.
    all.push((unsafe { string(kind) }, number, thread));
}

/// # Safety
/// The first is a list of calls, the texts end with a zero.
unsafe extern "C" fn logged(
    all: *mut c_void,
    name: *const c_char,
    arguments: *const c_char,
    code: c_int,
    thread: u64,
) {
    // SAFETY: the first is a list of calls, the texts end with a zero, as the caller promises.
    let all = unsafe { &mut *all.cast::<Vec<Call>>() };
    // SAFETY: the first is a list of calls, the texts end with a zero, as the caller promises.
    let name = unsafe { string(name) };
    // SAFETY: the first is a list of calls, the texts end with a zero, as the caller promises.
    let arguments = unsafe { string(arguments) };
    all.push(Call { name, arguments, code, thread });
}

/// # Safety
/// A text that ends with a zero.
unsafe fn string(text: *const c_char) -> String {
    // SAFETY: a text that ends with a zero, as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
