//! [`Server`]: sends a stream to the client that asks for it.
//!
//! For each batch, a server
//!
//! 1. takes in what the client has freed, and waits while more is kept than the options admit;
//! 2. has the batch copied into memory that other processes can open, unless it lies there, and
//!    makes the headers, without reading the buffers;
//! 3. exports each allocation that the buffers lie in, and sends the header and the addresses.
//!
//! Where the memory of the device or the transport cannot be shared, the body is packed, and passes
//! through memory of the host.
//!
//! What must stay true: a message is kept before it is sent, because the client may free it at
//! once.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use arrow_device::copy::Options;
use arrow_device::driver::SharedPlace;
use arrow_device::{ArrayStream, Batch, Device, Error, ErrorKind, Queue, Result, View, deferred};
use arrow_device_ipc::{Encoder, MessageApart, WriteOptions};

use crate::counts::Counts;
use crate::location::Location;
use crate::outgoing::{Outgoing, Place, Said, Sendable};
use crate::problem::{malformed, of_peer, too_late};
use crate::transport::{Message, Received, Transport};

/// What a server admits, and how long it waits.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    device: Option<Device>,
    write: WriteOptions,
    patience: Option<Duration>,
    linger: Option<Duration>,
    most_kept: u64,
    trusts: bool,
}

impl ServerOptions {
    /// The defaults: bodies are packed, nothing is waited for longer than 30 seconds but what the
    /// client has to free, and at most 1 GiB is kept for a client.
    pub fn new() -> Self {
        Self {
            device: None,
            write: WriteOptions::new(),
            patience: Some(Duration::from_secs(30)),
            linger: None,
            most_kept: 1 << 30,
            trusts: false,
        }
    }

