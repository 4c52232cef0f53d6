//! [`ArrayReady`]: the readiness of an array as a future.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::Array;
use super::readiness::Pending;
use crate::{AwaitedEvent, Event, Result};

/// Comes back when the data of an array may be used: made by [`Array::until_ready`].
///
/// The events are awaited one after the other, as [`AwaitedEvent`] does. Dropped before the end,
/// the future leaves nothing behind.
#[must_use = "a future does nothing unless it is polled"]
pub struct ArrayReady {
    array: Array,
    /// What is left, once the future was polled.
    events: Option<VecDeque<AwaitedEvent>>,
}

impl Array {
    /// Comes back when the data may be used, without a blocked thread: [`wait`](Self::wait), to be
    /// awaited.
    ///
    /// For an array that came with an event of its own this needs the device to be open in this
    /// process. Whoever has a queue uses [`on`](Self::on) instead, where the queue waits.
    ///
    /// ```
    /// use arrow_device::{Array, DataType, async_stream};
    ///
    /// let numbers = Array::from_values(DataType::Int8, [Some(1_i8), None])?;
    /// async_stream::block_on(numbers.until_ready())?;
    /// assert!(numbers.is_ready()?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn until_ready(&self) -> ArrayReady {
        ArrayReady { array: self.clone(), events: None }
    }

    /// What the data is ready after, to be awaited.
    fn awaited_events(&self) -> Result<VecDeque<AwaitedEvent>> {
        let pending = self.tree().pending()?;
        let awaited = pending.iter().map(|pending| match pending {
            Pending::Event(event) => Ok(event.into_future()),
            Pending::Foreign(sync_event) => {
                let device = self.open_device()?;
                // SAFETY: the `sync_event` of an array on this device that the tree keeps alive
                // (UNS-5).
                let raw = unsafe { device.driver().read_sync_event(*sync_event) }?;
                // SAFETY: the event lives as long as the array (UNS-5), which is its owner here.
                let event = unsafe { Event::adopt_of(&device, raw, self.clone()) };
                Ok(event.into_future())
            }
        });
        awaited.collect()
    }
}

impl Future for ArrayReady {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Self { array, events } = &mut *self;
        let left = match events {
            Some(left) => left,
            None => match array.awaited_events() {
                Ok(all) => events.insert(all),
                Err(error) => return Poll::Ready(Err(error)),
            },
        };
        while let Some(first) = left.front_mut() {
            if let Err(error) = ready!(Pin::new(first).poll(context)) {
                // Whoever polls once more asks the array again.
                *events = None;
                return Poll::Ready(Err(error));
            }
            left.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for ArrayReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayReady").field("array", &self.array).finish_non_exhaustive()
    }
}
