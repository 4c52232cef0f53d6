//! What a consumer knows of one stream, and who may call the producer.
//!
//! 1. When the schema comes, the producer is asked for a window of tasks.
//! 2. Tasks arrive in a list under the lock. The reader takes the whole list into its own
//!    [`Inbox`], and then polls one task after the other without the lock.
//! 3. The polled tasks are asked for again a quarter of the window at a time, so that the reader
//!    takes the lock, and calls the producer, only now and then.
//! 4. A thread that has something to ask of the producer makes the call, unless another thread is
//!    in such a call: then it leaves the wish in the state, and the other thread makes that call
//!    too.
//!
//! All state is under one lock, which is never held while a producer, a task or a waker is called.
//! Producers are of type `P`, tasks of type `T`, errors of type `E`. Dropping a task discards it,
//! so no task is dropped under the lock either.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use super::super::locks::{Condvar, Mutex, MutexGuard};
use super::{QuietWaker, Rules};

/// The calls that a consumer makes to a producer.
pub(crate) trait ProducerCalls: Copy {
    /// Allows `count` more tasks.
    fn request(&self, count: i64);
    /// Asks the producer to stop.
    fn cancel(&self);
}

/// A call of the producer that the interface forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallFault {
    SchemaTwice,
    TaskBeforeSchema,
    TaskWithoutRequest,
    TaskAfterEnd,
    EndBeforeSchema,
    EndTwice,
    ReleaseBeforeSchema,
    ReleaseBeforeEnd,
}

/// Why a callback answers with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The producer broke a rule. It is told so, and the stream ends with an error.
    Fault(CallFault),
    /// The consumer does not want the stream any more.
    Cancelled,
    /// The stream is over.
    Late,
}

/// What the handler does with a task.
#[derive(Debug)]
pub(crate) enum Verdict<T> {
    Kept,
    /// The consumer does not want the task: extract it with NULL, and answer with success.
    Discard(T),
    /// Answer with an error, and leave the task to the producer.
    Refuse(T, Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConsumerStage {
    /// Waiting for the schema.
    Waiting,
    /// The only stage in which the producer may be called.
    Open,
    Ended,
    /// There was an error: the producer reported one, or was told one.
    Failed,
    Released,
}

struct ConsumerState<P, T, E> {
    stage: ConsumerStage,
    producer: Option<P>,
    /// The thread that is in a call of the producer.
    caller: Option<u64>,
    /// How many tasks may be asked for ahead.
    window: u64,
    /// How many tasks are still to be asked for.
    owed: u64,
    /// How many tasks were asked for and have not arrived.
    outstanding: u64,
    tasks: VecDeque<T>,
    /// The error that the reader gets after the tasks.
    error: Option<E>,
    /// A task failed. The reader gets its error if the producer reports none.
    failed_task: Option<E>,
    cancelled: bool,
    cancel_was_told: bool,
    waker: QuietWaker,
}

/// Tasks that were taken out of the state together, and are polled one by one, so that a poll needs
/// no lock. There is one reader, who owns the inbox.
pub(crate) struct Inbox<T> {
    tasks: VecDeque<T>,
    /// How many tasks were polled, and are to be asked for again.
    polled: u64,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { tasks: VecDeque::new(), polled: 0 }
    }
}

impl<T> Inbox<T> {
    /// The tasks that were not polled.
    pub(crate) fn take(&mut self) -> VecDeque<T> {
        std::mem::take(&mut self.tasks)
    }
}

/// One stream, as its consumer sees it.
pub(crate) struct Consumer<R, P, T, E> {
    state: Mutex<ConsumerState<P, T, E>>,
    /// How many polled tasks are asked for again at once: a quarter of the window.
    batch: u64,
    left: Condvar,
    rules: PhantomData<fn() -> R>,
}

impl<R: Rules, P: ProducerCalls, T, E: From<CallFault>> Consumer<R, P, T, E> {
    pub(crate) fn new(window: u64) -> Self {
        let state = ConsumerState {
            stage: ConsumerStage::Waiting,
            producer: None,
            caller: None,
            window: window.max(1),
            owed: 0,
            outstanding: 0,
            tasks: VecDeque::new(),
            error: None,
            failed_task: None,
            cancelled: false,
            cancel_was_told: false,
            waker: QuietWaker::NONE,
        };
        let batch = (window / 4).max(1);
        Self { state: Mutex::new(state), batch, left: Condvar::new(), rules: PhantomData }
    }

    fn lock(&self) -> MutexGuard<'_, ConsumerState<P, T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- what the producer calls. After `opened`, `pump`.

