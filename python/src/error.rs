//! Errors of the library as the exceptions that Python programs expect.
//!
//! The classes are Python's (`arrow_device/_errors.py`); here is which kind becomes which.

use arrow_device::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::backends;

/// Turns the library's results into Python's.
pub(crate) trait OrRaise<T> {
    /// The exception for this kind of error.
    fn or_raise(self) -> PyResult<T>;
    /// The same where a protocol wants a `BufferError` for all that is about data.
    fn or_refuse(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error, class(error.kind())))
    }

    fn or_refuse(self) -> PyResult<T> {
        self.map_err(|error| {
            let class = match class(error.kind()) {
                "data" | "unsupported" => "exchange",
                other => other,
            };
            exception(&error, class)
        })
    }
}

/// Data that cannot be handed over as it was asked for.
pub(crate) fn refused(message: impl Into<String>) -> PyErr {
    let error = Error::new(ErrorKind::Unsupported, message.into()).during("exchange");
    exception(&error, "exchange")
}

/// An argument that is wrong.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    exception(&Error::new(ErrorKind::InvalidArgument, message.into()), "data")
}

/// A device that is needed and is not there.
pub(crate) fn missing_device(message: String, device: arrow_device::DeviceId) -> PyErr {
    let error = Error::new(ErrorKind::DeviceMissing, message).on_device(device).during("unpickle");
    exception(&error, class(error.kind()))
}

fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidArgument
        | ErrorKind::Malformed
        | ErrorKind::Released
        | ErrorKind::SchemaMismatch
        | ErrorKind::InvalidData
        | ErrorKind::LimitExceeded => "data",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::OutOfMemory => "memory",
        ErrorKind::TimedOut => "timeout",
        ErrorKind::Peer | ErrorKind::Panicked => "producer",
        _ => "device",
    }
}

/// The exception for an error, or what was raised while the exception was made: `KeyboardInterrupt`
/// of a signal, `RecursionError` or `MemoryError`.
fn exception(error: &Error, class: &str) -> PyErr {
    Python::attach(|py| make(py, error, class).unwrap_or_else(|raised| raised))
}

fn make(py: Python<'_>, error: &Error, class: &str) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.get_or_try_init(py, || {
        py.import("arrow_device._errors")?.getattr("make").map(Bound::unbind)
    })?;
    let vendor = error.vendor();
    let exception = make.bind(py).call1((
        class,
        backends::in_words(error.to_string()),
        error.kind().to_string(),
        error.device().map(|device| backends::called(device).to_string()),
        error.operation(),
        error.place().map(|place| place.to_string()),
        vendor.map(|vendor| vendor.code),
        vendor.map(|vendor| vendor.text.to_string()),
    ))?;
    Ok(PyErr::from_value(exception))
}
