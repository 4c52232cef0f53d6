//! The queues of an engine: how they are opened, given work, closed, and lost with their device.
//!
//! The cost of an operation depends on the queues that are open or have work, and not on those that
//! were closed before.

use std::collections::VecDeque;

use arrow_device::driver::Raw;
use arrow_device::{Error, ErrorKind, Queue, Result};

use crate::clock::Clock;
use crate::engine::{EngineState, misuse};
use crate::fault::Call;
use crate::queue::{QueueState, Work};
use crate::report::{Mistake, Report};
use crate::site::{RawSite, SiteId};
use crate::track::{Access, What};

/// How many lanes of closed queues are looked at to find one that can be used again.
const LOOKED_AT: usize = 4;

/// The lanes of the clocks.
#[derive(Default)]
pub(crate) struct Lanes {
    /// How many lanes there are.
    count: usize,
    /// The closed queues whose lanes may be used again.
    closed: VecDeque<usize>,
}

impl EngineState {
    /// Opens a queue with this handle, or the one queue of the device once more. Returns the
    /// handle.
    pub(crate) fn open_queue(
        &mut self,
        device: usize,
        handle: usize,
        site: RawSite,
    ) -> Result<usize> {
        self.attempt(Call::OpenQueue, device)?;
        let opened = self.sites.add(site);
        if self.kind.has_one_queue()
            && let Some((handle, number)) = self.devices[device].one_queue
        {
            let queue = &mut self.queues[number];
            queue.openings += 1;
            (queue.opened, queue.closed) = (opened, None);
            self.live.insert(number);
            return Ok(handle);
        }
        let (lane, base) = self.take_lane();
        let number = self.queues.push(QueueState::new(device, lane, base, opened));
        self.queue_handles.insert(handle, number);
        self.live.insert(number);
        self.devices[device].one_queue = Some((handle, number));
        Ok(handle)
    }

    /// Returns a lane, and the last number in it. A lane whose work the host knows to be finished
    /// is used again: all work that is submitted from now on comes after that work anyway.
    fn take_lane(&mut self) -> (u32, u64) {
        for _ in 0..LOOKED_AT.min(self.lanes.closed.len()) {
            let Some(queue) = self.lanes.closed.pop_front() else { break };
            let last = self.queues[queue].last();
            if self.host.covers(last) {
                self.live.remove(&queue);
                self.queues[queue].clock = Clock::default();
                return (last.lane, last.number);
            }
            self.lanes.closed.push_back(queue);
        }
        self.lanes.count += 1;
        (u32::try_from(self.lanes.count - 1).unwrap_or(u32::MAX), 0)
    }

    pub(crate) fn close_queue(&mut self, raw: Raw<Queue>, site: RawSite) {
        let site = self.sites.add(site);
        let Ok(queue) = self.open_one(raw, "close", site) else { return };
        self.queues[queue].openings -= 1;
        if self.queues[queue].openings > 0 {
            return;
        }
        if self.kind.has_one_queue() {
            // The one queue lives as long as the device, and so does its lane.
            self.queues[queue].closed = Some(site);
            return;
        }
        let is_over = self.host.covers(self.queues[queue].last());
        let state = &mut self.queues[queue];
        state.closed = Some(site);
        if is_over {
            state.clock = Clock::default();
            self.live.remove(&queue);
            self.lanes.closed.push_front(queue);
        } else {
            self.lanes.closed.push_back(queue);
        }
    }

    /// Forgets closed queues whose work the host knows to be finished.
    pub(crate) fn forget_closed(&mut self) {
        let (queues, host) = (&self.queues, &self.host);
        self.live.retain(|queue| {
            let queue = &queues[*queue];
            queue.closed.is_none() || !host.covers(queue.last())
        });
    }

    /// Returns the queue of a handle. A handle of no open queue is reported, and is an error.
    pub(crate) fn open_one(
        &mut self,
        raw: Raw<Queue>,
        what: &'static str,
        site: SiteId,
    ) -> Result<usize> {
        let Some(queue) = self.queue_handles.get(&raw.bits()).copied() else {
            let here = self.host_action(what, site);
            self.report(Report::new(Mistake::UnknownQueue).second(here));
            return Err(misuse("this handle is no queue of the simulator"));
        };
        if let Some(closed) = self.queues[queue].closed {
            let (first, here) = (self.host_action("close", closed), self.host_action(what, site));
            let report = Report::new(Mistake::QueueClosed).first(first).second(here);
            self.report(report.note(format!("It is queue {}.", queue + 1)));
            return Err(misuse("the queue is closed"));
        }
        Ok(queue)
    }

    /// Numbers a new piece of work, and orders it behind all that the queue was given before.
    pub(crate) fn begin(&mut self, queue: usize, what: What, site: SiteId) -> Access {
        let state = &mut self.queues[queue];
        state.submitted += 1;
        let point = state.last();
        state.clock.advance(point);
        Access { point, queue, work: state.submitted, what, site }
    }

