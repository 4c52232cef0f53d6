//! [`Process`]: which process a connection belongs to.
//!
//! The number that the system gives a process does not tell: a child of `fork` in a namespace of
//! its own has the number 1, and its parent may have the same number. The library counts forks from
//! the first [`ForkMutex`] on, and gives each process a value of its own, whose address stands for
//! the process. The number of the process is compared as well: in a child of the system call
//! `clone` the C library runs no handlers, so nothing is counted there.

use std::ptr;

use arrow_device::driver::{ForkMutex, PerProcess};

static THIS: PerProcess<u8> = PerProcess::new(0);

/// A process among this one, its parents and its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    counted: usize,
    number: u32,
}

impl Process {
    /// This process. From here on forks are counted.
    pub(crate) fn this() -> Self {
        drop(ForkMutex::new(()));
        Self::current()
    }

    /// Whether the calling process is this one.
    pub(crate) fn is_this(self) -> bool {
        self == Self::current()
    }

    fn current() -> Self {
        // Other systems have no `fork`, and some of them have no processes.
        let number = if cfg!(unix) { std::process::id() } else { 0 };
        Self { counted: ptr::from_ref(THIS.get()).addr(), number }
    }
}
