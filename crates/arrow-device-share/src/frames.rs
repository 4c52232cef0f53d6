//! Frames: messages of the protocol on a Unix socket, with descriptors beside them.
//!
//! A frame is a header of 16 bytes and a body. The header is the magic number, which has the
//! version in it, the kind, flags, the number of descriptors, the length of the body, and four
//! bytes of zero. The descriptors travel with the bytes of their frame, at most 200 with one call
//! of the system, so a frame with more of them is sent in pieces.
//!
//! A large body does not fit into what the system keeps for a reader that has not come yet. Such a
//! body lies in memory of its own (`memfd`), whose descriptor is the first one of the frame.
//!
//! Reading takes only as much memory as bytes came, and for a body that lies in memory of its own
//! no more than the limits allow.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use arrow_device::driver::SealedFile;
use arrow_device::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown,
};

use crate::problem::{failed, limited, malformed, of_peer};
use crate::wire::Reader;

/// The first four bytes of every frame. The last one is the version.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"ADS1");

/// The length of a header.
const HEADER: usize = 16;

/// The flag of a frame whose body lies in the memory of its first descriptor.
const BODY_ASIDE: u8 = 1;

/// Bodies that are longer lie aside.
const LONGEST_INLINE: usize = 32 << 10;

/// How many descriptors go with one call of the system, which admits 253.
const PER_CALL: usize = 200;

/// How many allocations a frame has descriptors of, at most; two more may be those of the body and
/// of an event. Each call that sends some of them needs a byte of the header, and so many
/// descriptors need fewer calls than a header has bytes.
pub(crate) const MOST_DESCRIPTORS: usize = 2000;

/// How long a body is at most.
pub(crate) const LONGEST_BODY: usize = 64 << 20;

/// How many bytes are asked for with one call.
const AT_ONCE: usize = 16 << 10;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// The schema and the domain of the arrays that follow.
    Schema = 1,
    /// An array.
    Array = 2,
    /// The stream has no more arrays.
    End = 3,
    /// The stream ended with an error, whose text is the body.
    Failed = 4,
    /// The receiver has finished with the arrays of these numbers.
    Released = 5,
    /// The receiver can take this number of further arrays of the stream.
    Wanted = 6,
    /// An array whose data is not there yet. Its first descriptor tells when the data is there.
    Early = 7,
}

impl FrameKind {
    fn of(number: u8) -> Option<Self> {
        const ALL: [FrameKind; 7] = [
            FrameKind::Schema,
            FrameKind::Array,
            FrameKind::End,
            FrameKind::Failed,
            FrameKind::Released,
            FrameKind::Wanted,
            FrameKind::Early,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether it is an array, which has descriptors and is released.
    pub(crate) fn is_array(self) -> bool {
        matches!(self, Self::Array | Self::Early)
    }
}

/// A frame that came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) body: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// What reading came to.
#[derive(Debug)]
pub(crate) enum Came {
    Frame(Frame),
    /// Nothing more is there, and the wait is over.
    Nothing,
    /// The other side has closed the connection.
    End,
}

/// How long to wait for the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    None,
    Until(Instant),
    Forever,
}

impl Patience {
    pub(crate) fn of(timeout: Option<Duration>) -> Self {
        match timeout.map(|timeout| Instant::now().checked_add(timeout)) {
            Some(Some(end)) => Self::Until(end),
            // An end that no clock reaches.
            Some(None) | None => Self::Forever,
        }
    }

    /// How long the wait may still be: `None` where it is over, and within that `None` where it has
    /// no end.
    pub(crate) fn left(self) -> Option<Option<Duration>> {
        match self {
            Self::None => None,
            Self::Until(end) => {
                let left = end.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(Some(left))
            }
            Self::Forever => Some(None),
        }
    }

    /// Waits until a socket can be read or written. Returns whether it can.
    pub(crate) fn wait(self, socket: BorrowedFd<'_>, what: PollFlags) -> Result<bool, Errno> {
        self.wait_for(&mut [PollFd::from_borrowed_fd(socket, what)])
    }

    /// Waits until one of two descriptors can be read. Returns whether one can.
    pub(crate) fn wait_for_either(
        self,
        one: BorrowedFd<'_>,
        other: BorrowedFd<'_>,
    ) -> Result<bool, Errno> {
        self.wait_for(&mut [one, other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)))
    }

