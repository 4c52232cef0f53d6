//! [`Process`]: which process a connection belongs to.
//!
//! The number that the system gives a process does not tell: a child of `fork` in a namespace of
//! its own has the number 1, and so may its parent have. The library counts forks, and gives each
//! process a value of its own, whose address stands for the process here.

use arrow_device::driver::PerProcess;

static THIS: PerProcess<u8> = PerProcess::new(0);

/// A process among this one, its parents and its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(usize);

impl Process {
    /// This process. Forks are counted from the first
    /// [`ForkMutex`](arrow_device::driver::ForkMutex) on, so one is made before.
    pub(crate) fn this() -> Self {
        Self(std::ptr::from_ref(THIS.get()).addr())
    }

    /// Whether the calling process is this one. Makes no call of the system.
    pub(crate) fn is_this(self) -> bool {
        self == Self::this()
    }
}
