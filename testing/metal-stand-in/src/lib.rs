//! A stand-in for Metal: a library in Objective-C on GCC's runtime, which has the functions and
//! classes of Metal that `arrow-device-metal` uses.
//!
//! What differs from a device of Apple's is what makes mistakes visible. A thread of the library
//! does the work of all queues, late and one queue after the other; bytes are copied when their
//! turn comes. Fresh memory holds a pattern. Objects that were released are kept, and their use is
//! noted as a mistake, as are encoders that were not ended, commands after a commit, copies that
//! are no whole units or leave a buffer, and messages on a thread without a pool. A copy can be
//! made to fail, and the device to be lost.
//!
//! [`StandIn::load`] compiles the library, names it to `arrow-device-metal`, and returns what
//! controls it.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing
)]

use std::ffi::{c_char, c_int, c_long, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use arrow_device_testkit::required::skip;
use libloading::Library;

/// The variable that names the library to `arrow-device-metal`.
pub const VARIABLE: &str = "ARROW_DEVICE_METAL_LIBRARY";

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/objc");
const SOURCES: [&str; 2] = ["objects.m", "metal.m"];
const HEADER: &str = "stand_in.h";
const OPTIONS: [&str; 9] =
    ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread"];

/// The loaded library.
#[derive(Debug)]
pub struct StandIn {
    library: Library,
    path: PathBuf,
}

impl StandIn {
    /// Loads the library, and names it to `arrow-device-metal`, in this process and its children.
    /// `None` where there is no compiler for it, which is a failure where it is required.
    pub fn load() -> Option<&'static Self> {
        static LOADED: OnceLock<Option<StandIn>> = OnceLock::new();
        let load = || {
            let path = compiled()?;
            // SAFETY: the tests of a program call this before they start threads that read the
            // environment, or do not read it.
            unsafe { env::set_var(VARIABLE, &path) };
            // SAFETY: the library's initialisers only make two objects.
            let library = unsafe { Library::new(&path) }.unwrap();
            Some(Self { library, path })
        };
        LOADED.get_or_init(load).as_ref()
    }

    /// Where the library is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn call<A, R>(&self, name: &str, argument: A) -> R {
        let function = unsafe { self.library.get::<unsafe extern "C" fn(A) -> R>(name.as_bytes()) };
        unsafe { function.unwrap()(argument) }
    }

    fn ask<R>(&self, name: &str) -> R {
        let function = unsafe { self.library.get::<unsafe extern "C" fn() -> R>(name.as_bytes()) };
        unsafe { function.unwrap()() }
    }

    /// Sets how many devices there are, up to two.
    pub fn set_devices(&self, count: c_int) {
        self.call("stand_in_set_devices", count)
    }

    /// Sets how many nanoseconds each command buffer waits for its turn.
    pub fn set_delay(&self, nanoseconds: c_long) {
        self.call("stand_in_set_delay", nanoseconds)
    }

    /// Sets how many bytes of buffers there may be from now on.
    pub fn set_room(&self, bytes: c_long) {
        self.call("stand_in_set_room", bytes)
    }

    /// Lets the command buffer of the next copy fail, when its turn comes.
    pub fn fail_next_copy(&self, code: c_long) {
        self.call("stand_in_fail_next_copy", code)
    }

    /// Loses a device: all its command buffers fail from now on.
    pub fn lose(&self, device: c_int) {
        self.call("stand_in_lose", device)
    }

    /// How many objects there are beside the devices.
    pub fn objects(&self) -> c_long {
        self.ask("stand_in_count_objects")
    }

    /// How many copies queues have made.
    pub fn copies(&self) -> c_long {
        self.ask("stand_in_count_copies")
    }

    /// How often a thread had to wait for a free command buffer.
    pub fn blocked(&self) -> c_long {
        self.ask("stand_in_count_blocked")
    }

    /// The mistakes that were noted since the last call, a line each.
    pub fn mistakes(&self) -> String {
        let mut text = vec![0_u8; 1 << 14];
        type Take = unsafe extern "C" fn(*mut c_char, usize) -> usize;
        let take = unsafe { self.library.get::<Take>(b"stand_in_take_mistakes") }.unwrap();
        let length = unsafe { take(text.as_mut_ptr().cast(), text.len()) };
        text.truncate(length);
        String::from_utf8(text).unwrap()
    }

    /// What an application does itself.
    pub fn application(&self) -> Application<'_> {
        Application { library: &self.library }
    }
}

