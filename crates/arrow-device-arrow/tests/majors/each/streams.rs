//! Streams of record batches, synchronous and asynchronous, to devices and back.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use arrow_device::async_stream::{ArraysExt, AsyncProducer, AsyncStream, Blocking, block_on};
use arrow_device::driver::EventNotices;
use arrow_device::{Array, ArrayStream, Batch, DataType, DeviceType, ErrorKind, Queue, Schema};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::release_until;
use futures_core::Stream;
#[cfg(panic = "unwind")]
use futures_core::stream::FusedStream;

use super::arrow::array::{
    Array as _, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader as _,
};
use super::arrow::schema::{ArrowError, SchemaRef};
use super::batches::{Given, batch, batches, no_columns, schema};
use super::ours::{AsyncArrays, AsyncReader, FromArrow as _, Reader};

type Source = Given<std::vec::IntoIter<Result<RecordBatch, ArrowError>>>;

fn sim() -> Builder {
    Sim::builder().backtraces(false)
}

/// A stream of these batches.
fn given(schema: &SchemaRef, batches: &[RecordBatch]) -> AsyncArrays<Source> {
    let batches: Vec<_> = batches.iter().cloned().map(Ok).collect();
    AsyncArrays::from_arrow((schema.clone(), Given::new(batches))).unwrap()
}

/// The batches that a stream gives, moved to a queue and back on their way.
fn there_and_back(arrays: AsyncArrays<Source>, queue: &Queue, ahead: usize) -> Vec<RecordBatch> {
    let schema = arrays.schema().clone();
    let there = arrays.copy_to(queue).prefetch(ahead);
    let reader = AsyncReader::new(schema, there.to_host().prefetch(ahead)).unwrap();
    Blocking::new(reader).collect::<Result<_, _>>().unwrap()
}

#[test]
fn record_batches_go_to_a_device_and_back_in_an_asynchronous_stream() {
    for kind in Kind::ALL {
        for ahead in [0, 2] {
            let sim = sim().kind(kind).build();
            let queue = sim.device().open_queue().unwrap();
            let back = there_and_back(given(&schema(), &batches()), &queue, ahead);
            assert_eq!(back, batches(), "{kind:?} {ahead}");
            assert!(back.iter().all(|batch| batch.schema() == schema()), "metadata is kept");
            drop((back, queue));
            assert!(sim.finish().is_empty());
        }
    }
}

#[test]
fn record_batches_go_to_a_device_and_back_in_a_synchronous_stream() {
    for kind in Kind::ALL {
        let sim = sim().kind(kind).build();
        let queue = sim.device().open_queue().unwrap();
        let reader = RecordBatchIterator::new(batches().into_iter().map(Ok), schema());
        let there = ArrayStream::from_arrow(reader).unwrap().copy_to(&queue).prefetch(2);
        assert_eq!(there.device_type(), queue.device().id().device_type);
        let back = Reader::new(there.to_host().prefetch(2)).unwrap();
        assert_eq!(back.schema(), schema());
        let back: Vec<_> = back.collect::<Result<_, _>>().unwrap();
        assert_eq!(back, batches(), "{kind:?}");
        drop((back, queue));
        assert!(sim.finish().is_empty());
    }
}

#[test]
fn batches_without_columns_keep_their_rows_on_the_way() {
    let sent = [7, 0, 1000].map(no_columns);
    let sim = sim().build();
    let queue = sim.device().open_queue().unwrap();
    for ahead in [0, 3] {
        let back = there_and_back(given(&sent[0].schema(), &sent), &queue, ahead);
        assert_eq!(back.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [7, 0, 1000]);
    }
    let reader = RecordBatchIterator::new(sent.clone().map(Ok), sent[0].schema());
    let there = ArrayStream::from_arrow(reader).unwrap().copy_to(&queue);
    let rows = Reader::new(there.to_host()).unwrap().map(|batch| batch.unwrap().num_rows());
    assert_eq!(rows.collect::<Vec<_>>(), [7, 0, 1000]);
}

#[test]
fn an_empty_result_keeps_its_schema() {
    let arrays = given(&schema(), &[]);
    let ours = arrays.schema().clone();
    assert_eq!(ours.metadata().get("made by"), Some(&b"a test"[..]));
    let reader = AsyncReader::new(ours, arrays).unwrap();
    assert_eq!(reader.schema(), schema());
    assert_eq!(Blocking::new(reader).count(), 0);

    let nothing = RecordBatchIterator::new(Vec::<Result<_, ArrowError>>::new(), schema());
    let mut reader = Reader::new(ArrayStream::from_arrow(nothing).unwrap()).unwrap();
    assert!(reader.next().is_none());
    assert_eq!(reader.schema(), schema());
}

