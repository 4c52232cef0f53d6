//! Makes the messages of a Flight of arrays.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow_device::async_stream::{ArraysExt as _, MovingArrays};
use arrow_device::{Array, ArrayReady, Batch, Error, Result, Schema};
use arrow_device_ipc::{EncodedMessage, WriteOptions};
use bytes::Bytes;
use futures_core::Stream;
use futures_core::stream::FusedStream;
use tonic::Status;

use super::ErrorExt as _;
use super::arrow::flight::error::FlightError;
use super::arrow::flight::{FlightData, FlightDescriptor};
use crate::cut::{Cutter, Step};

/// A stream of arrays, on whatever device they lie, as a stream of `FlightData`.
///
/// The first message has the schema, also where no array comes. Each array is copied to the host
/// when its message is asked for, without a blocked thread, and then into the body of its message;
/// [`prefetch`](Self::prefetch) copies the next arrays meanwhile. The first error ends the stream,
/// and so does a panic of the arrays, which becomes an error of the kind
/// [`Panicked`](arrow_device::ErrorKind::Panicked).
pub struct FlightMessages<S> {
    /// The message with the schema, until it was given.
    opening: Option<FlightData>,
    /// `None` after the end and after an error.
    arrays: Option<MovingArrays<S>>,
    /// Has what is left of the last array.
    cutter: Cutter,
    /// The next array, while its data is awaited.
    awaited: Option<(Array, ArrayReady)>,
}

impl<S: Stream<Item = Result<Array>> + Unpin> FlightMessages<S> {
    /// Returns the messages of these arrays, which are structs of the schema.
    ///
    /// Dictionaries that grow are sent whole, because most receivers do not know deltas;
    /// [`new_with`](Self::new_with) takes other options.
    ///
    /// # Errors
    /// Those of [`Encoder::new`](arrow_device_ipc::Encoder::new): the schema has something that IPC
    /// has no place for.
    pub fn new(schema: &Schema, arrays: S) -> Result<Self> {
        Self::new_with(schema, arrays, WriteOptions::new().deltas(false))
    }

    /// [`new`](Self::new) with options: compression, alignment, deltas of dictionaries.
    pub fn new_with(schema: &Schema, arrays: S, options: WriteOptions) -> Result<Self> {
        let cutter = Cutter::new(schema, options)?;
        let opening =
            FlightData { data_header: cutter.schema_message()?.into(), ..FlightData::default() };
        Ok(Self { opening: Some(opening), arrays: Some(arrays.to_host()), cutter, awaited: None })
    }

    /// Sets how many arrays are copied to the host while one is sent.
    pub fn prefetch(mut self, count: usize) -> Self {
        self.arrays = self.arrays.map(|arrays| arrays.prefetch(count));
        self
    }

    /// Sets the descriptor, which the first message of a client has to have.
    pub fn descriptor(mut self, descriptor: FlightDescriptor) -> Self {
        if let Some(opening) = &mut self.opening {
            opening.flight_descriptor = Some(descriptor);
        }
        self
    }

    /// Sets the application metadata of the message with the schema.
    pub fn app_metadata(mut self, metadata: impl Into<Bytes>) -> Self {
        if let Some(opening) = &mut self.opening {
            opening.app_metadata = metadata.into();
        }
        self
    }

    /// Sets how many bytes the body of a message may have, 2 MiB if this is not called. A larger
    /// batch is sent in parts.
    ///
    /// A single row, or a dictionary, is sent whole however large it is. Rows are also sent whole
    /// where their parts would have together more than one and a half times their bytes: rows that
    /// share their data, such as those of one run, and rows of so many columns that a body is
    /// filled with padding. The parts of a batch have together at most twice the bytes of the batch
    /// in one message.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.cutter.set_max_body(bytes);
        self
    }

    /// Returns the messages with `Status` as the error, as a server answers.
    pub fn statuses(self) -> FlightStatuses<S> {
        FlightStatuses { messages: self }
    }

    pub(super) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<FlightData>>> {
        if let Some(opening) = self.opening.take() {
            return Poll::Ready(Some(Ok(opening)));
        }
        // Taken out, so that nothing is asked again after an error or a panic.
        let Some(mut arrays) = self.arrays.take() else { return Poll::Ready(None) };
        // A panic that passed through tonic would end the task that sends, and tell nobody: the
        // other party would wait for ever.
        let asked = AssertUnwindSafe(|| self.poll_next_of(&mut arrays, context));
        let next = catch_unwind(asked)
            .unwrap_or_else(|payload| Poll::Ready(Some(Err(Error::from_panic(payload)))));
        if !matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.arrays = Some(arrays);
            return next;
        }
        // A panic of the drop is stopped for the same reason.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(arrays))).map_err(Error::from_panic);
        match (dropped, next) {
            (Err(error), Poll::Ready(None)) => Poll::Ready(Some(Err(error))),
            (_, next) => next,
        }
    }

    fn poll_next_of(
        &mut self,
        arrays: &mut MovingArrays<S>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<FlightData>>> {
        loop {
            match self.cutter.step() {
                Ok(Step::Made(message)) => return Poll::Ready(Some(message_of(&message))),
                // Other tasks have their turns between the divisions of a large batch.
                Ok(Step::Divided) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(Step::Done) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            let array = match ready!(self.poll_array(arrays, context)) {
                Some(array) => array,
                None => return Poll::Ready(None),
            };
            let batch = array.and_then(Batch::try_from);
            if let Err(error) = batch.and_then(|batch| self.cutter.cut(batch)) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// Returns the next array once its data is there.
    fn poll_array(
        &mut self,
        arrays: &mut MovingArrays<S>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Array>>> {
        let (_, until_ready) = match &mut self.awaited {
            Some(awaited) => awaited,
            None => match ready!(Pin::new(arrays).poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(array)) => {
                    let until_ready = array.until_ready();
                    self.awaited.insert((array, until_ready))
                }
            },
        };
        let waited = ready!(Pin::new(until_ready).poll(context));
        Poll::Ready(self.awaited.take().map(|(array, _)| waited.map(|()| array)))
    }
}

fn message_of(message: &EncodedMessage) -> Result<FlightData> {
    Ok(FlightData {
        data_header: Bytes::copy_from_slice(message.header()),
        data_body: message.body_bytes()?.into(),
        ..FlightData::default()
    })
}

impl<S: Stream<Item = Result<Array>> + Unpin> Stream for FlightMessages<S> {
    type Item = Result<FlightData, FlightError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.poll_message(context);
        next.map(|next| next.map(|message| message.map_err(|error| error.into_flight_error())))
    }
}

impl<S: Stream<Item = Result<Array>> + Unpin> FusedStream for FlightMessages<S> {
    fn is_terminated(&self) -> bool {
        self.arrays.is_none()
    }
}

impl<S> fmt::Debug for FlightMessages<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightMessages").field("arrays", &self.arrays).finish_non_exhaustive()
    }
}

/// [`FlightMessages`] with `Status` as the error, as a server of tonic answers:
/// `Ok(Response::new(Box::pin(messages.statuses())))`.
#[derive(Debug)]
pub struct FlightStatuses<S> {
    messages: FlightMessages<S>,
}

impl<S: Stream<Item = Result<Array>> + Unpin> Stream for FlightStatuses<S> {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.messages.poll_message(context);
        next.map(|next| next.map(|message| message.map_err(|error| error.into_status())))
    }
}
