//! Events, data and copies that are awaited, with devices that announce events and without.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use arrow_device::async_stream::block_on;
use arrow_device::driver::EventNotices;
use arrow_device::{Array, AwaitedEvent, DataType, ErrorKind, Event, Queue, Result};
use arrow_device_sim::{Builder, Kind, Sim};

/// All ways to tell of events.
pub(super) const NOTICES: [EventNotices; 3] =
    [EventNotices::None, EventNotices::FromCallbacks, EventNotices::Anywhere];

pub(super) fn sim(notices: EventNotices) -> Builder {
    Sim::builder().event_notices(notices).backtraces(false)
}

/// An event behind work that has not run.
fn event(sim: &Sim, queue: &Queue) -> Event {
    sim.kernel("work").launch(queue, |_| {}).unwrap();
    queue.record().unwrap()
}

/// A waker that counts, and tells.
struct Counted {
    woken: AtomicUsize,
    tell: Mutex<Option<mpsc::Sender<()>>>,
}

impl Counted {
    fn new() -> (Arc<Self>, mpsc::Receiver<()>) {
        let (tell, told) = mpsc::channel();
        (Arc::new(Self { woken: AtomicUsize::new(0), tell: Mutex::new(Some(tell)) }), told)
    }
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        if let Some(tell) = &*self.tell.lock().unwrap() {
            let _ = tell.send(());
        }
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

const SOON: Duration = Duration::from_secs(20);

// Requirement: SAF-40
#[test]
fn events_arrays_and_copies_are_awaited_on_every_kind_of_device() {
    for notices in NOTICES {
        for kind in Kind::ALL {
            let sim = sim(notices).kind(kind).build();
            let queue = sim.device().open_queue().unwrap();
            let passed = event(&sim, &queue);
            assert!(!passed.is_complete().unwrap());
            block_on(&passed).unwrap();
            assert!(passed.is_complete().unwrap(), "{notices:?} {kind:?}");

            let texts = ["one", "two", "a longer text, and more of it"].map(Some);
            let texts = Array::from_texts(DataType::Utf8, texts).unwrap();
            let there = block_on(texts.copy_to_async(&queue)).unwrap();
            block_on(there.until_ready()).unwrap();
            assert!(there.is_ready().unwrap());
            let back = block_on(there.to_host_async()).unwrap();
            assert!(back.equals(&texts).unwrap(), "{notices:?} {kind:?}");
            let again = block_on(async { there.fetch()?.await }).unwrap();
            assert!(again.equals(&texts).unwrap());
        }
    }
}

#[test]
fn a_foreign_array_is_awaited() {
    for notices in NOTICES {
        let sim = sim(notices).build();
        let queue = sim.device().open_queue().unwrap();
        let numbers = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
        let there = numbers.copy_to(&queue).unwrap();
        let theirs = arrow_device_testkit::trips::imported(&there);
        drop(there);
        let ready = theirs.until_ready();
        block_on(ready).unwrap();
        let back = block_on(theirs.to_host_async()).unwrap();
        assert!(back.equals(&numbers).unwrap());
    }
}

/// A task that is polled in its own waker, on whatever thread wakes it.
struct Inline {
    task: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    woken: AtomicUsize,
}

impl Inline {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let inline =
            Arc::new(Self { task: Mutex::new(Some(Box::pin(task))), woken: AtomicUsize::new(0) });
        inline.clone().wake();
        inline
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        // Whoever comes while the task is polled has it polled once more.
        if self.woken.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        loop {
            let seen = self.woken.load(Ordering::SeqCst);
            let mut task = self.task.lock().unwrap();
            if let Some(polled) = &mut *task {
                let waker = Waker::from(self.clone());
                if polled.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    *task = None;
                }
            }
            drop(task);
            if self.woken.fetch_sub(seen, Ordering::SeqCst) == seen {
                return;
            }
        }
    }
}

