//! Producers of asynchronous streams whose executor polls where it is woken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use arrow_device::async_stream::{
    AsyncProducer, AsyncStream, Drive, Failure, Outgoing, Task, block_on,
};
use arrow_device::{DataType, DeviceType, Result, Schema};
use arrow_device_testkit::pushed::{Outcome, Sink, Source};
use futures_core::Stream;

use super::async_producer::{Scripted, assert_nothing_left, good, poll, produce};

/// A waker that polls the future that it is for, right where it is woken; if `home` names a thread,
/// there only. One wake comes at a time: what comes during a poll has the future polled once more.
struct Inline {
    drive: Mutex<Option<Drive<Scripted>>>,
    home: Option<ThreadId>,
    wakes: AtomicUsize,
    elsewhere: AtomicUsize,
    waiting: AtomicUsize,
}

impl Inline {
    fn new(drive: Drive<Scripted>, home: Option<ThreadId>) -> Arc<Self> {
        let zero = || AtomicUsize::new(0);
        let drive = Mutex::new(Some(drive));
        Arc::new(Self { drive, home, wakes: zero(), elsewhere: zero(), waiting: zero() })
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut drive = self.drive.lock().unwrap();
        if let Some(future) = &mut *drive
            && Pin::new(future).poll(&mut Context::from_waker(&waker)).is_ready()
        {
            *drive = None;
        }
    }

    /// Waits until a thread that is not at home has woken this so many times.
    fn wait_for_others(&self, wakes: usize) {
        wait_until("another thread wakes the stream", || {
            self.elsewhere.load(Ordering::SeqCst) == wakes
        });
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        if self.home.is_some_and(|home| home != std::thread::current().id()) {
            self.elsewhere.fetch_add(1, Ordering::SeqCst);
            return;
        }
        self.wakes.fetch_add(1, Ordering::SeqCst);
        if self.waiting.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        loop {
            let seen = self.waiting.load(Ordering::SeqCst);
            self.poll();
            if self.waiting.fetch_sub(seen, Ordering::SeqCst) == seen {
                return;
            }
        }
    }
}

/// Longer than anything here takes; a test that hangs fails.
const PATIENCE: Duration = Duration::from_secs(if cfg!(miri) { 300 } else { 20 });

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

// Requirement: ASY-5, ASY-18, SAF-23
#[test]
fn a_request_or_a_cancel_makes_no_callback_even_where_wakers_poll() {
    let alive = Arc::default();
    let sink = Sink::new(0, None);
    let drive = produce(good(&alive, 2), sink.handler()).unwrap();
    let inline = Inline::new(drive, Some(std::thread::current().id()));
    inline.clone().wake();
    sink.request(1);
    assert_eq!((inline.wakes.load(Ordering::SeqCst), sink.arrived()), (2, 0), "woken, and no more");
    inline.wait_for_others(1);
    inline.clone().wake();
    assert_eq!(sink.arrived(), 1);
    sink.cancel();
    assert_eq!(sink.outcome(), Outcome::Open);
    inline.wait_for_others(2);
    inline.clone().wake();
    assert_eq!(sink.outcome(), Outcome::Released);
    sink.discard();
    sink.settle().unwrap();
    *inline.drive.lock().unwrap() = None;
    assert_nothing_left(&alive, "inline");
}

// Requirement: ASY-4, ASY-5, ASY-13, SAF-26
#[test]
fn every_array_comes_where_wakers_poll() {
    let count = if cfg!(miri) { 4 } else { 20 };
    for window in [1, 4] {
        let alive = Arc::default();
        let sink = Sink::new(window, None);
        let inline = Inline::new(produce(good(&alive, count), sink.handler()).unwrap(), None);
        inline.clone().wake();
        wait_until("the stream ends", || {
            sink.take();
            sink.outcome() != Outcome::Open
        });
        while sink.take().is_some() {}
        assert_eq!((sink.outcome(), sink.arrived()), (Outcome::Ended, count as i64));
        sink.settle().unwrap();
        wait_until("the stream is dropped", || inline.drive.lock().unwrap().is_none());
        assert_nothing_left(&alive, "polled where it is woken");
    }
}

// Requirement: ASY-7, ASY-13, SAF-26
#[test]
fn a_cancel_is_followed_by_the_release_where_wakers_poll() {
    let alive = Arc::default();
    let sink = Sink::new(1, None);
    let inline = Inline::new(produce(good(&alive, 3), sink.handler()).unwrap(), None);
    inline.clone().wake();
    sink.cancel();
    wait_until("the release comes", || sink.outcome() == Outcome::Released);
    sink.discard();
    sink.settle().unwrap();
    wait_until("the stream is dropped", || inline.drive.lock().unwrap().is_none());
    assert_nothing_left(&alive, "cancelled where it is woken");
}

