//! `VkEvent`s, whoever made them.
//!
//! An event that this crate made stands for a point of a lane's timeline. The host and other lanes
//! wait for that point; the `VkEvent` itself is for other libraries. Of another library's event
//! only the handle is known, so the host asks for its status again and again, or the device's only
//! queue waits by a command. What must stay true: an event that this crate made is destroyed only
//! after the commands that set it were executed.

use std::time::Duration;

use arrow_device::driver::{Waiting, ask_until};
use arrow_device::{ErrorKind, Result};
use ash::vk::{self, Handle};

use crate::lane::{ALL_COMMANDS, Lane, Work, everything};
use crate::logical::{Logical, lock};
use crate::outstanding::DoomedEvent;

impl Logical {
    pub(crate) fn make_event(&self) -> Result<vk::Event> {
        let info = vk::EventCreateInfo::default();
        // SAFETY: the device is alive as long as this.
        let event = self.check(unsafe { self.vk.create_event(&info, None) }, "make an event")?;
        lock(&self.events).insert(event.as_raw(), None);
        Ok(event)
    }

    /// # Safety
    /// The event was made here, and nobody uses it any more.
    pub(crate) unsafe fn destroy_event(&self, event: vk::Event) {
        let known = lock(&self.events).remove(&event.as_raw());
        match known {
            // "All submitted commands that refer to event must have completed execution".
            Some(Some(point)) => {
                lock(&self.doomed).push(DoomedEvent { event, point });
                self.destroy_doomed();
            }
            // SAFETY: the event was made here, and nobody uses it any more, as the caller promises;
            // nothing was submitted with it.
            Some(None) => unsafe { self.vk.destroy_event(event, None) },
            None => {}
        }
    }

    /// Destroys events that are not in use any more and have passed by now.
    pub(crate) fn destroy_doomed(&self) {
        let mut doomed = lock(&self.doomed);
        if doomed.is_empty() {
            return;
        }
        let passed: Vec<u64> =
            self.lanes.iter().map(|lane| lane.passed(&self.vk).unwrap_or(0)).collect();
        let is_over = |doomed: &mut DoomedEvent| {
            passed.get(doomed.point.lane).is_some_and(|passed| *passed >= doomed.point.value)
        };
        for over in doomed.extract_if(.., is_over) {
            // SAFETY: the commands that set it have been executed, and nobody has it.
            unsafe { self.vk.destroy_event(over.event, None) };
        }
    }

    /// Submits a command that sets the event behind all earlier work of the lane.
    ///
    /// # Safety
    /// The event was made here and is not recorded yet.
    pub(crate) unsafe fn record(&self, lane: &Lane, event: vk::Event) -> Result<()> {
        let set = |commands| {
            // SAFETY: the commands are being recorded; the event is alive until they have been
            // executed, by `destroy_event`.
            unsafe { self.vk.cmd_set_event(commands, event, ALL_COMMANDS) };
        };
        let work = Work { record: Some(&set), ..Work::default() };
        // SAFETY: the event was made here, as the caller promises, and lives until the commands
        // that set it have been executed: `destroy_event` keeps it until then.
        let point = unsafe { self.submit(lane, work, &mut None) }?;
        lock(&self.events).insert(event.as_raw(), Some(point));
        Ok(())
    }

    /// # Safety
    /// The event is alive and stays so until the lane has passed it.
    pub(crate) unsafe fn wait_on(&self, lane: &Lane, event: vk::Event) -> Result<Waiting> {
        let known = lock(&self.events).get(&event.as_raw()).copied();
        match known {
            Some(None) => {
                Err(self.error(ErrorKind::InvalidArgument, "the event is not recorded yet"))
            }
            // The commands that set the event end with a barrier, so everything later on the same
            // queue comes behind it.
            Some(Some(point)) if point.lane == lane.index => Ok(Waiting::Queued),
            Some(Some(point)) => {
                let Some(other) = self.lanes.get(point.lane) else {
                    return Ok(Waiting::HostMustWait);
                };
                let work = Work { behind: Some((other, point.value)), ..Work::default() };
                // SAFETY: nothing but a wait for what was submitted before.
                unsafe { self.submit(lane, work, &mut None) }?;
                Ok(Waiting::Queued)
            }
            // "An event must not be used to define a dependency between commands submitted to
            // different queues", and the C struct does not say which queue sets the event: one of
            // those that were given, or another one of the device's.
            None if !self.has_one_queue() => Ok(Waiting::HostMustWait),
            // SAFETY: the event is alive and stays so until the lane has passed it, as the caller
            // promises.
            None if unsafe { self.is_set(event) }? => Ok(Waiting::Queued),
            None => {
                let wait = |commands| {
                    let (from, to) = (ALL_COMMANDS, ALL_COMMANDS | vk::PipelineStageFlags::HOST);
                    let (events, memory) = ([event], [everything()]);
                    // SAFETY: the commands are being recorded. The event was set from all commands,
                    // says the convention, and the stages to wait for have to be those
                    // ("srcStageMask must be the bitwise OR of the stageMask parameter used in
                    // previous calls to vkCmdSetEvent").
                    unsafe {
                        self.vk.cmd_wait_events(commands, &events, from, to, &memory, &[], &[]);
                    }
                };
                let work = Work { record: Some(&wait), ..Work::default() };
                // SAFETY: the event stays until the lane has passed it, as the caller promises.
                unsafe { self.submit(lane, work, &mut None) }?;
                Ok(Waiting::Queued)
            }
        }
    }

    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn is_complete(&self, event: vk::Event) -> Result<bool> {
        let known = lock(&self.events).get(&event.as_raw()).copied();
        match known {
            Some(Some(point)) => self.has_passed(point),
            Some(None) => Ok(false),
            // SAFETY: the event is alive, as the caller promises.
            None => unsafe { self.is_set(event) },
        }
    }

    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn wait_on_host(
        &self,
        event: vk::Event,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let known = lock(&self.events).get(&event.as_raw()).copied();
        if let Some(Some(point)) = known {
            return self.wait_for(point, timeout);
        }
        // SAFETY: the event is alive, as the caller promises.
        ask_until(timeout, || unsafe { self.is_set(event) })
    }

    /// # Safety
    /// The event is alive.
    unsafe fn is_set(&self, event: vk::Event) -> Result<bool> {
        self.require_life()?;
        // SAFETY: the event is alive, as the caller promises.
        self.check(unsafe { self.vk.get_event_status(event) }, "ask the event")
    }
}
