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

/// How long an awaited copy waits that has nothing to be told of, as one without memory.
const PAUSE: Duration = Duration::from_millis(1);

thread_local! {
    /// How the copy that this thread polls at the moment goes on.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Polled) };
}

/// What a copy does where it cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It comes back, and wakes nobody.
    Polled,
    /// It comes back, and has its waker woken.
    Awaited,
    /// It waits.
    Blocking,
}

impl Mode {
    /// The mode of all copies that this thread polls as long as the result is there.
    pub(super) fn begin(self) -> ModeBefore {
        ModeBefore(MODE.replace(self))
    }
}

/// The mode to go back to.
pub(super) struct ModeBefore(Mode);

impl Drop for ModeBefore {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

/// Comes back when the event has passed. Where the copy is polled and not awaited, it asks once at
/// each poll and wakes nobody.
pub(super) async fn passed(event: &Event) -> Result<()> {
    let mut awaited = event.into_future();
    poll_fn(|context| match MODE.get() {
        Mode::Awaited => Pin::new(&mut awaited).poll(context),
        Mode::Polled => polled(event.is_complete()),
        Mode::Blocking => Poll::Ready(event.synchronize()),
    })
    .await
}

/// Comes back when the data may be used, in the same way.
pub(super) async fn ready(array: &Array) -> Result<()> {
    let mut awaited = array.until_ready();
    poll_fn(|context| match MODE.get() {
        Mode::Awaited => Pin::new(&mut awaited).poll(context),
        Mode::Polled => polled(array.is_ready()),
        Mode::Blocking => Poll::Ready(array.wait()),
    })
    .await
}

/// Comes back when the queue is ordered behind the array. The host waits for nothing that the queue
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

/// Comes back at the next poll, which comes soon where the copy is awaited; or after a pause.
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

/// A [`PolledCopy`] as a future that is woken when it can go on: made by `copy.await`, by
/// [`Array::to_host_async`] and by [`Array::copy_to_async`].
///
/// The copy waits for events as [`AwaitedEvent`](crate::AwaitedEvent) does: no thread is blocked,
/// and no runtime is needed. Dropped before the end, the copy is given up as a [`PolledCopy`] is.
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
    /// when the future is polled. The result is there as soon as all work is submitted, and is
    /// ready after an event: see [`until_ready`](Self::until_ready).
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

    /// Comes back when the data may be used: see [`Array::until_ready`].
    pub fn until_ready(&self) -> crate::ArrayReady {
        self.as_array().until_ready()
    }
}