// Requirement: ASY-5
#[test]
fn a_request_makes_no_callback_even_where_it_wakes_somebody_who_asks_another_stream() {
    struct Asks(Sink, Arc<Inline>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            self.0.request(1);
        }
    }

    let alive = Arc::default();
    let home = Some(std::thread::current().id());
    let (outer, inner) = (Sink::new(0, None), Sink::new(0, None));
    let first = Inline::new(produce(good(&alive, 1), outer.handler()).unwrap(), home);
    let mut second = produce(good(&alive, 1), inner.handler()).unwrap();
    first.poll();
    // Whoever wakes the second stream polls the first, in the middle of a request to both.
    let waker = Waker::from(first.clone());
    assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&waker)).is_pending());
    // Whoever wakes the first stream asks the second one.
    let asks = Arc::new(Asks(inner, first.clone()));
    {
        let mut drive = first.drive.lock().unwrap();
        let waker = Waker::from(asks.clone());
        let polled = Pin::new(drive.as_mut().unwrap()).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    outer.request(1);
    assert_eq!(outer.arrived(), 0, "`request` called back");
    outer.complaints().unwrap();
    first.wait_for_others(1);
    drop(second);
    *asks.1.drive.lock().unwrap() = None;
    for sink in [&outer, &asks.0] {
        sink.discard();
        sink.settle().unwrap();
    }
    assert_nothing_left(&alive, "one stream inside another's request");
}

/// A waker that panics, with something that panics in its turn when it is dropped.
#[cfg(panic = "unwind")]
struct PanicsTwice;

#[cfg(panic = "unwind")]
impl Wake for PanicsTwice {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new(Stubborn));
    }
}

#[cfg(panic = "unwind")]
struct Stubborn;

#[cfg(panic = "unwind")]
impl Drop for Stubborn {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new(()));
    }
}

// Requirement: ASY-4, SAF-30, SAF-31
#[test]
#[cfg(all(panic = "unwind", not(miri)))]
fn a_task_is_taken_once_whatever_a_waker_does() {
    let (mut stream, handler) = AsyncStream::new(1);
    let source = Source::new(handler.into_raw(), 2, None);
    for _ in 0..3 {
        let waker = Waker::from(Arc::new(PanicsTwice));
        let polled = Pin::new(&mut stream).poll_next(&mut Context::from_waker(&waker));
        if let Poll::Ready(task) = polled {
            assert!(task.is_none_or(|task| task.and_then(Task::extract).is_ok()));
        }
        source.run();
        assert_eq!(source.refusal(), None, "a task that the consumer has was refused");
    }
    drop(stream);
    source.settle().unwrap();
}

// Requirement: ASY-9, SAF-30
#[test]
#[cfg(panic = "unwind")]
fn a_consumer_is_released_where_the_drop_of_a_waker_panics() {
    struct PanicsInDrop;
    impl Wake for PanicsInDrop {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }

    let alive = Arc::default();
    let sink = Sink::new(0, None);
    let mut drive = produce(good(&alive, 1), sink.handler()).unwrap();
    let waker = Waker::from(Arc::new(PanicsInDrop));
    assert!(Pin::new(&mut drive).poll(&mut Context::from_waker(&waker)).is_pending());
    // The last share is the stream's.
    drop(waker);
    drop(drive);
    sink.settle().unwrap();
    assert_nothing_left(&alive, "dropped with its waker");
}

/// A task that nobody but its own waker keeps, as in an executor that has ended.
struct KeptByItsWaker(Mutex<Option<Drive<Scripted>>>);

impl Wake for KeptByItsWaker {
    fn wake(self: Arc<Self>) {
        let drive = self.0.lock().unwrap().take();
        drop(drive);
    }
}

// Requirement: ASY-5, ASY-9
#[test]
fn a_producer_that_is_dropped_inside_a_request_or_a_cancel_calls_nobody_from_there() {
    let wishes: [fn(&Sink); 2] = [|sink| sink.request(1), Sink::cancel];
    for wish in wishes {
        let alive = Arc::default();
        let sink = Sink::new(0, None);
        let mut drive = produce(good(&alive, 2), sink.handler()).unwrap();
        let task = Arc::new(KeptByItsWaker(Mutex::new(None)));
        let waker = Waker::from(task.clone());
        assert!(Pin::new(&mut drive).poll(&mut Context::from_waker(&waker)).is_pending());
        *task.0.lock().unwrap() = Some(drive);
        wish(&sink);
        wait_until("the release comes", || sink.outcome() != Outcome::Open);
        sink.settle().unwrap();
        assert_nothing_left(&alive, "dropped by its own waker");
    }
}

