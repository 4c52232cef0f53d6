//! [`Sender`]: arrays for another process.
//!
//! To send an array, a sender
//!
//! 1. takes in what the receiver has told, and lets go of the arrays that were released;
//! 2. waits until the array is ready, and describes the array, with the allocations it lies in
//!    ([`Described`]);
//! 3. gets a handle for each allocation, and has its bytes fixed where that can be done;
//! 4. tells the schema and the domain, if they are not those of the array before;
//! 5. notes the array as held by the receiver, and sends the message.
//!
//! A sender that sends early does not wait in step 2. Step 3 waits where it fixes bytes, which
//! nobody can write any more after that. Otherwise a descriptor goes with the message by which the
//! receiver learns when the data is there ([`Teller`]).
//!
//! This is fast because the arrays of a stream share one schema, which is sent once, and because no
//! answer is waited for: the receiver tells its releases whenever it likes.
//!
//! What must stay true: messages are sent whole and one after the other, under the lock of
//! [`Writing`]; no array is dropped under a lock, because what owns it may be foreign code; and an
//! array is noted before its message is sent, because the receiver may release it at once.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arrow_device::copy::Options;
use arrow_device::driver::ForkMutex;
use arrow_device::{
    Array, ArrayStream, Device, DeviceId, Error, ErrorKind, Queue, Result, Schema, View, deferred,
};

use rustix::event::EventfdFlags;

use crate::described::Described;
use crate::frames::{self, Came, Frame, FrameKind, FrameReader, Limits, Patience};
use crate::keeper::{self, Kept};
use crate::problem::{malformed, of_parent, of_peer, shortened};
use crate::process::Process;
use crate::schemas::{self, MemoryDomain};
use crate::teller::Teller;
use crate::wire::Reader;

/// Sends arrays to another process, and holds them until that process has finished with them.
///
/// The other side is a [`Receiver`](crate::Receiver), at the other end of a connected Unix socket.
/// [`share`](crate::share) sends one array to whoever gets a descriptor.
///
/// What the receiver tells is looked at when [`held`](Self::held) or
/// [`wait_until_released`](Self::wait_until_released) is called, and when an array is sent. The
/// socket ([`as_fd`](AsFd::as_fd)) can be read when there is something to look at. When a sender is
/// dropped, its receiver comes to the end of what was sent, and a thread of this crate holds what
/// the receiver still uses.
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use arrow_device::{Array, DataType, Device};
/// use arrow_device_share::{Receiver, Sender, to_shareable};
///
/// let (one, other) = UnixStream::pair()?;
/// let sender = Sender::new(one);
/// let mut receiver = Receiver::new(other, [Device::host()]);
///
/// let array = Array::from_values(DataType::Int32, [Some(1), Some(2)])?;
/// sender.send(&to_shareable(&array, &Device::host())?)?;
/// let received = receiver.receive()?.expect("an array was sent");
/// assert!(received.equals(&array)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sender {
    /// `None` only while the sender is dropped.
    outgoing: Option<Box<Outgoing>>,
}

/// A connection to a receiver, and the arrays that the receiver uses.
#[derive(Debug)]
pub(crate) struct Outgoing {
    socket: UnixStream,
    writing: ForkMutex<Writing>,
    state: ForkMutex<SenderState>,
    /// Tells the threads that wait behind the watching one that the state has changed.
    changed: Condvar,
    /// Wakes the watching thread where another one took in what the receiver told.
    bell: Bell,
    /// The process that the connection belongs to.
    process: Process,
    /// How long a call waits for a receiver that does not read.
    patience: Option<Duration>,
}

/// What a sender knows for its next message.
#[derive(Debug)]
struct Writing {
    next: u64,
    /// The schema and the domain that were sent last.
    sent: Option<(Schema, MemoryDomain)>,
    /// A queue of the device of the last array.
    queue: Option<Queue>,
    /// Whether memory is fixed, where that can be done.
    fixes: bool,
    /// Whether the receiver is trusted not to write to memory that it gets.
    trusts: bool,
    /// Whether arrays are sent before their data is there.
    is_early: bool,
}