// Requirement: SAF-23
#[test]
fn a_waker_may_run_its_task_which_calls_the_library() {
    for notices in NOTICES {
        let sim = Arc::new(sim(notices).build());
        let (tell, told) = mpsc::channel();
        let task = {
            let sim = sim.clone();
            async move {
                for _ in 0..50 {
                    let queue = sim.device().open_queue().unwrap();
                    event(&sim, &queue).await.unwrap();
                    let numbers = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
                    let there = numbers.copy_to_async(&queue).await.unwrap();
                    assert!(there.to_host_async().await.unwrap().equals(&numbers).unwrap());
                }
                drop(sim);
                tell.send(()).unwrap();
            }
        };
        let inline = Inline::spawn(task);
        told.recv_timeout(SOON).unwrap();
        // The last waker has returned when nobody has the task any more.
        while Arc::strong_count(&inline) > 1 {
            std::thread::yield_now();
        }
    }
}

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

// Requirement: SAF-30
#[test]
fn a_waker_that_panics_keeps_nobody_from_being_woken() {
    for notices in NOTICES {
        let sim = sim(notices).may_wait(false).build();
        let queue = sim.device().open_queue().unwrap();
        let passed = event(&sim, &queue);
        let panics = Arc::new(Panicking);
        let mut futures: Vec<_> = (0..3).map(|_| passed.clone().into_future()).collect();
        let (counted, told) = Counted::new();
        for (number, future) in futures.iter_mut().enumerate() {
            let waker = match number {
                1 => Waker::from(counted.clone()),
                _ => Waker::from(panics.clone()),
            };
            assert!(poll_once(future, &waker).is_pending());
        }
        sim.run_until_idle();
        told.recv_timeout(SOON).unwrap();
        // And events that are awaited later.
        let later = event(&sim, &queue);
        let mut later = later.into_future();
        assert!(poll_once(&mut later, &Waker::from(counted.clone())).is_pending());
        sim.run_until_idle();
        told.recv_timeout(SOON).unwrap();
        assert!(poll_once(&mut later, Waker::noop()).is_ready());
    }
}

// Requirement: SAF-26
#[test]
fn a_hundred_thousand_awaits_are_all_woken() {
    let count = if cfg!(miri) { 30 } else { 100_000 };
    for notices in NOTICES {
        let sim = sim(notices).may_wait(false).build();
        let queues: Vec<Queue> = (0..10).map(|_| sim.device().open_queue().unwrap()).collect();
        let events: Vec<Event> = (0..100).map(|number| event(&sim, &queues[number % 10])).collect();
        let (counted, told) = Counted::new();
        let waker = Waker::from(counted.clone());
        let mut futures: Vec<_> =
            (0..count).map(|number| events[number % 100].clone().into_future()).collect();
        assert!(futures.iter_mut().all(|future| poll_once(future, &waker).is_pending()));
        sim.run_until_idle();
        for _ in 0..count {
            told.recv_timeout(SOON).unwrap();
        }
        assert_eq!(counted.woken.load(Ordering::SeqCst), count, "each once");
        assert!(futures.iter_mut().all(|future| poll_once(future, Waker::noop()).is_ready()));
        drop(waker);
        assert_eq!(Arc::strong_count(&counted), 1, "no waker is left behind");
    }
}

// Requirement: SAF-23, SAF-26, SAF-40
#[test]
fn wakers_that_poll_tasks_which_await_again_take_no_stack_for_each() {
    for notices in NOTICES {
        let sims = [(); 2].map(|()| sim(notices).may_wait(false).build());
        let queues = sims.each_ref().map(|sim| sim.device().open_queue().unwrap());
        // The second event is awaited while nothing of its device has run.
        let [one, other] = [0, 1].map(|number| event(&sims[number], &queues[number]));
        let count = if cfg!(miri) { 30 } else { 10_000 };
        let done = Arc::new(AtomicUsize::new(0));
        let task = || {
            let (one, other, done) = (one.clone(), other.clone(), done.clone());
            async move {
                one.await.unwrap();
                done.fetch_add(1, Ordering::SeqCst);
                other.await.unwrap();
                done.fetch_add(1, Ordering::SeqCst);
            }
        };
        let _tasks: Vec<_> = (0..count).map(|_| Inline::spawn(task())).collect();
        for (sim, all) in sims.iter().zip([count, 2 * count]) {
            sim.run_until_idle();
            let start = Instant::now();
            while done.load(Ordering::SeqCst) < all {
                assert!(start.elapsed() < SOON, "{done:?} of {all} with {notices:?}");
                std::thread::yield_now();
            }
        }
    }
}

