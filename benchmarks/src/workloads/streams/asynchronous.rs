//! Asynchronous streams by this library: over two threads, and as a chain of calls on one.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use arrow_device::async_stream::{Arrays, AsyncProducer, AsyncStream, Blocking, Drive, block_on};
use arrow_device::{Array, Batch, DeviceType, Error, Result};
use arrow_device_arrow::v60::AsyncReader;
use futures_core::Stream;

use super::{ASYNC_COLUMNS, BATCHES, WARM, WINDOWS, batch};
use crate::case::{Case, Peer};
use crate::meter::Meter;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for columns in ASYNC_COLUMNS {
        for (window, queue) in WINDOWS {
            let batch = batch(columns);
            let threads = |batch: &Batch, p99: bool| {
                let batch = batch.clone();
                move |turns| scaled(turns, || over_threads(&batch, window, p99))
            };
            let case = |workload, run: Box<dyn FnMut(u32) -> Duration>| {
                let peer = Peer::ArrowDevice;
                Case { workload, shape: queue, size: columns, peer, bytes: 0, run }
            };
            cases.push(case("async threads", Box::new(threads(&batch, false))));
            cases.push(case("async threads p99", Box::new(threads(&batch, true))));
            let mut chain = Chain::new(&batch, window, None);
            let inline = move |turns| {
                let start = Instant::now();
                (0..turns).for_each(|_| drop(chain.next().unwrap().unwrap()));
                start.elapsed()
            };
            cases.push(case("async inline", Box::new(inline)));
        }
    }
    cases
}

/// So many batches after a few, in a chain of calls.
pub(super) fn count(columns: u64, meter: &mut Meter) {
    let mut chain = Chain::new(&batch(columns), 5, None);
    (0..WARM).for_each(|_| drop(chain.next().unwrap().unwrap()));
    meter.measure(|| (0..100).for_each(|_| drop(chain.next().unwrap().unwrap())));
}

/// A stream that never has an array.
struct Silent;

impl Stream for Silent {
    type Item = Result<Array>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

/// Each poll goes through a stream of its own, which counts how many streams read from one another.
pub(super) fn count_polls(meter: &mut Meter) {
    let schema = batch(1).schema().unwrap();
    let mut reader = AsyncReader::new(schema, Silent).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = || assert!(Pin::new(&mut reader).poll_next(&mut context).is_pending());
    poll();
    meter.measure(|| (0..1000).for_each(|_| poll()));
}

/// What so many turns take, of a measurement that is of one batch whatever the number of turns.
pub(super) fn scaled(turns: u32, measure: impl FnOnce() -> Duration) -> Duration {
    measure() * turns
}

/// What one batch takes when a producer and a consumer have a thread each; or what all but one in a
/// hundred take at most.
fn over_threads(batch: &Batch, window: usize, p99: bool) -> Duration {
    let (stream, handler) = AsyncStream::new(window);
    let drive = drive(batch, handler, Some(WARM + BATCHES));
    std::thread::scope(|threads| {
        threads.spawn(|| block_on(drive));
        let mut arrays = Blocking::new(stream.arrays());
        arrays.by_ref().take(WARM).for_each(|array| drop(array.unwrap()));
        let mut gaps = Vec::with_capacity(BATCHES);
        let start = Instant::now();
        let mut before = start;
        for array in arrays.by_ref().take(BATCHES) {
            drop(array.unwrap());
            if p99 {
                let now = Instant::now();
                gaps.push(now - before);
                before = now;
            }
        }
        let took = start.elapsed();
        assert!(arrays.next().is_none());
        gaps.sort();
        if p99 { gaps[BATCHES * 99 / 100] } else { took / BATCHES as u32 }
    })
}

/// A producer and a consumer on one thread: the consumer is asked first, and the producer works
/// where there is nothing.
struct Chain {
    arrays: Arrays,
    drive: Drive<Repeat>,
}

impl Chain {
    fn new(batch: &Batch, window: usize, count: Option<usize>) -> Self {
        let (stream, handler) = AsyncStream::new(window);
        Self { arrays: stream.arrays(), drive: drive(batch, handler, count) }
    }

    fn next(&mut self) -> Option<Result<Array>> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(next) = Pin::new(&mut self.arrays).poll_next(&mut context) {
                return next;
            }
            let _ = Pin::new(&mut self.drive).poll(&mut context);
        }
    }
}

fn drive(
    batch: &Batch,
    handler: arrow_device::async_stream::StreamHandler,
    count: Option<usize>,
) -> Drive<Repeat> {
    let source = Repeat { array: batch.as_array().clone(), left: count };
    let producer = AsyncProducer::new(batch.schema().unwrap(), DeviceType::CPU, source);
    // SAFETY: a handler of this library.
    unsafe { producer.drive(handler.into_raw()) }.unwrap()
}

/// The same array again and again, which is always there.
struct Repeat {
    array: Array,
    left: Option<usize>,
}

impl Stream for Repeat {
    type Item = Result<Array, Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return Poll::Ready(None);
            }
            *left -= 1;
        }
        Poll::Ready(Some(Ok(self.array.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::streams::{ROWS, last};

    #[test]
    fn a_chain_gives_all_that_went_in_and_ends() {
        for (window, _) in WINDOWS {
            let mut chain = Chain::new(&batch(10), window, Some(70));
            for _ in 0..70 {
                let read = chain.next().unwrap().unwrap();
                assert_eq!((read.len() as i64, read.child_count()), (ROWS, 10));
                assert_eq!(last(&read), ROWS - 1);
            }
            assert!(chain.next().is_none());
        }
    }

    #[test]
    fn threads_exchange_all_batches() {
        for (window, _) in WINDOWS {
            assert!(over_threads(&batch(1), window, false) > Duration::ZERO);
        }
    }
}
