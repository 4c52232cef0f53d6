//! The end of the process while futures are pending, and while the library's thread waits for what
//! they await.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use arrow_device::async_stream::block_on;
use arrow_device::copy::AwaitedCopy;
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, AwaitedEvent, Error, ErrorKind, Event, Queue};
use arrow_device_testkit::manual::{Manual, ManualCopies};
use arrow_device_testkit::process::{Child, is_child};

use crate::exit::on;
use crate::trap::Trap;

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Pending when the end begins.
struct Pending {
    trap: Trap,
    manual: Manual,
    queue: Queue,
    event: Event,
    awaited: AwaitedEvent,
    /// Of an array on the device into host memory, to which the queue will write.
    copy: AwaitedCopy,
    used: Array,
    used_owner: Arc<()>,
    wakes: Arc<Wakes>,
}

impl Pending {
    /// Two futures that were polled, and a thread that waits for an event by `block_on`.
    fn new() -> Self {
        let (trap, manual, device) = Trap::open();
        manual.set_slow(true);
        manual.set_copies(ManualCopies::Submitted);
        let queue = device.open_queue().unwrap();
        let used_owner = Arc::new(());
        let used = on(&device, &used_owner);
        let wakes = Arc::new(Wakes::default());
        let mut copy = used.to_host_async();
        assert!(poll(&mut copy, &wakes).is_pending());
        manual.submit(&queue);
        let event = queue.record().unwrap();
        let mut awaited = event.clone().into_future();
        assert!(poll(&mut awaited, &wakes).is_pending());
        let on_thread = event.clone();
        std::thread::spawn(move || block_on(on_thread));
        Self { trap, manual, queue, event, awaited, copy, used, used_owner, wakes }
    }

    /// Until the library's thread has asked about both queues more than once.
    fn until_asked(&self) {
        let before = self.trap.calls();
        while self.trap.calls() < before + 8 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    let waker = Waker::from(wakes.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn is_shut_down<T>(result: Poll<Result<T, Error>>) -> bool {
    matches!(result, Poll::Ready(Err(error)) if error.kind() == ErrorKind::ShutDown)
}

static LAST: Mutex<Option<Pending>> = Mutex::new(None);

fn check(pending: Pending) -> Result<(), String> {
    let expect = |is_so: bool, what: &str| if is_so { Ok(()) } else { Err(what.to_owned()) };
    let Pending { trap, manual, queue, event, mut awaited, mut copy, used, used_owner, wakes } =
        pending;
    let calls = trap.calls();
    let is_quiet = || trap.calls() == calls && wakes.0.load(Ordering::SeqCst) == 0;
    // What is awaited passes.
    manual.complete(&queue);
    std::thread::sleep(Duration::from_millis(30));
    expect(is_quiet(), "a driver was asked, or somebody was woken")?;
    expect(is_shut_down(poll(&mut awaited, &wakes)), "an event is awaited after the end")?;
    expect(is_shut_down(Poll::Ready(block_on(event))), "an event is waited for after the end")?;
    let before = held_back();
    expect(is_shut_down(poll(&mut copy, &wakes)), "a copy goes on after the end")?;
    drop((copy, awaited, used));
    release_finished();
    let after = held_back();
    let kept = |now: arrow_device::deferred::HeldBack| now.in_use + now.abandoned;
    expect(kept(after) > kept(before), "what a queue writes to was freed")?;
    expect(Arc::strong_count(&used_owner) == 2, "an array that a queue reads was freed")?;
    drop(queue);
    expect(is_quiet(), "a driver was asked, or somebody was woken, by a drop")
}

/// Runs after the library's own handler, since it was registered before.
extern "C" fn end() {
    let Some(pending) = LAST.lock().unwrap().take() else { return };
    let code = match check(pending) {
        Ok(()) => 7,
        Err(message) => {
            eprintln!("after the end has begun: {message}");
            8
        }
    };
    // SAFETY: ends the process with this code.
    unsafe { libc::_exit(code) }
}

/// In the child, ends the process while the library's thread waits; `prepare` is told the futures.
fn at_the_end(prepare: impl FnOnce(&Pending)) {
    if !is_child() {
        let began = Instant::now();
        let ended = Child::of_this_test().run();
        assert_eq!(ended.status.code(), Some(7), "{ended:?}");
        assert!(began.elapsed() < Duration::from_secs(60), "the end took {:?}", began.elapsed());
        return;
    }
    // SAFETY: the handler may run at any time.
    assert_eq!(unsafe { libc::atexit(end) }, 0);
    let pending = Pending::new();
    prepare(&pending);
    *LAST.lock().unwrap() = Some(pending);
}

// Requirement: SAF-29, SAF-40
#[test]
fn a_process_ends_while_futures_are_pending_and_nobody_is_asked_or_woken_any_more() {
    at_the_end(Pending::until_asked);
}

// Requirement: SAF-29
#[test]
fn a_process_ends_while_the_driver_does_not_answer_the_thread_that_asks() {
    at_the_end(|pending| {
        pending.until_asked();
        let barrier: Arc<Barrier> = pending.manual.hold_next_answer();
        // The thread of the library stands in the driver from here on, for ever.
        barrier.wait();
    });
}
