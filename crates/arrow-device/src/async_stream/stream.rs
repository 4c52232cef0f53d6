//! The consumer's stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;

use super::foreign::ForeignTask;
use super::handler::StreamHandler;
use super::protocol::consumer::Inbox;
use super::state::{StreamInfo, StreamState};
use super::task::{FoundBy, Task};
use super::this_thread::this_thread;
use crate::{Array, Error, ErrorKind, Metadata, Result, process};

/// An asynchronous stream that another party produces: a [`Stream`] of [`Task`]s.
///
/// [`new`](Self::new) makes a stream together with the handler that the producer is given. The
/// stream asks the producer for as many tasks as the window says. It asks for more whenever a
/// quarter of the window has been taken out or, with a window of less than eight, for one more
/// whenever one task has been. So the producer is never more than a window ahead, and stands still
/// while nobody polls.
///
/// After the last task comes the end, or one error. Then the stream is over. The stream also ends
/// with an error if the producer releases the handler before the end, or breaks a rule of the
/// interface.
///
/// Dropping the stream, at any time, cancels it and discards the tasks that were not taken out.
/// Tasks that were taken out stay valid.
///
/// In a child of `fork` the stream gives one error, [`ErrorKind::Unsupported`], and so does each
/// task: the producer belongs to the parent, and is not called.
///
/// ```no_run
/// use arrow_device::abi::ArrowAsyncDeviceStreamHandler;
/// use arrow_device::async_stream::AsyncStream;
/// # use futures_core::Stream;
/// # async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
/// #     std::future::poll_fn(|context| std::pin::Pin::new(&mut *stream).poll_next(context)).await
/// # }
///
/// unsafe extern "C" {
///     // Some library's function that starts to produce.
///     fn scan_table(handler: *mut ArrowAsyncDeviceStreamHandler);
/// }
///
/// # async fn read() -> arrow_device::Result<()> {
/// let (mut stream, handler) = AsyncStream::new(8);
/// unsafe { scan_table(handler.into_raw()) };
/// println!("{}", stream.opened().await?.schema);
/// while let Some(task) = next(&mut stream).await {
///     let array = task?.extract()?;
///     println!("{} rows", array.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct AsyncStream {
    shared: Arc<StreamState>,
    inbox: Inbox<ForeignTask>,
    window: usize,
    over: bool,
}

impl AsyncStream {
    /// Makes a stream, and the handler through which a producer fills it. The stream asks for at
    /// most `window` tasks more than have been taken out. A window of 0 counts as 1.
    pub fn new(window: usize) -> (Self, StreamHandler) {
        let shared = Arc::new(StreamState::new(window));
        let handler = StreamHandler::new(shared.clone());
        (Self { shared, inbox: Inbox::default(), window: window.max(1), over: false }, handler)
    }

    /// What the producer says about the stream. `None` until the producer has said it.
    pub fn info(&self) -> Option<&StreamInfo> {
        self.shared.info.get().map(Arc::as_ref)
    }

    /// Waits for the schema and the other properties of the stream. An error that this returns ends
    /// the stream, which does not return it a second time.
    pub fn opened(&mut self) -> Opened<'_> {
        Opened { stream: self }
    }

    /// [`opened`](Self::opened), for a future that is written by hand.
    pub fn poll_opened(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.shared.made_in.is_this() {
            return Poll::Ready(Err(self.refused().during("on_schema")));
        }
        match ready!(self.shared.consumer.poll_opened(context.waker())) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(failure) => {
                self.over = true;
                let error = failure.map(|failure| self.tell(failure));
                let again = || Error::new(ErrorKind::Cancelled, "the stream is over");
                Poll::Ready(Err(error.unwrap_or_else(again).during("on_schema")))
            }
        }
    }

    /// The metadata of the error with which the stream ended.
    pub fn error_metadata(&self) -> Option<&Metadata> {
        self.shared.error_metadata.get()
    }

    /// A stream of arrays, each extracted on the thread that polls. It ends after the first error.
    ///
    /// If the producer cannot give an array, the stream's error is the one that the producer
    /// reports next. Tasks that were on their way are discarded.
    pub fn arrays(self) -> Arrays {
        Arrays { stream: Some(self), failed: None }
    }

    /// Ends the stream in a child of `fork`.
    #[cold]
    fn refused(&mut self) -> Error {
        self.over = true;
        process::of_the_parent()
    }

    fn tell(&self, failure: super::Failure) -> Error {
        // The stream ends with one error at most.
        let _ = self.shared.error_metadata.set(failure.metadata);
        failure.error
    }
}

