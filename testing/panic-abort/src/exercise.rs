//! Everything that goes wrong in ordinary life, and the releases that have to follow.

use std::sync::Arc;
use std::time::Duration;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::async_stream::{AsyncProducer, AsyncStream, Blocking, block_on, feed};
use arrow_device::{
    Array, ArrayStream, Batch, Buffer, DataType, DeviceId, DeviceType, Error, ErrorKind, Field,
    IndexType, Queue, Schema,
};
use arrow_device_sim::Sim;

use crate::{Check, expect};

pub(crate) const CHECKS: &[Check] = &[
    ("hostile_arrays_are_refused_and_released", hostile_arrays),
    ("hostile_schemas_are_refused_and_released", hostile_schemas),
    ("misuse_is_refused", misuse),
    ("parts_are_released_in_any_order_and_on_any_thread", releases),
    ("a_release_is_deferred_until_the_queue_has_passed", deferred_release),
    ("streams_fail_and_are_dropped_in_the_middle", streams),
    ("asynchronous_streams_fail_and_are_dropped_in_the_middle", asynchronous_streams),
];

type Outcome = Result<(), String>;

/// A batch of a number column, a list column and a dictionary column, whose memory `owner` stands
/// for.
fn batch(owner: &Arc<()>) -> Result<Batch, Error> {
    static BYTES: [u64; 8] = [0; 8];
    let buffer = || {
        // SAFETY: 64 bytes that live for ever, aligned for every type.
        Some(unsafe { Buffer::foreign(DeviceId::CPU, BYTES.as_ptr().cast(), 64, owner.clone()) })
    };
    let numbers =
        || Array::builder(DataType::Int64).len(4).buffers([None, buffer()]).finish_ready();
    let lists = Array::builder(DataType::list(Field::new("item", DataType::Int64, true)))
        .len(4)
        .buffers([None, buffer()])
        .children([numbers()?])
        .finish_ready()?;
    let keys = Array::builder(DataType::dictionary(IndexType::Int8, DataType::Int64))
        .len(4)
        .buffers([None, buffer()])
        .dictionary(numbers()?)
        .finish_ready()?;
    Batch::from_columns([("numbers", numbers()?), ("lists", lists), ("keys", keys)])
}

fn said(error: Error) -> String {
    error.to_string()
}

/// The struct of a column. The columns of `batch` are all there.
fn column(root: &mut ArrowArray, index: usize) -> &mut ArrowArray {
    // SAFETY: an exported batch has a table of three children.
    let child = unsafe { *root.children.wrapping_add(index) };
    // SAFETY: a child that nobody else refers to.
    unsafe { &mut *child }
}

fn move_out(slot: &mut ArrowArray) -> ArrowArray {
    std::mem::replace(slot, ArrowArray::empty())
}

fn release(mut array: ArrowArray) {
    if let Some(release) = array.release {
        // SAFETY: the struct was moved here and is not released.
        unsafe { release(&raw mut array) }
    }
}

fn hostile_arrays() -> Outcome {
    let spoilers: [fn(&mut ArrowDeviceArray); 12] = [
        |device| device.array.length = -1,
        |device| device.array.length = i64::MAX,
        |device| device.array.offset = i64::MAX,
        |device| device.array.null_count = 5,
        |device| device.array.n_children = i64::MAX,
        |device| device.array.children = std::ptr::null_mut(),
        |device| device.sync_event = std::ptr::dangling_mut(),
        |device| column(&mut device.array, 0).n_buffers = -1,
        |device| column(&mut device.array, 0).buffers = std::ptr::null_mut(),
        |device| column(&mut device.array, 1).n_children = 0,
        |device| column(&mut device.array, 2).dictionary = std::ptr::null_mut(),
        |device| release(move_out(column(&mut device.array, 1))),
    ];
    for (number, spoil) in spoilers.iter().enumerate() {
        let owner = Arc::default();
        let batch = batch(&owner).map_err(said)?;
        let schema = batch.schema().map_err(said)?;
        let mut c_array = ArrowDeviceArray::empty();
        batch.export(&mut c_array).map_err(said)?;
        drop(batch);
        spoil(&mut c_array);
        // SAFETY: what is wrong with the struct is among the things that an import checks.
        let imported = unsafe { Array::import(&raw mut c_array, &schema) };
        expect(imported.is_err(), || format!("spoiler {number} is not refused"))?;
        let left = Arc::strong_count(&owner) - 1;
        expect(left == 0, || format!("after spoiler {number}, {left} buffers are not released"))?;
    }
    Ok(())
}

