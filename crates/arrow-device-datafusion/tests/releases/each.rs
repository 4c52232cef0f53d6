//! The same tests for each release.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::types::Int64;
use arrow_device::{Array, Batch, DataType, Device, Error, ErrorKind, Schema};
use arrow_device_sim::Sim;
use futures_util::StreamExt as _;

use super::bridge::{DeviceTable, OnDevice, results};
use super::datafusion::arrow::array::RecordBatch;
use super::datafusion::arrow::util::pretty::pretty_format_batches;
use super::datafusion::catalog::TableProvider;
use super::datafusion::datasource::MemTable;
use super::datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use super::datafusion::prelude::{SessionConfig, SessionContext};

const PARTITIONS: usize = 3;
const BATCHES: i64 = 4;
const ROWS: i64 = 50;

/// A batch of an id, a value with nulls, and a text with nulls.
fn batch(first: i64) -> Batch {
    let ids = Array::of::<Int64>((first..first + ROWS).map(Some)).unwrap();
    let values = (first..first + ROWS).map(|id| (id % 7 != 0).then_some(id * 3));
    let texts = (first..first + ROWS).map(|id| (id % 5 != 0).then(|| format!("text {}", id % 11)));
    let columns = [
        ("id", ids),
        ("value", Array::of::<Int64>(values).unwrap()),
        ("text", Array::from_texts(DataType::Utf8, texts).unwrap()),
    ];
    Batch::from_columns(columns).unwrap()
}

fn partitions() -> Vec<Vec<Batch>> {
    let of = |partition: i64| (0..BATCHES).map(move |n| batch((partition * BATCHES + n) * ROWS));
    (0..PARTITIONS as i64).map(|partition| of(partition).collect()).collect()
}

fn schema() -> Schema {
    batch(0).schema().unwrap()
}

fn sim() -> (Sim, Device) {
    let sim = Sim::builder().build();
    let device = sim.device().clone();
    (sim, device)
}

/// The table on a device, and how many of its arrays were taken.
fn device_table(device: &Device) -> DeviceTable {
    let queue = device.open_queue().unwrap();
    let there = |batch: Batch| batch.copy_to(&queue).unwrap();
    let there =
        partitions().into_iter().map(|batches| batches.into_iter().map(there).collect()).collect();
    DeviceTable::from_batches(&schema(), there).unwrap()
}

/// The same in DataFusion's own table.
async fn memory_table() -> MemTable {
    let host = DeviceTable::from_batches(&schema(), partitions()).unwrap();
    let context = context(host);
    let frame = context.table("t").await.unwrap();
    let schema = Arc::new(frame.schema().as_arrow().clone());
    MemTable::try_new(schema, frame.collect_partitioned().await.unwrap()).unwrap()
}

fn context(table: impl TableProvider + 'static) -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

/// The rows of an answer, sorted.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let shown = pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<_> = shown.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

async fn answer(context: &SessionContext, query: &str) -> Vec<String> {
    rows(&context.sql(query).await.unwrap().collect().await.unwrap())
}

async fn plan_of(context: &SessionContext, query: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(query).await.unwrap().create_physical_plan().await.unwrap()
}

/// A metric, over all plans below.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name));
    let own = own.map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(|child| metric(child, name)).sum::<usize>()
}

