//! A filter that OpenCL runs, between the plans of DataFusion.
//!
//! A table lies on an OpenCL device. DataFusion reads two columns of it with SQL, a kernel keeps
//! the rows with a price of at least 500, and the rows that are left come back as batches.
//!
//! `cargo run -p arrow-device-datafusion --features datafusion-55,sql --example opencl_filter`

use std::error::Error as StdError;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use arrow_device::prelude::*;
use arrow_device::types::Int64;
use arrow_device::{Error, Result};
use arrow_device_datafusion::v55::{DeviceTable, OnDevice};
use arrow_device_testkit::application::opencl::Cl;
use datafusion_55::arrow::array::{AsArray as _, RecordBatch};
use datafusion_55::arrow::datatypes::Int64Type;
use datafusion_55::physical_plan::collect;
use datafusion_55::prelude::SessionContext;

/// Rows come in any order: each that is kept takes the next free place.
const SOURCE: &str = "kernel void keep(
    global const long* ids, global const long* prices,
    global long* kept_ids, global long* kept_prices, global int* count
) {
    size_t row = get_global_id(0);
    if (prices[row] >= 500) {
        int place = atomic_inc(count);
        kept_ids[place] = ids[row];
        kept_prices[place] = prices[row];
    }
}";

type Attempt<T> = std::result::Result<T, Box<dyn StdError + Send + Sync>>;

/// An error that cannot go to another thread, as one that can.
fn words(error: Box<dyn StdError>) -> Box<dyn StdError + Send + Sync> {
    error.to_string().into()
}

/// The kernel, whose arguments one thread at a time may set.
struct Filter {
    cl: Cl,
    kernel: Mutex<AtomicPtr<c_void>>,
    queue: Queue,
}

impl Filter {
    fn new(queue: &Queue) -> Attempt<Self> {
        let cl = Cl::load().map_err(words)?;
        let kernel = cl
            .create_kernel(cl.home_of(queue.raw().as_ptr()).map_err(words)?.0, SOURCE, "keep")
            .map_err(words)?;
        Ok(Self { cl, kernel: Mutex::new(AtomicPtr::new(kernel)), queue: queue.clone() })
    }

    /// Submits the kernel for one batch. The memory has the columns that are kept, and the count.
    fn submit(&self, array: &Array) -> Attempt<[Memory; 3]> {
        let rows = array.len();
        let size = (rows.max(1) * size_of::<i64>()) as u64;
        let mut ids = self.queue.allocate(size)?;
        let mut prices = self.queue.allocate(size)?;
        let mut count = self.queue.allocate(size_of::<i32>() as u64)?;
        // What is behind the rows that are kept.
        for memory in [&mut ids, &mut prices] {
            memory.write(&self.queue, &vec![0; rows.max(1) * size_of::<i64>()])?;
        }
        count.write(&self.queue, &0_i32.to_ne_bytes())?;
        let view = array.on(&self.queue)?;
        let mut buffers = Vec::new();
        for column in 0..2 {
            let spot = view.child(column)?.buffer(1).location().spot();
            assert_eq!(spot.offset, 0, "a copy begins where its handle does");
            buffers.push(spot.base.as_ptr());
        }
        for memory in [&mut ids, &mut prices, &mut count] {
            buffers.push(memory.spot(&self.queue)?.base.as_ptr());
        }
        let kernel = self.kernel.lock().map_err(|_| "a launch panicked")?;
        let handle = kernel.load(Ordering::Relaxed);
        self.cl.launch(self.queue.raw().as_ptr(), handle, &buffers, rows).map_err(words)?;
        Ok([ids, prices, count])
    }

    /// The rows that are kept. The host has to know how many, and awaits that.
    async fn keep(self: Arc<Self>, array: Array) -> Result<Array> {
        if array.is_empty() {
            return Ok(array);
        }
        let [ids, prices, count] = self.submit(&array).map_err(Error::other)?;
        let column = |data_type, rows, memory: Memory| {
            let buffers = [None, Some(memory.into_buffer())];
            Array::builder(data_type).len(rows).buffers(buffers).finish_on(&self.queue)
        };
        let count = column(DataType::Int32, 1, count)?.to_host_async().await?;
        let rows = count.host()?.values::<i32>()?.iter().flatten().next();
        let rows = rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0);
        let columns = [column(DataType::Int64, rows, ids)?, column(DataType::Int64, rows, prices)?];
        Ok(Batch::new(array.schema()?, columns)?.into())
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        if let Ok(kernel) = self.kernel.lock() {
            // Nobody is left who could be told.
            _ = self.cl.call("clReleaseKernel", kernel.load(Ordering::Relaxed));
        }
    }
}

fn price(id: i64) -> i64 {
    id * 37 % 1000
}

async fn run() -> Attempt<Vec<RecordBatch>> {
    let queue = arrow_device_opencl::open(0)?.open_queue()?;
    // Four batches in two partitions, on the device.
    let batch = |first: i64| {
        let ids = Array::of::<Int64>((first..first + 1000).map(Some))?;
        let prices = Array::of::<Int64>((first..first + 1000).map(|id| Some(price(id))))?;
        Batch::from_columns([("id", ids), ("price", prices)])?.copy_to(&queue)
    };
    let first = batch(0)?;
    let schema = first.schema()?;
    let partitions = vec![vec![first, batch(1000)?], vec![batch(2000)?, batch(3000)?]];
    let context = SessionContext::new();
    let table = DeviceTable::from_batches(&schema, partitions)?;
    context.register_table("goods", Arc::new(table))?;

    // What DataFusion does first: here the ids under 3500.
    let frame = context.sql("SELECT id, price FROM goods WHERE id < 3500").await?;
    let input = frame.create_physical_plan().await?;
    let filter = Arc::new(Filter::new(&queue)?);
    let plan =
        OnDevice::new(input, &queue)?.then(&schema, move |array| filter.clone().keep(array))?;
    Ok(collect(Arc::new(plan), context.task_ctx()).await?)
}

/// The ids that are left, sorted.
pub(crate) fn filtered() -> Attempt<Vec<i64>> {
    let batches =
        tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run())?;
    let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
    let mut ids: Vec<i64> = ids.copied().collect();
    ids.sort_unstable();
    Ok(ids)
}

pub(crate) fn expected() -> Vec<i64> {
    (0..3500).filter(|id| price(*id) >= 500).collect()
}

#[allow(dead_code, reason = "a test calls what it calls")]
fn main() -> Attempt<()> {
    if let Err(why) = arrow_device_opencl::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    let ids = filtered()?;
    println!("{} goods cost 500 or more, the first is {:?}", ids.len(), ids.first());
    assert!(ids == expected());
    Ok(())
}
