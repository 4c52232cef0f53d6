//! A thread that runs a simulator's work, for code that asks and never waits.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::Engine;

/// How long the thread pauses between two rounds.
const PAUSE: Duration = Duration::from_micros(100);

/// A thread that runs what is submitted to a simulator. [`Sim::pump`](crate::Sim::pump) starts it.
/// It stops when this value is dropped.
pub struct Pump {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    engine: Arc<Engine>,
}

impl Pump {
    pub(crate) fn start(engine: Arc<Engine>) -> Self {
        let (stop, stopped) = channel::<()>();
        let of_thread = engine.clone();
        let work = move || {
            let engine = of_thread;
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let state = engine.lock();
                let state = engine.run_all(state);
                engine.unlock(state);
                engine.call_notices();
            }
        };
        let thread = std::thread::Builder::new().name("software-device".into()).spawn(work).ok();
        Self { stop: Some(stop), thread, engine }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if self.engine.is_of_a_parent() {
            // A child of `fork` has no such thread, and the channel may have been in the middle of
            // an operation.
            std::mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pump")
    }
}
