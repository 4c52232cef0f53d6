//! When the data of an array may be used, and who waits: the host, or a queue.

use super::readiness::Pending;
use super::tree::Tree;
use super::{Array, View};
use crate::device::driver::Driver;
use crate::{Device, Error, ErrorKind, Queue, Result, process};

/// When an array's data may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ready {
    /// At once.
    Now,
    /// After one event.
    AfterEvent,
    /// After several: columns with different events were put together. [`Array::export_on`] joins
    /// them.
    AfterEvents(usize),
}

impl Array {
    /// When the data may be used. Asks no device.
    pub fn ready(&self) -> Ready {
        match self.tree.ready.pending() {
            [] => Ready::Now,
            [_] => Ready::AfterEvent,
            several => Ready::AfterEvents(several.len()),
        }
    }

    /// Whether the data may be used by now. Asks the device where there is an event; never waits.
    pub fn is_ready(&self) -> Result<bool> {
        let pending = self.tree.ready.pending();
        for pending in pending {
            let passed = match pending {
                Pending::Event(event) => event.is_complete(),
                Pending::Foreign(_) => self.with_foreign_event(pending, |driver, event| {
                    // SAFETY: `with_foreign_event` gives a live event of this driver's runtime.
                    unsafe { driver.is_complete(event) }
                }),
            }?;
            if !passed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits on the host until the data may be used.
    ///
    /// For an array that came with an event of its own this needs the device to be open in this
    /// process, as [`Device::new`] does; whoever has a queue uses [`on`](Self::on) instead and does
    /// not wait at all.
    pub fn wait(&self) -> Result<()> {
        self.tree.ready.pending().iter().try_for_each(|pending| match pending {
            Pending::Event(event) => event.synchronize(),
            Pending::Foreign(_) => self.with_foreign_event(pending, |driver, event| {
                // SAFETY: `with_foreign_event` gives a live event of this driver's runtime.
                unsafe { driver.wait_on_host(event, None) }.map(|_| ())
            }),
        })
    }

    fn with_foreign_event<T>(
        &self,
        pending: &Pending,
        ask: impl FnOnce(&dyn Driver, crate::device::driver::Raw<crate::Event>) -> Result<T>,
    ) -> Result<T> {
        let device = self.open_device()?;
        match pending {
            Pending::Event(event) => ask(&**device.driver(), event.raw()),
            Pending::Foreign(sync_event) => {
                // SAFETY: the `sync_event` of an array on this device that the tree keeps alive.
                let event = unsafe { device.driver().read_sync_event(*sync_event) }?;
                ask(&**device.driver(), event)
            }
        }
    }

    pub(crate) fn open_device(&self) -> Result<Device> {
        self.tree.check_process()?;
        self.tree.open_device().ok_or_else(|| {
            let message = if Device::find(self.device()).is_some() {
                "several runtimes were open by this id, and none says that the memory is its own"
            } else {
                "this device is not open in this process; open it, or name a queue"
            };
            Error::new(ErrorKind::DeviceMissing, message).on_device(self.device())
        })
    }

    /// Orders a queue behind the data and tells where the buffers are.
    ///
    /// Costs one wait for each queue and array, however often it is asked, and none where the data
    /// was ready from the start. The memory is kept until the queue has passed what is submitted
    /// before the view is dropped, whatever happens to the array.
    pub fn on(&self, queue: &Queue) -> Result<View> {
        View::new(self, queue)
    }
}

impl Tree {
    /// An error in a child of `fork` for data on a device of its parent.
    fn check_process(&self) -> Result<()> {
        if self.is_of_the_parents_device() {
            return Err(process::of_the_parent().on_device(self.device));
        }
        Ok(())
    }

    /// Makes a queue wait until the data is ready, unless it does already.
    pub(crate) fn order(&self, queue: &Queue) -> Result<()> {
        self.require_reach(queue)?;
        self.check_process()?;
        let pending = self.ready.pending();
        if pending.is_empty() || self.notes.lock(|notes| &notes.waited).contains(&queue.number()) {
            return Ok(());
        }
        pending.iter().try_for_each(|pending| self.wait_for(queue, pending))?;
        let mut waited = self.notes.lock(|notes| &notes.waited);
        if !waited.contains(&queue.number()) {
            waited.push(queue.number());
        }
        Ok(())
    }

    /// Whether work on a queue may touch the data.
    pub(crate) fn require_reach(&self, queue: &Queue) -> Result<()> {
        // SAFETY: this tree keeps the memory.
        unsafe { queue.reaches_memory(self.device, || self.any_memory()) }
    }

    pub(crate) fn wait_for(&self, queue: &Queue, pending: &Pending) -> Result<()> {
        match pending {
            Pending::Event(event) => queue.wait(event),
            // SAFETY: the pointer is the `sync_event` of an array that `storage` keeps alive, and
            // `order` and `export_on` asked whether the queue reaches its device.
            Pending::Foreign(sync_event) => unsafe { queue.wait_for_foreign(*sync_event) },
        }
    }
}
