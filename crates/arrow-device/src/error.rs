//! The one type of errors.
//!
//! An [`Error`] says what kind of mistake it is (and so whose), which device and which operation it
//! was about, where in a tree of columns it was seen, and what the vendor's library said. An error
//! is one pointer wide, so a `Result` stays small.

use std::borrow::Cow;
use std::fmt;

use crate::device::nesting;
use crate::ffi::guard;
use crate::{DeviceId, NodePath, errno};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a mistake. The documentation of each kind says who can correct it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller of this library passed something it may not.
    InvalidArgument,
    /// Another party's struct breaks a rule of the specification.
    Malformed,
    /// A struct was passed that had been released already.
    Released,
    /// An array does not have the shape that its schema says.
    SchemaMismatch,
    /// The data itself is wrong: an offset runs backwards, a key points nowhere, text is not UTF-8.
    InvalidData,
    /// A tree is deeper or larger than the limits allow.
    LimitExceeded,
    /// The request is legal, but this library, this device or this driver cannot do it.
    Unsupported,
    /// A vendor's library or a function in it is missing. The message says what to install.
    DriverMissing,
    /// There is no such device in this machine.
    DeviceMissing,
    /// This queue or device cannot reach that memory; copy it first.
    NotReachable,
    /// The data is not ready yet, and this call may not wait.
    NotReady,
    /// A device or the host has no memory left.
    OutOfMemory,
    /// The device stopped working. All data on it is lost.
    DeviceLost,
    /// The vendor's library reported an error. [`Error::vendor`] has its code.
    Driver,
    /// The time allowed for a wait ran out.
    TimedOut,
    /// The work was cancelled.
    Cancelled,
    /// Code called from here panicked. The panic was stopped before it could reach a foreign
    /// caller.
    Panicked,
    /// Another party reported an error of its own.
    Peer,
    /// The process is about to end, and no driver is called any more. It is not known what is still
    /// in use, so nothing is freed.
    ShutDown,
    /// Work that a device had accepted has failed. Nothing of it runs any more. Neither its results
    /// nor those of work behind it exist. Submit the work again on another queue.
    WorkFailed,
}

impl ErrorKind {
    /// All kinds of this version.
    pub const ALL: &[Self] = &[
        Self::InvalidArgument,
        Self::Malformed,
        Self::Released,
        Self::SchemaMismatch,
        Self::InvalidData,
        Self::LimitExceeded,
        Self::Unsupported,
        Self::DriverMissing,
        Self::DeviceMissing,
        Self::NotReachable,
        Self::NotReady,
        Self::OutOfMemory,
        Self::DeviceLost,
        Self::Driver,
        Self::TimedOut,
        Self::Cancelled,
        Self::Panicked,
        Self::Peer,
        Self::ShutDown,
        Self::WorkFailed,
    ];

    /// The `errno` value for C callers of this kind.
    ///
    /// All mistakes in what was passed are `EINVAL`, as in Arrow's own implementations. Every other
    /// kind has a value of its own, from which [`from_errno`](Self::from_errno) finds the kind.
    pub fn errno(self) -> i32 {
        match self {
            Self::InvalidArgument
            | Self::Malformed
            | Self::Released
            | Self::SchemaMismatch
            | Self::InvalidData => errno::EINVAL,
            Self::LimitExceeded => errno::E2BIG,
            Self::Unsupported => errno::ENOSYS,
            Self::DriverMissing => errno::ENOENT,
            Self::DeviceMissing => errno::ENODEV,
            Self::NotReachable => errno::EXDEV,
            Self::NotReady => errno::EAGAIN,
            Self::OutOfMemory => errno::ENOMEM,
            Self::DeviceLost => errno::ENXIO,
            Self::Driver => errno::EIO,
            Self::TimedOut => errno::ETIMEDOUT,
            Self::Cancelled => errno::ECANCELED,
            Self::Panicked => errno::EFAULT,
            Self::Peer => errno::EPROTO,
            Self::ShutDown => errno::ENOTCONN,
            Self::WorkFailed => errno::NO_DATA,
        }
    }

