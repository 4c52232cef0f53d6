//! The sizes of the data buffers of a foreign view array, wherever its producer left them.
//!
//! The interface does not say where they are. Most producers leave them in host memory, and at
//! least one on the device. The runtimes of some types of device can say which it is, and are asked
//! when a size is needed and not before.

use std::ffi::c_void;

use super::Array;
use crate::device::driver::{Raw, Region, Route, Spot};
use crate::{DeviceType, Error, ErrorKind, Extent, Queue, Result};

/// Sizes that lie in the memory of the array's device.
pub(crate) struct SizesOnDevice {
    /// The number of the node in its tree.
    pub(crate) node: u32,
    pub(crate) spot: Spot,
    pub(crate) count: usize,
}

impl Array {
    /// The sizes of this array and of all below it for which the device has to be read. The queue
    /// reaches the memory.
    pub(crate) fn sizes_on_device(&self, queue: &Queue) -> Result<Vec<SizesOnDevice>> {
        let mut found = Vec::new();
        for array in self.nodes_below()? {
            let count = array.data_buffer_count();
            let sizes = array.node().buffer(array.buffer_count().saturating_sub(1));
            let is_known = count == 0 || matches!(array.extent(2), Extent::Exact(_));
            if !is_known && !sizes.is_null() && self.queue_to_read(sizes, Some(queue))?.is_some() {
                let spot = Spot { base: Raw::from_ptr(sizes.cast_mut()), offset: 0 };
                found.push(SizesOnDevice { node: array.node_number(), spot, count });
            }
        }
        Ok(found)
    }

    /// Whether arrays on devices of this type may have sizes in the memory of the device.
    pub(crate) fn may_have_sizes_on_device(&self) -> bool {
        classifies_addresses(self.device().device_type)
    }

    /// A size that was read, refused where it is negative.
    pub(crate) fn checked_size(&self, number: usize, size: i64) -> Result<u64> {
        u64::try_from(size).map_err(|_| {
            let message = format!("the size of data buffer {number} is {size}");
            Error::new(ErrorKind::InvalidData, message).on_device(self.device())
        })
    }

    /// Reads one of the sizes at this address, which is host memory or memory of the array's
    /// device. A queue that reaches the memory tells which of the two it is. Without a queue, the
    /// array's device does.
    pub(super) fn read_size(&self, address: *const i64, queue: Option<&Queue>) -> Result<i64> {
        if let Some(queue) = self.queue_to_read(address.cast(), queue)? {
            return self.read_size_on(&queue, address);
        }
        // SAFETY: UNS-3: the buffer of sizes has "an int64 for each variadic buffer", in host
        // memory unless the device's runtime says otherwise; it need not be aligned.
        Ok(unsafe { address.read_unaligned() })
    }

    /// A queue to read the size with, where the size lies in memory of a device.
    fn queue_to_read(
        &self,
        address: *const c_void,
        queue: Option<&Queue>,
    ) -> Result<Option<Queue>> {
        if !classifies_addresses(self.device().device_type) {
            return Ok(None);
        }
        // In a child of `fork` nobody can be asked.
        self.tree().check_process()?;
        let tells = |queue: &&Queue| classifies_addresses(queue.device().id().device_type);
        let queue = match queue.filter(tells) {
            Some(queue) => queue.clone(),
            None => self.open_device()?.open_queue()?,
        };
        // SAFETY: a buffer of this array, which is alive.
        let found = unsafe { queue.device().driver().locate(Raw::from_ptr(address.cast_mut())) }?;
        // What lies in pinned memory was there before the array was, as in plain memory. What lies
        // in managed memory may be data that work still writes.
        let is_on_device = found.is_some_and(|found| {
            !matches!(found.device.device_type, DeviceType::CUDA_HOST | DeviceType::ROCM_HOST)
        });
        Ok(is_on_device.then_some(queue))
    }

    fn read_size_on(&self, queue: &Queue, address: *const i64) -> Result<i64> {
        let mut bytes = Box::new([0_u8; 8]);
        let from = Spot { base: Raw::from_ptr(address.cast_mut().cast()), offset: 0 };
        let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
        let view = self.on(queue)?;
        // SAFETY: UNS-21: the view orders the queue behind the data and keeps the array; both sides
        // have 8 bytes, and the host's are kept until the queue has passed, by the wait or below.
        let submitted = unsafe { queue.copy(Route::ToHost, &[Region { from, to, len: 8 }]) };
        let read = submitted.and_then(|()| queue.synchronize());
        drop(view);
        if let Err(error) = read {
            queue.keep_until_done(bytes);
            return Err(error);
        }
        Ok(i64::from_ne_bytes(*bytes))
    }
}

/// Whether the runtime can be asked about any address, host memory included.
fn classifies_addresses(device_type: DeviceType) -> bool {
    matches!(
        device_type,
        DeviceType::CUDA
            | DeviceType::CUDA_HOST
            | DeviceType::CUDA_MANAGED
            | DeviceType::ROCM
            | DeviceType::ROCM_HOST
    )
}