/// A waker that owns a future.
struct OwnsFuture {
    _next: Mutex<Option<AwaitedEvent>>,
}

impl Wake for OwnsFuture {
    fn wake(self: Arc<Self>) {}
}

// Requirement: SAF-37, SAF-40
#[test]
fn futures_in_the_wakers_of_others_are_dropped_on_little_stack() {
    for notices in NOTICES {
        let sim = sim(notices).may_wait(false).build();
        let queue = sim.device().open_queue().unwrap();
        let event = event(&sim, &queue);
        let mut next = None;
        for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
            let waker = Waker::from(Arc::new(OwnsFuture { _next: Mutex::new(next.take()) }));
            let mut future = (&event).into_future();
            assert!(poll_once(&mut future, &waker).is_pending());
            next = Some(future);
        }
        let small = std::thread::Builder::new().stack_size(256 << 10);
        small.spawn(move || drop(next)).unwrap().join().unwrap();
        sim.run_until_idle();
        block_on(event).unwrap();
    }
}

// Requirement: SAF-26, SAF-40
#[test]
fn a_driver_that_announces_in_the_call_takes_no_stack_for_each_event() {
    let sim = sim(EventNotices::Anywhere).may_wait(false).build();
    let queue = sim.device().open_queue().unwrap();
    let count = if cfg!(miri) { 50 } else { 5_000 };
    let events = (0..count).map(|_| event(&sim, &queue));
    let mut futures: Vec<_> = events.map(Event::into_future).collect();
    let (counted, _told) = Counted::new();
    let waker = Waker::from(counted.clone());
    assert!(futures.iter_mut().all(|future| poll_once(future, &waker).is_pending()));
    // Once the first is announced, the driver announces each of the others in the call that asks
    // it to.
    let announce = || sim.run_until_idle();
    let small = std::thread::Builder::new().stack_size(256 << 10);
    std::thread::scope(|threads| {
        small.spawn_scoped(threads, announce).unwrap().join().unwrap();
    });
    let start = Instant::now();
    while counted.woken.load(Ordering::SeqCst) < count {
        assert!(start.elapsed() < SOON, "{counted:?} of {count}", counted = counted.woken);
        std::thread::yield_now();
    }
    assert!(futures.iter_mut().all(|future| poll_once(future, Waker::noop()).is_ready()));
}

// Requirement: SAF-26
#[test]
fn many_threads_await_one_event_and_their_own() {
    for notices in NOTICES {
        let sim = sim(notices).build();
        let shared = sim.device().open_queue().unwrap();
        for _ in 0..if cfg!(miri) { 1 } else { 50 } {
            let passed = event(&sim, &shared);
            std::thread::scope(|threads| {
                for _ in 0..8 {
                    threads.spawn(|| {
                        block_on(&passed).unwrap();
                        let queue = sim.device().open_queue().unwrap();
                        block_on(event(&sim, &queue)).unwrap();
                    });
                }
            });
        }
    }
}

// Requirement: SAF-40
#[test]
fn a_future_that_is_dropped_leaves_nothing_behind() {
    for notices in NOTICES {
        for may_wait in [true, false] {
            for polls in 0..6 {
                let sim = sim(notices).may_wait(may_wait).build();
                let queue = sim.device().open_queue().unwrap();
                let (counted, _told) = Counted::new();
                let waker = Waker::from(counted.clone());
                let passed = event(&sim, &queue);
                let texts = Array::from_texts(DataType::Utf8, ["one", "two"].map(Some)).unwrap();
                let there = texts.copy_polled(&queue, &Default::default()).unwrap();
                let mut there = there.into_future();
                let mut awaited = passed.into_future();
                for _ in 0..polls {
                    if poll_once(&mut awaited, &waker).is_ready() {
                        break;
                    }
                }
                let mut back = None;
                for poll in 0..polls {
                    match &mut back {
                        None => {
                            if let Poll::Ready(array) = poll_once(&mut there, &waker) {
                                back = Some(array.unwrap().to_host_async());
                            }
                        }
                        Some(back) => {
                            if poll_once(back, &waker).is_ready() {
                                break;
                            }
                        }
                    }
                    if poll % 2 == 1 {
                        sim.run_until_idle();
                    }
                }
                drop((awaited, there, back, waker));
                // A waker that is being called at this moment returns soon.
                let patience = Instant::now() + SOON;
                while Arc::strong_count(&counted) > 1 && Instant::now() < patience {
                    std::thread::yield_now();
                }
                assert_eq!(Arc::strong_count(&counted), 1, "{notices:?}, {polls} polls");
                drop(queue);
                // The simulator looks for memory, events and queues that were left behind.
            }
        }
    }
}

