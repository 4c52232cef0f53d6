//! Timelines of queues and events, and what drivers are asked about a use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::release::HeldThing;
use super::timeline;
use super::timeline::{
    AskDriver, CountsUses, DriverAnswer, LastUses, Timeline, TimelineKinds, UsesLeft,
};
use crate::device::driver::Runtime;
use crate::device::host;
use crate::device::queue::PreparedEvent;
use crate::once::OnceBox;
use crate::process::{MadeIn, PerProcess};
use crate::sync::lock;
use crate::{Device, ErrorKind, Event, Queue, Result};

/// The timelines of the library, whose ends are events and queues of drivers.
pub(crate) struct OfDrivers;

impl TimelineKinds for OfDrivers {
    type End = UseEnd;
    type Entry = Arc<dyn HeldThing>;
    type About = TimelineOwner;
}

pub(crate) type QueueTimeline = Timeline<OfDrivers>;
pub(crate) type QueueUse = timeline::Use<OfDrivers>;
pub(crate) type LastQueueUses = LastUses<OfDrivers>;

/// What is known of a timeline's queue, which may be closed by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimelineOwner {
    pub(super) runtime: Runtime,
    /// The process in which the queue was opened. `None` for the host's queue, which every process
    /// has.
    made_in: Option<MadeIn>,
}

/// Whom a driver is asked about to learn whether a queue has passed a point.
#[derive(Clone)]
pub(crate) enum UseEnd {
    Event(Event),
    /// No event could be recorded, so the driver is asked whether the whole queue is idle.
    WholeQueue(Queue),
}

/// How many uses ended because their work failed or their device is lost.
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// The value of [`FAILURES`] after the latest failed use of each runtime.
static LATEST_FAILURES: PerProcess<Mutex<Option<HashMap<Runtime, u64>>>> =
    PerProcess::new(Mutex::new(None));

/// How many uses have ended by a failure so far.
pub(crate) fn failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}

/// Whether a use of this runtime has ended by a failure since the count was `failures`. A failure
/// is recorded before anything is released that was kept for the failed use.
pub(crate) fn has_failed_since(failures: u64, runtime: Runtime) -> bool {
    if self::failures() == failures {
        return false;
    }
    let latest = lock(LATEST_FAILURES.get()).as_ref().and_then(|all| all.get(&runtime).copied());
    latest.is_some_and(|latest| latest > failures)
}

#[cold]
fn note_failure(runtime: Runtime) {
    let latest = FAILURES.fetch_add(1, Ordering::Relaxed) + 1;
    let mut all = lock(LATEST_FAILURES.get());
    let known = all.get_or_insert_default().entry(runtime).or_default();
    *known = latest.max(*known);
}

/// What stands for an event on a timeline.
pub(crate) enum EventPoint {
    /// The event was recorded on a queue of the library, for this point of the queue's timeline.
    OnQueue(Arc<QueueTimeline>, u64),
    /// The event was not recorded by the library. It is the only point of a timeline of its own,
    /// which is made when it is needed.
    Alone(OnceBox<Arc<QueueTimeline>>),
}

/// The timeline of a queue of this device. No other timeline of this process has its number.
pub(crate) fn timeline_on(device: &Device) -> Arc<QueueTimeline> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let runtime = device.driver().runtime();
    // The process of the device: in a child of `fork`, a queue of the parent does not exist.
    let made_in = (!host::is_host(device)).then(|| device.made_in());
    let owner = TimelineOwner { runtime, made_in };
    Arc::new(Timeline::new(number, owner))
}

impl EventPoint {
    pub(crate) const fn alone() -> Self {
        Self::Alone(OnceBox::new())
    }

    /// Notes that the event has passed.
    pub(crate) fn pass(&self) {
        match self {
            Self::OnQueue(timeline, point) => timeline.pass(*point),
            Self::Alone(own) => {
                if let Some(timeline) = own.get() {
                    timeline.pass(1);
                }
            }
        }
    }

    fn of(event: &Event) -> (Arc<QueueTimeline>, u64) {
        match event.point() {
            Self::OnQueue(timeline, point) => (timeline.clone(), *point),
            Self::Alone(own) => {
                let make = || {
                    let timeline = timeline_on(event.device());
                    timeline.take_point();
                    timeline
                };
                (own.get_or_make(make).clone(), 1)
            }
        }
    }
}

impl QueueUse {
    /// The use by all work that was submitted to the queue so far. The event for its end is
    /// recorded now.
    pub(crate) fn until_now(queue: &Queue) -> Self {
        match queue.record() {
            Ok(event) => Self::before(event),
            Err(_) => Self::until_idle(queue),
        }
    }

    /// The use by all work that was submitted so far, whose event was made before the work was
    /// submitted.
    pub(crate) fn until_recorded(end: PreparedEvent) -> Self {
        match end.record() {
            Ok(event) => Self::before(event),
            Err((_, queue)) => Self::until_idle(&queue),
        }
    }

    /// The use by the work that an event stands for, on any queue.
    pub(crate) fn before(event: Event) -> Self {
        let (timeline, point) = EventPoint::of(&event);
        Self::new(timeline, point, UseEnd::Event(event))
    }

    fn until_idle(queue: &Queue) -> Self {
        let timeline = queue.timeline().clone();
        let point = timeline.take_point();
        Self::new(timeline, point, UseEnd::WholeQueue(queue.clone()))
    }

    /// Whether the queue was opened in this process, and not in a parent of this process.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.timeline().about().made_in.is_none_or(MadeIn::is_this)
    }
}

/// Whether an error of this kind says that the work that was asked about is over.
fn is_over(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DeviceLost | ErrorKind::WorkFailed)
}

impl UseEnd {
    fn answer(&self, answer: Result<bool>) -> DriverAnswer {
        match answer {
            Ok(true) => DriverAnswer::Passed,
            Ok(false) => DriverAnswer::NotYet,
            // DRV-21: a lost device touches no memory of this process any more. DRV-27: nothing of
            // failed work runs any more, nor of the work before it.
            Err(error) if is_over(error.kind()) => {
                note_failure(match self {
                    Self::Event(event) => event.runtime(),
                    Self::WholeQueue(queue) => queue.driver().runtime(),
                });
                DriverAnswer::Passed
            }
            Err(_) => DriverAnswer::Unknown,
        }
    }
}

impl AskDriver for UseEnd {
    fn is_whole_queue(&self) -> bool {
        matches!(self, Self::WholeQueue(_))
    }

    fn ask(&self) -> DriverAnswer {
        self.answer(match self {
            Self::Event(event) => event.is_complete(),
            Self::WholeQueue(queue) => queue.is_idle(),
        })
    }
}

impl CountsUses for Arc<dyn HeldThing> {
    fn uses_left(&self) -> &UsesLeft {
        (**self).uses_left()
    }
}
