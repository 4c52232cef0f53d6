//! [`Client`]: asks for a stream, and reads it.
//!
//! For each message of the stream, a client
//!
//! 1. takes messages of the transport into [`Incoming`] until the next one in order is whole;
//! 2. opens the memory that the addresses of a body lie in, and makes a buffer of each address;
//! 3. decodes the header over the body, or over these buffers.
//!
//! What was made of a body shares a [`Lease`]. When the last of it is gone, after its last use on
//! every queue, the lease tells the server that the addresses are free: at once where the transport
//! has room, otherwise before the client waits again.
//!
//! What must stay true: no number of a message is used before it was checked, and bytes that the
//! server can still change are not read in place, unless the server is trusted.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_device::driver::{ForkMutex, HostAccess, MemoryHandle};
use arrow_device::{
    ArrayStream, Batch, Buffer, DataType, Device, Error, ErrorKind, Queue, Result, Schema,
};
use arrow_device_ipc::{Decoded, Decoder, ReadOptions};

use crate::counts::Counts;
use crate::incoming::{AheadLimits, Body, Incoming, Next};
use crate::location::Location;
use crate::problem::{limited, malformed, of_peer, too_late, unsupported};
use crate::process::Process;
use crate::transport::{Message, Received, Region, Transport};
use crate::wire::{self, AddressList};

/// What a client admits, and how long it waits.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    devices: Vec<Device>,
    read: ReadOptions,
    patience: Option<Duration>,
    largest: u64,
    ahead: AheadLimits,
    trusts: bool,
}

impl ClientOptions {
    /// The defaults: only packed bodies and memory of the host are read, nothing is waited for
    /// longer than 30 seconds, messages and allocations have at most 1 GiB, and at most 256
    /// messages and 1 GiB of them wait for one that comes later.
    pub fn new() -> Self {
        Self {
            devices: vec![Device::host()],
            read: ReadOptions::new(),
            patience: Some(Duration::from_secs(30)),
            largest: 1 << 30,
            ahead: AheadLimits { messages: 256, bytes: 1 << 30 },
            trusts: false,
        }
    }

    /// Sets the devices that open the memory of bodies: the first one whose
    /// [domain](Device::sharing_domain) is that of the location.
    #[must_use]
    pub fn devices(mut self, devices: impl IntoIterator<Item = Device>) -> Self {
        self.devices = devices.into_iter().collect();
        self
    }

    /// Sets how the messages are read.
    #[must_use]
    pub fn read(mut self, options: ReadOptions) -> Self {
        self.read = options;
        self
    }

    /// Sets how long the server may take for the next message, and to read what it is sent. With
    /// `None` that is as long as the connection lasts.
    #[must_use]
    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the most bytes that a message or an allocation may have.
    #[must_use]
    pub fn largest(mut self, bytes: u64) -> Self {
        self.largest = bytes;
        self
    }

    /// Sets how many messages, and how many bytes of them, may come before one that is awaited.
    #[must_use]
    pub fn ahead(mut self, messages: u32, bytes: u64) -> Self {
        self.ahead = AheadLimits { messages: messages.min(1 << 30), bytes };
        self
    }

