//! How long a child waits for a peer that has threads of its own. The parent sets it, and the
//! judges keep to it.

use std::env;
use std::time::Duration;

/// The variable that has the patience in seconds.
pub(crate) const PATIENCE: &str = "ARROW_DEVICE_CHECK_PATIENCE";

/// The longest patience: a moment so far away can still be told.
const LONGEST: Duration = Duration::from_secs(1_000_000);

/// Returns how long to wait for a peer that has threads of its own.
pub(crate) fn patience() -> Duration {
    let seconds = env::var(PATIENCE).ok().and_then(|seconds| seconds.parse().ok());
    Duration::try_from_secs_f64(seconds.unwrap_or(10.0)).unwrap_or(LONGEST)
}

/// How much time is left for waiting in vain. A peer that never does what is waited for would
/// otherwise be waited for in each scenario again. With the budget, all of that adds up to a minute
/// or so.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: Duration,
    patience: Duration,
    left: Duration,
}

impl Budget {
    /// The least patience of a child.
    const LEAST: Duration = Duration::from_millis(250);
    /// The least limit of a scenario that comes after a stopped one, unless all limits are lower.
    const LEAST_LIMIT: Duration = Duration::from_secs(2);

    pub(crate) fn new(limit: Duration, patience: Duration) -> Self {
        let patience = patience.min(LONGEST);
        Self { limit, patience, left: patience * 4 }
    }

    /// Returns how long the next child waits for its peer.
    pub(crate) fn patience(&self) -> Duration {
        (self.left / 4).max(Self::LEAST).min(self.patience)
    }

    /// Returns how long the next scenario may take.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Takes the time of a child from the budget.
    pub(crate) fn spend(&mut self, took: Duration, is_stopped: bool) {
        if took >= self.patience() {
            self.left = self.left.saturating_sub(took);
        }
        if is_stopped {
            self.limit = self.limit.min((self.limit / 6).max(Self::LEAST_LIMIT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_vain_add_up_to_a_minute_at_most() {
        // Each scenario waits three times: for the next step, the end and the release.
        let mut budget = Budget::new(Duration::from_secs(30), Duration::from_secs(10));
        let waits = (0..16).map(|_| {
            let took = budget.patience() * 3;
            budget.spend(took, false);
            took
        });
        assert!(waits.sum::<Duration>() < Duration::from_secs(60));
        // Scenarios that hang are stopped.
        let mut budget = Budget::new(Duration::from_secs(30), Duration::from_secs(10));
        let stops = (0..12).map(|_| {
            let took = budget.limit();
            budget.spend(took, true);
            took
        });
        assert!(stops.sum::<Duration>() < Duration::from_secs(60));
    }

    #[test]
    fn a_patience_without_an_end_is_one_whose_end_can_be_told() {
        let budget = Budget::new(Duration::MAX, Duration::MAX);
        assert_eq!(budget.patience(), LONGEST);
        assert!(std::time::Instant::now().checked_add(LONGEST).is_some());
    }

    #[test]
    fn who_answers_is_waited_for_as_long_at_the_end_as_at_the_beginning() {
        let mut budget = Budget::new(Duration::from_secs(60), Duration::from_secs(10));
        (0..100).for_each(|_| budget.spend(Duration::from_secs(9), false));
        assert_eq!(budget.patience(), Duration::from_secs(10));
        assert_eq!(budget.limit(), Duration::from_secs(60));
    }
}
