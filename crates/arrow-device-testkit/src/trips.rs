//! Sends arrays to devices and back, and checks that their values are unchanged.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::copy::{Options, PolledCopy};
use arrow_device::deferred::held_back;
use arrow_device::driver::{HostAccess, Raw, Region, Route, Spot, WaitingCopies};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, Device, Error, ErrorKind, Memory, Queue, Recycler,
};

use crate::generate::{self, Generated};
use crate::ledger::Ledger;
use crate::oracle;
use crate::plan::Plan;
use crate::release_until;

/// Builds an array in host memory. Returns it with the plan that every copy of it has to equal.
///
/// # Panics
/// Panics if the library does not build the array, or builds something else.
pub fn built(plan: &Plan) -> (Array, Plan) {
    let array = generate::build(plan, &Ledger::new()).unwrap_or_else(|error| panic!("{error}"));
    // The plan has the same values, with the type as the library spells it.
    let expected = oracle::plan_of(&array).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(oracle::values(&expected), oracle::values(plan));
    (array, expected)
}

/// Exports an array and imports it again, so that it is known by its C struct only.
///
/// # Panics
/// Panics if the array cannot be exported or imported.
pub fn imported(array: &Array) -> Array {
    let mut c_array = ArrowDeviceArray::empty();
    let exported = array.export(&mut c_array).and_then(|()| array.schema());
    let schema = exported.unwrap_or_else(|error| panic!("{error}"));
    // SAFETY: the library's export is of that type and keeps to the interface.
    let again = unsafe { Array::import(&mut c_array, &schema) };
    again.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns options for the same copy, different ones for each number: with and without what is not
/// shown, in one block and in several, in chunks of two sizes, at another alignment. No such copy
/// shares memory with its source.
pub fn ways_to_copy(number: usize) -> Options {
    let options = Options::new().always(true);
    match number % 5 {
        0 => options,
        1 => options.trim(false),
        2 => options.separate(true),
        3 => options.chunk(64),
        _ => options.alignment(1024).chunk(192),
    }
}

/// Asserts that an array in host memory is valid, and has these values.
///
/// # Panics
/// Panics if the array is not valid, or has other values. The message begins with `what`.
#[track_caller]
pub fn assert_is(array: &Array, expected: &Plan, what: &str) {
    array.validate().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = oracle::plan_of(array).unwrap_or_else(|error| panic!("{what}: {error}"));
    oracle::require_equal(expected, &found).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Returns the result of a polled copy. Between two polls the host waits for these queues, so that
/// devices go on which work only then.
///
/// # Errors
/// The error of the copy.
///
/// # Panics
/// Panics if the copy does not end within a minute.
pub fn polled(
    copy: arrow_device::Result<PolledCopy>,
    queues: &[&Queue],
) -> arrow_device::Result<Array> {
    let mut copy = copy?;
    let began = Instant::now();
    loop {
        if let Some(array) = copy.poll()? {
            return Ok(array);
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the copy comes to no end");
        queues.iter().try_for_each(|queue| queue.synchronize())?;
    }
}

/// Polls copies to a device that works by itself, within it and back, without waiting.
///
/// # Panics
/// Panics if a copy does not arrive, or arrives with other values.
pub fn polled_copies_need_nobody_who_waits(queue: &Queue, samples: usize) {
    let without_a_wait = |copy: arrow_device::Result<PolledCopy>| polled(copy, &[]).unwrap();
    for (number, Generated { plan, .. }) in generate::samples(samples, 23).enumerate() {
        let (array, expected) = built(&plan);
        let options = ways_to_copy(number);
        let there = without_a_wait(array.copy_polled(queue, &options));
        let within = without_a_wait(there.copy_polled(queue, &options));
        let back = without_a_wait(within.fetch());
        assert_is(&back, &expected, &format!("array {number}: {queue:?}, {options:?}"));
    }
}

/// Copies slices of arbitrary arrays from every place to every other, and from there to the host.
/// Every second source is known by its C struct only, and every second pair of copies is polled.
///
/// # Panics
/// Panics if a copy does not arrive, or arrives with other values.
pub fn from_every_place_to_every_other(places: &[Queue], samples: usize) {
    for (number, Generated { plan, .. }) in generate::samples(samples, 7).enumerate() {
        let (whole, expected) = built(&plan);
        let (from, len) = (whole.len() / 3, whole.len() / 2);
        let array = whole.slice(from, len).unwrap();
        let expected = oracle::slice(&expected, from, len);
        for (one, there) in places.iter().enumerate() {
            let mut source = array.copy_to(there).unwrap();
            if (number + one) % 2 == 1 {
                source = imported(&source);
            }
            for (two, here) in places.iter().enumerate() {
                let options = ways_to_copy(number + one + two);
                let what = format!("array {number}: {there:?} -> {here:?}, {options:?}");
                // Where all copies wait, polled copies are not promised to work.
                let waits = [there, here].into_iter().any(all_copies_wait);
                let journey = || match (number + two) % 2 {
                    remainder if waits || remainder == 0 => {
                        source.copy_with(here, &options)?.to_host()
                    }
                    _ => {
                        let options = options.clone().through(there);
                        let copy = source.copy_polled(here, &options);
                        let copy = polled(copy, &[there, here])?;
                        let options = Options::new().through(here);
                        polled(copy.copy_polled(&Queue::host(), &options), &[here])
                    }
                };
                let back = journey().unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_is(&back, &expected, &what);
            }
        }
    }
}

fn all_copies_wait(queue: &Queue) -> bool {
    queue.device().properties().waiting_copies == WaitingCopies::All
}

/// Sends `samples` arbitrary arrays to one device and back, on each of four threads.
///
/// # Panics
/// Panics if an array does not arrive, or arrives with other values.
pub fn threads_share_a_device(device: &Device, samples: usize) {
    std::thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || {
                let queue = device.open_queue().unwrap();
                for Generated { plan, .. } in generate::samples(samples, seed) {
                    let (array, expected) = built(&plan);
                    let there = array.copy_to(&queue).unwrap();
                    assert_is(&there.to_host().unwrap(), &expected, &format!("thread {seed}"));
                }
            });
        }
    });
}

