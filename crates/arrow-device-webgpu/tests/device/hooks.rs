//! A library for WebGPU with something in between: submissions that are counted, work that is said
//! to fail, and callbacks that are held back.
//!
//! The functions carry no state for whoever comes between, so that there is one set of orders for a
//! process: tests that give some have a process of their own.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use arrow_device::Device;
use arrow_device_testkit::application::webgpu::WebGpu;
use arrow_device_webgpu::{Handles, open_from};

use crate::support;

type Handle = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
struct Text(Handle, usize);

type Callback = extern "C" fn(u32, Text, Handle, Handle);

#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    next: Handle,
    mode: u32,
    callback: Callback,
    first: Handle,
    second: Handle,
}

type Unmap = unsafe extern "C" fn(Handle);
type Submit = unsafe extern "C" fn(Handle, usize, *const Handle);
type WorkDone = unsafe extern "C" fn(Handle, Info) -> u64;
type Map = unsafe extern "C" fn(Handle, u64, usize, usize, Info) -> u64;
type Release = unsafe extern "C" fn(Handle);
type Poll = unsafe extern "C" fn(Handle, u32, *const c_void) -> u32;

static UNMAP: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static SUBMIT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static WORK_DONE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static MAP: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static POLL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

static RELEASE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// What the next mapping is interrupted by, and the buffer of that mapping while it is made.
static IN_MAPPING: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
static BEING_MAPPED: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// How many mappings were interrupted, and how many buffers were released meanwhile.
static INTERRUPTED: AtomicUsize = AtomicUsize::new(0);
static RELEASED: AtomicUsize = AtomicUsize::new(0);

/// What runs once the work that is announced next is done, before the announcement returns.
static IN_ANNOUNCEMENT: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// How many buffers were unmapped since the last submission, and the most there were.
static UNMAPPED: Mutex<(usize, usize)> = Mutex::new((0, 0));
static SUBMISSIONS: AtomicUsize = AtomicUsize::new(0);
static FAILS: AtomicBool = AtomicBool::new(false);
/// The lock that every call is made under, and how many calls came without it.
static LOCK: Mutex<Option<Arc<Mutex<()>>>> = Mutex::new(None);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static UNLOCKED: AtomicUsize = AtomicUsize::new(0);
static HOLDS: AtomicUsize = AtomicUsize::new(0);
/// Callbacks that were announced while work was held.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());
type Call = Arc<dyn Fn() + Send + Sync>;
static IN_POLLS: Mutex<Option<Call>> = Mutex::new(None);

enum Held {
    WorkDone(Handle, Info),
    Map(Handle, u64, usize, usize, Info),
}

// SAFETY: handles of wgpu-native, which any thread may use.
unsafe impl Send for Held {}

/// How many submissions there were since the last time.
pub(crate) fn submissions() -> usize {
    SUBMISSIONS.swap(0, SeqCst)
}

/// How many buffers were unmapped at most between two submissions.
pub(crate) fn most_unmapped() -> usize {
    UNMAPPED.lock().unwrap().1
}

/// The work that is announced next is said to have failed.
pub(crate) fn fail_next() {
    FAILS.store(true, SeqCst);
}

/// From now on every call has to be made under this lock.
pub(crate) fn watch_lock(lock: Arc<Mutex<()>>) {
    *LOCK.lock().unwrap() = Some(lock);
}

/// How many calls were looked at, and how many of them came without the lock.
pub(crate) fn unlocked() -> (usize, usize) {
    (CALLS.load(SeqCst), UNLOCKED.load(SeqCst))
}

fn look_at_lock() {
    if let Some(lock) = &*LOCK.lock().unwrap() {
        CALLS.fetch_add(1, SeqCst);
        if lock.try_lock().is_ok() {
            UNLOCKED.fetch_add(1, SeqCst);
        }
    }
}

/// From now on nothing is told of, until the returned function is called.
pub(crate) fn hold() -> Box<dyn FnOnce()> {
    HOLDS.fetch_add(1, SeqCst);
    Box::new(|| {
        if HOLDS.fetch_sub(1, SeqCst) > 1 {
            return;
        }
        for held in std::mem::take(&mut *HELD.lock().unwrap()) {
            match held {
                Held::WorkDone(queue, info) => {
                    _ = unsafe { real::<WorkDone>(&WORK_DONE)(queue, info) }
                }
                Held::Map(buffer, mode, at, len, info) => {
                    _ = unsafe { real::<Map>(&MAP)(buffer, mode, at, len, info) };
                }
            }
        }
    })
}

/// The next mapping runs this before it is made.
pub(crate) fn in_next_mapping(call: Box<dyn FnOnce() + Send>) {
    *IN_MAPPING.lock().unwrap() = Some(call);
}

/// The work that is announced next is done before the announcement returns, and then this runs. The
/// call polls the device by itself.
pub(crate) fn in_next_announcement(call: Box<dyn FnOnce() + Send>) {
    *IN_ANNOUNCEMENT.lock().unwrap() = Some(call);
}

/// Whether that work is done.
pub(crate) fn is_done() -> bool {
    IS_DONE.load(SeqCst)
}

/// How many mappings were interrupted, and how many of their buffers were released meanwhile.
pub(crate) fn mappings() -> (usize, usize) {
    (INTERRUPTED.load(SeqCst), RELEASED.load(SeqCst))
}

