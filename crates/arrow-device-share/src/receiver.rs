//! [`Receiver`]: arrays of another process.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use arrow_device::{Array, ArrayStream, Device, Error, ErrorKind, Event, Result, Schema};

use rustix::net::Shutdown;

use crate::described::{self, Opening};
use crate::events;
use crate::frames::{
    Came, Frame, FrameKind, FrameReader, LONGEST_BODY, Limits, MOST_DESCRIPTORS, Patience,
};
use crate::maker::Maker;
use crate::problem::{malformed, of_parent, of_peer, shortened};
use crate::releases::{Backchannel, Borrowed};
use crate::schemas::{self, MemoryDomain};
use crate::shape::Shape;
use crate::wire::Reader;

/// Receives the arrays of a [`Sender`](crate::Sender).
///
/// The arrays lie in the memory of the sender's process, which is opened here. They are read-only,
/// as all arrays are. The sender learns that an array is not used any more once the last thing that
/// was made of the array is gone, and every queue has passed its use.
///
/// Arrays stay usable after the receiver is dropped, and after the sender's process has ended.
#[derive(Debug)]
pub struct Receiver {
    back: Arc<Backchannel>,
    reader: FrameReader,
    devices: Vec<Device>,
    /// What the arrays that come now are.
    shape: Option<(Shape, MemoryDomain)>,
    trusts: bool,
    /// Whether what comes can be sent to a third process.
    passes_on: bool,
    /// How long data may take that comes later than its array. `None` where no such array is taken.
    early: Option<Duration>,
    /// The process that makes the data of early arrays.
    maker: Option<Arc<Maker>>,
    largest: u64,
    /// Whether nothing more comes, or nothing more of the stream.
    is_over: bool,
    /// Whether the connection is at its end, or was given up.
    is_closed: bool,
}

/// How many schemas may come before an array where nobody waits.
const SCHEMAS_AT_ONCE: usize = 16;

/// What a message may have at most.
const LIMITS: Limits = Limits { body: LONGEST_BODY, descriptors: MOST_DESCRIPTORS + 1 };

impl Receiver {
    /// A receiver on one end of a connected socket. Memory is opened by the first of these devices
    /// whose [domain](Device::sharing_domain) is that of the memory.
    pub fn new(socket: UnixStream, devices: impl IntoIterator<Item = Device>) -> Self {
        Self {
            back: Backchannel::new(socket),
            reader: FrameReader::new(LIMITS),
            devices: devices.into_iter().collect(),
            shape: None,
            trusts: false,
            passes_on: false,
            early: None,
            maker: None,
            largest: u64::MAX,
            is_over: false,
            is_closed: false,
        }
    }

    /// This receiver, which also takes memory of the host that the sender can still write to, and
    /// memory of devices whose [sharing needs trust](Device::sharing_needs_trust).
    ///
    /// # Safety
    /// UNS-38: the process at the other end writes to no memory of an array that it sent, as long
    /// as the array is not released. What it sends are the handles that its runtime exported, as
    /// the runtime made them. Nothing but this receiver writes to the socket.
    #[must_use]
    pub unsafe fn trusting(mut self) -> Self {
        self.trusts = true;
        self
    }

    /// This receiver, whose arrays can be sent to a third process without a copy, as the arrays of
    /// this process can. Each fixed allocation that comes then costs a descriptor as long as the
    /// array is used.
    ///
    /// Only fixed memory, which no process can change any more, can be sent on. Other memory is
    /// received as always, and has to be copied ([`to_shareable`](crate::to_shareable)) to be sent:
    /// the process that made the memory may write there as soon as this process has ended, while
    /// the third process still reads.
    #[must_use]
    pub fn passing_on(mut self) -> Self {
        self.passes_on = true;
        self
    }

    /// This receiver, which also takes arrays that come before their data is there, from a sender
    /// that sends [early](crate::Sender::early). Such an array is not [ready](Array::is_ready) when
    /// it comes: whoever uses the data waits for it, as for any array that work is still done on.
    ///
    /// The wait ends with an error of the kind [`WorkFailed`](ErrorKind::WorkFailed) where the work
    /// has failed, where the sender's process has ended before, and where the data has not come
    /// within `limit` after its array. It is the host that waits, also where a queue is
    /// [named](Array::on): no queue hangs because another process does not go on. The event is not
    /// exported with the array ([`Array::export_on`] waits for it).
    ///
    /// Each such array costs a descriptor until its data is there, and all of them together one
    /// more, by which the end of the sender's process is seen. In a child of `fork`, the data of an
    /// array that was not ready at the fork cannot be used.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// use arrow_device::{Array, DataType};
    /// use arrow_device_share::{Receiver, Sender, to_shareable};
    /// use arrow_device_sim::Sim;
    ///
    /// let (here, there) = (Sim::builder().build(), Sim::builder().build());
    /// let (one, other) = UnixStream::pair()?;
    /// let sender = Sender::new(one).early();
    /// let receiver = Receiver::new(other, [there.device()]);
    /// let mut receiver = receiver.taking_early(Duration::from_secs(60));
    ///
    /// let numbers = Array::from_values(DataType::Int32, [Some(1), Some(2)])?;
    /// sender.send(&to_shareable(&numbers, &here.device())?)?;     // the copy may be under way
    /// let received = receiver.receive()?.expect("an array was sent");
    /// assert!(received.to_host()?.equals(&numbers)?);             // waits for the copy
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn taking_early(mut self, limit: Duration) -> Self {
        self.early = Some(limit);
        self
    }

