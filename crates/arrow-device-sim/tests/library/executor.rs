//! A small executor on a few threads, which picks the next task at random, and ends the process's
//! patience after a while.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) % end as u64) as usize
    }
}

pub(crate) struct Executor {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    ready: Vec<Arc<Job>>,
    /// Jobs that are not done.
    open: usize,
    random: Random,
}

struct Job {
    work: Mutex<Option<Work>>,
    queued: AtomicBool,
    executor: Arc<Executor>,
}

impl Executor {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let state = State { ready: Vec::new(), open: 0, random: Random::new(seed) };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.state.lock().unwrap().open += 1;
        let job = Job {
            work: Mutex::new(Some(Box::pin(work))),
            queued: AtomicBool::new(false),
            executor: self.clone(),
        };
        Arc::new(job).wake();
    }

    /// Runs everything on so many threads. Panics, and says how much was left, where that takes
    /// longer than `patience`.
    pub(crate) fn run(self: &Arc<Self>, threads: usize, patience: Duration) {
        let deadline = Instant::now() + patience;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| self.work(deadline));
            }
        });
        let left = self.state.lock().unwrap().open;
        assert_eq!(left, 0, "the streams hang: {left} futures are left after {patience:?}");
    }

    fn work(&self, deadline: Instant) {
        loop {
            let job = {
                let mut state = self.state.lock().unwrap();
                loop {
                    if state.open == 0 || Instant::now() > deadline {
                        return;
                    }
                    if state.ready.is_empty() {
                        let pause = Duration::from_millis(50);
                        state = self.changed.wait_timeout(state, pause).unwrap().0;
                    } else {
                        let count = state.ready.len();
                        let chosen = state.random.below(count);
                        break state.ready.swap_remove(chosen);
                    }
                }
            };
            job.queued.store(false, Ordering::SeqCst);
            let mut work = job.work.lock().unwrap();
            let waker = Waker::from(job.clone());
            let Some(running) = &mut *work else { continue };
            if let Poll::Ready(()) = running.as_mut().poll(&mut Context::from_waker(&waker)) {
                *work = None;
                drop(work);
                self.state.lock().unwrap().open -= 1;
                self.changed.notify_all();
            }
        }
    }
}

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            let executor = self.executor.clone();
            executor.state.lock().unwrap().ready.push(self);
            executor.changed.notify_one();
        }
    }
}

/// Pending once, and woken at once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
