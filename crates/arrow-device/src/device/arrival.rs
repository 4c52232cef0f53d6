//! [`Moment`]: when memory came, among the openings and closings of devices; and [`Arrival`]: into
//! which process it came then.
//!
//! A device's id may stand for one runtime now and for another one later: a device was closed or
//! lost and is opened again, or an application made a new context whose handle is that of an old
//! one. Where a driver cannot tell which memory is its own ([`Driver::holds`]), only time can:
//!
//! - Memory that came while the device of such a driver was open is taken for the driver's.
//! - The exception is memory that came while another runtime was open by the id as well, if that
//!   runtime is closed now or cannot tell either. Nobody has such memory.
//!
//! So each opening and each closing of a device has a number, one more than the one before, and
//! everything that comes into the process notes the number of the latest.
//!
//! [`Driver::holds`]: super::driver::Driver::holds

use std::sync::atomic::{AtomicU32, Ordering};

use super::Memory;
use super::driver::Raw;
use crate::process::MadeIn;

/// The number of the latest opening or closing.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// A moment between two openings or closings of devices in this process.
///
/// The largest number stands for all later moments, whose order is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u32);

impl Moment {
    /// The moment before all openings and closings.
    pub(super) const BEFORE_ALL: Self = Self(0);

    /// A moment whose order among the others is unknown.
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);

    /// The present: the moment after the latest opening or closing that the thread knows of.
    #[inline(always)]
    pub(crate) fn now() -> Self {
        Self(LATEST.load(Ordering::Relaxed))
    }

    /// A new moment, which begins with an opening or a closing.
    pub(super) fn begin() -> Self {
        let next = |latest: u32| Some(latest.saturating_add(1));
        let before = LATEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        Self(before.unwrap_or(u32::MAX).saturating_add(1))
    }

    /// Whether the order of this moment among the others is unknown.
    pub(super) fn is_unknown(self) -> bool {
        self == Self::UNKNOWN
    }

    /// Whether this moment is known to be before another one.
    pub(super) fn is_before(self, other: Self) -> bool {
        self < other
    }
}

/// When memory came, and into which process. An export keeps the arrival for whoever imports the
/// memory again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) process: MadeIn,
    pub(crate) moment: Moment,
}

impl Arrival {
    /// The arrival of memory that comes now.
    #[inline]
    pub(crate) fn now() -> Self {
        Self { process: MadeIn::watched(), moment: Moment::now() }
    }
}

/// Memory that is said to be on a device, and the moment when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimedMemory {
    pub(crate) memory: Raw<Memory>,
    pub(crate) came: Moment,
}