/// Sends messages to objects of the stand-in as an application does that uses Metal by itself.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    library: &'a Library,
}

/// An object.
pub type Id = *mut c_void;
type Implementation = unsafe extern "C" fn();

impl Application<'_> {
    /// The function of this name.
    ///
    /// # Safety
    /// `T` is its type.
    unsafe fn function<T: Copy>(&self, name: &str) -> T {
        *unsafe { self.library.get::<T>(name.as_bytes()) }.unwrap()
    }

    fn method(&self, object: Id, name: &str) -> (Implementation, *const c_void) {
        let name = format!("{name}\0");
        type Register = unsafe extern "C" fn(*const c_char) -> *const c_void;
        type Lookup = unsafe extern "C" fn(Id, *const c_void) -> Implementation;
        let register: Register = unsafe { self.function("sel_registerName") };
        let lookup: Lookup = unsafe { self.function("objc_msg_lookup") };
        let selector = unsafe { register(name.as_ptr().cast()) };
        (unsafe { lookup(object, selector) }, selector)
    }

    /// Calls with a pool for what the object uses meanwhile.
    fn pooled<R>(&self, call: impl FnOnce() -> R) -> R {
        let pool = self.push_pool();
        let answer = call();
        unsafe { self.pop_pool(pool) };
        answer
    }

    /// Sends a message without arguments. What has no reference of the caller's ends with this, as
    /// for all messages.
    ///
    /// # Safety
    /// The object is alive and has such a method, with a result of this type.
    pub unsafe fn send<R>(&self, object: Id, name: &str) -> R {
        let (method, selector) = self.method(object, name);
        let method: unsafe extern "C" fn(Id, *const c_void) -> R =
            unsafe { std::mem::transmute(method) };
        self.pooled(|| unsafe { method(object, selector) })
    }

    /// Sends a message with one argument.
    ///
    /// # Safety
    /// The object is alive and has such a method, with arguments and a result of these types.
    pub unsafe fn send_1<R, A>(&self, object: Id, name: &str, one: A) -> R {
        let (method, selector) = self.method(object, name);
        let method: unsafe extern "C" fn(Id, *const c_void, A) -> R =
            unsafe { std::mem::transmute(method) };
        self.pooled(|| unsafe { method(object, selector, one) })
    }

    /// Sends a message with two arguments.
    ///
    /// # Safety
    /// The object is alive and has such a method, with arguments and a result of these types.
    pub unsafe fn send_2<R, A, B>(&self, object: Id, name: &str, one: A, two: B) -> R {
        let (method, selector) = self.method(object, name);
        let method: unsafe extern "C" fn(Id, *const c_void, A, B) -> R =
            unsafe { std::mem::transmute(method) };
        self.pooled(|| unsafe { method(object, selector, one, two) })
    }

    /// Sends a message with four arguments.
    ///
    /// # Safety
    /// The object is alive and has such a method, with arguments and a result of these types.
    pub unsafe fn send_4<R, A, B, C, D>(
        &self,
        object: Id,
        name: &str,
        one: A,
        two: B,
        three: C,
        four: D,
    ) -> R {
        let (method, selector) = self.method(object, name);
        let method: unsafe extern "C" fn(Id, *const c_void, A, B, C, D) -> R =
            unsafe { std::mem::transmute(method) };
        self.pooled(|| unsafe { method(object, selector, one, two, three, four) })
    }

    /// The default device, with a reference of the caller's.
    pub fn default_device(&self) -> Id {
        let create: unsafe extern "C" fn() -> Id =
            unsafe { self.function("MTLCreateSystemDefaultDevice") };
        self.pooled(|| unsafe { create() })
    }

    /// A pool.
    pub fn push_pool(&self) -> *mut c_void {
        let push: unsafe extern "C" fn() -> *mut c_void =
            unsafe { self.function("objc_autoreleasePoolPush") };
        unsafe { push() }
    }

    /// Ends the newest pool of the thread.
    ///
    /// # Safety
    /// The pool is that.
    pub unsafe fn pop_pool(&self, pool: *mut c_void) {
        let pop: unsafe extern "C" fn(*mut c_void) =
            unsafe { self.function("objc_autoreleasePoolPop") };
        unsafe { pop(pool) }
    }

    /// Releases an object.
    ///
    /// # Safety
    /// The reference is the caller's.
    pub unsafe fn release(&self, object: Id) {
        unsafe { self.send(object, "release") }
    }

    /// A command buffer that is not committed, with a reference of the caller's.
    ///
    /// # Safety
    /// The queue is alive.
    pub unsafe fn command_buffer(&self, queue: Id) -> Id {
        let (method, selector) = self.method(queue, "commandBuffer");
        let method: unsafe extern "C" fn(Id, *const c_void) -> Id =
            unsafe { std::mem::transmute(method) };
        self.pooled(|| {
            let commands = unsafe { method(queue, selector) };
            unsafe { self.send(commands, "retain") }
        })
    }

    /// Commits a command buffer that waits until the value of a shared event is 1 or more.
    ///
    /// # Safety
    /// Queue and event are alive and of one device.
    pub unsafe fn commit_wait(&self, queue: Id, event: Id) {
        unsafe { self.commit(queue, "encodeWaitForEvent:value:", event) }
    }

    /// Commits a command buffer that sets the value of a shared event to 1.
    ///
    /// # Safety
    /// Queue and event are alive and of one device.
    pub unsafe fn commit_signal(&self, queue: Id, event: Id) {
        unsafe { self.commit(queue, "encodeSignalEvent:value:", event) }
    }

    unsafe fn commit(&self, queue: Id, what: &str, event: Id) {
        let commands = unsafe { self.command_buffer(queue) };
        unsafe { self.send_2::<(), _, _>(commands, what, event, 1_u64) };
        unsafe { self.send::<()>(commands, "commit") };
        unsafe { self.release(commands) };
    }
}