/// Until a device holds nothing any more: the last share may be on a thread of the library. Each
/// test of a software device ends with this, because the device reports what is left when it is
/// dropped.
async fn settle(sim: &Sim, device: &Device) {
    for _ in 0..1000 {
        sim.run_until_idle();
        arrow_device::deferred::release_finished();
        if device.held().allocated == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("{:?}", device.held());
}

/// Rows of nulls have no bytes, so that a few batches have more of them than a number can say.
#[test]
fn a_table_of_more_rows_than_can_be_counted_does_not_say_how_many() {
    let batch = || Batch::from_columns([("none", Array::nulls(1 << 56).unwrap())]);
    let table = |batches: usize| {
        let batches: Vec<Batch> = (0..batches).map(|_| batch().unwrap()).collect();
        DeviceTable::from_batches(&batch().unwrap().schema().unwrap(), vec![batches]).unwrap()
    };
    assert!(table(255).statistics().is_some());
    assert!(table(256).statistics().is_none());
}

#[tokio::test]
async fn a_device_table_answers_as_a_table_in_memory_does() {
    let (sim, device) = sim();
    let (ours, theirs) = (context(device_table(&device)), context(memory_table().await));
    for query in [
        "SELECT * FROM t",
        "SELECT text, id FROM t WHERE value > 200 AND text IS NOT NULL",
        "SELECT text, COUNT(*), SUM(value), MIN(id) FROM t GROUP BY text",
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(*) FROM t WHERE id >= 0 OR id IS NULL",
        "SELECT a.id, b.text FROM t a JOIN t b ON a.id = b.value",
        "SELECT id FROM t ORDER BY id DESC LIMIT 7",
        "SELECT 1 FROM t",
        "SELECT id FROM t WHERE FALSE",
    ] {
        assert_eq!(answer(&ours, query).await, answer(&theirs, query).await, "{query}");
    }
    drop(ours);
    settle(&sim, &device).await;
}

#[tokio::test]
async fn only_the_columns_that_a_query_names_are_moved() {
    let (sim, device) = sim();
    let context = context(device_table(&device));
    let plan = plan_of(&context, "SELECT id FROM t").await;
    let batches = collect(plan.clone(), context.task_ctx()).await.unwrap();
    let all: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(all, PARTITIONS * (BATCHES * ROWS) as usize);
    assert_eq!(metric(&plan, "bytes_to_host"), all * 8);
    drop((plan, context));
    settle(&sim, &device).await;
}

#[tokio::test]
async fn a_count_of_known_rows_opens_no_stream() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = opened.clone();
    let open = move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(futures_util::stream::iter([Ok(Array::from(batch(0)))]))
    };
    let table = DeviceTable::new(&schema(), 1, open).unwrap();
    let counted = context(table.clone().with_row_count(ROWS as usize));
    let query = "SELECT COUNT(*) FROM t";
    let known = answer(&counted, query).await;
    assert_eq!(opened.load(Ordering::Relaxed), 0);
    assert_eq!(answer(&context(table), query).await, known);
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_limit_takes_no_more_batches_than_it_needs() {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let open = move |_| {
        let count = count.clone();
        Ok(futures_util::stream::iter((0..1000).map(move |number| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Array::from(batch(number * ROWS)))
        })))
    };
    let context = context(DeviceTable::new(&schema(), 1, open).unwrap());
    let plan = plan_of(&context, "SELECT id FROM t LIMIT 60").await;
    let batches = collect(plan.clone(), context.task_ctx()).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 60);
    assert_eq!(taken.load(Ordering::Relaxed), 2);
    assert_eq!(metric(&plan, "bytes_to_host"), 60 * 8);
}

/// The plan sorts each partition in a task of its own, which DataFusion does not make yield.
#[tokio::test]
async fn a_query_of_data_that_is_always_there_lets_other_tasks_run() {
    const MANY: i64 = 2000;
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let open = move |_| {
        let count = count.clone();
        Ok(futures_util::stream::iter((0..MANY).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Array::from(batch(0)))
        })))
    };
    let context = context(DeviceTable::new(&schema(), PARTITIONS, open).unwrap());
    let plan = plan_of(&context, "SELECT id FROM t ORDER BY id").await;
    let query = tokio::spawn(collect(plan, context.task_ctx()));
    while taken.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    query.abort();
    assert!(query.await.unwrap_err().is_cancelled());
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < MANY as usize, "{taken} batches before another task could run");
}

#[tokio::test]
async fn an_empty_table_has_its_columns_and_no_rows() {
    for partitions in [vec![vec![]], vec![vec![batch(0).slice(0, 0).unwrap()], vec![]]] {
        let context = context(DeviceTable::from_batches(&schema(), partitions).unwrap());
        let frame = context.sql("SELECT * FROM t WHERE id IS NULL OR id > 0").await.unwrap();
        assert_eq!(frame.schema().fields().len(), 3);
        assert_eq!(frame.count().await.unwrap(), 0);
    }
}

/// A table whose partitions fail after two batches.
fn table_without_its_third_batch(partitions: usize) -> DeviceTable {
    let open = |_| {
        let error = Error::new(ErrorKind::DeviceLost, "the third batch is lost");
        let arrays = [Ok(batch(0).into()), Ok(batch(ROWS).into()), Err(error)];
        Ok(futures_util::stream::iter(arrays))
    };
    DeviceTable::new(&schema(), partitions, open).unwrap()
}

#[tokio::test]
async fn an_error_in_the_middle_ends_the_query_with_its_words() {
    let context = context(table_without_its_third_batch(2));
    let failed = context.sql("SELECT SUM(id) FROM t").await.unwrap().collect().await.unwrap_err();
    assert!(failed.to_string().contains("the third batch is lost"), "{failed}");
    // Through a device as well.
    let (sim, device) = sim();
    let input = plan_of(&context, "SELECT id FROM t").await;
    let plan = OnDevice::new(input, &device.open_queue().unwrap()).unwrap();
    let failed = collect(Arc::new(plan), context.task_ctx()).await.unwrap_err();
    assert!(failed.to_string().contains("the third batch is lost"), "{failed}");
    settle(&sim, &device).await;
}

#[tokio::test]
async fn an_error_comes_out_behind_the_batches_before_it_also_where_the_input_was_read_ahead() {
    let context = context(table_without_its_third_batch(1));
    let (sim, device) = sim();
    let input = plan_of(&context, "SELECT * FROM t").await;
    for failing in 0..=2 {
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let change = move |array: Array| {
            if calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == failing {
                return Err(Error::new(ErrorKind::Peer, "the function failed"));
            }
            Ok(array)
        };
        let plan = OnDevice::new(input.clone(), &device.open_queue().unwrap()).unwrap();
        let plan = plan.with_prefetch(4).map(&schema(), change).unwrap();
        let mut stream = execute_stream(Arc::new(plan), context.task_ctx()).unwrap();
        let mut batches = 0;
        let error = loop {
            match stream.next().await.expect("an error comes before the end") {
                Ok(_) => batches += 1,
                Err(error) => break error.to_string(),
            }
        };
        // The function is never called for the third batch.
        let expected = ["the function failed", "the third batch is lost"][failing / 2];
        assert_eq!(batches, failing);
        assert!(error.contains(expected), "{error}");
    }
    settle(&sim, &device).await;
}