/// Awaits an event again and again, as a `select!` in a loop does.
#[test]
fn an_event_that_is_given_up_and_awaited_again_is_announced_once() {
    let sim = sim(EventNotices::Anywhere).may_wait(false).build();
    let queue = sim.device().open_queue().unwrap();
    let passed = event(&sim, &queue);
    let (counted, told) = Counted::new();
    let waker = Waker::from(counted.clone());
    for _ in 0..1000 {
        assert!(poll_once(&mut passed.clone().into_future(), &waker).is_pending());
    }
    let mut last = passed.clone().into_future();
    assert!(poll_once(&mut last, &waker).is_pending());
    sim.run_until_idle();
    told.recv_timeout(SOON).unwrap();
    assert!(poll_once(&mut last, Waker::noop()).is_ready());
    assert_eq!(counted.woken.load(Ordering::SeqCst), 1, "those that were given up are not woken");
}

#[test]
fn an_older_event_that_is_awaited_later_is_woken_first() {
    for notices in NOTICES {
        let sim = sim(notices).may_wait(false).build();
        let queue = sim.device().open_queue().unwrap();
        let events: Vec<Event> = (0..5).map(|_| event(&sim, &queue)).collect();
        let (counted, told) = Counted::new();
        let waker = Waker::from(counted.clone());
        let mut futures: Vec<_> = events.iter().rev().map(IntoFuture::into_future).collect();
        assert!(futures.iter_mut().all(|future| poll_once(future, &waker).is_pending()));
        sim.run_until_idle();
        (0..5).for_each(|_| told.recv_timeout(SOON).unwrap());
        assert!(futures.iter_mut().all(|future| poll_once(future, Waker::noop()).is_ready()));
    }
}

#[test]
fn an_event_of_a_lost_device_or_of_failed_work_is_an_error() {
    for notices in NOTICES {
        let sim = sim(notices).build();
        let queue = sim.device().open_queue().unwrap();
        sim.fail_later(1);
        let failed = event(&sim, &queue);
        assert_eq!(block_on(failed).unwrap_err().kind(), ErrorKind::WorkFailed);
        // Whoever asks a future of data once more is told so once more.
        let of_array = self::sim(notices).build();
        let queue = of_array.device().open_queue().unwrap();
        of_array.fail_later(1);
        of_array.kernel("work").launch(&queue, |_| {}).unwrap();
        let array = Array::builder(DataType::Null).len(1).device(of_array.device().id());
        let mut ready = array.finish_on(&queue).unwrap().until_ready();
        for _ in 0..2 {
            let polled = block_on(poll_fn(|context| Pin::new(&mut ready).poll(context)));
            assert_eq!(polled.unwrap_err().kind(), ErrorKind::WorkFailed, "{notices:?}");
        }
        drop((ready, queue));
        let other = sim.device().open_queue().unwrap();
        let lost = event(&sim, &other);
        let (counted, told) = Counted::new();
        let mut future = lost.into_future();
        let pending = poll_once(&mut future, &Waker::from(counted));
        sim.lose_device();
        if pending.is_pending() {
            sim.run_until_idle();
            told.recv_timeout(SOON).unwrap();
            if let Poll::Ready(Err(error)) = poll_once(&mut future, Waker::noop()) {
                assert_eq!(error.kind(), ErrorKind::DeviceLost);
            }
        }
    }
}

