//! All rules, and all but one.

use crate::protocol::Rules;

pub(crate) use crate::protocol::Sound as All;

pub(crate) struct ReleaseDoesNotWait;

impl Rules for ReleaseDoesNotWait {
    const RELEASE_WAITS: bool = false;
}

pub(crate) struct ReleaseWaitsForItself;

impl Rules for ReleaseWaitsForItself {
    const RELEASE_KNOWS_ITS_THREAD: bool = false;
}

pub(crate) struct ManyCallers;

impl Rules for ManyCallers {
    const ONE_CALLER: bool = false;
}

pub(crate) struct CallerLooksOnce;

impl Rules for CallerLooksOnce {
    const CALLER_LOOKS_AGAIN: bool = false;
}

pub(crate) struct ReleaseEndsNothing;

impl Rules for ReleaseEndsNothing {
    const RELEASE_ENDS_CALLS: bool = false;
}

pub(crate) struct ErrorEndsNothing;

impl Rules for ErrorEndsNothing {
    const ERROR_ENDS_CALLS: bool = false;
}

pub(crate) struct CancelIsForgotten;

impl Rules for CancelIsForgotten {
    const CANCEL_IS_REMEMBERED: bool = false;
}

pub(crate) struct CancelKeepsTasks;

impl Rules for CancelKeepsTasks {
    const CANCEL_DISCARDS: bool = false;
}

pub(crate) struct CreditsAreCountedLate;

impl Rules for CreditsAreCountedLate {
    const COUNTS_BEFORE_ASKING: bool = false;
}

pub(crate) struct WakerIsStoredLate;

impl Rules for WakerIsStoredLate {
    const STORES_WAKER_AT_ONCE: bool = false;
}

pub(crate) struct LastCreditCounts;

impl Rules for LastCreditCounts {
    const CREDITS_ADD_UP: bool = false;
}

pub(crate) struct CancelEndsNothing;

impl Rules for CancelEndsNothing {
    const CANCEL_ENDS_REQUESTS: bool = false;
}

pub(crate) struct ClosingEndsNothing;

impl Rules for ClosingEndsNothing {
    const CLOSING_ENDS_REQUESTS: bool = false;
}

pub(crate) struct RefusedPollsAreLost;

impl Rules for RefusedPollsAreLost {
    const REFUSED_POLLS_COME_AGAIN: bool = false;
}
