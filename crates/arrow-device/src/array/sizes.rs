//! The sizes of the data buffers of a foreign view array, wherever its producer left them.
//!
//! The interface does not say where they are. Most producers leave them in host memory, and at
//! least one on the device. The runtimes of some types of device can say which it is, and are asked
//! when a size is needed and not before.

use std::ffi::c_void;

use super::Array;
use crate::device::driver::{HostAccess, Raw, Region, Route, Spot};
use crate::{Device, DeviceType, Queue, Result};

impl Array {
    /// One of the sizes, which lies at this address of host memory, or of the array's device.
    pub(super) fn read_size(&self, address: *const i64) -> Result<i64> {
        if let Some(queue) = self.queue_to_read(address.cast())? {
            return self.read_size_on(&queue, address);
        }
        // SAFETY: UNS-3: the buffer of sizes has "an int64 for each variadic buffer", in host
        // memory unless the device's runtime says otherwise; it need not be aligned.
        Ok(unsafe { address.read_unaligned() })
    }

    /// A queue of the array's device, if the host cannot read there.
    fn queue_to_read(&self, address: *const c_void) -> Result<Option<Queue>> {
        if !classifies_addresses(self.device().device_type) {
            return Ok(None);
        }
        let Some(device) = Device::find(self.device()) else { return Ok(None) };
        // SAFETY: a buffer of this array, which is alive.
        let found = unsafe { device.driver().locate(Raw::from_ptr(address.cast_mut())) }?;
        let is_hidden = found.is_some_and(|found| {
            let there = Device::find(found.device);
            // Of what is not open only device memory is out of the host's reach.
            there.map_or(found.device.device_type == self.device().device_type, |there| {
                there.properties().host_access == HostAccess::None
            })
        });
        if is_hidden { device.open_queue().map(Some) } else { Ok(None) }
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

/// Whether the runtime can be asked about any address, of host memory too.
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