    /// The kind for an `errno` value that another party returned.
    pub fn from_errno(errno: i32) -> Self {
        let of_this_value = |kind: &&Self| kind.errno() == errno;
        Self::ALL.iter().find(of_this_value).copied().unwrap_or(Self::Peer)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidArgument => "invalid argument",
            Self::Malformed => "malformed struct",
            Self::Released => "already released",
            Self::SchemaMismatch => "array does not match its schema",
            Self::InvalidData => "invalid data",
            Self::LimitExceeded => "limit exceeded",
            Self::Unsupported => "not supported",
            Self::DriverMissing => "driver missing",
            Self::DeviceMissing => "no such device",
            Self::NotReachable => "memory not reachable",
            Self::NotReady => "not ready",
            Self::OutOfMemory => "out of memory",
            Self::DeviceLost => "device lost",
            Self::Driver => "driver error",
            Self::TimedOut => "timed out",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
            Self::Peer => "peer error",
            Self::ShutDown => "shut down",
            Self::WorkFailed => "work failed",
        })
    }
}

/// What went wrong, where, and what to do about it.
///
/// ```
/// use arrow_device::{DeviceId, DeviceType, Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::OutOfMemory, "4096 bytes asked for")
///     .during("allocate")
///     .on_device(DeviceId::new(DeviceType::CUDA, 0))
///     .from_vendor(2, "CUDA_ERROR_OUT_OF_MEMORY");
/// assert_eq!(
///     error.to_string(),
///     "allocate on cuda:0: out of memory: 4096 bytes asked for (2: CUDA_ERROR_OUT_OF_MEMORY)"
/// );
/// assert_eq!(error.kind().errno(), 12);
/// ```
pub struct Error(Box<ErrorInner>);

struct ErrorInner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    operation: Option<&'static str>,
    device: Option<DeviceId>,
    place: Option<NodePath>,
    vendor: Option<Vendor>,
    /// The `errno` value that another party returned.
    errno: Option<i32>,
    /// The error of another library that this one wraps.
    other: Option<OtherError>,
}

/// An error of another library, whose destructor is foreign code.
///
/// The library drops errors between steps that belong together, such as a question to a driver and
/// what follows from the answer. A destructor that panics there must not prevent the second step,
/// so the panic is stopped (SAF-30).
struct OtherError(Option<Box<dyn std::error::Error + Send + Sync>>);

impl OtherError {
    fn get(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.as_deref()
    }
}

impl Drop for OtherError {
    fn drop(&mut self) {
        if let Some(error) = self.0.take() {
            // The error may own another error of this crate, and so on.
            guard::silent(|| nesting::drop_owned(error));
        }
    }
}

/// What a vendor's library said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vendor {
    /// The library's error code.
    pub code: i64,
    /// The name or text that belongs to the code.
    pub text: Cow<'static, str>,
}

