//! A device of the model: queues that count what was submitted and what of it is complete, and
//! things that must not be released before that.

use crate::locks::{Arc, AtomicU64, Ordering};
use crate::timeline::{AskDriver, CountsUses, DriverAnswer, UsesLeft};

#[derive(Debug)]
pub(super) struct ModelQueue {
    submitted: AtomicU64,
    done: AtomicU64,
    cannot_tell: AtomicU64,
}

impl Default for ModelQueue {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self { submitted: zero(), done: zero(), cannot_tell: zero() }
    }
}

impl ModelQueue {
    pub(super) fn submit(&self) {
        self.submitted.fetch_add(1, Ordering::AcqRel);
    }

    /// The first pieces of work are complete.
    pub(super) fn complete(&self, count: u64) {
        self.done.store(count, Ordering::Release);
    }

    pub(super) fn cannot_tell(&self, cannot_tell: bool) {
        self.cannot_tell.store(u64::from(cannot_tell), Ordering::Release);
    }
}

/// What the model's driver is asked.
#[derive(Clone)]
pub(super) struct ModelEnd {
    queue: Arc<ModelQueue>,
    /// How much was submitted before the event; nothing for the whole queue.
    before: Option<u64>,
    calls_back: Option<std::sync::Arc<dyn Fn() + Send + Sync>>,
}

/// An event behind all that was submitted.
pub(super) fn end_of_event(queue: &Arc<ModelQueue>) -> ModelEnd {
    let before = queue.submitted.load(Ordering::Acquire);
    ModelEnd { queue: queue.clone(), before: Some(before), calls_back: None }
}

pub(super) fn end_of_queue(queue: &Arc<ModelQueue>) -> ModelEnd {
    ModelEnd { queue: queue.clone(), before: None, calls_back: None }
}

impl ModelEnd {
    pub(super) fn calling_back(self, call: impl Fn() + Send + Sync + 'static) -> Self {
        Self { calls_back: Some(std::sync::Arc::new(call)), ..self }
    }
}

impl AskDriver for ModelEnd {
    fn is_whole_queue(&self) -> bool {
        self.before.is_none()
    }

    fn ask(&self) -> DriverAnswer {
        if let Some(call) = &self.calls_back {
            call();
        }
        if self.queue.cannot_tell.load(Ordering::Acquire) != 0 {
            return DriverAnswer::Unknown;
        }
        let before = self.before.unwrap_or_else(|| self.queue.submitted.load(Ordering::Acquire));
        match self.queue.done.load(Ordering::Acquire) >= before {
            true => DriverAnswer::Passed,
            false => DriverAnswer::NotYet,
        }
    }
}

/// A share of something that is held back.
#[derive(Clone)]
pub(super) struct Thing(Arc<ModelThing>);

struct ModelThing {
    uses_left: UsesLeft,
    releases: AtomicU64,
    /// How much of which queue has to be complete before the release.
    needs: Vec<(Arc<ModelQueue>, u64)>,
}

pub(super) fn thing(uses: usize, needs: &[(&Arc<ModelQueue>, u64)]) -> Thing {
    let needs = needs.iter().map(|(queue, count)| ((*queue).clone(), *count)).collect();
    let (uses_left, releases) = (UsesLeft::new(uses), AtomicU64::new(0));
    Thing(Arc::new(ModelThing { uses_left, releases, needs }))
}

impl CountsUses for Thing {
    fn uses_left(&self) -> &UsesLeft {
        &self.0.uses_left
    }
}

impl Thing {
    pub(super) fn is_released(&self) -> bool {
        self.0.releases.load(Ordering::Acquire) == 1
    }
}

/// Releases a thing: once, and not before its uses have ended.
pub(super) fn release(thing: &Thing) {
    assert_eq!(thing.0.releases.fetch_add(1, Ordering::AcqRel), 0, "released twice");
    for (queue, count) in &thing.0.needs {
        assert!(queue.done.load(Ordering::Acquire) >= *count, "released while a queue uses it");
    }
}
