//! [`AwaitedEvent`]: an event as a future.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::waiter::{self, Ticket};
use crate::trace::told;
use crate::{Event, Result};

/// An [`Event`] as a future, which completes when the event has passed. `event.await` makes it.
///
/// No thread is blocked, and no runtime is needed. Each poll asks the event. A driver that can
/// [call back](crate::driver::Driver::notify) wakes the future. For other drivers one thread of the
/// process waits. That thread is started when it is first needed, and sleeps while nobody waits.
///
/// A future that is dropped before the event has passed leaves nothing behind.
///
/// In a child of `fork`, an event of the parent is [`Unsupported`](crate::ErrorKind::Unsupported).
/// A waker that blocks its thread delays all other futures of events. A waker that blocks in
/// [`block_on`](crate::async_stream::block_on) panics.
///
/// ```
/// use arrow_device::{Queue, async_stream};
///
/// let event = Queue::host().record()?;
/// async_stream::block_on(async { event.await })?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[must_use = "a future does nothing unless it is polled"]
pub struct AwaitedEvent {
    event: Event,
    ticket: Option<Ticket>,
}

impl AwaitedEvent {
    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

impl Future for AwaitedEvent {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match self.event.is_complete() {
            Ok(false) => {}
            over => {
                self.ticket = None;
                return Poll::Ready(over.map(|_| ()));
            }
        }
        let waker = context.waker();
        if !self.ticket.as_ref().is_some_and(|ticket| ticket.renew(waker)) {
            self.ticket = None;
            told!(device = %self.event.device().id(), "await");
            match waiter::when_passed(&self.event, waker) {
                Ok(ticket) => self.ticket = Some(ticket),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }
}

impl fmt::Debug for AwaitedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Awaited{:?}", self.event)
    }
}

impl IntoFuture for Event {
    type Output = Result<()>;
    type IntoFuture = AwaitedEvent;

    fn into_future(self) -> AwaitedEvent {
        AwaitedEvent { event: self, ticket: None }
    }
}

impl IntoFuture for &Event {
    type Output = Result<()>;
    type IntoFuture = AwaitedEvent;

    fn into_future(self) -> AwaitedEvent {
        self.clone().into_future()
    }
}
