//! [`Moment`]: when memory came, among the openings and closings of devices.
//!
//! A device's id may stand for one runtime now and for another one later: a device was closed, or
//! lost, and is opened again, or an application made a new context whose handle is that of the old
//! one. Where a driver cannot tell whose memory is whose ([`Driver::holds`]), only time can. Memory
//! that came while the device of such a driver was open is taken for the driver's, unless another
//! runtime was open by the id as well, and is closed now or cannot tell either.
//!
//! So each opening and each closing of a device has a number, one more than that of the one before,
//! and what comes into the process notes the number of the latest.
//!
//! [`Driver::holds`]: super::driver::Driver::holds

use std::sync::atomic::{AtomicU32, Ordering};

use super::Memory;
use super::driver::Raw;

/// The number of the latest opening or closing.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// A moment between two openings or closings of devices in this process.
///
/// The last number there is stands for all moments from then on, of which the order is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u32);

impl Moment {
    /// Before all openings and closings.
    pub(super) const BEFORE_ALL: Self = Self(0);

    /// Nobody knows what was before it and what comes behind.
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);

    /// The present: behind the latest opening or closing that the thread knows of.
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

    /// Whether nobody knows what was before it and what comes behind.
    pub(super) fn is_unknown(self) -> bool {
        self == Self::UNKNOWN
    }

    /// Whether it is known to be before another moment.
    pub(super) fn is_before(self, other: Self) -> bool {
        self < other
    }
}

/// Memory that somebody says is on a device, and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimedMemory {
    pub(crate) memory: Raw<Memory>,
    pub(crate) came: Moment,
}
