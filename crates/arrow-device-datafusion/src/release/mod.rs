//! The tables and plans for one release of DataFusion. `lib.rs` includes this source once for each
//! release; `super::datafusion` is the release, and `super::bridge` converts to and from its
//! arrow-rs.

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

/// How many batches are on their way to the host while one is used, by default.
const AHEAD: usize = 2;

/// The results of a plan or a `DataFrame`, as an asynchronous stream of arrays: see [`results`].
pub type Results = AsyncArrays<SendableRecordBatchStream>;

/// Converts the batches of DataFusion to arrays on the host, without a copy.
///
/// [`ArraysExt`](arrow_device::async_stream::ArraysExt) moves the arrays:
/// `results(frame.execute_stream().await?)?.copy_to(&queue).prefetch(2)` is a stream of arrays on
/// the device of the queue. [`AsyncProducer`](arrow_device::async_stream::AsyncProducer) hands the
/// arrays to another library. Nothing is asked of DataFusion before the stream is polled. Dropping
/// the stream gives up the query.
///
/// # Errors
/// C cannot carry the schema. Errors of the query come in the stream.
pub fn results(stream: SendableRecordBatchStream) -> arrow_device::Result<Results> {
    AsyncArrays::from_arrow((stream.schema(), stream))
}

/// Converts an error of this library to one of DataFusion. `downcast_ref` of the root of that error
/// finds the original.
fn theirs(error: Error) -> DataFusionError {
    DataFusionError::from(error.into_arrow_error())
}

/// Converts a schema of DataFusion to one of this library, and checks that it converts back to the
/// same schema.
fn kept_schema(schema: &SchemaRef) -> Result<Schema> {
    let ours = Schema::from_arrow(&**schema).map_err(theirs)?;
    let back = ours.to_arrow().map_err(theirs)?;
    if back != *schema {
        let message = format!("a device cannot be told all of the schema {schema}: {back}");
        return Err(DataFusionError::NotImplemented(message));
    }
    Ok(ours)
}

/// Converts a schema of this library to one of DataFusion.
fn their_schema(schema: &Schema) -> arrow_device::Result<SchemaRef> {
    schema.to_arrow()
}
