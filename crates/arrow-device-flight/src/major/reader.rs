//! Makes arrays of the messages of a Flight.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow_device::{Array, Batch, Error, ErrorKind, Metadata, Result, Schema};
use arrow_device_ipc::ReadOptions;
use bytes::Bytes;
use futures_core::Stream;
use futures_core::stream::FusedStream;

use super::ErrorExt as _;
use super::arrow::flight::error::FlightError;
use super::arrow::flight::{FlightData, FlightDescriptor};
use crate::incoming::{Incoming, Taken};

/// Reads a stream of `FlightData` as batches and application metadata.
///
/// The stream is what a client or a server receives, a `tonic::Streaming<FlightData>`, or any
/// stream of `Result<FlightData, E>` whose errors are or become `FlightError`. Each batch lies in
/// the body of its message, on the host. [`arrays`](Self::arrays) is the way to a device.
///
/// A message is asked for when this stream is polled, and not before. After the first error nothing
/// more comes, and the call is cancelled.
pub struct FlightReader<S> {
    /// `None` after the end and after an error.
    messages: Option<S>,
    incoming: Incoming,
    descriptor: Option<FlightDescriptor>,
}

/// What a message of a Flight has beside the schema and dictionaries.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Received {
    /// The batch, on the host. `None` in a message that has application metadata alone.
    pub batch: Option<Batch>,
    /// The custom metadata in the header of the batch.
    pub metadata: Metadata,
    /// The application metadata, empty where there is none.
    pub app_metadata: Bytes,
}

impl<S, E> FlightReader<S>
where
    S: Stream<Item = Result<FlightData, E>> + Unpin,
    E: Into<FlightError>,
{
    /// Returns a reader of these messages. No message is read yet.
    pub fn new(messages: S, options: ReadOptions) -> Self {
        Self { messages: Some(messages), incoming: Incoming::new(options), descriptor: None }
    }

    /// Waits for the first message and returns the schema of all batches.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed): the stream ends without a schema, or has a batch before
    /// it.
    pub async fn schema(&mut self) -> Result<Schema> {
        poll_fn(|context| {
            for _ in 0..AT_ONCE {
                if let Some(schema) = self.incoming.schema() {
                    return Poll::Ready(Ok(schema.clone()));
                }
                match ready!(self.poll_message(context)) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Poll::Ready(Err(error)),
                    None => {
                        let error = malformed("the stream ended before its schema");
                        return Poll::Ready(Err(error));
                    }
                }
            }
            again(context)
        })
        .await
    }

    /// Returns the descriptor, which the first message has where a client sends. `None` before that
    /// message was read.
    pub fn descriptor(&self) -> Option<&FlightDescriptor> {
        self.descriptor.as_ref()
    }

    /// Returns the application metadata of the message with the schema, or of one before. Empty
    /// before that message was read.
    pub fn app_metadata(&self) -> &Bytes {
        self.incoming.app_metadata()
    }

    /// Returns the batches as a stream of arrays, without the application metadata. The stream has
    /// the methods of [`ArraysExt`](arrow_device::async_stream::ArraysExt): `copy_to` moves the
    /// arrays to a device.
    pub fn arrays(self) -> FlightArrays<S> {
        FlightArrays { reader: self }
    }

    /// Reads the next message. `Some(Ok(None))` is a message that is of no use alone: a schema or a
    /// dictionary.
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Option<Received>>>> {
        // Taken out, so that a stream that panics is not asked again.
        let Some(mut messages) = self.messages.take() else { return Poll::Ready(None) };
        let next = match Pin::new(&mut messages).poll_next(context) {
            Poll::Ready(Some(next)) => next,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                self.messages = Some(messages);
                return Poll::Pending;
            }
        };
        let message = next.map_err(|error| Error::from_flight_error(error.into()));
        let received = message.and_then(|message| self.take(message));
        if received.is_ok() {
            self.messages = Some(messages);
        }
        Poll::Ready(Some(received))
    }

    fn take(&mut self, message: FlightData) -> Result<Option<Received>> {
        let FlightData { flight_descriptor, data_header, app_metadata, data_body } = message;
        if self.descriptor.is_none() {
            self.descriptor = flight_descriptor;
        }
        let taken = self.incoming.take(&data_header, app_metadata, data_body)?;
        Ok(taken.map(|taken| {
            let Taken { batch, metadata, app_metadata } = taken;
            Received { batch, metadata, app_metadata }
        }))
    }
}

/// How many messages that are of no use alone are read by one poll of a reader, and how many
/// without a batch a poll of [`FlightArrays`] takes from its reader. A peer may send them without
/// end, and whoever polls may have other things to do, such as to give up after a time.
const AT_ONCE: usize = 64;

/// Asks to be polled again.
fn again<T>(context: &Context<'_>) -> Poll<T> {
    context.waker().wake_by_ref();
    Poll::Pending
}

#[cold]
fn malformed(message: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, message).during("read Flight")
}

impl<S, E> Stream for FlightReader<S>
where
    S: Stream<Item = Result<FlightData, E>> + Unpin,
    E: Into<FlightError>,
{
    type Item = Result<Received>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        for _ in 0..AT_ONCE {
            match ready!(self.poll_message(context)) {
                Some(Ok(None)) => {}
                Some(Ok(Some(received))) => return Poll::Ready(Some(Ok(received))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        again(context)
    }
}

impl<S, E> FusedStream for FlightReader<S>
where
    S: Stream<Item = Result<FlightData, E>> + Unpin,
    E: Into<FlightError>,
{
    fn is_terminated(&self) -> bool {
        self.messages.is_none()
    }
}

impl<S> fmt::Debug for FlightReader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightReader").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

/// The batches of a [`FlightReader`] as arrays.
#[derive(Debug)]
pub struct FlightArrays<S> {
    reader: FlightReader<S>,
}

impl<S> FlightArrays<S> {
    /// Returns the reader, with the messages that were not read yet.
    pub fn into_reader(self) -> FlightReader<S> {
        self.reader
    }
}

impl<S, E> Stream for FlightArrays<S>
where
    S: Stream<Item = Result<FlightData, E>> + Unpin,
    E: Into<FlightError>,
{
    type Item = Result<Array>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        for _ in 0..AT_ONCE {
            match ready!(Pin::new(&mut self.reader).poll_next(context)) {
                Some(Ok(Received { batch: None, .. })) => {}
                Some(Ok(Received { batch: Some(batch), .. })) => {
                    return Poll::Ready(Some(Ok(Array::from(batch))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        again(context)
    }
}

impl<S, E> FusedStream for FlightArrays<S>
where
    S: Stream<Item = Result<FlightData, E>> + Unpin,
    E: Into<FlightError>,
{
    fn is_terminated(&self) -> bool {
        self.reader.is_terminated()
    }
}
