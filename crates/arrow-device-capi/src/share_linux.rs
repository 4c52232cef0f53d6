//! What `share` does on Linux: the crate `arrow-device-share`, with descriptors as C has them.

use std::ffi::c_int;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_device::driver::Turns;
use arrow_device::{Array, ArrayStream, Device, Error, Result};
pub(crate) use arrow_device_share::{Sender, open, to_shareable};

use crate::call::invalid;

/// A descriptor that C passed, which is closed with the result.
///
/// # Safety
/// The descriptor is negative, or is open and nobody else's.
pub(crate) unsafe fn own(fd: c_int, name: &str) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(invalid(format!("`{name}` is {fd}, which is no descriptor")));
    }
    // SAFETY: the descriptor is open and nobody else's, as the caller promises, which is what
    // `OwnedFd` asks for.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The ticket of an array, which is the caller's, and its sender.
pub(crate) fn share(array: &Array) -> Result<(c_int, Sender)> {
    let (ticket, sender) = arrow_device_share::share(array)?;
    Ok((ticket.into_raw_fd(), sender))
}

/// # Safety
/// UNS-38, where the sender trusts.
pub(crate) unsafe fn new_sender(
    fd: OwnedFd,
    is_writable: bool,
    is_early: bool,
    trusts: bool,
) -> Result<Sender> {
    let mut sender = Sender::new(UnixStream::from(fd));
    if is_writable {
        sender = sender.without_fixing();
    }
    if is_early {
        sender = sender.early();
    }
    if trusts {
        // SAFETY: UNS-38, which the caller promises.
        sender = unsafe { sender.trusting() };
    }
    Ok(sender)
}

pub(crate) fn socket_of(sender: &Sender) -> c_int {
    sender.as_fd().as_raw_fd()
}

/// A receiver that several threads may call. Those that wait for arrays take turns; which socket it
/// has is told at any time.
pub(crate) struct Receiver {
    /// `None` after the receiver has become a stream.
    receiver: Turns<Option<arrow_device_share::Receiver>>,
    socket: c_int,
    is_empty: AtomicBool,
}

/// What errors call a receiver.
const RECEIVER: &str = "the receiver";

impl Receiver {
    /// # Safety
    /// UNS-38, where the receiver trusts.
    pub(crate) unsafe fn new(
        fd: OwnedFd,
        devices: Vec<Device>,
        trusts: bool,
        passes_on: bool,
    ) -> Result<Self> {
        let socket = fd.as_raw_fd();
        let mut receiver = arrow_device_share::Receiver::new(UnixStream::from(fd), devices);
        if trusts {
            // SAFETY: UNS-38, which the caller promises.
            receiver = unsafe { receiver.trusting() };
        }
        if passes_on {
            receiver = receiver.passing_on();
        }
        let receiver = Turns::new(Some(receiver));
        Ok(Self { receiver, socket, is_empty: AtomicBool::new(false) })
    }

    pub(crate) fn take_early(&self, limit: Duration) -> Result<()> {
        let mut turn = self.receiver.take_turn(RECEIVER)?;
        let receiver = turn.take().ok_or_else(empty)?;
        *turn = Some(receiver.taking_early(limit));
        Ok(())
    }

    pub(crate) fn receive(&self, timeout: Option<Duration>) -> Result<Option<Array>> {
        let mut turn = self.receiver.take_turn(RECEIVER)?;
        let receiver = turn.as_mut().ok_or_else(empty)?;
        match timeout {
            None => receiver.receive(),
            Some(timeout) => receiver.receive_within(timeout),
        }
    }

    pub(crate) fn stream(&self, ahead: usize) -> Result<ArrayStream> {
        let mut turn = self.receiver.take_turn(RECEIVER)?;
        let receiver = turn.take().ok_or_else(empty)?;
        self.is_empty.store(true, Ordering::Release);
        receiver.into_stream(ahead)
    }

    pub(crate) fn socket(&self) -> Result<c_int> {
        if self.is_empty.load(Ordering::Acquire) { Err(empty()) } else { Ok(self.socket) }
    }
}

fn empty() -> Error {
    invalid("the receiver has become a stream")
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("socket", &self.socket).finish_non_exhaustive()
    }
}