/// Has `threads` threads read one array on a device at the same time: by copies to the host, and in
/// place where the host can read the device's memory. The threads let go of the array in any order.
///
/// # Panics
/// Panics if a thread reads other values.
pub fn threads_read_one_array(queue: &Queue, threads: usize, rounds: usize) {
    let words = ["a", "bc", "a word that is longer than a view has room for", ""];
    let text = (0..1000).map(|row| (row % 7 > 0).then(|| words[row % words.len()]));
    let text = Array::from_texts(DataType::Utf8, text).unwrap();
    let numbers = Array::from_values(DataType::Int64, (0..1000_i64).map(Some)).unwrap();
    let batch = Batch::from_columns([("number", numbers), ("text", text)]).unwrap();
    let expected = batch.as_array().clone();
    let there = expected.copy_to(queue).unwrap();
    let is_mapped = queue.device().properties().host_access == HostAccess::Mapped;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (expected, there) = (&expected, there.clone());
            scope.spawn(move || {
                let mut held = VecDeque::new();
                for round in 0..rounds {
                    let copied = there.to_host().unwrap();
                    assert!(copied.equals(expected).unwrap(), "thread {thread}, round {round}");
                    if !is_mapped {
                        continue;
                    }
                    // All threads begin at the same byte, and read to different ends.
                    let rows = 1 + (thread + round) % 1000;
                    let read = there.child(0).unwrap().slice(0, rows).unwrap().host().unwrap();
                    let bytes: Vec<u8> = (0..rows as i64).flat_map(i64::to_ne_bytes).collect();
                    assert_eq!(read.buffer(1).unwrap().get(..bytes.len()).unwrap(), bytes);
                    held.push_back(read);
                    if held.len() > thread % 4 {
                        held.pop_front();
                    }
                }
            });
        }
    });
}

