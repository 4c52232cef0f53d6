//! [`UnixTransport`]: messages over a Unix socket, with the descriptors of memory beside them.
//!
//! A message is a frame: a header of 32 bytes, a table of the regions, and the bytes. The header:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | the letters `ADD1` |
//! | 4 | 1 where there is a tag, otherwise 0 |
//! | 5 | 0 |
//! | 6 to 7 | how many regions |
//! | 8 to 15 | the tag, or 0 |
//! | 16 to 19 | how many bytes the table has |
//! | 20 to 23 | 0 |
//! | 24 to 31 | how many bytes the message has |
//!
//! The table has for each region its base (8 bytes) and its length (8 bytes), whether it has a
//! descriptor (1 byte: 0 or 1), the length of its note (2 bytes), and the note. The descriptors are
//! sent with the first byte of the header, in the order of the regions. All numbers are
//! little-endian.
//!
//! What must stay true: a frame is sent whole, or the connection ends; and memory is taken as bytes
//! arrive, so that a length that is only claimed costs no more than [`STEP`] bytes.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::driver::MemoryHandle;
use arrow_device::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown,
};

use crate::location::Location;
use crate::problem::{failed, limited, malformed, of_peer, unsupported};
use crate::transport::{Message, Received, Region, Transport};

const MAGIC: [u8; 4] = *b"ADD1";

const HEADER: usize = 32;

/// The bytes of a region in the table, without its note.
const ENTRY: usize = 8 + 8 + 1 + 2;

/// The most bytes of memory that are taken at once because the other side claims a length.
const STEP: usize = 1 << 20;

/// One end of a connected Unix socket, between two processes of one machine. Carries memory.
///
/// ```no_run
/// use std::os::unix::net::UnixListener;
///
/// use arrow_device_dissociated::{Location, UnixTransport};
///
/// let listener = UnixListener::bind("/run/data.sock")?;
/// let location = Location::new("unix:///run/data.sock");
/// // In the server:
/// let here = UnixTransport::new(listener.accept()?.0);
/// // In the client:
/// let there = UnixTransport::connect(&location)?;
/// # let _ = (here, there);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UnixTransport {
    socket: UnixStream,
    /// Held while a frame is sent.
    writing: Mutex<()>,
    reading: Mutex<Frame>,
}

/// The frame that is being received.
#[derive(Debug, Default)]
struct Frame {
    header: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    /// The table and the bytes of the message.
    rest: Vec<u8>,
    is_broken: bool,
}