    /// Adds numbered work to a queue.
    pub(crate) fn submit(&mut self, queue: usize, work: Work) {
        self.host_sides.add(&work);
        let state = &mut self.queues[queue];
        if std::mem::take(&mut self.next_fails) {
            state.failed_from.get_or_insert(state.submitted);
        }
        state.pending.push_back(work);
        self.busy.insert(queue);
    }

    /// Orders all later work of a queue behind the first `work` pieces of work of another queue.
    /// The queue's clock covers that work already.
    pub(crate) fn submit_wait(&mut self, queue: usize, other: usize, work: u64) {
        let fails = self.queues[other].fails_by(work);
        let state = &mut self.queues[queue];
        state.submitted += 1;
        if fails {
            state.failed_from.get_or_insert(state.submitted);
        }
        let point = state.last();
        state.clock.advance(point);
        self.submit(queue, Work::Wait { queue: other, work });
    }

    // ---- work that fails when its turn comes

    /// Adds to what the host knows: a queue has done its first `work` pieces of work, and this
    /// clock covers all of them.
    pub(crate) fn told_of(&mut self, queue: usize, work: u64, clock: &Clock) -> Result<()> {
        if !self.queues[queue].fails_by(work) {
            self.host_knows(clock);
            return Ok(());
        }
        self.over.join(clock);
        Err(self.work_failed(queue))
    }

    /// Returns an error where the device is lost, or the runtime knows by now that work of the
    /// queue has failed.
    pub(crate) fn check_going(&self, queue: usize) -> Result<()> {
        let state = &self.queues[queue];
        self.check_alive(state.device).map_err(|error| error.during(Call::Submit.name()))?;
        if state.fails_by(state.done) { Err(self.work_failed(queue)) } else { Ok(()) }
    }

    fn work_failed(&self, queue: usize) -> Error {
        let id = self.devices[self.queues[queue].device].id;
        let message = "work that was submitted before was told to fail";
        Error::new(ErrorKind::WorkFailed, message).on_device(id)
    }

    // ---- lost devices

    /// Loses a device: from now on it does nothing. Work that was submitted to it is thrown away
    /// and counts as finished, because it touches no memory any more.
    ///
    /// A device whose queue waits for work that a lost device has not done is lost as well, because
    /// nothing behind the wait may run as if that work were done.
    pub(crate) fn lose(&mut self, device: usize) {
        self.has_lost = true;
        let mut lost = vec![device];
        while let Some(device) = lost.pop() {
            if std::mem::replace(&mut self.devices[device].lost, true) {
                continue;
            }
            lost.extend(self.devices_that_wait_for_lost_ones());
        }
        for number in self.live.iter().copied() {
            let queue = &mut self.queues[number];
            if self.devices[queue.device].lost {
                queue.pending.iter().for_each(|work| self.host_sides.remove(work));
                self.discarded.extend(queue.pending.drain(..));
                queue.done = queue.submitted;
                self.busy.remove(&number);
                self.host.advance(queue.last());
                self.over.advance(queue.last());
            }
        }
    }

    fn devices_that_wait_for_lost_ones(&self) -> Vec<usize> {
        let never_passes = |work: &Work| match work {
            Work::Wait { queue, work } => {
                let awaited = &self.queues[*queue];
                self.devices[awaited.device].lost && awaited.done < *work
            }
            _ => false,
        };
        let busy = self.busy.iter().map(|queue| &self.queues[*queue]);
        let waits = busy.filter(|queue| queue.pending.iter().any(never_passes));
        waits.map(|queue| queue.device).filter(|device| !self.devices[*device].lost).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Sim;

    #[test]
    fn queues_that_come_and_go_leave_the_clocks_short() {
        let sim = Sim::builder().build();
        let kept = sim.device().open_queue().unwrap();
        for _ in 0..1000 {
            let queue = sim.device().open_queue().unwrap();
            sim.kernel("work").launch(&queue, |_| {}).unwrap();
            kept.wait(&queue.record().unwrap()).unwrap();
            kept.synchronize().unwrap();
        }
        assert_eq!(sim.engine().lock().lanes.count, 2);
    }

    #[test]
    fn queues_that_come_and_go_are_looked_at_no_more() {
        let sim = Sim::builder().build();
        for _ in 0..1000 {
            let queue = sim.device().open_queue().unwrap();
            sim.kernel("work").launch(&queue, |_| {}).unwrap();
            queue.synchronize().unwrap();
        }
        let state = sim.engine().lock();
        assert_eq!((state.lanes.count, state.lanes.closed.len()), (1, 1));
        assert_eq!((state.live.len(), state.busy.len()), (0, 0));
    }
}
