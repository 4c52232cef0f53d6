//! The tables and plans for one release of DataFusion. `lib.rs` has this source in it once for
//! each; `super::datafusion` is the release, and `super::bridge` the bridge to its arrow-rs.

use arrow_device::{Error, Schema};

use super::bridge::{AsyncArrays, ErrorExt as _, FromArrow as _, ToArrow as _};
use super::datafusion::arrow::datatypes::SchemaRef;
use super::datafusion::error::{DataFusionError, Result};
use super::datafusion::execution::SendableRecordBatchStream;
use super::{bridge, datafusion};

mod metered;
mod on_device;
mod scan;
mod table;

pub use on_device::OnDevice;
pub use scan::DeviceScan;
pub use table::{DeviceArrays, DeviceTable};

/// How many batches are on their way to the host while one is used, unless told otherwise.
const AHEAD: usize = 2;

/// The results of a plan or a `DataFrame`, as an asynchronous stream of arrays: see [`results`].
pub type Results = AsyncArrays<SendableRecordBatchStream>;

/// The batches of DataFusion as arrays on the host, without a copy.
///
/// [`ArraysExt`](arrow_device::async_stream::ArraysExt) moves them:
/// `results(frame.execute_stream().await?)?.copy_to(&queue).prefetch(2)` is a stream of arrays
/// on the device of the queue, and
/// [`AsyncProducer`](arrow_device::async_stream::AsyncProducer) hands it to another library.
/// Nothing is asked of DataFusion before the stream is polled; dropped, it gives up the query.
///
/// # Errors
/// The schema is one that C cannot carry. Errors of the query come in the stream.
pub fn results(stream: SendableRecordBatchStream) -> arrow_device::Result<Results> {
    AsyncArrays::from_arrow((stream.schema(), stream))
}

/// An error of this library as one of DataFusion, which can be had again by `downcast_ref` of its
/// root.
fn theirs(error: Error) -> DataFusionError {
    DataFusionError::from(error.into_arrow_error())
}

/// A schema of DataFusion as one of ours that becomes the same schema again.
fn kept_schema(schema: &SchemaRef) -> Result<Schema> {
    let ours = Schema::from_arrow(&**schema).map_err(theirs)?;
    let back = ours.to_arrow().map_err(theirs)?;
    if back != *schema {
        let message = format!("a device cannot be told all of the schema {schema}: {back}");
        return Err(DataFusionError::NotImplemented(message));
    }
    Ok(ours)
}

/// A schema of ours as one of DataFusion.
fn their_schema(schema: &Schema) -> arrow_device::Result<SchemaRef> {
    schema.to_arrow()
}
