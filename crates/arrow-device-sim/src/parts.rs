//! Handles for parts of an allocation, such as sub-buffers, on devices whose memory is named by
//! handles.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::driver::{Raw, Spot};
use arrow_device::{Memory, Result};

use crate::allocation::PartHandle;
use crate::engine::{EngineState, misuse};
use crate::fault::Call;
use crate::report::{Action, Mistake, Report};
use crate::site::RawSite;
use crate::span::Span;

/// Returns a handle for a part: a number that no other part of the process has, far below the
/// addresses of device memory.
fn new_part_handle() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x0700);
    NEXT.fetch_add(16, Ordering::Relaxed)
}

impl EngineState {
    /// Makes a handle for a part of an allocation. A part of a part is not possible.
    pub(crate) fn part(
        &mut self,
        device: usize,
        spot: Spot,
        len: u64,
        alignment: u64,
        site: RawSite,
    ) -> Result<Raw<Memory>> {
        let made = self.sites.add(site);
        self.attempt(Call::Part, device)?;
        let is_part = self.parts.contains_key(&spot.base.bits());
        if is_part || !spot.offset.is_multiple_of(alignment) || len == 0 {
            return Err(misuse("a part begins at the alignment of an allocation").during("part"));
        }
        let here = self.host_action("part", made);
        let Some(found) = self.find(device, spot, len, |_| here) else {
            return Err(misuse("there is no such memory").during("part"));
        };
        let handle = new_part_handle();
        let part = PartHandle { allocation: found.allocation, offset: found.offset, len, made };
        self.parts.insert(handle, part);
        Ok(Raw::from_bits(handle))
    }

    pub(crate) fn free_part(&mut self, part: Raw<Memory>, site: RawSite) {
        let site = self.sites.add(site);
        if self.parts.remove(&part.bits()).is_none() {
            let here = self.host_action("free a part", site);
            self.report(Report::new(Mistake::UnknownMemory).second(here));
        }
    }

    /// Returns the bytes that a spot in a part names.
    pub(crate) fn find_in_part(
        &mut self,
        device: usize,
        part: PartHandle,
        spot: Spot,
        len: u64,
        here: impl FnOnce(&Self) -> Action,
    ) -> Option<Span> {
        let offset = part.offset.saturating_add(spot.offset);
        let is_reached = self.reaches(device, part.allocation);
        let mistake = match spot.offset.saturating_add(len) <= part.len {
            true if is_reached => return Some(Span { allocation: part.allocation, offset, len }),
            true => Mistake::UnreachableMemory,
            false => Mistake::OutOfBounds,
        };
        let report = Report::new(mistake);
        let report =
            report.about(self.subject(part.allocation, offset..offset.saturating_add(len)));
        let report = report.second(here(self));
        self.report(report);
        None
    }
}
