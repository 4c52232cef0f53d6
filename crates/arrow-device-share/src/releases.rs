//! [`Backchannel`]: what a receiver tells its sender.
//!
//! Arrays are released wherever their last use ends, and a release waits for nothing. A message to
//! the sender is therefore noted under a lock, and sent as far as the system takes it at once. The
//! rest is sent with the next message, or by the keeper's thread once the sender has read. Releases
//! that could not be sent are put together, up to [`PER_FRAME`] in one frame.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use arrow_device::driver::ForkMutex;

use crate::frames::{FrameKind, append, send_some};
use crate::keeper::{self, Kept};
use crate::process::Process;
use crate::wire::Writer;

/// The way back to the sender. The connection stays open as long as an array that came by it is
/// used.
#[derive(Debug)]
pub(crate) struct Backchannel {
    socket: UnixStream,
    to_tell: ForkMutex<ToTell>,
    /// The process that the connection belongs to: a child of `fork` tells nothing.
    process: Process,
}

#[derive(Debug, Default)]
struct ToTell {
    /// Bytes of frames that were begun.
    bytes: Vec<u8>,
    /// How many of them are sent.
    sent: usize,
    /// Arrays whose release is not in `bytes` yet.
    released: Vec<u64>,
    /// Whether the keeper will send the rest.
    is_kept: bool,
    /// Whether the sender has gone.
    is_over: bool,
}

/// How many releases go into one frame.
const PER_FRAME: usize = 1000;

impl ToTell {
    /// Sends what the system takes. Returns whether nothing is left.
    fn flush(&mut self, socket: BorrowedFd<'_>) -> bool {
        loop {
            if self.is_over {
                (self.bytes, self.released, self.sent) = (Vec::new(), Vec::new(), 0);
                return true;
            }
            let rest = self.bytes.get(self.sent..).unwrap_or_default();
            if !rest.is_empty() {
                match send_some(socket, rest) {
                    Ok(0) => return false,
                    Ok(sent) => self.sent += sent,
                    Err(_) => self.is_over = true,
                }
                continue;
            }
            self.bytes.clear();
            self.sent = 0;
            if self.released.is_empty() {
                return true;
            }
            let from = self.released.len().saturating_sub(PER_FRAME);
            let mut body = Writer::default();
            self.released.drain(from..).for_each(|number| body.u64(number));
            append(&mut self.bytes, FrameKind::Released, &body.0);
        }
    }
}

impl Backchannel {
    pub(crate) fn new(socket: UnixStream) -> Arc<Self> {
        let to_tell = ForkMutex::new(ToTell::default());
        Arc::new(Self { socket, to_tell, process: Process::this() })
    }

    /// Whether the connection is one of this process, and not of a parent.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Tells the sender that nothing uses the array of this number any more.
    pub(crate) fn released(self: &Arc<Self>, number: u64) {
        self.tell(|to_tell| to_tell.released.push(number));
    }

    /// Tells the sender that `count` more arrays are wanted.
    pub(crate) fn wanted(self: &Arc<Self>, count: u32) {
        self.tell(|to_tell| append(&mut to_tell.bytes, FrameKind::Wanted, &count.to_le_bytes()));
    }

    fn tell(self: &Arc<Self>, what: impl FnOnce(&mut ToTell)) {
        if !self.is_of_this_process() {
            return;
        }
        let Ok(mut to_tell) = self.to_tell.lock() else { return };
        what(&mut to_tell);
        let is_told = to_tell.flush(self.socket());
        if !is_told && !std::mem::replace(&mut to_tell.is_kept, true) {
            drop(to_tell);
            keeper::keep(Kept::Backchannel(self.clone()));
        }
    }

    /// Sends what the system takes now. Returns whether nothing is left.
    pub(crate) fn flush(&self) -> bool {
        let Ok(mut to_tell) = self.to_tell.lock() else { return true };
        let is_told = to_tell.flush(self.socket());
        to_tell.is_kept = !is_told;
        is_told
    }
}

/// One array of a sender, as long as anything here uses it.
#[derive(Debug)]
pub(crate) struct Borrowed {
    pub(crate) number: u64,
    pub(crate) sender: Arc<Backchannel>,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.sender.released(self.number);
    }
}
