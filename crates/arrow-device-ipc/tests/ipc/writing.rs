//! Writing what lies on a device, through a bounded part of host memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{
    Array, Batch, Buffer, DataType, ErrorKind, Field, Queue, Result, Schema, UnionMode,
};
use arrow_device_ipc::{Compression, Encoder, FileWriter, StreamWriter, WriteOptions};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::allocations::peak;
use arrow_device_testkit::tally::watch;
use arrow_device_testkit::{generate, golden, ledger::Ledger};

use crate::support::{read, written};

/// The least there may be, so that small arrays pass through it in many windows.
const STAGING: u64 = 4096;

fn options() -> [WriteOptions; 2] {
    let options = WriteOptions::new().staging(STAGING);
    [options, options.alignment(8).compression(Some(Compression::Lz4))]
}

#[test]
fn a_refused_batch_tells_types_apart_that_print_alike() {
    let runs = |values: &str| {
        let run_ends = Field::new("run_ends", DataType::Int32, false);
        let values = Field::new(values, DataType::Int64, true);
        let runs =
            DataType::RunEndEncoded { run_ends: Arc::new(run_ends), values: Arc::new(values) };
        Schema::batch([Field::new("r", runs, true)]).unwrap()
    };
    let given = Batch::try_from(Array::empty(runs("items")).unwrap()).unwrap();
    let mut writer = StreamWriter::new(Vec::new(), &runs("values"), WriteOptions::new()).unwrap();
    let error = writer.write(&given).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    let message = error.message();
    assert!(message.contains("values: int64") && message.contains("items: int64"), "{message}");
}

/// Arrays of all types that are large enough to stay on a device when they are written, in their
/// batches.
fn large_batches() -> Vec<Batch> {
    let repeated = |array: &Array| {
        let times = 1500 / array.len().max(1);
        // What has too many elements below it for that is left out.
        let whole = Array::concat(&vec![array.clone(); times.clamp(1, 400)]).ok()?;
        Batch::from_columns([("a", whole)]).ok()
    };
    let mut batches = Vec::new();
    for generated in generate::samples(if cfg!(debug_assertions) { 120 } else { 1500 }, 7) {
        let array = generate::build(&generated.plan, &Ledger::new()).unwrap();
        let batch = Batch::from_columns([("a", array.clone())]).unwrap();
        let schema = batch.schema().unwrap();
        if StreamWriter::new(Vec::new(), &schema, WriteOptions::new()).is_ok() {
            batches.extend(repeated(&array).into_iter().chain([batch]));
        }
    }
    for path in golden::streams() {
        let read = read(&std::fs::read(path).unwrap()).unwrap().1;
        batches.extend(read);
    }
    batches
}

#[test]
fn what_lies_on_a_device_is_written_as_a_copy_on_the_host_is() {
    let batches = large_batches();
    let mut seen = 0;
    let kinds = [Kind::Discrete, Kind::Handles, Kind::OneQueue, Kind::WholeUnits];
    for (turn, kind) in kinds.into_iter().enumerate() {
        let sim = Sim::builder().kind(kind).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let numbered = batches.iter().enumerate();
        for (number, batch) in numbered.filter(|(number, _)| number / 2 % kinds.len() == turn) {
            let there = batch.copy_to(&queue).unwrap();
            let rows = batch.row_count();
            let windows = [(0, rows), (rows / 3 + 1, rows / 2), (5, rows.saturating_sub(9))];
            let fits = |(start, len): &(usize, usize)| start + len <= rows;
            for (start, len) in windows.into_iter().filter(fits) {
                let (here, there) =
                    (batch.slice(start, len).unwrap(), there.slice(start, len).unwrap());
                let options = options()[number / 8 % 2];
                let schema = batch.schema().unwrap();
                let plan = there.plan_copy(&Queue::host(), &Default::default()).unwrap();
                seen += usize::from(plan.bytes() > STAGING);
                drop(plan);
                let copied = there.to_host().unwrap();
                assert!(copied.as_array().equals(here.as_array()).unwrap());
                let expected = written(&schema, &[copied], options);
                let found = written(&schema, &[there], options);
                assert!(found == expected, "{kind:?} {start}+{len} of {schema}");
            }
        }
        drop(queue);
        let reports = sim.finish();
        assert!(reports.is_empty(), "{reports:?}");
    }
    assert!(seen > 50, "{seen} of them were larger than what they pass through");
}

