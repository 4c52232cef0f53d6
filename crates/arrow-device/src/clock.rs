//! The clock of waits with a limit, and the pause between two looks.
//!
//! WebAssembly without an operating system has neither a clock nor other threads. There the clock
//! advances whenever it is read and whenever a wait pauses, so every wait with a limit ends.

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub(crate) use std::{thread::sleep as pause, time::Instant};

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) use counted::{Instant, pause};

#[cfg(any(test, all(target_family = "wasm", target_os = "unknown")))]
mod counted {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// How far the clock advances when it is read.
    const LOOK: Duration = Duration::from_micros(1);

    /// The time in nanoseconds.
    static NOW: AtomicU64 = AtomicU64::new(0);

    /// A time of the counted clock, with the functions of the standard library's type that are used
    /// here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) struct Instant(Duration);

    impl Instant {
        pub(crate) fn now() -> Self {
            pause(LOOK);
            Self(Duration::from_nanos(NOW.load(Ordering::Relaxed)))
        }

        pub(crate) fn checked_add(&self, duration: Duration) -> Option<Self> {
            self.0.checked_add(duration).map(Self)
        }

        pub(crate) fn saturating_duration_since(&self, earlier: Self) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        pub(crate) fn elapsed(&self) -> Duration {
            Self::now().saturating_duration_since(*self)
        }
    }

    pub(crate) fn pause(duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let later = |now: u64| Some(now.saturating_add(nanoseconds));
        let _ = NOW.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::counted::{Instant, pause};

    #[test]
    fn the_counted_clock_moves_when_it_is_looked_at_and_in_pauses() {
        let began = Instant::now();
        let deadline = began.checked_add(Duration::from_micros(500)).unwrap();
        let looks = (0..).take_while(|_| Instant::now() < deadline).take(100_000).count();
        assert!((100..100_000).contains(&looks), "{looks}");
        pause(Duration::from_secs(3));
        assert!(began.elapsed() >= Duration::from_secs(3));
        assert_eq!(began.saturating_duration_since(deadline), Duration::ZERO);
        assert_eq!(began.checked_add(Duration::MAX), None);
    }
}