impl Error {
    /// An error of this kind. The message says what was found and, where it helps, what to do.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self(Box::new(ErrorInner {
            kind,
            message,
            operation: None,
            device: None,
            place: None,
            vendor: None,
            errno: None,
            other: None,
        }))
    }

    /// Wraps an error of another library. The cause of that error becomes the
    /// [`source`](std::error::Error::source) of this one.
    ///
    /// An error of this crate is returned unchanged. For any other error, the kind is that of the
    /// first error, among it and its causes, whose kind is known: errors of this crate and of the
    /// operating system. If there is none, the kind is [`ErrorKind::Peer`].
    ///
    /// The kinds of a [`std::io::Error`] that are known are
    /// [`OutOfMemory`](std::io::ErrorKind::OutOfMemory),
    /// [`TimedOut`](std::io::ErrorKind::TimedOut),
    /// [`Unsupported`](std::io::ErrorKind::Unsupported) and
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock), which is [`ErrorKind::NotReady`]. Any other
    /// error number of the operating system is [`ErrorKind::Peer`]: to the operating system, most
    /// values of [`ErrorKind::errno`] mean something else.
    ///
    /// ```
    /// use arrow_device::{Error, ErrorKind};
    ///
    /// let no_memory = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
    /// assert_eq!(Error::other(no_memory).kind(), ErrorKind::OutOfMemory);
    /// let no_file = std::io::Error::from(std::io::ErrorKind::NotFound);
    /// assert_eq!(Error::other(no_file).kind(), ErrorKind::Peer);
    /// assert_eq!(
    ///     Error::other("the printer is on fire").to_string(),
    ///     "peer error: the printer is on fire"
    /// );
    /// ```
    #[cold]
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let other = match error.into().downcast::<Self>() {
            Ok(ours) => return *ours,
            Err(other) => other,
        };
        // Before the error is asked anything: if its text panics, its destructor may panic as well.
        let other = OtherError(Some(other));
        let told = other.get().map(|other| (chain(other).find_map(known), other.to_string()));
        let (known, text) = told.unwrap_or_default();
        let (kind, errno) = known.unwrap_or((ErrorKind::Peer, None));
        let mut error = Self::new(kind, text);
        error.0.errno = errno;
        error.0.other = Some(other);
        error
    }

    /// An error that another party reported with an `errno` value of the C interfaces, which is
    /// read by the table of [`ErrorKind::from_errno`], and, if the party had one, with a text.
    ///
    /// ```
    /// use arrow_device::{Error, ErrorKind};
    ///
    /// let error = Error::from_peer(6, Some("the cable was pulled".into()));
    /// assert_eq!((error.kind(), error.errno()), (ErrorKind::DeviceLost, 6));
    /// ```
    #[cold]
    pub fn from_peer(errno: i32, text: Option<String>) -> Self {
        let kind = ErrorKind::from_errno(errno);
        let message = text.unwrap_or_else(|| format!("the producer returned {errno} and no text"));
        let mut error = Self::new(kind, message);
        error.0.errno = Some(errno);
        error
    }

    /// Sets the operation that failed.
    pub fn during(mut self, operation: &'static str) -> Self {
        self.0.operation = Some(operation);
        self
    }

    /// Sets the step of a longer operation that failed. The operation that was set before goes to
    /// the message.
    pub(crate) fn at_step(mut self, step: &'static str) -> Self {
        if let Some(operation) = self.0.operation.replace(step) {
            self.0.message = format!("{operation}: {}", self.0.message).into();
        }
        self
    }

    /// Adds a note to the message.
    pub(crate) fn with_note(mut self, note: fmt::Arguments<'_>) -> Self {
        self.0.message = format!("{}, {note}", self.0.message).into();
        self
    }

    /// Sets the device that the error is about, unless the error names one already: the device of a
    /// queue may fail where a value on another device is used.
    pub(crate) fn on_device_if_none(self, device: DeviceId) -> Self {
        if self.0.device.is_some() { self } else { self.on_device(device) }
    }

    /// Sets the device that the error is about.
    pub fn on_device(mut self, device: DeviceId) -> Self {
        self.0.device = Some(device);
        self
    }

    /// Sets the node of a tree that the error is about.
    pub fn at(mut self, place: NodePath) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Sets the vendor's code and its text.
    pub fn from_vendor(mut self, code: i64, text: impl Into<Cow<'static, str>>) -> Self {
        self.0.vendor = Some(Vendor { code, text: text.into() });
        self
    }

    /// The kind of the mistake.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The `errno` value for C callers: the one that another party returned, if it did, and
    /// otherwise that of the [kind](ErrorKind::errno).
    pub fn errno(&self) -> i32 {
        self.0.errno.filter(|errno| *errno != 0).unwrap_or_else(|| self.kind().errno())
    }

    /// Whether another party reported this error, so that the message is its own.
    pub(crate) fn is_from_peer(&self) -> bool {
        self.0.errno.is_some() && self.0.other.is_none()
    }

    /// The message, without the device, the operation and the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The operation that failed, if it has a name.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// The device that the error is about.
    pub fn device(&self) -> Option<DeviceId> {
        self.0.device
    }

    /// The node of the tree that the error is about.
    pub fn place(&self) -> Option<&NodePath> {
        self.0.place.as_ref()
    }

    /// What the vendor's library said, if it said anything.
    pub fn vendor(&self) -> Option<&Vendor> {
        self.0.vendor.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorInner { kind, message, operation, device, place, vendor, .. } = &*self.0;
        match (operation, device) {
            (Some(operation), Some(device)) => write!(f, "{operation} on {device}: ")?,
            (Some(operation), None) => write!(f, "{operation}: ")?,
            (None, Some(device)) => write!(f, "{device}: ")?,
            (None, None) => {}
        }
        write!(f, "{kind}: ")?;
        if let Some(place) = place {
            write!(f, "{place}: ")?;
        }
        f.write_str(message)?;
        match vendor {
            Some(Vendor { code, text }) => write!(f, " ({code}: {text})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The message repeats what `other` says.
        self.0.other.as_ref()?.get()?.source()
    }
}

/// An error, its cause, the cause of the cause, and so on. The number is bounded, because an error
/// may be its own cause.
pub(crate) fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    const MOST_CAUSES: usize = 64;
    std::iter::successors(Some(error), |error| error.source()).take(MOST_CAUSES)
}

