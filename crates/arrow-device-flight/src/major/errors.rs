//! Converts errors both ways.

use arrow_device::Error;
use tonic::Status;

use super::arrow::flight::error::FlightError;
use crate::status;

/// Converts [`Error`] to the errors of Flight and back.
///
/// `From` cannot be implemented, because all of these types belong to other crates.
pub trait ErrorExt: Sized {
    /// Converts a status to an error of this library. Where the status was made of such an error in
    /// this process, the error has its kind and, as its source, what caused it. Otherwise the code
    /// gives the kind, or [`Peer`](arrow_device::ErrorKind::Peer) where the code says nothing.
    fn from_status(status: Status) -> Self;

    /// Converts an error to a status: the code that fits the kind, the first 2 KiB of the message,
    /// and the error as the source of the status, for the logs of the server. Sources are not sent.
    fn into_status(self) -> Status;

    /// Converts an error of arrow-flight: a status as [`from_status`](Self::from_status) does, and
    /// any other error as [`Error::other`] does, by its causes.
    fn from_flight_error(error: FlightError) -> Self;

    /// Converts an error to an `ExternalError` that contains it.
    fn into_flight_error(self) -> FlightError;
}

impl ErrorExt for Error {
    fn from_status(status: Status) -> Self {
        status::from_status(status)
    }

    fn into_status(self) -> Status {
        status::into_status(self)
    }

    fn from_flight_error(error: FlightError) -> Self {
        match error {
            FlightError::Tonic(status) => status::from_status(*status),
            FlightError::ExternalError(error) => Self::other(error),
            other => Self::other(other),
        }
    }

    fn into_flight_error(self) -> FlightError {
        FlightError::ExternalError(Box::new(self))
    }
}
