//! [`DeviceTable`]: a table of streams of arrays on a device.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use arrow_device::{Array, Batch, Error, ErrorKind, Schema};
use async_trait::async_trait;
use futures_core::Stream;

use super::datafusion::arrow::datatypes::SchemaRef;
use super::datafusion::catalog::{Session, TableProvider};
use super::datafusion::common::Statistics;
use super::datafusion::common::stats::Precision;
use super::datafusion::error::Result;
use super::datafusion::logical_expr::{Expr, TableType};
use super::datafusion::physical_plan::ExecutionPlan;
use super::{AHEAD, DeviceScan, their_schema};

/// An asynchronous stream of record batches on a device, or on the host.
pub type DeviceArrays = Pin<Box<dyn Stream<Item = arrow_device::Result<Array>> + Send>>;

type Open = dyn Fn(usize) -> arrow_device::Result<DeviceArrays> + Send + Sync;

/// A table whose rows are on a device: a `TableProvider` over streams of arrays.
///
/// Each scan opens a stream for each partition, and moves to the host, batch by batch, only the
/// columns that the query names, and no more rows than a `LIMIT` asks for. Up to
/// [`with_prefetch`](Self::with_prefetch) batches are on their way while one is used. No thread is
/// blocked. A scan that is dropped gives up the batches that are on their way.
///
/// Filters are not pushed down: DataFusion runs them on the host. To work on the device, open a
/// stream that does the work, or use an [`OnDevice`](super::OnDevice) plan, which calls a function
/// on the device. Data is checked when it comes to the host, because arrow-rs relies on valid data.
#[derive(Clone)]
pub struct DeviceTable {
    pub(super) schema: SchemaRef,
    /// The schema of the arrays: `schema` as this library has it.
    pub(super) ours: Schema,
    pub(super) partitions: usize,
    pub(super) rows: Option<usize>,
    pub(super) ahead: usize,
    pub(super) open: Arc<Open>,
}

impl DeviceTable {
    /// Returns a table of `partitions` partitions. `open` opens the stream of a partition, whose
    /// number it is given, for each scan. All arrays are of this schema, whose root is a struct. A
    /// query that comes to an array of other columns, or of columns in another order, fails with
    /// [`SchemaMismatch`](arrow_device::ErrorKind::SchemaMismatch), whichever columns it names.
    ///
    /// The function and the streams run on threads of the executor, and may not block them.
    /// [`feed`](arrow_device::async_stream::feed) runs an iterator that blocks on a thread of its
    /// own.
    ///
    /// # Errors
    /// [`Unsupported`](arrow_device::ErrorKind::Unsupported): arrow-rs has no place for something
    /// of the schema. [`SchemaMismatch`](arrow_device::ErrorKind::SchemaMismatch): the schema is
    /// not one of structs.
    pub fn new<S>(
        schema: &Schema,
        partitions: usize,
        open: impl Fn(usize) -> arrow_device::Result<S> + Send + Sync + 'static,
    ) -> arrow_device::Result<Self>
    where
        S: Stream<Item = arrow_device::Result<Array>> + Send + 'static,
    {
        let open = move |partition| open(partition).map(|arrays| Box::pin(arrays) as DeviceArrays);
        let (ours, schema) = (schema.clone(), their_schema(schema)?);
        Ok(Self { schema, ours, partitions, rows: None, ahead: AHEAD, open: Arc::new(open) })
    }

    /// A table of batches that lie on a device, in partitions. It knows how many rows it has, where
    /// a `usize` can say the number.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and [`SchemaMismatch`](arrow_device::ErrorKind::SchemaMismatch)
    /// where a batch has other types than the schema.
    pub fn from_batches(
        schema: &Schema,
        partitions: Vec<Vec<Batch>>,
    ) -> arrow_device::Result<Self> {
        for batch in partitions.iter().flatten() {
            check_columns(schema, batch)?;
        }
        let mut batches = partitions.iter().flatten();
        // Rows without bytes may be more than can be counted.
        let rows = batches.try_fold(0_usize, |rows, batch| rows.checked_add(batch.row_count()));
        let count = partitions.len();
        let open = move |partition: usize| {
            let batches = partitions.get(partition).cloned().unwrap_or_default();
            Ok(futures_util::stream::iter(batches.into_iter().map(|batch| Ok(batch.into()))))
        };
        let table = Self::new(schema, count, open)?;
        Ok(Self { rows, ..table })
    }

    /// Sets how many rows all partitions have together. DataFusion relies on the number, and
    /// answers `COUNT(*)` with it.
    #[must_use]
    pub fn with_row_count(mut self, rows: usize) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Sets how many batches of each partition are on their way to the host while one is used. The
    /// default is 2.
    #[must_use]
    pub fn with_prefetch(mut self, ahead: usize) -> Self {
        self.ahead = ahead;
        self
    }
}

/// Refuses a batch whose columns are not those of the schema of its table. Metadata may differ.
pub(super) fn check_columns(schema: &Schema, batch: &Batch) -> arrow_device::Result<()> {
    let given = batch.as_array().data_type();
    if schema.data_type().equals_ignoring_metadata(given) {
        return Ok(());
    }
    let [given, expected] = given.told_apart(schema.data_type());
    let message = format!("a batch of {given} in a table of {expected}");
    Err(Error::new(ErrorKind::SchemaMismatch, message))
}

#[async_trait]
impl TableProvider for DeviceTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(DeviceScan::new(self.clone(), projection.cloned(), limit)?))
    }

    fn statistics(&self) -> Option<Statistics> {
        let rows = self.rows?;
        Some(Statistics::new_unknown(&self.schema).with_num_rows(Precision::Exact(rows)))
    }
}

impl fmt::Debug for DeviceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DeviceTable");
        shown.field("schema", &self.schema).field("partitions", &self.partitions);
        shown.field("rows", &self.rows).finish_non_exhaustive()
    }
}
