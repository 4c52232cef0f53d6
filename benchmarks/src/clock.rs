//! Timing cases beside each other.
//!
//! All cases of one workload, shape and size take turns, each round in another order, so that what
//! the machine does meanwhile meets all of them. Each turn begins with one that is not timed: the
//! peer before has left the allocator and the caches in a state of its own.

use std::time::{Duration, Instant};

use crate::case::{Case, Peer};

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The rounds of which the median is taken.
    pub rounds: u32,
    /// How long one timed turn should take.
    pub turn: Duration,
    /// How long all rounds of one workload and size may take, if that leaves nine of them.
    pub most: Duration,
}

/// Rounds that are always made: a median of fewer says little.
const FEWEST: u32 = 9;

/// What one peer took for one turn of a workload.
#[derive(Clone, Debug)]
pub struct Time {
    /// What was done.
    pub workload: &'static str,
    /// To what.
    pub shape: &'static str,
    /// How much of it.
    pub size: u64,
    /// By whom.
    pub peer: Peer,
    /// The bytes that were moved.
    pub bytes: u64,
    /// Nanoseconds, the median of the rounds.
    pub median: f64,
    /// The fastest round.
    pub least: f64,
}

/// Times cases of one workload, shape and size.
pub fn compare(cases: &mut [Case], effort: Effort) -> Vec<Time> {
    let turns: Vec<u32> = cases.iter_mut().map(|case| turns_of(case, effort.turn)).collect();
    let mut rounds: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    let start = Instant::now();
    for round in 0..effort.rounds as usize {
        if round >= FEWEST as usize && start.elapsed() > effort.most {
            break;
        }
        for position in 0..cases.len() {
            let index = (position + round) % cases.len();
            let (case, turns) = (&mut cases[index], turns[index]);
            (case.run)(1 + turns / 10);
            let took = (case.run)(turns);
            rounds[index].push(took.as_secs_f64() * 1e9 / f64::from(turns));
        }
    }
    cases.iter().zip(rounds).map(|(case, took)| time_of(case, took)).collect()
}

/// So many turns that they take about as long as wanted. The first one says nothing: it opens what
/// later ones use, and fills memory for the first time.
fn turns_of(case: &mut Case, wanted: Duration) -> u32 {
    (case.run)(1);
    let mut turns = 1;
    loop {
        let took = (case.run)(turns);
        if took * 2 >= wanted || turns >= 1 << 20 {
            let more = wanted.as_secs_f64() / took.as_secs_f64().max(1e-9);
            return ((f64::from(turns) * more) as u32).clamp(1, 1 << 20);
        }
        turns *= 2;
    }
}

fn time_of(case: &Case, mut took: Vec<f64>) -> Time {
    took.sort_by(f64::total_cmp);
    let &Case { workload, shape, size, peer, bytes, .. } = case;
    let (median, least) = (took[took.len() / 2], took[0]);
    Time { workload, shape, size, peer, bytes, median, least }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn all_peers_take_turns_and_nobody_is_always_first() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let case = |peer| {
            let order = Rc::clone(&order);
            Case::whole(("w", "s", 1), peer, move || order.borrow_mut().push(peer))
        };
        let mut cases = [case(Peer::ArrowDevice), case(Peer::ArrowRs)];
        let times =
            compare(&mut cases, Effort { rounds: 2, turn: Duration::ZERO, most: Duration::ZERO });
        assert_eq!(times.len(), 2);
        let mut order = order.take();
        order.dedup();
        // Finding out how many turns there are, and two rounds.
        use Peer::{ArrowDevice, ArrowRs};
        assert_eq!(order, [ArrowDevice, ArrowRs, ArrowDevice, ArrowRs, ArrowDevice]);
    }

    #[test]
    fn only_the_middle_step_is_timed() {
        let wait = || std::thread::sleep(Duration::from_millis(20));
        let mut case =
            Case::step(("w", "s", 1), Peer::ArrowDevice, wait, |()| (), move |()| wait());
        assert!((case.run)(2) < Duration::from_millis(20));
    }
}
