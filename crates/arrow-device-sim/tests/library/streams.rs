//! Streams on the software device: whoever reads one is ordered behind whoever makes its arrays,
//! and whatever is dropped when, nothing is freed early and nothing is left.
//!
//! Each promise has a wrong twin, which is reported on every seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device::{
    Array, ArrayStream, Batch, DataType, Device, DeviceType, Error, ErrorKind, Field, Queue, Ready,
    Result, Schema,
};
use arrow_device_sim::{Mistake, Sim};
use arrow_device_testkit::faulty::{Fault, Faulty};

const SEEDS: u64 = if cfg!(miri) { 1 } else { 256 };

/// Runs a test on every seed; these kinds of mistakes are reported each time, and no others. The
/// test lets go of the simulator.
fn on_every_seed(mistakes: &[Mistake], test: impl Fn(&Arc<Sim>)) {
    for seed in 0..SEEDS {
        let sim = Arc::new(Sim::builder().seed(seed).backtraces(seed % 16 == 0).build());
        test(&sim);
        let sim = Arc::into_inner(sim).expect("no stream holds the simulator any more");
        let reports = sim.finish();
        let mut kinds: Vec<Mistake> = reports.iter().map(|report| report.kind).collect();
        kinds.dedup();
        assert_eq!(kinds, mistakes, "seed {seed}: {reports:#?}");
    }
}

/// Numbers that a kernel on the queue still has to write.
fn column(sim: &Sim, queue: &Queue, numbers: [i64; 2]) -> Result<Array> {
    let mut memory = queue.device().allocate(16)?;
    let spot = memory.spot(queue)?;
    let kernel = sim.kernel("produce").writes(spot, 16);
    kernel.launch(queue, move |memory| memory.set_values(0, &numbers))?;
    unsafe { memory.assume_written(16) };
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(2).buffers(buffers).finish_on(queue)
}

/// Two columns, each made on a queue of its own.
fn batch(sim: &Sim, queues: &[Queue; 2], numbers: [i64; 2]) -> Result<Batch> {
    let columns = [column(sim, &queues[0], numbers)?, column(sim, &queues[1], numbers)?];
    Batch::new(batches()?, columns)
}

fn numbers() -> Result<Schema> {
    DataType::Int64.try_into()
}

fn batches() -> Result<Schema> {
    Schema::batch(["a", "b"].map(|name| Field::new(name, DataType::Int64, false)))
}

/// What an array has as its first numbers tells which one it is.
fn consume(sim: &Sim, array: &Array, queue: &Queue, expected: [i64; 2]) -> Result<()> {
    let view = array.on(queue)?;
    let children = array.child_count();
    let mut spots = vec![];
    for child in 0..children {
        spots.push(view.child(child)?.buffer(1).location().spot());
    }
    if children == 0 {
        spots.push(view.buffer(1).location().spot());
    }
    for spot in spots {
        let check = move |memory: &mut arrow_device_sim::KernelMemory| {
            assert_eq!(memory.values::<i64>(0), expected);
        };
        sim.kernel("consume").reads(spot, 16).launch(queue, check)?;
    }
    Ok(())
}

/// Reads without a look at what is there, for twins that read too early.
fn consume_unchecked(sim: &Sim, array: &Array, queue: &Queue) {
    let view = array.on(queue).unwrap();
    let spot = view.buffer(1).location().spot();
    sim.kernel("consume").reads(spot, 16).launch(queue, |_| {}).unwrap();
}

/// Streams of three arrays that are made when they are asked for.
fn three(sim: &Arc<Sim>, device: &Device) -> ArrayStream {
    let (sim, queue) = (sim.clone(), device.open_queue().unwrap());
    let arrays = (0..3).map(move |number| column(&sim, &queue, [number, 7]));
    ArrayStream::new(numbers().unwrap(), DeviceType::EXT_DEV, arrays)
}

fn exchange(stream: ArrayStream) -> ArrayStream {
    let mut c_stream = ArrowDeviceArrayStream::empty();
    stream.export(&mut c_stream);
    unsafe { ArrayStream::import(&mut c_stream) }.unwrap()
}

// Requirement: STR-1, STR-6
#[test]
fn who_reads_a_stream_is_ordered_behind_who_makes_it() {
    on_every_seed(&[], |sim| {
        let queue = sim.device().open_queue().unwrap();
        let arrays: Vec<Array> =
            exchange(three(sim, &sim.device())).collect::<Result<_>>().unwrap();
        for (number, array) in (0..).zip(&arrays) {
            assert_eq!(array.ready(), Ready::AfterEvent);
            consume(sim, array, &queue, [number, 7]).unwrap();
        }
    });
}

