//! Events: how they are made, recorded behind the work of a queue, waited for and destroyed.
//!
//! A wait notes the queue and the work that the event stands for at that moment. Later changes of
//! the event do not affect the wait.

use std::ptr::NonNull;
use std::time::Duration;

use arrow_device::driver::{Raw, Waiting, may_not_wait};
use arrow_device::{Error, ErrorKind, Event, Queue, Result};

use crate::clock::Clock;
use crate::engine::{Engine, EngineState, misuse};
use crate::event_table::{self, EventTable};
use crate::events::Recorded;
use crate::fault::Call;
use crate::report::{Mistake, Report};
use crate::run::Outcome;
use crate::site::{RawSite, SiteId};

impl EngineState {
    pub(crate) fn make_event(&mut self, device: usize, site: RawSite) -> Result<Raw<Event>> {
        let site = self.sites.add(site);
        self.attempt(Call::MakeEvent, device)?;
        Ok(self.events.make(device, site))
    }

    pub(crate) fn destroy_event(&mut self, event: Raw<Event>, site: RawSite) {
        let site = self.sites.add(site);
        if event.is_null() || self.usable(event, "destroy an event", site).is_err() {
            return;
        }
        let Some(number) = self.events.by_table.get(&event.bits()).copied() else { return };
        if let Some(slot) = self.events.slot(event) {
            slot.destroyed = Some(site);
            slot.recorded = None;
            // SAFETY: a table of ours. Whoever waits for the event was ordered behind its work
            // already.
            unsafe { EventTable::end(slot.table) };
            self.events.retired.push_back(number);
        }
    }

    pub(crate) fn record(
        &mut self,
        queue: Raw<Queue>,
        event: Raw<Event>,
        site: RawSite,
    ) -> Result<()> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "record", site)?;
        self.usable(event, "record", site)?;
        self.attempt(Call::Record, self.queues[queue].device)?;
        let state = &self.queues[queue];
        let recorded = Recorded { queue, work: state.submitted, clock: state.clock.clone(), site };
        let Some(slot) = self.events.slot(event) else { return Ok(()) };
        slot.device = state.device;
        let number = slot.number;
        let before = slot.recorded.replace(recorded);
        if let Some(before) = before.filter(|_| !self.loose_events) {
            let first = self.host_action("record", before.site);
            let here = self.host_action("record", site);
            let report = Report::new(Mistake::EventRecordedTwice).first(first).second(here);
            self.report(report.note(format!("It is event {number}.")));
        }
        Ok(())
    }

    /// Makes a queue wait for an event. The host has to wait instead for an event of another
    /// library.
    fn wait(&mut self, queue: Raw<Queue>, event: Raw<Event>, site: RawSite) -> Result<Waiting> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "wait", site)?;
        let device = self.queues[queue].device;
        self.attempt(Call::Wait, device)?;
        if self.events.is_foreign(event) {
            return Ok(Waiting::HostMustWait);
        }
        self.usable(event, "wait", site)?;
        let Some(Recorded { queue: other, work, clock, .. }) =
            self.recorded(event, "wait", site)?
        else {
            return Ok(Waiting::Queued);
        };
        // An event of the same queue, or one that the queue has waited for already, is in order
        // without a wait.
        if other != queue && self.queues[queue].clock.join(&clock) {
            self.submit_wait(queue, other, work);
        }
        Ok(Waiting::Queued)
    }

    /// Returns what an event stands for. An event that was not recorded is reported, and the result
    /// is `None`.
    fn recorded(
        &mut self,
        event: Raw<Event>,
        what: &'static str,
        site: SiteId,
    ) -> Result<Option<Recorded>> {
        let Some(slot) = self.events.slot(event) else { return Ok(None) };
        let (device, number, recorded) = (slot.device, slot.number, slot.recorded.clone());
        self.check_alive(device)?;
        if recorded.is_none() && !self.loose_events {
            let here = self.host_action(what, site);
            let report = Report::new(Mistake::EventNotRecorded).second(here);
            self.report(report.note(format!("It is event {number}.")));
        }
        Ok(recorded)
    }

    /// Whether an event has passed. If so, the host knows that its work is finished.
    fn is_complete(&mut self, event: Raw<Event>, site: RawSite) -> Result<bool> {
        let site = self.sites.add(site);
        self.usable(event, "ask an event", site)?;
        let Some(recorded) = self.recorded(event, "ask an event", site)? else { return Ok(true) };
        if self.queues[recorded.queue].done < recorded.work {
            return Ok(false);
        }
        self.told_of(recorded.queue, recorded.work, &recorded.clock)?;
        Ok(true)
    }

    /// Returns the queue of an event and the work that it stands for. `None` for an event of
    /// another library, and for one that was not recorded.
    pub(crate) fn point_of(
        &mut self,
        event: Raw<Event>,
        site: RawSite,
    ) -> Result<Option<(usize, u64)>> {
        if self.events.is_foreign(event) {
            return Ok(None);
        }
        let site = self.sites.add(site);
        self.usable(event, "announce an event", site)?;
        let recorded = self.recorded(event, "announce an event", site)?;
        Ok(recorded.map(|recorded| (recorded.queue, recorded.work)))
    }

    /// Reports a handle that is not an event of this simulator, or not any more.
    fn usable(&mut self, event: Raw<Event>, what: &'static str, site: SiteId) -> Result<()> {
        let Some(slot) = self.events.slot(event) else {
            let here = self.host_action(what, site);
            self.report(Report::new(Mistake::UnknownEvent).second(here));
            return Err(misuse("this handle is no event of the simulator"));
        };
        let (number, destroyed) = (slot.number, slot.destroyed);
        if let Some(destroyed) = destroyed {
            let here = self.host_action(what, site);
            let first = self.host_action("destroy an event", destroyed);
            let report = Report::new(Mistake::EventDestroyed).first(first).second(here);
            self.report(report.note(format!("It is event {number}.")));
            return Err(misuse("the event was destroyed"));
        }
        Ok(())
    }
}