    /// This receiver, which refuses allocations of more than this many bytes.
    #[must_use]
    pub fn largest_allocation(mut self, bytes: u64) -> Self {
        self.largest = bytes;
        self
    }

    /// Waits for the next array. `None` after the last one: the sender has closed its side, or its
    /// stream is at its end.
    ///
    /// After an error nothing more comes. What came before stays usable.
    pub fn receive(&mut self) -> Result<Option<Array>> {
        self.receive_with(Patience::Forever)
    }

    /// Waits for the next array for some time. After that the error is of the kind
    /// [`TimedOut`](ErrorKind::TimedOut), and the next call goes on waiting.
    pub fn receive_within(&mut self, timeout: Duration) -> Result<Option<Array>> {
        self.receive_with(Patience::of(Some(timeout)))
    }

    /// The next array, if it came already.
    pub(crate) fn receive_at_once(&mut self) -> Result<Option<Array>> {
        self.receive_with(Patience::None)
    }

    fn receive_with(&mut self, patience: Patience) -> Result<Option<Array>> {
        let mut schemas = 0;
        while !self.is_over {
            // A sender that tells schemas without end is not waited for.
            let is_enough = schemas >= SCHEMAS_AT_ONCE && patience.left().is_none();
            let came = if is_enough { self.has_come() } else { self.come(patience) };
            let is_a_pause = came.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut);
            match came {
                Ok(Some(frame)) => match self.take_in(frame) {
                    Ok(Some(array)) => return Ok(Some(array)),
                    Ok(None) => schemas += 1,
                    Err(error) => return Err(self.end(error)),
                },
                Ok(None) => (self.is_over, self.is_closed) = (true, true),
                Err(error) if is_a_pause => return Err(error),
                Err(error) => return Err(self.end(error)),
            }
        }
        Ok(None)
    }

    /// The next frame. `None` where the sender has closed its side.
    fn come(&mut self, patience: Patience) -> Result<Option<Frame>> {
        if !self.back.is_of_this_process() {
            return Err(of_parent().during("receive"));
        }
        match self.reader.read(self.back.socket(), patience)? {
            Came::Frame(frame) => Ok(Some(frame)),
            Came::End => Ok(None),
            Came::Nothing => Err(nothing_came()),
        }
    }

    /// The next of the frames that were read already. Does not read the socket.
    fn has_come(&mut self) -> Result<Option<Frame>> {
        self.reader.take()?.map(Some).ok_or_else(nothing_came)
    }

    fn take_in(&mut self, frame: Frame) -> Result<Option<Array>> {
        if !frame.descriptors.is_empty() && !frame.kind.is_array() {
            return Err(malformed(format!("{:?} has descriptors", frame.kind)));
        }
        match frame.kind {
            FrameKind::Schema => {
                let (schema, domain) = schemas::decode(&frame.body)?;
                self.shape = Some((Shape::new(schema)?, domain));
                Ok(None)
            }
            FrameKind::Array | FrameKind::Early => self.open(frame).map(Some),
            FrameKind::End => {
                self.is_over = true;
                Reader::new(&frame.body).finish()?;
                Ok(None)
            }
            FrameKind::Failed => {
                let text = String::from_utf8_lossy(&frame.body);
                Err(of_peer("receive", format!("the sender says: {}", shortened(&text))))
            }
            kind => Err(malformed(format!("a sender sends no message of the kind {kind:?}"))),
        }
    }

    fn open(&mut self, mut frame: Frame) -> Result<Array> {
        let number = described::number_of(&frame.body)?;
        // Released in any case, when the last thing that was made of the array is gone.
        let owner = Arc::new(Borrowed { number, sender: self.back.clone() });
        let Some((shape, domain)) = &self.shape else {
            return Err(malformed("an array comes before its schema"));
        };
        let is_it = |device: &&Device| device.sharing_domain().is_some_and(|own| domain.is(own));
        let device = self.devices.iter().find(is_it).ok_or_else(|| {
            let message = format!(
                "none of the receiver's devices can open the memory, which is shared by `{}`",
                domain.way
            );
            Error::new(ErrorKind::DeviceMissing, message).during("receive")
        })?;
        let event = match frame.kind {
            FrameKind::Early => Some(event_of(&mut frame, self.early, &mut self.maker)?),
            _ => None,
        };
        let (trusts, passes_on, largest) = (self.trusts, self.passes_on, self.largest);
        let opening = Opening { device, trusts, passes_on, largest, event: event.as_ref() };
        described::opened(&frame.body, frame.descriptors, shape, opening, &owner)
    }

    /// Takes nothing more. Arrays that came before are still released to the sender.
    fn end(&mut self, error: Error) -> Error {
        self.is_over = true;
        self.close();
        // Closes descriptors that came and belong to nothing.
        self.reader = FrameReader::new(LIMITS);
        error
    }

    /// Lets nothing more come, and releases the arrays that came and that nobody took. Otherwise
    /// the sender would hold these as long as anything uses an array that was taken.
    fn close(&mut self) {
        if std::mem::replace(&mut self.is_closed, true) || !self.back.is_of_this_process() {
            return;
        }
        let socket = self.back.socket();
        let _ = rustix::net::shutdown(socket, Shutdown::Read);
        self.reader.read_only_begins();
        while let Ok(Came::Frame(frame)) = self.reader.read(socket, Patience::None) {
            if frame.kind.is_array()
                && let Ok(number) = described::number_of(&frame.body)
            {
                self.back.released(number);
            }
        }
    }

    /// The stream that the sender [serves](crate::Sender::serve) next. Waits for its schema.
    ///
    /// The sender is asked for `ahead` arrays more than were taken from the stream, at least one.
    /// Errors of the sender's stream are errors of this one.
    pub fn into_stream(mut self, ahead: usize) -> Result<ArrayStream> {
        let schema = self.wait_for_schema()?;
        let device_type = match &self.shape {
            Some((_, domain)) => domain.device_type,
            None => arrow_device::DeviceType::CPU,
        };
        let ahead = u32::try_from(ahead.max(1)).unwrap_or(u32::MAX);
        self.back.wanted(ahead);
        let incoming = Incoming { receiver: self, taken: 0, ahead };
        Ok(ArrayStream::new(schema, device_type, incoming))
    }

    fn wait_for_schema(&mut self) -> Result<Schema> {
        if self.is_closed {
            return Err(of_peer("receive", "the connection was at its end before the stream"));
        }
        // A stream begins with its schema, also where arrays of that schema came before.
        self.shape = None;
        loop {
            if let Some((shape, _)) = &self.shape {
                // The end of another stream may have come before.
                self.is_over = false;
                return Ok(shape.schema.clone());
            }
            match self.come(Patience::Forever)? {
                Some(frame) if !frame.kind.is_array() => {
                    self.take_in(frame)?;
                }
                Some(_) => return Err(malformed("an array comes before its schema")),
                None => {
                    return Err(of_peer("receive", "the sender has gone without telling a schema"));
                }
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.close();
    }
}

impl AsFd for Receiver {
    /// The socket. It can be read when something came that [`receive`](Self::receive) has not
    /// looked at.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.back.socket()
    }
}