fn hostile_schemas() -> Outcome {
    type Spoiler = (fn(&mut ArrowSchema), ErrorKind);
    let spoilers: [Spoiler; 5] = [
        (|schema| schema.format = std::ptr::null(), ErrorKind::Malformed),
        (|schema| schema.format = c"?".as_ptr(), ErrorKind::Malformed),
        (|schema| schema.n_children = -1, ErrorKind::Malformed),
        (|schema| schema.n_children = i64::MAX, ErrorKind::LimitExceeded),
        (|schema| schema.children = std::ptr::null_mut(), ErrorKind::Malformed),
    ];
    let fields = [Field::new("a", DataType::Int8, true), Field::new("b", DataType::Utf8, true)];
    let schema = Schema::batch(fields).map_err(said)?;
    for (number, (spoil, kind)) in spoilers.iter().enumerate() {
        let mut c_schema = ArrowSchema::empty();
        schema.export(&mut c_schema).map_err(said)?;
        spoil(&mut c_schema);
        // SAFETY: what is wrong with the struct is among the things that an import checks.
        let imported = unsafe { Schema::import(&raw mut c_schema) };
        let found = imported.err().map(|error| error.kind());
        expect(found == Some(*kind), || format!("spoiler {number} gives {found:?}"))?;
        expect(c_schema.is_released(), || format!("spoiler {number}: not released"))?;
    }
    Ok(())
}

fn misuse() -> Outcome {
    let owner = Arc::default();
    let batch = batch(&owner).map_err(said)?;
    let errors = [
        batch.column(3).err(),
        batch.column_by_name("none").err(),
        batch.slice(3, 2).err(),
        batch.as_array().slice(usize::MAX, 1).err(),
        batch.as_array().child(usize::MAX).err(),
        Batch::try_from(batch.column(0).map_err(said)?).err(),
        Array::builder(DataType::Int64).len(4).finish_ready().err(),
        Array::builder(DataType::Int64).len(usize::MAX).buffers([None, None]).finish_ready().err(),
        Array::builder(DataType::Decimal128 { precision: 77, scale: 0 }).finish_ready().err(),
        Buffer::from(vec![1_u8]).slice(u64::MAX, 1).err(),
        // SAFETY: null is among the things that an import checks.
        unsafe { Schema::import(std::ptr::null_mut()) }.err(),
    ];
    let accepted = errors.iter().position(Option::is_none);
    expect(accepted.is_none(), || format!("misuse {accepted:?} is not refused"))
}

fn releases() -> Outcome {
    for first in 0..3 {
        let owner = Arc::default();
        let mut c_array = ArrowDeviceArray::empty();
        batch(&owner).map_err(said)?.export(&mut c_array).map_err(said)?;
        let list = move_out(column(&mut c_array.array, 1));
        let keys = move_out(column(&mut c_array.array, 2));
        let mut parts = [Some(Moved(c_array.array)), Some(Moved(list)), Some(Moved(keys))];
        parts.rotate_left(first);
        for part in parts.iter_mut().filter_map(Option::take) {
            let elsewhere = std::thread::spawn(move || part.release());
            expect(elsewhere.join().is_ok(), || "a release panicked".to_owned())?;
        }
        let left = Arc::strong_count(&owner) - 1;
        expect(left == 0, || format!("order {first} leaves {left} buffers"))?;
    }
    Ok(())
}

/// A struct on its way to another thread.
struct Moved(ArrowArray);

// SAFETY: the specification lets a struct be released on any thread.
unsafe impl Send for Moved {}

impl Moved {
    fn release(self) {
        release(self.0);
    }
}