    /// Sets the device in whose memory the client reads the bodies. Batches that lie elsewhere, or
    /// in memory that other processes cannot open, are copied there.
    ///
    /// The [location](Location::sharing) has to name the same device.
    #[must_use]
    pub fn sharing(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Sets how messages are written. [`WriteOptions::compression`] is for packed bodies.
    #[must_use]
    pub fn write(mut self, options: WriteOptions) -> Self {
        self.write = options;
        self
    }

    /// Sets how long the client may take to ask for its stream, and to read what it is sent. With
    /// `None` that is as long as the connection lasts.
    #[must_use]
    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how long the server waits for the client to free something, where too much is kept or
    /// the stream is at its end. By default as long as the connection lasts.
    ///
    /// A `free_data` that is lost is never told again: without a limit its memory is kept until the
    /// client ends the connection.
    #[must_use]
    pub fn linger(mut self, linger: Option<Duration>) -> Self {
        self.linger = linger;
        self
    }

    /// Sets how many bytes are kept for the client before the server waits. One message more is
    /// always sent.
    #[must_use]
    pub fn most_kept(mut self, bytes: u64) -> Self {
        self.most_kept = bytes;
        self
    }

    /// These options, with which also memory of devices is shared whose
    /// [sharing needs trust](Device::sharing_needs_trust). Other servers pack it.
    ///
    /// # Safety
    /// UNS-38, where the server is the sender: the client, and every process to which it gives the
    /// memory, writes to no memory that it is sent.
    #[must_use]
    pub unsafe fn trusting(mut self) -> Self {
        self.trusts = true;
        self
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Serves one client over one connection.
pub struct Server {
    transport: Box<dyn Transport>,
    outgoing: Outgoing<MessageApart>,
    options: ServerOptions,
    /// The queue whose copies can be opened by other processes.
    shareable: Option<Queue>,
    counts: Counts,
}

/// The most bytes of a message of a client.
const MOST_SAID: u64 = 64 << 10;

/// How many repetitions are passed over before the server goes on.
const MOST_REPEATED: u64 = 1024;

/// The most bytes of a ticket.
const MOST_TICKET: usize = 32 << 10;

impl Server {
    /// Returns a server at one end of a connection, with the tags of the location.
    ///
    /// # Errors
    /// Those of opening a queue on the device that [shares](ServerOptions::sharing).
    pub fn new(
        transport: impl Transport + 'static,
        location: &Location,
        options: ServerOptions,
    ) -> Result<Self> {
        let shares = |device: &&Device| {
            transport.carries_memory()
                && location.free_data.is_some()
                && location.is_domain_of(device)
                && (options.trusts || !device.sharing_needs_trust())
        };
        let device = options.device.as_ref().filter(shares);
        let shareable = device.map(|device| device.shareable()?.open_queue()).transpose()?;
        let outgoing = Outgoing::new(location.want_data, location.free_data, MOST_TICKET);
        let (transport, counts) = (Box::new(transport), Counts::default());
        Ok(Self { transport, outgoing, options, shareable, counts })
    }

    /// Waits for the client's ticket, and sends the stream that `find` makes of it. Returns when
    /// the client has freed all of it, or has ended the connection after the end of the stream.
    ///
    /// # Errors
    /// [`Peer`](ErrorKind::Peer): the client has gone before the end of the stream.
    /// [`TimedOut`](ErrorKind::TimedOut): it took longer than the options say.
    /// [`Malformed`](ErrorKind::Malformed): it broke the protocol.
    /// [`InvalidArgument`](ErrorKind::InvalidArgument): this thread is [in a
    /// release](deferred::require_no_release), and the server might wait for what the thread would
    /// release next. Errors of `find` and of the stream. In each case nothing is kept
    /// afterwards, and the client sees the end of the connection: the protocol has no message that
    /// tells an error.
    pub fn serve(mut self, find: impl FnOnce(&[u8]) -> Result<ArrayStream>) -> Result<Counts> {
        deferred::require_no_release("serve")?;
        let ticket = self.wait_for_request()?;
        let stream = find(&ticket)?;
        let mut encoder = Encoder::new(stream.schema(), self.options.write)?;
        self.send_header(&encoder.schema_message()?)?;
        for array in stream {
            self.send_batch(&Batch::try_from(array?)?, &mut encoder)?;
        }
        let end = self.outgoing.end();
        self.send(&end)?;
        self.transport.flush(self.options.patience)?;
        self.until(|outgoing| outgoing.kept() == 0, true)?;
        Ok(Counts { repeated: self.outgoing.repeated, ..self.counts })
    }

    fn wait_for_request(&mut self) -> Result<Vec<u8>> {
        match self.transport.receive(MOST_SAID, self.options.patience)? {
            Received::Message(message) => match self.outgoing.take(message)? {
                Said::Request(ticket) => Ok(ticket),
                _ => Err(malformed("a client begins with its ticket")),
            },
            Received::Nothing => Err(too_late("no client has asked for a stream")),
            Received::End => Err(of_peer("the client has gone without asking for a stream")),
        }
    }

    fn send(&self, message: &Message) -> Result<()> {
        self.transport.send(message, self.options.patience)
    }

    /// Takes in what the client says until `holds`. At the end of the stream, the client may end
    /// the connection.
    fn until(
        &mut self,
        holds: impl Fn(&Outgoing<MessageApart>) -> bool,
        is_end: bool,
    ) -> Result<()> {
        let end = self.options.linger.and_then(|linger| Instant::now().checked_add(linger));
        let most_repeated = self.outgoing.repeated.saturating_add(MOST_REPEATED);
        loop {
            let is_done = holds(&self.outgoing);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let timeout = if is_done { Some(Duration::ZERO) } else { left };
            match self.transport.receive(MOST_SAID, timeout)? {
                Received::Message(message) => {
                    let said = self.outgoing.take(message)?;
                    if let Said::Freed(owners) = said {
                        self.counts.freed += owners.len() as u64;
                    }
                    if self.outgoing.repeated <= most_repeated {
                        continue;
                    }
                    if is_done {
                        return Ok(());
                    }
                    if left.is_some_and(|left| left.is_zero()) {
                        return Err(self.not_freed());
                    }
                }
                Received::Nothing | Received::End if is_done && is_end => return Ok(()),
                Received::Nothing if is_done => return Ok(()),
                Received::Nothing => return Err(self.not_freed()),
                Received::End if is_end => return Ok(()),
                Received::End => {
                    return Err(of_peer("the client has gone before the end of the stream"));
                }
            }
        }
    }

    fn not_freed(&self) -> Error {
        let (kept, bytes) = (self.outgoing.kept(), self.outgoing.kept_bytes());
        too_late(format!("the client has not freed {kept} bodies, {bytes} bytes"))
    }

    fn send_header(&mut self, header: &[u8]) -> Result<u32> {
        let (sequence, message) = self.outgoing.metadata(header);
        self.send(&message)?;
        self.counts.messages += 1;
        self.counts.header_bytes += header.len() as u64;
        Ok(sequence)
    }

    fn send_batch(&mut self, batch: &Batch, encoder: &mut Encoder) -> Result<()> {
        let most = self.options.most_kept;
        self.until(|outgoing| outgoing.kept_bytes() <= most, false)?;
        if let Some(queue) = self.shareable.clone() {
            for is_copied in [false, true] {
                let copy = is_copied.then(|| in_shareable_memory(batch, &queue)).transpose()?;
                let batch = copy.as_ref().unwrap_or(batch);
                if batch.device() != queue.device().id() {
                    continue;
                }
                let messages = match encoder.encode_apart(batch) {
                    Ok(messages) => messages,
                    Err(error) if error.kind() == ErrorKind::Unsupported => continue,
                    Err(error) => return Err(error),
                };
                batch.as_array().wait()?;
                let places: Option<Vec<_>> = messages
                    .iter()
                    .map(|message| Places::of(message, &queue).transpose())
                    .collect();
                if let Some(places) = places {
                    let places = places.into_iter().collect::<Result<Vec<_>>>()?;
                    let both = messages.into_iter().zip(places);
                    return both.into_iter().try_for_each(|(message, places)| {
                        self.send_addresses(message, places, queue.device())
                    });
                }
            }
        }
        for message in encoder.encode(batch)? {
            let body = message.body_bytes()?;
            let sequence = self.send_header(message.header())?;
            self.counts.packed_bytes += body.len() as u64;
            self.send(&Outgoing::<MessageApart>::packed(sequence, body))?;
        }
        Ok(())
    }

    fn send_addresses(
        &mut self,
        message: MessageApart,
        places: Places,
        device: &Device,
    ) -> Result<()> {
        let mut regions: Vec<Sendable> = Vec::with_capacity(places.allocations.len());
        for place in &places.allocations {
            // SAFETY: UNS-36: `find_shared` named the allocation, which the message keeps. What can
            // be fixed was allocated for one use: its memory was shared when the array was made,
            // and nobody writes to shared memory (SAF-3). Where sharing needs trust, the client
            // does not write to the memory (UNS-38).
            let handle = unsafe { device.export_shared(place.memory, place.can_be_fixed) }?;
            regions.push((handle, place.len));
        }
        let sequence = self.send_header(message.header())?;
        let before = self.outgoing.kept_bytes();
        let body = self.outgoing.addresses(sequence, regions, &places.buffers, message)?;
        self.counts.shared_bytes += self.outgoing.kept_bytes() - before;
        self.send(&body)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.transport)
    }
}

/// Copies a batch to a device whose memory can be shared, also where it is there already.
fn in_shareable_memory(batch: &Batch, queue: &Queue) -> Result<Batch> {
    Batch::try_from(batch.as_array().copy_with(queue, &Options::new().always(true))?)
}

/// Where the buffers of a message lie.
struct Places {
    allocations: Vec<SharedPlace>,
    buffers: Vec<Option<Place>>,
}

impl Places {
    /// `None` where a buffer lies in memory that other processes cannot open, or the message in too
    /// many allocations.
    fn of(message: &MessageApart, queue: &Queue) -> Result<Option<Self>> {
        let device = queue.device();
        let mut numbers = HashMap::new();
        let mut places = Self { allocations: Vec::new(), buffers: Vec::new() };
        let mut last: Option<View> = None;
        for buffer in message.buffers() {
            let Some(buffer) = buffer else {
                places.buffers.push(None);
                continue;
            };
            let view = match last.take() {
                Some(view) if view.array().is_same(buffer.array()) => view,
                _ => buffer.array().on(queue)?,
            };
            let place = view.buffer(buffer.index()).location().spot().base;
            last = Some(view);
            let Some(found) = device.find_shared(place) else { return Ok(None) };
            let next = places.allocations.len();
            let number = *numbers.entry(found.memory.bits()).or_insert(next);
            if number == next {
                places.allocations.push(found);
            }
            places.buffers.push(Some((number, found.offset, buffer.len())));
        }
        Ok((places.allocations.len() <= Message::MOST_REGIONS).then_some(places))
    }
}