/// What the receiver has, and has told.
#[derive(Debug)]
struct SenderState {
    held: BTreeMap<u64, Array>,
    wanted: u64,
    reader: FrameReader,
    /// Whether the receiver has gone, or broke the protocol.
    is_over: bool,
    /// Whether a thread watches the socket, so that others need not.
    is_watched: bool,
    /// Whether the bell was rung for that thread.
    is_rung: bool,
    /// How many threads wait until they are told that the state has changed.
    waiting: usize,
}

/// Receivers send short messages without descriptors.
const LIMITS: Limits = Limits { body: 64 << 10, descriptors: 0 };

impl Sender {
    /// A sender on one end of a connected socket.
    pub fn new(socket: UnixStream) -> Self {
        let reader = FrameReader::new(LIMITS);
        let writing = Writing {
            next: 0,
            sent: None,
            queue: None,
            fixes: true,
            trusts: false,
            is_early: false,
        };
        let held = BTreeMap::new();
        let state = SenderState {
            held,
            wanted: 0,
            reader,
            is_over: false,
            is_watched: false,
            is_rung: false,
            waiting: 0,
        };
        let outgoing = Outgoing {
            socket,
            writing: ForkMutex::new(writing),
            state: ForkMutex::new(state),
            changed: Condvar::new(),
            bell: Bell::default(),
            // After the locks, from which on forks are counted.
            process: Process::this(),
            patience: None,
        };
        Self { outgoing: Some(Box::new(outgoing)) }
    }

    /// This sender, which does not fix memory. The receiver has to
    /// [trust](crate::Receiver::trusting) this process where the memory is the host's.
    ///
    /// To fix memory costs some milliseconds for a gigabyte, because the system takes the pages out
    /// of this process once.
    #[must_use]
    pub fn without_fixing(mut self) -> Self {
        let writing = self.outgoing.as_mut().and_then(|outgoing| outgoing.writing.get_mut());
        if let Some(writing) = writing {
            writing.fixes = false;
        }
        self
    }

    /// This sender, which does not wait until an array is ready: the receiver has the array at
    /// once, and learns later that the data is there. The receiver has to
    /// [take](crate::Receiver::taking_early) such arrays.
    ///
    /// Work on the array and the work of the receiver then overlap: the receiver opens the memory
    /// and prepares what it does while the data is made. A thread of this crate waits for the data
    /// and tells the receiver, also that the work has failed.
    ///
    /// Memory that is fixed when it is sent is waited for as always, because nobody can write to it
    /// afterwards. So is an array that is ready after an event of another runtime than that of its
    /// device, which no queue of the device can wait for.
    #[must_use]
    pub fn early(mut self) -> Self {
        let writing = self.outgoing.as_mut().and_then(|outgoing| outgoing.writing.get_mut());
        if let Some(writing) = writing {
            writing.is_early = true;
        }
        self
    }

