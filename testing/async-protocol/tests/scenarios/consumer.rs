//! The consumer's side.
//!
//! A producer is a few flags: whether it was freed, whether somebody is in it, what it was asked
//! for. Each of its methods says so if it is called where it may not be. A task is a count of how
//! often it was extracted.

use std::task::{Poll, Wake, Waker};

use super::Bell;
use crate::locks::{Arc, AtomicU64, Ordering::SeqCst};
use crate::protocol::Rules;
use crate::protocol::consumer::{CallFault, Consumer, Inbox, ProducerCalls, Refusal, Verdict};
use crate::threads::{spawn, yield_now};

/// The threads of a scenario, by the number that the protocol knows them by.
const PRODUCER: u64 = 1;
const READER: u64 = 2;

/// What a producer can see of how it is treated.
#[derive(Default)]
struct Seen {
    freed: AtomicU64,
    inside: AtomicU64,
    credits: AtomicU64,
    cancels: AtomicU64,
    reporting: AtomicU64,
    /// Calls from inside a report. Counted, since a panic in a waker would be caught.
    calls_while_reporting: AtomicU64,
    extracted: AtomicU64,
}

impl Seen {
    fn enter(&self) {
        assert_eq!(self.freed.load(SeqCst), 0, "called after its release");
        self.calls_while_reporting.fetch_add(self.reporting.load(SeqCst), SeqCst);
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "two threads are in the producer");
    }

    fn leave(&self) {
        assert_eq!(self.freed.load(SeqCst), 0, "freed while a thread is in it");
        self.inside.fetch_sub(1, SeqCst);
    }
}

/// What `request` and `cancel` do besides being counted.
type Answer<R> = fn(&Stream<R>);

/// One stream: the protocol, and the producer that it talks to. Producers are `Copy`, so this is a
/// leaked reference.
struct Stream<R: Rules> {
    consumer: Consumer<R, Peer<R>, Task<R>, Complaint>,
    seen: Seen,
    on_request: Answer<R>,
    on_cancel: Answer<R>,
}

struct Peer<R: Rules>(*const Stream<R>);

impl<R: Rules> Clone for Peer<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Rules> Copy for Peer<R> {}

// SAFETY: the stream is kept by the scenario until all its threads are done.
unsafe impl<R: Rules> Send for Peer<R> {}

impl<R: Rules> Peer<R> {
    fn stream(&self) -> &Stream<R> {
        // SAFETY: the scenario keeps the stream until all its threads are done.
        unsafe { &*self.0 }
    }
}

impl<R: Rules> ProducerCalls for Peer<R> {
    fn request(&self, count: i64) {
        let stream = self.stream();
        stream.seen.enter();
        stream.seen.credits.fetch_add(count.unsigned_abs(), SeqCst);
        (stream.on_request)(stream);
        stream.seen.leave();
    }

    fn cancel(&self) {
        let stream = self.stream();
        stream.seen.enter();
        stream.seen.cancels.fetch_add(1, SeqCst);
        (stream.on_cancel)(stream);
        stream.seen.leave();
    }
}

/// Extracted when dropped, as in the library.
struct Task<R: Rules>(Peer<R>);

impl<R: Rules> Task<R> {
    fn leave(self) {
        std::mem::forget(self);
    }
}

impl<R: Rules> Drop for Task<R> {
    fn drop(&mut self) {
        self.0.stream().seen.extracted.fetch_add(1, SeqCst);
    }
}

/// An error: a fault, or nothing for the producer's own.
#[derive(Debug, PartialEq)]
struct Complaint(Option<CallFault>);

impl From<CallFault> for Complaint {
    fn from(fault: CallFault) -> Self {
        Self(Some(fault))
    }
}

impl<R: Rules> Stream<R> {
    fn new(window: u64) -> Arc<Self> {
        Self::with_answers(window, |_| {}, |_| {})
    }

    fn with_answers(window: u64, on_request: Answer<R>, on_cancel: Answer<R>) -> Arc<Self> {
        let seen = Seen::default();
        Arc::new(Self { consumer: Consumer::new(window), seen, on_request, on_cancel })
    }

    fn peer(&self) -> Peer<R> {
        Peer(std::ptr::from_ref(self))
    }

    // ---- the producer's callbacks, as the C layer makes them

    fn schema(&self, me: u64) -> Result<(), Refusal> {
        let outcome = self.consumer.opened(self.peer());
        self.consumer.pump(me);
        outcome
    }

    /// Sends a task, and says whether the consumer took it.
    fn task(&self) -> Result<(), Refusal> {
        match self.consumer.arrived(Task(self.peer())) {
            Verdict::Kept => Ok(()),
            Verdict::Discard(task) => {
                drop(task);
                Ok(())
            }
            Verdict::Refuse(task, refusal) => {
                task.leave();
                Err(refusal)
            }
        }
    }

