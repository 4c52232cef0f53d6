//! One array as one descriptor.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use arrow_device::{Array, Device, Error, ErrorKind, Result};

use rustix::io::Errno;

use crate::problem::failed;
use crate::{Receiver, Sender};

/// Shares one array with whoever gets the returned descriptor, the ticket.
///
/// The ticket is one end of a socket, in which the message about the array waits already. Send the
/// ticket to another process in any way that carries descriptors, or let a child inherit it.
/// [`open`] makes the array, once for each ticket. Until then, and as long as the other process
/// uses the array, the [`Sender`] holds it. If all copies of the ticket are closed without having
/// been opened, the array is released as well.
///
/// Neither this nor sending the ticket waits for the other process.
pub fn share(array: &Array) -> Result<(OwnedFd, Sender)> {
    let (here, ticket) =
        UnixStream::pair().map_err(|error| match Errno::from_io_error(&error) {
            Some(error) => failed("share", error),
            None => Error::other(error),
        })?;
    let sender = Sender::new(here);
    sender.send_at_once(array)?;
    Ok((ticket.into(), sender))
}

/// Opens the array of a ticket that another process made by [`share`]. Never waits.
///
/// The memory is opened by the first of these devices whose
/// [domain](arrow_device::Device::sharing_domain) is that of the memory.
pub fn open(ticket: OwnedFd, devices: impl IntoIterator<Item = Device>) -> Result<Array> {
    let mut receiver = Receiver::new(UnixStream::from(ticket), devices);
    match receiver.receive_at_once() {
        Ok(Some(array)) => Ok(array),
        Ok(None) => Err(without_array()),
        Err(error) if error.kind() == ErrorKind::TimedOut => Err(without_array()),
        Err(error) => Err(error),
    }
}

fn without_array() -> Error {
    let message = "the ticket has no array, or was opened before";
    Error::new(ErrorKind::InvalidArgument, message).during("receive")
}