#[tokio::test]
async fn a_batch_of_other_types_is_refused() {
    let words = || Array::from_texts(DataType::Utf8, [Some("x")]).unwrap();
    let numbers = || Array::of::<Int64>([Some(1)]).unwrap();
    let ids = Batch::from_columns([("id", words())]).unwrap();
    let refused = DeviceTable::from_batches(&schema(), vec![vec![ids.clone()]]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SchemaMismatch);
    // Columns whose types are those of the table, in another order, are other columns, too.
    let swapped = [("value", numbers()), ("id", numbers()), ("text", words())];
    for other in [ids, Batch::from_columns(swapped).unwrap()] {
        let open = move |_| Ok(futures_util::stream::iter([Ok(Array::from(other.clone()))]));
        let context = context(DeviceTable::new(&schema(), 1, open).unwrap());
        for query in
            ["SELECT * FROM t", "SELECT id FROM t", "SELECT text FROM t", "SELECT 1 FROM t"]
        {
            let failed = context.sql(query).await.unwrap().collect().await.unwrap_err();
            let mut cause: &dyn std::error::Error = &failed;
            while let Some(next) = cause.source() {
                cause = next;
            }
            let error = cause.downcast_ref::<Error>().unwrap();
            assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{query}: {error}");
        }
    }
}

#[tokio::test]
async fn a_plan_on_a_device_keeps_rows_partitions_and_order_and_counts_bytes() {
    let (sim, device) = sim();
    let context = context(memory_table().await);
    let input = plan_of(&context, "SELECT id, text FROM t").await;
    let expected = rows(&collect(input.clone(), context.task_ctx()).await.unwrap());
    let plan = OnDevice::new(input.clone(), &device.open_queue().unwrap()).unwrap();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(plan);
    assert_eq!(plan.properties().partitioning.partition_count(), PARTITIONS);
    // As an optimizer does.
    let plan = super::with_child(plan, input);
    assert_eq!(rows(&collect(plan.clone(), context.task_ctx()).await.unwrap()), expected);
    let (there, back) = (metric(&plan, "bytes_to_device"), metric(&plan, "bytes_to_host"));
    assert!(there >= 600 * 8 && there == back, "{there} there, {back} back");
    settle(&sim, &device).await;
}

#[tokio::test]
async fn a_function_changes_batches_where_they_are() {
    let (sim, device) = sim();
    let context = context(memory_table().await);
    let input = plan_of(&context, "SELECT id, text FROM t").await;
    let id = device.id();
    let halves = move |array: Array| {
        assert_eq!(array.device(), id);
        array.slice(0, array.len() / 2)
    };
    let plan = OnDevice::new(input.clone(), &device.open_queue().unwrap()).unwrap();
    let ours = results(execute_stream(input, context.task_ctx()).unwrap()).unwrap();
    let plan = plan.map(ours.schema(), halves).unwrap();
    let batches = collect(Arc::new(plan), context.task_ctx()).await.unwrap();
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows, PARTITIONS * (BATCHES * ROWS / 2) as usize);
    settle(&sim, &device).await;
}

#[tokio::test]
async fn results_go_to_a_device_as_a_stream() {
    let (sim, device) = sim();
    let context = context(memory_table().await);
    let frame = context.sql("SELECT id FROM t ORDER BY id LIMIT 120").await.unwrap();
    let arrays = results(frame.execute_stream().await.unwrap()).unwrap();
    let mut there = arrays.copy_to(&device.open_queue().unwrap()).prefetch(2);
    let mut ids = Vec::new();
    while let Some(array) = there.next().await {
        let array = array.unwrap();
        assert_eq!(array.device(), device.id());
        let host = Batch::try_from(array.to_host_async().await.unwrap()).unwrap();
        let column = host.column(0).unwrap();
        ids.extend(column.host().unwrap().values::<i64>().unwrap().iter().flatten());
    }
    assert_eq!(ids, (0..120).collect::<Vec<_>>());
    drop(there);
    settle(&sim, &device).await;
}

#[tokio::test]
async fn what_was_on_its_way_goes_with_a_stream_that_is_dropped() {
    let (sim, device) = sim();
    let context = context(memory_table().await);
    let input = plan_of(&context, "SELECT id, text FROM t").await;
    let plan = OnDevice::new(input, &device.open_queue().unwrap()).unwrap().with_prefetch(3);
    let mut stream = execute_stream(Arc::new(plan), context.task_ctx()).unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    settle(&sim, &device).await;
}