#[test]
fn a_reader_whose_queue_does_not_wait_is_reported() {
    on_every_seed(&[Mistake::UnorderedRead], |sim| {
        let careless =
            Faulty::of(&sim.device()).fault(Fault::QueueWait).open().open_queue().unwrap();
        for array in exchange(three(sim, &sim.device())) {
            consume_unchecked(sim, &array.unwrap(), &careless);
        }
    });
}

#[test]
fn columns_of_different_queues_need_a_queue_that_joins_them() {
    on_every_seed(&[], |sim| {
        let [queue, join] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let stream = || {
            let (sim, queues) = (sim.clone(), [(); 2].map(|()| sim.device().open_queue().unwrap()));
            let batches_of = (0..3).map(move |number| batch(&sim, &queues, [number, 7]));
            ArrayStream::new(batches().unwrap(), DeviceType::EXT_DEV, batches_of)
        };
        let error = exchange(stream()).next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReady);
        assert!(error.message().contains("name a queue to join them"), "{error}");

        let mut c_stream = ArrowDeviceArrayStream::empty();
        stream().export_on(&join, &mut c_stream);
        let joined = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
        for (number, batch) in (0..).zip(joined.into_batches()) {
            let batch = batch.unwrap();
            assert_eq!(batch.as_array().ready(), Ready::AfterEvent);
            consume(sim, batch.as_array(), &queue, [number, 7]).unwrap();
        }
    });
}

#[test]
fn settled_streams_are_for_those_who_ignore_events() {
    on_every_seed(&[], |sim| {
        let queue = sim.device().open_queue().unwrap();
        let mut c_stream = ArrowDeviceArrayStream::empty();
        three(sim, &sim.device()).export_settled(&mut c_stream);
        for (number, array) in (0..).zip(unsafe { ArrayStream::import(&mut c_stream) }.unwrap()) {
            let array = array.unwrap();
            assert_eq!(array.ready(), Ready::Now);
            consume(sim, &array, &queue, [number, 7]).unwrap();
        }
    });
}

#[test]
fn a_settled_stream_without_the_wait_is_reported() {
    on_every_seed(&[Mistake::UnorderedRead], |sim| {
        let queue = sim.device().open_queue().unwrap();
        let mut c_stream = ArrowDeviceArrayStream::empty();
        three(sim, &Faulty::of(&sim.device()).fault(Fault::HostWait).open())
            .export_settled(&mut c_stream);
        for array in unsafe { ArrayStream::import(&mut c_stream) }.unwrap() {
            consume_unchecked(sim, &array.unwrap(), &queue);
        }
    });
}

// Requirement: STR-6, STR-7
#[test]
fn a_stream_that_is_dropped_in_the_middle_leaves_nothing() {
    on_every_seed(&[], |sim| {
        let queue = sim.device().open_queue().unwrap();
        let mut stream = exchange(exchange(three(sim, &sim.device())));
        let first = stream.next().unwrap().unwrap();
        // The second one is made and never looked at.
        drop(stream.next());
        consume(sim, &first, &queue, [0, 7]).unwrap();
        drop(stream);
        consume(sim, &first, &queue, [0, 7]).unwrap();
    });
}

#[test]
fn an_error_in_the_middle_leaves_nothing() {
    on_every_seed(&[], |sim| {
        let queue = sim.device().open_queue().unwrap();
        // Room for one array.
        sim.set_memory_limit(24);
        let mut stream = exchange(three(sim, &sim.device()));
        let first = stream.next().unwrap().unwrap();
        let error = stream.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert!(stream.next().is_none());
        consume(sim, &first, &queue, [0, 7]).unwrap();
    });
}

// ---- at random

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

/// A stream on its way to another thread, and what is to be seen of it.
struct Sent {
    stream: ArrowDeviceArrayStream,
    number: i64,
    arrays: i64,
    fails: bool,
}

// SAFETY: the specification lets a stream be used and released on any thread.
unsafe impl Send for Sent {}

const THREADS: u64 = 4;
const ARRAYS: u64 = if cfg!(miri) { 40 } else { 10_000 };
/// Longer than anything here takes; a test that hangs fails.
const LONG: Duration = Duration::from_secs(120);

struct Worker<'a> {
    sim: &'a Arc<Sim>,
    random: Random,
    queues: [Queue; 3],
    made: &'a Arc<AtomicUsize>,
    seen: usize,
}