/// From now on polls run this.
pub(crate) fn run_in_polls(call: Option<Call>) {
    *IN_POLLS.lock().unwrap() = call;
}

/// The application's part, and its device, opened with the hooks in between.
pub(crate) fn opened() -> Option<(Arc<WebGpu>, Device)> {
    let (web, handles) = support::application()?;
    // SAFETY: the handles keep what they are the handles of, and were made together.
    let device = unsafe { open_from(hooked(&web, handles)) }.unwrap();
    Some((web, device))
}

/// The same handles, with the hooks in between.
pub(crate) fn hooked(web: &Arc<WebGpu>, handles: Handles) -> Handles {
    let web = web.clone();
    handles.with_lookup(move |name: &CStr| {
        let found = web.find(name)?;
        let (place, hook): (&AtomicPtr<c_void>, *mut c_void) = match name.to_str().unwrap() {
            "wgpuBufferUnmap" => (&UNMAP, unmap as Unmap as *mut c_void),
            "wgpuQueueSubmit" => (&SUBMIT, submit as Submit as *mut c_void),
            "wgpuQueueOnSubmittedWorkDone" => (&WORK_DONE, work_done as WorkDone as *mut c_void),
            "wgpuBufferMapAsync" => (&MAP, map as Map as *mut c_void),
            "wgpuBufferRelease" => (&RELEASE, release as Release as *mut c_void),
            "wgpuDevicePoll" => (&POLL, poll as Poll as *mut c_void),
            _ => return Some(found),
        };
        place.store(found.as_ptr(), SeqCst);
        NonNull::new(hook)
    })
}

/// # Safety
/// `T` is the type of the function that is kept there.
unsafe fn real<T>(place: &AtomicPtr<c_void>) -> T {
    let address = place.load(SeqCst);
    unsafe { std::mem::transmute_copy::<*mut c_void, T>(&address) }
}

unsafe extern "C" fn unmap(buffer: Handle) {
    let (now, most) = &mut *UNMAPPED.lock().unwrap();
    *now += 1;
    *most = (*most).max(*now);
    unsafe { real::<Unmap>(&UNMAP)(buffer) };
}

unsafe extern "C" fn submit(queue: Handle, count: usize, commands: *const Handle) {
    look_at_lock();
    SUBMISSIONS.fetch_add(1, SeqCst);
    UNMAPPED.lock().unwrap().0 = 0;
    unsafe { real::<Submit>(&SUBMIT)(queue, count, commands) };
}

unsafe extern "C" fn work_done(queue: Handle, info: Info) -> u64 {
    look_at_lock();
    let info = orders(info);
    let call = IN_ANNOUNCEMENT.lock().unwrap().take();
    if let Some(call) = call {
        let first = Box::into_raw(Box::new(info)).cast();
        let future =
            unsafe { real::<WorkDone>(&WORK_DONE)(queue, Info { callback: done, first, ..info }) };
        call();
        return future;
    }
    if HOLDS.load(SeqCst) > 0 {
        HELD.lock().unwrap().push(Held::WorkDone(queue, info));
        return 0;
    }
    unsafe { real::<WorkDone>(&WORK_DONE)(queue, info) }
}

unsafe extern "C" fn release(buffer: Handle) {
    if BEING_MAPPED.load(SeqCst) == buffer {
        RELEASED.fetch_add(1, SeqCst);
        // The runtime would take the buffer's end for a mistake of its own.
        return;
    }
    unsafe { real::<Release>(&RELEASE)(buffer) };
}

unsafe extern "C" fn map(buffer: Handle, mode: u64, at: usize, len: usize, info: Info) -> u64 {
    look_at_lock();
    let call = IN_MAPPING.lock().unwrap().take();
    if let Some(call) = call {
        BEING_MAPPED.store(buffer, SeqCst);
        INTERRUPTED.fetch_add(1, SeqCst);
        call();
        BEING_MAPPED.store(std::ptr::null_mut(), SeqCst);
    }
    let info = orders(info);
    if HOLDS.load(SeqCst) > 0 {
        HELD.lock().unwrap().push(Held::Map(buffer, mode, at, len, info));
        return 0;
    }
    unsafe { real::<Map>(&MAP)(buffer, mode, at, len, info) }
}

unsafe extern "C" fn poll(device: Handle, wait: u32, index: *const c_void) -> u32 {
    assert_eq!(wait & 0xff, 0, "a poll that waits");
    look_at_lock();
    let answer = unsafe { real::<Poll>(&POLL)(device, wait, index) };
    let call = IN_POLLS.lock().unwrap().clone();
    if let Some(call) = call {
        call();
    }
    answer
}

/// What to call, with an order to say that the work failed carried out.
fn orders(info: Info) -> Info {
    if !FAILS.swap(false, SeqCst) {
        return info;
    }
    let first = Box::into_raw(Box::new(info)).cast();
    Info { callback: failed, first, ..info }
}

extern "C" fn failed(_: u32, text: Text, info: Handle, _: Handle) {
    let info = unsafe { Box::from_raw(info.cast::<Info>()) };
    (info.callback)(3, text, info.first, info.second);
}

extern "C" fn done(status: u32, text: Text, info: Handle, _: Handle) {
    let info = unsafe { Box::from_raw(info.cast::<Info>()) };
    (info.callback)(status, text, info.first, info.second);
    IS_DONE.store(true, SeqCst);
}