    /// This sender, which waits no longer than this for a receiver that does not read. A call that
    /// gives up returns an error of the kind [`NotReady`](ErrorKind::NotReady), and the connection
    /// cannot be used any more after that. Without this a sender waits as long as it takes.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.patience = Some(patience);
        }
        self
    }

    /// This sender, which also sends memory of devices whose
    /// [sharing needs trust](Device::sharing_needs_trust): whoever has such memory can write to it.
    ///
    /// # Safety
    /// UNS-38: the process at the other end, and every process to which it gives the memory, writes
    /// to no memory that it is sent.
    #[must_use]
    pub unsafe fn trusting(mut self) -> Self {
        let writing = self.outgoing.as_mut().and_then(|outgoing| outgoing.writing.get_mut());
        if let Some(writing) = writing {
            writing.trusts = true;
        }
        self
    }

    fn outgoing(&self) -> Result<&Outgoing> {
        self.outgoing.as_deref().ok_or_else(|| of_peer("send", "the sender is gone"))
    }

    /// Sends an array, whose memory the receiver can then use. Waits until the array is ready, and
    /// until the system has room for the message.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the array does not lie in memory that other
    /// processes can open (see [`to_shareable`]). [`Peer`](ErrorKind::Peer): the receiver has gone.
    /// [`Malformed`](ErrorKind::Malformed): the receiver broke the protocol.
    pub fn send(&self, array: &Array) -> Result<()> {
        let outgoing = self.outgoing()?;
        let patience = outgoing.patience;
        outgoing.send(array, Patience::of(patience))
    }

    /// [`send`](Self::send), without a wait for the receiver. The error is of the kind
    /// [`NotReady`](ErrorKind::NotReady) where the system has no room for the message, and the
    /// connection cannot be used any more.
    pub(crate) fn send_at_once(&self, array: &Array) -> Result<()> {
        self.outgoing()?.send(array, Patience::None)
    }

    /// Sends the arrays of a stream as the receiver asks for them, then the end of the stream, and
    /// waits until the receiver has finished with all of them. An error of the stream is sent to
    /// the receiver, and returned here too.
    ///
    /// The receiver reads with [`Receiver::into_stream`](crate::Receiver::into_stream), and says
    /// how many arrays it wants ahead.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send), and
    /// [`InvalidArgument`](ErrorKind::InvalidArgument): this thread is [in a
    /// release](deferred::require_no_release). Nothing is sent then.
    pub fn serve(&self, stream: ArrayStream) -> Result<()> {
        self.outgoing()?.serve(stream)
    }

    /// How many arrays the receiver still uses. Never waits.
    ///
    /// After the receiver has gone there are none.
    pub fn held(&self) -> Result<usize> {
        self.outgoing()?.held()
    }

    /// Waits until the receiver uses no array any more. Returns `false` where the time is over
    /// before that.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument): there is something to wait for, and this
    /// thread is [in a release](deferred::require_no_release). The wait could wait for itself: a
    /// receiver in this process may have an array that this thread would release next.
    /// [`Malformed`](ErrorKind::Malformed): the receiver broke the protocol.
    pub fn wait_until_released(&self, timeout: Option<Duration>) -> Result<bool> {
        let outgoing = self.outgoing()?;
        if let Err(error) = deferred::require_no_release("wait until released")
            && timeout != Some(Duration::ZERO)
            && outgoing.held()? > 0
        {
            return Err(error);
        }
        outgoing.until(Patience::of(timeout), |state| state.held.is_empty())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let Some(outgoing) = self.outgoing.take() else { return };
        // In a child of `fork` the connection and the arrays are the parent's.
        if !outgoing.process.is_this() {
            return;
        }
        // The receiver comes to its end now, and not when it has released all that it holds. What
        // it releases still comes this way.
        let _ = outgoing.socket.shutdown(std::net::Shutdown::Write);
        if outgoing.held().is_ok_and(|held| held > 0) {
            keeper::keep(Kept::Outgoing(outgoing));
        }
    }
}

impl AsFd for Sender {
    /// The socket.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.outgoing {
            Some(outgoing) => outgoing.socket(),
            None => unreachable!("a sender has a connection until it is dropped"),
        }
    }
}

