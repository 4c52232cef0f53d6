//! Vector clocks: what is known to be finished before something starts.
//!
//! Each queue has a lane, and the work on it is numbered. A clock has a number for each lane: all
//! work of the lane up to this number is finished. Two pieces of work are in order if the clock of
//! the later one covers the earlier one; if neither covers the other, a device may run them in any
//! order. The host has a clock and no lane: what it does happens at once, before anything that is
//! submitted later.

use std::collections::BTreeMap;

/// One piece of work: its lane, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) lane: u32,
    pub(crate) number: u64,
}

/// The work that is known to be finished, by lane. Numbers begin at 1, so a lane that is missing is
/// at 0: the clocks of very many queues that wait for none of the others are short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(BTreeMap<u32, u64>);

impl Clock {
    pub(crate) fn of(&self, lane: u32) -> u64 {
        self.0.get(&lane).copied().unwrap_or(0)
    }

    /// Whether this work is finished, according to this clock.
    pub(crate) fn covers(&self, point: Point) -> bool {
        self.of(point.lane) >= point.number
    }

    pub(crate) fn advance(&mut self, point: Point) {
        self.learn(point.lane, point.number);
    }

    /// Adds what another clock covers. Returns whether this clock changed.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let mut news = false;
        for (lane, told) in &other.0 {
            news |= self.learn(*lane, *told);
        }
        news
    }

    /// Returns whether that was not known.
    fn learn(&mut self, lane: u32, number: u64) -> bool {
        let known = self.0.entry(lane).or_default();
        let is_new = *known < number;
        *known = number.max(*known);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(lane: u32, number: u64) -> Point {
        Point { lane, number }
    }

    #[test]
    fn a_clock_covers_what_it_was_told_and_nothing_later() {
        let mut clock = Clock::default();
        assert!(!clock.covers(point(3, 1)));
        clock.advance(point(3, 2));
        assert!(clock.covers(point(3, 1)) && clock.covers(point(3, 2)));
        assert!(!clock.covers(point(3, 3)) && !clock.covers(point(2, 1)));
    }

    #[test]
    fn a_clock_has_no_more_entries_than_lanes_that_it_was_told_of() {
        let mut clock = Clock::default();
        clock.advance(point(100_000, 1));
        clock.join(&clock.clone());
        assert_eq!(clock.0.len(), 1);
    }

    #[test]
    fn joining_keeps_the_later_number_of_every_lane() {
        let (mut one, mut other) = (Clock::default(), Clock::default());
        one.advance(point(0, 5));
        other.advance(point(0, 2));
        other.advance(point(1, 7));
        assert!(one.join(&other));
        assert_eq!((one.of(0), one.of(1)), (5, 7));
        assert!(!one.join(&other), "nothing new the second time");
    }
}
