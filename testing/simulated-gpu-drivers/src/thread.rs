//! What a driver remembers for each thread of the host.

use std::cell::RefCell;

use crate::capture::{GLOBAL, RELAXED};
use crate::code::{Answer, Code};

/// A context on a thread's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub(crate) device: usize,
    pub(crate) context: usize,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    /// CUDA: the contexts that are current, the innermost last.
    pub(crate) contexts: Vec<Current>,
    /// HIP: the device that calls are about.
    pub(crate) device: usize,
    /// HIP: the code of the last call that failed.
    pub(crate) last_error: i32,
    /// 0 global, 1 thread local, 2 relaxed.
    pub(crate) capture_mode: i32,
    /// Whether a callback of a stream runs on this thread.
    pub(crate) in_callback: bool,
}

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::default();
}

/// Looks at this thread's state, or changes it. `None` while the thread is being torn down.
pub(crate) fn with<R>(act: impl FnOnce(&mut Thread) -> R) -> Option<R> {
    THREAD.try_with(|thread| act(&mut thread.borrow_mut())).ok()
}

/// The innermost context that is current on this thread.
pub(crate) fn current() -> Option<Current> {
    with(|thread| thread.contexts.last().copied()).flatten()
}

/// The system's number of this thread.
pub(crate) fn number() -> u64 {
    #[cfg(target_os = "linux")]
    // SAFETY: a call without arguments that cannot fail.
    return u64::try_from(unsafe { libc::gettid() }).unwrap_or(0);
    #[cfg(not(target_os = "linux"))]
    return 0;
}

/// Exchanges how strict this thread's calls are about captures.
///
/// # Safety
/// `mode` is null, or may be read and written.
pub(crate) unsafe fn exchange_capture_mode(mode: *mut i32) -> Answer {
    if mode.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: `mode` is null, or may be read and written, as the caller promises.
    let wanted = unsafe { mode.read() };
    if !(GLOBAL..=RELAXED).contains(&wanted) {
        return Err(Code::INVALID_VALUE);
    }
    let before = with(|thread| std::mem::replace(&mut thread.capture_mode, wanted));
    // SAFETY: `mode` is null, or may be read and written, as the caller promises.
    unsafe { mode.write(before.unwrap_or(GLOBAL)) };
    Ok(())
}
