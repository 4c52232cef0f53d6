//! Arrays that were sent somewhere: are they still what they were? And trips that every device
//! takes them on.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::copy::{Options, PolledCopy};
use arrow_device::deferred::held_back;
use arrow_device::driver::{HostAccess, Region, Route, WaitingCopies};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, Device, Error, ErrorKind, Memory, Queue, Recycler,
};

use crate::generate::{self, Generated};
use crate::ledger::Ledger;
use crate::oracle;
use crate::plan::Plan;
use crate::release_until;

/// An array of the library's in host memory, and what is to be read in every copy of it.
///
/// # Panics
/// Where the library does not build it, or builds something else.
pub fn built(plan: &Plan) -> (Array, Plan) {
    let array = generate::build(plan, &Ledger::new()).unwrap_or_else(|error| panic!("{error}"));
    // The same values, with the type as the library spells it.
    let expected = oracle::plan_of(&array).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(oracle::values(&expected), oracle::values(plan));
    (array, expected)
}

/// The array again, as somebody who only knows the C struct has it.
///
/// # Panics
/// Where it cannot be exported or imported.
pub fn imported(array: &Array) -> Array {
    let mut c_array = ArrowDeviceArray::empty();
    let exported = array.export(&mut c_array).and_then(|()| array.schema());
    let schema = exported.unwrap_or_else(|error| panic!("{error}"));
    // SAFETY: the library's export is of that type and keeps to the interface.
    let again = unsafe { Array::import(&mut c_array, &schema) };
    again.unwrap_or_else(|error| panic!("{error}"))
}

/// Ways to ask for the same copy, one for each number: with and without what is not shown, in one
/// block and in several, in chunks of two sizes, at another alignment. None shares memory with its
/// source.
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

/// That an array in host memory is valid, and has these values.
///
/// # Panics
/// Where it is or has not. The message begins with `what`.
#[track_caller]
pub fn assert_is(array: &Array, expected: &Plan, what: &str) {
    array.validate().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = oracle::plan_of(array).unwrap_or_else(|error| panic!("{what}: {error}"));
    oracle::require_equal(expected, &found).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// The result of a polled copy. Between two polls the host waits for these queues, so that devices
/// go on which work only then.
///
/// # Errors
/// That of the copy.
///
/// # Panics
/// Where the copy comes to no end within a minute.
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

/// Polled copies to a device that works by itself, within it and back, for which nobody waits.
///
/// # Panics
/// Where one does not arrive, or with other values.
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

/// Slices of arbitrary arrays go from every place to every other, and from there to the host. Every
/// second source is known by its C struct alone, and every second pair of copies is polled.
///
/// # Panics
/// Where one does not arrive, or with other values.
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
                // Where copies wait, none that is polled is promised.
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

/// Four threads send so many arbitrary arrays each to one device and back.
///
/// # Panics
/// Where one does not arrive, or with other values.
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

/// So many threads read one array on a device at the same time: by copies to the host, and in place
/// where the host reads the device's memory. What they hold of it ends in any order.
///
/// # Panics
/// Where a thread reads other values.
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
                    // All threads begin at the same byte, and have it to different ends.
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

/// A copy to memory that an allocator gives for a queue, and that work on this queue still reads,
/// writes there behind that work. `hold` holds the queue's work back until what it returns is given
/// to `let_go`; a device that does no work until somebody waits needs neither.
///
/// # Panics
/// Where the work reads what the copy wrote, or the copy has other values.
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
    // What the device aligns has room, too.
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

/// Columns whose buffers are parts of one allocation, exported and read again.
///
/// # Panics
/// Where a part is not named, or a column has other values.
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

/// Copies of all sizes to the device and back, round after round, with eight small ones and a large
/// one in flight at a time. `allocations` counts what is allocated for data to pass through; it may
/// count device memory, too, which is recycled.
///
/// # Panics
/// Where the count goes on growing after the first rounds, or an array has other values.
pub fn mixed_copies_reuse_what_they_pass_through(queue: &Queue, allocations: impl Fn() -> usize) {
    let recycler = Recycler::new(1 << 30);
    let options = Options::new().always(true).allocator(recycler);
    let large = Array::from_values(DataType::Int64, (0..5_i64 << 19).map(Some)).unwrap();
    let mut counts = Vec::new();
    for round in 0..8 {
        // So far apart that no block of device memory serves two of them.
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
    // A device works at its own pace, so that some more may be on their way than ever before.
    let grown = counts.last().unwrap() - counts.get(2).unwrap();
    assert!(grown <= 4, "allocations by the end of each round: {counts:?}");
}

/// So many streams of three arrays on a device go through the C struct, and their arrays are read
/// on another queue.
///
/// # Panics
/// Where an array does not arrive, or with other values.
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

/// Ten rows of a column of a million are copied to the host without the others.
///
/// # Panics
/// Where more is copied, or the values are others.
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