// Requirement: SAF-40
#[test]
fn a_slow_event_does_not_keep_a_quick_one_from_being_told() {
    let slow = sim(EventNotices::None).may_wait(false).build();
    let slow_queue = slow.device().open_queue().unwrap();
    let mut slow_future = event(&slow, &slow_queue).into_future();
    assert!(poll_once(&mut slow_future, Waker::noop()).is_pending());
    let mut shortest = SOON;
    for _ in 0..20 {
        let quick = sim(EventNotices::None).may_wait(false).build();
        let queue = quick.device().open_queue().unwrap();
        let passed = event(&quick, &queue);
        let (counted, told) = Counted::new();
        let mut future = passed.into_future();
        assert!(poll_once(&mut future, &Waker::from(counted)).is_pending());
        std::thread::sleep(Duration::from_millis(3));
        let began = Instant::now();
        quick.run_until_idle();
        told.recv_timeout(SOON).unwrap();
        shortest = shortest.min(began.elapsed());
    }
    // A millisecond, and what a busy machine adds to each of the twenty.
    assert!(shortest < Duration::from_millis(200), "{shortest:?}");
    drop(slow_future);
}

// Requirement: SAF-24
#[test]
fn a_waker_that_blocks_for_another_event_hangs_nothing() {
    struct Blocks(Event, AtomicBool, mpsc::Sender<bool>);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                block_on(&self.0).map(|()| self.1.store(true, Ordering::SeqCst))
            }));
            let _ = self.2.send(waited.is_ok());
        }
    }
    let sim = sim(EventNotices::FromCallbacks).may_wait(false).build();
    let (one, other) = (sim.device().open_queue().unwrap(), Sim::builder().may_wait(false).build());
    let other_queue = other.device().open_queue().unwrap();
    let never = event(&other, &other_queue);
    let passed = event(&sim, &one);
    let (tell, told) = mpsc::channel();
    let mut future = passed.into_future();
    let waker = Waker::from(Arc::new(Blocks(never, AtomicBool::new(false), tell)));
    assert!(poll_once(&mut future, &waker).is_pending());
    sim.run_until_idle();
    assert!(!told.recv_timeout(SOON).unwrap(), "the wait inside of the waker is refused");
    drop((waker, future));
    let again = event(&sim, &one);
    let (counted, told) = Counted::new();
    let mut again = again.into_future();
    assert!(poll_once(&mut again, &Waker::from(counted)).is_pending());
    sim.run_until_idle();
    told.recv_timeout(SOON).unwrap();
}

#[test]
fn a_copy_without_memory_is_woken_when_there_is_some() {
    // In a process of its own: a thread of another test could have in hand what is held back here.
    arrow_device_testkit::process::alone(|| {
        for notices in NOTICES {
            let sim = sim(notices).memory_limit(4096).build();
            let _pump = sim.pump();
            let queue = sim.device().open_queue().unwrap();
            let large = Array::from_values(DataType::Int64, (0..400_i64).map(Some)).unwrap();
            let first = large.copy_to(&queue).unwrap();
            // Held back until the queue has passed.
            sim.kernel("work").launch(&queue, |_| {}).unwrap();
            drop(first.on(&queue).unwrap());
            drop(first);
            let second = block_on(large.copy_to_async(&queue)).unwrap();
            assert!(block_on(second.to_host_async()).unwrap().equals(&large).unwrap());
        }
    });
}

/// The threads of this process that wait for events: their numbers.
#[cfg(target_os = "linux")]
fn waiters() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let path = |task: std::io::Result<std::fs::DirEntry>| task.unwrap().path();
    let is_waiter = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm"))
            .is_ok_and(|name| name.starts_with("arrow-device-wa"))
    };
    tasks.map(path).filter(is_waiter).map(|path| path.to_str().unwrap().to_owned()).collect()
}

/// How often a thread has been put to sleep or interrupted, and its processor time.
#[cfg(target_os = "linux")]
fn switches(task: &str) -> Vec<String> {
    let status = std::fs::read_to_string(format!("{task}/status")).unwrap();
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines.map(str::to_owned).collect()
}