    /// Releases the handler, and frees the producer.
    fn release(&self, me: u64) {
        self.consumer.released(me);
        self.seen.freed.store(1, SeqCst);
    }

    // ---- the consumer's user

    fn poll(&self, waker: &Waker, me: u64) -> Poll<Option<Result<Task<R>, Complaint>>> {
        let mut inbox = Inbox::default();
        let polled = self.consumer.poll(&mut inbox, waker);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            self.consumer.give_back(&mut inbox, me);
        }
        polled
    }

    fn drop_stream(&self, me: u64) {
        let tasks = self.consumer.cancel();
        self.consumer.pump(me);
        drop(tasks);
    }

    fn assert_extracted(&self, tasks: u64) {
        assert_eq!(self.seen.extracted.load(SeqCst), tasks, "each task is extracted once");
    }
}

/// 1. The producer releases while a thread of ours asks for more.
pub(crate) fn release_races_a_request<R: Rules>() {
    let stream = Stream::<R>::with_answers(1, |_| yield_now(), |_| {});
    stream.schema(PRODUCER).unwrap();
    stream.task().unwrap();
    let reader = spawn({
        let stream = stream.clone();
        move || {
            let (_, waker) = Bell::new();
            assert!(stream.poll(&waker, READER).is_ready());
        }
    });
    stream.release(PRODUCER);
    reader.join().unwrap();
    stream.assert_extracted(1);
}

/// 2. `cancel` raises an error and then releases, on the very thread that called it.
pub(crate) fn cancel_raises_an_error_on_the_same_thread<R: Rules>() {
    // Against the rules, but it happens: nothing may wait for itself.
    let answer: Answer<R> = |stream| {
        stream.consumer.failed(Complaint(None));
        stream.consumer.released(READER);
    };
    let stream = Stream::<R>::with_answers(1, |_| {}, answer);
    stream.schema(PRODUCER).unwrap();
    let sender = spawn({
        let stream = stream.clone();
        move || {
            let _ = stream.task();
        }
    });
    stream.drop_stream(READER);
    sender.join().unwrap();
    assert_eq!(stream.seen.cancels.load(SeqCst), 1);
}

/// 3. One thread takes a task while another drops the stream, and each has something to tell the
///    producer.
pub(crate) fn two_threads_want_something_at_once<R: Rules>() {
    let stream = Stream::<R>::with_answers(1, |_| yield_now(), |_| yield_now());
    stream.schema(PRODUCER).unwrap();
    stream.task().unwrap();
    let (_, waker) = Bell::new();
    let mut inbox = Inbox::default();
    let Poll::Ready(Some(Ok(task))) = stream.consumer.poll(&mut inbox, &waker) else {
        panic!("the task is there");
    };
    let pumping = spawn({
        let stream = stream.clone();
        move || stream.consumer.give_back(&mut inbox, PRODUCER)
    });
    stream.drop_stream(READER);
    pumping.join().unwrap();
    drop(task);
    assert_eq!(stream.seen.cancels.load(SeqCst), 1, "the producer is told to stop, once");
    stream.release(PRODUCER);
}

/// 4. The stream is dropped while the producer shows its schema.
pub(crate) fn dropped_before_the_schema_comes<R: Rules>() {
    let stream = Stream::<R>::new(1);
    let dropping = spawn({
        let stream = stream.clone();
        move || stream.drop_stream(READER)
    });
    let answer = stream.schema(PRODUCER);
    let came_first = stream.seen.credits.load(SeqCst) > 0;
    dropping.join().unwrap();
    let cancels = stream.seen.cancels.load(SeqCst);
    match answer {
        Err(refusal) => assert_eq!((refusal, cancels, came_first), (Refusal::Cancelled, 0, false)),
        // The wish came after the schema was taken, so the producer was told in person.
        Ok(()) => assert_eq!(cancels, 1),
    }
    stream.release(PRODUCER);

    // Where the drop is over before the schema comes, nothing is called at all.
    let stream = Stream::<R>::new(1);
    stream.drop_stream(READER);
    assert_eq!(stream.schema(PRODUCER), Err(Refusal::Cancelled));
    assert_eq!(stream.seen.cancels.load(SeqCst), 0);
    stream.release(PRODUCER);
}

/// 5. The stream is dropped while tasks arrive.
pub(crate) fn dropped_while_tasks_arrive<R: Rules>() {
    let stream = Stream::<R>::new(2);
    stream.schema(PRODUCER).unwrap();
    let sender = spawn({
        let stream = stream.clone();
        move || {
            for _ in 0..2 {
                stream.task().expect("a task that was asked for is taken, also after cancel");
            }
            stream.release(PRODUCER);
        }
    });
    stream.drop_stream(READER);
    sender.join().unwrap();
    stream.assert_extracted(2);
}

