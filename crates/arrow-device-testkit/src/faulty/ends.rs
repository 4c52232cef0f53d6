//! Work that fails after it was accepted, lost devices, and runtimes that are polled and call back.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use arrow_device::driver::{EventNotice, EventNotices, Raw};
use arrow_device::{ErrorKind, Event, Result};

use super::Fault;
use super::driver::FaultyDriver;
use super::late::{Lines, Mark, Point};
use super::shared::{FaultyShared, FaultyState};

/// The control that a test has over wrapped devices. It makes work fail and devices be lost, where
/// work is [late](super::Faulty::late).
#[derive(Clone, Debug)]
pub struct FaultyHand(pub(super) Arc<FaultyShared>);

/// A callback that a driver runs while it is asked, and how deep it is running on each thread.
#[derive(Default)]
pub(super) struct Callback {
    run: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    depth: Mutex<HashMap<ThreadId, usize>>,
}

/// How deep a callback may run inside of itself, because it asks the driver again.
const DEEPEST: usize = 2;

impl Callback {
    /// Runs the callback without holding a lock.
    pub(super) fn run(&self) {
        let known = || self.run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(run) = known() else { return };
        let thread = std::thread::current().id();
        let mut depths = self.depth.lock().unwrap_or_else(PoisonError::into_inner);
        let depth = depths.entry(thread).or_default();
        if *depth == DEEPEST {
            return;
        }
        *depth += 1;
        drop(depths);
        run();
        let mut depths = self.depth.lock().unwrap_or_else(PoisonError::into_inner);
        depths.entry(thread).and_modify(|depth| *depth -= 1);
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

impl FaultyHand {
    /// Sets a callback that the operations which ask or wait (`is_complete`, `is_idle`,
    /// `synchronize`, `wait_on_host`, `map`, `map_to_fill`) run first from now on, as a runtime
    /// that is polled runs the callbacks of the application. `None` removes it.
    pub fn run_in_polls(&self, callback: Option<Arc<dyn Fn() + Send + Sync>>) {
        *self.0.callback.run.lock().unwrap_or_else(PoisonError::into_inner) = callback;
    }

    /// Gives the devices a turn: all late work is done. The one who submitted it has got an error,
    /// or asks.
    pub fn turn(&self) {
        let mut state = self.0.state();
        let FaultyState { lines, blocks, .. } = &mut *state;
        let _ = lines.run_all(blocks);
        drop(state);
        self.0.call_notices();
    }

    /// Makes the next copy that is submitted fail when its turn comes.
    pub fn fail_next(&self) {
        self.0.state().lines.fails_next = true;
    }

    /// Loses the devices. Submitted work that is not done is never done.
    pub fn lose(&self) {
        let mut state = self.0.state();
        self.0.is_lost.store(true, Ordering::SeqCst);
        state.lines.throw_all_away();
        let notices = std::mem::take(&mut state.notices);
        drop(state);
        // Dropping a notice makes its awaiter ask, and learn of the loss.
        drop(notices);
    }
}

/// A notice that is to be called when an event has passed.
#[derive(Debug)]
pub(super) struct KeptNotice {
    mark: Mark,
    notice: EventNotice,
}

impl FaultyShared {
    /// Calls the notices of the events that have passed.
    fn call_notices(&self) {
        let mut state = self.state();
        let FaultyState { notices, lines, .. } = &mut *state;
        let due: Vec<KeptNotice> =
            notices.extract_if(.., |kept| lines.has_passed(kept.mark.told)).collect();
        let locked = (self.fault == Some(Fault::CallbackLocked)).then_some(state);
        due.into_iter().for_each(|kept| kept.notice.call());
        drop(locked);
    }
}

impl FaultyDriver {
    // ---- calls of the application's code

    /// Runs the callback of the application.
    pub(super) fn call_back(&self) {
        let _locked = self.has(Fault::CallbackLocked).then(|| self.shared.state());
        self.shared.callback.run();
    }

    /// Keeps a notice of an event whose work is late, or calls it if the work is done. A kept
    /// notice is called when somebody waits for the work or asks about it.
    ///
    /// # Safety
    /// UNS-22.
    pub(super) unsafe fn keep_notice(
        &self,
        event: Raw<Event>,
        notice: EventNotice,
    ) -> Result<bool> {
        let mut state = self.shared.state();
        let Some(mark) = state.lines.mark_of(event) else {
            drop(state);
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            return unsafe { self.inner.notify(event, notice) };
        };
        if self.inner.properties().event_notices == EventNotices::None || self.tells().is_err() {
            drop(state);
            drop(notice);
            return Ok(false);
        }
        state.notices.push(KeptNotice { mark, notice });
        drop(state);
        self.call_notices();
        Ok(true)
    }

    /// Calls the notices of the events that have passed.
    pub(super) fn call_notices(&self) {
        self.shared.call_notices();
    }

    // ---- ends

    /// Returns an error once the device is lost.
    pub(super) fn tells(&self) -> Result<()> {
        if self.shared.is_lost.load(Ordering::SeqCst) {
            return Err(self.error(ErrorKind::DeviceLost, "the device was told to be lost"));
        }
        Ok(())
    }

    /// Returns an error for an operation that submits or allocates on a lost device. A device with
    /// the fault that such operations do not notice the loss returns none.
    pub(super) fn takes_work(&self) -> Result<()> {
        if self.has(Fault::LossUnseen) { Ok(()) } else { self.tells() }
    }

    /// Returns the answer of a lost device about an event, `None` if the device is not lost. A wait
    /// is endless if the caller gave no limit.
    pub(super) fn answer_of_lost(&self, is_endless_wait: bool) -> Option<Result<bool>> {
        let error = self.tells().err()?;
        let is_pending = self.has(Fault::LossPending) && !is_endless_wait;
        Some(if is_pending { Ok(false) } else { Err(error) })
    }

    /// Returns an error where the work up to a point has failed and is over. `event` stands for the
    /// point.
    pub(super) fn failure(
        &self,
        lines: &mut Lines,
        point: Point,
        event: Option<Raw<Event>>,
    ) -> Result<()> {
        if !lines.fails_by(point) || self.has(Fault::FailureLost) {
            return Ok(());
        }
        if let Some(event) = event.filter(|_| self.has(Fault::FailureForgotten))
            && !lines.tell_once(event)
        {
            return Ok(());
        }
        Err(self.error(ErrorKind::WorkFailed, "work that was submitted before was told to fail"))
    }
}