/// Takes the event of an early array out of its frame, for a receiver that takes such arrays with
/// this limit.
fn event_of(
    frame: &mut Frame,
    early: Option<Duration>,
    maker: &mut Option<Arc<Maker>>,
) -> Result<Event> {
    let limit = early.ok_or_else(|| {
        let message = "the data of the array is not there yet; a receiver that is `taking_early` takes such arrays";
        Error::new(ErrorKind::Unsupported, message).during("receive")
    })?;
    if frame.descriptors.is_empty() {
        return Err(malformed("no descriptor tells when the data of the array is there"));
    }
    events::event(frame.descriptors.remove(0), limit, maker)
}

#[cold]
fn nothing_came() -> Error {
    Error::new(ErrorKind::TimedOut, "nothing came from the sender").during("receive")
}

/// The arrays of a receiver's stream.
struct Incoming {
    receiver: Receiver,
    /// How many arrays came since the sender was asked for more.
    taken: u32,
    ahead: u32,
}

impl Iterator for Incoming {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        let came = self.receiver.receive_stream();
        if matches!(came, Some(Ok(_))) {
            self.taken += 1;
            // Half of what may be ahead is asked for at once, so that telling costs little.
            if self.taken >= self.ahead.div_ceil(2) {
                self.receiver.back.wanted(std::mem::take(&mut self.taken));
            }
        }
        came
    }
}

impl Receiver {
    /// The next array of a stream, which has an end that the sender tells.
    fn receive_stream(&mut self) -> Option<Result<Array>> {
        while !self.is_over {
            let taken = match self.come(Patience::Forever) {
                Ok(Some(frame)) => self.take_in(frame),
                Ok(None) => {
                    Err(of_peer("receive", "the sender has gone before the end of its stream"))
                }
                Err(error) => Err(error),
            };
            match taken {
                Ok(Some(array)) => return Some(Ok(array)),
                Ok(None) => {}
                Err(error) => return Some(Err(self.end(error))),
            }
        }
        None
    }
}
