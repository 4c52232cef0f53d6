//! [`Asked`]: a stream that is asked until it ends, fails or panics.

use std::task::Poll;

/// A stream of results, which is not asked again after its end, its first error or a panic.
pub(crate) struct Asked<S> {
    /// `None` after the end and after an error.
    stream: Option<S>,
    /// Whether the stream was asked and has not answered, as after a panic. A stream that panicked
    /// is kept, because dropping it during the panic could panic again.
    is_asked: bool,
}

impl<S> Asked<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream: Some(stream), is_asked: false }
    }

    /// Whether the stream has ended, failed or panicked.
    pub(crate) fn is_over(&self) -> bool {
        self.stream.is_none() || self.is_asked
    }

    /// Returns what `ask` gets out of the stream, or the end where the stream is over. The stream
    /// is over after any other answer than a value or `Pending`.
    pub(crate) fn poll<T, E>(
        &mut self,
        ask: impl FnOnce(&mut S) -> Poll<Option<Result<T, E>>>,
    ) -> Poll<Option<Result<T, E>>> {
        let (Some(stream), false) = (&mut self.stream, self.is_asked) else {
            return Poll::Ready(None);
        };
        self.is_asked = true;
        let answer = ask(stream);
        self.is_asked = false;
        if matches!(answer, Poll::Ready(None | Some(Err(_)))) {
            self.stream = None;
        }
        answer
    }
}
