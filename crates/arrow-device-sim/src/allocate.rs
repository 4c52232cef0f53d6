//! Allocations: how they are made, found by address, mapped, shared and freed.

use std::ops::Range;
use std::ptr::NonNull;

use arrow_device::driver::{Raw, Spot};
use arrow_device::{Error, ErrorKind, Memory, Queue, Result};

use crate::allocation::{Allocation, Placement};
use crate::custody::Custody;
use crate::engine::{EngineState, misuse};
use crate::fault::Call;
use crate::marks::Marks;
use crate::memory::{DeviceBytes, PAGE};
use crate::queue::Work;
use crate::report::{Action, Mistake, Report, Subject};
use crate::site::{RawSite, SiteId};
use crate::span::Span;
use crate::track::{Access, History, What};

/// How many bytes of fresh memory hold garbage, as they do on a device. The rest of a large
/// allocation is zero.
const GARBAGE: u64 = 64 * 1024;

/// Where the bytes of an allocation come from.
pub(crate) enum Source {
    /// They are new.
    Fresh,
    /// They are new, and other processes can open them.
    #[cfg(all(target_os = "linux", not(miri)))]
    Shareable,
    /// Another process shared them.
    #[cfg(all(target_os = "linux", not(miri)))]
    Opened(std::sync::Arc<std::os::fd::OwnedFd>),
}

impl Source {
    fn is_opened(&self) -> bool {
        match self {
            #[cfg(all(target_os = "linux", not(miri)))]
            Self::Opened(_) => true,
            _ => false,
        }
    }

    fn bytes(self, len: u64, host_readable: bool) -> Option<DeviceBytes> {
        match self {
            Self::Fresh => DeviceBytes::reserve(len, host_readable),
            #[cfg(all(target_os = "linux", not(miri)))]
            Self::Shareable => DeviceBytes::shared(len, None),
            #[cfg(all(target_os = "linux", not(miri)))]
            Self::Opened(file) => DeviceBytes::shared(len, Some(file)),
        }
    }
}

impl EngineState {
    pub(crate) fn allocate(
        &mut self,
        device: usize,
        len: u64,
        queue: Option<Raw<Queue>>,
        site: RawSite,
    ) -> Result<Raw<Memory>> {
        self.allocate_at(device, len, Placement::Device, queue, site)
    }

    pub(crate) fn allocate_at(
        &mut self,
        device: usize,
        len: u64,
        placement: Placement,
        queue: Option<Raw<Queue>>,
        site: RawSite,
    ) -> Result<Raw<Memory>> {
        self.allocate_from(Source::Fresh, device, len, placement, queue, site)
    }

    pub(crate) fn allocate_from(
        &mut self,
        source: Source,
        device: usize,
        len: u64,
        placement: Placement,
        queue: Option<Raw<Queue>>,
        site: RawSite,
    ) -> Result<Raw<Memory>> {
        let site = self.sites.add(site);
        self.attempt(Call::Allocate, device)?;
        let len = self.whole_units(len);
        let queue = queue.map(|queue| self.open_one(queue, "allocate", site)).transpose()?;
        let state = &self.devices[device];
        let (id, left) = (state.id, state.limit.saturating_sub(state.allocated));
        let fits = len <= left || placement.is_for_host();
        let readable = self.kind.is_readable() || placement.is_for_host();
        let is_opened = source.is_opened();
        let block = if fits { source.bytes(len, readable) } else { None };
        let opened = |block: &DeviceBytes| !placement.is_for_host() || block.open_to_host();
        let Some(mut block) = block.filter(opened) else {
            let message = format!("{len} bytes asked for, {left} are left");
            return Err(Error::new(ErrorKind::OutOfMemory, message)
                .during("allocate")
                .on_device(id));
        };
        if !is_opened {
            block.fill(0, len.min(GARBAGE), self.random.next() as u8 | 1);
        }
        if placement.counts() {
            self.devices[device].allocated += len;
        }
        let made_by = queue.map(|queue| self.begin(queue, What::Allocate, site));
        if let Some(access) = &made_by {
            let nothing = Work::Fill { at: None, byte: 0 };
            self.submit(access.queue, nothing);
        }
        Ok(self.note_allocation(block, len, (device, placement), made_by, site))
    }

