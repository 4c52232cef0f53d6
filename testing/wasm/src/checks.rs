//! The checks. None of them panics, because a panic ends the program where it does not unwind.

use std::time::Duration;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::deferred::{self, ReleaseThread};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, Error, ErrorKind, Field, Queue, Schema, validate,
};
use arrow_device_sim::{Builder, Sim};

use crate::Check;

pub(crate) const CHECKS: &[Check] = &[
    ("a_batch_goes_out_and_in", batch_goes_out_and_in),
    ("every_struct_of_an_exported_tree_is_aligned", exported_structs_are_aligned),
    ("a_child_that_was_moved_out_outlives_its_parent", moved_child_outlives_its_parent),
    ("counts_beyond_the_memory_are_refused", counts_beyond_the_memory),
    ("each_kind_of_error_has_a_number_that_leads_back", error_numbers),
    ("a_stream_goes_out_and_in", stream_goes_out_and_in),
    ("an_array_goes_to_the_software_device_and_back", device_and_back),
    ("a_copy_is_polled_to_its_end", polled_copy),
    ("a_missing_wait_is_reported", missing_wait),
    ("a_release_is_deferred_until_the_queue_has_passed", deferred_release),
    ("an_allocation_without_memory_is_an_error", no_memory),
    ("a_thread_that_cannot_be_had_is_an_error", no_threads),
];

type Outcome = Result<(), String>;

