//! The steps of a copy, as errors name them.

use crate::{Error, ErrorKind};

pub(super) const OPEN: &str = "copy, opening a queue at the source";
pub(super) const ORDER: &str = "copy, ordering a queue behind the source";
pub(super) const WAIT_FOR_SOURCE: &str = "copy, waiting for the source";
pub(super) const PLAN: &str = "copy, planning";
pub(super) const LEARN: &str = "copy, reading lengths";
pub(super) const ALLOCATE: &str = "copy, allocating the destination";
pub(super) const STAGE: &str = "copy, allocating staging memory";
pub(super) const FETCH: &str = "copy, fetching offsets";
pub(super) const MAP: &str = "copy, mapping";
pub(super) const SUBMIT: &str = "copy, submitting";
pub(super) const READ: &str = "copy, reading a chunk";
pub(super) const WRITE: &str = "copy, writing a chunk";
pub(super) const FINISH: &str = "copy, waiting for the end";
pub(super) const RECORD: &str = "copy, recording the end";
pub(super) const BUILD: &str = "copy, building the result";

/// The error where a plan is run on a way that it was not made for. No plan leads to it.
pub(super) fn no_way() -> Error {
    Error::new(ErrorKind::Unsupported, "the plan does not fit its way")
}
