//! Asynchronous streams: Arrow C++ consumes what the library produces, and produces what the
//! library consumes.
//!
//! Tests that use Arrow C++ take turns, and these have deadlines: that is why they are a program of
//! their own.
#![cfg(all(unix, not(miri)))]
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device::async_stream::{AsyncProducer, AsyncStream, Blocking, Ending, block_on, feed};
use arrow_device::{Array, ArrayStream, Batch, DataType, Error, ErrorKind, Schema};
use arrow_device_testkit::Verdict;
use foreign_peers::arrow_cpp::asynchronous::SentHandler;
use foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use foreign_peers::table::{self, Table};

fn words(error: Error) -> String {
    error.to_string()
}

/// Runs a test on a thread of its own, and gives up when it takes too long.
fn bounded(body: impl FnOnce(&ArrowCpp) + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let running = thread::spawn(move || {
        if let Some(cpp) = arrow_cpp() {
            body(&cpp);
        }
        done.send(()).unwrap();
    });
    match is_done.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        // A panic shows itself in the join.
        _ => running.join().unwrap(),
    }
}

/// The streams of batches.
fn streams(cpp: &ArrowCpp) -> std::ops::Range<usize> {
    let (arrays, batches) = cpp.stream_counts();
    arrays..arrays + batches
}

/// Gives what Arrow C++ exports back to a consumer of Arrow C++, through a producer of ours.
fn check_consumer(cpp: &ArrowCpp, number: usize, place: Place, window: u64) -> Verdict {
    let mut stream = cpp.export_stream(number, place)?;
    let stream = unsafe { ArrayStream::import(&mut stream) }.map_err(words)?;
    let (schema, device_type) = (stream.schema().clone(), stream.device_type());
    let (feeder, fed) = feed(stream, 2);
    let reader = cpp.reader(window);
    let producer = AsyncProducer::new(schema, device_type, fed);
    let drive = unsafe { producer.drive(reader.handler().0) }.map_err(words)?;
    let compared = thread::scope(|threads| {
        threads.spawn(|| feeder.run());
        let driving = threads.spawn(|| block_on(drive));
        let compared = reader.compare(number, place);
        reader.drop_stream();
        let ending = driving.join().unwrap().map_err(words)?;
        assert_eq!(ending, Ending::Finished);
        compared
    });
    unsafe { reader.free() };
    compared
}

/// Reads what a producer of Arrow C++ gives, and lets Arrow C++ compare it.
fn check_producer(cpp: &ArrowCpp, number: usize, place: Place, window: usize) -> Verdict {
    let (mut stream, handler) = AsyncStream::new(window);
    let handler = SentHandler(handler.into_raw());
    let (info, arrays) = thread::scope(|threads| {
        let producing = threads.spawn(move || unsafe { cpp.produce(number, place, None, handler) });
        let info = block_on(stream.opened()).map_err(words)?;
        let arrays: Result<Vec<Array>, _> = Blocking::new(stream.arrays()).collect();
        producing.join().unwrap()?;
        Ok::<_, String>((info, arrays.map_err(words)?))
    })?;
    let mut out = ArrowDeviceArrayStream::empty();
    let arrays = arrays.into_iter().map(Ok);
    ArrayStream::new(info.schema.clone(), info.device_type, arrays).export_settled(&mut out);
    unsafe { cpp.compare_stream(number, place, out) }
}

/// The streams with columns, and how they are read.
fn each(cpp: &ArrowCpp, direction: &str, test: &str, check: impl Fn(usize, Place, u64) -> Verdict) {
    let before = cpp.allocated();
    for (place, name) in [(Place::Host, "host"), (Place::Settled, "software device, settled")] {
        let mut good = 0;
        cpp.on_sim(1, |sim, _| {
            for number in streams(cpp) {
                // What has no buffer is on the host for it.
                let is_lost = cpp
                    .export(cpp.first_case(number), Place::Settled)
                    .is_ok_and(|structs| structs.array.device_type == 1);
                if place == Place::Settled && is_lost {
                    continue;
                }
                for window in [1, 4] {
                    check(number, place, window)?;
                    sim.mistakes().map_or(Ok(()), Err)?;
                    good += 1;
                }
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(cpp.allocated(), before, "Arrow C++ still holds memory");
        let (peer, types) = (cpp.name(), "batches of every type and holder");
        let cells = [&*peer, direction, name, types, &good.to_string(), "none"];
        table::check(Table::Exchanges, &cells, test);
    }
}

#[test]
fn its_consumer_reads_what_we_produce() {
    bounded(|cpp| {
        let test = "its_consumer_reads_what_we_produce";
        each(cpp, "asynchronous, from us", test, |number, place, window| {
            check_consumer(cpp, number, place, window)
        });
    });
}

#[test]
fn we_read_what_its_producer_gives() {
    bounded(|cpp| {
        let test = "we_read_what_its_producer_gives";
        each(cpp, "asynchronous, to us", test, |number, place, window| {
            check_producer(cpp, number, place, usize::try_from(window).unwrap())
        });
    });
}

fn record() -> Array {
    let numbers = Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3)]).unwrap();
    Batch::from_columns([("n", numbers)]).unwrap().as_array().clone()
}