/// Some megabytes: numbers with nulls, texts, and lists, each of which has to be cut where it is
/// sliced.
fn megabytes() -> Batch {
    let rows = 200_000_usize;
    let numbers = (0..rows).map(|row| (!row.is_multiple_of(7)).then_some(row as i64));
    let texts: Vec<String> = (0..rows).map(|row| format!("the text of row {row}")).collect();
    let offsets: Vec<i32> = (0..=rows as i32).map(|row| 2 * row).collect();
    let below = Array::from_values(DataType::Int32, (0..2 * rows as i32).map(Some)).unwrap();
    let lists = Array::builder(DataType::list(DataType::Int32))
        .len(rows)
        .buffers([None, Some(offsets.into())])
        .children([below])
        .finish_ready()
        .unwrap();
    let columns = [
        ("n", Array::from_values(DataType::Int64, numbers).unwrap()),
        ("t", Array::from_texts(DataType::Utf8, texts.iter().map(|text| Some(&**text))).unwrap()),
        ("l", lists),
    ];
    Batch::from_columns(columns).unwrap()
}

/// Counts bytes, and keeps none.
struct Sink(u64);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn host_memory_is_bounded_by_the_staging_and_not_by_the_batch() {
    let batch = megabytes();
    let sim = Sim::builder().backtraces(false).build();
    let (device, tally) = watch(&sim.device());
    let queue = device.open_queue().unwrap();
    let whole = batch.copy_to(&queue).unwrap();
    let staging = 256 << 10;
    let options = WriteOptions::new().staging(staging);
    let schema = batch.schema().unwrap();
    for (start, rows) in [(0, 200_000), (1001, 198_000)] {
        let there = whole.slice(start, rows).unwrap();
        let live = there.plan_copy(&Queue::host(), &Default::default()).unwrap().bytes();
        assert!(live > 6 << 20, "{live}");
        queue.synchronize().unwrap();
        tally.clear();
        let held = device.held();
        let mut writer = StreamWriter::new(Sink(0), &schema, options).unwrap();
        let (heap, written) = peak(|| writer.write(&there));
        written.unwrap();
        let written = writer.finish().unwrap().0;
        assert!(written > live / 64 * 63, "{written} of {live}");
        // Two windows, and what is read first: lengths, of which the memory is kept as well.
        let staged = device.held().staging - held.staging;
        assert!(staged <= staging + (16 << 10), "{staged} bytes of staging");
        // The software device's own work is among it.
        assert!((heap as u64) < 3 * staging, "{heap} bytes of the heap");
        let [moved, copies, allocations] = [&tally.moved, &tally.copies, &tally.allocations]
            .map(|count| count.load(Ordering::Relaxed));
        // Each byte once, a few that bits and lengths are taken of, and a bitmap once more where
        // its nulls are not counted yet, as in a slice.
        let again = if start > 0 { rows as u64 / 8 } else { 0 };
        assert!(
            (live + again - 64..live + again + 4096).contains(&moved),
            "{moved} bytes of {live} moved"
        );
        let windows = live.div_ceil(staging / 2);
        assert!((windows..windows + 12).contains(&copies), "{copies} copies, {windows} windows");
        assert_eq!(allocations, 0);
    }
    drop((whole, queue, device));
    let reports = sim.finish();
    assert!(reports.is_empty(), "{reports:?}");
}

#[test]
fn a_host_array_is_written_from_where_it_lies() {
    let batch = megabytes();
    let mut writer =
        StreamWriter::new(Sink(0), &batch.schema().unwrap(), WriteOptions::new()).unwrap();
    let rows = batch.row_count();
    for (start, len) in [(0, rows), (1001, rows - 2000)] {
        let slice = batch.slice(start, len).unwrap();
        let (heap, written) = peak(|| writer.write(&slice));
        written.unwrap();
        // What a slice changes passes through a few KiB.
        assert!(heap < 128 << 10, "{heap} bytes of the heap");
    }
    assert!(writer.finish().unwrap().0 > 16 << 20);
}

