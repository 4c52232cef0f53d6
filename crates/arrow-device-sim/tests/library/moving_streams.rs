//! Streams whose arrays are copied on their way, ahead of their use.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use arrow_device::async_stream::{ArraysExt, Blocking, feed};
use arrow_device::deferred::held_back;
use arrow_device::{Array, ArrayStream, DataType, DeviceType, Error, ErrorKind, Queue, Result};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_until;
use futures_core::Stream;
use futures_core::stream::FusedStream;

use super::awaits::{self, NOTICES};

const ROWS: i64 = 1000;

fn numbers(number: i64) -> Result<Array> {
    Array::from_values(DataType::Int64, (0..ROWS).map(|row| Some(number * ROWS + row)))
}

fn host_stream(count: i64) -> ArrayStream {
    ArrayStream::from_first((0..count).map(numbers)).unwrap()
}

fn first_values(arrays: impl Iterator<Item = Result<Array>>) -> Vec<i64> {
    let first = |array: Result<Array>| {
        let host = array.unwrap().to_host().unwrap().host().unwrap();
        host.values::<i64>().unwrap().iter().next().unwrap().unwrap() / ROWS
    };
    arrays.map(first).collect()
}

#[test]
fn a_stream_goes_to_a_device_and_back_in_its_order() {
    for kind in Kind::ALL {
        for ahead in [None, Some(0), Some(1), Some(3), Some(100)] {
            let sim = Sim::builder().kind(kind).backtraces(false).build();
            let queue = sim.device().open_queue().unwrap();
            let there = host_stream(10).copy_to(&queue);
            assert_eq!(there.device_type(), queue.device().id().device_type);
            let there =
                ahead.map_or_else(|| host_stream(10).copy_to(&queue), |n| there.prefetch(n));
            let back = there.to_host();
            let back = match ahead {
                None => back,
                Some(ahead) => back.prefetch(ahead),
            };
            assert_eq!(back.device_type(), DeviceType::CPU);
            assert_eq!(first_values(back), (0..10).collect::<Vec<_>>(), "{kind:?} {ahead:?}");
        }
    }
}

#[test]
fn the_next_arrays_are_on_their_way_while_one_is_used() {
    let sim = Sim::builder().backtraces(false).log(true).build();
    let queue = sim.device().open_queue().unwrap();
    let made = Arc::new(AtomicUsize::new(0));
    let source = (0..10).map({
        let made = made.clone();
        move |number| {
            made.fetch_add(1, Ordering::SeqCst);
            numbers(number)
        }
    });
    let schema = numbers(0).unwrap().schema().unwrap();
    let stream = ArrayStream::new(schema, DeviceType::CPU, source);
    let mut there = stream.copy_to(&queue).prefetch(2);
    assert_eq!(made.load(Ordering::SeqCst), 0, "nobody has asked");
    let first = there.next().unwrap().unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 3, "the first and two ahead of it");
    // The copies of those ahead were submitted: to wait for the queue is to have them.
    sim.run_until_idle();
    let second = there.next().unwrap().unwrap();
    assert!(second.is_ready().unwrap());
    assert_eq!(made.load(Ordering::SeqCst), 4);
    assert_eq!(first_values([Ok(first), Ok(second)].into_iter()), [0, 1]);
}

#[test]
fn memory_is_bounded_by_the_arrays_ahead() {
    // In a process of its own, where nobody else holds anything back.
    alone(|| [0, 1, 4].into_iter().for_each(check_that_memory_is_bounded));
}

