//! Work, and the thread that does it.
//!
//! A piece of work waits for signals and has a signal of its own. The thread sleeps until somebody
//! asks about a signal that is not over. Then it takes the newest piece whose signals are all over
//! and whose queue was flushed, copies the bytes, and ends the signal; and so on, until no piece is
//! left that may run. Work behind failed work fails and copies nothing, or goes on as if nothing
//! had happened: SYCL leaves that open, and the test chooses.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::Duration;

use crate::memory;
use crate::objects::lock;

/// dpctl's numbers of an event's status.
pub(crate) const UNKNOWN: i32 = 0;
const SUBMITTED: i32 = 1;
const RUNNING: i32 = 2;
const COMPLETE: i32 = 3;

/// How long a question waits for the thread at most, if there is something to do. Without the wait,
/// whoever asks in a loop would take the processor from the thread.
const TURN: Duration = Duration::from_millis(1);

/// The end of a piece of work: what an event stands for.
#[derive(Debug)]
pub(crate) struct Signal {
    status: AtomicI32,
    /// Whether the queue of the work was flushed after the work was submitted.
    is_flushed: AtomicBool,
    /// Whether somebody has asked.
    was_asked: AtomicBool,
    /// Whether the work has failed and what comes behind it goes on all the same.
    is_hidden: AtomicBool,
}

impl Signal {
    pub(crate) fn new(is_flushed: bool) -> Arc<Self> {
        let status = AtomicI32::new(SUBMITTED);
        let [was_asked, is_hidden] = [false; 2].map(AtomicBool::new);
        Arc::new(Self { status, is_flushed: is_flushed.into(), was_asked, is_hidden })
    }

    pub(crate) fn status(&self) -> i32 {
        self.status.load(Ordering::SeqCst)
    }

    /// The status for somebody who asks. The first answer about work that was not asked about comes
    /// at once, and is no.
    pub(crate) fn asked(&self) -> i32 {
        if self.is_over() {
            return self.status();
        }
        let engine = engine();
        let mut state = lock(&engine.state);
        state.is_asked = true;
        engine.wake.notify_one();
        let is_first = !self.was_asked.swap(true, Ordering::SeqCst);
        if !is_first && (state.is_running || state.pending.iter().any(Work::may_run)) {
            let woken = engine.ended.wait_timeout(state, TURN);
            drop(woken.unwrap_or_else(PoisonError::into_inner));
        }
        if is_first { SUBMITTED } else { self.status() }
    }

    fn is_over(&self) -> bool {
        matches!(self.status(), COMPLETE | UNKNOWN)
    }

    /// Whether work behind this one fails as well.
    fn shows_failure(&self) -> bool {
        self.status() == UNKNOWN && !self.is_hidden.load(Ordering::SeqCst)
    }

    /// Ends it from outside.
    pub(crate) fn complete(&self) {
        self.status.store(COMPLETE, Ordering::SeqCst);
    }
}

/// What a piece of work does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    Nothing,
    Copy {
        to: usize,
        from: usize,
        len: usize,
    },
    /// A copy that fails, and whether the work behind it fails with it.
    Fail {
        is_shared: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) after: Vec<Arc<Signal>>,
    pub(crate) task: Task,
    pub(crate) end: Arc<Signal>,
}

impl Work {
    fn may_run(&self) -> bool {
        self.end.is_flushed.load(Ordering::SeqCst) && self.after.iter().all(|one| one.is_over())
    }

    fn run(self) {
        self.end.status.store(RUNNING, Ordering::SeqCst);
        let has_failed = self.after.iter().any(|one| one.shows_failure());
        let status = match self.task {
            _ if has_failed => UNKNOWN,
            Task::Fail { is_shared } => {
                self.end.is_hidden.store(!is_shared, Ordering::SeqCst);
                UNKNOWN
            }
            Task::Nothing => COMPLETE,
            Task::Copy { to, from, len } => {
                memory::copy(to, from, len);
                COMPLETE
            }
        };
        // Comes before the end is told, because whoever is told may free the memory.
        lock(&engine().state).places.clear();
        self.end.status.store(status, Ordering::SeqCst);
    }
}

struct State {
    pending: Vec<Work>,
    /// Whether somebody has asked since the thread went to sleep.
    is_asked: bool,
    is_running: bool,
    /// The places that the running work uses.
    places: Vec<(usize, usize)>,
}

impl State {
    const NEW: Self =
        Self { pending: Vec::new(), is_asked: false, is_running: false, places: Vec::new() };
}

struct Engine {
    state: Mutex<State>,
    wake: Condvar,
    ended: Condvar,
}

fn engine() -> &'static Engine {
    static ENGINE: Engine =
        Engine { state: Mutex::new(State::NEW), wake: Condvar::new(), ended: Condvar::new() };
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        std::thread::spawn(|| run(&ENGINE));
    });
    &ENGINE
}

fn run(engine: &'static Engine) {
    let mut state = lock(&engine.state);
    loop {
        let newest = state.pending.iter().rposition(Work::may_run);
        let Some(newest) = newest.filter(|_| state.is_asked) else {
            state.is_asked = false;
            engine.ended.notify_all();
            let woken = engine.wake.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let work = state.pending.remove(newest);
        if let Task::Copy { to, from, len } = work.task {
            state.places = vec![(to, len), (from, len)];
        }
        state.is_running = true;
        drop(state);
        work.run();
        state = lock(&engine.state);
        state.is_running = false;
        engine.ended.notify_all();
    }
}

/// Whether work that has not ended uses a byte there.
pub(crate) fn uses(start: usize, len: usize) -> bool {
    let meets = |(at, size): (usize, usize)| at < start + len && start < at + size;
    let state = lock(&engine().state);
    let is_pending = state.pending.iter().any(|work| match work.task {
        Task::Copy { to, from, len } => meets((to, len)) || meets((from, len)),
        _ => false,
    });
    is_pending || state.places.iter().any(|place| meets(*place))
}

pub(crate) fn submit(work: Work) {
    lock(&engine().state).pending.push(work);
}

/// Flushes all work that has not run and that this signal waits for.
pub(crate) fn flush_before(signal: &Arc<Signal>) {
    let state = lock(&engine().state);
    let mut wanted = vec![signal.clone()];
    while let Some(one) = wanted.pop() {
        if one.is_flushed.swap(true, Ordering::SeqCst) {
            continue;
        }
        let work = state.pending.iter().find(|work| Arc::ptr_eq(&work.end, &one));
        wanted.extend(work.into_iter().flat_map(|work| work.after.iter().cloned()));
    }
}
