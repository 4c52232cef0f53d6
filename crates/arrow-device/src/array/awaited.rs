//! [`ArrayReady`]: the readiness of an array as a future.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::Array;
use super::readiness::Pending;
use crate::{AwaitedEvent, Event, Result};

/// A future that completes when the data of an array may be used. [`Array::until_ready`] makes it.
///
/// The future awaits the array's events one after the other, each as [`AwaitedEvent`] does. A
/// future that is dropped before it completes leaves nothing behind.
#[must_use = "a future does nothing unless it is polled"]
pub struct ArrayReady {
    array: Array,
    /// The events that are left. `None` until the future is polled for the first time.
    events: Option<VecDeque<AwaitedEvent>>,
}

impl Array {
    /// Returns a future that completes when the data may be used: [`wait`](Self::wait) without a
    /// blocked thread.
    ///
    /// This needs the device to be open in this process where [`wait`](Self::wait) does. Whoever
    /// has a queue uses [`on`](Self::on) instead, where the queue waits.
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

    /// The events after which the data is ready, each as a future.
    fn awaited_events(&self) -> Result<VecDeque<AwaitedEvent>> {
        let pending = self.tree().known_pending()?;
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
                // After a failure, the next poll asks the array for its events again.
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
