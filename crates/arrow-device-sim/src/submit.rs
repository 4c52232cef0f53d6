//! Submits work. Every byte that the work touches is judged here, at once, whether or not the work
//! ever runs.
//!
//! A copy becomes a piece for each region. For each side of a piece the bytes are found: those of
//! an allocation, or host memory, whose contents are noted to see later whether the host changes
//! them. Then each access is judged in the history of its allocation, all reads before all writes,
//! because the regions of a copy have no order among each other. Last, the copy is put into its
//! queue. What must stay true: judging depends on what was submitted and on what the host has
//! waited for, and not on what happens to have run.

use std::collections::HashSet;
use std::ops::Range;

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Queue, Result};

use crate::engine::EngineState;
use crate::fault::Call;
use crate::kernel_work::{KernelWork, Launch};
use crate::memory;
use crate::queue::{HostAddress, Piece, Side, Work};
use crate::report::{Action, Mistake, Report};
use crate::site::RawSite;
use crate::span::Span;
use crate::track::{Access, Behind, Conflict, What};

/// The bytes that the destination of a copy to the host holds until the copy has run. Nobody
/// mistakes them for a result.
pub(crate) const NOT_YET: u8 = 0xd5;

impl EngineState {
    /// # Safety
    /// UNS-21, as [`Driver::copy`](arrow_device::driver::Driver::copy) has it, for the host's
    /// sides.
    pub(crate) unsafe fn copy(
        &mut self,
        queue: Raw<Queue>,
        route: &Route<'_>,
        regions: &[Region],
        site: RawSite,
    ) -> Result<()> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "copy", site)?;
        let device = self.queues[queue].device;
        self.check_going(queue)?;
        self.attempt(Call::Submit, device)?;
        let (what, source) = match route {
            Route::FromHost => (What::CopyFromHost, device),
            Route::ToHost => (What::CopyToHost, device),
            Route::FromPeer(peer) => (What::CopyFromPeer, self.peer(device, *peer)?),
            _ => (What::CopyWithin, device),
        };
        let access = self.begin(queue, what, site);
        let mut pieces = Vec::with_capacity(regions.len());
        for Region { from, to, len } in regions.iter().filter(|region| region.len > 0) {
            let (from, to, host_bytes) = match what {
                What::CopyFromHost => {
                    let from = self.host_side(*from, *len, &access);
                    let to = self.device_side(device, *to, *len, &access, true);
                    let now = from.host().map(|address| {
                        // SAFETY: the caller promised that the source can be read.
                        unsafe { snapshot(address, *len) }
                    });
                    (from, to, now)
                }
                What::CopyToHost => {
                    let from = self.device_side(device, *from, *len, &access, false);
                    let to = self.host_side(*to, *len, &access);
                    let now = to.host().map(|address| {
                        // SAFETY: the caller promised that the destination can be written.
                        unsafe { self.mark_host_bytes(address, *len) }
                    });
                    (from, to, now)
                }
                _ => {
                    let from = self.device_side(source, *from, *len, &access, false);
                    (from, self.device_side(device, *to, *len, &access, true), None)
                }
            };
            let host_bytes = host_bytes.unwrap_or_default();
            let (len, target_bytes) = (*len, Box::default());
            self.judge_units(from, to, &access);
            pieces.push(Piece { from, to, len, watched: true, host_bytes, target_bytes });
            pieces.extend(self.slack(to));
        }
        for piece in &pieces {
            self.judge_side(piece.from, access, false);
        }
        for piece in &pieces {
            self.judge_side(piece.to, access, true);
        }
        self.judge_host_sources(&mut pieces, access);
        self.judge_host_sides(&mut pieces, access);
        self.submit(queue, Work::Copy { pieces, access });
        Ok(())
    }

    /// Reports a region that the device cannot copy.
    fn judge_units(&mut self, from: Side, to: Side, access: &Access) {
        let unit = self.kind.copy_unit();
        let spans = [from, to].map(|side| match side {
            Side::Device(span) => Some(span),
            _ => None,
        });
        let is_between = |span: &&Span| !span.offset.is_multiple_of(unit);
        let found = spans.iter().flatten().find(is_between).copied();
        let inside = match spans {
            [Some(one), Some(other)] if one.allocation == other.allocation => Some(other),
            _ => None,
        };
        let inside = inside.filter(|_| self.kind.copies_are_distinct());
        let Some(span) = found.or(inside) else { return };
        let bytes = span.offset..span.offset + span.len;
        let subject = self.subject(span.allocation, bytes);
        let note = match found {
            Some(_) => format!("It does not begin at a multiple of {unit}."),
            None => "Both places are in one allocation.".into(),
        };
        let here = self.action(access, true);
        self.report(Report::new(Mistake::UncopyableRegion).about(subject).second(here).note(note));
    }

    /// Returns the bytes behind a destination up to the next unit, where the device writes
    /// anything.
    fn slack(&self, to: Side) -> Option<Piece> {
        let Side::Device(Span { allocation, offset, len }) = to else { return None };
        let end = (offset + len).next_multiple_of(self.kind.copy_unit());
        let behind = offset + len;
        let len = end.min(self.allocations[allocation].len) - behind;
        let to = Side::Device(Span { allocation, offset: behind, len });
        let (host_bytes, target_bytes) = Default::default();
        let piece =
            Piece { from: Side::Nowhere, to, len, watched: false, host_bytes, target_bytes };
        (len > 0).then_some(piece)
    }

    pub(crate) fn fill(
        &mut self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        byte: u8,
        site: RawSite,
    ) -> Result<()> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "fill", site)?;
        let device = self.queues[queue].device;
        self.check_going(queue)?;
        self.attempt(Call::Submit, device)?;
        let access = self.begin(queue, What::Fill, site);
        let at = self.find(device, spot, len, |state| state.action(&access, true));
        if let Some(part) = at {
            self.judge(part, access, true, false);
        }
        self.submit(queue, Work::Fill { at, byte });
        Ok(())
    }

    pub(crate) fn launch(
        &mut self,
        queue: Raw<Queue>,
        launch: Launch,
        site: RawSite,
    ) -> Result<()> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "launch", site)?;
        let device = self.queues[queue].device;
        self.check_going(queue)?;
        self.attempt(Call::Submit, device)?;
        let name = self.names.push(launch.name);
        let access = self.begin(queue, What::Kernel(name), site);
        let mut found = |parts: Vec<(Spot, u64)>, writes: bool| -> Vec<(Option<Span>, u64)> {
            let part = |(spot, len)| {
                (self.find(device, spot, len, |state| state.action(&access, writes)), len)
            };
            parts.into_iter().map(part).collect()
        };
        let (reads, writes) = (found(launch.reads, false), found(launch.writes, true));
        reads.iter().filter_map(|(part, _)| *part).for_each(|part| {
            self.judge(part, access, false, true);
        });
        writes.iter().filter_map(|(part, _)| *part).for_each(|part| {
            self.judge(part, access, true, true);
        });
        let work = KernelWork { access, reads, writes, run: launch.run };
        self.submit(queue, Work::Kernel(work));
        Ok(())
    }

    /// Returns the number of a peer that this device can copy from.
    fn peer(&self, device: usize, peer: &dyn arrow_device::driver::Driver) -> Result<usize> {
        let number = self.devices.iter().position(|known| known.id == peer.id());
        let reached = number.filter(|number| *number == device || self.peer_access);
        reached.ok_or_else(|| {
            arrow_device::driver::not_reachable(self.devices[device].id, peer.id()).during("copy")
        })
    }

    fn device_side(
        &mut self,
        device: usize,
        spot: Spot,
        len: u64,
        access: &Access,
        writes: bool,
    ) -> Side {
        self.find(device, spot, len, |state| state.action(access, writes))
            .map_or(Side::Nowhere, Side::Device)
    }

    fn host_side(&mut self, spot: Spot, len: u64, access: &Access) -> Side {
        let address = spot.base.as_ptr().cast::<u8>().wrapping_add(spot.offset as usize);
        let mapped = || {
            let nearest = self.by_address.range(..=address.addr()).next_back();
            let ours = nearest.filter(|(base, number)| {
                let allocation = &self.allocations[**number];
                ((address.addr() - **base) as u64) < allocation.len && allocation.block.is_some()
            });
            // Memory of another simulator is unknown here: memory that it has mapped counts as host
            // memory.
            let Some((base, number)) = ours else { return memory::is_shown(address.addr(), len) };
            let offset = (address.addr() - base) as u64;
            let bytes = offset..offset.saturating_add(len);
            let covers = |mapping: &(Range<u64>, _)| {
                mapping.0.start <= bytes.start && bytes.end <= mapping.0.end
            };
            self.allocations[*number].mappings.iter().any(covers)
        };
        if !memory::is_device_address(address.addr()) || mapped() {
            return Side::Host(HostAddress(address));
        }
        let here = self.action(access, access.what == What::CopyToHost);
        self.report(Report::new(Mistake::DeviceAddressOnHost).second(here));
        Side::Nowhere
    }

    pub(crate) fn judge_side(&mut self, side: Side, access: Access, writes: bool) {
        if let Side::Device(part) = side {
            self.judge(part, access, writes, false);
        }
    }

    /// Notes an access, and reports accesses that it is not ordered behind, and rules that it
    /// breaks.
    fn judge(&mut self, part: Span, access: Access, writes: bool, twice: bool) {
        let Span { allocation: number, offset, len } = part;
        if len == 0 {
            return;
        }
        // Using memory without a right to it is one mistake, and no further mistake of that use is
        // reported.
        if self.is_withdrawn(part, &access, writes) {
            return;
        }
        let bytes = offset..offset + len;
        let mut found = Vec::new();
        // Bytes that failed work has left may be overwritten, but not read.
        let host = if writes { &self.over } else { &self.host };
        let behind = Behind { clock: &self.queues[access.queue].clock, host, twice };
        let allocation = &mut self.allocations[number];
        allocation.used_on.insert(access.queue);
        if writes {
            allocation.history.write(&bytes, access, &behind, &mut found);
        } else {
            allocation.history.read(&bytes, access, &behind, &mut found);
        }
        if !found.is_empty() {
            self.report_conflicts(number, found, access, writes);
        }
        if writes {
            self.judge_right_to_write(number, &bytes, &access);
        }
    }

    #[cold]
    fn report_conflicts(
        &mut self,
        number: usize,
        found: Vec<Conflict>,
        access: Access,
        writes: bool,
    ) {
        let mut told = HashSet::new();
        for Conflict { bytes, earlier, earlier_wrote, within } in found {
            if !told.insert((earlier.point.lane, earlier.point.number, bytes.start)) {
                continue;
            }
            let report = Report::new(Mistake::of_conflict(within, writes))
                .about(self.subject(number, bytes))
                .first(self.action(&earlier, earlier_wrote))
                .second(self.action(&access, writes));
            self.report(report);
        }
    }

    /// Fills the destination of a copy in host memory with bytes that look like no result, and
    /// returns what it holds then. Bytes that an earlier copy still has to use stay as they are.
    ///
    /// # Safety
    /// `len` bytes may be written, and those that an earlier copy is to read are initialised.
    pub(crate) unsafe fn mark_host_bytes(&self, address: HostAddress, len: u64) -> Box<[u8]> {
        let end = address.0.addr().saturating_add(len as usize);
        let mut from = address.0.addr();
        let used = self.host_bytes_to_be_used(from..end);
        for free_until in used.iter().map(|range| range.start).chain([end]) {
            let first = address.0.wrapping_add(from - address.0.addr());
            // SAFETY: these bytes lie inside those that may be written, as the caller promises.
            unsafe { first.write_bytes(NOT_YET, free_until.saturating_sub(from)) };
            from = used.iter().find(|range| range.start == free_until).map_or(end, |it| it.end);
        }
        // SAFETY: the bytes may be written, and so be read. Those that were not written just now
        // are used by an earlier copy: a source is initialised, as the caller promises, and a
        // destination was written here when that copy was submitted.
        unsafe { snapshot(address, len) }
    }

    fn judge_right_to_write(&mut self, number: usize, bytes: &Range<u64>, access: &Access) {
        let allocation = &self.allocations[number];
        let within = |marked: Range<u64>| marked.start.max(bytes.start)..marked.end.min(bytes.end);
        let shared = allocation.shared.find(bytes);
        let shared = shared.map(|(marked, site)| (Mistake::WriteToShared, within(marked), site));
        let overlaps =
            |(mapped, _): &&(Range<u64>, _)| mapped.start < bytes.end && bytes.start < mapped.end;
        let mut shown = allocation.mappings.iter().chain(&allocation.fillings);
        let mapped = shown.find(overlaps);
        let mapped = mapped.map(|(m, site)| (Mistake::WriteWhileMapped, m.clone(), *site));
        for (kind, bytes, site) in shared.into_iter().chain(mapped) {
            let what = if kind == Mistake::WriteToShared { "shared" } else { "mapped" };
            let first: Action = self.host_action(what, site);
            let second = self.action(access, true);
            let report = Report::new(kind).about(self.subject(number, bytes));
            self.report(report.first(first).second(second));
        }
    }
}

impl Side {
    pub(crate) fn host(self) -> Option<HostAddress> {
        match self {
            Self::Host(address) => Some(address),
            _ => None,
        }
    }
}

/// Returns what host memory holds now.
///
/// # Safety
/// `len` bytes may be read.
pub(crate) unsafe fn snapshot(address: HostAddress, len: u64) -> Box<[u8]> {
    // SAFETY: `len` bytes may be read, as the caller promises.
    unsafe { std::slice::from_raw_parts(address.0, len as usize) }.into()
}