    /// The schema has come, and with it the producer.
    pub(crate) fn opened(&self, producer: P) -> Result<(), Refusal> {
        let mut state = self.lock();
        let outcome = match state.stage {
            ConsumerStage::Waiting if state.cancelled && R::CANCEL_IS_REMEMBERED => {
                state.stage = ConsumerStage::Failed;
                Err(Refusal::Cancelled)
            }
            ConsumerStage::Waiting => {
                state.stage = ConsumerStage::Open;
                state.producer = Some(producer);
                state.owed = state.window;
                Ok(())
            }
            ConsumerStage::Open | ConsumerStage::Ended => Err(state.fault(CallFault::SchemaTwice)),
            ConsumerStage::Failed | ConsumerStage::Released => Err(Refusal::Late),
        };
        let waker = state.waker.take();
        drop(state);
        waker.wake();
        outcome
    }

    /// A task has come.
    pub(crate) fn arrived(&self, task: T) -> Verdict<T> {
        let mut state = self.lock();
        if state.stage == ConsumerStage::Released {
            return Verdict::Refuse(task, Refusal::Late);
        }
        if state.cancelled && R::CANCEL_DISCARDS {
            return Verdict::Discard(task);
        }
        let refusal = match state.stage {
            ConsumerStage::Open if state.outstanding > 0 => {
                state.outstanding -= 1;
                state.tasks.push_back(task);
                let waker = state.waker.take();
                drop(state);
                waker.wake();
                return Verdict::Kept;
            }
            ConsumerStage::Open => state.fault(CallFault::TaskWithoutRequest),
            ConsumerStage::Waiting => state.fault(CallFault::TaskBeforeSchema),
            ConsumerStage::Ended => state.fault(CallFault::TaskAfterEnd),
            ConsumerStage::Failed | ConsumerStage::Released => Refusal::Late,
        };
        let waker = state.waker.take();
        drop(state);
        waker.wake();
        Verdict::Refuse(task, refusal)
    }

    /// No more tasks will come.
    pub(crate) fn ended(&self) -> Result<(), Refusal> {
        let mut state = self.lock();
        let outcome = match state.stage {
            ConsumerStage::Open => {
                state.stage = ConsumerStage::Ended;
                state.error = state.failed_task.take();
                Ok(())
            }
            ConsumerStage::Waiting => Err(state.fault(CallFault::EndBeforeSchema)),
            ConsumerStage::Ended => Err(state.fault(CallFault::EndTwice)),
            ConsumerStage::Failed | ConsumerStage::Released => Err(Refusal::Late),
        };
        let waker = state.waker.take();
        drop(state);
        waker.wake();
        outcome
    }

    /// The producer reports an error, or made a call that is refused with one. Only the first error
    /// counts.
    pub(crate) fn failed(&self, error: E) {
        let mut state = self.lock();
        let mut unheard = Some(error);
        if !matches!(state.stage, ConsumerStage::Failed | ConsumerStage::Released) {
            if R::ERROR_ENDS_CALLS {
                state.stage = ConsumerStage::Failed;
            }
            if state.error.is_none() {
                state.error = unheard.take();
            }
        }
        let waker = state.waker.take();
        drop(state);
        drop(unheard);
        waker.wake();
    }

    /// The producer's last call. Waits for a thread of this side that is in a call of the producer,
    /// unless it is this thread.
    pub(crate) fn released(&self, me: u64) {
        let mut state = self.lock();
        let early = match state.stage {
            ConsumerStage::Waiting => Some(CallFault::ReleaseBeforeSchema),
            ConsumerStage::Open => Some(CallFault::ReleaseBeforeEnd),
            ConsumerStage::Ended | ConsumerStage::Failed | ConsumerStage::Released => None,
        };
        if let (Some(fault), None) = (early, &state.error) {
            state.error = Some(state.failed_task.take().unwrap_or_else(|| fault.into()));
        }
        state.stage = ConsumerStage::Released;
        let is_other = |who: u64| who != me || !R::RELEASE_KNOWS_ITS_THREAD;
        while R::RELEASE_WAITS && state.caller.is_some_and(is_other) {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let waker = state.waker.take();
        drop(state);
        waker.wake();
    }

    // ---- what the consumer calls

    /// Makes the calls of the producer that are due. If another thread is making such calls, that
    /// thread makes these too.
    pub(crate) fn pump(&self, me: u64) {
        self.pump_from(self.lock(), me);
    }

    /// Asks again for as many tasks as were polled, once there are enough for a call. Less than a
    /// whole window is held back, so the producer always has something to do while there is nothing
    /// to poll.
    pub(crate) fn give_back(&self, inbox: &mut Inbox<T>, me: u64) {
        if inbox.polled >= self.batch {
            let mut state = self.lock();
            state.owed += std::mem::take(&mut inbox.polled);
            self.pump_from(state, me);
        }
    }

    fn pump_from<'a>(&'a self, mut state: MutexGuard<'a, ConsumerState<P, T, E>>, me: u64) {
        if state.caller.is_some() && R::ONE_CALLER {
            return;
        }
        while let Some((producer, call)) = state.next_call::<R>() {
            state.caller = Some(me);
            drop(state);
            match call {
                Call::Request(count) => producer.request(count),
                Call::Cancel => producer.cancel(),
            }
            state = self.lock();
            state.caller = None;
            if let (Call::Request(count), false) = (call, R::COUNTS_BEFORE_ASKING) {
                state.outstanding += count.unsigned_abs();
            }
            if state.stage == ConsumerStage::Released {
                self.left.notify_all();
            }
            if !R::CALLER_LOOKS_AGAIN {
                return;
            }
        }
    }

