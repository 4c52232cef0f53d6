//! Asynchronous streams of record batches of arrow-rs as streams of our arrays.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use arrow_device::{Array, Batch, Result, Schema};
use futures_core::Stream;
use futures_core::stream::FusedStream;

use super::arrow::array::RecordBatch;
use super::arrow::schema::SchemaRef;
use super::{FromArrow, errors, types};

/// A stream of record batches, as an asynchronous stream of arrays: made by
/// [`from_arrow`](FromArrow::from_arrow) of a schema and any stream of
/// `Result<RecordBatch, E>`, whose error is `ArrowError` or another's.
///
/// [`ArraysExt`](arrow_device::async_stream::ArraysExt) moves the arrays to a device, with
/// [`copy_to`](arrow_device::async_stream::ArraysExt::copy_to) and
/// [`prefetch`](arrow_device::async_stream::ArraysExt::prefetch), and
/// [`AsyncProducer`](arrow_device::async_stream::AsyncProducer) hands them to another library. A
/// stream that is not `Unpin` is boxed first: `Box::pin(stream)`.
///
/// Nothing is asked of the stream before this one is polled. All batches are taken by the one
/// schema, which was converted once: one of other types is an error of kind
/// [`SchemaMismatch`](arrow_device::ErrorKind::SchemaMismatch), and of the metadata of a batch
/// nothing is looked at. After the first error there is nothing more; the stream is dropped.
/// Neither is there anything more after a panic of the stream. An `ArrowError` becomes one of this
/// library by [`from_arrow_error`](super::ErrorExt::from_arrow_error), any other error by
/// [`Error::other`](arrow_device::Error::other).
pub struct AsyncArrays<S> {
    schema: Schema,
    /// Nothing any more after the end.
    batches: Option<S>,
    /// The stream has not answered. One that panicked stays where it is: dropping it in the panic
    /// could panic again.
    is_asked: bool,
}

/// The schema is that of every batch.
impl<S> FromArrow<(SchemaRef, S)> for AsyncArrays<S> {
    fn from_arrow((schema, batches): (SchemaRef, S)) -> Result<Self> {
        Ok(Self { schema: types::schema_from(&schema)?, batches: Some(batches), is_asked: false })
    }
}

impl<S> AsyncArrays<S> {
    /// The schema of every array, also where there is none.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }
}

impl<S, E> Stream for AsyncArrays<S>
where
    S: Stream<Item = Result<RecordBatch, E>> + Unpin,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    type Item = Result<Array>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Array>>> {
        let Self { schema, batches, is_asked } = &mut *self;
        let (Some(stream), false) = (&mut *batches, *is_asked) else { return Poll::Ready(None) };
        *is_asked = true;
        let next = Pin::new(stream).poll_next(context).map(|next| {
            next.map(|batch| {
                let batch = batch.map_err(errors::ours)?;
                Batch::from_arrow((&*schema, batch)).map(Array::from)
            })
        });
        *is_asked = false;
        let next = ready!(next);
        if !matches!(next, Some(Ok(_))) {
            *batches = None;
        }
        Poll::Ready(next)
    }
}

impl<S, E> FusedStream for AsyncArrays<S>
where
    S: Stream<Item = Result<RecordBatch, E>> + Unpin,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn is_terminated(&self) -> bool {
        self.batches.is_none() || self.is_asked
    }
}

impl<S> fmt::Debug for AsyncArrays<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncArrays({})", self.schema)
    }
}