/// Keeps a queue from its end with a shared event of the application's.
#[derive(Debug)]
pub struct Gate {
    application: Application<'static>,
    event: Id,
    is_open: bool,
}

// SAFETY: shared events may be used on any thread.
unsafe impl Send for Gate {}

impl Gate {
    /// A gate that no queue stands behind yet.
    pub fn new() -> Self {
        let application = StandIn::load().unwrap().application();
        let device = application.default_device();
        let event = unsafe { application.send(device, "newSharedEvent") };
        unsafe { application.release(device) };
        Self { application, event, is_open: false }
    }

    /// Lets later work of a queue of the default device wait for the gate.
    ///
    /// # Safety
    /// The queue is alive.
    pub unsafe fn before(&self, queue: Id) {
        unsafe { self.application.commit_wait(queue, self.event) };
    }

    /// The shared event.
    pub fn event(&self) -> Id {
        self.event
    }

    /// Opens the gate.
    pub fn open(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            unsafe { self.application.send_1::<(), _>(self.event, "setSignaledValue:", 1_u64) };
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
        unsafe { self.application.release(self.event) };
    }
}

/// The path of the library, compiled unless that was done before.
fn compiled() -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for name in SOURCES.iter().chain([&HEADER]) {
        fs::read(Path::new(FOLDER).join(name)).unwrap().hash(&mut hasher);
    }
    OPTIONS.hash(&mut hasher);
    let program = env::current_exe().unwrap();
    // The folder that the program of a test is in, and the programs of other tests.
    let folder = program.parent().unwrap().join("metal-stand-in");
    fs::create_dir_all(&folder).unwrap();
    let library = folder.join(format!("libMetal-{:016x}.so", hasher.finish()));
    if library.exists() {
        return Some(library);
    }
    let scratch = folder.join(format!("{}.so", std::process::id()));
    let sources = SOURCES.map(|name| Path::new(FOLDER).join(name));
    let compile = Command::new("gcc")
        .args(OPTIONS)
        .arg("-Wno-unused-parameter")
        .arg("-o")
        .arg(&scratch)
        .args(sources)
        .arg("-lobjc")
        .output();
    let output = match compile {
        Ok(output) => output,
        Err(error) => {
            skip("gobjc", &format!("there is no gcc: {error}"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("cc1obj") || said.contains("objc/objc.h: No such file") {
        skip("gobjc", "gcc has no Objective-C (Debian: gobjc)");
        return None;
    }
    assert!(output.status.success(), "{said}");
    fs::rename(&scratch, &library).unwrap();
    Some(library)
}
