//! The interleavings that matter, as a few threads each. The numbers are those of the list at the
//! head of `timeline.rs`.

mod device;
mod rules;

use crate::locks::{Arc, Mutex, lock};
use crate::threads::{JoinHandle, spawn};
use crate::timeline::{
    AskDriver, LastUses, ListedTimelines, Timeline, TimelineKinds, Use, WaitingTimelines,
};
use device::{ModelEnd, ModelQueue, Thing, end_of_event, end_of_queue, release, thing};

/// One scenario with all rules, or with one taken away.
pub(crate) type Scenario = fn();

/// A scenario, and the rules that it cannot do without: the scenario with one of them taken away.
struct Case {
    name: &'static str,
    sound: Scenario,
    without: &'static [(&'static str, Scenario)],
}

macro_rules! cases {
    ($($name:literal: $scenario:ident {$($(#[$condition:meta])? $rule:literal: $kinds:ident,)*})*) => {
        const CASES: &[Case] = &[$(Case {
            name: $name,
            sound: $scenario::<rules::All>,
            without: &[$($(#[$condition])? ($rule, $scenario::<rules::$kinds>)),*],
        }),*];
    };
}

cases! {
    "two uses of one queue end at once (1)": two_uses_of_one_queue_end_at_once {
        "a point is taken before its event is recorded": RecordsFirst,
        "the highest point is kept": LastNotedIsKept,
    }
    "a queue is found idle while another thread submits (2)":
    a_queue_is_found_idle_while_another_thread_submits {
        "points are read before the queue is asked": IdleFirst,
    }
    "uses end while waiters are being added (3)": uses_end_while_waiters_are_being_added {
        "uses are counted first": CountsOneByOne,
    }
    "two threads look at one timeline (4)": two_threads_look_at_one_timeline {
        "waiters stay while a driver is asked": TakesWaitersOff,
    }
    "a driver that is asked calls back (5)": a_driver_that_is_asked_calls_back {
        // A thread that waits for itself under a lock cannot be unwound by loom.
        #[cfg(not(loom))]
        "no driver is asked under a lock": AsksUnderLock,
    }
    "a timeline leaves the list while a waiter is added (6)":
    a_timeline_leaves_while_a_waiter_is_added {
        "a timeline looks before it leaves": LeavesBlindly,
    }
    "a driver cannot tell (7)": a_driver_cannot_tell {
        "an unknown answer has not passed": UnknownPasses,
    }
}

/// Runs all: each scenario survives with all rules, and does not without one of its own.
pub(crate) fn run_all(survives: impl Fn(Scenario) -> bool) {
    for Case { name, sound, without } in CASES {
        assert!(survives(*sound), "{name}");
        for (rule, scenario) in *without {
            assert!(!survives(*scenario), "{name}: nobody misses the rule that {rule}");
        }
    }
}

/// Timelines of the model, with all rules or without one.
trait ModelKinds: TimelineKinds<End = ModelEnd, Entry = Thing, About = ()> {}

impl<K: TimelineKinds<End = ModelEnd, Entry = Thing, About = ()>> ModelKinds for K {}

/// A queue of the model, with the library's view of it.
struct Lane<K: TimelineKinds> {
    queue: Arc<ModelQueue>,
    timeline: Arc<Timeline<K>>,
}

impl<K: TimelineKinds> Clone for Lane<K> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), timeline: self.timeline.clone() }
    }
}

impl<K: ModelKinds> Lane<K> {
    fn new(number: u64) -> Self {
        let queue = Arc::new(ModelQueue::default());
        Self { queue, timeline: Arc::new(Timeline::new(number, ())) }
    }

    /// Everything submitted so far, by an event.
    fn record(&self) -> Use<K> {
        let (point, end) = self.timeline.record(|| end_of_event(&self.queue));
        Use::new(self.timeline.clone(), point, end)
    }

    /// Everything submitted so far, by the whole queue.
    fn until_idle(&self) -> Use<K> {
        let point = self.timeline.take_point();
        Use::new(self.timeline.clone(), point, end_of_queue(&self.queue))
    }
}

fn nothing_waits<K: TimelineKinds>() -> Arc<WaitingTimelines<K>> {
    Arc::new(WaitingTimelines(Mutex::new(ListedTimelines::new())))
}

/// Looks at all timelines once, and releases what is over.
fn sweep<K: TimelineKinds<Entry = Thing>>(waiting: &WaitingTimelines<K>) {
    for timeline in waiting.all() {
        let mut over = Vec::new();
        timeline.look(waiting, &mut over);
        over.iter().for_each(release);
    }
}

fn two_uses_of_one_queue_end_at_once<K: ModelKinds>() {
    let lane = Lane::<K>::new(1);
    let uses = Arc::new(Mutex::new(LastUses::<K>::default()));
    let end_a_use = {
        let (lane, uses) = (lane.clone(), uses.clone());
        move || {
            lane.queue.submit();
            let used = lane.record();
            let not_needed = lock(&uses).note(used);
            drop(not_needed);
        }
    };
    let other = spawn(end_a_use.clone());
    end_a_use();
    other.join().unwrap();
    let waiting = nothing_waits();
    let kept = thing(1, &[(&lane.queue, 2)]);
    let uses = std::mem::take(&mut *lock(&uses)).into_uses();
    assert_eq!(uses.len(), 1);
    waiting.hold(uses, &kept);
    lane.queue.complete(1);
    sweep(&waiting);
    lane.queue.complete(2);
    sweep(&waiting);
    assert!(kept.is_released());
}

fn a_queue_is_found_idle_while_another_thread_submits<K: ModelKinds>() {
    let lane = Lane::<K>::new(1);
    let waiting = nothing_waits();
    lane.queue.submit();
    lane.queue.complete(1);
    let first = thing(1, &[(&lane.queue, 1)]);
    waiting.hold(vec![lane.until_idle()], &first);
    let second = thing(1, &[(&lane.queue, 2)]);
    let submitting = {
        let (lane, waiting, second) = (lane.clone(), waiting.clone(), second.clone());
        spawn(move || {
            lane.queue.submit();
            waiting.hold(vec![lane.until_idle()], &second);
        })
    };
    sweep(&waiting);
    submitting.join().unwrap();
    lane.queue.complete(2);
    sweep(&waiting);
    assert!(first.is_released() && second.is_released());
}

fn uses_end_while_waiters_are_being_added<K: ModelKinds>() {
    let (one, two) = (Lane::<K>::new(1), Lane::<K>::new(2));
    let waiting = nothing_waits();
    one.queue.submit();
    two.queue.submit();
    one.queue.complete(1);
    let uses = vec![one.record(), two.record()];
    let counted = if K::USES_ARE_COUNTED_FIRST { uses.len() } else { 0 };
    let kept = thing(counted, &[(&one.queue, 1), (&two.queue, 1)]);
    let looking = {
        let waiting = waiting.clone();
        spawn(move || sweep(&waiting))
    };
    waiting.hold(uses, &kept);
    looking.join().unwrap();
    two.queue.complete(1);
    sweep(&waiting);
    assert!(kept.is_released());
}

fn two_threads_look_at_one_timeline<K: ModelKinds>() {
    let lane = Lane::<K>::new(1);
    let waiting = nothing_waits();
    lane.queue.submit();
    let kept = thing(1, &[(&lane.queue, 1)]);
    waiting.hold(vec![lane.record()], &kept);
    let looking = {
        let waiting = waiting.clone();
        spawn(move || sweep(&waiting))
    };
    lane.queue.complete(1);
    // What has passed before this look is released by it, or is in the other thread's hands.
    sweep(&waiting);
    looking.join().unwrap();
    assert!(kept.is_released(), "overlooked");
}

fn a_driver_that_is_asked_calls_back<K: ModelKinds>() {
    let lane = Lane::<K>::new(1);
    let waiting = nothing_waits();
    lane.queue.submit();
    let kept = thing(1, &[(&lane.queue, 1)]);
    let (timeline, inner) = (lane.timeline.clone(), waiting.clone());
    let (point, end) = lane.timeline.record(|| end_of_event(&lane.queue));
    let end = end.calling_back(move || {
        drop(timeline.oldest(u64::MAX));
        drop(inner.in_turn(2));
    });
    waiting.hold(vec![Use::new(lane.timeline.clone(), point, end)], &kept);
    let looking = spawn_where_schedules_are_random(&waiting);
    lane.queue.complete(1);
    sweep(&waiting);
    looking.into_iter().for_each(|looking| looking.join().unwrap());
    sweep(&waiting);
    assert!(kept.is_released());
}

/// Another thread that looks. Random schedules want one; where all schedules are explored, the
/// harm needs no other thread, and without one there are few schedules.
fn spawn_where_schedules_are_random<K: ModelKinds>(
    waiting: &Arc<WaitingTimelines<K>>,
) -> Option<JoinHandle<()>> {
    let waiting = waiting.clone();
    cfg!(not(loom)).then(|| spawn(move || sweep(&waiting)))
}

fn a_timeline_leaves_while_a_waiter_is_added<K: ModelKinds>() {
    let lane = Lane::<K>::new(1);
    let waiting = nothing_waits();
    lane.queue.submit();
    let first = thing(1, &[(&lane.queue, 1)]);
    waiting.hold(vec![lane.record()], &first);
    lane.queue.complete(1);
    let looking = {
        let waiting = waiting.clone();
        spawn(move || sweep(&waiting))
    };
    lane.queue.submit();
    let second = thing(1, &[(&lane.queue, 2)]);
    waiting.hold(vec![lane.record()], &second);
    looking.join().unwrap();
    lane.queue.complete(2);
    sweep(&waiting);
    assert!(first.is_released() && second.is_released());
    assert!(waiting.all().is_empty(), "nothing waits, and the timeline is still in the list");
}

fn a_driver_cannot_tell<K: ModelKinds>() {
    let lane = Lane::<K>::new(1);
    let waiting = nothing_waits();
    lane.queue.submit();
    let kept = thing(1, &[(&lane.queue, 1)]);
    let used = lane.record();
    lane.queue.cannot_tell(true);
    waiting.hold(vec![used], &kept);
    let looking = spawn_where_schedules_are_random(&waiting);
    sweep(&waiting);
    looking.into_iter().for_each(|looking| looking.join().unwrap());
    assert!(!kept.is_released());
    lane.queue.cannot_tell(false);
    lane.queue.complete(1);
    sweep(&waiting);
    assert!(kept.is_released());
    assert!(!end_of_event(&lane.queue).is_whole_queue());
}
