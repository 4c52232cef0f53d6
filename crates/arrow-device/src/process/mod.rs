//! Which process this is, and whether it is about to end.
//!
//! A child of `fork` has the memory of its parent, but neither the parent's other threads nor its
//! devices. A driver that was used before the fork may hang in the child, and a lock that another
//! thread held at the fork is never given back. Therefore:
//!
//! 1. Processes are numbered, and everything that belongs to a driver remembers the number of its
//!    process.
//! 2. A lock in a static is a [`PerProcess`]: a child has a fresh one.
//! 3. A lock in an object that children use is in a `PerFork` (`pool/per_fork.rs`), where a child
//!    needs a value of its own, or is a [`ForkMutex`].
//! 4. A value that is made when it is first asked for is in a cell of `once.rs`.
//!
//! A process that is about to end takes its drivers down, in an order that nobody knows. After its
//! end has begun, no driver is called.
//!
//! Before a driver is called, the library asks whether this is the process in which the device was
//! opened, and whether the end of the process has begun ([`MadeIn::goes_on`]). This check takes one
//! load and one comparison: one atomic number, [`STATE`], stands for the process and for its end.

mod fork_mutex;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

pub use fork_mutex::ForkMutex;
pub(crate) use fork_mutex::OfProcess;

use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

/// Twice the number of this process, plus one once its end has begun.
static STATE: AtomicU32 = AtomicU32::new(0);
/// The bit of [`STATE`] that says that the end has begun.
const EXITING: u32 = 1;
/// By how much [`STATE`] grows in a child of `fork`.
const CHILD: u32 = 2;

/// The number of this process: 0 where the library was first used, and in a child of `fork` one
/// more than in its parent.
///
/// Forks are counted from the first call of [`watch`] on. That call comes with the first value that
/// a child could not use.
#[inline(always)]
pub(crate) fn generation() -> u32 {
    // Relaxed: the number changes in a child while it has one thread, before `fork` returns there.
    STATE.load(Ordering::Relaxed) / CHILD
}

