//! [`Process`]: which process a connection belongs to.
//!
//! The number that the system gives a process does not tell: a child of `fork` in a namespace of
//! its own has the number 1, and so may its parent have. Two things tell:
//!
//! 1. The library counts forks, and gives each process a value of its own, whose address stands for
//!    the process. That sees every child that is made by the C library's `fork`.
//! 2. A page that the system fills with zeros in every child that has memory of its own
//!    (`MADV_WIPEONFORK`, Linux 4.14 and later). A process that finds a zero there writes a number
//!    that none of its parents has. That sees a child of the system call `clone`, too, in which the
//!    C library runs no handlers.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use arrow_device::driver::PerProcess;
use rustix::mm::{Advice, MapFlags, ProtFlags};

static THIS: PerProcess<u8> = PerProcess::new(0);

/// A process among this one, its parents and its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    counted: usize,
    marked: u64,
}

impl Process {
    /// This process. Forks are counted from the first
    /// [`ForkMutex`](arrow_device::driver::ForkMutex) on, so one is made before.
    pub(crate) fn this() -> Self {
        Self { counted: ptr::from_ref(THIS.get()).addr(), marked: mark() }
    }

    /// Whether the calling process is this one. Makes no call of the system, but for the first one
    /// of a process that has made no connection.
    pub(crate) fn is_this(self) -> bool {
        self == Self::this()
    }
}

/// A number that this process has, and none of those that it is a child of.
fn mark() -> u64 {
    /// The highest number among this process and those that it is a child of.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let page = page();
    match page.load(Ordering::Relaxed) {
        0 => {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            // Another thread may have been first.
            page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|others| others, |_| next)
        }
        number => number,
    }
}

/// The number in the page that is wiped, or one that stays where the system has no such pages.
///
/// Not a `OnceLock`: a child of `fork` would wait for ever for a thread that was in the middle of
/// it.
fn page() -> &'static AtomicU64 {
    static WITHOUT_PAGE: AtomicU64 = AtomicU64::new(1);
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
    let known = PAGE.load(Ordering::Acquire);
    // SAFETY: null, or one of the two that are stored below, which stay for ever.
    if let Some(page) = unsafe { known.as_ref() } {
        return page;
    }
    let made = wiped_page();
    let stored = made.unwrap_or(ptr::from_ref(&WITHOUT_PAGE).cast_mut());
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    let current = match PAGE.compare_exchange(known, stored, success, failure) {
        Ok(_) => stored,
        Err(of_another_thread) => {
            if let Some(made) = made {
                // SAFETY: mapped above with this length, and nobody else has seen it.
                let _ = unsafe { rustix::mm::munmap(made.cast(), LEN) };
            }
            of_another_thread
        }
    };
    // SAFETY: one of the two that are stored here, by this thread or another one, which stay for
    // ever. A page has room for the number, is aligned for it, and has zeros or what was stored.
    unsafe { &*current }
}

/// What is asked for of a page. The system rounds this up.
const LEN: usize = size_of::<AtomicU64>();

/// A page that children find filled with zeros. `None` where the system has none.
fn wiped_page() -> Option<*mut AtomicU64> {
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: no place is asked for, so the mapping takes the place of nothing.
    let page =
        unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), LEN, rights, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the advice changes what children find in a page that was just mapped, and nothing
    // here.
    if unsafe { rustix::mm::madvise(page, LEN, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: mapped above with this length, and nobody else has seen it.
        let _ = unsafe { rustix::mm::munmap(page, LEN) };
        return None;
    }
    Some(page.cast())
}