/// 6. A task arrives while the stream is polled.
pub(crate) fn a_task_arrives_while_polled<R: Rules>() {
    let stream = Stream::<R>::new(1);
    stream.schema(PRODUCER).unwrap();
    let (bell, waker) = Bell::new();
    let sender = spawn({
        let stream = stream.clone();
        move || stream.task().unwrap()
    });
    let polled = stream.poll(&waker, READER);
    let has_task = polled.is_ready();
    drop(polled);
    sender.join().unwrap();
    assert!(has_task || bell.rang(), "the task is there, and nobody is told");
    stream.drop_stream(READER);
    stream.release(PRODUCER);
    stream.assert_extracted(1);
}

/// 7. The producer sends from another thread what a request is asking for.
pub(crate) fn tasks_come_before_the_request_returns<R: Rules>() {
    let stream = Stream::<R>::with_answers(1, |_| yield_now(), |_| {});
    let sender = spawn({
        let stream = stream.clone();
        move || {
            for _ in 0..3 {
                if stream.seen.credits.load(SeqCst) > 0 {
                    let answer = stream.task();
                    return assert_eq!(answer, Ok(()), "a task that was asked for is refused");
                }
                yield_now();
            }
        }
    });
    stream.schema(READER).unwrap();
    sender.join().unwrap();
    stream.drop_stream(READER);
    stream.release(PRODUCER);
}

/// Polls as soon as it is woken, on the thread that wakes it, and drops the stream.
struct Eager<R: Rules>(Peer<R>);

// SAFETY: the stream is kept by the scenario until all its threads are done.
unsafe impl<R: Rules> Sync for Eager<R> {}

impl<R: Rules> Wake for Eager<R> {
    fn wake(self: std::sync::Arc<Self>) {
        let (_, waker) = Bell::new();
        drop(self.0.stream().poll(&waker, PRODUCER));
        self.0.stream().drop_stream(PRODUCER);
    }
}

/// 8. An error is reported, and whoever it wakes polls at once and drops the stream, from inside
///    the report.
pub(crate) fn an_error_wakes_somebody_who_polls_at_once<R: Rules>() {
    let stream = Stream::<R>::new(1);
    stream.schema(PRODUCER).unwrap();
    let reader = spawn({
        let stream = stream.clone();
        let eager = Waker::from(std::sync::Arc::new(Eager(stream.peer())));
        move || drop(stream.poll(&eager, READER))
    });
    stream.seen.reporting.store(1, SeqCst);
    stream.consumer.failed(Complaint(None));
    stream.seen.reporting.store(0, SeqCst);
    reader.join().unwrap();
    assert_eq!(stream.seen.calls_while_reporting.load(SeqCst), 0, "called from inside `on_error`");
    stream.release(PRODUCER);
}

/// 9. A task in the user's hands is extracted, and fails, on a thread of its own, while the stream
///    is dropped and released.
pub(crate) fn a_task_is_extracted_after_the_stream_is_dropped<R: Rules>() {
    let stream = Stream::<R>::with_answers(1, |_| {}, |_| yield_now());
    stream.schema(PRODUCER).unwrap();
    stream.task().unwrap();
    let (_, waker) = Bell::new();
    let Poll::Ready(Some(Ok(task))) = stream.poll(&waker, READER) else {
        panic!("the task is there");
    };
    let dropping = spawn({
        let stream = stream.clone();
        move || stream.drop_stream(READER)
    });
    let extracting = spawn({
        let stream = stream.clone();
        move || {
            drop(task);
            stream.consumer.task_failed(Complaint(None));
        }
    });
    stream.release(PRODUCER);
    dropping.join().unwrap();
    extracting.join().unwrap();
    stream.assert_extracted(1);
}

/// An error comes after `cancel`, from another thread, and then the release.
pub(crate) fn an_error_comes_after_cancel<R: Rules>() {
    let stream = Stream::<R>::with_answers(1, |_| {}, |_| yield_now());
    stream.schema(PRODUCER).unwrap();
    let dropping = spawn({
        let stream = stream.clone();
        move || stream.drop_stream(READER)
    });
    if stream.seen.cancels.load(SeqCst) == 0 {
        stream.task().unwrap();
    }
    stream.consumer.failed(Complaint(None));
    stream.release(PRODUCER);
    dropping.join().unwrap();
    assert!(stream.seen.cancels.load(SeqCst) <= 1);
    assert_eq!(stream.task(), Err(Refusal::Late), "nothing is taken after the release");
}
