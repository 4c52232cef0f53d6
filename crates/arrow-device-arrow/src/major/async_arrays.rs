//! Converts asynchronous streams of record batches of arrow-rs to streams of this library's arrays.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow_device::{Array, Batch, Result, Schema};
use futures_core::Stream;
use futures_core::stream::FusedStream;

use super::arrow::array::RecordBatch;
use super::arrow::schema::SchemaRef;
use super::{FromArrow, errors, types};
use crate::asked::Asked;

/// A stream of record batches as an asynchronous stream of arrays.
/// [`from_arrow`](FromArrow::from_arrow) makes it from a schema and any stream of
/// `Result<RecordBatch, E>`, whose error is `ArrowError` or another type.
///
/// [`ArraysExt`](arrow_device::async_stream::ArraysExt) moves the arrays to a device, with
/// [`copy_to`](arrow_device::async_stream::ArraysExt::copy_to) and
/// [`prefetch`](arrow_device::async_stream::ArraysExt::prefetch), and
/// [`AsyncProducer`](arrow_device::async_stream::AsyncProducer) hands them to another library. A
/// stream that is not `Unpin` is boxed first: `Box::pin(stream)`.
///
/// The record batches are not asked for before this stream is polled. All batches are converted by
/// the one schema, which was converted once, as by `Batch::from_arrow` with a schema: a batch of
/// other types, or whose columns or fields of structs have other names, is an error of the kind
/// [`SchemaMismatch`](arrow_device::ErrorKind::SchemaMismatch). After the first error, and after a
/// panic of the stream, nothing more comes. After an error the stream is dropped. An `ArrowError`
/// becomes an error of this library by [`from_arrow_error`](super::ErrorExt::from_arrow_error), any
/// other error by [`Error::other`](arrow_device::Error::other).
pub struct AsyncArrays<S> {
    schema: Schema,
    batches: Asked<S>,
}

/// The schema is that of every batch of the stream.
impl<S> FromArrow<(SchemaRef, S)> for AsyncArrays<S> {
    fn from_arrow((schema, batches): (SchemaRef, S)) -> Result<Self> {
        Ok(Self { schema: types::schema_from(&schema)?, batches: Asked::new(batches) })
    }
}

impl<S> AsyncArrays<S> {
    /// Returns the schema of every array, also where no array comes.
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
        let Self { schema, batches } = &mut *self;
        let convert = |batch: Result<RecordBatch, E>| {
            let batch = batch.map_err(errors::ours)?;
            Batch::from_arrow((&*schema, batch)).map(Array::from)
        };
        batches.poll(|batches| Pin::new(batches).poll_next(context).map(|next| next.map(convert)))
    }
}

impl<S, E> FusedStream for AsyncArrays<S>
where
    S: Stream<Item = Result<RecordBatch, E>> + Unpin,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn is_terminated(&self) -> bool {
        self.batches.is_over()
    }
}

impl<S> fmt::Debug for AsyncArrays<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncArrays({})", self.schema)
    }
}
