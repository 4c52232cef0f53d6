//! [`DeviceScan`]: the plan that reads a device table.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::{Array, Batch, Schema};
use futures_core::Stream;
use futures_util::TryStreamExt as _;

use super::bridge::AsyncReader;
use super::datafusion::arrow::datatypes::SchemaRef;
use super::datafusion::common::Statistics;
use super::datafusion::common::stats::Precision;
use super::datafusion::error::{DataFusionError, Result};
use super::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use super::datafusion::physical_expr::EquivalenceProperties;
use super::datafusion::physical_plan::coop::cooperative;
use super::datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use super::datafusion::physical_plan::metrics::{
    ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use super::datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use super::metered::{Metered, bytes_of};
use super::table::{DeviceArrays, DeviceTable, check_columns};
use super::{kept_schema, theirs};

/// Reads a [`DeviceTable`]: opens the stream of each partition, and moves the columns that are
/// asked for to the host.
///
/// The metrics are `bytes_to_host`, `await_time` (how long a batch was awaited that was not there
/// yet) and those that every plan has.
pub struct DeviceScan {
    table: DeviceTable,
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
    projected: SchemaRef,
    ours: Schema,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DeviceScan {
    pub(super) fn new(
        table: DeviceTable,
        projection: Option<Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Self> {
        let projected = match &projection {
            Some(columns) => Arc::new(table.schema.project(columns)?),
            None => table.schema.clone(),
        };
        let ours = kept_schema(&projected)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(projected.clone()),
            Partitioning::UnknownPartitioning(table.partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Ok(Self { table, projection, limit, projected, ours, properties, metrics })
    }

    /// Returns the statistics of a partition, or of all partitions.
    fn statistics_of(&self, partition: Option<usize>) -> Statistics {
        let unknown = Statistics::new_unknown(&self.projected);
        match (self.table.rows, partition, self.limit) {
            (Some(rows), None, None) => unknown.with_num_rows(Precision::Exact(rows)),
            // Each partition returns up to `limit` rows.
            (Some(rows), None, Some(limit)) => {
                let most = rows.min(limit.saturating_mul(self.table.partitions));
                unknown.with_num_rows(Precision::Inexact(most))
            }
            _ => unknown,
        }
    }
}

impl ExecutionPlan for DeviceScan {
    leaf_statistics!();

    no_expressions!();

    fn name(&self) -> &str {
        "DeviceScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => Err(DataFusionError::Internal("DeviceScan has no children".to_string())),
        }
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition >= self.table.partitions {
            let message = format!("DeviceScan has no partition {partition}");
            return Err(DataFusionError::Internal(message));
        }
        let picked = Picked {
            arrays: Some((self.table.open)(partition).map_err(theirs)?),
            columns: self.projection.clone(),
            whole: self.table.ours.clone(),
            schema: self.ours.clone(),
            left: self.limit,
        };
        let on_host = picked.to_host().prefetch(self.table.ahead);
        let batches = AsyncReader::new(self.ours.clone(), on_host).map_err(theirs)?;
        let bytes = MetricBuilder::new(&self.metrics).counter("bytes_to_host", partition);
        let batches = batches
            .with_errors::<DataFusionError>()
            .inspect_ok(move |batch| bytes.add(bytes_of(batch)));
        // Where data is always there, nothing below makes the task wait. The task would keep its
        // thread until the last batch, and could not be cancelled.
        let metered = Metered::new(self.projected.clone(), batches, &self.metrics, partition);
        Ok(Box::pin(cooperative(metered)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

impl DisplayAs for DeviceScan {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.projected.fields().iter().map(|field| field.name()).collect();
        write!(f, "DeviceScan: partitions={}, columns={names:?}", self.table.partitions)?;
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for DeviceScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

/// The rows and columns of a stream that are asked for, on the device of the stream.
struct Picked {
    /// `None` after the end.
    arrays: Option<DeviceArrays>,
    columns: Option<Vec<usize>>,
    /// The schema of the table, which each array has.
    whole: Schema,
    /// The schema of the columns that are asked for.
    schema: Schema,
    left: Option<usize>,
}

impl Picked {
    /// Returns the columns of an array that are asked for, and no more rows than are left.
    fn pick(&mut self, array: Array) -> arrow_device::Result<Array> {
        let mut batch = Batch::try_from(array)?;
        // Columns are asked for by their numbers, which mean nothing in another schema.
        check_columns(&self.whole, &batch)?;
        if let Some(left) = &mut self.left {
            let rows = batch.row_count().min(*left);
            *left -= rows;
            if rows < batch.row_count() {
                batch = batch.slice(0, rows)?;
            }
        }
        let Some(columns) = &self.columns else { return Ok(batch.into()) };
        if columns.is_empty() {
            let rows = Array::builder(&self.schema).len(batch.row_count()).buffers([None]);
            return rows.finish_ready();
        }
        let columns: arrow_device::Result<Vec<_>> =
            columns.iter().map(|column| batch.column(*column)).collect();
        Ok(Batch::new(self.schema.clone(), columns?)?.into())
    }
}

impl Stream for Picked {
    type Item = arrow_device::Result<Array>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.left == Some(0) {
            this.arrays = None;
        }
        let Some(arrays) = &mut this.arrays else { return Poll::Ready(None) };
        let next = ready!(arrays.as_mut().poll_next(context));
        let next = next.map(|array| array.and_then(|array| this.pick(array)));
        if !matches!(next, Some(Ok(_))) {
            this.arrays = None;
        }
        Poll::Ready(next)
    }
}