/// The kind of an error, and the `errno` value that came with it.
fn known(error: &(dyn std::error::Error + 'static)) -> Option<(ErrorKind, Option<i32>)> {
    if let Some(ours) = error.downcast_ref::<Error>() {
        return Some((ours.kind(), ours.0.errno));
    }
    error.downcast_ref().and_then(known_of_system)
}

/// The kind of an error of the operating system, and its `errno` value where the table of
/// [`ErrorKind::errno`] gives the value that kind, too. Most values of the table have another
/// meaning to the operating system: a file that is not there is no driver that is missing.
fn known_of_system(error: &std::io::Error) -> Option<(ErrorKind, Option<i32>)> {
    use std::io::ErrorKind::{OutOfMemory, TimedOut, Unsupported, WouldBlock};
    // The causes of a `std::io::Error` begin behind the error inside. That error may be one of this
    // crate.
    if let Some(ours) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        return Some((ours.kind(), ours.0.errno));
    }
    let kind = match error.kind() {
        OutOfMemory => ErrorKind::OutOfMemory,
        TimedOut => ErrorKind::TimedOut,
        Unsupported => ErrorKind::Unsupported,
        WouldBlock => ErrorKind::NotReady,
        _ if error.raw_os_error().is_some() => ErrorKind::Peer,
        _ => return None,
    };
    // On other targets these are not `errno` values.
    let errno = error.raw_os_error().filter(|_| cfg!(any(unix, target_os = "wasi")));
    Some((kind, errno.filter(|errno| ErrorKind::from_errno(*errno) == kind)))
}

