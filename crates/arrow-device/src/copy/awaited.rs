//! [`AwaitedCopy`]: a copy as a future that is woken when it can go on.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::options::Options;
use super::polled::PolledCopy;
use crate::clock::pause;
use crate::device::waiter;
use crate::{Array, Batch, Event, Queue, Result};

/// How long an awaited copy pauses where no event will tell it to go on, as where it finds no
/// memory.
const PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    /// What the copy that this thread polls at the moment does where it cannot go on.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Polled) };
}

/// What a copy does where it cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The copy returns, and wakes nobody.
    Polled,
    /// The copy returns, and its waker is woken when it can go on.
    Awaited,
    /// The copy blocks the thread.
    Blocking,
}

impl Mode {
    /// Sets the mode of all copies that this thread polls, until the result is dropped.
    pub(super) fn begin(self) -> ModeBefore {
        ModeBefore(MODE.replace(self))
    }
}

/// The mode that was set before, which is set again on drop.
pub(super) struct ModeBefore(Mode);

impl Drop for ModeBefore {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

/// Completes when the event has passed. A copy that is polled and not awaited asks about the event
/// once at each poll, and wakes nobody.
pub(super) async fn passed(event: &Event) -> Result<()> {
    let mut awaited = event.into_future();
    poll_fn(|context| match MODE.get() {
        Mode::Awaited => Pin::new(&mut awaited).poll(context),
        Mode::Polled => polled(event.is_complete()),
        Mode::Blocking => Poll::Ready(event.synchronize()),
    })
    .await
}

/// Completes when the data may be used. Asks and wakes as [`passed`] does.
pub(super) async fn ready(array: &Array) -> Result<()> {
    let mut awaited = array.until_ready();
    poll_fn(|context| match MODE.get() {
        Mode::Awaited => Pin::new(&mut awaited).poll(context),
        Mode::Polled => polled(array.is_ready()),
        Mode::Blocking => Poll::Ready(array.wait()),
    })
    .await
}

/// Completes when the queue is ordered behind the array. The host waits for nothing that the queue
/// can wait for.
pub(super) async fn ordered(array: &Array, queue: &Queue) -> Result<()> {
    let mut seen_to = 0;
    loop {
        if array.tree().is_ordered(queue, &mut seen_to)? {
            return Ok(());
        }
        if MODE.get() != Mode::Polled && !array.is_ready()? {
            ready(array).await?;
        } else {
            next_poll().await?;
        }
    }
}

/// Completes at the next poll. An awaited copy is woken for that poll soon, and a blocking one goes
/// on after a pause.
pub(super) async fn next_poll() -> Result<()> {
    let mut ticket = None;
    let mut is_next = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_next, true) {
            return Poll::Ready(Ok(()));
        }
        match MODE.get() {
            Mode::Polled => {}
            Mode::Awaited => match waiter::when_over(PAUSE, context.waker()) {
                Ok(taken) => ticket = Some(taken),
                Err(error) => return Poll::Ready(Err(error)),
            },
            Mode::Blocking => {
                pause(PAUSE);
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Pending
    })
    .await
}

fn polled(answer: Result<bool>) -> Poll<Result<()>> {
    match answer {
        Ok(true) => Poll::Ready(Ok(())),
        Ok(false) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    }
}

/// A [`PolledCopy`] as a future that is woken when it can go on. `copy.await`,
/// [`Array::to_host_async`] and [`Array::copy_to_async`] make it.
///
/// The copy waits for events as [`AwaitedEvent`](crate::AwaitedEvent) does: no thread is blocked,
/// and no runtime is needed. Dropping the future before it completes gives the copy up, as dropping
/// a [`PolledCopy`] does.
#[must_use = "a copy that is dropped is given up"]
pub struct AwaitedCopy(PolledCopy);

impl Future for AwaitedCopy {
    type Output = Result<Array>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Array>> {
        let _before = Mode::Awaited.begin();
        match self.0.poll_in(context) {
            Ok(Some(array)) => Poll::Ready(Ok(array)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl fmt::Debug for AwaitedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl IntoFuture for PolledCopy {
    type Output = Result<Array>;
    type IntoFuture = AwaitedCopy;

    fn into_future(self) -> AwaitedCopy {
        AwaitedCopy(self)
    }
}

impl Array {
    /// [`to_host`](Self::to_host) without a blocked thread. The copy begins at once, and goes on
    /// when the future is polled.
    ///
    /// ```
    /// use arrow_device::{Array, DataType, async_stream};
    ///
    /// let numbers = Array::from_values(DataType::Int8, [Some(1_i8), None])?;
    /// let fetched = async_stream::block_on(numbers.to_host_async())?;
    /// assert!(fetched.equals(&numbers)?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn to_host_async(&self) -> AwaitedCopy {
        self.copy_to_async(&Queue::host())
    }

    /// [`copy_to`](Self::copy_to) without a blocked thread. The copy begins at once, and goes on
    /// when the future is polled. The future completes as soon as all work is submitted. Its result
    /// is ready after an event: see [`until_ready`](Self::until_ready).
    pub fn copy_to_async(&self, queue: &Queue) -> AwaitedCopy {
        AwaitedCopy(PolledCopy::begun(self.copy_polled(queue, &Options::new())))
    }
}

impl Batch {
    /// [`to_host`](Self::to_host) without a blocked thread: see [`Array::to_host_async`].
    pub fn to_host_async(&self) -> impl Future<Output = Result<Self>> + Send + 'static {
        let copy = self.as_array().to_host_async();
        async { Self::try_from(copy.await?) }
    }

    /// [`copy_to`](Self::copy_to) without a blocked thread: see [`Array::copy_to_async`].
    pub fn copy_to_async(
        &self,
        queue: &Queue,
    ) -> impl Future<Output = Result<Self>> + Send + 'static {
        let copy = self.as_array().copy_to_async(queue);
        async { Self::try_from(copy.await?) }
    }

    /// Returns a future that completes when the data may be used: see [`Array::until_ready`].
    pub fn until_ready(&self) -> crate::ArrayReady {
        self.as_array().until_ready()
    }
}
