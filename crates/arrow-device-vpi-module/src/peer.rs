//! The connection to the host program.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use arrow_device_vpi_protocol::{Answer, LONGEST, Malformed, Request};

/// A write to a host that is gone is an error. Without the flag it ends the simulator, which leaves
/// SIGPIPE as it was.
#[cfg(not(target_vendor = "apple"))]
const WITHOUT_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
/// Apple's systems have an option of the socket instead, which the standard library sets.
#[cfg(target_vendor = "apple")]
const WITHOUT_SIGNAL: libc::c_int = 0;

/// Where the host is.
pub(crate) enum Place {
    /// At the other end of the standard input.
    Input,
    /// It connects to this socket.
    Listener(UnixListener, PathBuf),
    /// At the other end of this socket, until it was taken.
    Connected(Option<UnixStream>),
}

impl Place {
    /// The place that the environment names.
    pub(crate) fn named(name: &std::ffi::OsStr) -> io::Result<Self> {
        if name == "-" {
            return Ok(Self::Input);
        }
        Self::listening(PathBuf::from(name))
    }

    /// A new socket that hosts connect to.
    pub(crate) fn listening(path: PathBuf) -> io::Result<Self> {
        UnixListener::bind(&path).map(|listener| Self::Listener(listener, path))
    }

    /// Waits for the host. `None` where there can be none any more. A signal is an error of the
    /// kind `Interrupted`.
    pub(crate) fn connect(&mut self, is_first: bool) -> io::Result<Option<Peer>> {
        match self {
            Self::Input if is_first => {
                // SAFETY: whoever named this place gave the process a socket as its standard input,
                // which nobody else uses or closes: the simulator reads it only when somebody asks
                // for its command line. The first call is the only one that comes here.
                let stream = unsafe { UnixStream::from_raw_fd(0) };
                Ok(Some(Peer(stream)))
            }
            Self::Input => Ok(None),
            Self::Connected(stream) => Ok(stream.take().map(Peer)),
            Self::Listener(listener, _) => {
                wait_for(listener)?;
                listener.accept().map(|(stream, _)| Some(Peer(stream)))
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Self::Listener(_, path) = self {
            // Where the file cannot be removed, the next simulation with this path finds the path
            // taken, and prints that.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The host program.
pub(crate) struct Peer(UnixStream);

impl Peer {
    /// Waits for a request. `None` where the host has gone. A signal that comes before the request
    /// is an error of the kind `Interrupted`.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Request>> {
        wait_for(&self.0)?;
        let Some((kind, body)) =
            arrow_device_vpi_protocol::receive(&mut Patient(&self.0), LONGEST.into())?
        else {
            return Ok(None);
        };
        Ok(Some(Request::decode(kind, &body)?))
    }

    pub(crate) fn send(&mut self, answer: &Answer) -> io::Result<()> {
        arrow_device_vpi_protocol::send(&mut Quiet(&self.0), &answer.encode())
    }

    /// Whether the host has closed its end. A host that has sent something, although it was to
    /// wait, counts as there: the bytes are read with the next request.
    pub(crate) fn has_gone(&self) -> bool {
        let mut byte = 0_u8;
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let place = (&raw mut byte).cast();
        // SAFETY: the descriptor is open, and there is room for one byte (POSIX, `recv`).
        let received = unsafe { libc::recv(self.0.as_raw_fd(), place, 1, flags) };
        let would_wait = || {
            let error = io::Error::last_os_error().kind();
            matches!(error, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        };
        received == 0 || received < 0 && !would_wait()
    }
}

/// Waits until a descriptor can be read. A signal is an error: whoever has sent it wants the
/// simulator to do something.
fn wait_for(descriptor: &impl AsRawFd) -> io::Result<()> {
    let mut polled = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the list has one entry, whose descriptor the caller keeps open (POSIX, `poll`).
    match unsafe { libc::poll(&raw mut polled, 1, -1) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Reads on after a signal.
struct Patient<'a>(&'a UnixStream);

impl Read for Patient<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// Writes without a signal.
struct Quiet<'a>(&'a UnixStream);

impl Write for Quiet<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (place, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the descriptor is open, and the bytes are there (POSIX, `send`).
        let sent = unsafe { libc::send(self.0.as_raw_fd(), place, len, WITHOUT_SIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether an error says that the host has sent what is no request.
pub(crate) fn is_malformed(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<Malformed>())
}