/// Whether the process has begun to end.
#[inline(always)]
pub(crate) fn is_exiting() -> bool {
    STATE.load(Ordering::Acquire) & EXITING != 0
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MadeIn(u32);

impl MadeIn {
    /// This process.
    #[inline(always)]
    pub(crate) fn this() -> Self {
        Self(STATE.load(Ordering::Relaxed) & !EXITING)
    }

    /// This process. If the device is not the host, forks are counted from now on, because a child
    /// cannot use memory on the device.
    #[inline(always)]
    pub(crate) fn with_memory_on(device: DeviceId) -> Self {
        if device.device_type == DeviceType::CPU { Self::this() } else { Self::watched() }
    }

    /// This process. Forks are counted from now on.
    pub(crate) fn watched() -> Self {
        watch();
        Self::this()
    }

    /// Whether this is that process and its end has not begun: one load and one comparison.
    #[inline(always)]
    pub(crate) fn goes_on(self) -> bool {
        STATE.load(Ordering::Acquire) == self.0
    }

    /// Whether this is that process. Its end may have begun.
    #[inline(always)]
    pub(crate) fn is_this(self) -> bool {
        STATE.load(Ordering::Relaxed) & !EXITING == self.0
    }

    /// The error that says why no driver is called.
    #[cold]
    pub(crate) fn refusal(self) -> Error {
        if self.is_this() { shut_down() } else { of_the_parent() }
    }
}

#[cold]
fn shut_down() -> Error {
    let message = "the process is about to end, and no driver is called any more";
    Error::new(ErrorKind::ShutDown, message)
}

#[cold]
pub(crate) fn of_the_parent() -> Error {
    let message = "this is a child of `fork`, and what its parent has opened does not work here: copy data to the host \
                   before the fork, or begin the process anew, as `spawn` of Python's multiprocessing does";
    Error::new(ErrorKind::Unsupported, message)
}

/// Begins to count forks, and to watch for the end of the process. Called before a driver is used,
/// and before a lock is made that a child could wait for.
#[inline(always)]
pub(crate) fn watch() {
    if !WATCHED.load(Ordering::Acquire) {
        begin_to_watch();
    }
}

/// Whether forks are counted. Not a `Once`: a child of `fork` would wait for ever for a thread that
/// was in the middle of it. If two threads register at once, each fork counts as two, which does no
/// harm.
static WATCHED: AtomicBool = AtomicBool::new(false);

#[cold]
#[inline(never)]
fn begin_to_watch() {
    // Miri has neither function, nor the events that they announce.
    #[cfg(not(miri))]
    {
        watch_forks();
        register_end();
    }
    WATCHED.store(true, Ordering::Release);
}

/// How many forks were begun by this process and by those that it is a child of, and how many of
/// them are over.
static FORKS_BEGUN: AtomicU32 = AtomicU32::new(0);
static FORKS_ENDED: AtomicU32 = AtomicU32::new(0);

/// A moment of this process, which tells later whether a child was made since. For memory that a
/// child has together with its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkMoment(Option<u32>);

impl ForkMoment {
    /// Now. Forks are counted from the first call of [`watch`] on.
    pub(crate) fn now() -> Self {
        // In this order: the numbers can only be equal where no fork is under way between the two
        // loads. A fork counts as begun before it takes what the child gets.
        let ended = FORKS_ENDED.load(Ordering::SeqCst);
        let begun = FORKS_BEGUN.load(Ordering::SeqCst);
        Self((begun == ended).then_some(begun))
    }

    /// Whether no child was made since, on any thread, and this is no child itself. Also no where a
    /// fork was under way then or is now.
    pub(crate) fn has_no_child_since(self) -> bool {
        self.0.is_some() && self.0 == Self::now().0
    }
}

/// Registers a handler for the end of the process that runs before the handlers of a runtime's
/// library: handlers run in the opposite order of their registration. Called when the library was
/// loaded and a device of it was opened. Only the first device of each runtime counts.
pub(crate) fn watch_end_of(runtime: &'static str) {
    static KNOWN: PerProcess<Mutex<Vec<&'static str>>> = PerProcess::new(Mutex::new(Vec::new()));
    watch();
    let mut known = crate::sync::lock(KNOWN.get());
    if !known.contains(&runtime) {
        known.push(runtime);
        drop(known);
        #[cfg(not(miri))]
        register_end();
    }
}

/// Says that the library's own thread is in a call of a driver: the value of [`STATE`] at the
/// beginning of the call, plus one. Otherwise 0.
static ASKING: AtomicU32 = AtomicU32::new(0);

/// Calls a driver on the one thread of the library that asks drivers by itself, or drops what may
/// call one. The end of the process waits a moment for such a call, because the libraries of
/// drivers are unloaded after that. Nested calls count as one.
pub(crate) fn while_asking<R>(ask: impl FnOnce() -> R) -> R {
    let before = ASKING.load(Ordering::Relaxed);
    // Sequentially consistent with the end: either this call is refused, or the end sees the call.
    ASKING.store((STATE.load(Ordering::Relaxed) & !EXITING) + 1, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    let answer = ask();
    ASKING.store(before, Ordering::Release);
    answer
}

/// Whether the library's thread is in such a call.
#[cfg(all(test, not(miri)))]
pub(crate) fn is_asking() -> bool {
    ASKING.load(Ordering::SeqCst) != 0
}

/// Waits until the library's thread has returned from a driver. The wait is bounded: the thread may
/// be gone by now, as threads are when a library of Windows is unloaded.
#[cfg(not(any(miri, all(target_family = "wasm", target_os = "unknown"))))]
fn wait_for_asking() {
    /// How many times the end of the process looks whether such a call is over.
    const LOOKS: u32 = 200;
    const PAUSE: std::time::Duration = std::time::Duration::from_micros(100);
    std::sync::atomic::fence(Ordering::SeqCst);
    let this = (STATE.load(Ordering::Relaxed) & !EXITING) + 1;
    for _ in 0..LOOKS {
        // In a child of `fork`, a thread of the parent does not return.
        if ASKING.load(Ordering::SeqCst) != this {
            return;
        }
        crate::clock::pause(PAUSE);
    }
}

#[cfg(not(miri))]
fn register_end() {
    // In WebAssembly without an operating system, the end of a process cannot be seen.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    {
        extern "C" fn exiting() {
            let before = STATE.fetch_or(EXITING, Ordering::SeqCst);
            if before & EXITING == 0 {
                wait_for_asking();
            }
        }
        // SAFETY: the handler changes a value in a static and can be called at any time. Where it
        // cannot be registered there is no memory left, and the end is not seen.
        let _ = unsafe { libc::atexit(exiting) };
    }
}

#[cfg(not(miri))]
fn watch_forks() {
    #[cfg(unix)]
    {
        extern "C" fn begins() {
            FORKS_BEGUN.fetch_add(1, Ordering::SeqCst);
        }
        extern "C" fn goes_on() {
            FORKS_ENDED.fetch_add(1, Ordering::SeqCst);
        }
        extern "C" fn forked() {
            STATE.fetch_add(CHILD, Ordering::Relaxed);
            // A fork that another thread of the parent was in has no end here.
            FORKS_ENDED.store(FORKS_BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        // SAFETY: the handlers change values in statics and can be called at any time: POSIX lets a
        // child of `fork` call what is async-signal-safe, and atomic operations are.
        let _ = unsafe { libc::pthread_atfork(Some(begins), Some(goes_on), Some(forked)) };
    }
}

/// The process in which a vendor's library is used. For a static of a backend.
///
/// A library that was used before a `fork` does not work in the child: its threads are gone, and a
/// lock that one of them held is never given back. [`Device`](crate::Device) itself guards an open
/// device. Everything else that a backend calls, to load its library, to list devices and to open
/// one, comes after [`enter`](Self::enter), which takes no lock.
///
/// ```
/// use arrow_device::driver::LibraryUse;
///
/// static LIBRARY: LibraryUse = LibraryUse::new();
///
/// fn list_devices() -> arrow_device::Result<()> {
///     LIBRARY.enter()?;
///     // The library is loaded and asked.
///     Ok(())
/// }
/// # list_devices()?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Debug)]
pub struct LibraryUse(AtomicU32);

impl LibraryUse {
    /// For a library that was not used yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Records the first use of the library. In a child of the process of the first use, this is an
    /// [`ErrorKind::Unsupported`]. After the end of the process has begun, it is an
    /// [`ErrorKind::ShutDown`].
    pub fn enter(&self) -> Result<()> {
        watch();
        if is_exiting() {
            return Err(shut_down());
        }
        // One more than the number of the process, because 0 stands for no process.
        let this = generation() + 1;
        match self.0.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(first) if first == this => Ok(()),
            Err(_) => Err(of_the_parent()),
        }
    }

    /// Says that the library was loaded or initialised. The library may have registered its own
    /// handlers for the end of the process. They are to run after the handler that ends all calls,
    /// and handlers run in the opposite order of their registration. A backend calls this after
    /// each step in which the library may have registered a handler.
    pub fn loaded(&self) {
        #[cfg(not(miri))]
        register_end();
    }
}

impl Default for LibraryUse {
    fn default() -> Self {
        Self::new()
    }
}

/// A value for a static, of which a child of `fork` has a fresh one. A lock that another thread of
/// the parent held at the fork does not stop the child.
///
/// ```
/// use std::sync::Mutex;
///
/// use arrow_device::driver::PerProcess;
///
/// static OPENED: PerProcess<Mutex<Vec<u32>>> = PerProcess::new(Mutex::new(Vec::new()));
///
/// OPENED.get().lock().unwrap().push(7);
/// assert_eq!(OPENED.get().lock().unwrap().len(), 1);
/// ```
///
/// Forks are counted from the first use of a driver on: of a [`LibraryUse`], or of a
/// [`Device`](crate::Device) that is not the host. Making a [`ForkMutex`] begins the count as well.
pub struct PerProcess<T: 'static> {
    /// The value of the first process.
    first: T,
    /// The value of a child. Never freed, because other threads may be reading it.
    of_child: AtomicPtr<OfChild<T>>,
}

struct OfChild<T> {
    generation: u32,
    value: T,
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerProcess")
    }
}