// Requirement: SAF-40
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn one_thread_comes_with_the_first_await_that_needs_it_and_sleeps() {
    arrow_device_testkit::process::alone(|| {
        let announcing = sim(EventNotices::Anywhere).build();
        let queue = announcing.device().open_queue().unwrap();
        block_on(event(&announcing, &queue)).unwrap();
        let asked = sim(EventNotices::None).build();
        let queue = asked.device().open_queue().unwrap();
        let done = event(&asked, &queue);
        queue.synchronize().unwrap();
        block_on(done).unwrap();
        let numbers = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
        let mut copy = numbers.copy_polled(&queue, &Default::default()).unwrap();
        while copy.poll().unwrap().is_none() {}
        assert!(waiters().is_empty(), "nobody has awaited what needs a thread");
        for _ in 0..10 {
            block_on(event(&asked, &queue)).unwrap();
        }
        let waiters = waiters();
        assert_eq!(waiters.len(), 1);
        std::thread::sleep(Duration::from_millis(50));
        let before = switches(&waiters[0]);
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(before, switches(&waiters[0]), "the thread has run with nobody waiting");
        assert!(!before.is_empty());
    });
}

// Requirement: SAF-27
#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_of_fork_is_refused_what_the_parent_awaits_and_awaits_its_own() {
    use arrow_device_testkit::process::{alone, forked};
    alone(|| {
        for notices in NOTICES {
            let sim = sim(notices).may_wait(false).build();
            let queue = sim.device().open_queue().unwrap();
            let passed = event(&sim, &queue);
            let (counted, _told) = Counted::new();
            let waker = Waker::from(counted.clone());
            let mut future = passed.clone().into_future();
            assert!(poll_once(&mut future, &waker).is_pending());
            let mut of_child = Some(passed.clone().into_future());
            assert!(poll_once(of_child.as_mut().unwrap(), &waker).is_pending());
            forked(|| {
                let mut future = of_child.take().ok_or("taken")?;
                match poll_once(&mut future, Waker::noop()) {
                    Poll::Ready(Err(error)) if error.kind() == ErrorKind::Unsupported => {}
                    other => return Err(format!("{other:?}")),
                }
                drop(future);
                if counted.woken.load(Ordering::SeqCst) > 0 {
                    return Err("a waker of the parent's was called".into());
                }
                let own = self::sim(notices).build();
                let queue = own.device().open_queue().map_err(|error| error.to_string())?;
                for _ in 0..3 {
                    block_on(event(&own, &queue)).map_err(|error| error.to_string())?;
                }
                Ok(())
            });
            drop(of_child);
            sim.run_until_idle();
            let awaited = poll_fn(|context| Pin::new(&mut future).poll(context));
            block_on(awaited).unwrap();
        }
    });
}

// Requirement: SAF-27
#[cfg(all(unix, not(miri)))]
#[test]
fn a_fork_while_threads_await_leaves_a_child_that_awaits() {
    use arrow_device_testkit::process::{alone, forked, while_threads_work};
    alone(|| {
        for notices in NOTICES {
            let awaited = |sim: &Sim| -> Result<()> {
                let queue = sim.device().open_queue()?;
                block_on(event(sim, &queue))
            };
            // The parent's threads begin no threads: the standard library has a lock while a thread
            // begins, and a child of a fork in that moment begins none.
            let sim = self::sim(notices).build();
            while_threads_work(
                3,
                || awaited(&sim).unwrap(),
                || {
                    for _ in 0..20 {
                        forked(|| {
                            let own = self::sim(notices).build();
                            awaited(&own).map_err(|error| error.to_string())
                        });
                    }
                },
            );
        }
    });
}

// Requirement: SAF-27
#[cfg(all(unix, not(miri)))]
#[test]
fn a_child_that_a_waker_forks_awaits_what_is_its_own() {
    use arrow_device_testkit::process::{alone, forked};
    struct Forks(mpsc::Sender<()>);
    impl Wake for Forks {
        fn wake(self: Arc<Self>) {
            forked(|| {
                let own = sim(EventNotices::None).build();
                let queue = own.device().open_queue().map_err(|error| error.to_string())?;
                block_on(event(&own, &queue)).map_err(|error| error.to_string())
            });
            self.0.send(()).unwrap();
        }
    }
    alone(|| {
        for notices in [EventNotices::None, EventNotices::FromCallbacks] {
            let sim = sim(notices).may_wait(false).build();
            let queue = sim.device().open_queue().unwrap();
            let mut future = event(&sim, &queue).into_future();
            let (tell, told) = mpsc::channel();
            assert!(poll_once(&mut future, &Waker::from(Arc::new(Forks(tell)))).is_pending());
            sim.run_until_idle();
            told.recv_timeout(SOON).unwrap();
        }
    });
}
