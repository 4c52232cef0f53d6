//! Memory that the host maps to fill it, instead of copying. Only kinds whose memory the host can
//! read do that.
//!
//! What the host wrote arrives in the order of the queue that the mapping was for. Until then, the
//! memory looks like the destination of a pending copy.

use std::ops::Range;
use std::ptr::NonNull;

use arrow_device::driver::{Filled, Raw, Spot};
use arrow_device::{Queue, Result};

use crate::engine::{EngineState, misuse};
use crate::fault::Call;
use crate::queue::{Piece, Side, Work};
use crate::report::{Mistake, Report};
use crate::site::RawSite;
use crate::span::Span;
use crate::submit::NOT_YET;
use crate::track::{Access, What};

impl EngineState {
    pub(crate) fn map_to_fill(
        &mut self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        site: RawSite,
    ) -> Result<Option<NonNull<u8>>> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "map to fill", site)?;
        let device = self.queues[queue].device;
        if !self.kind.is_readable() {
            return Ok(None);
        }
        self.attempt(Call::Map, device)?;
        let here = self.host_action("map to fill", site);
        let Some(part) = self.find(device, spot, len, |_| here.clone()) else {
            return Err(misuse("there is no such memory").during("map to fill"));
        };
        let bytes = part.offset..part.offset + len;
        // Memory that this queue has allocated may be filled before the host has waited for the
        // allocation.
        let is_ours = |access: &Access| access.what == What::Allocate && access.queue == queue;
        let is_unknown = |access: &Access| !self.over.covers(access.point) && !is_ours(access);
        let history = &self.allocations[part.allocation].history;
        if let Some((used, earlier, wrote)) = history.first_used(&bytes, is_unknown) {
            let report = Report::new(Mistake::UnorderedWrite)
                .about(self.subject(part.allocation, used))
                .first(self.action(&earlier, wrote));
            self.report(report.second(here));
        }
        let allocation = &mut self.allocations[part.allocation];
        let Some(block) = allocation.block.as_ref().filter(|block| block.open_to_host()) else {
            return Err(misuse("the memory cannot be shown to the host").during("map to fill"));
        };
        let address = block.address().wrapping_add(part.offset as usize);
        allocation.fillings.push((bytes, site));
        Ok(NonNull::new(address))
    }

    pub(crate) fn unmap_filled(
        &mut self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        site: RawSite,
    ) -> Result<Filled> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "end a filling", site)?;
        let device = self.queues[queue].device;
        let here = self.host_action("end a filling", site);
        let Some(part) = self.find(device, spot, len, |_| here.clone()) else {
            return Err(misuse("there is no such memory").during("unmap"));
        };
        let bytes = part.offset..part.offset + len;
        if !self.end_filling(part, &bytes) {
            let subject = self.subject(part.allocation, bytes);
            self.report(Report::new(Mistake::NotMapped).about(subject).second(here));
            return Err(misuse("the memory is not mapped").during("unmap"));
        }
        // The mapping has ended even if the device is lost.
        self.check_alive(device)?;
        let block = self.allocations[part.allocation].block.as_mut();
        let host_bytes = block.map(|block| {
            let filled = block.read(part.offset, len);
            block.fill(part.offset, len, NOT_YET);
            filled.into_boxed_slice()
        });
        let access = self.begin(queue, What::HostFill, site);
        self.judge_side(Side::Device(part), access, true);
        let piece = Piece {
            from: Side::Staged,
            to: Side::Device(part),
            len,
            watched: false,
            host_bytes: host_bytes.unwrap_or_default(),
            target_bytes: Box::default(),
        };
        self.submit(queue, Work::Copy { pieces: vec![piece], access });
        Ok(Filled::InOrder)
    }

    /// Ends a mapping of these bytes. Returns whether there was one.
    fn end_filling(&mut self, part: Span, bytes: &Range<u64>) -> bool {
        let allocation = &mut self.allocations[part.allocation];
        let Some(index) = allocation.fillings.iter().position(|(mapped, _)| mapped == bytes) else {
            return false;
        };
        allocation.fillings.swap_remove(index);
        if allocation.fillings.is_empty()
            && let Some(block) = &allocation.block
        {
            block.set_host_readable(!allocation.mappings.is_empty());
        }
        true
    }
}