/// The array as another library hands it over, which says no length of a buffer.
fn imported(batch: &Batch) -> Batch {
    let mut out = ArrowDeviceArray::empty();
    batch.export(&mut out).unwrap();
    // SAFETY: exported just now, for this schema.
    unsafe { Batch::import(&raw mut out, &batch.schema().unwrap()) }.unwrap()
}

#[test]
fn an_imported_array_is_written_though_nothing_says_how_long_its_texts_are() {
    let batch = megabytes();
    let schema = batch.schema().unwrap();
    let options = WriteOptions::new().staging(64 << 10);
    let slice = |batch: &Batch| batch.slice(77, 100_000).unwrap();
    let expected = written(&schema, &[slice(&batch)], options);
    for kind in [Kind::Discrete, Kind::Handles] {
        let sim = Sim::builder().kind(kind).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let there = imported(&batch.copy_to(&queue).unwrap());
        assert!(written(&schema, &[slice(&there)], options) == expected);
        drop((there, queue));
        let reports = sim.finish();
        assert!(reports.is_empty(), "{reports:?}");
    }
}

#[test]
fn offsets_on_a_device_that_lead_outside_are_an_error_and_nothing_is_written() {
    let rows = 20_000;
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let on_device = |bytes: &[u8]| {
        let mut memory = queue.allocate(bytes.len() as u64).unwrap();
        memory.write(&queue, bytes).unwrap();
        Some(memory.into_buffer())
    };
    for last in [-1, rows + 1_000_000] {
        let mut offsets: Vec<i32> = (0..=rows).collect();
        offsets[rows as usize] = last;
        let offsets: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect();
        let buffers = [None, on_device(&offsets), on_device(&vec![b'a'; rows as usize])];
        let built = Array::builder(DataType::Utf8).len(rows as usize).buffers(buffers);
        let there = built.finish_on(&queue).unwrap();
        let there = Batch::from_columns([("t", there)]).unwrap();
        let schema = there.schema().unwrap();
        let options = WriteOptions::new().staging(STAGING);
        let mut writer = StreamWriter::new(Sink(0), &schema, options).unwrap();
        let error = writer.write(&there).unwrap_err();
        assert_eq!(error.kind(), arrow_device::ErrorKind::InvalidData, "{error}");
    }
}

#[test]
fn a_failure_in_the_middle_of_a_body_is_an_error_and_leaves_nothing_behind() {
    let batch = megabytes().slice(0, 20_000).unwrap();
    let schema = batch.schema().unwrap();
    let options = WriteOptions::new().staging(32 << 10);
    let failed = Sim::builder().backtraces(false).for_each_fault(|sim| {
        let write = || -> Result<()> {
            let queue = sim.device().open_queue()?;
            let there = batch.copy_to(&queue)?;
            let mut writer = StreamWriter::new(Sink(0), &schema, options)?;
            writer.write(&there)
        };
        // Either is right; the simulator reports what is used too long or not freed.
        let _ = write();
    });
    assert!(failed > 20, "{failed} calls failed");
}

#[test]
fn an_output_that_fails_is_an_error() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let batch = megabytes();
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let there = batch.copy_to(&queue).unwrap();
    let options = WriteOptions::new().staging(64 << 10);
    for room in [4096, 1 << 20, 4 << 20] {
        let schema = batch.schema().unwrap();
        let mut writer = FileWriter::new(Full(room), &schema, options).unwrap();
        let error = writer.write(&there).unwrap_err();
        assert!(error.to_string().contains("write IPC"), "{error}");
    }
    drop((there, queue));
    let reports = sim.finish();
    assert!(reports.is_empty(), "{reports:?}");
}