impl Outgoing {
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&self, array: &Array, patience: Patience) -> Result<()> {
        // What the receiver has told is taken in here, so that a sender that is used for nothing
        // but sending lets go of released arrays, too.
        self.require_receiver()?;
        let (fixes, trusts, is_early) = {
            let writing = self.writing.lock()?;
            (writing.fixes, writing.trusts, writing.is_early)
        };
        if !is_early {
            array.wait()?;
        }
        let mut is_ready = !is_early || array.is_ready()?;
        let (queue, view) = self.viewed(array)?;
        let device = queue.device();
        let domain = device.sharing_domain().ok_or_else(|| not_shared(device))?;
        let described = Described::new(&view, device)?;
        drop(view);
        if device.sharing_needs_trust() && !trusts && !described.allocations().is_empty() {
            let message = "whoever gets memory of this device can write to it; only a sender that \
                           trusts its receiver sends it, and no ticket has it";
            let refused = Error::new(ErrorKind::Unsupported, message);
            return Err(refused.during("send").on_device(device.id()));
        }
        if !is_ready && fixes && described.allocations().iter().any(|place| place.can_be_fixed) {
            array.wait()?;
            is_ready = true;
        }
        let mut handles = Vec::with_capacity(described.allocations().len());
        for place in described.allocations() {
            let fixed = fixes && place.can_be_fixed;
            // SAFETY: UNS-36: `find_shared` named the allocation, which the array keeps. What can
            // be fixed was allocated for one use: its memory was shared when the array was made,
            // and nobody writes to shared memory (SAF-3) once the array is ready, which it is where
            // something is to be fixed. Where sharing needs trust, the receiver
            // does not write to the memory (UNS-38).
            handles.push(unsafe { device.export_shared(place.memory, fixed) }?);
        }
        let domain = MemoryDomain::of(device.id(), Some(domain));
        let schema = array.schema()?;
        let (teller, event) = match is_ready {
            true => (None, None),
            false => Teller::new(array).map(|(teller, event)| (Some(teller), Some(event)))?,
        };
        let kind = if is_ready { FrameKind::Array } else { FrameKind::Early };
        let of_memory =
            handles.iter().filter_map(|handle| Some(handle.descriptor.as_ref()?.as_fd()));
        let descriptors: Vec<_> =
            event.as_ref().map(AsFd::as_fd).into_iter().chain(of_memory).collect();
        let mut writing = self.writing.lock()?;
        writing.tell_schema(self.socket(), &schema, domain, patience)?;
        let number = writing.next;
        writing.next += 1;
        let body = described.body(number, &handles);
        // Held before it is sent: the receiver may be faster than this thread.
        let mut state = self.state.lock()?;
        if state.is_over {
            // Nobody would tell the release.
            return Err(of_peer("send", GONE));
        }
        state.held.insert(number, array.clone());
        drop(state);
        let sent = frames::send(self.socket(), kind, &body, &descriptors, patience);
        drop(writing);
        if sent.is_err() {
            let unsent = self.state.lock()?.held.remove(&number);
            drop(unsent);
            return sent;
        }
        if let Some(teller) = teller {
            // The receiver's end is the receiver's alone from now on.
            drop(event);
            if !keeper::keep(Kept::Teller(teller.clone())) {
                teller.wait_for(array);
            }
        }
        Ok(())
    }

    /// A queue on the device of the array, and a view of the array for it.
    fn viewed(&self, array: &Array) -> Result<(Queue, View)> {
        let id = array.device();
        let known = self.writing.lock()?.queue.clone();
        if let Some(queue) = known.filter(|queue| queue.device().id() == id) {
            match array.on(&queue) {
                Ok(view) => return Ok((queue, view)),
                // Another runtime that is open by the same id has the data.
                Err(error) if error.kind() == ErrorKind::NotReachable => {}
                Err(error) => return Err(error),
            }
        }
        let device = array.open_device().map_err(|error| error.during("send"))?;
        let queue = device.open_queue()?;
        let before = self.writing.lock()?.queue.replace(queue.clone());
        // A queue is closed without the lock.
        drop(before);
        let view = array.on(&queue)?;
        Ok((queue, view))
    }

    /// Takes in what the receiver has told, and refuses to send to a receiver that tells no more.
    fn require_receiver(&self) -> Result<()> {
        match self.looked(|state| state.is_over)? {
            (_, true) => Err(of_peer("send", GONE)),
            (_, false) => Ok(()),
        }
    }

    /// Refuses the connection of a parent in a child of `fork`.
    fn require_process(&self) -> Result<()> {
        if self.process.is_this() {
            return Ok(());
        }
        Err(of_parent())
    }

    fn serve(&self, stream: ArrayStream) -> Result<()> {
        deferred::require_no_release("serve")?;
        if let Err(error) = self.send_stream(stream) {
            let text = error.to_string();
            // A receiver that has gone is told nothing.
            let _ = self.send_frame(FrameKind::Failed, shortened(&text).as_bytes());
            return Err(error);
        }
        self.send_frame(FrameKind::End, &[])?;
        self.until(Patience::Forever, |state| state.held.is_empty())?;
        Ok(())
    }

    fn send_frame(&self, kind: FrameKind, body: &[u8]) -> Result<()> {
        let _writing = self.writing.lock()?;
        frames::send(self.socket(), kind, body, &[], Patience::of(self.patience))
    }

    fn send_stream(&self, stream: ArrayStream) -> Result<()> {
        self.require_process()?;
        // The receiver wants to know the schema before the first array, also where there is none.
        let domain = MemoryDomain::of(DeviceId::new(stream.device_type(), 0), None);
        let mut writing = self.writing.lock()?;
        let patience = Patience::of(self.patience);
        // A stream begins with its schema, also where the receiver knows it.
        writing.sent = None;
        writing.tell_schema(self.socket(), stream.schema(), domain, patience)?;
        drop(writing);
        for array in stream {
            let array = array?;
            while !self.take_wanted()? {
                self.until(Patience::Forever, |state| state.wanted > 0)?;
            }
            self.send(&array, Patience::of(self.patience))?;
        }
        Ok(())
    }

    /// Takes one of the arrays that the receiver wants. Returns whether there was one: another
    /// thread that serves may have taken the last one.
    fn take_wanted(&self) -> Result<bool> {
        let mut state = self.state.lock()?;
        if state.is_over {
            return Err(of_peer("serve", "the receiver has gone before the end of the stream"));
        }
        let left = state.wanted.checked_sub(1);
        state.wanted = left.unwrap_or(0);
        Ok(left.is_some())
    }

    /// Waits until `holds` says yes to what the receiver has told. The answer is also yes once the
    /// receiver has gone.
    ///
    /// One thread watches the socket. Others that wait meanwhile are told by it when the state has
    /// changed, and one of them watches once the first one has what it waited for. A thread that
    /// looks without waiting wakes the watching one.
    fn until(&self, patience: Patience, holds: impl Fn(&SenderState) -> bool) -> Result<bool> {
        loop {
            let (mut state, is_so) = self.looked(|state| state.is_over || holds(state))?;
            if is_so {
                return Ok(true);
            }
            if state.is_watched {
                let Some(left) = patience.left() else { return Ok(false) };
                // A wait without an end is one that is begun again and again.
                let left = left.unwrap_or(Duration::from_secs(3600));
                state.waiting += 1;
                let waited = self.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
                continue;
            }
            let bell = self.bell.get()?;
            state.is_watched = true;
            drop(state);
            let is_there = patience.wait_for_either(self.socket(), bell);
            let mut state = self.state.lock()?;
            // Under the lock: the next thread that watches is to hear what is rung for it.
            if std::mem::take(&mut state.is_rung) {
                self.bell.silence();
            }
            state.is_watched = false;
            // If this thread has what it waited for, one of the others watches from now on.
            self.tell_waiting(&state);
            drop(state);
            if !is_there.map_err(|error| crate::problem::failed("wait", error))? {
                return Ok(false);
            }
        }
    }

    pub(crate) fn held(&self) -> Result<usize> {
        let (state, _) = self.looked(|_| true)?;
        Ok(state.held.len())
    }

    /// Tells the threads that wait, if there are any: to tell nobody would cost a call of the
    /// system as well.
    fn tell_waiting(&self, state: &SenderState) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Takes in what the receiver has told, and lets go of what the receiver released. Returns the
    /// state, and what `holds` says of it.
    fn looked(
        &self,
        holds: impl FnOnce(&SenderState) -> bool,
    ) -> Result<(MutexGuard<'_, SenderState>, bool)> {
        self.require_process()?;
        let mut released = Vec::new();
        let mut state = self.state.lock()?;
        let looked = state.take_in(self.socket(), &mut released);
        let has_changed = !matches!(looked, Ok(false));
        if has_changed {
            self.tell_waiting(&state);
            if state.is_watched && !std::mem::replace(&mut state.is_rung, true) {
                self.bell.ring();
            }
        }
        if looked.is_err() {
            let _ = self.socket.shutdown(std::net::Shutdown::Both);
        }
        if !released.is_empty() {
            // Arrays are released without the lock: what owns them may be foreign code.
            drop(state);
            drop(released);
            state = self.state.lock()?;
        }
        looked?;
        let is_so = holds(&state);
        Ok((state, is_so))
    }
}