#[test]
fn nothing_is_asked_for_before_somebody_wants_it() {
    let batches = || (0..9).map(|_| Ok::<_, ArrowError>(batch(3)));
    let given = Given::new(batches());
    let asked = given.asked();
    let arrays = AsyncArrays::from_arrow((schema(), given)).unwrap();
    let ours = arrays.schema().clone();
    let reader = AsyncReader::new(ours, arrays.copy_to(&Queue::host()).prefetch(2)).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let mut reader = Blocking::new(reader);
    assert_eq!(reader.next().unwrap().unwrap(), batch(3));
    let polls = asked.load(Ordering::SeqCst);
    assert!((2..=6).contains(&polls), "{polls} polls for one batch and two ahead");

    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let source = batches().inspect(move |_| _ = counted.fetch_add(1, Ordering::SeqCst));
    let stream = ArrayStream::from_arrow(RecordBatchIterator::new(source, schema())).unwrap();
    let mut reader = Reader::new(stream.to_host()).unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 0);
    reader.next().unwrap().unwrap();
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn data_that_is_not_there_yet_is_awaited_and_nobody_waits() {
    for notices in [EventNotices::None, EventNotices::FromCallbacks, EventNotices::Anywhere] {
        // On this device each wait of the host is an error.
        let sim = sim().may_wait(false).event_notices(notices).build();
        let queue = sim.device().open_queue().unwrap();
        let fields = [arrow_device::Field::new("id", DataType::Int64, true)];
        let ours = Schema::batch(fields).unwrap();
        // In host memory, and ready when the device has done its work.
        let arrays = [3_i64, 4].map(|number| {
            sim.kernel("work").launch(&queue, |_| {}).unwrap();
            let column = Array::from_values(DataType::Int64, [Some(number)]);
            let array = Array::builder(ours.clone()).len(1).buffers([None]);
            array.children([column.unwrap()]).finish_on(&queue)
        });
        let mut reader = AsyncReader::new(ours.clone(), Given::new(arrays)).unwrap();
        let counted = Arc::new(Counted::default());
        let waker = Waker::from(counted.clone());
        let mut context = Context::from_waker(&waker);
        let mut poll = || Pin::new(&mut reader).poll_next(&mut context);
        // The stream of arrays is not ready, then the array is not.
        assert!(poll().is_pending());
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        assert!(poll().is_pending());
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
        sim.run_until_idle();
        assert!(release_until(|| counted.0.load(Ordering::SeqCst) == 2), "{notices:?}: not woken");
        let Poll::Ready(Some(Ok(batch))) = poll() else { panic!("there is no batch") };
        let ids = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(ids.values(), &[3]);

        // The whole way, while another thread runs the device's work.
        let pump = sim.pump();
        let back = there_and_back(given(&schema(), &batches()), &queue, 2);
        assert_eq!(back, batches(), "{notices:?}");
        drop(pump);
    }
}

#[test]
fn a_stream_goes_to_another_library_and_back() {
    let arrays = given(&schema(), &batches());
    let (mut stream, handler) = AsyncStream::new(4);
    let producer = AsyncProducer::new(arrays.schema().clone(), DeviceType::CPU, arrays);
    let drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
    let thread = std::thread::spawn(|| block_on(drive));
    let ours = block_on(stream.opened()).unwrap().schema.clone();
    let reader = AsyncReader::new(ours, stream.arrays()).unwrap();
    assert_eq!(reader.schema(), schema());
    let back: Vec<_> = Blocking::new(reader).collect::<Result<_, _>>().unwrap();
    assert_eq!(back, batches());
    thread.join().unwrap().unwrap();
}

#[test]
fn a_stream_of_batches_is_read_as_one_of_arrays() {
    let ours = Schema::from_arrow(&*schema()).unwrap();
    let sent = batches().into_iter().map(Batch::from_arrow);
    let reader = unsafe { AsyncReader::new_unchecked(ours, Given::new(sent)) }.unwrap();
    let back: Vec<_> = Blocking::new(reader).collect::<Result<_, _>>().unwrap();
    assert_eq!(back, batches());
}

/// Takes so many batches out of a reader, polls it so often besides, and drops it.
fn take_and_drop(
    schema: &Schema,
    arrays: impl ArraysExt,
    taken: usize,
    polls: usize,
) -> Vec<RecordBatch> {
    let mut reader = Blocking::new(AsyncReader::new(schema.clone(), arrays).unwrap());
    let received = reader.by_ref().take(taken).map(Result::unwrap).collect();
    let mut reader = reader.into_inner().unwrap();
    for _ in 0..polls {
        let _ = Pin::new(&mut reader).poll_next(&mut Context::from_waker(Waker::noop()));
    }
    received
}