impl Worker<'_> {
    /// A stream of this many arrays, or one that fails after them.
    fn make(&mut self, number: i64, arrays: i64) -> Sent {
        let (sim, [one, two, join]) = (self.sim.clone(), self.queues.clone());
        let fails = self.random.below(4) == 0;
        let joins = self.random.below(3) == 0;
        let made = self.made.clone();
        let queues = [one, two];
        let source = (0..arrays + i64::from(fails)).map(move |index| {
            if index == arrays {
                return Err(Error::new(ErrorKind::TimedOut, format!("stream {number}")));
            }
            made.fetch_add(1, Ordering::Relaxed);
            if joins {
                return batch(&sim, &queues, [number, index]).map(Array::from);
            }
            column(&sim, &queues[index as usize % 2], [number, index])
        });
        let schema = if joins { batches() } else { numbers() };
        let stream = ArrayStream::new(schema.unwrap(), DeviceType::EXT_DEV, source);
        let mut c_stream = ArrowDeviceArrayStream::empty();
        match self.random.below(3) {
            0 if !joins => stream.export(&mut c_stream),
            1 => stream.export_settled(&mut c_stream),
            _ => stream.export_on(&join, &mut c_stream),
        }
        Sent { stream: c_stream, number, arrays, fails }
    }

    /// Reads a stream, as far as it likes; hands it on within itself now and then, and keeps some
    /// arrays for later.
    fn read(&mut self, sent: Sent, kept: &mut Vec<(Array, [i64; 2])>) {
        let Sent { stream: mut c_stream, number, arrays, fails } = sent;
        let mut stream = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
        if self.random.below(4) == 0 {
            stream = exchange(stream);
        }
        let patience = if self.random.below(5) == 0 { arrays / 2 } else { i64::MAX };
        for index in 0..patience {
            let array = match stream.next() {
                Some(Ok(array)) => array,
                Some(Err(error)) => {
                    assert_eq!((error.kind(), fails, index), (ErrorKind::TimedOut, true, arrays));
                    assert!(error.message().contains(&format!("stream {number}")), "{error}");
                    break;
                }
                None => {
                    assert_eq!((fails, index), (false, arrays));
                    break;
                }
            };
            self.seen += 1;
            let expected = [number, index];
            let queue = &self.queues[self.random.below(3) as usize];
            match self.random.below(5) {
                0 => drop(array),
                1 => kept.push((array, expected)),
                2 => {
                    consume(self.sim, &array, queue, expected).unwrap();
                    queue.synchronize().unwrap();
                }
                _ => consume(self.sim, &array, queue, expected).unwrap(),
            }
            if kept.len() > 16 {
                let (array, expected) = kept.swap_remove(self.random.below(16) as usize);
                consume(self.sim, &array, &self.queues[2], expected).unwrap();
            }
        }
    }
}

/// One thread: makes streams for the next one, and reads those of the one before.
fn work(mut worker: Worker<'_>, first: i64, next: &Sender<Sent>, own: &Receiver<Sent>) -> usize {
    let mut left = (ARRAYS / THREADS) as i64;
    let mut number = first;
    let mut kept = Vec::new();
    let mut is_open = true;
    while left > 0 {
        let arrays = (worker.random.below(20) as i64 + 1).min(left);
        left -= arrays;
        next.send(worker.make(number, arrays)).unwrap();
        number += THREADS as i64;
        if worker.random.below(2) == 0
            && let Ok(sent) = own.try_recv()
        {
            worker.read(sent, &mut kept);
        }
    }
    next.send(Sent {
        stream: ArrowDeviceArrayStream::empty(),
        number: -1,
        arrays: 0,
        fails: false,
    })
    .unwrap();
    while is_open {
        let sent = own.recv_timeout(LONG).unwrap();
        is_open = sent.number >= 0;
        if is_open {
            worker.read(sent, &mut kept);
        }
    }
    worker.seen
}

// Requirement: STR-6, STR-7, STR-8
#[test]
fn ten_thousand_arrays_on_four_threads_in_any_order() {
    let seed = std::env::var("ARROW_DEVICE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(5);
    println!("ARROW_DEVICE_SEED={seed}");
    let sim = Arc::new(Sim::builder().seed(seed).backtraces(false).build());
    let made = Arc::new(AtomicUsize::new(0));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel::<Sent>()).unzip();
    let seen: usize = std::thread::scope(|threads| {
        let workers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(index, own)| {
                let next = senders[(index + 1) % THREADS as usize].clone();
                let worker = Worker {
                    sim: &sim,
                    random: Random(seed.wrapping_mul(THREADS) + index as u64),
                    queues: [(); 3].map(|()| sim.device().open_queue().unwrap()),
                    made: &made,
                    seen: 0,
                };
                threads.spawn(move || work(worker, index as i64, &next, &own))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    drop(senders);
    let made = made.load(Ordering::Relaxed);
    println!("{made} arrays made of {ARRAYS}, {seen} of them read");
    assert_eq!(made, seen, "what was made was read");
    assert!(made as u64 > ARRAYS / 2 && made as u64 <= ARRAYS);
    let sim = Arc::into_inner(sim).expect("no stream holds the simulator any more");
    let reports = sim.finish();
    assert!(reports.is_empty(), "seed {seed}: {reports:#?}");
}
