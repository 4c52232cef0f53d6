//! Asynchronous streams of arrays on the software device: many arrays, on several threads, with
//! delays, cancels and errors at random. Nothing is used without order, nothing is left behind,
//! nothing hangs, and arrays come in their order.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_device::async_stream::{AsyncProducer, AsyncStream, Ending, Failure, Outgoing, Task};
use arrow_device::{Array, DataType, DeviceType, Error, ErrorKind, Queue, Result, Schema};
use arrow_device_sim::Sim;
use futures_core::Stream;

use crate::executor::{Executor, Random, yield_now};

/// Arrays of a stream that is read to its end.
const ARRAYS: usize = if cfg!(miri) { 20 } else { 10_000 };
/// Streams at a time.
const STREAMS: usize = if cfg!(miri) { 3 } else { 5 };
const THREADS: usize = 4;
/// Every so many arrays there is memory of its own; the others share it. The length of an array
/// says which it is.
const SHARED: usize = 64;

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    ReadToItsEnd,
    /// The stream is dropped after so many arrays.
    Dropped(usize),
    /// The source fails after so many arrays.
    SourceFails(usize),
    /// Making this array fails, on the consumer's thread.
    WorkFails(usize),
    /// The future is dropped after so many polls.
    DriveDropped(usize),
}

impl Fate {
    fn of(number: usize, random: &mut Random) -> Self {
        let at = random.below(ARRAYS);
        match number % 5 {
            0 => Self::ReadToItsEnd,
            1 => Self::Dropped(at),
            2 => Self::SourceFails(at),
            3 => Self::WorkFails(at),
            _ => Self::DriveDropped(random.below(ARRAYS / 10) + 1),
        }
    }
}

/// A source of arrays that are written on a queue, in their order, with pauses.
struct Arrays {
    sim: Arc<Sim>,
    queue: Queue,
    base: Option<Array>,
    next: usize,
    fate: Fate,
    random: Random,
}

impl Arrays {
    fn make(&mut self, number: usize) -> Result<Outgoing, Failure> {
        if self.fate == Fate::SourceFails(number) {
            return Err(Error::new(ErrorKind::DeviceLost, "planted in the source").into());
        }
        if self.fate == Fate::WorkFails(number) {
            let error = || Err(Error::new(ErrorKind::InvalidData, "planted in the work"));
            return Ok(Outgoing::later(error));
        }
        let base = match self.base.take().filter(|_| !number.is_multiple_of(SHARED)) {
            Some(base) => base,
            None => self.fill()?,
        };
        let array = base.slice(0, number % SHARED + 1)?;
        self.base = Some(base);
        Ok(if self.random.below(2) == 0 {
            array.into()
        } else {
            Outgoing::later(move || Ok(array))
        })
    }

    /// Numbers that the device still has to write.
    fn fill(&self) -> Result<Array> {
        let mut memory = self.queue.device().allocate(8 * SHARED as u64)?;
        let spot = memory.spot(&self.queue)?;
        self.sim.fill(&self.queue, spot, 8 * SHARED as u64, 7)?;
        unsafe { memory.assume_written(8 * SHARED as u64) };
        let buffers = [None, Some(memory.into_buffer())];
        Array::builder(DataType::Int64).len(SHARED).buffers(buffers).finish_on(&self.queue)
    }
}

impl Stream for Arrays {
    type Item = Result<Outgoing, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.next == ARRAYS {
            return Poll::Ready(None);
        }
        if self.random.below(8) == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let number = self.next;
        self.next += 1;
        Poll::Ready(Some(self.make(number)))
    }
}