#[test]
fn a_stream_that_is_dropped_releases_all_that_was_on_its_way() {
    for (taken, polls) in (0..16).map(|case| (case / 4, case % 4)) {
        for ahead in [None, Some(0), Some(2)] {
            let sim = sim().event_notices(EventNotices::Anywhere).build();
            let queue = sim.device().open_queue().unwrap();
            let sent = batches();
            let watched = sent.iter().map(|batch| batch.column(0).to_data());
            let watched: Vec<_> = watched.map(|data| data.buffers()[0].clone()).collect();
            let shares = || watched.iter().map(|one| one.strong_count()).collect::<Vec<_>>();
            let arrays = given(&schema(), &sent);
            drop(sent);
            let ours = arrays.schema().clone();
            let received = match ahead {
                None => take_and_drop(&ours, arrays, taken, polls),
                Some(ahead) => {
                    let there = arrays.copy_to(&queue).prefetch(ahead);
                    take_and_drop(&ours, there.to_host().prefetch(ahead), taken, polls)
                }
            };
            assert_eq!(received, batches()[..taken], "what was taken out stays good");
            drop(received);
            // Slices of one batch watch the same memory.
            let alone = watched.iter().map(|one| {
                watched.iter().filter(|other| other.data_ptr() == one.data_ptr()).count()
            });
            let alone: Vec<_> = alone.collect();
            let device = queue.device().clone();
            drop(queue);
            let is_released = release_until(|| {
                sim.run_until_idle();
                shares() == alone && device.held().allocated == 0
            });
            let case = (taken, polls, ahead);
            assert!(is_released, "{case:?}: {:?}, {:?}", shares(), device.held());
            drop(device);
            assert!(sim.finish().is_empty());
        }
    }
}

#[test]
fn a_reader_can_be_sent_to_a_task_that_stays_where_it_is() {
    const fn can_be_sent<T: Send + Unpin + 'static>(_: &T) {}
    let arrays = given(&schema(), &[]);
    can_be_sent(&arrays);
    let ours = arrays.schema().clone();
    can_be_sent(&AsyncReader::new(ours, arrays.to_host().prefetch(1)).unwrap());
}

#[test]
fn a_schema_that_is_none_of_batches_is_refused_at_once() {
    let numbers = Schema::try_from(DataType::Int8).unwrap();
    let error = AsyncReader::new(numbers, given(&schema(), &[])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
}

// Requirement: SAF-37
#[test]
fn readers_of_readers_are_an_error_before_the_stack_ends() {
    type Boxed = Pin<Box<dyn Stream<Item = arrow_device::Result<Array>>>>;

    let nested = |count: usize| {
        let innermost: Boxed = Box::pin(given(&schema(), &batches()));
        let ours = Schema::from_arrow(&*schema()).unwrap();
        (0..count).fold(innermost, |arrays, _| {
            let reader = AsyncReader::new(ours.clone(), arrays).unwrap();
            Box::pin(AsyncArrays::from_arrow((reader.schema(), reader)).unwrap())
        })
    };
    assert_eq!(Blocking::new(nested(128)).filter(Result::is_ok).count(), batches().len());
    let mut deeper = Blocking::new(nested(129));
    let error = deeper.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(deeper.next().is_none());
}

/// Gives one item, panics, and gives items again.
#[cfg(panic = "unwind")]
struct PanicsOnce<F> {
    polls: usize,
    item: F,
}

#[cfg(panic = "unwind")]
impl<T, F: FnMut() -> T + Unpin> Stream for PanicsOnce<F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        self.polls += 1;
        if self.polls == 2 {
            std::panic::resume_unwind(Box::new("planted"));
        }
        Poll::Ready(Some((self.item)()))
    }
}

// Requirement: SAF-30
#[test]
#[cfg(panic = "unwind")]
fn a_stream_whose_source_panicked_is_at_its_end() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn ends<T, E: std::fmt::Debug>(mut stream: impl FusedStream<Item = Result<T, E>> + Unpin) {
        let context = &mut Context::from_waker(Waker::noop());
        let mut poll =
            || catch_unwind(AssertUnwindSafe(|| Pin::new(&mut stream).poll_next(context)));
        assert!(matches!(poll(), Ok(Poll::Ready(Some(Ok(_))))));
        assert!(poll().is_err());
        assert!(matches!(poll(), Ok(Poll::Ready(None))));
        assert!(stream.is_terminated());
    }
    let item = || Ok::<_, ArrowError>(batches().remove(0));
    let arrays = AsyncArrays::from_arrow((schema(), PanicsOnce { polls: 0, item })).unwrap();
    let ours = arrays.schema().clone();
    ends(arrays);
    let item = move || Batch::from_arrow(batches().remove(0));
    ends::<_, ArrowError>(AsyncReader::new(ours, PanicsOnce { polls: 0, item }).unwrap());
}
