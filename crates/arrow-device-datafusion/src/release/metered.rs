//! Streams of batches whose rows and times are measured.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_core::Stream;

use super::datafusion::arrow::array::{Array as _, RecordBatch};
use super::datafusion::arrow::datatypes::SchemaRef;
use super::datafusion::error::Result;
use super::datafusion::execution::RecordBatchStream;
use super::datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, Time,
};

/// A stream that records for its plan how many rows came, and how long they took.
pub(super) struct Metered<S> {
    schema: SchemaRef,
    batches: S,
    baseline: BaselineMetrics,
    /// How long consumers waited for a batch that was not there yet.
    await_time: Time,
    asked: Option<Instant>,
}

impl<S> Metered<S> {
    pub(super) fn new(
        schema: SchemaRef,
        batches: S,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Self {
        let baseline = BaselineMetrics::new(metrics, partition);
        let await_time = MetricBuilder::new(metrics).subset_time("await_time", partition);
        Self { schema, batches, baseline, await_time, asked: None }
    }
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin> Stream for Metered<S> {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let timer = this.baseline.elapsed_compute().timer();
        let next = Pin::new(&mut this.batches).poll_next(context);
        drop(timer);
        match next.is_pending() {
            true => _ = this.asked.get_or_insert_with(Instant::now),
            false => {
                if let Some(asked) = this.asked.take() {
                    this.await_time.add_duration(asked.elapsed());
                }
            }
        }
        this.baseline.record_poll(next)
    }
}

impl<S: Stream<Item = Result<RecordBatch>> + Unpin> RecordBatchStream for Metered<S> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Returns how many bytes the rows of a batch have in all buffers.
pub(super) fn bytes_of(batch: &RecordBatch) -> usize {
    let bytes = |column: &_| -> usize {
        let column: &super::datafusion::arrow::array::ArrayRef = column;
        column.to_data().get_slice_memory_size().unwrap_or_default()
    };
    batch.columns().iter().map(bytes).sum()
}