/// For conversions that cannot fail, where similar ones can.
impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_leads_to_an_errno_and_back() {
        for kind in ErrorKind::ALL {
            let back = ErrorKind::from_errno(kind.errno());
            assert_ne!(kind.errno(), 0, "{kind:?} would read as success");
            assert_eq!(back.errno(), kind.errno());
            assert!(
                back == *kind || kind.errno() == libc::EINVAL,
                "{kind:?} came back as {back:?}"
            );
        }
    }

    #[test]
    fn an_errno_that_nobody_here_uses_is_the_peers() {
        assert_eq!(ErrorKind::from_errno(libc::ENOTEMPTY), ErrorKind::Peer);
        assert_eq!(ErrorKind::from_errno(-3), ErrorKind::Peer);
    }

    #[test]
    fn an_error_of_another_library_keeps_its_causes_and_the_kind_among_them() {
        #[derive(Debug)]
        struct Layer(Box<dyn std::error::Error + Send + Sync>);
        impl fmt::Display for Layer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("reading the file")
            }
        }
        impl std::error::Error for Layer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&*self.0)
            }
        }

        let inner = Error::new(ErrorKind::DeviceLost, "pulled out").during("copy");
        let error = Error::other(Layer(Box::new(Layer(inner.into()))));
        assert_eq!((error.kind(), error.errno()), (ErrorKind::DeviceLost, libc::ENXIO));
        let texts: Vec<_> = chain(&error).map(ToString::to_string).collect();
        let expected =
            ["device lost: reading the file", "reading the file", "copy: device lost: pulled out"];
        assert_eq!(texts, expected);

        let unknown = std::io::Error::from_raw_os_error(libc::ENOTEMPTY);
        let error = Error::other(Layer(unknown.into()));
        // On Windows the number is not an `errno` value, and nothing is made of it.
        let errno = if cfg!(windows) { libc::EPROTO } else { libc::ENOTEMPTY };
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Peer, errno));
        let ours = Error::other(Error::new(ErrorKind::TimedOut, "late").during("wait"));
        assert_eq!(ours.to_string(), "wait: timed out: late");
    }

    /// To the operating system, `ENOENT` is a file that is not there, and not a driver.
    #[test]
    #[cfg(unix)]
    fn an_error_of_the_system_is_not_read_by_the_table_of_peers() {
        let of_system = |errno| Error::other(std::io::Error::from_raw_os_error(errno));
        let of_the_table = [
            libc::ENOENT,
            libc::EIO,
            libc::ENXIO,
            libc::E2BIG,
            libc::EFAULT,
            libc::ENODEV,
            libc::EXDEV,
            libc::EINVAL,
            libc::ENOTCONN,
            libc::ECANCELED,
            errno::NO_DATA,
        ];
        for errno in of_the_table {
            let error = of_system(errno);
            assert_eq!((error.kind(), error.errno()), (ErrorKind::Peer, libc::EPROTO), "{error}");
            let said = std::io::Error::from_raw_os_error(errno).to_string();
            assert_eq!(error.message(), said);
        }
        let with_a_meaning = [
            (libc::ENOMEM, ErrorKind::OutOfMemory),
            (libc::ETIMEDOUT, ErrorKind::TimedOut),
            (libc::EAGAIN, ErrorKind::NotReady),
            (libc::ENOSYS, ErrorKind::Unsupported),
            (libc::EACCES, ErrorKind::Peer),
            (libc::EMFILE, ErrorKind::Peer),
            (libc::EPROTO, ErrorKind::Peer),
        ];
        for (errno, kind) in with_a_meaning {
            let error = of_system(errno);
            assert_eq!((error.kind(), error.errno()), (kind, errno));
        }
    }

    #[test]
    fn an_error_of_the_system_without_a_number_has_the_kind_of_the_system() {
        use std::io::ErrorKind as Io;
        for (of_system, kind) in [
            (Io::OutOfMemory, ErrorKind::OutOfMemory),
            (Io::TimedOut, ErrorKind::TimedOut),
            (Io::WouldBlock, ErrorKind::NotReady),
            (Io::Unsupported, ErrorKind::Unsupported),
            (Io::NotFound, ErrorKind::Peer),
            (Io::UnexpectedEof, ErrorKind::Peer),
        ] {
            assert_eq!(Error::other(std::io::Error::from(of_system)).kind(), kind);
        }
        let ours = || Error::new(ErrorKind::DeviceLost, "pulled out");
        let outer = std::io::Error::new(Io::NotFound, ours());
        assert_eq!(Error::other(outer).kind(), ErrorKind::DeviceLost);
    }

    #[test]
    fn what_a_peer_returned_is_returned_again() {
        for errno in [libc::ENOTEMPTY, libc::EINVAL, -7] {
            assert_eq!(Error::from_peer(errno, None).errno(), errno);
        }
        assert_eq!(Error::from_peer(0, None).errno(), libc::EPROTO, "nobody fails with success");
        let error = Error::from_peer(libc::ENOMEM, Some("too much".into()));
        assert_eq!((error.kind(), error.message()), (ErrorKind::OutOfMemory, "too much"));
    }

    // Requirement: SAF-30
    #[test]
    #[cfg(panic = "unwind")]
    fn a_cause_that_panics_when_it_is_dropped_does_no_harm() {
        use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

        #[derive(Debug)]
        struct Stubborn {
            tells: bool,
        }
        impl fmt::Display for Stubborn {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.tells { f.write_str("no") } else { resume_unwind(Box::new(())) }
            }
        }
        impl std::error::Error for Stubborn {}
        impl Drop for Stubborn {
            fn drop(&mut self) {
                resume_unwind(Box::new(()));
            }
        }

        let error = Error::other(Stubborn { tells: true });
        assert_eq!(error.message(), "no");
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(error)));
        assert!(dropped.is_ok(), "the panic came through");
        // Were the second panic not stopped, it would end the process.
        assert!(catch_unwind(|| Error::other(Stubborn { tells: false })).is_err());
    }

    // Requirement: SAF-37
    #[test]
    fn errors_in_the_causes_of_others_are_released() {
        #[derive(Debug)]
        struct Owns(Error);
        impl fmt::Display for Owns {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("again")
            }
        }
        impl std::error::Error for Owns {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }

        let many = if cfg!(miri) { 50 } else { 100_000 };
        let work = move || {
            let innermost = Error::new(ErrorKind::TimedOut, "late");
            let all = (0..many).fold(innermost, |error, _| Error::other(Owns(error)));
            assert_eq!(all.kind(), ErrorKind::TimedOut);
        };
        std::thread::Builder::new().stack_size(1 << 19).spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn a_result_stays_small() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}