fn check_that_memory_is_bounded(ahead: usize) {
    let of_one = 8 * ROWS as u64;
    let bound = (ahead as u64 + 1) * (of_one + 256);
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let allocated = || queue.device().held().allocated;
    // What was dropped is held back until the queue has passed what was submitted before.
    let settle = || {
        sim.run_until_idle();
        assert!(release_until(|| held_back().is_nothing()));
        assert!(allocated() <= bound - of_one - 256);
    };
    let mut most = 0;
    for array in host_stream(50).copy_to(&queue).prefetch(ahead) {
        let array = array.unwrap();
        most = most.max(allocated());
        drop(array);
        settle();
    }
    assert_eq!(allocated(), 0);
    assert!(most <= bound, "{most} bytes with {ahead} ahead, and {bound} are the bound");
    assert!(most >= (ahead as u64 + 1) * of_one, "{most}: those ahead are there");
    // The same for an asynchronous stream.
    let (feeder, fed) = feed((0..50).map(numbers), 2);
    let mut most = 0;
    std::thread::scope(|threads| {
        threads.spawn(|| feeder.run());
        for array in Blocking::new(fed.copy_to(&queue).prefetch(ahead)) {
            let array = array.unwrap();
            most = most.max(allocated());
            drop(array);
            settle();
        }
    });
    assert!((of_one..=bound).contains(&most), "{most} bytes with {ahead} ahead");
}

/// Calls a function with a device of each way to tell of events, and with so many arrays ahead as
/// none, one and several. The text says which.
fn for_each_pace(check: impl Fn(&Sim, usize, &str)) {
    for notices in NOTICES {
        for ahead in [0, 1, 7] {
            let sim = awaits::sim(notices).build();
            check(&sim, ahead, &format!("{notices:?} {ahead}"));
        }
    }
}

#[test]
fn an_asynchronous_stream_goes_to_a_device_and_back() {
    for_each_pace(|sim, ahead, what| {
        let queue = sim.device().open_queue().unwrap();
        let (feeder, fed) = feed((0..20).map(numbers), 3);
        std::thread::scope(|threads| {
            threads.spawn(|| feeder.run());
            let back = fed.copy_to(&queue).prefetch(ahead).to_host().prefetch(ahead);
            assert_eq!(first_values(Blocking::new(back)), (0..20).collect::<Vec<_>>(), "{what}");
        });
    });
}