impl<T: Default + Sync> PerProcess<T> {
    /// The value of the first process, with which the program begins.
    pub const fn new(first: T) -> Self {
        Self { first, of_child: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process.
    #[inline(always)]
    pub fn get(&'static self) -> &'static T {
        match generation() {
            0 => &self.first,
            generation => self.of_child(generation),
        }
    }

    #[cold]
    fn of_child(&self, generation: u32) -> &'static T {
        let known = self.of_child.load(Ordering::Acquire);
        // SAFETY: null, or made by `Box::into_raw` below and never freed.
        if let Some(known) = unsafe { known.as_ref() }
            && known.generation == generation
        {
            return &known.value;
        }
        let fresh = Box::into_raw(Box::new(OfChild { generation, value: T::default() }));
        let stored =
            self.of_child.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire);
        let current = match stored {
            Ok(_) => fresh,
            Err(of_another_thread) => {
                // SAFETY: `Box::into_raw` gave it above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                of_another_thread
            }
        };
        // SAFETY: made by `Box::into_raw` here or on another thread of this process, which has one
        // generation, and never freed.
        unsafe { &(*current).value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_process_has_one_value() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(7));
        *crate::sync::lock(VALUE.get()) += 1;
        assert_eq!(*crate::sync::lock(VALUE.get()), 8);
    }

    #[test]
    fn a_child_has_a_value_of_its_own_that_stays() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(7));
        let held = VALUE.get().lock();
        let of_child = VALUE.of_child(1);
        *crate::sync::lock(of_child) += 1;
        assert_eq!(*crate::sync::lock(VALUE.of_child(1)), 1);
        drop(held);
        // Freed for the checkers of leaks: no test uses it any more.
        let last = VALUE.of_child.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: `of_child` made it, and the reference above is not used again.
        drop(unsafe { Box::from_raw(last) });
    }
}
