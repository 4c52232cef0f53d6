//! Events: made, recorded, waited for, destroyed.

use crate::call::Then;
use crate::code::{Answer, Code};
use crate::machine::{Event, Machine};

/// Flags of an event: wait without spinning, keep no time, share with other processes.
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

impl Machine {
    pub(crate) fn make_event(&mut self, device: usize, flags: u32) -> Answer<usize> {
        let is_unknown = flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0;
        let is_unfit = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
        if is_unknown || is_unfit {
            return Err(Code::INVALID_VALUE);
        }
        let made = self.hardware.make_event(device);
        let mark = made.map_err(|error| self.code_of(&error, device))?;
        let handle = self.new_handle();
        let context = self.context_here(device);
        let event = Event { mark, device, context, destroyed: None, capture: None };
        self.events.insert(handle, event);
        Ok(handle)
    }

    /// The event of a handle.
    pub(crate) fn event(&mut self, handle: usize) -> Answer<&mut Event> {
        let destroyed = match self.events.get(&handle) {
            None => {
                return Err(self.misuse(
                    "UnknownHandle",
                    Code::INVALID_HANDLE,
                    "This handle is no event of the driver.",
                ));
            }
            Some(event) => event.destroyed.clone(),
        };
        if destroyed.is_some() {
            let what = ("EventDestroyed", Code::INVALID_HANDLE, "This event was destroyed.");
            return Err(self.misuse_of(destroyed, what));
        }
        self.events.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// An event may be destroyed before what it stands for has passed.
    pub(crate) fn destroy_event(&mut self, handle: usize) -> Answer {
        let here = self.hardware.here();
        let event = self.event(handle)?;
        event.destroyed = Some(here);
        let mark = event.mark;
        self.hardware.destroy_event(mark);
        self.retire_handle(handle);
        Ok(())
    }

    /// Event and stream have to be of one context.
    pub(crate) fn record_event(
        &mut self,
        current: Option<usize>,
        event: usize,
        stream: usize,
    ) -> Answer {
        let stream = self.stream(current, stream)?;
        let (lane, device) = self.lane(stream)?;
        let (mark, home) = self.event(event).map(|event| (event.mark, event.context))?;
        if home != self.context_of(stream)? {
            return Err(self.misuse(
                "WrongContext",
                Code::INVALID_HANDLE,
                "An event is recorded on a stream of another context than its own.",
            ));
        }
        self.alive(device)?;
        let capture = self.capture_of(stream)?;
        self.event(event)?.capture = capture.map(|capture| (capture, stream));
        if capture.is_some() {
            return Ok(());
        }
        self.enter(stream);
        let recorded = self.hardware.record(lane, mark);
        recorded.map_err(|error| self.code_of(&error, device))
    }

    /// The event may be of another device than the stream.
    pub(crate) fn wait_for_event(
        &mut self,
        current: Option<usize>,
        stream: usize,
        event: usize,
        flags: u32,
    ) -> Answer {
        let stream = self.stream(current, stream)?;
        let (lane, device) = self.lane(stream)?;
        let (mark, of_event) = self.event(event).map(|event| (event.mark, event.capture))?;
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        self.alive(device)?;
        if self.joins_capture(stream, of_event)? {
            return Ok(());
        }
        self.enter(stream);
        let waited = self.hardware.wait(lane, mark);
        waited.map_err(|error| self.code_of(&error, device))
    }

    pub(crate) fn ask_event(&mut self, handle: usize) -> Answer<Then> {
        let (mark, device) = self.settled_event(handle)?;
        match self.hardware.is_complete(mark) {
            Ok(true) => {
                self.take_turns(device);
                Ok(Then::Return)
            }
            Ok(false) if self.not_ready() => Ok(Then::Progress),
            Ok(false) => Err(Code::NOT_READY),
            Err(error) => Err(self.code_of(&error, device)),
        }
    }

    pub(crate) fn synchronize_event(&mut self, handle: usize) -> Answer<Then> {
        let (mark, device) = self.settled_event(handle)?;
        Ok(Then::ForEvent(mark, device))
    }

    /// An event that the host may ask: one that was recorded in a capture stands for nothing that
    /// ever runs.
    fn settled_event(
        &mut self,
        handle: usize,
    ) -> Answer<(arrow_device_sim::hardware::Mark, usize)> {
        let event = self.event(handle)?;
        let (mark, device, capture) = (event.mark, event.device, event.capture);
        self.alive(device)?;
        if let Some((capture, _)) = capture {
            self.spoil(capture);
            return Err(self.misuse(
                "Capture",
                Code::CAPTURED_EVENT,
                "The host asks for an event that was recorded in a captured stream: it stands for a place in a graph.",
            ));
        }
        Ok((mark, device))
    }
}
