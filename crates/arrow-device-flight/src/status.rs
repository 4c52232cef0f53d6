//! Errors of this library as the statuses of gRPC, and back.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use arrow_device::{Error, ErrorKind};
use tonic::{Code, Status};

/// Returns the code that tells a client most about an error of this kind.
fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidArgument | ErrorKind::SchemaMismatch => Code::InvalidArgument,
        ErrorKind::Malformed | ErrorKind::InvalidData => Code::DataLoss,
        ErrorKind::LimitExceeded | ErrorKind::OutOfMemory => Code::ResourceExhausted,
        ErrorKind::Unsupported => Code::Unimplemented,
        ErrorKind::DriverMissing
        | ErrorKind::DeviceMissing
        | ErrorKind::NotReachable
        | ErrorKind::Released => Code::FailedPrecondition,
        ErrorKind::DeviceLost | ErrorKind::NotReady | ErrorKind::ShutDown => Code::Unavailable,
        ErrorKind::TimedOut => Code::DeadlineExceeded,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::WorkFailed => Code::Aborted,
        ErrorKind::Peer => Code::Unknown,
        _ => Code::Internal,
    }
}

/// Returns the kind of a code, `None` where the code says nothing of what was wrong.
fn kind_of(code: Code) -> Option<ErrorKind> {
    Some(match code {
        Code::InvalidArgument => ErrorKind::InvalidArgument,
        Code::DataLoss => ErrorKind::InvalidData,
        // tonic says `OutOfRange` of a message that is too large.
        Code::ResourceExhausted | Code::OutOfRange => ErrorKind::LimitExceeded,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::DeadlineExceeded => ErrorKind::TimedOut,
        Code::Cancelled => ErrorKind::Cancelled,
        Code::Aborted => ErrorKind::WorkFailed,
        _ => return None,
    })
}

/// A status, and what it means as an error of this library.
#[derive(Debug)]
struct Answer {
    meaning: Error,
    status: Status,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.code(), self.status.message())
    }
}

impl StdError for Answer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.meaning)
    }
}

/// Whether an error, or one of its causes, is an error of this library.
fn is_ours(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Error>() {
            return true;
        }
        next = error.source();
    }
    false
}

pub(crate) fn from_status(status: Status) -> Error {
    let kind = kind_of(status.code()).filter(|_| !is_ours(&status));
    match kind {
        Some(kind) => {
            let meaning = Error::new(kind, status.message().to_owned());
            Error::other(Answer { meaning, status })
        }
        None => Error::other(status),
    }
}

/// The most bytes of a message. gRPC sends it among the headers, with three bytes for each that is
/// not of ASCII, and most receivers take at most 8 or 16 KiB of headers: a longer message would
/// come as an error of the protocol, without its code.
const MOST_WORDS: usize = 2 << 10;

/// The beginning of a text, if the text is too long.
fn shortened(mut text: String) -> String {
    if text.len() > MOST_WORDS {
        let end = (0..=MOST_WORDS).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str(" …");
    }
    text
}

pub(crate) fn into_status(error: Error) -> Status {
    let mut status = Status::new(code_of(error.kind()), shortened(error.to_string()));
    status.set_source(Arc::new(error));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_back_with_its_kind() {
        for kind in ErrorKind::ALL {
            let status = into_status(Error::new(*kind, "words"));
            assert!(status.message().ends_with("words"), "{status}");
            assert_eq!(from_status(status).kind(), *kind, "in one process");
        }
    }

    #[test]
    fn a_long_message_is_sent_as_far_as_headers_have_room() {
        let status = into_status(Error::new(ErrorKind::OutOfMemory, "ö".repeat(30_000)));
        assert!(status.message().contains("öööö") && status.message().ends_with("ö …"));
        assert!((MOST_WORDS - 1..MOST_WORDS + 8).contains(&status.message().len()));
        assert_eq!(
            into_status(Error::new(ErrorKind::Peer, "short")).message().matches('…').count(),
            0
        );
    }

    #[test]
    fn a_status_of_another_process_has_the_kind_of_its_code() {
        for (code, kind) in [
            (Code::InvalidArgument, ErrorKind::InvalidArgument),
            (Code::ResourceExhausted, ErrorKind::LimitExceeded),
            (Code::Cancelled, ErrorKind::Cancelled),
            (Code::Unknown, ErrorKind::Peer),
            (Code::NotFound, ErrorKind::Peer),
        ] {
            let error = from_status(Status::new(code, "no such table"));
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains("no such table"), "{error}");
        }
    }
}
