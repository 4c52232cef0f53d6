//! Capture: a stream whose work becomes a graph and does not run.
//!
//! Copies are kept for the graph, all else that is captured is counted and thrown away; what may
//! not be done meanwhile is refused, and spoils the capture, as the manual says.

use std::collections::BTreeSet;

use arrow_device_sim::hardware::Stretch;

use crate::code::{Answer, Code};
use crate::machine::Machine;
use crate::thread;

/// Modes: calls that are unsafe during a capture are refused on all threads, on the thread that
/// captures, or never.
pub(crate) const GLOBAL: i32 = 0;
pub(crate) const RELAXED: i32 = 2;

/// A capture that is going on.
#[derive(Debug)]
pub(crate) struct Capture {
    /// The stream that it was begun on.
    origin: usize,
    mode: i32,
    thread: u64,
    is_spoilt: bool,
    nodes: u64,
    copies: Vec<Vec<Stretch>>,
    /// Streams with work that the origin does not wait for yet.
    unjoined: BTreeSet<usize>,
}

impl Machine {
    pub(crate) fn begin_capture(
        &mut self,
        current: Option<usize>,
        handle: usize,
        mode: i32,
    ) -> Answer {
        if !(GLOBAL..=RELAXED).contains(&mode) {
            return Err(Code::INVALID_VALUE);
        }
        let stream = self.stream(current, handle)?;
        let state = self.streams.get(&stream).ok_or(Code::INVALID_HANDLE)?;
        // The default stream cannot be captured; that of a thread can.
        let is_legacy = state.is_default && !state.blocking;
        if is_legacy {
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        if state.capture.is_some() {
            return Err(Code::INVALID_VALUE);
        }
        let capture = self.new_handle();
        let thread = thread::number();
        let unjoined = BTreeSet::new();
        let (is_spoilt, nodes, copies) = (false, 0, Vec::new());
        let begun = Capture { origin: stream, mode, thread, is_spoilt, nodes, copies, unjoined };
        self.captures.insert(capture, begun);
        self.set_capture(stream, Some(capture));
        Ok(())
    }

    /// Ends a capture. Returns the graph's handle.
    pub(crate) fn end_capture(&mut self, current: Option<usize>, handle: usize) -> Answer<usize> {
        let stream = self.stream(current, handle)?;
        let number = self.streams.get(&stream).and_then(|stream| stream.capture);
        let Some((number, capture)) = number.and_then(|n| self.captures.get(&n).map(|c| (n, c)))
        else {
            return Err(Code::INVALID_VALUE);
        };
        if capture.origin != stream {
            return Err(Code::CAPTURE_UNMATCHED);
        }
        if capture.mode != RELAXED && capture.thread != thread::number() {
            return Err(Code::CAPTURE_WRONG_THREAD);
        }
        let (is_spoilt, is_joined) = (capture.is_spoilt, capture.unjoined.is_empty());
        let copies = self.captures.remove(&number).map(|ended| ended.copies).unwrap_or_default();
        self.streams
            .values_mut()
            .filter(|s| s.capture == Some(number))
            .for_each(|s| s.capture = None);
        if is_spoilt {
            return Err(Code::CAPTURE_INVALIDATED);
        }
        if !is_joined {
            return Err(Code::CAPTURE_UNJOINED);
        }
        self.add_graph(number, copies);
        Ok(number)
    }

    /// 0 not captured, 1 captured, 2 captured and spoilt; and the capture's number.
    pub(crate) fn capture_status(
        &mut self,
        current: Option<usize>,
        handle: usize,
    ) -> Answer<(i32, usize)> {
        let stream = self.stream(current, handle)?;
        self.must_not_be_implicit(stream, false)?;
        let number = self.streams.get(&stream).and_then(|stream| stream.capture);
        let capture = number.and_then(|number| self.captures.get(&number).map(|c| (number, c)));
        Ok(capture.map_or((0, 0), |(number, c)| (if c.is_spoilt { 2 } else { 1 }, number)))
    }

    /// Copies become part of the graph that a stream is captured for.
    pub(crate) fn keep_for_graph(&mut self, stream: usize, copies: Vec<Stretch>) {
        let number = self.streams.get(&stream).and_then(|stream| stream.capture);
        if let Some(capture) = number.and_then(|number| self.captures.get_mut(&number)) {
            capture.copies.push(copies);
        }
    }

    /// Whether work for a stream becomes a node of a graph; it is counted.
    pub(crate) fn is_captured(&mut self, stream: usize) -> Answer<bool> {
        Ok(self.capture_of(stream)?.is_some())
    }

    pub(crate) fn capture_of(&mut self, stream: usize) -> Answer<Option<usize>> {
        self.must_not_be_implicit(stream, true)?;
        let Some(number) = self.streams.get(&stream).and_then(|stream| stream.capture) else {
            return Ok(None);
        };
        let Some(capture) = self.captures.get_mut(&number) else { return Ok(None) };
        if capture.is_spoilt {
            return Err(Code::CAPTURE_INVALIDATED);
        }
        capture.nodes += 1;
        if capture.origin != stream {
            capture.unjoined.insert(stream);
        }
        Ok(Some(number))
    }

    /// A wait of a stream for an event: it may take the stream into the event's capture, or the
    /// event's stream back.
    pub(crate) fn joins_capture(
        &mut self,
        stream: usize,
        event: Option<(usize, usize)>,
    ) -> Answer<bool> {
        let event = event.filter(|(number, _)| self.captures.contains_key(number));
        let own = self.capture_of(stream)?;
        match (own, event) {
            (None, None) => Ok(false),
            (None, Some((number, recorded_on))) => {
                self.set_capture(stream, Some(number));
                self.join(number, stream, recorded_on);
                Ok(true)
            }
            (Some(own), Some((other, recorded_on))) if own == other => {
                self.join(own, stream, recorded_on);
                Ok(true)
            }
            (Some(own), Some(_)) => {
                self.spoil(own);
                Err(self.refuse(Code(902), "A wait would make one capture of two."))
            }
            (Some(own), None) => {
                self.spoil(own);
                Err(self.refuse(
                    Code::CAPTURE_ISOLATION,
                    "A captured stream waits for an event that was not recorded in the same capture.",
                ))
            }
        }
    }

    /// A stream waits for what another one was given: whoever waits for the first waits for both.
    fn join(&mut self, number: usize, stream: usize, waited_for: usize) {
        let Some(capture) = self.captures.get_mut(&number) else { return };
        capture.unjoined.remove(&waited_for);
        if capture.origin != stream {
            capture.unjoined.insert(stream);
        }
    }

    /// A captured stream has nothing that the host could wait for.
    pub(crate) fn must_not_capture(&mut self, stream: usize) -> Answer {
        self.must_not_be_implicit(stream, true)?;
        let Some(number) = self.streams.get(&stream).and_then(|stream| stream.capture) else {
            return Ok(());
        };
        self.spoil(number);
        Err(self.refuse(
            Code::CAPTURE_UNSUPPORTED,
            "The host waits for a captured stream, or asks it: its work does not run.",
        ))
    }

    /// Calls that may wait, as allocating does, are refused while somebody captures, as the modes
    /// say.
    pub(crate) fn must_be_safe(&mut self) -> Answer {
        let (here, mode) = (thread::number(), thread::with(|t| t.capture_mode).unwrap_or(GLOBAL));
        if mode == RELAXED {
            return Ok(());
        }
        let forbids = |capture: &Capture| {
            let own = capture.thread == here && capture.mode != RELAXED;
            own || (mode == GLOBAL && capture.mode == GLOBAL)
        };
        let Some(number) = self.captures.iter().find(|(_, c)| forbids(c)).map(|(n, _)| *n) else {
            return Ok(());
        };
        self.spoil(number);
        Err(self.refuse(
            Code::CAPTURE_UNSUPPORTED,
            "This call may wait for the device, which is not allowed while a stream is captured in this mode.",
        ))
    }

    /// The default stream would wait for captured streams of its context.
    fn must_not_be_implicit(&mut self, stream: usize, spoils: bool) -> Answer {
        let Some(state) = self.streams.get(&stream) else { return Ok(()) };
        let device = state.device;
        if self.devices.get(device).and_then(|device| device.legacy) != Some(stream) {
            return Ok(());
        }
        let is_captured = |s: &&crate::machine::Stream| s.blocking && s.device == device;
        let captured = self.streams.values().filter(is_captured).find_map(|s| s.capture);
        let Some(number) = captured else { return Ok(()) };
        if spoils {
            self.spoil(number);
        }
        Err(self.refuse(
            Code::CAPTURE_IMPLICIT,
            "The default stream is ordered with a blocking stream that is captured.",
        ))
    }

    fn refuse(&mut self, code: Code, why: &'static str) -> Code {
        self.misuse("Capture", code, why)
    }

    pub(crate) fn spoil(&mut self, number: usize) {
        if let Some(capture) = self.captures.get_mut(&number) {
            capture.is_spoilt = true;
        }
    }

    pub(crate) fn spoil_capture_of(&mut self, stream: usize) {
        if let Some(number) = self.streams.get(&stream).and_then(|stream| stream.capture) {
            self.spoil(number);
        }
    }

    fn set_capture(&mut self, stream: usize, capture: Option<usize>) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.capture = capture;
        }
    }
}
