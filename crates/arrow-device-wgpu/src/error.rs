//! Errors of wgpu: scopes that catch them, and what they become.
//!
//! An error of wgpu is not the result of a call. The error goes to the innermost error scope of the
//! thread that asks for errors of this type, and without such a scope to the handler of the device,
//! which by default panics. So all calls of this crate that can be refused stand in scopes of all
//! three types ([`Logical::scoped`](crate::logical::Logical::scoped)).

use std::task::{Context, Poll, Waker};

use arrow_device::{Error, ErrorKind};

/// An error that a scope caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    kind: ErrorKind,
    /// The number of the type in `webgpu.h`.
    code: i64,
    text: String,
}

impl From<wgpu::Error> for Caught {
    fn from(error: wgpu::Error) -> Self {
        let (kind, code) = match error {
            wgpu::Error::Validation { .. } => (ErrorKind::InvalidArgument, 2),
            wgpu::Error::OutOfMemory { .. } => (ErrorKind::OutOfMemory, 3),
            wgpu::Error::Internal { .. } => (ErrorKind::Driver, 4),
        };
        // The first line says what kind of error follows.
        let text = error.to_string().replace("\n\n", "\n").trim().to_owned();
        Self { kind, code, text }
    }
}

impl Caught {
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.kind == ErrorKind::OutOfMemory
    }

    /// The error for the caller of the library.
    pub(crate) fn error(&self, operation: &'static str) -> Error {
        let message = match self.kind {
            ErrorKind::InvalidArgument => "wgpu refused what it was given",
            ErrorKind::OutOfMemory => "the device has no memory left",
            _ => "wgpu reported an error",
        };
        let error = Error::new(self.kind, message).during(operation);
        error.from_vendor(self.code, self.text.clone())
    }
}

/// The answer of a scope, which comes later where wgpu asks a browser.
pub(crate) type Answer = dyn Future<Output = Option<wgpu::Error>> + Send;

/// The result of a future that is asked once, with nobody to be woken.
pub(crate) fn asked<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn an_error_has_a_kind_and_the_words_of_wgpu() {
        let source = || Box::new(std::fmt::Error);
        let said = || "said so".to_owned();
        for (error, kind, code) in [
            (
                wgpu::Error::Validation { source: source(), description: said() },
                ErrorKind::InvalidArgument,
                2,
            ),
            (wgpu::Error::OutOfMemory { source: source() }, ErrorKind::OutOfMemory, 3),
            (wgpu::Error::Internal { source: source(), description: said() }, ErrorKind::Driver, 4),
        ] {
            let text = error.to_string();
            let error = Caught::from(error).error("do");
            assert_eq!(error.kind(), kind);
            let vendor = error.vendor().unwrap();
            assert_eq!((vendor.code, &*vendor.text), (code, &*text));
        }
    }

    #[test]
    fn an_answer_that_is_not_there_is_none() {
        assert_eq!(asked(pin!(std::future::ready(3))), Some(3));
        assert_eq!(asked(pin!(std::future::pending::<u8>())), None);
    }
}
