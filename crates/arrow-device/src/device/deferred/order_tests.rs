//! Waiters for events, and for a queue that is idle, on one timeline. (Not in `timeline`, which
//! other tests compile over other locks.)

use std::cell::Cell;

use super::timeline::{
    AskDriver, CountsUses, DriverAnswer, ListedTimelines, Timeline, TimelineKinds, Use, UsesLeft,
    WaitingTimelines,
};
use std::sync::{Arc, Mutex};

thread_local! {
    /// How often this thread asked an end what it is.
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Ends of queues that are never idle, and of events that never pass.
#[derive(Clone)]
struct CountedEnd {
    is_queue: bool,
}

impl AskDriver for CountedEnd {
    fn is_whole_queue(&self) -> bool {
        LOOKS.set(LOOKS.get() + 1);
        self.is_queue
    }

    fn ask(&self) -> DriverAnswer {
        DriverAnswer::NotYet
    }
}

struct OfCountedEnds;

impl TimelineKinds for OfCountedEnds {
    type End = CountedEnd;
    type Entry = Arc<Numbered>;
    type About = ();
}

struct Numbered {
    uses_left: UsesLeft,
    number: u64,
}

impl CountsUses for Arc<Numbered> {
    fn uses_left(&self) -> &UsesLeft {
        &self.uses_left
    }
}

struct Scene {
    waiting: WaitingTimelines<OfCountedEnds>,
    timeline: Arc<Timeline<OfCountedEnds>>,
}

impl Scene {
    fn new() -> Self {
        let waiting = WaitingTimelines(Mutex::new(ListedTimelines::new()));
        Self { waiting, timeline: Arc::new(Timeline::new(1, ())) }
    }

    fn hold(&self, point: u64, number: u64, is_queue: bool) {
        let entry = Arc::new(Numbered { uses_left: UsesLeft::new(1), number });
        let used = Use::new(self.timeline.clone(), point, CountedEnd { is_queue });
        self.waiting.hold(vec![used], &entry);
    }

    /// The numbers of what a look finds to be over.
    fn look(&self) -> Vec<u64> {
        let mut over = Vec::new();
        self.timeline.look(&self.waiting, &mut over);
        over.iter().map(|entry| entry.number).collect()
    }
}

#[test]
fn a_look_takes_the_same_time_however_many_wait_for_an_idle_queue() {
    let scene = Scene::new();
    let count = if cfg!(miri) { 50 } else { 2000 };
    for number in 0..count {
        scene.hold(number + 1, number, true);
        assert_eq!(scene.look(), []);
    }
    let looks = LOOKS.get();
    assert!(looks < 8 * count as usize, "{looks} looks at {count} ends");
}

// Requirement: SAF-13
#[test]
fn what_waits_for_events_and_for_an_idle_queue_is_over_in_one_order() {
    let scene = Scene::new();
    for (number, point) in [3, 1, 2, 2, 5, 4].into_iter().enumerate() {
        scene.hold(point, number as u64, number % 2 == 0);
    }
    let oldest = |limit| scene.timeline.oldest(limit).map(|(point, end)| (point, end.is_queue));
    assert_eq!((oldest(0), oldest(1)), (None, Some((1, false))));
    assert_eq!(scene.timeline.newest(|entry| entry.number != 4), Some(4));
    assert_eq!(scene.timeline.newest(|entry| entry.number == 2), Some(2));
    scene.timeline.pass(3);
    assert_eq!(scene.look(), [1, 2, 3, 0]);
    assert_eq!(oldest(4), Some((4, false)));
    scene.timeline.pass(5);
    assert_eq!(scene.look(), [5, 4]);
    assert!(scene.waiting.all().is_empty(), "nothing waits on the timeline");
}