/// Wakes a thread that waits for a socket.
#[derive(Debug, Default)]
struct Bell(OnceLock<OwnedFd>);

impl Bell {
    fn get(&self) -> Result<BorrowedFd<'_>> {
        if self.0.get().is_none() {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let made = rustix::event::eventfd(0, flags);
            // Another thread may have been first.
            let _ = self.0.set(made.map_err(|error| crate::problem::failed("wait", error))?);
        }
        let bell = self.0.get().ok_or_else(|| of_peer("wait", "there is nothing to wait with"))?;
        Ok(bell.as_fd())
    }

    fn ring(&self) {
        if let Some(bell) = self.0.get() {
            // A bell that cannot be rung any more has rung already.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    fn silence(&self) {
        if let Some(bell) = self.0.get() {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
    }
}

/// What is said of a receiver that has gone, or has closed its way back.
const GONE: &str = "the receiver has gone";

/// After so many frames a look reads the socket no more, and only takes in what was read before.
/// The system keeps fewer frames for a reader, so only a receiver that talks without end has more.
const FRAMES_AT_ONCE: usize = 1 << 14;

impl SenderState {
    /// Takes in what the receiver has told. Returns whether that was anything. A receiver that
    /// breaks the protocol counts as gone: the arrays that it used are let go, because nothing that
    /// it says can be believed.
    fn take_in(&mut self, socket: BorrowedFd<'_>, released: &mut Vec<Array>) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let mut frames = 0;
        let ended = loop {
            let came = match frames < FRAMES_AT_ONCE {
                true => self.reader.read(socket, Patience::None),
                // All frames that were read are taken in: the socket does not tell that some of
                // them are left.
                false => self.reader.take().map(|frame| frame.map_or(Came::Nothing, Came::Frame)),
            };
            match came {
                Ok(Came::Frame(frame)) => match self.told(&frame, released) {
                    Ok(()) => frames += 1,
                    Err(error) => break Err(error),
                },
                Ok(Came::Nothing) => return Ok(frames > 0),
                Ok(Came::End) => break Ok(true),
                Err(error) => break Err(error),
            }
        };
        self.is_over = true;
        self.reader = FrameReader::new(LIMITS);
        released.extend(std::mem::take(&mut self.held).into_values());
        ended
    }

    /// Takes in what the receiver told.
    fn told(&mut self, frame: &Frame, released: &mut Vec<Array>) -> Result<()> {
        let mut from = Reader::new(&frame.body);
        match frame.kind {
            FrameKind::Released => {
                while from.left() > 0 {
                    let number = from.u64()?;
                    let array = self.held.remove(&number).ok_or_else(|| {
                        malformed(format!("array {number} is released, which is not there"))
                    })?;
                    released.push(array);
                }
                Ok(())
            }
            FrameKind::Wanted => {
                self.wanted = self.wanted.saturating_add(from.u32()?.into());
                from.finish()
            }
            kind => Err(malformed(format!("a receiver sends no message of the kind {kind:?}"))),
        }
    }
}

impl Writing {
    /// Tells the receiver the schema and the domain of what follows, if it does not know them.
    fn tell_schema(
        &mut self,
        socket: BorrowedFd<'_>,
        schema: &Schema,
        domain: MemoryDomain,
        patience: Patience,
    ) -> Result<()> {
        let is_known = self.sent.as_ref().is_some_and(|(sent, of)| {
            let is_same = std::ptr::eq(sent.field(), schema.field());
            *of == domain && (is_same || sent.field() == schema.field())
        });
        if !is_known {
            let body = schemas::encode(schema, &domain);
            frames::send(socket, FrameKind::Schema, &body, &[], patience)?;
            self.sent = Some((schema.clone(), domain));
        }
        Ok(())
    }
}

fn not_shared(device: &Device) -> Error {
    let message = "memory of this device cannot be opened by other processes";
    Error::new(ErrorKind::Unsupported, message).during("share").on_device(device.id())
}

/// The array, in memory of this device that other processes can open: a copy, in one allocation.
/// Waits where [`Array::copy_to`] waits.
///
/// An application that makes arrays to be shared makes them there at once, on a device of
/// [`Device::shareable`], and needs no copy.
pub fn to_shareable(array: &Array, device: &Device) -> Result<Array> {
    let queue = device.shareable()?.open_queue()?;
    array.copy_with(&queue, &Options::new().always(true))
}