/// Checks a copy to memory that an allocator gives for a queue, while work on this queue still
/// reads that memory: the copy has to write there behind that work. `hold` holds the queue's work
/// back until its result is passed to `let_go`. A device that does no work until somebody waits
/// needs neither.
///
/// # Panics
/// Panics if the work reads what the copy wrote, or the copy has other values.
pub fn an_allocator_gives_what_its_queue_still_reads<H>(
    device: &Device,
    hold: impl FnOnce(&Queue) -> H,
    let_go: impl FnOnce(H),
) {
    const LEN: usize = 64 << 10;
    let queue = device.open_queue().unwrap();
    let [mut block, mut seen] = [(); 2].map(|()| device.allocate(LEN as u64).unwrap());
    block.write(&queue, &[0x11; LEN]).unwrap();
    let (from, to) = (block.spot(&queue).unwrap(), seen.spot(&queue).unwrap());
    let held = hold(&queue);
    // SAFETY: UNS-21: both are as long, and live until the queue has passed the copy.
    unsafe { queue.copy(Route::Within, &[Region { from, to, len: LEN as u64 }]) }.unwrap();
    // In the order of the queue the block is free from here on.
    // SAFETY: UNS-18: only what was submitted to the queue uses the block, which is kept.
    let adopted = unsafe { Memory::adopt(device, from.base, LEN as u64, block) };
    let adopted = Mutex::new(Some(adopted));
    let options = Options::new().allocator(move |_: &Device, len: u64, _: Option<&Queue>| {
        let given = adopted.lock().unwrap().take();
        given.ok_or_else(|| Error::new(ErrorKind::OutOfMemory, format!("{len} bytes more")))
    });
    // The array is half as large as the block, so that alignment fits in too.
    let values = Array::from_values(DataType::Int64, (0..LEN as i64 / 16).map(Some)).unwrap();
    let there = values.copy_with(&queue, &options).unwrap();
    let_go(held);
    queue.synchronize().unwrap();
    // SAFETY: UNS-33: the copy wrote all of it.
    unsafe { seen.assume_written(LEN as u64) };
    let buffers = [None, Some(seen.into_buffer())];
    let seen = Array::builder(DataType::UInt8).len(LEN).buffers(buffers).finish_ready().unwrap();
    let expected = Array::from_values(DataType::UInt8, vec![Some(0x11_u8); LEN]).unwrap();
    assert!(seen.to_host().unwrap().equals(&expected).unwrap(), "written before it was read");
    assert!(there.to_host().unwrap().equals(&values).unwrap());
}

/// Exports columns whose buffers are parts of one allocation, and reads them again.
///
/// # Panics
/// Panics if a part has no name, or a column has other values.
pub fn columns_in_one_allocation(queue: &Queue) {
    let step = (queue.device().properties().alignment as u64).max(256);
    let mut memory = queue.allocate(4 * step).unwrap();
    let bytes: Vec<u8> = (0..i64::try_from(step / 2).unwrap()).flat_map(i64::to_ne_bytes).collect();
    memory.write(queue, &bytes).unwrap();
    let whole = memory.into_buffer();
    let rows = step as usize / 8;
    let column = |part: u64| {
        let buffers = [None, Some(whole.slice(part * step, step).unwrap())];
        Array::builder(DataType::Int64).len(rows).buffers(buffers).finish_ready().unwrap()
    };
    let columns = [0, 1, 3].map(|part| (part as i64 * rows as i64, column(part)));
    drop(whole);
    for (first, array) in columns {
        let expected = (first..first + rows as i64).map(Some);
        let expected = Array::from_values(DataType::Int64, expected).unwrap();
        let there = imported(&array);
        drop(array);
        assert!(there.to_host().unwrap().equals(&expected).unwrap(), "the part from {first} on");
    }
}

/// Copies arrays of all sizes to the device and back, round after round, with eight small ones and
/// a large one in flight at a time. `allocations` counts the allocations of memory that data passes
/// through. It may count device memory too, which is recycled.
///
/// # Panics
/// Panics if the count goes on growing after the first rounds, or an array has other values.
pub fn mixed_copies_reuse_what_they_pass_through(queue: &Queue, allocations: impl Fn() -> usize) {
    let recycler = Recycler::new(1 << 30);
    let options = Options::new().always(true).allocator(recycler);
    let large = Array::from_values(DataType::Int64, (0..5_i64 << 19).map(Some)).unwrap();
    let mut counts = Vec::new();
    for round in 0..8 {
        // The sizes are so far apart that no block of device memory fits two of them.
        let sizes = [8, 100_000, 400, 20_000, 100, 300_000, 30, 2000];
        let small = sizes.map(|rows| large.slice(round, rows).unwrap());
        let mut there = small.each_ref().map(|array| array.copy_with(queue, &options).unwrap());
        let moved = large.copy_with(queue, &options).unwrap();
        there.rotate_left(round % sizes.len());
        queue.synchronize().unwrap();
        for array in there {
            let back = array.to_host().unwrap();
            let sent = small.iter().find(|sent| sent.len() == back.len()).unwrap();
            assert!(back.equals(sent).unwrap(), "round {round}");
        }
        let back = moved.slice(1, large.len() - 1).unwrap().to_host().unwrap();
        let last = back.slice(back.len() - 1000, 1000).unwrap();
        assert!(last.equals(&large.slice(large.len() - 1000, 1000).unwrap()).unwrap());
        drop(moved);
        queue.synchronize().unwrap();
        assert!(release_until(|| held_back().in_use == 0));
        counts.push(allocations());
    }
    // A device works at its own pace, so a few more copies may be on their way than ever before.
    let grown = counts.last().unwrap() - counts.get(2).unwrap();
    assert!(grown <= 4, "allocations by the end of each round: {counts:?}");
}