    /// The next task. Keeps the waker where no task has come yet. The caller calls `give_back`
    /// after each task.
    pub(crate) fn poll(&self, inbox: &mut Inbox<T>, waker: &Waker) -> Poll<Option<Result<T, E>>> {
        if let Some(task) = inbox.tasks.pop_front() {
            inbox.polled += 1;
            return Poll::Ready(Some(Ok(task)));
        }
        // Cloned before the lock is taken, because cloning runs code of the executor.
        let mut mine = QuietWaker::of(waker);
        let mut state = self.lock();
        std::mem::swap(&mut state.tasks, &mut inbox.tasks);
        let outcome = if let Some(task) = inbox.tasks.pop_front() {
            inbox.polled += 1;
            Poll::Ready(Some(Ok(task)))
        } else if let Some(error) = state.error.take() {
            Poll::Ready(Some(Err(error)))
        } else if matches!(state.stage, ConsumerStage::Waiting | ConsumerStage::Open) {
            if !R::STORES_WAKER_AT_ONCE {
                drop(state);
                state = self.lock();
            }
            mine = std::mem::replace(&mut state.waker, mine);
            Poll::Pending
        } else {
            Poll::Ready(None)
        };
        drop(state);
        drop(mine);
        outcome
    }

    /// Whether the schema has come, or never will.
    pub(crate) fn poll_opened(&self, waker: &Waker) -> Poll<Result<(), Option<E>>> {
        let mut mine = QuietWaker::of(waker);
        let mut state = self.lock();
        let outcome = match (state.stage, &state.producer) {
            (_, Some(_)) => Poll::Ready(Ok(())),
            (ConsumerStage::Waiting, None) => {
                mine = std::mem::replace(&mut state.waker, mine);
                Poll::Pending
            }
            _ => Poll::Ready(Err(state.error.take())),
        };
        drop(state);
        drop(mine);
        outcome
    }

    /// Cancels the stream. Returns the tasks that are in no inbox yet, to be discarded after a
    /// `pump`.
    pub(crate) fn cancel(&self) -> VecDeque<T> {
        let mut state = self.lock();
        state.cancelled = true;
        let waker = state.waker.take();
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        drop(waker);
        tasks
    }

    /// A task did not give its data. The producer then reports an error or releases, and either
    /// ends the stream with an error. So does an end that came before.
    pub(crate) fn task_failed(&self, error: E) {
        let mut state = self.lock();
        let unheard = match state.stage {
            ConsumerStage::Open if state.failed_task.is_none() => state.failed_task.replace(error),
            // The end, and perhaps the release, came before this task was extracted.
            ConsumerStage::Ended | ConsumerStage::Released if state.error.is_none() => {
                state.error.replace(error)
            }
            _ => Some(error),
        };
        drop(state);
        drop(unheard);
    }
}

#[derive(Clone, Copy)]
enum Call {
    Request(i64),
    Cancel,
}

impl<P: ProducerCalls, T, E: From<CallFault>> ConsumerState<P, T, E> {
    /// Takes the next call that is due.
    fn next_call<R: Rules>(&mut self) -> Option<(P, Call)> {
        let may_call = match self.stage {
            ConsumerStage::Open => true,
            ConsumerStage::Released => !R::RELEASE_ENDS_CALLS,
            ConsumerStage::Waiting | ConsumerStage::Ended | ConsumerStage::Failed => false,
        };
        let producer = self.producer.filter(|_| may_call)?;
        if self.cancelled {
            let told = std::mem::replace(&mut self.cancel_was_told, true);
            return (!told).then_some((producer, Call::Cancel));
        }
        if self.owed == 0 {
            return None;
        }
        let count = i64::try_from(self.owed).unwrap_or(i64::MAX);
        self.owed -= count.unsigned_abs();
        if R::COUNTS_BEFORE_ASKING {
            self.outstanding += count.unsigned_abs();
        }
        Some((producer, Call::Request(count)))
    }

    fn fault(&mut self, fault: CallFault) -> Refusal {
        if self.error.is_none() {
            self.error = Some(fault.into());
        }
        self.stage = ConsumerStage::Failed;
        Refusal::Fault(fault)
    }
}
