//! Which process this is, and whether it is about to end.
//!
//! A child of `fork` has the memory of its parent, and neither the parent's other threads nor its
//! devices: a driver that was used before the fork may hang there, and a lock that another thread
//! held at the fork is never given back. Processes are therefore numbered, whatever belongs to a
//! driver remembers the number of its process, a lock that stands in a static is a [`PerProcess`],
//! and a lock of an object that children use is in a `PerFork`, where a child needs a value of its
//! own, or is a [`ForkMutex`]. What is made when it is first asked for is in a cell of `once`.
//!
//! A process that is about to end takes its drivers down, in an order that nobody knows. After that
//! has begun, no driver is called.

mod fork_mutex;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

pub use fork_mutex::ForkMutex;
pub(crate) use fork_mutex::OfProcess;

use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

/// Twice the number of this process, and one more once its end has begun.
static STATE: AtomicU32 = AtomicU32::new(0);
/// The bit of [`STATE`] that says that the end has begun.
const EXITING: u32 = 1;
/// What a child of `fork` has more than its parent.
const CHILD: u32 = 2;

/// The number of this process: 0 where the library was first used, and one more in a child of
/// `fork` than in its parent.
///
/// Forks are counted from the first call of [`watch`] on, which comes with the first thing that a
/// child cannot use.
#[inline(always)]
pub(crate) fn generation() -> u32 {
    // Relaxed: the number changes in a child that has one thread, before `fork` returns there.
    STATE.load(Ordering::Relaxed) / CHILD
}

/// Whether the process has begun to end.
#[inline(always)]
pub(crate) fn is_exiting() -> bool {
    STATE.load(Ordering::Acquire) & EXITING != 0
}

/// The process that something was made in, to be asked later whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MadeIn(u32);

impl MadeIn {
    /// This process.
    #[inline(always)]
    pub(crate) fn this() -> Self {
        Self(STATE.load(Ordering::Relaxed) & !EXITING)
    }

    /// This process. Forks are counted from now on where the device is not the host, as a child
    /// cannot use what is on it.
    #[inline(always)]
    pub(crate) fn with_memory_on(device: DeviceId) -> Self {
        if device.device_type == DeviceType::CPU { Self::this() } else { Self::watched() }
    }

    /// This process, whose forks are counted from now on.
    pub(crate) fn watched() -> Self {
        watch();
        Self::this()
    }

    /// Whether this is that process, and its end has not begun: one load and one comparison.
    #[inline(always)]
    pub(crate) fn goes_on(self) -> bool {
        STATE.load(Ordering::Acquire) == self.0
    }

    /// Whether this is that process, whether or not its end has begun.
    #[inline(always)]
    pub(crate) fn is_this(self) -> bool {
        STATE.load(Ordering::Relaxed) & !EXITING == self.0
    }

    /// Why no driver is called.
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

/// Begins to count forks, and to see the end. Called when a driver is about to be used, or a lock
/// to be made that a child could wait for.
#[inline(always)]
pub(crate) fn watch() {
    if !WATCHED.load(Ordering::Acquire) {
        begin_to_watch();
    }
}

/// Whether forks are counted. Not a `Once`: a child of `fork` would wait for ever for a thread that
/// was in the middle of it. Where two threads register at once, a fork counts for two, which is as
/// good.
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

/// Sees the end before a runtime's library does: handlers of the end run in the opposite order of
/// their registration. Called when the library was loaded and a device of it opened; the first
/// device of each runtime counts.
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

/// A thread of the library that asks drivers in the background is in a call of one: what
/// [`STATE`] was then, and one more.
static ASKING: AtomicU32 = AtomicU32::new(0);

/// Calls a driver on the one thread of the library that asks drivers by itself, or drops what may
/// call one. The end of the process waits a moment for such a call: the libraries of drivers go
/// after that. A call within a call is a part of it.
pub(crate) fn while_asking<R>(ask: impl FnOnce() -> R) -> R {
    let before = ASKING.load(Ordering::Relaxed);
    // In one order with the end: either this call is refused, or the end sees that it is made.
    ASKING.store((STATE.load(Ordering::Relaxed) & !EXITING) + 1, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    let answer = ask();
    ASKING.store(before, Ordering::Release);
    answer
}

/// Whether the thread of the library is in such a call.
#[cfg(test)]
pub(crate) fn is_asking() -> bool {
    ASKING.load(Ordering::SeqCst) != 0
}

/// Waits until the thread of the library has come back from a driver. Not for ever: the thread may
/// be gone by now, as threads are in a library of Windows that is unloaded.
#[cfg(not(miri))]
fn wait_for_asking() {
    /// How often, and for how long at a time, the end of the process waits for such a call.
    const LOOKS: u32 = 200;
    const PAUSE: std::time::Duration = std::time::Duration::from_micros(100);
    std::sync::atomic::fence(Ordering::SeqCst);
    let this = (STATE.load(Ordering::Relaxed) & !EXITING) + 1;
    for _ in 0..LOOKS {
        // A thread of the parent's does not come back in a child of `fork`.
        if ASKING.load(Ordering::SeqCst) != this {
            return;
        }
        crate::clock::pause(PAUSE);
    }
}

#[cfg(not(miri))]
fn register_end() {
    // WebAssembly without an operating system has no end of the process that anybody sees.
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
        extern "C" fn forked() {
            STATE.fetch_add(CHILD, Ordering::Relaxed);
        }
        // SAFETY: the handler adds to a static and can be called at any time: POSIX lets a child of
        // `fork` call what is async-signal-safe, and an atomic addition is.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
}

/// Which process a vendor's library is used in: for a static of a backend.
///
/// A library that was used before a `fork` does not work in the child: its threads are gone, and a
/// lock that one of them held is never given back. A device that is open is guarded by
/// [`Device`](crate::Device) itself. Whatever a backend calls besides, to load its library, to list
/// devices and to open one, comes after [`enter`](Self::enter), which asks no lock.
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
    /// Of a library that nobody has used yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes the first use, and refuses all others in children of the process that it was in, with
    /// [`ErrorKind::Unsupported`], and after the end of the process has begun, with
    /// [`ErrorKind::ShutDown`].
    pub fn enter(&self) -> Result<()> {
        watch();
        if is_exiting() {
            return Err(shut_down());
        }
        // One more, because 0 is nobody's.
        let this = generation() + 1;
        match self.0.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(first) if first == this => Ok(()),
            Err(_) => Err(of_the_parent()),
        }
    }

    /// Says that the library is loaded, or initialised: its own handlers of the end, which run in
    /// the opposite order of their registration, are to run after the one that ends all calls. A
    /// backend says so after each step in which the library may have registered one.
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

/// A value for a static, of which a child of `fork` has a fresh one: a lock that another thread of
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
/// [`Device`](crate::Device) that is not the host. A [`ForkMutex`] counts as well.
pub struct PerProcess<T: 'static> {
    /// That of the first process.
    first: T,
    /// That of a child. Never freed: others may look at it.
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
