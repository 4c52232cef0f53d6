//! [`Owner`]: a value of another party that keeps something alive.

use std::mem::ManuallyDrop;

use super::allocator::Allocator;
use super::{Device, Memory, Queue, deferred, nesting};
use crate::process::{self, MadeIn};
use crate::{DeviceId, DeviceType, Result, unwind};

/// A value of the caller's, whose drop is foreign code: a panic in the drop is stopped and counted.
/// An owner of something on a device is not dropped in a child of `fork`, where the device is not
/// open.
pub(crate) struct Owner<T: 'static> {
    /// The process that the owner belongs to. `None` for an owner on the host, which every process
    /// may drop.
    made_in: Option<MadeIn>,
    what: ManuallyDrop<T>,
}

impl<T: 'static> Owner<T> {
    /// The owner of something on this device.
    pub(crate) fn on(device: DeviceId, what: T) -> Self {
        let is_host = device.device_type == DeviceType::CPU;
        let made_in = if is_host { None } else { Some(MadeIn::watched()) };
        Self { made_in, what: ManuallyDrop::new(what) }
    }

    /// The owner of something that every process may use.
    pub(crate) fn in_any_process(what: T) -> Self {
        Self { made_in: None, what: ManuallyDrop::new(what) }
    }
}

impl<A: Allocator> Allocator for Owner<A> {
    fn allocate(&self, device: &Device, len: u64, queue: Option<&Queue>) -> Result<Memory> {
        if !self.made_in.is_none_or(MadeIn::is_this) {
            // The allocator may wait for a lock that another thread of the parent held.
            return Err(process::of_the_parent().during("allocate"));
        }
        self.what.allocate(device, len, queue)
    }
}

impl<T: 'static> Drop for Owner<T> {
    #[inline]
    fn drop(&mut self) {
        let what = &mut self.what;
        let is_dropped = self.made_in.is_none_or(MadeIn::is_this)
            && unwind::is_well(|| {
                // SAFETY: dropped once, here, and `self` is being dropped.
                unsafe { nesting::drop_bounded(what) }
            });
        if !is_dropped {
            deferred::count_abandoned();
        }
    }
}
