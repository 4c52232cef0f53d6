//! What a producer knows of its consumer's wishes: how many tasks it may send, and whether to stop.
//!
//! `request` and `cancel` come from any thread at any time, even from inside a callback that the
//! producer is making. So they only record something and wake the driver of the stream. The order
//! of callbacks is not decided here: there is one driver, which makes them one after the other.

use std::marker::PhantomData;
use std::sync::PoisonError;
use std::task::Waker;

use super::super::locks::{Mutex, MutexGuard};
use super::{QuietWaker, Rules};

struct ProducerState<E> {
    credits: u64,
    /// Whether there was a request.
    asked: bool,
    cancelled: bool,
    /// An error that is to be reported to the consumer.
    fault: Option<E>,
    closed: bool,
    waker: QuietWaker,
}

/// What the driver needs to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Permission to go on, and nothing else.
    Leave,
    /// A first request, at any time before.
    Request,
    /// Credit for one task. The answer spends it.
    Credit,
    /// A wake when anything changes.
    Waking,
}

/// What the driver does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<E> {
    /// Report this error.
    Fail(E),
    /// Release the handler.
    Stop,
    /// Go on: the driver has what it needs.
    Go,
    /// Wait. The waker is kept.
    Wait,
}

/// The consumer's wishes.
pub(crate) struct Credit<R, E> {
    state: Mutex<ProducerState<E>>,
    rules: PhantomData<fn() -> R>,
}

impl<R: Rules, E> Credit<R, E> {
    pub(crate) fn new() -> Self {
        let state = ProducerState {
            credits: 0,
            asked: false,
            cancelled: false,
            fault: None,
            closed: false,
            waker: QuietWaker::NONE,
        };
        Self { state: Mutex::new(state), rules: PhantomData }
    }

    fn lock(&self) -> MutexGuard<'_, ProducerState<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- what the consumer calls, on any thread

    /// Allows `count` more tasks. An impossible count becomes the error that `refused` makes.
    pub(crate) fn request(&self, count: i64, refused: impl FnOnce() -> E) {
        let mut state = self.lock();
        let is_over = (state.closed && R::CLOSING_ENDS_REQUESTS)
            || (state.cancelled && R::CANCEL_ENDS_REQUESTS);
        if is_over {
            return;
        }
        match u64::try_from(count) {
            Ok(count) if count > 0 => {
                let before = if R::CREDITS_ADD_UP { state.credits } else { 0 };
                state.credits = before.saturating_add(count);
                state.asked = true;
            }
            _ if state.fault.is_none() => state.fault = Some(refused()),
            _ => {}
        }
        let waker = state.waker.take();
        drop(state);
        waker.wake();
    }

    /// Asks to stop. May be called any number of times.
    pub(crate) fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        let waker = state.waker.take();
        drop(state);
        waker.wake();
    }

    /// A task could not give its data. Returns whether that can still be reported.
    pub(crate) fn task_failed(&self, error: E) -> bool {
        let mut state = self.lock();
        let can_report = !state.closed;
        let mut unheard = Some(error);
        if can_report && state.fault.is_none() {
            state.fault = unheard.take();
        }
        let waker = state.waker.take();
        drop(state);
        waker.wake();
        // Dropped last, because the drop of an error may panic.
        drop(unheard);
        can_report
    }

    // ---- what the driver calls

    /// What the driver does next. Where that is to wait, the waker is kept in the same step, so
    /// that every later change wakes the driver. No waker is kept of a driver that goes on.
    pub(crate) fn look(&self, waker: &Waker, need: Need) -> Next<E> {
        let mut mine: Option<QuietWaker> = None;
        loop {
            let mut state = self.lock();
            if let Some(fault) = state.fault.take() {
                return Next::Fail(fault);
            }
            if state.cancelled {
                return Next::Stop;
            }
            match need {
                Need::Leave => return Next::Go,
                Need::Request if state.asked => return Next::Go,
                Need::Credit if state.credits > 0 => {
                    state.credits -= 1;
                    return Next::Go;
                }
                Need::Request | Need::Credit | Need::Waking => {}
            }
            if let Some(mine) = mine {
                if !R::STORES_WAKER_AT_ONCE {
                    drop(state);
                    state = self.lock();
                }
                let earlier = std::mem::replace(&mut state.waker, mine);
                drop(state);
                drop(earlier);
                return Next::Wait;
            }
            drop(state);
            // Cloned without the lock, because cloning runs code of the executor. Then the state is
            // read again.
            mine = Some(QuietWaker::of(waker));
        }
    }

    /// The driver was polled from inside a call of its consumer, where it may call nothing. That
    /// poll has used up its wake. `elsewhere` wakes the driver again on another thread, and returns
    /// whether it can. If it cannot, the consumer's next call wakes the driver.
    pub(crate) fn poll_again(&self, waker: &Waker, elsewhere: impl FnOnce(Waker) -> bool) {
        if !R::REFUSED_POLLS_COME_AGAIN || elsewhere(waker.clone()) {
            return;
        }
        let mine = QuietWaker::of(waker);
        let mut state = self.lock();
        let earlier = std::mem::replace(&mut state.waker, mine);
        drop(state);
        drop(earlier);
    }

    /// Whether to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Closes the consumer's side: the consumer is released, or about to be.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        drop(waker);
    }
}
