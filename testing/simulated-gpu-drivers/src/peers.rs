//! Which device belongs to which memory, stream and context, where that has to fit.

use arrow_device_sim::hardware::Placement;

use crate::code::{Answer, Code};
use crate::machine::Machine;

impl Machine {
    /// A device gets access to the memory of another one.
    pub(crate) fn enable_peer(&mut self, device: usize, peer: usize) -> Answer {
        self.device(peer)?;
        if device == peer {
            return Err(Code::INVALID_DEVICE);
        }
        if !self.config.peers {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let state = self.device(device)?;
        if state.peers.contains(&peer) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        state.peers.push(peer);
        self.hardware.give_access(device, peer, Placement::Device);
        Ok(())
    }

    /// One end of a copy between devices has to be memory of the device that is named.
    pub(crate) fn must_be_at_home(&mut self, address: usize, device: usize) -> Answer {
        match self.pointer(address) {
            Some(found) if found.device == device => Ok(()),
            Some(_) => Err(self.misuse(
                "WrongContext",
                Code::INVALID_VALUE,
                "A copy between devices names another device than the one that its memory is on.",
            )),
            None => Err(Code::INVALID_VALUE),
        }
    }

    /// Kernels run on streams of the current context only.
    pub(crate) fn must_be_of(&mut self, stream: usize, device: usize) -> Answer {
        let stream = self.stream(Some(device), stream)?;
        if self.context_of(stream)? == self.context_here(device) {
            return Ok(());
        }
        Err(self.misuse(
            "WrongContext",
            Code::INVALID_HANDLE,
            "A kernel is launched on a stream of another context than the current one.",
        ))
    }
}