/// A source that ends once it is told to.
struct EndsWhenTold(Arc<AtomicBool>);

impl Stream for EndsWhenTold {
    type Item = Result<Outgoing, Failure>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.0.load(Ordering::SeqCst) { Poll::Ready(None) } else { Poll::Pending }
    }
}

/// Two producers, and an executor that polls the one in the waker of the other.
struct Crossed {
    drives: [Mutex<Option<Drive<EndsWhenTold>>>; 2],
    both_are_woken: Barrier,
}

struct WakesTheOther(Arc<Crossed>, usize, AtomicBool);

impl Wake for WakesTheOther {
    fn wake(self: Arc<Self>) {
        if self.2.swap(true, Ordering::SeqCst) {
            return;
        }
        self.0.both_are_woken.wait();
        let drive = self.0.drives[1 - self.1].lock().unwrap().take();
        if let Some(mut drive) = drive {
            let _ = Pin::new(&mut drive).poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

// Requirement: ASY-5, SAF-26
#[test]
fn two_threads_that_ask_each_others_streams_do_not_wait_for_each_other() {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let told = Arc::new(AtomicBool::new(false));
        let pairs = [0; 2].map(|_| {
            let (stream, handler) = AsyncStream::new(1);
            let schema = Schema::new(DataType::Int64).unwrap();
            let source = EndsWhenTold(told.clone());
            let producer = AsyncProducer::new(schema, DeviceType::CPU, source);
            (stream, unsafe { producer.drive(handler.into_raw()) }.unwrap())
        });
        let [(first, drive), (second, other_drive)] = pairs;
        let crossed = Arc::new(Crossed {
            drives: [drive, other_drive].map(|drive| Mutex::new(Some(drive))),
            both_are_woken: Barrier::new(2),
        });
        for (number, drive) in crossed.drives.iter().enumerate() {
            let waker = WakesTheOther(crossed.clone(), number, AtomicBool::new(false));
            let waker = Waker::from(Arc::new(waker));
            let mut drive = drive.lock().unwrap();
            let polled = Pin::new(drive.as_mut().unwrap()).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        told.store(true, Ordering::SeqCst);
        std::thread::scope(|threads| {
            for mut stream in [first, second] {
                threads.spawn(move || {
                    let mut context = Context::from_waker(Waker::noop());
                    let _ = Pin::new(&mut stream).poll_next(&mut context);
                });
            }
        });
        sender.send(()).unwrap();
    });
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(()), "they wait for each other");
}

/// A waker that drives another stream to its end, and keeps what the panic of this said.
struct BlocksOnAnother {
    drive: Mutex<Option<Drive<Scripted>>>,
    said: Mutex<Option<String>>,
}

impl Wake for BlocksOnAnother {
    fn wake(self: Arc<Self>) {
        let Some(drive) = self.drive.lock().unwrap().take() else { return };
        let panicked = catch_unwind(AssertUnwindSafe(|| block_on(drive))).unwrap_err();
        *self.said.lock().unwrap() = panicked.downcast_ref::<&str>().map(|&said| said.to_owned());
    }
}

// Requirement: SAF-24
#[test]
#[cfg(panic = "unwind")]
fn a_waker_that_waits_for_another_stream_panics() {
    let alive = Arc::default();
    let sinks = [(); 2].map(|()| Sink::new(0, None));
    let [mut drive, other] =
        [0, 1].map(|number| produce(good(&alive, 2), sinks[number].handler()).unwrap());
    let task = Arc::new(BlocksOnAnother { drive: Mutex::new(Some(other)), said: Mutex::default() });
    let waker = Waker::from(task.clone());
    assert!(Pin::new(&mut drive).poll(&mut Context::from_waker(&waker)).is_pending());
    sinks[0].request(1);
    let said = task.said.lock().unwrap().take().expect("woken");
    assert!(said.contains("cannot go on before the waker has returned"), "{said}");
    // The stream that was waited for was dropped by the panic, and its consumer is told.
    wait_until("the release comes", || sinks[1].outcome() != Outcome::Open);
    assert!(matches!(poll(&mut drive), Poll::Pending));
    assert_eq!(sinks[0].arrived(), 1);
    drop((drive, waker, task));
    for sink in &sinks {
        sink.settle().unwrap();
        sink.discard();
    }
    assert_nothing_left(&alive, "waited for in a waker");
}