impl Stream for AsyncStream {
    type Item = Result<Task>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Task>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if !self.shared.made_in.is_this() {
            return Poll::Ready(Some(Err(self.refused())));
        }
        let Self { shared, inbox, .. } = &mut *self;
        match ready!(shared.consumer.poll(inbox, context.waker())) {
            Some(Ok(foreign)) => {
                shared.consumer.give_back(inbox, this_thread());
                let Some(info) = shared.info.get() else {
                    // Tasks are refused before the schema.
                    return Poll::Ready(None);
                };
                let task = Task::new(foreign, info.clone(), shared.clone());
                Poll::Ready(Some(Ok(task)))
            }
            Some(Err(failure)) => {
                self.over = true;
                Poll::Ready(Some(Err(self.tell(failure))))
            }
            None => {
                self.over = true;
                Poll::Ready(None)
            }
        }
    }
}

impl FusedStream for AsyncStream {
    fn is_terminated(&self) -> bool {
        self.over
    }
}

impl Drop for AsyncStream {
    fn drop(&mut self) {
        if !self.shared.made_in.is_this() {
            self.inbox.take().into_iter().for_each(ForeignTask::leave);
            self.shared.leave();
            return;
        }
        let tasks = self.shared.consumer.cancel();
        self.shared.consumer.pump(this_thread());
        drop(self.inbox.take());
        drop(tasks);
    }
}

impl fmt::Debug for AsyncStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncStream").field("info", &self.info()).finish_non_exhaustive()
    }
}

/// The future that [`AsyncStream::opened`] makes.
#[derive(Debug)]
pub struct Opened<'stream> {
    stream: &'stream mut AsyncStream,
}

impl<'stream> Future for Opened<'stream> {
    type Output = Result<Arc<StreamInfo>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.stream.poll_opened(context))?;
        let info = self.stream.shared.info.get().cloned();
        Poll::Ready(info.ok_or_else(|| Error::new(ErrorKind::Cancelled, "the stream is over")))
    }
}

/// The arrays of an [`AsyncStream`]. Made by [`AsyncStream::arrays`].
#[derive(Debug)]
pub struct Arrays {
    /// The stream of tasks. `None` after the end.
    stream: Option<AsyncStream>,
    /// Set where the producer could not give an array and has not reported an error yet.
    failed: Option<FailedTask>,
}

#[derive(Debug)]
struct FailedTask {
    /// The error that is returned if the producer reports none.
    error: Error,
    /// How many more tasks may be on their way. If the producer sends more than a window of them,
    /// it goes on as if nothing had happened, and the wait for its error ends.
    under_way: usize,
}

impl Arrays {
    /// The stream of tasks, unless it is over.
    pub fn into_tasks(self) -> Option<AsyncStream> {
        self.stream
    }
}

impl Stream for Arrays {
    type Item = Result<Array>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Array>>> {
        let Self { stream: tasks, failed } = &mut *self;
        let Some(stream) = tasks else { return Poll::Ready(None) };
        let end = loop {
            let item = ready!(Pin::new(&mut *stream).poll_next(context));
            match (item, &mut *failed) {
                (Some(Ok(task)), None) => match task.extract_or() {
                    Ok(array) => return Poll::Ready(Some(Ok(array))),
                    Err((error, FoundBy::Consumer)) => break Some(Err(error)),
                    Err((error, FoundBy::Producer)) => {
                        *failed = Some(FailedTask { error, under_way: stream.window });
                    }
                },
                (Some(Ok(_)), Some(FailedTask { under_way, .. })) if *under_way > 0 => {
                    *under_way -= 1;
                }
                (Some(Err(error)), _) => break Some(Err(error)),
                (_, failed) => break failed.take().map(|failed| Err(failed.error)),
            }
        };
        *tasks = None;
        Poll::Ready(end)
    }
}

impl FusedStream for Arrays {
    fn is_terminated(&self) -> bool {
        self.stream.is_none()
    }
}
