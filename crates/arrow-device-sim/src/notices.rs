//! Announces events: the device calls back when an event has passed.
//!
//! A device that announces makes progress by itself where somebody is to be told: a thread runs the
//! work that is awaited, and calls the notices. Where the host may not wait, as on the page of a
//! browser, there is no such thread, and [`Sim::run_until_idle`](crate::Sim) calls the notices.

use std::sync::Arc;
use std::time::Duration;

use arrow_device::driver::{EventNotice, Raw};
use arrow_device::{Event, Result};

use crate::engine::{Engine, EngineState};

/// How long the thread stays when there is nothing to announce any more.
const LINGER: Duration = Duration::from_millis(20);

/// A notice to call once a queue has done a number of pieces of work.
pub(crate) struct Expected {
    queue: usize,
    work: u64,
    notice: EventNotice,
}

impl Engine {
    /// Takes a notice, and returns whether it was taken.
    pub(crate) fn notify(self: &Arc<Self>, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        let site = self.site();
        let mut state = self.lock();
        let known = state.point_of(event, site);
        let Some((queue, work)) = known? else { return Ok(false) };
        if state.queues[queue].done >= work {
            self.unlock(state);
            notice.call();
            return Ok(true);
        }
        state.expected.push(Expected { queue, work, notice });
        let needs_thread = state.may_wait && !std::mem::replace(&mut state.has_announcer, true);
        self.unlock(state);
        self.expects.notify_all();
        if needs_thread {
            let engine = self.clone();
            let thread = std::thread::Builder::new().name("software-device-events".into());
            if thread.spawn(move || engine.announce()).is_err() {
                // The notices are dropped after the lock is released. The library then asks by
                // itself.
                let dropped = self.with(|state| {
                    state.has_announcer = false;
                    std::mem::take(&mut state.expected)
                });
                drop(dropped);
            }
        }
        Ok(true)
    }

    /// Calls the notices that are due. Not called inside an operation of the driver, because the
    /// one that is woken may call such an operation.
    pub(crate) fn call_notices(&self) {
        let due = self.with(EngineState::take_due);
        due.into_iter().for_each(|expected| expected.notice.call());
    }

    /// Runs the work that somebody is to be told of, and calls the notices.
    fn announce(&self) {
        loop {
            let mut state = self.lock();
            if state.expected.is_empty() {
                let waited = self.expects.wait_timeout(state, LINGER);
                state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
                if state.expected.is_empty() {
                    state.has_announcer = false;
                    return;
                }
            }
            // One after the other, so that long work does not delay notices that are due before it.
            let first =
                state.expected.iter().map(|one| (one.queue, one.work)).min_by_key(|one| one.1);
            let goals: Vec<(usize, u64)> = first.into_iter().collect();
            let (state, _) = self.run(state, &goals, None);
            self.unlock(state);
            self.call_notices();
        }
    }
}

impl EngineState {
    fn take_due(&mut self) -> Vec<Expected> {
        let queues = &self.queues;
        let is_due = |one: &mut Expected| queues[one.queue].done >= one.work;
        self.expected.extract_if(.., is_due).collect()
    }
}