/// Columns of which each is changed where it is cut: bits, offsets, starts of lists, places in the
/// children of a union, ends of runs.
fn changed_columns(rows: usize) -> Batch {
    let numbers = |count: usize| Array::from_values(DataType::Int32, (0..count as i32).map(Some));
    let flags = (0..rows).map(|row| (!row.is_multiple_of(5)).then_some(row.is_multiple_of(3)));
    let texts: Vec<String> = (0..rows).map(|row| format!("row {row}")).collect();
    let texts = |of: DataType| Array::from_texts(of, texts.iter().map(|text| Some(&**text)));
    // Every seventh list is empty, and begins where no list does.
    let place = |row: usize| if row.is_multiple_of(7) { (0, 0) } else { (2 * row as i32, 2) };
    let (starts, sizes): (Vec<i32>, Vec<i32>) = (0..rows).map(place).unzip();
    let item = numbers(2 * rows).unwrap();
    let views = Array::builder(DataType::list_view(item.field().clone()))
        .len(rows)
        .buffers([None, Some(starts.into()), Some(sizes.into())])
        .children([item])
        .finish_ready()
        .unwrap();
    let children = [numbers(rows).unwrap(), texts(DataType::LargeUtf8).unwrap()];
    let fields = children.iter().map(|child| child.field().clone().with_name("f"));
    let types: Vec<u8> = (0..rows).map(|row| u8::from(row.is_multiple_of(3))).collect();
    let places: Vec<i32> = (0..rows as i32).collect();
    let union = Array::builder(DataType::union(UnionMode::Dense, fields))
        .len(rows)
        .buffers([Some(Buffer::from(types)), Some(places.into())])
        .children(children)
        .finish_ready()
        .unwrap();
    let runs = runs_of_two(rows.div_ceil(2)).slice(0, rows).unwrap();
    let columns = [
        ("flags", Array::from_bools(flags).unwrap()),
        ("texts", texts(DataType::Utf8).unwrap()),
        ("views", views),
        ("union", union),
        ("runs", runs),
    ];
    Batch::from_columns(columns).unwrap()
}

/// Two rows for each run.
fn runs_of_two(runs: usize) -> Array {
    let ends: Vec<i32> = (1..=runs as i32).map(|run| 2 * run).collect();
    let ends = Array::builder(DataType::Int32).len(runs).buffers([None, Some(ends.into())]);
    let values = Array::from_values(DataType::Int32, (0..runs as i32).map(Some)).unwrap();
    Array::builder(DataType::run_end_encoded(DataType::Int32, DataType::Int32))
        .len(2 * runs)
        .buffers([])
        .children([ends.finish_ready().unwrap(), values])
        .finish_ready()
        .unwrap()
}

#[test]
fn the_runs_before_a_slice_cost_next_to_nothing() {
    let (runs, parts) = (1 << 20, 2000);
    let batch = Batch::from_columns([("r", runs_of_two(runs))]).unwrap();
    let mut encoder = Encoder::new(&batch.schema().unwrap(), WriteOptions::new()).unwrap();
    let started = Instant::now();
    for part in 0..parts {
        // Most begin inside of a run.
        let slice = batch.slice(part * (2 * runs / parts), 5).unwrap();
        drop(encoder.encode(&slice).unwrap());
    }
    // A look at each run before each slice took half a minute.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    // Nor do runs before a slice leave their device: the slice has 40,000 bytes.
    let sim = Sim::builder().backtraces(false).build();
    let (device, tally) = watch(&sim.device());
    let there = batch.copy_to(&device.open_queue().unwrap()).unwrap();
    let (start, len) = (2 * runs - 10_001, 10_000);
    tally.clear();
    let part = there.slice(start, len).unwrap();
    let bytes = written(&batch.schema().unwrap(), &[part], options()[0]);
    let moved = tally.moved.load(Ordering::Relaxed);
    assert!(moved < 100_000, "{moved} bytes");
    let expected = batch.slice(start, len).unwrap();
    assert!(read(&bytes).unwrap().1[0].as_array().equals(expected.as_array()).unwrap());
}

/// Texts of 20 bytes, each in a buffer of its own.
fn texts_apart(rows: usize) -> Array {
    let views: Vec<i32> = (0..rows as i32).flat_map(|row| [20, 0, row, 0]).collect();
    let data = (0..rows).map(|_| Some(Buffer::from(vec![0_u8; 20])));
    let buffers = [None, Some(views.into())].into_iter().chain(data);
    Array::builder(DataType::BinaryView).len(rows).buffers(buffers).finish_ready().unwrap()
}