impl UnixTransport {
    /// Returns the transport over a connected socket.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, writing: Mutex::default(), reading: Mutex::default() }
    }

    /// Connects to the socket of a location: `unix://` and the path.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): another scheme. An error of the system: nobody
    /// listens there.
    pub fn connect(location: &Location) -> Result<Self> {
        let path = location.address.strip_prefix("unix://").ok_or_else(|| {
            let address = &location.address;
            unsupported(format!("`{address}` is no location of a Unix socket, as unix:///path is"))
        })?;
        let socket = UnixStream::connect(Path::new(path));
        Ok(Self::new(socket.map_err(|error| failed(&format!("connect to {path}"), error))?))
    }

    /// Receives bytes into a part of a frame. `None` where the time is over.
    fn fill(
        &self,
        to: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
        end: End,
    ) -> Result<Option<usize>> {
        loop {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Message::MOST_REGIONS))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let mut parts = [IoSliceMut::new(to)];
            match rustix::net::recvmsg(&self.socket, &mut parts, &mut beside, flags) {
                Ok(received) => {
                    for message in beside.drain() {
                        if let RecvAncillaryMessage::ScmRights(came) = message {
                            descriptors.extend(came);
                        }
                    }
                    if received.flags.contains(ReturnFlags::CTRUNC)
                        || descriptors.len() > Message::MOST_REGIONS
                    {
                        return Err(limited("descriptors were lost, or too many came"));
                    }
                    return Ok(Some(received.bytes));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !end.wait(self.socket.as_fd(), PollFlags::IN)? {
                        return Ok(None);
                    }
                }
                Err(Errno::CONNRESET) => return Ok(Some(0)),
                Err(error) => return Err(failed("receive", error)),
            }
        }
    }

    /// Receives the rest of a frame. `None` where the time is over or nothing more comes.
    fn receive_into(&self, frame: &mut Frame, most: u64, end: End) -> Result<Received> {
        while frame.header.len() < HEADER {
            let mut bytes = [0; HEADER];
            let room = HEADER - frame.header.len();
            let to = bytes.get_mut(..room).unwrap_or_default();
            match self.fill(to, &mut frame.descriptors, end)? {
                None => return Ok(Received::Nothing),
                Some(0) if frame.header.is_empty() => return Ok(Received::End),
                Some(0) => return Err(cut_off()),
                Some(came) => frame.header.extend(bytes.get(..came).unwrap_or_default()),
            }
        }
        let parts = Parts::read(&frame.header, most)?;
        let whole = parts.table + parts.len;
        while frame.rest.len() < whole {
            let (start, room) = (frame.rest.len(), (whole - frame.rest.len()).min(STEP));
            frame.rest.try_reserve(room).map_err(|error| failed("receive", error))?;
            frame.rest.resize(start + room, 0);
            let to = frame.rest.get_mut(start..).unwrap_or_default();
            let came = self.fill(to, &mut frame.descriptors, end);
            frame.rest.truncate(start + came.as_ref().map_or(0, |came| came.unwrap_or(0)));
            match came? {
                None => return Ok(Received::Nothing),
                Some(0) => return Err(cut_off()),
                Some(_) => {}
            }
        }
        let Frame { mut rest, descriptors, .. } = std::mem::take(frame);
        let bytes = rest.split_off(parts.table);
        let regions = regions(&rest, parts.regions, descriptors)?;
        Ok(Received::Message(Message { tag: parts.tag, bytes, regions }))
    }

    fn send_all(&self, parts: &[&[u8]], descriptors: &[BorrowedFd<'_>], end: End) -> Result<()> {
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let mut sent = 0;
        while sent < whole {
            let mut skip = sent;
            let left: Vec<IoSlice<'_>> = parts
                .iter()
                .filter_map(|part| {
                    let from = skip.min(part.len());
                    skip -= from;
                    part.get(from..).filter(|rest| !rest.is_empty()).map(IoSlice::new)
                })
                .collect();
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Message::MOST_REGIONS))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            if sent == 0 && !descriptors.is_empty() {
                beside.push(SendAncillaryMessage::ScmRights(descriptors));
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let problem = match rustix::net::sendmsg(&self.socket, &left, &mut beside, flags) {
                Ok(more) => {
                    sent += more;
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => match end.wait(self.socket.as_fd(), PollFlags::OUT) {
                    Ok(true) => continue,
                    Ok(false) => {
                        let message = "the other side has not read what was sent before";
                        Error::new(ErrorKind::NotReady, message).during("dissociated IPC")
                    }
                    Err(error) => error,
                },
                Err(Errno::PIPE | Errno::CONNRESET) => of_peer("the other side has gone"),
                Err(error) => failed("send", error),
            };
            if sent > 0 {
                // The other side would take what follows for the rest.
                let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
                return Err(of_peer(format!("a part of a message was sent: {problem}")));
            }
            return Err(problem);
        }
        Ok(())
    }
}

impl Transport for UnixTransport {
    fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()> {
        let count = message.regions.len();
        if count > Message::MOST_REGIONS {
            return Err(limited(format!("a message with {count} regions")));
        }
        let mut table = Vec::with_capacity(count * ENTRY);
        let mut descriptors = Vec::with_capacity(count);
        for Region { base, len, handle } in &message.regions {
            table.extend(base.to_le_bytes());
            table.extend(len.to_le_bytes());
            table.push(handle.descriptor.is_some().into());
            let note = handle.note.get(..MemoryHandle::MAX_NOTE).unwrap_or(&handle.note);
            table.extend((note.len() as u16).to_le_bytes());
            table.extend(note);
            descriptors.extend(handle.descriptor.as_ref().map(|descriptor| descriptor.as_fd()));
        }
        let mut header = MAGIC.to_vec();
        header.extend([message.tag.is_some().into(), 0]);
        header.extend((count as u16).to_le_bytes());
        header.extend(message.tag.unwrap_or(0).to_le_bytes());
        header.extend((table.len() as u32).to_le_bytes());
        header.extend([0; 4]);
        header.extend((message.bytes.len() as u64).to_le_bytes());
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.send_all(&[&header, &table, &message.bytes], &descriptors, End::after(timeout))
    }

    fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received> {
        let mut frame = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if frame.is_broken {
            return Err(of_peer("the connection was given up"));
        }
        let received = self.receive_into(&mut frame, most, End::after(timeout));
        if received.is_err() {
            // Closes descriptors that came and belong to nothing.
            *frame = Frame { is_broken: true, ..Frame::default() };
        }
        received
    }

    fn carries_memory(&self) -> bool {
        true
    }
}

#[cold]
fn cut_off() -> Error {
    of_peer("the connection ended in the middle of a message")
}

/// The end of a wait, `None` where there is none.
#[derive(Clone, Copy)]
struct End(Option<Instant>);

impl End {
    fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// Waits until the socket can be read or written. Returns whether it can.
    fn wait(self, socket: BorrowedFd<'_>, what: PollFlags) -> Result<bool> {
        loop {
            let left = self.0.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut polled = [PollFd::from_borrowed_fd(socket, what)];
            match rustix::event::poll(&mut polled, left.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("wait", error)),
            }
        }
    }
}

/// What a header says.
struct Parts {
    tag: Option<u64>,
    regions: usize,
    table: usize,
    len: usize,
}

impl Parts {
    fn read(header: &[u8], most: u64) -> Result<Self> {
        let wrong = || malformed("what came is no message of this version");
        let (magic, rest) = header.split_first_chunk::<4>().ok_or_else(wrong)?;
        let ([has_tag, zero], rest) = rest.split_first_chunk::<2>().ok_or_else(wrong)?;
        let (regions, rest) = rest.split_first_chunk::<2>().ok_or_else(wrong)?;
        let (tag, rest) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (table, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let (zeros, rest) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        let len = u64::from_le_bytes(*rest.first_chunk::<8>().ok_or_else(wrong)?);
        let tag = u64::from_le_bytes(*tag);
        if *magic != MAGIC || *zero != 0 || *zeros != [0; 4] || *has_tag > 1 {
            return Err(wrong());
        }
        if *has_tag == 0 && tag != 0 {
            return Err(wrong());
        }
        let regions = usize::from(u16::from_le_bytes(*regions));
        let table = u32::from_le_bytes(*table) as usize;
        let room = Message::MOST_REGIONS * (ENTRY + MemoryHandle::MAX_NOTE);
        if len > most || regions > Message::MOST_REGIONS || table > room {
            let message = format!("a message of {len} bytes with {regions} regions, {table} bytes");
            return Err(limited(format!("{message}; {most} bytes are the limit")));
        }
        let len = usize::try_from(len).map_err(|_| limited("a message longer than all memory"))?;
        Ok(Self { tag: (*has_tag == 1).then_some(tag), regions, table, len })
    }
}

fn regions(table: &[u8], count: usize, descriptors: Vec<OwnedFd>) -> Result<Vec<Region>> {
    let wrong = || malformed("the table of regions is broken");
    let mut descriptors = descriptors.into_iter();
    let mut rest = table;
    let mut regions = Vec::with_capacity(count);
    for _ in 0..count {
        let (base, after) = rest.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (len, after) = after.split_first_chunk::<8>().ok_or_else(wrong)?;
        let ([has_descriptor], after) = after.split_first_chunk::<1>().ok_or_else(wrong)?;
        let (note, after) = after.split_first_chunk::<2>().ok_or_else(wrong)?;
        let note = usize::from(u16::from_le_bytes(*note));
        let note = after.split_at_checked(note).filter(|_| note <= MemoryHandle::MAX_NOTE);
        let (note, after) = note.ok_or_else(wrong)?;
        let mut handle = MemoryHandle::default().with_note(note);
        match has_descriptor {
            0 => {}
            1 => {
                let descriptor = descriptors.next();
                let missing = || malformed("a region's descriptor did not come");
                handle.descriptor = Some(Arc::new(descriptor.ok_or_else(missing)?));
            }
            _ => return Err(wrong()),
        }
        let (base, len) = (u64::from_le_bytes(*base), u64::from_le_bytes(*len));
        regions.push(Region { base, len, handle });
        rest = after;
    }
    if !rest.is_empty() {
        return Err(wrong());
    }
    if descriptors.next().is_some() {
        return Err(malformed("there are more descriptors than regions"));
    }
    Ok(regions)
}

impl AsFd for UnixTransport {
    /// The socket. It can be read when a part of a message is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
