//! Which device belongs to which memory, stream and context, where that has to fit.

use arrow_device_sim::hardware::Placement;

use crate::call::entries;
use crate::code::{Answer, Code};
use crate::machine::Machine;

/// Who is to have what access to a pool: a kind of place (1 for a device), its number, and the
/// rights (3 for all).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    place: i32,
    number: i32,
    rights: i32,
}

const DEVICE: i32 = 1;
const ALL: i32 = 3;

impl Machine {
    /// The handle of a device's default pool.
    pub(crate) fn pool(&mut self, device: i32) -> Answer<usize> {
        let device = self.device_number(device)?;
        if !self.config.pools {
            return Err(Code::NOT_SUPPORTED);
        }
        Ok(self.context(device) + 8)
    }

    /// Gives devices access to a pool. Only what the list names with all rights has it then; taking
    /// it back is not done here.
    ///
    /// # Safety
    /// The list has that many entries.
    pub(crate) unsafe fn give_pool(
        &mut self,
        pool: usize,
        list: *const Access,
        count: usize,
    ) -> Answer {
        let home = (0..self.devices.len()).find(|device| self.context(*device) + 8 == pool);
        let Some(home) = home.filter(|_| !list.is_null()) else { return Err(Code::INVALID_VALUE) };
        // SAFETY: the list has that many entries, as the caller promises.
        for access in unsafe { entries(list, count) } {
            let device = self.device_number(access.number)?;
            if access.place != DEVICE || !matches!(access.rights, 0 | ALL) {
                return Err(Code::INVALID_VALUE);
            }
            if device != home && !self.config.peers {
                return Err(Code::INVALID_DEVICE);
            }
            if access.rights == ALL {
                self.hardware.give_access(device, home, Placement::Pooled);
            }
        }
        Ok(())
    }

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
        let (_, home) = self.lane(stream)?;
        if home == device {
            return Ok(());
        }
        Err(self.misuse(
            "WrongContext",
            Code::INVALID_HANDLE,
            "A kernel is launched on a stream of another context than the current one.",
        ))
    }
}
