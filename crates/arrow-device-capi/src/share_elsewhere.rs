//! What `share` does where the library shares nothing with other processes: it refuses.

use std::convert::Infallible;
use std::ffi::c_int;
use std::time::Duration;

use arrow_device::{Array, ArrayStream, Device, Error, ErrorKind, Result};

pub(crate) use self::{NoReceiver as Receiver, NoSender as Sender};

/// A sender, of which there is none.
#[derive(Debug)]
pub(crate) struct NoSender(Infallible);

/// A receiver, of which there is none.
#[derive(Debug)]
pub(crate) struct NoReceiver(Infallible);

/// A descriptor that C passed, where there are any.
#[derive(Debug)]
pub(crate) struct Owned {
    #[cfg(unix)]
    _closed_at_the_end: std::os::fd::OwnedFd,
}

#[cold]
fn refused() -> Error {
    let message = "arrays are shared with other processes on Linux alone";
    Error::new(ErrorKind::Unsupported, message).during("share")
}

/// A descriptor that C passed, which is closed with the result.
///
/// # Safety
/// The descriptor is negative, or is open and nobody else's.
#[cfg(unix)]
pub(crate) unsafe fn own(fd: c_int, _name: &str) -> Result<Owned> {
    use std::os::fd::FromRawFd;
    if fd < 0 {
        return Err(refused());
    }
    // SAFETY: the descriptor is open and nobody else's, as the caller promises, which is what
    // `OwnedFd` asks for.
    let fd = unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) };
    Ok(Owned { _closed_at_the_end: fd })
}

/// Refuses every descriptor.
///
/// # Safety
/// Nothing is asked of the caller: the descriptor is not used.
#[cfg(not(unix))]
pub(crate) unsafe fn own(_fd: c_int, _name: &str) -> Result<Owned> {
    Err(refused())
}

pub(crate) fn to_shareable(_array: &Array, _device: &Device) -> Result<Array> {
    Err(refused())
}

pub(crate) fn share(_array: &Array) -> Result<(c_int, Sender)> {
    Err(refused())
}

pub(crate) fn open(_ticket: Owned, _devices: Vec<Device>) -> Result<Array> {
    Err(refused())
}

/// Refuses to make a sender.
///
/// # Safety
/// Nothing is asked of the caller.
pub(crate) unsafe fn new_sender(
    _fd: Owned,
    _is_writable: bool,
    _is_early: bool,
    _trusts: bool,
) -> Result<Sender> {
    Err(refused())
}

pub(crate) fn socket_of(sender: &Sender) -> c_int {
    match sender.0 {}
}

impl NoSender {
    pub(crate) fn send(&self, _array: &Array) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn serve(&self, _stream: ArrayStream) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn held(&self) -> Result<usize> {
        match self.0 {}
    }

    pub(crate) fn wait_until_released(&self, _timeout: Option<Duration>) -> Result<bool> {
        match self.0 {}
    }
}

impl NoReceiver {
    /// Makes no receiver.
    ///
    /// # Safety
    /// Nothing is asked of the caller: no memory is opened.
    pub(crate) unsafe fn new(
        _fd: Owned,
        _devices: Vec<Device>,
        _trusts: bool,
        _passes_on: bool,
    ) -> Result<Self> {
        Err(refused())
    }

    pub(crate) fn take_early(&self, _limit: Duration) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn receive(&self, _timeout: Option<Duration>) -> Result<Option<Array>> {
        match self.0 {}
    }

    pub(crate) fn stream(&self, _ahead: usize) -> Result<ArrayStream> {
        match self.0 {}
    }

    pub(crate) fn socket(&self) -> Result<c_int> {
        match self.0 {}
    }
}
