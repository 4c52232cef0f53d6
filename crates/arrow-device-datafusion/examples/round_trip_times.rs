//! What it costs a query of DataFusion to move its batches to a device and back.
//!
//! Three ways take turns over the same batches of a `MemTable`, and the medians are shown:
//!
//! * `MemTable`: the query alone;
//! * `OnDevice`: the query through an `OnDevice`, which copies each batch to the device and back;
//! * `copy`: the copies alone, by `copy_to` and `to_host`, one batch after the other.
//!
//! The aim: on a device, `OnDevice` takes at most 1.1 times as long as `MemTable` and `copy`
//! together. The program fails where the aim is not reached. On the host no byte is copied, so
//! there the difference is the time to give batches to this library and back.
//!
//! `cargo run --release -p arrow-device-datafusion --features datafusion-55,sql --example
//! round_trip_times [TURNS]`

use std::error::Error as StdError;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_device::prelude::*;
use arrow_device_datafusion::v55::{DeviceTable, OnDevice};
use datafusion_55::arrow::array::RecordBatch;
use datafusion_55::datasource::MemTable;
use datafusion_55::physical_plan::{ExecutionPlan, collect};
use datafusion_55::prelude::{SessionConfig, SessionContext};

type Attempt<T> = Result<T, Box<dyn StdError>>;

/// How much of the sum of `MemTable` and `copy` the query through the device may take.
const AIM: f64 = 1.1;
const COLUMNS: i64 = 8;
const BATCHES: i64 = 16;

fn batch(rows: i64, first: i64) -> Attempt<Batch> {
    let columns: Vec<_> = (0..COLUMNS)
        .map(|column| {
            let values = (first..first + rows).map(|id| id * (column + 1));
            Ok((format!("c{column}"), Array::from_values(DataType::Int64, values.map(Some))?))
        })
        .collect::<arrow_device::Result<_>>()?;
    Ok(Batch::from_columns(columns)?)
}

/// A device, and the batches that take the three ways.
struct Trial {
    queue: Queue,
    ours: Vec<Batch>,
    context: SessionContext,
    plan: Arc<dyn ExecutionPlan>,
}

impl Trial {
    async fn new(queue: Queue, rows: i64) -> Attempt<Self> {
        let ours: Vec<_> =
            (0..BATCHES).map(|number| batch(rows, number * rows)).collect::<Attempt<_>>()?;
        let context =
            SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        let schema = ours.first().ok_or("no batches")?.schema()?;
        context.register_table(
            "ours",
            Arc::new(DeviceTable::from_batches(&schema, vec![ours.clone()])?),
        )?;
        let frame = context.table("ours").await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let table = MemTable::try_new(schema, frame.collect_partitioned().await?)?;
        context.register_table("t", Arc::new(table))?;
        let plan = context.sql("SELECT * FROM t").await?.create_physical_plan().await?;
        Ok(Self { queue, ours, context, plan })
    }

    async fn collected(&self, plan: Arc<dyn ExecutionPlan>) -> Attempt<(Duration, usize)> {
        let start = Instant::now();
        let batches = collect(plan, self.context.task_ctx()).await?;
        Ok((start.elapsed(), batches.iter().map(RecordBatch::num_rows).sum()))
    }

    fn copied(&self) -> Attempt<(Duration, usize)> {
        let start = Instant::now();
        let back: Vec<_> = self
            .ours
            .iter()
            .map(|batch| batch.as_array().copy_to(&self.queue)?.to_host())
            .collect::<arrow_device::Result<_>>()?;
        Ok((start.elapsed(), back.iter().map(Array::len).sum()))
    }

    /// The medians of the three ways.
    async fn medians(&self, turns: usize) -> Attempt<[Duration; 3]> {
        let mut times = [const { Vec::new() }; 3];
        let rows: usize = self.ours.iter().map(|batch| batch.as_array().len()).sum();
        for turn in 0..=turns {
            let through = Arc::new(OnDevice::new(self.plan.clone(), &self.queue)?);
            let ways = [
                self.collected(self.plan.clone()).await?,
                self.collected(through).await?,
                self.copied()?,
            ];
            assert!(ways.iter().all(|(_, came)| *came == rows));
            // Memory is used for the first time in the first turn.
            if turn > 0 {
                for (times, (time, _)) in times.iter_mut().zip(ways) {
                    times.push(time);
                }
            }
        }
        Ok(times.map(|mut times| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        }))
    }
}

async fn run(turns: usize) -> Attempt<bool> {
    let mut is_reached = true;
    let queues = [
        ("host", Ok(Queue::host())),
        ("OpenCL", arrow_device_opencl::open(0).and_then(|device| device.open_queue())),
    ];
    for (name, queue) in queues {
        let Ok(queue) = queue else {
            println!("{name}: none here");
            continue;
        };
        for rows in [8192, 1 << 17] {
            let trial = Trial::new(queue.clone(), rows).await?;
            let [plain, through, copy] = trial.medians(turns).await?;
            print!(
                "{name}, {BATCHES} batches of {COLUMNS} columns and {rows} rows: `MemTable` {plain:.1?}, \
                 `OnDevice` {through:.1?}, `copy` {copy:.1?}"
            );
            if queue.device().id() == DeviceId::CPU {
                println!();
                continue;
            }
            let ratio = through.as_secs_f64() / (plain + copy).as_secs_f64();
            println!(": {ratio:.2} (aim: {AIM})");
            is_reached &= ratio <= AIM;
        }
    }
    Ok(is_reached)
}

fn main() -> Attempt<ExitCode> {
    let turns = std::env::args().nth(1).map_or(Ok(31), |turns| turns.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(if runtime.block_on(run(turns))? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
