//! Submits copies that are made later.

use std::sync::Arc;

use arrow_device::driver::{Driver, Raw, Region, Route, Spot};
use arrow_device::{ErrorKind, Memory, Queue, Result};

use super::Fault;
use super::driver::{FaultyDriver, PATTERN};
use super::late::{LateCopy, LateRoute, require_inside};
use super::shared::FaultyState;

/// How many bytes of fresh memory hold the pattern.
const PATTERN_LEN: u64 = 64 << 10;

impl FaultyDriver {
    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`] has it.
    pub(super) unsafe fn copy_late(
        &self,
        queue: Raw<Queue>,
        route: Route<'_>,
        regions: &[Region],
        left: Vec<Region>,
    ) -> Result<()> {
        let mut state = self.shared.state();
        if self.has(Fault::CopyWaits) {
            let FaultyState { lines, blocks, .. } = &mut *state;
            let end = lines.end(&self.inner, queue);
            lines.run(end, blocks)?;
        }
        for region in regions.iter().chain(&left).filter(|region| region.len > 0) {
            require_inside(&route, region, &state.blocks, self.addressing(), &*self.inner)?;
        }
        let late_route = match route {
            Route::ToHost => LateRoute::ToHost,
            Route::Within => LateRoute::Within,
            Route::FromPeer(peer) => {
                let is_it = |member: &&Arc<dyn Driver>| member.id() == peer.id();
                let member = self.shared.members.iter().find(is_it);
                let unknown = || self.error(ErrorKind::NotReachable, "it was not wrapped along");
                LateRoute::FromPeer(member.ok_or_else(unknown)?.clone())
            }
            _ => {
                let bytes = left.iter().map(|region| {
                    let from = region.from.base.as_ptr().cast::<u8>();
                    let from = from.wrapping_add(region.from.offset as usize);
                    // SAFETY: UNS-21: the source can be read until the queue has passed the copy.
                    unsafe { std::slice::from_raw_parts(from, region.len as usize) }.to_vec()
                });
                LateRoute::FromHost(bytes.collect())
            }
        };
        if let (true, LateRoute::FromHost(bytes)) = (self.has(Fault::StagingRecycled), &late_route)
        {
            state.lines.recycle_staging(&self.inner, queue, bytes);
        }
        // With the fault that nobody waits for the clearing of memory, the memory is cleared behind
        // the first copy to it.
        let mut to_clear = Vec::new();
        for region in &left {
            let place = state.blocks.place(region.to, self.addressing());
            let block = place.filter(|_| !matches!(route, Route::ToHost)).map(|place| place.block);
            let found = block.and_then(|block| state.blocks.get_mut(block));
            if let (Some(memory), Some(found)) = (block, found)
                && std::mem::take(&mut found.is_to_clear)
            {
                to_clear.push((memory, found.len));
            }
        }
        let asked = regions.to_vec();
        state.lines.copy(&self.inner, queue, LateCopy { route: late_route, regions: left, asked });
        for (memory, len) in to_clear {
            let (bytes, region) = clearing(memory, len);
            let (route, asked) = (LateRoute::FromHost(vec![bytes]), Vec::new());
            state.lines.copy(&self.inner, queue, LateCopy { route, regions: vec![region], asked });
        }
        Ok(())
    }
}

/// Returns the pattern, and the region that it is copied to.
pub(super) fn clearing(memory: Raw<Memory>, len: u64) -> (Vec<u8>, Region) {
    let len = len.min(PATTERN_LEN);
    let spot = Spot { base: memory, offset: 0 };
    (vec![PATTERN; len as usize], Region { from: spot, to: spot, len })
}
