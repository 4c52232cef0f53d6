//! Converts asynchronous streams of this library's arrays to streams of record batches of arrow-rs.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::{Array, ArrayReady, Result, Schema};
use futures_core::Stream;
use futures_core::stream::FusedStream;

use super::ErrorExt as _;
use super::arrow::array::RecordBatch;
use super::arrow::schema::{ArrowError, SchemaRef};
use super::data::{self, Trust};
use super::reader::Target;
use crate::asked::Asked;

/// An asynchronous stream of arrays or batches as a stream of `Result<RecordBatch, ArrowError>`
/// that has a [`schema`](Self::schema). The synchronous counterpart is [`Reader`](super::Reader),
/// which reads an [`ArrayStream`](arrow_device::ArrayStream).
///
/// The source is any `Stream<Item = Result<Array>>`, or one of [`Batch`](arrow_device::Batch)es,
/// that is `Unpin` (`Box::pin` makes it so) and whose data is on the host. Arrays on a device come
/// through [`to_host`](arrow_device::async_stream::ArraysExt::to_host), with
/// [`prefetch`](arrow_device::async_stream::ArraysExt::prefetch) if the next arrays should be on
/// their way meanwhile. Data that is not there yet is awaited, and no thread is blocked. Each batch
/// is then converted as by [`to_arrow`](super::ToArrow::to_arrow), on the thread that polls, so all
/// of its data is checked. A batch of other types, or whose columns or fields of structs have other
/// names, is an error of the kind [`SchemaMismatch`](arrow_device::ErrorKind::SchemaMismatch). The
/// fields inside of lists, maps and runs, whose names libraries choose, get the names of the
/// schema, and all fields get its metadata.
///
/// An error is an `ArrowError::ExternalError` that contains the [`Error`](arrow_device::Error) of
/// this library. With [`with_errors`](Self::with_errors) it is the error that another library makes
/// of that `ArrowError`. After the first error, and after a panic, nothing more comes. After an
/// error the stream of arrays is dropped.
///
/// A stream of arrays may be made from another reader, and that reader's stream from a third one.
/// More than 128 streams that read from one another are an error of the kind
/// [`LimitExceeded`](arrow_device::ErrorKind::LimitExceeded).
pub struct AsyncReader<S, E = ArrowError> {
    target: Target,
    arrays: Asked<S>,
    /// The next array, while its data is awaited.
    awaited: Option<(Array, ArrayReady)>,
    errors: PhantomData<fn() -> E>,
}

impl<S> AsyncReader<S> {
    /// Reads a stream of structs of this schema in host memory as batches.
    ///
    /// # Errors
    /// [`Unsupported`](arrow_device::ErrorKind::Unsupported): arrow-rs has no place for something
    /// of the type. [`SchemaMismatch`](arrow_device::ErrorKind::SchemaMismatch): the type
    /// of the schema is not a struct.
    pub fn new(schema: Schema, arrays: S) -> Result<Self> {
        Self::with_trust(schema, arrays, Trust::Checked)
    }

    /// Reads a stream of structs as [`new`](Self::new) does, without a check of the data.
    ///
    /// # Safety
    /// Each array is valid, as
    /// [`to_arrow_unchecked`](super::ToArrowUnchecked::to_arrow_unchecked) says (UNS-28).
    pub unsafe fn new_unchecked(schema: Schema, arrays: S) -> Result<Self> {
        Self::with_trust(schema, arrays, Trust::Promised)
    }

    fn with_trust(schema: Schema, arrays: S, trust: Trust) -> Result<Self> {
        let target = Target::new(schema, trust)?;
        Ok(Self { target, arrays: Asked::new(arrays), awaited: None, errors: PhantomData })
    }
}

impl<S, E> AsyncReader<S, E> {
    /// Returns the schema of every batch, also where no batch comes.
    pub fn schema(&self) -> SchemaRef {
        self.target.schema.clone()
    }

    /// Changes the error type to that of another library, as a `RecordBatchStreamAdapter` of
    /// DataFusion requires: `with_errors::<DataFusionError>()`.
    pub fn with_errors<F: From<ArrowError>>(self) -> AsyncReader<S, F> {
        let Self { target, arrays, awaited, .. } = self;
        AsyncReader { target, arrays, awaited, errors: PhantomData }
    }
}

/// Returns the next array of a stream once its data is ready. `awaited` keeps the array until then.
fn poll_ready<S, A>(
    arrays: &mut S,
    awaited: &mut Option<(Array, ArrayReady)>,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Array>>>
where
    S: Stream<Item = Result<A>> + Unpin,
    A: Into<Array>,
{
    let (_, ready) = match &mut *awaited {
        Some(awaited) => awaited,
        // Polls through a stream of the library, which counts how many streams read from one
        // another.
        None => match ready!(Pin::new(&mut Plain(arrays).map_arrays(Ok)).poll_next(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            Some(Ok(array)) => {
                if let Err(error) = data::check_place(&array) {
                    return Poll::Ready(Some(Err(error)));
                }
                let ready = array.until_ready();
                awaited.insert((array, ready))
            }
        },
    };
    let waited = ready!(Pin::new(ready).poll(context));
    Poll::Ready(awaited.take().map(|(array, _)| waited.map(|()| array)))
}

/// A stream of arrays or batches as a stream of arrays.
struct Plain<'a, S>(&'a mut S);

impl<S, A> Stream for Plain<'_, S>
where
    S: Stream<Item = Result<A>> + Unpin,
    A: Into<Array>,
{
    type Item = Result<Array>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Array>>> {
        let next = Pin::new(&mut *self.0).poll_next(context);
        next.map(|array| array.map(|array| array.map(A::into)))
    }
}

impl<S, A, E> Stream for AsyncReader<S, E>
where
    S: Stream<Item = Result<A>> + Unpin,
    A: Into<Array>,
    E: From<ArrowError>,
{
    type Item = Result<RecordBatch, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { target, arrays, awaited, .. } = &mut *self;
        // SAFETY: UNS-28, which the caller of `new_unchecked` promises where nothing is checked.
        let batch = |array: Result<Array>| array.and_then(|array| unsafe { target.batch(array) });
        let next = arrays
            .poll(|arrays| poll_ready(arrays, awaited, context).map(|array| array.map(batch)));
        next.map(|next| next.map(|batch| batch.map_err(|error| E::from(error.into_arrow_error()))))
    }
}

impl<S, A, E> FusedStream for AsyncReader<S, E>
where
    S: Stream<Item = Result<A>> + Unpin,
    A: Into<Array>,
    E: From<ArrowError>,
{
    fn is_terminated(&self) -> bool {
        self.arrays.is_over()
    }
}

impl<S, E> fmt::Debug for AsyncReader<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncReader({:?})", self.target)
    }
}
