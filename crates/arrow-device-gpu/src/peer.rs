//! Reaches the memory of other devices of the same vendor.

use arrow_device::Result;

use crate::code::{PEER_ACCESS_ALREADY_ENABLED, TOO_MANY_PEERS};
use crate::driver::{Apart, lock};
use crate::{Api, GpuDriver, ReadyDevice};

impl<A: Api> GpuDriver<A> {
    /// Whether the memory of another device can be reached. The first call for a device asks the
    /// driver, and enables access; the answer is kept.
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
        let _apart = Apart::new(self.api);
        let Some(can_access) = self.api.functions().device_can_access_peer else {
            return Ok(false);
        };
        let Ok(peer) = self.api.ready(ordinal) else {
            self.api.forget_error();
            return Ok(false);
        };
        let mut answer = 0;
        // SAFETY: both are devices of this process.
        let code = unsafe { can_access(&mut answer, self.device.device, peer.device) };
        self.check(code, "reach a peer")?;
        if answer == 0 {
            return Ok(false);
        }
        match self.api.enable_peer(&peer) {
            None => Ok(false),
            Some(0) => Ok(self.reach_all(&peer)),
            Some(PEER_ACCESS_ALREADY_ENABLED) => {
                self.api.forget_error();
                Ok(self.reach_all(&peer))
            }
            // A device can have only a few peers. Data of further devices passes through the host.
            Some(TOO_MANY_PEERS) => {
                self.api.forget_error();
                Ok(false)
            }
            Some(code) => Err(self.error(code, "reach a peer")),
        }
    }

    /// Lets this device reach the memory of a peer that access to the peer does not include:
    /// mappings by hand and pools. Returns whether all of this memory is reached.
    fn reach_all(&self, peer: &ReadyDevice) -> bool {
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        if !self.reach_mappings(peer) {
            return false;
        }
        self.reach_pools(peer)
    }
}
