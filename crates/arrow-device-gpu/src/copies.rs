//! Submits copies: one by one, or a list of them in one call.
//!
//! Two or more copies are first tried in one call, which costs less for many small copies. Where
//! the driver does not take the list, the same copies are submitted one by one, and so are copies
//! from another device and copies on the legacy default stream.

use arrow_device::DeviceId;
use arrow_device::driver::{Region, Route};

use crate::code::{INVALID_VALUE, NOT_SUPPORTED};
use crate::copy_list::address;
use crate::{Api, Code, CopyList, GpuDriver, Handle, Kind};

const LEGACY_STREAM: usize = 1;

impl<A: Api> GpuDriver<A> {
    /// Submits all copies in one call. `None` where there is only one copy, or no function for a
    /// list.
    ///
    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`](arrow_device::driver::Driver::copy) has them, in an
    /// entered device.
    pub(crate) unsafe fn copy_all(
        &self,
        stream: Handle,
        route: Route<'_>,
        regions: &[Region],
    ) -> Option<Code> {
        let is_peer = matches!(route, Route::FromPeer(peer) if self.is_elsewhere(peer.id()));
        // The manual forbids the legacy default stream for this function.
        if !self.batches || regions.len() < 2 || is_peer || stream.addr() <= LEGACY_STREAM {
            return None;
        }
        let mut list = CopyList::new(regions);
        // SAFETY: UNS-21 and UNS-22, which the caller promises.
        let code = match unsafe { self.api.copy_list(&mut list, stream) } {
            Some(code) => code,
            // SAFETY: UNS-21 and UNS-22, which the caller promises.
            None => unsafe { list.submit(self.api.functions(), stream) }?,
        };
        // A driver may have the function and not the ability, or not for this kind of host memory.
        // Then the copies are submitted one by one. If the copies themselves are wrong, that fails
        // too.
        if matches!(code, INVALID_VALUE | NOT_SUPPORTED) {
            self.api.forget_error();
            return None;
        }
        Some(code)
    }

    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`](arrow_device::driver::Driver::copy) has them, in an
    /// entered device.
    pub(crate) unsafe fn copy_one(
        &self,
        stream: Handle,
        route: Route<'_>,
        region: &Region,
    ) -> Code {
        let functions = self.api.functions();
        let (to, from) = (address(region.to), address(region.from));
        let len = region.len as usize;
        let own = self.kind == Kind::Device;
        match route {
            // SAFETY: UNS-21 and UNS-22, which the caller promises.
            Route::FromHost if own => unsafe {
                (functions.memcpy_host_to_device)(to, from, len, stream)
            },
            // SAFETY: UNS-21 and UNS-22, which the caller promises.
            Route::ToHost if own => unsafe {
                (functions.memcpy_device_to_host)(to, from, len, stream)
            },
            // SAFETY: UNS-21 and UNS-22, which the caller promises.
            Route::Within if own => unsafe {
                (functions.memcpy_device_to_device)(to, from, len, stream)
            },
            Route::FromPeer(peer) if self.is_elsewhere(peer.id()) => {
                let ordinal = i32::try_from(peer.id().id).unwrap_or(i32::MAX);
                let there = match self.api.ready(ordinal) {
                    Ok(there) => there,
                    Err(code) => return code,
                };
                let (to, from) = ((to, &self.device), (from, &there));
                // SAFETY: UNS-21 and UNS-22, which the caller promises.
                let code = unsafe { self.api.copy_from_peer(to, from, len, stream) };
                code.unwrap_or_else(|| {
                    // SAFETY: UNS-21 and UNS-22, which the caller promises.
                    unsafe { self.api.copy(to.0, from.0, len, stream) }
                })
            }
            // SAFETY: UNS-21 and UNS-22, which the caller promises. Where all memory has one range
            // of addresses, these tell where each side is.
            _ => unsafe { self.api.copy(to, from, len, stream) },
        }
    }

    /// Whether this is the memory of another device, and not of the host.
    fn is_elsewhere(&self, memory: DeviceId) -> bool {
        memory.device_type == self.api.vendor().device
            && memory.id != i64::from(self.device.ordinal)
    }
}