/// Sends `samples` streams of three arrays on a device through the C struct, and reads their arrays
/// on another queue.
///
/// # Panics
/// Panics if an array does not arrive, or arrives with other values.
pub fn streams_go_through_the_c_struct(device: &Device, samples: usize) {
    let [producer, consumer] = [(); 2].map(|()| device.open_queue().unwrap());
    let device_type = device.id().device_type;
    for (number, Generated { plan, .. }) in generate::samples(samples, 3).enumerate() {
        let (array, expected) = built(&plan);
        let schema = array.schema().unwrap();
        let queue = producer.clone();
        let arrays = (0..3).map(move |_| array.copy_to(&queue));
        let mut c_stream = ArrowDeviceArrayStream::empty();
        ArrayStream::new(schema, device_type, arrays).export(&mut c_stream);
        // SAFETY: just exported.
        let stream = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
        assert_eq!(stream.device_type(), device_type);
        let read: Vec<Array> = stream.map(|array| array.unwrap()).collect();
        assert_eq!(read.len(), 3);
        for array in read {
            let again = array.copy_with(&consumer, &Options::new().always(true)).unwrap();
            drop(array);
            assert_is(&again.to_host().unwrap(), &expected, &format!("stream {number}"));
        }
    }
}

/// Copies ten rows of a column of a million to the host, and checks that the others stay behind.
///
/// # Panics
/// Panics if more is copied, or the values are others.
pub fn a_part_of_a_large_column_moves_little(queue: &Queue) {
    let values = (0..1_000_000).map(Some);
    let column = Array::from_values(DataType::Int32, values).unwrap().copy_to(queue).unwrap();
    let part = column.slice(777_777, 10).unwrap();
    let plan = part.plan_copy(&Queue::host(), &Options::new()).unwrap();
    assert!(plan.bytes() < 1000, "{plan}");
    let found = plan.run().unwrap();
    let expected = Array::from_values(DataType::Int32, (777_777..777_787).map(Some)).unwrap();
    let expected = oracle::plan_of(&expected).unwrap();
    oracle::require_equal(&expected, &oracle::plan_of(&found).unwrap()).unwrap();
}

/// Copies a list of five pieces of 8 MiB to the device, and compares the memory with what the host
/// has. The last piece comes first, so that the pieces do not lie behind one another on both sides.
/// `submit` is given the function that submits the list, which it calls once.
///
/// # Panics
/// Panics if the driver fails, or other bytes arrive.
pub fn check_long_list(queue: &Queue, submit: impl FnOnce(&dyn Fn())) {
    const PIECE: u64 = 8 << 20;
    let mut bytes = vec![0_u8; 5 * PIECE as usize];
    for (number, chunk) in bytes.chunks_mut(64 << 10).enumerate() {
        chunk.fill((number % 251) as u8);
    }
    let mut memory = queue.allocate(5 * PIECE).unwrap();
    let there = memory.spot(queue).unwrap();
    let here = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
    let at = |spot: Spot, piece: u64| Spot { offset: spot.offset + piece * PIECE, ..spot };
    let region = |piece| Region { from: at(here, piece), to: at(there, piece), len: PIECE };
    let regions: Vec<Region> = (0..5).rev().map(region).collect();
    // SAFETY: UNS-21: the bytes are kept until the queue was waited for, and the memory has room.
    submit(&|| unsafe { queue.copy(Route::FromHost, &regions) }.unwrap());
    let mut back = vec![0_u8; bytes.len()];
    let to = Spot { base: Raw::from_ptr(back.as_mut_ptr().cast()), offset: 0 };
    let whole = Region { from: there, to, len: 5 * PIECE };
    // SAFETY: UNS-21: the bytes are kept until the queue was waited for.
    unsafe { queue.copy(Route::ToHost, &[whole]) }.unwrap();
    queue.synchronize().unwrap();
    assert!(back == bytes, "other bytes arrived");
}