    fn wait_for(self, polled: &mut [PollFd<'_>]) -> Result<bool, Errno> {
        loop {
            let Some(left) = self.left() else { return Ok(false) };
            let left = left.and_then(|left| rustix::event::Timespec::try_from(left).ok());
            match rustix::event::poll(polled, left.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Appends a frame without descriptors, whose body is short.
pub(crate) fn append(out: &mut Vec<u8>, kind: FrameKind, body: &[u8]) {
    header(out, kind, 0, 0, body.len());
    out.extend(body);
}

fn header(out: &mut Vec<u8>, kind: FrameKind, flags: u8, descriptors: usize, len: usize) {
    out.extend(MAGIC.to_le_bytes());
    out.extend([kind as u8, flags]);
    out.extend(u16::try_from(descriptors).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    out.extend([0; 4]);
}

/// Refuses a frame that no receiver takes. Nothing of such a frame is sent.
pub(crate) fn require_room(body: usize, descriptors: usize) -> Result<()> {
    let message = if descriptors > MOST_DESCRIPTORS {
        format!(
            "the array lies in {descriptors} allocations, and {MOST_DESCRIPTORS} are the limit of \
             one message; copy the array into one, by `to_shareable`"
        )
    } else if body > LONGEST_BODY {
        format!("a message of {body} bytes, and {LONGEST_BODY} are the limit")
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::LimitExceeded, message).during("send"))
}

/// Sends a frame. An error where the other side has gone, or, without patience, where the system
/// has no room for the frame.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    kind: FrameKind,
    body: &[u8],
    descriptors: &[BorrowedFd<'_>],
    patience: Patience,
) -> Result<()> {
    let is_long = body.len() > LONGEST_INLINE;
    let count = descriptors.len() + usize::from(is_long);
    require_room(body.len(), descriptors.len() - usize::from(kind == FrameKind::Early))?;
    let mut bytes = Vec::with_capacity(HEADER + body.len().min(LONGEST_INLINE));
    if !is_long {
        header(&mut bytes, kind, 0, count, body.len());
        bytes.extend(body);
        return send_bytes(socket, &bytes, descriptors, patience);
    }
    let aside = aside(body).map_err(|error| failed("send", error))?;
    header(&mut bytes, kind, BODY_ASIDE, count, body.len());
    let all: Vec<_> = std::iter::once(aside.as_fd()).chain(descriptors.iter().copied()).collect();
    send_bytes(socket, &bytes, &all, patience)
}

/// The body of a frame in memory of its own, which nobody can change or shorten any more.
fn aside(body: &[u8]) -> Result<OwnedFd, Errno> {
    if !SealedFile::may_have(body.len() as u64) {
        // Writing more would end the process by SIGXFSZ.
        return Err(Errno::FBIG);
    }
    let memory = rustix::fs::memfd_create(
        c"arrow-device-message",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let mut rest = body;
    while !rest.is_empty() {
        let written = rustix::io::write(&memory, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    Ok(memory)
}

/// Sends bytes with their descriptors. Where only a part of them could be sent, or where the other
/// side was not waited for, nothing follows: the other side would take what follows for the rest.
fn send_bytes(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    patience: Patience,
) -> Result<()> {
    let mut left = bytes;
    let sent = send_all(socket, &mut left, descriptors, patience);
    let is_late = sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotReady);
    if is_late || (sent.is_err() && left.len() < bytes.len()) {
        let _ = rustix::net::shutdown(socket, Shutdown::Write);
    }
    sent
}

fn send_all(
    socket: BorrowedFd<'_>,
    bytes: &mut &[u8],
    mut descriptors: &[BorrowedFd<'_>],
    patience: Patience,
) -> Result<()> {
    while !bytes.is_empty() {
        let (now, later) = descriptors.split_at(descriptors.len().min(PER_CALL));
        // Each piece needs a byte, and a header has more bytes than there are pieces.
        let piece = if later.is_empty() { *bytes } else { bytes.get(..1).unwrap_or(*bytes) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PER_CALL))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !now.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(now));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(socket, &[IoSlice::new(piece)], &mut beside, flags) {
            Ok(sent) => {
                *bytes = bytes.get(sent..).unwrap_or_default();
                descriptors = later;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let is_there = patience.wait(socket, PollFlags::OUT);
                if !is_there.map_err(|error| failed("send", error))? {
                    let message = "the other side has not read what was sent before";
                    return Err(Error::new(ErrorKind::NotReady, message).during("send"));
                }
            }
            Err(error) => return Err(failed("send", error)),
        }
    }
    Ok(())
}

/// Sends as many bytes as the system takes at once. Returns how many.
pub(crate) fn send_some(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match rustix::net::send(socket, bytes, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            result => return result,
        }
    }
}

/// Takes frames from the bytes that come.
#[derive(Debug)]
pub(crate) struct FrameReader {
    /// The bytes that came and belong to no frame yet.
    bytes: VecDeque<u8>,
    descriptors: VecDeque<OwnedFd>,
    limits: Limits,
    /// Whether nothing but the beginning of each body is of interest any more.
    only_begins: bool,
}

/// What a frame may have at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) body: usize,
    pub(crate) descriptors: usize,
}

impl FrameReader {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { bytes: VecDeque::new(), descriptors: VecDeque::new(), limits, only_begins: false }
    }

    /// From now on, bodies that lie aside are read as far as the number of an array.
    pub(crate) fn read_only_begins(&mut self) {
        self.only_begins = true;
    }

    /// The next frame.
    pub(crate) fn read(&mut self, socket: BorrowedFd<'_>, patience: Patience) -> Result<Came> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Came::Frame(frame));
            }
            match self.receive(socket) {
                Ok(0) if self.bytes.is_empty() => return Ok(Came::End),
                Ok(0) => {
                    return Err(of_peer(
                        "receive",
                        "the connection ended in the middle of a message",
                    ));
                }
                Ok(_) => {}
                Err(Received::Failed(Errno::INTR)) => {}
                Err(Received::Failed(Errno::AGAIN)) => {
                    let is_there = patience.wait(socket, PollFlags::IN);
                    if !is_there.map_err(|error| failed("receive", error))? {
                        return Ok(Came::Nothing);
                    }
                }
                // The other side closed without reading all that was sent to it.
                Err(Received::Failed(Errno::CONNRESET)) => return Ok(Came::End),
                Err(Received::Failed(error)) => return Err(failed("receive", error)),
                Err(Received::Lost) => {
                    return Err(limited(
                        "descriptors were lost: this process has as many open as it may have",
                    ));
                }
            }
        }
    }

    /// Takes the next frame, if all of it came and was read.
    pub(crate) fn take(&mut self) -> Result<Option<Frame>> {
        if self.bytes.is_empty() && !self.descriptors.is_empty() {
            return Err(malformed("descriptors came that belong to no message"));
        }
        if self.bytes.len() < HEADER {
            return Ok(None);
        }
        let header = self.bytes.make_contiguous().get(..HEADER).unwrap_or_default();
        let mut from = Reader::new(header);
        let (magic, kind, flags) = (from.u32()?, from.u8()?, from.u8()?);
        let (descriptors, len) = (usize::from(from.u16()?), from.u32()? as usize);
        if magic != MAGIC || from.u32()? != 0 {
            return Err(malformed("what came is no message of this version"));
        }
        let kind = FrameKind::of(kind)
            .ok_or_else(|| malformed(format!("no message has the kind {kind}")))?;
        let is_aside = flags & BODY_ASIDE != 0;
        if flags & !BODY_ASIDE != 0 || (is_aside && descriptors == 0) {
            return Err(malformed(format!("a message has the flags {flags:#x}")));
        }
        let Limits { body, descriptors: most } = self.limits;
        if len > body || descriptors > most.saturating_add(usize::from(is_aside)) {
            let message = format!(
                "a message of {len} bytes with {descriptors} descriptors; {body} and {most} are the limits"
            );
            return Err(limited(message));
        }
        let inline = if is_aside { 0 } else { len };
        let has_come = self.bytes.len() >= HEADER + inline;
        if !has_come {
            return Ok(None);
        }
        if self.descriptors.len() < descriptors {
            let there = self.descriptors.len();
            let message = format!("{descriptors} descriptors are announced, and {there} came");
            return Err(malformed(message));
        }
        // Copied as a whole, and not byte by byte.
        let came = self.bytes.make_contiguous().get(HEADER..HEADER + inline);
        let mut body = came.unwrap_or_default().to_vec();
        self.bytes.drain(..HEADER + inline);
        let mut descriptors: Vec<OwnedFd> = self.descriptors.drain(..descriptors).collect();
        if is_aside {
            let most = if self.only_begins { size_of::<u64>() } else { len };
            body = read_aside(&descriptors.remove(0), len, most)?;
        }
        Ok(Some(Frame { kind, body, descriptors }))
    }

    fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Received> {
        let mut bytes = [0; AT_ONCE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_AT_ONCE))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = rustix::net::recvmsg(socket, &mut parts, &mut beside, flags);
        let received = received.map_err(Received::Failed)?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                self.descriptors.extend(came);
            }
        }
        // The system could not give all descriptors, or more came than a frame may have.
        let is_lost = received.flags.contains(ReturnFlags::CTRUNC)
            || self.descriptors.len() > self.limits.descriptors.saturating_add(MOST_AT_ONCE);
        if is_lost {
            return Err(Received::Lost);
        }
        self.bytes.extend(bytes.get(..received.bytes).unwrap_or_default());
        Ok(received.bytes)
    }
}

/// How many descriptors the system gives with one call at most.
const MOST_AT_ONCE: usize = 253;

/// Why nothing was received.
enum Received {
    Failed(Errno),
    /// Descriptors came for which there was no place.
    Lost,
}

/// Reads a body of this length that lies in memory of its own, or its beginning.
fn read_aside(memory: &OwnedFd, len: usize, most: usize) -> Result<Vec<u8>> {
    let is_memory = rustix::fs::fcntl_get_seals(memory)
        .is_ok_and(|seals| seals.contains(SealFlags::SHRINK | SealFlags::WRITE));
    if !is_memory {
        return Err(malformed("the body of a message does not lie in sealed memory"));
    }
    let status = rustix::fs::fstat(memory).map_err(|error| failed("receive", error))?;
    if u64::try_from(status.st_size) != Ok(len as u64) {
        let message = format!("a body of {len} bytes lies in memory of {}", status.st_size);
        return Err(malformed(message));
    }
    let mut body = vec![0; len.min(most)];
    let mut read = 0;
    while let Some(rest) = body.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(memory, rest, read as u64) {
            Ok(0) => return Err(malformed("the body of a message ends early")),
            Ok(more) => read += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed("receive", error)),
        }
    }
    Ok(body)
}