fn deferred_release() -> Outcome {
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().map_err(said)?;
    let mut memory = queue.allocate(64).map_err(said)?;
    let spot = memory.spot(&queue).map_err(said)?;
    // The software device does nothing until it is told to.
    sim.fill(&queue, spot, 64, 1).map_err(said)?;
    // SAFETY: the fill was submitted just now to this queue.
    unsafe { memory.assume_written(64) };
    let array = Array::builder(DataType::Int64).len(8).buffers([None, Some(memory.into_buffer())]);
    let array = array.finish_on(&queue).map_err(said)?;
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).map_err(said)?;
    let schema = array.schema().map_err(said)?;
    drop(array);
    // SAFETY: just exported.
    let array = unsafe { Array::import(&raw mut c_array, &schema) }.map_err(said)?;
    drop(array.on(&queue).map_err(said)?);
    let refused = array.on(&Queue::host()).err().map(|error| error.kind());
    expect(refused == Some(ErrorKind::NotReachable), || format!("the host gives {refused:?}"))?;
    drop(array);

    let kept = (
        sim.allocated(),
        arrow_device::deferred::release_finished(),
        !arrow_device::deferred::held_back().is_nothing(),
    );
    expect(kept == (64, 0, true), || format!("while the queue is busy: {kept:?}"))?;
    sim.run_until_idle();
    arrow_device::deferred::wait_until_released(Duration::from_secs(10)).map_err(said)?;
    let left = (
        sim.allocated(),
        arrow_device::deferred::held_back().in_use,
        arrow_device::deferred::held_back().abandoned,
    );
    expect(left == (0, 0, 0), || format!("after it has passed: {left:?}"))?;
    drop(queue);
    let reports = sim.finish();
    expect(reports.is_empty(), || format!("{reports:?}"))
}

/// Streams that end, that fail after two batches, that give what they may not, and that lose a
/// callback; read to the end, or left after the first batch.
fn streams() -> Outcome {
    let stranger = || Array::builder(DataType::Null).len(4).finish_ready().map_err(said);
    for (end, patience) in (0..4).flat_map(|end| [(end, 1), (end, usize::MAX)]) {
        let owner = Arc::new(());
        let batch = Array::from(batch(&owner).map_err(said)?);
        let schema = batch.schema().map_err(said)?;
        let mut arrays = vec![Ok(batch.clone()), Ok(batch)];
        match end {
            1 => arrays.push(Err(Error::new(ErrorKind::TimedOut, "planted"))),
            2 => arrays.push(Ok(stranger()?)),
            _ => {}
        }
        let mut c_stream = ArrowDeviceArrayStream::empty();
        ArrayStream::new(schema, DeviceType::CPU, arrays).export(&mut c_stream);
        if end == 3 {
            c_stream.get_next = None;
        }
        // SAFETY: the struct was just filled, and a missing callback is among the things that an
        // import checks.
        let stream = unsafe { ArrayStream::import(&raw mut c_stream) };
        expect(stream.is_ok() == (end != 3), || format!("stream {end} was not refused"))?;
        let read = stream.map_or(0, |stream| stream.take(patience).filter(Result::is_ok).count());
        let expected = if end == 3 { 0 } else { patience.min(2) };
        expect(read == expected, || format!("{read} batches of stream {end}"))?;
        expect(Arc::strong_count(&owner) == 1, || format!("stream {end} kept something"))?;
    }
    Ok(())
}

/// The same for asynchronous streams: one that ends, one that fails, and one that gives what it may
/// not.
fn asynchronous_streams() -> Outcome {
    let stranger = || Array::builder(DataType::Null).len(4).finish_ready().map_err(said);
    for (end, patience) in (0..3).flat_map(|end| [(end, 1), (end, usize::MAX)]) {
        let owner = Arc::new(());
        let batch = Array::from(batch(&owner).map_err(said)?);
        let schema = batch.schema().map_err(said)?;
        let mut arrays = vec![Ok(batch.clone()), Ok(batch)];
        match end {
            1 => arrays.push(Err(Error::new(ErrorKind::TimedOut, "planted"))),
            2 => arrays.push(Ok(stranger()?)),
            _ => {}
        }
        let (feeder, fed) = feed(arrays, 1);
        let (stream, handler) = AsyncStream::new(1);
        let producer = AsyncProducer::new(schema, DeviceType::CPU, fed);
        // SAFETY: the handler is the library's own.
        let drive = unsafe { producer.drive(handler.into_raw()) }.map_err(said)?;
        let read = std::thread::scope(|threads| {
            threads.spawn(|| feeder.run());
            threads.spawn(|| block_on(drive));
            Blocking::new(stream.arrays()).take(patience).filter(Result::is_ok).count()
        });
        expect(read == patience.min(2), || format!("{read} batches of stream {end}"))?;
        expect(Arc::strong_count(&owner) == 1, || format!("stream {end} kept something"))?;
    }
    Ok(())
}