    /// These options, with which memory is opened that the server can still write to, and memory of
    /// devices whose [sharing needs trust](Device::sharing_needs_trust).
    ///
    /// # Safety
    /// UNS-38, where the server stands for the sender: it writes to no memory whose addresses it
    /// sent, as long as the client has not freed them, and the handles that it sends are those that
    /// its runtime exported.
    #[must_use]
    pub unsafe fn trusting(mut self) -> Self {
        self.trusts = true;
        self
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Asks a server for a stream of batches, and reads it: an iterator of batches.
///
/// Bodies that come as addresses stay where they are, in memory that the server shares, until the
/// last array of them is dropped; packed ones are in host memory. [`on`](Self::on) copies each
/// batch to a queue. Dropping the client ends the stream; what came stays usable, and keeps the
/// connection. An error ends the stream.
pub struct Client {
    link: Arc<Link>,
    incoming: Incoming,
    decoder: Decoder,
    options: ClientOptions,
    /// The device that opens the memory of bodies.
    device: Option<Device>,
    schema: Schema,
    counts: Counts,
    is_over: bool,
}

/// How long the client waits before it looks again for what is to be told. Another thread may free
/// memory meanwhile, and find no room in the transport; and the server may wait for that memory.
const TURN: Duration = Duration::from_millis(100);

/// The connection, and what is to be told.
#[derive(Debug)]
struct Link {
    transport: Box<dyn Transport>,
    free_data: Option<u64>,
    freed: ForkMutex<Vec<u64>>,
    /// A child of `fork` tells nothing, and receives nothing of what its parent waits for.
    process: Process,
}

/// The addresses of a body, which are freed when this is dropped.
#[derive(Debug)]
struct Lease {
    link: Arc<Link>,
    addresses: Vec<u64>,
}

impl Link {
    /// Tells which addresses are free, as far as the transport has room at once.
    fn tell(&self) {
        let Some(tag) = self.free_data else { return };
        if !self.process.is_this() {
            return;
        }
        // Another thread that tells takes in what is added meanwhile.
        loop {
            let Ok(mut freed) = self.freed.lock() else { return };
            if freed.is_empty() {
                return;
            }
            let from = freed.len().saturating_sub(wire::MOST_FREED);
            let some = freed.split_off(from);
            drop(freed);
            let message = Message::tagged(tag, wire::freed(&some));
            match self.transport.send(&message, Some(Duration::ZERO)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotReady => {
                    if let Ok(mut freed) = self.freed.lock() {
                        freed.extend(some);
                    }
                    return;
                }
                // Nobody is there who keeps anything.
                Err(_) => return,
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // In a child of `fork` nothing is told, and a thread of the parent may hold the lock.
        if !self.link.process.is_this() {
            return;
        }
        if let Ok(mut freed) = self.link.freed.lock() {
            freed.append(&mut self.addresses);
        }
        self.link.tell();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Nobody waits in a drop for a server that does not read: it learns from the end of the
        // connection that all is free.
        self.tell();
    }
}

impl Client {
    /// Asks for the stream of a ticket, and waits for its schema.
    ///
    /// # Errors
    /// [`TimedOut`](ErrorKind::TimedOut): no schema came in time. [`Peer`](ErrorKind::Peer): the
    /// server has ended the connection, as it does where it has no such stream.
    pub fn request(
        transport: impl Transport + 'static,
        location: &Location,
        ticket: &[u8],
        options: ClientOptions,
    ) -> Result<Self> {
        let request = Message::tagged(location.want_data, ticket.to_vec());
        transport.send(&request, options.patience)?;
        let device = options.devices.iter().find(|device| location.is_domain_of(device)).cloned();
        let (freed, free_data) = (ForkMutex::default(), location.free_data);
        let (transport, process) = (Box::new(transport), Process::this());
        let link = Arc::new(Link { transport, free_data, freed, process });
        let mut client = Self {
            link,
            incoming: Incoming::new(options.ahead),
            decoder: Decoder::new(options.read.clone()),
            options,
            device,
            schema: Schema::new(DataType::Null)?,
            counts: Counts::default(),
            is_over: false,
        };
        match client.decode_next()? {
            Some(Decoded::Schema) => {}
            _ => return Err(malformed("a stream begins with its schema")),
        }
        let schema = client.decoder.schema().cloned();
        client.schema = schema.ok_or_else(|| malformed("the schema is not there"))?;
        Ok(client)
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What was moved so far.
    pub fn counts(&self) -> Counts {
        Counts { repeated: self.incoming.repeated, ..self.counts }
    }

    /// Returns the batches as a stream on the device of this queue. Each is copied when it is asked
    /// for, and freed once the queue has passed the copy.
    pub fn on(self, queue: &Queue) -> ArrayStream {
        let (schema, queue) = (self.schema.clone(), queue.clone());
        let device = queue.device().id().device_type;
        ArrayStream::new(schema, device, self.map(move |batch| batch?.copy_to(&queue)))
    }

    /// Waits for the next message in order, and decodes it. `None` at the end.
    fn decode_next(&mut self) -> Result<Option<Decoded>> {
        if !self.link.process.is_this() {
            return Err(unsupported("the connection is one of the parent process"));
        }
        let end = self.options.patience.and_then(|patience| Instant::now().checked_add(patience));
        // A server that repeats itself without end does not bring the next message.
        let room = 2 * u64::from(self.options.ahead.messages) + 2;
        let most_repeated = self.incoming.repeated.saturating_add(room);
        loop {
            match self.incoming.next() {
                Some(Next::Message { header, body }) => {
                    return self.decode(&header, body).map(Some);
                }
                Some(Next::End) => return Ok(None),
                None => {}
            }
            self.link.tell();
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let turn = left.map_or(TURN, |left| left.min(TURN));
            match self.link.transport.receive(self.options.largest, Some(turn))? {
                Received::Message(message) => {
                    self.incoming.take(message)?;
                    let is_late = left.is_some_and(|left| left.is_zero());
                    if is_late && self.incoming.repeated > most_repeated {
                        return Err(too_late(self.incoming.missing()));
                    }
                }
                Received::Nothing if left.is_none_or(|left| left > turn) => {}
                Received::Nothing => return Err(too_late(self.incoming.missing())),
                Received::End => {
                    let missing = self.incoming.missing();
                    return Err(of_peer(format!("the server has ended the connection: {missing}")));
                }
            }
        }
    }

    fn decode(&mut self, header: &[u8], body: Option<Body>) -> Result<Decoded> {
        self.counts.messages += 1;
        self.counts.header_bytes += header.len() as u64;
        match body {
            None => self.decoder.decode(header, Buffer::from(Vec::<u8>::new())),
            Some(Body::Packed(bytes)) => {
                self.counts.packed_bytes += bytes.len() as u64;
                self.decoder.decode(header, Buffer::from(bytes))
            }
            Some(Body::Addresses(list, regions)) => {
                let device = self.device.clone().ok_or_else(|| {
                    let message = "none of the client's devices opens the memory of the location";
                    Error::new(ErrorKind::DeviceMissing, message).during("dissociated IPC")
                })?;
                self.counts.shared_bytes += list.total();
                let buffers = self.opened(&device, &list, regions)?;
                self.decoder.decode_apart(header, buffers, device.id())
            }
        }
    }

    /// Makes a buffer of each address.
    fn opened(
        &self,
        device: &Device,
        list: &AddressList,
        mut regions: Vec<Region>,
    ) -> Result<Vec<Option<Buffer>>> {
        if self.link.free_data.is_none() {
            return Err(malformed("addresses come, and the location has no free_data"));
        }
        let mut addresses: Vec<u64> =
            list.buffers.iter().filter(|(_, len)| *len > 0).map(|(address, _)| *address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        // Freed in any case, when nothing of the body is used, also where the body is refused.
        let lease = Arc::new(Lease { link: self.link.clone(), addresses });
        regions.sort_unstable_by_key(|region| region.base);
        let mut last = 0;
        for Region { base, len, .. } in &regions {
            if *base < last {
                return Err(malformed("two regions have the same addresses"));
            }
            last = base.checked_add(*len).ok_or_else(|| malformed("a region has no end"))?;
        }
        let mut opened = Vec::with_capacity(regions.len());
        for Region { base, len, handle } in regions {
            let end = base.saturating_add(len);
            opened.push((base, end, self.open(device, handle, len, &lease)?));
        }
        let buffer = |(address, len): &(u64, u64)| {
            if *len == 0 {
                return Ok(None);
            }
            let behind = opened.partition_point(|(base, ..)| base <= address);
            let region = behind.checked_sub(1).and_then(|number| opened.get(number));
            let end = address.checked_add(*len);
            let inside = region.filter(|(_, last, _)| end.is_some_and(|end| end <= *last));
            let Some((base, _, buffer)) = inside else {
                let message = format!("{len} bytes at {address:#x} lie in none of the regions");
                return Err(malformed(message));
            };
            buffer.slice(address - base, *len).map(Some)
        };
        list.buffers.iter().map(buffer).collect()
    }

    fn open(
        &self,
        device: &Device,
        handle: MemoryHandle,
        len: u64,
        lease: &Arc<Lease>,
    ) -> Result<Buffer> {
        let largest = self.options.largest;
        if len > largest {
            return Err(limited(format!("memory of {len} bytes, and {largest} are the limit")));
        }
        if device.sharing_needs_trust() && !self.options.trusts {
            let message = "the runtime takes what a server says of its memory for true; only a \
                           client that trusts its server opens it";
            return Err(unsupported(message).on_device(device.id()));
        }
        // SAFETY: UNS-37: the server keeps the memory, as it says by its message, until the lease
        // is dropped. A server that lies can change memory that is not fixed. Such a buffer is
        // dropped below, unless the server is trusted, or nothing on the host reads the memory of
        // the device in place. Where sharing needs trust, the server is trusted to have exported
        // what it sent (UNS-38).
        let opened = unsafe { device.open_shared(handle, len, lease.clone()) }?;
        let is_read_in_place = device.properties().host_access == HostAccess::Mapped;
        if opened.is_fixed || self.options.trusts || !is_read_in_place {
            return Ok(opened.buffer);
        }
        Err(unsupported(
            "the server can still write to the memory; trust it, or let it share \
                         memory that no allocator uses again",
        ))
    }
}

impl Iterator for Client {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.decode_next() {
                Ok(Some(Decoded::Batch { batch, .. })) => return Some(Ok(batch)),
                Ok(Some(_)) => {}
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl std::iter::FusedIterator for Client {}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({}, {:?})", self.schema, self.link.transport)
    }
}