#[test]
fn an_error_comes_in_its_turn_and_ends_the_stream() {
    let failing = |number| match number {
        3 => Err(Error::new(ErrorKind::InvalidData, "the third is missing")),
        number => numbers(number),
    };
    let kinds = |results: Vec<Result<Array>>| -> Vec<Option<ErrorKind>> {
        results.into_iter().map(|result| result.err().map(|error| error.kind())).collect()
    };
    let expected = [None, None, None, Some(ErrorKind::InvalidData)];
    for ahead in [0, 1, 10] {
        let sim = Sim::builder().backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let stream = ArrayStream::from_first((0..8).map(failing)).unwrap();
        let moved: Vec<_> = stream.copy_to(&queue).prefetch(ahead).to_host().collect();
        assert_eq!(kinds(moved), expected);
        let (feeder, fed) = feed((0..8).map(failing), 2);
        std::thread::scope(|threads| {
            threads.spawn(|| feeder.run());
            let moved = Blocking::new(fed.copy_to(&queue).prefetch(ahead)).collect();
            assert_eq!(kinds(moved), expected);
        });
    }
    let none = ArrayStream::from_first(std::iter::empty::<Result<Array>>());
    assert_eq!(none.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_stream_that_is_dropped_with_copies_under_way_leaves_nothing() {
    for ahead in [0, 1, 5] {
        let sim = Sim::builder().backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let mut there = host_stream(10).copy_to(&queue).prefetch(ahead);
        let _ = there.next();
        let mut back = there.to_host().prefetch(ahead);
        let _ = back.next();
        drop(back);
        let ready = futures_of(10);
        let mut moving = ready.copy_to(&queue).prefetch(ahead).to_host().prefetch(ahead);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..ahead {
            let _: Poll<_> = Stream::poll_next(Pin::new(&mut moving), &mut context);
        }
        drop(moving);
    }
}

/// An asynchronous stream whose arrays are all there.
struct Iterated<I>(I);

impl<I: Iterator + Unpin> Stream for Iterated<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

fn futures_of(count: i64) -> impl Stream<Item = Result<Array>> + Unpin {
    Iterated((0..count).map(numbers))
}

#[test]
fn a_stream_that_copies_can_be_exported_and_changed() {
    let sim = Sim::builder().backtraces(false).build();
    let queue: Queue = sim.device().open_queue().unwrap();
    let there = host_stream(6).copy_to(&queue).prefetch(2);
    let mut c_stream = arrow_device::abi::ArrowDeviceArrayStream::empty();
    there.export(&mut c_stream);
    let again = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
    let (schema, device_type) = (again.schema().clone(), again.device_type());
    let halves = again.map_arrays(schema, device_type, |array| array.slice(0, 500));
    let back: Vec<Array> = halves.to_host().prefetch(1).collect::<Result<_>>().unwrap();
    assert!(back.iter().all(|array| array.len() == 500));
    assert_eq!(back.len(), 6);
}

/// Work of the device on an array of integers: the negative of each.
fn negated(array: &Array, queue: &Queue, sim: &Sim) -> Result<Array> {
    let size = (array.len() * 8) as u64;
    let mut memory = queue.allocate(size)?;
    let to = memory.spot(queue)?;
    let view = array.on(queue)?;
    let from = view.buffer(1).location().spot();
    sim.kernel("negate").reads(from, size).writes(to, size).launch(queue, |memory| {
        let results: Vec<i64> = memory.values::<i64>(0).into_iter().map(|value| -value).collect();
        memory.set_values(0, &results);
    })?;
    // SAFETY: UNS-16: the kernel, which was submitted just now, writes all of it.
    unsafe { memory.assume_written(size) };
    drop(view);
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(array.len()).buffers(buffers).finish_on(queue)
}

#[test]
fn a_function_has_work_done_on_the_arrays_of_an_asynchronous_stream() {
    for_each_pace(|sim, ahead, what| {
        let queue = sim.device().open_queue().unwrap();
        let (feeder, fed) = feed((0..20).map(numbers), 3);
        std::thread::scope(|threads| {
            threads.spawn(|| feeder.run());
            let there = fed.copy_to(&queue).prefetch(ahead);
            let negative = there.map_arrays(|array| negated(&array, &queue, sim));
            let back = Blocking::new(negative.to_host().prefetch(ahead));
            let expected: Vec<i64> = (0..20).map(|number| -number).collect();
            assert_eq!(first_values(back), expected, "{what}");
        });
    });
}

#[test]
fn the_first_error_ends_a_stream_whose_arrays_are_changed() {
    let mut asked = 0;
    let mut changed = 0;
    let arrays = Iterated((0..9).map(|number| {
        asked += 1;
        if number == 5 {
            Err(Error::new(ErrorKind::InvalidData, "no fifth"))
        } else {
            numbers(number)
        }
    }));
    let mut moved = arrays.map_arrays(|array| {
        changed += 1;
        if changed == 3 {
            Err(Error::new(ErrorKind::InvalidArgument, "no third"))
        } else {
            Ok(array)
        }
    });
    assert_eq!(moved.size_hint(), (0, Some(9)));
    let kinds = |moved: &mut dyn Iterator<Item = Result<Array>>| -> Vec<Option<ErrorKind>> {
        moved.map(|result| result.err().map(|error| error.kind())).collect()
    };
    let expected = [None, None, Some(ErrorKind::InvalidArgument)];
    assert_eq!(kinds(&mut Blocking::new(Pin::new(&mut moved))), expected);
    assert!(moved.is_terminated());
    assert_eq!(moved.size_hint(), (0, Some(0)));
    assert_eq!((asked, changed), (3, 3), "nothing is asked for after the error");
    // An error of the stream itself does not come to the function.
    let mut changed = 0;
    let failing = (3..9).map(|number| match number {
        5 => Err(Error::new(ErrorKind::InvalidData, "no fifth")),
        number => numbers(number),
    });
    let moved = Iterated(failing).map_arrays(|array| {
        changed += 1;
        Ok(array)
    });
    let expected = [None, None, Some(ErrorKind::InvalidData)];
    assert_eq!(kinds(&mut Blocking::new(moved)), expected);
    assert_eq!(changed, 2);
}
