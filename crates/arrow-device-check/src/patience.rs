//! How long a child waits for a peer that has threads of its own. The parent sets it, and the
//! judges keep to it.

use std::env;
use std::time::Duration;

/// The variable that says it, in seconds.
pub(crate) const PATIENCE: &str = "ARROW_DEVICE_CHECK_PATIENCE";

/// How long to wait for a peer that has threads of its own.
pub(crate) fn patience() -> Duration {
    let seconds = env::var(PATIENCE).ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}