fn said(error: Error) -> String {
    error.to_string()
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn numbers() -> Result<Array, String> {
    Array::from_values(DataType::Int64, [Some(7_i64), None, Some(-9)]).map_err(said)
}

/// A batch of numbers, lists of numbers, and text.
fn batch() -> Result<Batch, String> {
    let list = DataType::list(Field::new("item", DataType::Int64, true));
    let lists = Array::from_lists(list, [Some(2), None, Some(1)], numbers()?).map_err(said)?;
    let texts = Array::from_texts(DataType::Utf8, [Some("a"), Some("bcd"), None]).map_err(said)?;
    Batch::from_columns([("numbers", numbers()?), ("lists", lists), ("texts", texts)]).map_err(said)
}

fn exported(batch: &Batch) -> Result<(ArrowSchema, ArrowDeviceArray), String> {
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    batch.schema().and_then(|schema| schema.export(&mut c_schema)).map_err(said)?;
    batch.export(&mut c_array).map_err(said)?;
    Ok((c_schema, c_array))
}

fn imported(c_schema: &mut ArrowSchema, c_array: &mut ArrowDeviceArray) -> Result<Array, Error> {
    // SAFETY: UNS-2: the struct was exported by this program.
    let schema = unsafe { Schema::import(c_schema) }?;
    // SAFETY: UNS-3: the struct was exported by this program, and the host reads nothing of it that
    // is changed here.
    unsafe { Array::import(c_array, &schema) }
}

fn batch_goes_out_and_in() -> Outcome {
    let batch = batch()?;
    let (mut c_schema, mut c_array) = exported(&batch)?;
    let back = imported(&mut c_schema, &mut c_array).map_err(said)?;
    back.validate_layout().map_err(said)?;
    let is_equal = back.equals(batch.as_array()).map_err(said)?;
    expect(is_equal, || format!("{back:?} is not {batch:?}"))
}

fn exported_structs_are_aligned() -> Outcome {
    fn below(array: &ArrowArray) -> Outcome {
        for index in 0..usize::try_from(array.n_children).unwrap_or(0) {
            // SAFETY: the C data interface: the table has `n_children` entries (UNS-3).
            let child = unsafe { *array.children.wrapping_add(index) };
            expect(child.is_aligned(), || format!("child {index} is at {child:?}"))?;
            // SAFETY: UNS-3: the struct was exported by this program and is not released.
            below(unsafe { &*child })?;
        }
        Ok(())
    }
    let (mut c_schema, mut c_array) = exported(&batch()?)?;
    below(&c_array.array)?;
    // SAFETY: UNS-12: the struct was exported by this program.
    unsafe { validate::structure(&c_array) }.map_err(said)?;
    drop(imported(&mut c_schema, &mut c_array).map_err(said)?);
    Ok(())
}

fn moved_child_outlives_its_parent() -> Outcome {
    let batch = batch()?;
    let schema = batch.column(1).and_then(|column| column.schema()).map_err(said)?;
    let (mut c_schema, mut c_array) = exported(&batch)?;
    // SAFETY: the C data interface: the table has three children, of which this is the second.
    let place = unsafe { *c_array.array.children.wrapping_add(1) };
    // SAFETY: UNS-3: the struct was exported by this program; nobody else refers to it.
    let child = std::mem::replace(unsafe { &mut *place }, ArrowArray::empty());
    let mut child = ArrowDeviceArray { array: child, ..ArrowDeviceArray::empty() };
    child.device_type = c_array.device_type;
    child.device_id = c_array.device_id;
    if let Some(release) = c_array.array.release {
        // SAFETY: the C data interface: a struct that is not released is released by its callback.
        unsafe { release(&raw mut c_array.array) };
    }
    // SAFETY: UNS-2: the struct was exported by this program.
    drop(unsafe { Schema::import(&raw mut c_schema) }.map_err(said)?);
    // SAFETY: UNS-3: the struct was exported by this program and moved out by the lines above.
    let child = unsafe { Array::import(&raw mut child, &schema) }.map_err(said)?;
    let expected = batch.column(1).map_err(said)?;
    let is_equal = child.equals(&expected).map_err(said)?;
    expect(is_equal, || format!("{child:?}"))
}

fn counts_beyond_the_memory() -> Outcome {
    let (mut c_schema, c_array) = exported(&batch()?)?;
    c_schema.n_children = i64::MAX;
    // SAFETY: the number of children is among the things that an import checks.
    let refused = unsafe { Schema::import(&raw mut c_schema) }.err().map(|error| error.kind());
    expect(refused == Some(ErrorKind::LimitExceeded), || format!("children: {refused:?}"))?;
    let mut c_array = c_array;
    let schema = batch()?.schema().map_err(said)?;
    (c_array.array.length, c_array.array.offset) = (isize::MAX as i64, isize::MAX as i64);
    // SAFETY: lengths are among the things that an import checks.
    let refused = unsafe { Array::import(&raw mut c_array, &schema) };
    let refused = refused.err().map(|error| error.kind());
    expect(refused == Some(ErrorKind::Malformed), || format!("length: {refused:?}"))
}

fn error_numbers() -> Outcome {
    let shared = ErrorKind::InvalidArgument.errno();
    for kind in ErrorKind::ALL {
        let (errno, back) = (kind.errno(), ErrorKind::from_errno(kind.errno()));
        expect(errno > 0, || format!("{kind:?} would read as success"))?;
        expect(back == *kind || errno == shared, || format!("{kind:?} came back as {back:?}"))?;
    }
    Ok(())
}

fn stream_goes_out_and_in() -> Outcome {
    let batch = batch()?;
    let schema = batch.schema().map_err(said)?;
    let arrays: Vec<Result<Array, Error>> = vec![Ok(batch.clone().into()), Ok(batch.into())];
    let mut c_stream = ArrowDeviceArrayStream::empty();
    let stream = ArrayStream::new(schema, arrow_device::DeviceType::CPU, arrays);
    stream.export(&mut c_stream);
    // SAFETY: UNS-5: the struct was exported by this program.
    let stream = unsafe { ArrayStream::import(&raw mut c_stream) }.map_err(said)?;
    let rows = stream.map(|array| array.map(|array| array.len())).sum::<Result<usize, Error>>();
    expect(matches!(rows, Ok(6)), || format!("{rows:?} rows"))
}

/// A simulator with the settings that a check makes, and that it reports nothing afterwards.
fn on_simulator(
    build: impl FnOnce(Builder) -> Builder,
    check: impl FnOnce(&Sim) -> Outcome,
) -> Outcome {
    let sim = build(Sim::builder().backtraces(false)).build();
    let outcome = check(&sim);
    let reports = sim.finish();
    outcome?;
    expect(reports.is_empty(), || format!("{reports:?}"))
}

fn device_and_back() -> Outcome {
    on_simulator(
        |builder| builder,
        |sim| {
            let queue = sim.device().open_queue().map_err(said)?;
            let batch = batch()?;
            let there = batch.as_array().copy_to(&queue).map_err(said)?;
            expect(there.device() == sim.device().id(), || format!("{there:?}"))?;
            let mut c_array = ArrowDeviceArray::empty();
            there.export(&mut c_array).map_err(said)?;
            let schema = there.schema().map_err(said)?;
            drop(there);
            // SAFETY: UNS-3: the struct was exported by this program.
            let there = unsafe { Array::import(&raw mut c_array, &schema) }.map_err(said)?;
            let back = there.to_host().map_err(said)?;
            let is_equal = back.equals(batch.as_array()).map_err(said)?;
            expect(is_equal, || format!("{back:?} is not {batch:?}"))
        },
    )
}

fn polled_copy() -> Outcome {
    on_simulator(
        |builder| builder.may_wait(false),
        |sim| {
            let queue = sim.device().open_queue().map_err(said)?;
            let batch = batch()?;
            let copied = |mut copy: arrow_device::copy::PolledCopy| {
                for _ in 0..1000 {
                    if let Some(array) = copy.poll().map_err(said)? {
                        return Ok(array);
                    }
                    sim.run_until_idle();
                }
                Err("the copy comes to no end".to_owned())
            };
            let options = arrow_device::copy::Options::new();
            let there = batch.as_array().copy_polled(&queue, &options).map_err(said)?;
            let there = copied(there)?;
            let back = copied(there.fetch().map_err(said)?)?;
            drop(there);
            sim.run_until_idle();
            let is_equal = back.equals(batch.as_array()).map_err(said)?;
            expect(is_equal, || format!("{back:?} is not {batch:?}"))
        },
    )
}

fn missing_wait() -> Outcome {
    let sim = Sim::builder().backtraces(false).build();
    let [one, other] = [sim.device().open_queue(), sim.device().open_queue()];
    let (one, other) = (one.map_err(said)?, other.map_err(said)?);
    let mut memory = one.allocate(64).map_err(said)?;
    let filled = memory.spot(&one).map_err(said)?;
    let read = memory.spot(&other).map_err(said)?;
    sim.fill(&one, filled, 64, 1).map_err(said)?;
    sim.kernel("sum").reads(read, 64).launch(&other, |_| ()).map_err(said)?;
    other.synchronize().and_then(|()| one.synchronize()).map_err(said)?;
    drop((memory, one, other));
    let reports = sim.finish();
    let text = format!("{reports:?}");
    let names_this_file =
        reports.len() == 1 && reports.iter().all(|it| it.to_string().contains("checks.rs"));
    expect(names_this_file, || text)
}

fn deferred_release() -> Outcome {
    on_simulator(
        |builder| builder,
        |sim| {
            let queue = sim.device().open_queue().map_err(said)?;
            let array = numbers()?.copy_to(&queue).map_err(said)?;
            let view = array.on(&queue).map_err(said)?;
            drop(view);
            drop(array);
            let held = !deferred::held_back().is_nothing();
            expect(held && sim.allocated() > 0, || "nothing is held back".to_owned())?;
            deferred::wait_until_released(Duration::from_secs(10)).map_err(said)?;
            expect(sim.allocated() == 0, || format!("{} bytes are left", sim.allocated()))
        },
    )
}

fn no_memory() -> Outcome {
    on_simulator(
        |builder| builder.memory_limit(4096),
        |sim| {
            let queue = sim.device().open_queue().map_err(said)?;
            let first = queue.allocate(4096).map_err(said)?;
            let refused = queue.allocate(4096).err().map(|error| error.kind());
            drop(first);
            expect(refused == Some(ErrorKind::OutOfMemory), || format!("{refused:?}"))?;
            let refused = Queue::host().allocate(u64::MAX).err().map(|error| error.kind());
            expect(refused.is_some(), || "more memory than there is".to_owned())
        },
    )
}

/// Elsewhere the thread is there, and stops.
fn no_threads() -> Outcome {
    let started = ReleaseThread::start(Duration::from_millis(1));
    let has_threads = !cfg!(target_family = "wasm");
    expect(started.is_ok() == has_threads, || format!("{started:?}"))
}
