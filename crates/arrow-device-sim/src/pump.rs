//! A thread that gives a simulator progress, for code that asks and never waits.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::Engine;

/// How long the thread pauses between two looks.
const PAUSE: Duration = Duration::from_micros(100);

/// A thread that runs what is submitted to a simulator. Made by [`Sim::pump`](crate::Sim::pump);
/// stops when dropped.
#[derive(Debug)]
pub struct Pump {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    pub(crate) fn start(engine: Arc<Engine>) -> Self {
        let (stop, stopped) = channel::<()>();
        let work = move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let state = engine.lock();
                let state = engine.run_all(state);
                engine.unlock(state);
            }
        };
        let thread = std::thread::Builder::new().name("software-device".into()).spawn(work).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