#[test]
fn the_data_that_a_part_of_views_does_not_name_costs_the_part_nothing() {
    let (rows, of_part) = (64_000, 10);
    let batch = Batch::from_columns([("v", texts_apart(rows))]).unwrap();
    let options = WriteOptions::new().cut_views(true);
    let mut encoder = Encoder::new(&batch.schema().unwrap(), options).unwrap();
    let started = Instant::now();
    for start in (0..rows).step_by(of_part) {
        drop(encoder.encode(&batch.slice(start, of_part).unwrap()).unwrap());
    }
    // A look at each buffer for each part took a minute.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn a_dense_union_whose_places_lie_outside_of_a_child_is_refused() {
    let values = Array::from_values(DataType::Int8, [Some(1_i8), Some(2)]).unwrap();
    let of = DataType::union(UnionMode::Dense, [values.field().clone().with_name("f")]);
    let written = |places: [i32; 2]| {
        let buffers = [Some(Buffer::from(vec![0_u8; 2])), Some(places.to_vec().into())];
        let union = Array::builder(of.clone()).len(2).buffers(buffers).children([values.clone()]);
        let batch = Batch::from_columns([("u", union.finish_ready().unwrap())]).unwrap();
        let mut encoder = Encoder::new(&batch.schema().unwrap(), WriteOptions::new()).unwrap();
        encoder.encode(&batch).map(drop).map_err(|error| error.kind())
    };
    assert_eq!(written([1, 1]), Ok(()));
    for places in [[0, 2], [-1, 0], [-1, -1], [i32::MIN, -7]] {
        assert_eq!(written(places), Err(ErrorKind::InvalidData), "{places:?}");
    }
}

#[test]
fn what_is_changed_is_right_where_a_window_ends() {
    let rows = 20_000;
    let whole = changed_columns(rows);
    for kind in [Kind::Discrete, Kind::WholeUnits] {
        let sim = Sim::builder().kind(kind).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        // A column alone begins each buffer in a window of its own.
        for column in whole.columns().unwrap() {
            let batch = Batch::from_columns([("c", column)]).unwrap();
            let schema = batch.schema().unwrap();
            let there = batch.copy_to(&queue).unwrap();
            for (start, len) in [(0, rows), (1003, 18_001), (5, 19_990)] {
                let here = batch.slice(start, len).unwrap();
                let bytes = written(&schema, &[there.slice(start, len).unwrap()], options()[0]);
                let (_, found) = read(&bytes).unwrap();
                found[0].as_array().validate().unwrap();
                let is_same = found[0].as_array().equals(here.as_array()).unwrap();
                assert!(is_same, "{kind:?} {start}+{len} of {schema}");
                assert!(bytes == written(&schema, &[here], options()[0]), "{start} {schema}");
            }
        }
        drop(queue);
        let reports = sim.finish();
        assert!(reports.is_empty(), "{reports:?}");
    }
}

#[test]
fn a_message_is_sent_to_another_thread_and_written_there() {
    let batch = changed_columns(3000);
    let schema = batch.schema().unwrap();
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let there = batch.copy_to(&queue).unwrap();
    let mut encoder = Encoder::new(&schema, options()[0]).unwrap();
    let message = encoder.encode(&there).unwrap().pop().unwrap();
    // The message keeps what it has not written yet.
    drop((there, queue));
    let body = std::thread::spawn(move || {
        let body = message.body_bytes().unwrap();
        assert_eq!(body.len() as u64, message.body_len());
        assert!(message.body_bytes().unwrap() == body);
        body
    });
    let body = body.join().unwrap();
    let mut expected = Encoder::new(&schema, options()[0]).unwrap();
    let expected = expected.encode(&batch).unwrap().pop().unwrap();
    assert!(expected.body_bytes().unwrap() == body);
    let reports = sim.finish();
    assert!(reports.is_empty(), "{reports:?}");
}