async fn next(stream: &mut AsyncStream) -> Option<Result<Task>> {
    std::future::poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

/// Uses an array on a queue of the consumer's.
fn consume(sim: &Sim, queue: &Queue, task: Task, number: usize) -> Result<()> {
    let array = task.extract()?;
    assert_eq!(array.len(), number % SHARED + 1, "array {number} is another one");
    if number.is_multiple_of(64) {
        let view = array.on(queue)?;
        let spot = view.buffer(1).location().spot();
        sim.kernel("consume").reads(spot, 8 * array.len() as u64).launch(queue, |_| {})?;
    }
    Ok(())
}

/// One stream, its producer and its consumer, on an executor.
fn start(executor: &Arc<Executor>, sim: &Arc<Sim>, fate: Fate, seed: u64, read: &Arc<AtomicUsize>) {
    let mut random = Random::new(seed);
    let window = random.below(16) + 1;
    let (mut stream, handler) = AsyncStream::new(window);
    let [producing, consuming] = [(); 2].map(|()| sim.device().open_queue().unwrap());
    let arrays = Arrays {
        sim: sim.clone(),
        queue: producing,
        base: None,
        next: 0,
        fate,
        random: Random::new(!seed),
    };
    let schema = Schema::new(DataType::Int64).unwrap();
    let producer = AsyncProducer::new(schema, DeviceType::EXT_DEV, arrays);
    let mut drive = Some(unsafe { producer.drive(handler.into_raw()) }.unwrap());
    let mut polls = 0;
    executor.spawn(std::future::poll_fn(move |context| {
        polls += 1;
        if fate == Fate::DriveDropped(polls) {
            drive = None;
            return Poll::Ready(());
        }
        let Some(driving) = &mut drive else { return Poll::Ready(()) };
        let Poll::Ready(ending) = Pin::new(driving).poll(context) else { return Poll::Pending };
        match (ending, fate) {
            (Ok(Ending::Finished), _) => {}
            (Ok(Ending::Cancelled), Fate::Dropped(_) | Fate::WorkFails(_)) => {}
            (Err(error), Fate::SourceFails(_) | Fate::WorkFails(_)) => {
                assert!(error.message().contains("planted"), "{error}");
            }
            (ending, _) => panic!("{fate:?}: {ending:?}"),
        }
        Poll::Ready(())
    }));

    let (inner, sim, read) = (executor.clone(), sim.clone(), read.clone());
    executor.spawn(async move {
        let mut number = 0;
        let mut failed = false;
        loop {
            if fate == Fate::Dropped(number) {
                return;
            }
            if random.below(8) == 0 {
                yield_now().await;
            }
            match next(&mut stream).await {
                Some(Ok(task)) => match random.below(8) {
                    0 => drop(task),
                    1 => {
                        let (sim, queue) = (sim.clone(), consuming.clone());
                        inner.spawn(async move {
                            yield_now().await;
                            let outcome = consume(&sim, &queue, task, number);
                            assert!(outcome.is_ok() || fate == Fate::WorkFails(number));
                        });
                    }
                    _ => {
                        let outcome = consume(&sim, &consuming, task, number);
                        assert!(outcome.is_ok() || fate == Fate::WorkFails(number), "{outcome:?}");
                    }
                },
                Some(Err(error)) => {
                    failed = true;
                    let is_expected = match fate {
                        Fate::SourceFails(at) => {
                            number == at && error.message().contains("planted")
                        }
                        // Whoever extracts it may be late.
                        Fate::WorkFails(at) => number >= at,
                        Fate::DriveDropped(_) => error.kind() == ErrorKind::Cancelled,
                        Fate::ReadToItsEnd | Fate::Dropped(_) => false,
                    };
                    assert!(is_expected, "{fate:?} at {number}: {error}");
                    continue;
                }
                None => break,
            }
            number += 1;
        }
        if fate == Fate::ReadToItsEnd {
            assert!(!failed);
            assert_eq!(number, ARRAYS, "arrays are missing");
        }
        read.fetch_add(number, Ordering::SeqCst);
    });
}

// Requirement: ASY-4, ASY-7, ASY-13, ASY-14, ASY-16
#[test]
fn long_streams_with_delays_cancels_and_errors_lose_nothing_and_do_not_hang() {
    let seed = std::env::var("ARROW_DEVICE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(7_u64);
    println!("ARROW_DEVICE_SEED={seed}");
    let sim = Arc::new(Sim::builder().seed(seed).backtraces(false).build());
    let executor = Executor::new(seed);
    let mut random = Random::new(seed);
    let read = Arc::new(AtomicUsize::new(0));
    for number in 0..STREAMS {
        let fate = Fate::of(number, &mut random);
        start(&executor, &sim, fate, seed.wrapping_add(10 * number as u64), &read);
    }
    executor.run(THREADS, Duration::from_secs(120));
    drop(executor);
    assert!(read.load(Ordering::SeqCst) >= ARRAYS);
    // Looks for what was left behind, and panics over what is reported.
    let sim = Arc::into_inner(sim).expect("a stream keeps the device");
    let reports = sim.finish();
    assert!(reports.is_empty(), "{}", reports[0]);
}
