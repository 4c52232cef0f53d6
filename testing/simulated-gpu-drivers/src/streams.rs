//! Streams: found by handle, ordered with the default stream, given work.

use arrow_device_sim::hardware::{Hardware, Lane};

use crate::call::Then;
use crate::code::{Answer, Code};
use crate::machine::{Machine, Stream};
use crate::thread;

/// The handles of the default stream, and of that of the calling thread.
const NULL: usize = 0;
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Flag: the stream is not ordered with the default stream.
pub(crate) const NON_BLOCKING: u32 = 1;

impl Machine {
    /// Makes a stream.
    pub(crate) fn make_stream(&mut self, device: usize, flags: u32) -> Answer<usize> {
        if flags & !NON_BLOCKING != 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.add_stream(device, flags & NON_BLOCKING == 0, false)
    }

    fn add_stream(&mut self, device: usize, blocking: bool, is_default: bool) -> Answer<usize> {
        let handle = self.new_handle();
        let opened = self.hardware.open(device, handle, is_default);
        let lane = opened.map_err(|error| self.code_of(&error, device))?;
        let context = self.context_here(device);
        let (destroyed, capture) = (None, None);
        let stream = Stream { lane, device, context, blocking, is_default, destroyed, capture };
        self.streams.insert(handle, stream);
        Ok(handle)
    }

    /// The stream of a handle. The special ones are those of the current device.
    pub(crate) fn stream(&mut self, current: Option<usize>, handle: usize) -> Answer<usize> {
        match handle {
            NULL | LEGACY | PER_THREAD => {
                let Some(device) = current else {
                    return Err(self.misuse(
                        "NoContext",
                        Code::INVALID_CONTEXT,
                        "A default stream is that of the current context, and none is current on this thread.",
                    ));
                };
                if self.context_here(device) != self.context(device) {
                    return Err(Code::NOT_SUPPORTED);
                }
                self.default_stream(device, handle == PER_THREAD)
            }
            _ => self.own_stream(handle),
        }
    }

    fn default_stream(&mut self, device: usize, of_thread: bool) -> Answer<usize> {
        let thread = thread::number();
        let state = self.device(device)?;
        let known = if of_thread { state.per_thread.get(&thread).copied() } else { state.legacy };
        if let Some(handle) = known {
            return Ok(handle);
        }
        let handle = self.add_stream(device, of_thread, true)?;
        let state = self.device(device)?;
        if of_thread {
            state.per_thread.insert(thread, handle);
        } else {
            state.legacy = Some(handle);
        }
        Ok(handle)
    }

    fn own_stream(&mut self, handle: usize) -> Answer<usize> {
        let destroyed = match self.streams.get(&handle) {
            Some(stream) if stream.destroyed.is_none() => return Ok(handle),
            Some(stream) => stream.destroyed.clone(),
            None => None,
        };
        let what = match destroyed {
            Some(_) => ("StreamDestroyed", Code::INVALID_HANDLE, "This stream was destroyed."),
            None => {
                ("UnknownHandle", Code::INVALID_HANDLE, "This handle is no stream of the driver.")
            }
        };
        Err(self.misuse_of(destroyed, what))
    }

    /// What is known of a stream that was found.
    pub(crate) fn lane(&self, stream: usize) -> Answer<(Lane, usize)> {
        let stream = self.streams.get(&stream).ok_or(Code::INVALID_HANDLE)?;
        Ok((stream.lane, stream.device))
    }

    /// The context that a stream was made in.
    pub(crate) fn context_of(&self, stream: usize) -> Answer<usize> {
        self.streams.get(&stream).map(|stream| stream.context).ok_or(Code::INVALID_HANDLE)
    }

    /// Work on a destroyed stream still finishes.
    pub(crate) fn destroy_stream(&mut self, handle: usize) -> Answer {
        if handle <= PER_THREAD {
            return Err(Code::INVALID_HANDLE);
        }
        let handle = self.own_stream(handle)?;
        self.spoil_capture_of(handle);
        let here = self.hardware.here();
        let Some(stream) = self.streams.get_mut(&handle) else { return Ok(()) };
        stream.destroyed = Some(here);
        self.hardware.close(stream.lane);
        self.retire_handle(handle);
        Ok(())
    }

    /// Puts what comes next on a stream behind what the rules of the default stream say: it waits
    /// for all blocking streams of its device, and they wait for it.
    pub(crate) fn enter(&mut self, stream: usize) {
        let Some(Stream { lane, device, blocking, .. }) = self.streams.get(&stream) else { return };
        let (lane, device, blocking) = (*lane, *device, *blocking);
        let legacy = self.devices.get(device).and_then(|device| device.legacy);
        if legacy == Some(stream) {
            let others =
                self.streams.values().filter(|other| other.blocking && other.device == device);
            others.for_each(|other| self.hardware.order(lane, other.lane));
        } else if blocking && let Some(legacy) = legacy.and_then(|legacy| self.streams.get(&legacy))
        {
            self.hardware.order(lane, legacy.lane);
        }
    }

    /// Gives a stream work, or notes it where the stream is captured. Returns whether it was
    /// submitted.
    pub(crate) fn submit(
        &mut self,
        current: Option<usize>,
        handle: usize,
        work: impl FnOnce(&Hardware, Lane) -> arrow_device::Result<()>,
    ) -> Answer<bool> {
        let stream = self.stream(current, handle)?;
        let (lane, device) = self.lane(stream)?;
        self.alive(device)?;
        if self.is_captured(stream)? {
            return Ok(false);
        }
        self.enter(stream);
        work(&self.hardware, lane).map_err(|error| self.code_of(&error, device))?;
        self.take_turns(device);
        Ok(true)
    }

    /// Whether a stream has nothing left to do.
    pub(crate) fn ask_stream(&mut self, current: Option<usize>, handle: usize) -> Answer<Then> {
        let stream = self.stream(current, handle)?;
        let (lane, device) = self.lane(stream)?;
        self.alive(device)?;
        self.must_not_capture(stream)?;
        self.enter(stream);
        match self.hardware.is_idle(lane) {
            Ok(true) => {
                self.take_turns(device);
                Ok(Then::Return)
            }
            Ok(false) if self.not_ready() => Ok(Then::Progress),
            Ok(false) => Err(Code::NOT_READY),
            Err(error) => Err(self.code_of(&error, device)),
        }
    }

    /// The host is to wait for a stream.
    pub(crate) fn synchronize_stream(
        &mut self,
        current: Option<usize>,
        handle: usize,
    ) -> Answer<Then> {
        let stream = self.stream(current, handle)?;
        let (lane, device) = self.lane(stream)?;
        self.alive(device)?;
        self.must_not_capture(stream)?;
        self.enter(stream);
        Ok(Then::ForStream(lane, device))
    }
}