fn schema() -> Schema {
    record().schema().unwrap()
}

#[test]
fn an_error_of_our_source_reaches_its_consumer_with_code_and_text() {
    bounded(|cpp| {
        let before = cpp.allocated();
        for good in [0, 3] {
            let arrays = (0..=good).map(move |number| match number {
                _ if number == good => Err(Error::new(ErrorKind::OutOfMemory, "the source failed")),
                _ => Ok(record()),
            });
            let (feeder, fed) = feed(arrays, 9);
            feeder.run();
            let reader = cpp.reader(2);
            let on = record().device().device_type;
            let drive = AsyncProducer::new(schema(), on, fed);
            let drive = unsafe { drive.drive(reader.handler().0) }.unwrap();
            thread::scope(|threads| {
                let driving = threads.spawn(|| block_on(drive));
                let (read, said) = reader.read(9);
                let said = said.unwrap_err();
                assert!(read <= good, "{read} batches before the error");
                let expected = format!("code {}: ", libc::ENOMEM);
                assert!(said.contains(&expected) && said.contains("the source failed"), "{said}");
                reader.drop_stream();
                let error = driving.join().unwrap().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::OutOfMemory);
            });
            unsafe { reader.free() };
        }
        assert_eq!(cpp.allocated(), before);
    });
}

#[test]
fn an_error_of_its_generator_reaches_us_with_its_text_and_another_code() {
    const TEST: &str = "an_error_of_its_generator_reaches_us_with_its_text_and_another_code";
    bounded(|cpp| {
        let (before, number) = (cpp.allocated(), streams(cpp).start);
        for good in [0, 3] {
            let (stream, handler) = AsyncStream::new(2);
            let handler = SentHandler(handler.into_raw());
            thread::scope(|threads| {
                let produce =
                    move || unsafe { cpp.produce(number, Place::Host, Some(good), handler) };
                let producing = threads.spawn(produce);
                let mut arrays = Blocking::new(stream.arrays());
                let read: Vec<_> = arrays.by_ref().take(good).map(Result::unwrap).collect();
                assert_eq!(read.len(), good);
                let error = arrays.next().unwrap().unwrap_err();
                assert_eq!(error.errno(), libc::EINVAL, "Arrow C++ says what it is now: {error}");
                assert!(error.message().contains("the generator has failed"), "{error}");
                assert!(arrays.next().is_none());
                let _ = producing.join().unwrap();
            });
        }
        assert_eq!(cpp.allocated(), before);
        let fault = "an error of an asynchronous generator";
        let how = "is reported as EINVAL, an IOError too; its text is kept";
        let here = "passed on as it comes; ours keep their code";
        table::check(Table::Faults, &[&cpp.name(), fault, how, here], TEST);
    });
}

#[test]
fn a_stream_of_its_producer_that_is_dropped_anywhere_leaves_nothing_behind() {
    bounded(|cpp| {
        let (before, number) = (cpp.allocated(), streams(cpp).start);
        for window in [1, 3] {
            for taken in 0..4 {
                let (mut stream, handler) = AsyncStream::new(window);
                let handler = SentHandler(handler.into_raw());
                thread::scope(|threads| {
                    let produce =
                        move || unsafe { cpp.produce(number, Place::Host, None, handler) };
                    let producing = threads.spawn(produce);
                    block_on(stream.opened()).unwrap();
                    let mut arrays = Blocking::new(stream.arrays());
                    let kept: Vec<_> = arrays.by_ref().take(taken).map(Result::unwrap).collect();
                    drop(arrays);
                    let _ = producing.join().unwrap();
                    assert_eq!(kept.len(), taken);
                    kept.iter().for_each(|array| array.validate().unwrap());
                });
                assert_eq!(cpp.allocated(), before);
            }
        }
        // Before it has begun.
        let (stream, handler) = AsyncStream::new(1);
        drop(stream);
        let handler = SentHandler(handler.into_raw());
        let _ = unsafe { cpp.produce(number, Place::Host, None, handler) };
        assert_eq!(cpp.allocated(), before);
    });
}