    /// Notes a new allocation.
    fn note_allocation(
        &mut self,
        block: DeviceBytes,
        len: u64,
        (device, placement): (usize, Placement),
        made_by: Option<Access>,
        site: SiteId,
    ) -> Raw<Memory> {
        let address = block.address();
        let number = self.allocations.push(Allocation {
            device,
            placement,
            address: address.addr(),
            len,
            block: Some(block),
            history: History::new(len, made_by),
            made: site,
            freed: None,
            shared: Marks::default(),
            custody: Custody::default(),
            used_on: made_by.iter().map(|access| access.queue).collect(),
            mappings: Vec::new(),
            fillings: Vec::new(),
        });
        let whole = address.addr()..address.addr().saturating_add(len as usize);
        let reused: Vec<usize> = self.by_address.range(whole).map(|(old, _)| *old).collect();
        reused.iter().for_each(|old| {
            self.by_address.remove(old);
        });
        self.by_address.insert(address.addr(), number);
        Raw::from_ptr(address.cast())
    }

    /// Maps a file to reserved address space: an allocation comes into being there. Returns the
    /// address space where the file cannot be mapped.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn map_file(
        &mut self,
        mut space: DeviceBytes,
        file: &arrow_device::driver::SealedFile,
        (device, placement): (usize, Placement),
        site: RawSite,
    ) -> Result<(), DeviceBytes> {
        let site = self.sites.add(site);
        if !space.lay_file(file) {
            return Err(space);
        }
        let len = space.len();
        self.note_allocation(space, len, (device, placement), None, site);
        Ok(())
    }

    /// Ends an allocation of [`map_file`](Self::map_file), and returns its address space.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn unmap_file(&mut self, memory: Raw<Memory>, site: RawSite) -> Option<DeviceBytes> {
        let number = *self.by_address.get(&memory.bits())?;
        let allocation = &mut self.allocations[number];
        let (len, placement) = (allocation.len, allocation.placement);
        let mut space = allocation.block.take_if(|_| matches!(placement, Placement::Mapped(_)))?;
        self.free(memory, len, site);
        self.peers.retain(|(_, _, given)| *given != placement);
        space.take_file_off().then_some(space)
    }

    pub(crate) fn free(&mut self, memory: Raw<Memory>, len: u64, site: RawSite) {
        let site = self.sites.add(site);
        let Some(number) = self.by_address.get(&memory.bits()).copied() else {
            let here = self.host_action("free", site);
            let note = "The address is not the beginning of an allocation.";
            return self.report(Report::new(Mistake::UnknownMemory).second(here).note(note));
        };
        let allocation = &self.allocations[number];
        let whole = 0..allocation.len;
        if let Some(freed) = allocation.freed {
            let first = self.host_action("free", freed);
            let report = Report::new(Mistake::FreedTwice).about(self.subject(number, whole));
            return self.report(report.first(first).second(self.host_action("free", site)));
        }
        if allocation.len != self.whole_units(len) {
            let note = format!("It is {} bytes long and was freed as {len}.", allocation.len);
            let report = Report::new(Mistake::FreedWithWrongLength);
            let report = report.about(self.subject(number, whole)).note(note);
            self.report(report.second(self.host_action("free", site)));
        }
        if let Some(part) = self.parts.values().find(|part| part.allocation == number).copied() {
            let subject = self.subject(number, part.bytes());
            let first = self.host_action("part", part.made);
            let report = Report::new(Mistake::FreedInUse).about(subject).first(first);
            let note = "There is still a handle for a part of it.";
            self.report(report.second(self.host_action("free", site)).note(note));
        }
        let allocation = &self.allocations[number];
        let shown = allocation.mappings.iter().chain(&allocation.fillings).next();
        if let Some((bytes, mapped)) = shown.cloned() {
            let subject = self.subject(number, bytes);
            let report = Report::new(Mistake::FreedInUse).about(subject);
            let second = self.host_action("free", site);
            self.report(report.first(self.host_action("map", mapped)).second(second));
        } else if let Some(used) = allocation.history.unfinished(&self.over) {
            let subject = self.subject(number, used.bytes.clone());
            let first = self.action(&used.earlier, used.earlier_wrote);
            let report = Report::new(Mistake::FreedInUse).about(subject);
            let note = "The host has not waited for it, by this or any other way.";
            let second = self.host_action("free", site);
            self.report(report.first(first).second(second).note(note));
        }
        let allocation = &mut self.allocations[number];
        allocation.freed = Some(site);
        allocation.block = None;
        allocation.mappings.clear();
        allocation.fillings.clear();
        allocation.history = History::new(0, None);
        self.give_back(number);
    }

    /// Returns the length of an allocation for which `len` bytes are asked.
    fn whole_units(&self, len: u64) -> u64 {
        len.checked_next_multiple_of(self.kind.copy_unit()).unwrap_or(len)
    }

    /// Gives the bytes of an allocation back to its device.
    pub(crate) fn give_back(&mut self, number: usize) {
        let Allocation { device, placement, len, .. } = self.allocations[number];
        if placement.counts() {
            self.devices[device].allocated = self.devices[device].allocated.saturating_sub(len);
        }
    }

    /// Whether a device can reach an allocation.
    pub(crate) fn reaches(&self, device: usize, number: usize) -> bool {
        let Allocation { device: home, placement, .. } = self.allocations[number];
        if matches!(placement, Placement::Mapped(_)) {
            return self.peers.contains(&(device, home, placement));
        }
        home == device
            || placement.is_for_host()
            || self.peer_access
            || self.peers.contains(&(device, home, placement))
    }

    /// Marks bytes as shared: from now on nobody may write to them.
    pub(crate) fn share(&mut self, memory: Raw<Memory>, len: u64, site: RawSite) {
        let site = self.sites.add(site);
        if let Some((number, offset, end)) = self.inside(memory) {
            self.allocations[number].shared.set(offset..end.min(offset.saturating_add(len)), site);
        }
    }

    /// Takes `share` back. Owners that were told the bytes before and are gone do not count any
    /// more.
    pub(crate) fn reuse(&mut self, memory: Raw<Memory>, len: u64) {
        if let Some((number, offset, end)) = self.inside(memory) {
            let bytes = offset..end.min(offset.saturating_add(len));
            self.allocations[number].shared.clear(&bytes);
            self.allocations[number].custody.released(&bytes);
        }
    }

    /// Returns the allocation that an address or a handle lies in, with the offset there, and where
    /// the allocation or the part ends.
    pub(crate) fn inside(&self, memory: Raw<Memory>) -> Option<(usize, u64, u64)> {
        if let Some(part) = self.parts.get(&memory.bits()) {
            return Some((part.allocation, part.offset, part.offset + part.len));
        }
        let (base, number) = self.by_address.range(..=memory.bits()).next_back()?;
        let allocation = &self.allocations[*number];
        let offset = (memory.bits() - base) as u64;
        let is_there = allocation.freed.is_none() && offset < allocation.len;
        is_there.then_some((*number, offset, allocation.len))
    }

    /// Returns the bytes that a spot names for a device. A spot that names none is reported, and
    /// the result is `None`.
    pub(crate) fn find(
        &mut self,
        device: usize,
        spot: Spot,
        len: u64,
        here: impl FnOnce(&Self) -> Action,
    ) -> Option<Span> {
        if let Some(inside) = self.parts.get(&spot.base.bits()).copied() {
            return self.find_in_part(device, inside, spot, len, here);
        }
        let base = spot.base.bits();
        // A place near the greatest address is reported, as any other one that is not there.
        let moved = if self.kind.has_handles() { 0 } else { spot.offset };
        let address = (base as u64).saturating_add(moved);
        let nearest = self.by_address.range(..=base).next_back().map(|(_, number)| *number);
        let within = |number: &usize| {
            let allocation = &self.allocations[*number];
            let reserved = (allocation.len as usize).div_ceil(PAGE).max(1) * PAGE;
            base - allocation.address <= reserved
        };
        let Some(number) = nearest.filter(within) else {
            let here = here(self);
            self.report(Report::new(Mistake::UnknownMemory).second(here));
            return None;
        };
        let allocation = &self.allocations[number];
        let inside = address - allocation.address as u64;
        let offset = if self.kind.has_handles() { spot.offset } else { inside };
        let is_named = !self.separate || base == allocation.address;
        let bytes = offset..offset.saturating_add(len);
        let (kind, first) = if self.kind.has_handles() && inside != 0 {
            (Mistake::HandleOffset, None)
        } else if !is_named {
            (Mistake::UnnamedPlace, None)
        } else if let Some(freed) = allocation.freed {
            (Mistake::UseAfterFree, Some(self.host_action("free", freed)))
        } else if bytes.end > allocation.len {
            (Mistake::OutOfBounds, None)
        } else if !self.reaches(device, number) {
            (Mistake::UnreachableMemory, None)
        } else {
            return Some(Span { allocation: number, offset, len });
        };
        let mut report = Report::new(kind).about(self.subject(number, bytes)).second(here(self));
        report.first = first;
        self.report(report);
        None
    }

    pub(crate) fn subject(&self, number: usize, bytes: Range<u64>) -> Subject {
        let Allocation { len, made, .. } = self.allocations[number];
        Subject { number: number + 1, len, site: self.sites.of(made), bytes }
    }

    // ---- the host's reads

    pub(crate) fn map(
        &mut self,
        device: usize,
        spot: Spot,
        len: u64,
        site: RawSite,
    ) -> Result<NonNull<u8>> {
        let site = self.sites.add(site);
        self.attempt(Call::Map, device)?;
        if !self.kind.is_readable() {
            return Err(Error::new(ErrorKind::Unsupported, "the host cannot read this memory")
                .during("map")
                .on_device(self.devices[device].id));
        }
        let here = self.host_action("map", site);
        let Some(part) = self.find(device, spot, len, |_| here.clone()) else {
            return Err(misuse("there is no such memory").during("map"));
        };
        let bytes = part.offset..part.offset + len;
        let allocation = &self.allocations[part.allocation];
        if let Some(found) = allocation.history.unfinished_write(&bytes, &self.host) {
            let subject = self.subject(part.allocation, found.bytes);
            let first = self.action(&found.earlier, true);
            let report = Report::new(Mistake::UnorderedRead).about(subject);
            self.report(report.first(first).second(here));
        }
        let allocation = &mut self.allocations[part.allocation];
        let is_open = !allocation.fillings.is_empty();
        let shown = |block: &&DeviceBytes| is_open || block.set_host_readable(true);
        let block = allocation.block.as_ref().filter(shown);
        let Some(block) = block else {
            return Err(misuse("the memory cannot be shown to the host").during("map"));
        };
        let address = block.address().wrapping_add(part.offset as usize);
        allocation.mappings.push((bytes, site));
        NonNull::new(address).ok_or_else(|| misuse("there is nothing at a null address"))
    }

    pub(crate) fn unmap(&mut self, device: usize, spot: Spot, len: u64, site: RawSite) {
        let site = self.sites.add(site);
        let here = self.host_action("unmap", site);
        let Some(part) = self.find(device, spot, len, |_| here.clone()) else { return };
        let bytes = part.offset..part.offset + len;
        let allocation = &mut self.allocations[part.allocation];
        match allocation.mappings.iter().position(|(mapped, _)| *mapped == bytes) {
            Some(index) => {
                allocation.mappings.swap_remove(index);
                if allocation.mappings.is_empty()
                    && allocation.fillings.is_empty()
                    && let Some(block) = &allocation.block
                {
                    block.set_host_readable(false);
                }
            }
            None => {
                let subject = self.subject(part.allocation, bytes);
                self.report(Report::new(Mistake::NotMapped).about(subject).second(here));
            }
        }
    }

    /// Whether an address or a handle is one of this simulator. This includes allocations without
    /// bytes, and addresses at the end of an allocation, as far as its pages go.
    pub(crate) fn holds(&self, memory: Raw<Memory>) -> bool {
        if self.parts.contains_key(&memory.bits()) {
            return true;
        }
        let nearest = self.by_address.range(..=memory.bits()).next_back();
        nearest.is_some_and(|(base, number)| {
            let allocation = &self.allocations[*number];
            let pages = (allocation.len as usize).div_ceil(PAGE).max(1);
            allocation.freed.is_none() && memory.bits() - base < pages * PAGE
        })
    }

    /// Returns the device of an address, and how many bytes there are from the address to the end
    /// of its allocation.
    pub(crate) fn locate(&self, memory: Raw<Memory>) -> Option<(usize, u64)> {
        let (number, offset, end) = self.inside(memory)?;
        Some((self.allocations[number].device, end - offset))
    }
}
