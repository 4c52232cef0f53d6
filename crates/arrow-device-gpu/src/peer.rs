//! Reaching the memory of other devices of the same vendor.

use std::ptr;

use arrow_device::Result;

use crate::code::PEER_ACCESS_ALREADY_ENABLED;
use crate::driver::lock;
use crate::{Api, GpuDriver, MemoryLocation, PoolAccess, ReadyDevice};

const LOCATION_DEVICE: i32 = 1;
const READ_WRITE: i32 = 3;

impl<A: Api> GpuDriver<A> {
    /// Whether the memory of another device can be reached; asks, and lets it be, once.
    pub(crate) fn reaches_peer(&self, ordinal: i64) -> Result<bool> {
        if ordinal == i64::from(self.device.ordinal) {
            return Ok(true);
        }
        if let Some((_, reaches)) = lock(&self.peers).iter().find(|(known, _)| *known == ordinal) {
            return Ok(*reaches);
        }
        let reaches = self.ask_for_peer(ordinal)?;
        lock(&self.peers).push((ordinal, reaches));
        Ok(reaches)
    }

    fn ask_for_peer(&self, ordinal: i64) -> Result<bool> {
        let Ok(ordinal) = i32::try_from(ordinal) else { return Ok(false) };
        let _entered = self.enter("reach a peer")?;
        let Some(can_access) = self.api.functions().device_can_access_peer else {
            return Ok(false);
        };
        let Ok(peer) = self.api.ready(ordinal) else { return Ok(false) };
        let mut answer = 0;
        // SAFETY: both are devices of this process.
        let code = unsafe { can_access(&mut answer, self.device.device, peer.device) };
        self.check(code, "reach a peer")?;
        if answer == 0 {
            return Ok(false);
        }
        let enabled = self.api.enable_peer(&peer);
        if enabled.is_some() {
            self.open_pool(&peer);
        }
        match enabled {
            None => Ok(false),
            Some(0) => Ok(true),
            Some(PEER_ACCESS_ALREADY_ENABLED) => {
                self.api.forget_error();
                Ok(true)
            }
            Some(code) => Err(self.error(code, "reach a peer")),
        }
    }

    /// Lets this device reach what another one allocates in the order of its streams. A device
    /// without such pools has nothing there to be reached.
    fn open_pool(&self, peer: &ReadyDevice) {
        let functions = self.api.functions();
        let (Some(default_pool), Some(set_access)) =
            (functions.default_pool, functions.set_pool_access)
        else {
            return;
        };
        let mut pool = ptr::null_mut();
        // SAFETY: a handle is written.
        if unsafe { default_pool(&mut pool, peer.device) } != 0 {
            return;
        }
        let location = MemoryLocation { kind: LOCATION_DEVICE, id: self.device.ordinal };
        let access = PoolAccess { location, flags: READ_WRITE };
        // SAFETY: one description is read.
        let _ = unsafe { set_access(pool, &access, 1) };
    }
}
