//! [`Held`]: how many bytes of a device this process holds, and for whom.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many bytes of a device this process holds at one moment, and for whom: see
/// [`Device::held`](crate::Device::held).
///
/// ```
/// use arrow_device::Device;
///
/// let host = Device::host();
/// let before = host.held().allocated;
/// let memory = host.allocate(1 << 20)?;
/// assert!(host.held().allocated >= 1 << 20);
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// Memory that this process allocated, by any allocator, and has not freed yet. Memory that a
    /// [`Recycler`](crate::Recycler) keeps counts too, since nobody else can have it.
    pub allocated: u64,
    /// Host memory that is kept to move data to and from the device.
    pub staging: u64,
    /// The bytes that the elements of imported arrays need, as far as that is known without asking
    /// a device. An array counts from its import to its release, if it was imported after the first
    /// call of [`count_exchanges`](crate::Device::count_exchanges).
    pub imported: u64,
    /// The bytes that the elements of exported arrays need, as far as that is known without asking
    /// a device. An array counts from its export until the consumer releases it, if it was exported
    /// after the first call of [`count_exchanges`](crate::Device::count_exchanges).
    pub exported: u64,
}

/// The counters of one device.
#[derive(Debug, Default)]
pub(crate) struct Account {
    allocated: AtomicU64,
    staging: AtomicU64,
    imported: Arc<AtomicU64>,
    exported: Arc<AtomicU64>,
    counts_exchanges: AtomicBool,
    /// How many incomplete results of polled copies are on their way back.
    coming_back: AtomicU64,
}

/// Set once a device counts or watches what is exchanged. Before that nobody pays for the counts.
static ANY_COUNTS: AtomicBool = AtomicBool::new(false);

/// Whether an array is counted as imported or as exported.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Imported,
    Exported,
}

impl Account {
    pub(crate) fn held(&self) -> Held {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Held {
            allocated: read(&self.allocated),
            staging: read(&self.staging),
            imported: read(&self.imported),
            exported: read(&self.exported),
        }
    }

    pub(crate) fn allocated(&self, len: u64) {
        self.allocated.fetch_add(len, Ordering::Relaxed);
    }

    pub(crate) fn freed(&self, len: u64) {
        self.allocated.fetch_sub(len, Ordering::Relaxed);
    }

    pub(crate) fn staged(&self, len: u64) {
        self.staging.fetch_add(len, Ordering::Relaxed);
    }

    pub(crate) fn unstaged(&self, len: u64) {
        self.staging.fetch_sub(len, Ordering::Relaxed);
    }

    /// Counts memory that goes back unused.
    pub(crate) fn goes_back(&self) {
        self.coming_back.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes back one count of [`goes_back`](Self::goes_back): the memory is back.
    pub(crate) fn is_back(&self) {
        self.coming_back.fetch_sub(1, Ordering::Release);
    }

    /// Whether unused memory is on its way back.
    pub(crate) fn has_memory_coming_back(&self) -> bool {
        self.coming_back.load(Ordering::Acquire) > 0
    }

    pub(crate) fn count_exchanges(&self) {
        self.counts_exchanges.store(true, Ordering::Relaxed);
        exchanges_are_looked_at();
    }

    /// Counts bytes until the result is dropped, if they are to be counted.
    pub(crate) fn count(
        &self,
        direction: Direction,
        bytes: impl FnOnce() -> u64,
    ) -> Option<CountedBytes> {
        if !self.counts_exchanges.load(Ordering::Relaxed) {
            return None;
        }
        let counter = match direction {
            Direction::Imported => &self.imported,
            Direction::Exported => &self.exported,
        };
        let bytes = bytes();
        counter.fetch_add(bytes, Ordering::Relaxed);
        Some(CountedBytes { counter: counter.clone(), bytes })
    }
}

/// From now on the device of each exchanged array is looked up.
pub(super) fn exchanges_are_looked_at() {
    ANY_COUNTS.store(true, Ordering::Relaxed);
}

/// Whether any device counts what is exchanged, or watches it.
#[inline]
pub(crate) fn any_counts() -> bool {
    ANY_COUNTS.load(Ordering::Relaxed)
}

/// Bytes that are counted until this value is dropped.
pub(crate) struct CountedBytes {
    counter: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for CountedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CountedBytes({} bytes)", self.bytes)
    }
}
