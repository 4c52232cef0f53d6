//! [`Transport`]: what carries the messages.

use std::fmt;
use std::time::Duration;

use arrow_device::Result;
use arrow_device::driver::MemoryHandle;

/// One end of a connection that carries whole messages, with a tag or without one.
///
/// A transport need not keep the order of messages, and may lose or repeat some: the protocol's
/// numbers tell. A message comes whole or not at all. An end may be used from several threads: an
/// array that is dropped on any thread tells that its memory is free.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends a message. Waits at most `timeout` for the other side to read what was sent before,
    /// without an end where there is none.
    ///
    /// # Errors
    /// [`NotReady`](arrow_device::ErrorKind::NotReady): the time is over and nothing of the message
    /// was sent, so the message can be sent later. [`Peer`](arrow_device::ErrorKind::Peer): the
    /// other side has gone.
    fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()>;

    /// Receives a message of at most `most` bytes. Waits at most `timeout`, without an end where
    /// there is none.
    ///
    /// # Errors
    /// [`LimitExceeded`](arrow_device::ErrorKind::LimitExceeded): a message is longer, for which no
    /// memory was taken. Nothing more is received after an error.
    fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received>;

    /// Waits until what was sent needs this end no longer, at most `timeout`, so that the
    /// connection can be ended. A transport that keeps nothing, as this one by default, does not
    /// wait.
    ///
    /// # Errors
    /// [`NotReady`](arrow_device::ErrorKind::NotReady): the time is over.
    /// [`Peer`](arrow_device::ErrorKind::Peer): the other side has gone without all of it.
    fn flush(&self, _timeout: Option<Duration>) -> Result<()> {
        Ok(())
    }

    /// Whether [regions](Message::regions) come to the other side, which then can open the memory.
    fn carries_memory(&self) -> bool {
        false
    }
}

/// What came.
#[derive(Debug)]
#[non_exhaustive]
pub enum Received {
    /// A message.
    Message(Message),
    /// Nothing before the time was over.
    Nothing,
    /// The other side has ended the connection, and nothing more comes.
    End,
}

/// A message.
#[derive(Debug, Default)]
pub struct Message {
    /// The tag, `None` for a message without one.
    pub tag: Option<u64>,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The memory in which the addresses of the message lie.
    pub regions: Vec<Region>,
}

/// Memory in which addresses lie.
#[derive(Debug)]
pub struct Region {
    /// The address of the first byte.
    pub base: u64,
    /// How many bytes there are.
    pub len: u64,
    /// What the other side opens the memory by.
    pub handle: MemoryHandle,
}

impl Message {
    /// The most regions of a message.
    pub const MOST_REGIONS: usize = 128;

    /// Returns a message without a tag.
    pub fn untagged(bytes: Vec<u8>) -> Self {
        Self { tag: None, bytes, regions: Vec::new() }
    }

    /// Returns a message with a tag.
    pub fn tagged(tag: u64, bytes: Vec<u8>) -> Self {
        Self { tag: Some(tag), bytes, regions: Vec::new() }
    }

    /// Returns the same message once more, with the same descriptors.
    #[must_use]
    pub fn again(&self) -> Self {
        let regions = self.regions.iter().map(|region| {
            let mut handle = MemoryHandle::default().with_note(region.handle.note.clone());
            handle.descriptor.clone_from(&region.handle.descriptor);
            Region { base: region.base, len: region.len, handle }
        });
        Self { tag: self.tag, bytes: self.bytes.clone(), regions: regions.collect() }
    }
}