impl Engine {
    /// Takes over an event that an array shows.
    ///
    /// # Safety
    /// UNS-5, as [`Driver::read_sync_event`](arrow_device::driver::Driver::read_sync_event) has it.
    pub(crate) unsafe fn adopt(&self, sync_event: NonNull<std::ffi::c_void>) -> Result<Raw<Event>> {
        let event = Raw::from_ptr(sync_event.as_ptr());
        let site = self.site();
        let mut state = self.lock();
        if state.events.slot(event).is_some() {
            let site = state.sites.add(site);
            state.usable(event, "read `sync_event`", site)?;
            return Ok(event);
        }
        drop(state);
        // SAFETY: UNS-5, which the caller promises.
        unsafe { event_table::check(sync_event) }?;
        self.lock().events.foreign.insert(event.bits());
        Ok(event)
    }

    pub(crate) fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        let site = self.site();
        self.submit(|state| state.wait(queue, event, site))
    }

    pub(crate) fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        let site = self.site();
        if self.lock().events.is_foreign(event) {
            // SAFETY: `adopt` checked it, and the caller of the driver keeps the array alive.
            return unsafe { event_table::query_foreign(event) };
        }
        self.with(|state| state.is_complete(event, site))
    }

    pub(crate) fn wait_on_host(&self, event: Raw<Event>, limit: Option<Duration>) -> Result<bool> {
        let site = self.site();
        let mut state = self.lock();
        if state.events.is_foreign(event) {
            drop(state);
            // SAFETY: `adopt` checked it, and the caller of the driver keeps the array alive.
            return unsafe { event_table::wait_for_foreign(event, limit) };
        }
        let site = state.sites.add(site);
        state.usable(event, "wait on the host", site)?;
        let device = state.events.slot(event).map_or(0, |slot| slot.device);
        if let Err(error) = state.attempt(Call::HostWait, device) {
            self.unlock(state);
            return Err(error);
        }
        let Some(recorded) = state.recorded(event, "wait on the host", site)? else {
            return Ok(true);
        };
        if let Err(error) = state.require_wait(device, recorded.queue, recorded.work) {
            self.unlock(state);
            return Err(error.during("wait_on_host"));
        }
        let (mut state, outcome) = self.run(state, &[(recorded.queue, recorded.work)], limit);
        let alive = state.check_alive(device);
        let told = match outcome {
            Outcome::Reached if alive.is_ok() => {
                state.told_of(recorded.queue, recorded.work, &recorded.clock)
            }
            _ => alive,
        };
        self.unlock(state);
        told?;
        outcome.into_result()
    }

    pub(crate) fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        let site = self.site();
        let mut state = self.lock();
        let site = state.sites.add(site);
        let queue = state.open_one(queue, "synchronize", site)?;
        let device = state.queues[queue].device;
        if let Err(error) = state.attempt(Call::HostWait, device) {
            self.unlock(state);
            return Err(error);
        }
        let (work, clock) = (state.queues[queue].submitted, state.queues[queue].clock.clone());
        if let Err(error) = state.require_wait(device, queue, work) {
            self.unlock(state);
            return Err(error.during("synchronize"));
        }
        let (mut state, outcome) = self.run(state, &[(queue, work)], None);
        let alive = state.check_alive(device);
        let told = match outcome {
            Outcome::Reached if alive.is_ok() => state.told_of(queue, work, &clock),
            _ => alive,
        };
        self.unlock(state);
        told?;
        outcome.into_result().map(|_| ())
    }

    pub(crate) fn synchronize_device(&self, device: usize) -> Result<()> {
        let mut state = self.lock();
        state.check_alive(device)?;
        state.forget_closed();
        let (mut goals, mut clock) = (Vec::new(), Clock::default());
        for number in &state.live {
            let queue = &state.queues[*number];
            if queue.device == device {
                goals.push((*number, queue.submitted));
                clock.join(&queue.clock);
            }
        }
        let (mut state, outcome) = self.run(state, &goals, None);
        let alive = state.check_alive(device);
        if outcome == Outcome::Reached && alive.is_ok() {
            state.host_knows(&clock);
        }
        self.unlock(state);
        alive?;
        outcome.into_result().map(|_| ())
    }

    pub(crate) fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        let site = self.site();
        self.with(|state| {
            let site = state.sites.add(site);
            let queue = state.open_one(queue, "ask a queue", site)?;
            state.check_alive(state.queues[queue].device)?;
            let idle = state.queues[queue].is_idle();
            if idle {
                let (work, clock) = (state.queues[queue].done, state.queues[queue].clock.clone());
                state.told_of(queue, work, &clock)?;
            }
            Ok(idle)
        })
    }

    pub(crate) fn has_queue(&self, queue: Raw<Queue>) -> bool {
        self.lock().queue_handles.contains_key(&queue.bits())
    }
}

impl EngineState {
    /// Returns an error where the host would have to wait for this work, and may not wait.
    fn require_wait(&self, device: usize, queue: usize, work: u64) -> Result<()> {
        if self.may_wait || self.queues[queue].done >= work {
            return Ok(());
        }
        Err(may_not_wait(self.devices[device].id))
    }
}

impl Outcome {
    fn into_result(self) -> Result<bool> {
        match self {
            Self::Reached => Ok(true),
            Self::OutOfTime => Ok(false),
            Self::InsideKernel => Err(Error::new(
                ErrorKind::InvalidArgument,
                "a kernel waits for the device that runs it; order the queues instead",
            )),
        }
    }
}
