//! [`OnDevice`]: a plan whose input goes to a device and back.
//!
//! A partition is a chain of streams: the batches of the input become arrays, are copied to the
//! device, changed there by the function, copied back, and become batches again. Each copy runs
//! ahead by a bounded number of batches, so that the device works while the host uses an earlier
//! batch. What must stay true: no thread is blocked, and an error of the input comes out unchanged,
//! behind the batches before it.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::{Array, Error, Queue, Schema};
use futures_util::TryStreamExt as _;

use super::bridge::{AsyncArrays, AsyncReader, FromArrow as _};
use super::datafusion::arrow::datatypes::SchemaRef;
use super::datafusion::error::{DataFusionError, Result};
use super::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use super::datafusion::physical_expr::EquivalenceProperties;
use super::datafusion::physical_plan::metrics::{
    ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use super::datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, Partitioning,
    PlanProperties,
};
use super::metered::{Metered, bytes_of};
use super::table::DeviceArrays;
use super::{AHEAD, kept_schema, their_schema, theirs};

type Changed = Pin<Box<dyn Future<Output = arrow_device::Result<Array>> + Send>>;
type Change = dyn Fn(Array) -> Changed + Send + Sync;

/// Moves the batches of its input to a device, calls a function that changes them there, and moves
/// the result of the function back to the host.
///
/// The plan has the partitions of its input, and moves each of them by itself, through the one
/// queue. Up to [`with_prefetch`](Self::with_prefetch) batches are on their way to the device, and
/// as many back, while one is used. No thread is blocked. A stream that is dropped gives up the
/// batches that are on their way.
///
/// The metrics are `bytes_to_device`, `bytes_to_host`, `await_time` (how long a batch was awaited
/// that was not there yet, which includes the time of the input) and those that every plan has. An
/// error of the input comes out unchanged. An error of this library is the root of a
/// `DataFusionError`.
pub struct OnDevice {
    input: Arc<dyn ExecutionPlan>,
    queue: Queue,
    ahead: usize,
    change: Option<Arc<Change>>,
    /// The schema of the batches that come back.
    schema: SchemaRef,
    ours: Schema,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl OnDevice {
    /// Returns a plan that moves batches to the device of a queue, and back.
    ///
    /// # Errors
    /// The schema of the input is one that C cannot carry, or that does not convert back to itself.
    pub fn new(input: Arc<dyn ExecutionPlan>, queue: &Queue) -> Result<Self> {
        let schema = input.schema();
        let ours = kept_schema(&schema)?;
        let (queue, properties) = (queue.clone(), input.properties().clone());
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { input, queue, ahead: AHEAD, change: None, schema, ours, properties, metrics })
    }

    /// Sets the function that makes another array from each array on the device. The new array has
    /// this schema and may be on any device. The function submits work, and does not wait. It
    /// replaces a function that was set before.
    ///
    /// # Errors
    /// [`Unsupported`](arrow_device::ErrorKind::Unsupported): arrow-rs has no place for something
    /// of the schema.
    pub fn map<F>(self, schema: &Schema, change: F) -> arrow_device::Result<Self>
    where
        F: Fn(Array) -> arrow_device::Result<Array> + Send + Sync + 'static,
    {
        self.changed_by(schema, Arc::new(move |array| Box::pin(std::future::ready(change(array)))))
    }

    /// [`map`](Self::map) with an asynchronous function. A filter needs one, because it has to
    /// learn how many rows are left.
    pub fn then<F, R>(self, schema: &Schema, change: F) -> arrow_device::Result<Self>
    where
        F: Fn(Array) -> R + Send + Sync + 'static,
        R: Future<Output = arrow_device::Result<Array>> + Send + 'static,
    {
        self.changed_by(schema, Arc::new(move |array| Box::pin(change(array))))
    }

    fn changed_by(mut self, schema: &Schema, change: Arc<Change>) -> arrow_device::Result<Self> {
        self.schema = their_schema(schema)?;
        (self.ours, self.change) = (schema.clone(), Some(change));
        self.properties = self.properties_over(&self.input);
        Ok(self)
    }

    /// Sets how many batches of each partition are on their way in each direction while one is
    /// used. The default is 2.
    #[must_use]
    pub fn with_prefetch(mut self, ahead: usize) -> Self {
        self.ahead = ahead;
        self
    }

    /// Returns the properties of the batches that come back. With a function, only the number of
    /// partitions is known.
    fn properties_over(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        if self.change.is_none() {
            return input.properties().clone();
        }
        let partitions = input.output_partitioning().partition_count();
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new(self.schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        ))
    }
}

impl ExecutionPlan for OnDevice {
    no_expressions!();

    fn name(&self) -> &str {
        "OnDevice"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.change.is_none()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return Err(DataFusionError::Internal("OnDevice has one child".to_string()));
        };
        if input.schema() != self.input.schema() {
            let message = "OnDevice is for a child of another schema".to_string();
            return Err(DataFusionError::Internal(message));
        }
        Ok(Arc::new(Self {
            properties: self.properties_over(&input),
            input,
            queue: self.queue.clone(),
            ahead: self.ahead,
            change: self.change.clone(),
            schema: self.schema.clone(),
            ours: self.ours.clone(),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, partition);
        let (there, back) = (counter("bytes_to_device"), counter("bytes_to_host"));
        let input = self.input.execute(partition, context)?;
        let input =
            input.inspect_ok(move |batch| there.add(bytes_of(batch))).map_err(InputError::carried);
        let arrays = AsyncArrays::from_arrow((self.input.schema(), input)).map_err(theirs)?;
        let arrays = arrays.copy_to(&self.queue).prefetch(self.ahead);
        let arrays: DeviceArrays = match self.change.clone() {
            Some(change) => Box::pin(arrays.and_then(move |array| change(array))),
            None => Box::pin(arrays),
        };
        let on_host = arrays.to_host().prefetch(self.ahead);
        let batches = AsyncReader::new(self.ours.clone(), on_host).map_err(theirs)?;
        let batches = batches
            .with_errors::<DataFusionError>()
            .inspect_ok(move |batch| back.add(bytes_of(batch)))
            .map_err(|error| InputError::taken_from(&error).unwrap_or(error));
        Ok(Box::pin(Metered::new(self.schema.clone(), batches, &self.metrics, partition)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// An error of the input on its way through the streams of this library, where it is the cause of
/// an error of the library. The batches before it, and their errors, come out first.
#[derive(Debug)]
struct InputError(Mutex<Option<DataFusionError>>);

/// An error that has an [`InputError`] as its cause: an error of the library shows the causes of
/// the error that it wraps, and not that error itself.
#[derive(Debug)]
struct InputFailed(InputError);

impl InputError {
    fn carried(error: DataFusionError) -> Error {
        Error::other(InputFailed(Self(Mutex::new(Some(error)))))
    }

    /// The error of the input that is among the causes of this error.
    fn taken_from(error: &DataFusionError) -> Option<DataFusionError> {
        let mut cause: &(dyn StdError + 'static) = error;
        // An error of the input is wrapped a few times. One of the function's may be its own cause.
        for _ in 0..16 {
            if let Some(Self(input)) = cause.downcast_ref() {
                return input.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
            cause = cause.source()?;
        }
        None
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error of the input")
    }
}

impl StdError for InputError {}

impl fmt::Display for InputFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the input of a plan failed")
    }
}

impl StdError for InputFailed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

impl DisplayAs for OnDevice {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = if self.change.is_some() { ", function" } else { "" };
        write!(f, "OnDevice: {}, prefetch={}{function}", self.queue.device().id(), self.ahead)
    }
}

impl fmt::Debug for OnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}
