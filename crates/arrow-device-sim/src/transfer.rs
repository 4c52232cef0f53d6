//! Copies for drivers with one address space: a copy names two addresses, and the engine finds out
//! what lies there.
//!
//! Ordinary host memory is read when the copy is submitted. Memory that host and device share is
//! read and written when the copy runs, and is checked for changes by the host until then.

use std::ops::Range;

use arrow_device::driver::{Raw, Spot};
use arrow_device::{Queue, Result};

use crate::allocation::Placement;
use crate::engine::EngineState;
use crate::fault::Call;
use crate::memory::{self, PAGE};
use crate::queue::{HostAddress, Piece, Side, Work};
use crate::report::{Mistake, Report};
use crate::site::RawSite;
use crate::span::Span;
use crate::submit::{self, NOT_YET};
use crate::track::{Access, What};

/// A copy of bytes from one address to another.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The first address to read from.
    pub from: usize,
    /// The first address to write to.
    pub to: usize,
    /// How many bytes are copied.
    pub len: u64,
    /// When the source is read.
    pub reading: Reading,
}

/// When the source of a copy is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Ordinary host memory when the copy is submitted, all other memory in the order of the queue.
    AtOnce,
    /// All memory in the order of the queue: ordinary host memory must not change until then.
    InOrder,
    /// At any time until the queue has passed the copy, even before earlier work of the queue.
    AnyTime,
}

/// The owner of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// An allocation of this driver's devices, freed or not.
    Allocation(usize),
    /// A device address that lies in no allocation.
    Nobody,
    /// Ordinary host memory.
    Host,
}

impl EngineState {
    /// Submits copies that are in no order among each other.
    ///
    /// # Safety
    /// What is neither an allocation nor a device address is host memory that may be read or
    /// written; a destination, and a source that is not read at once, until the queue has passed
    /// the copy.
    pub(crate) unsafe fn transfer(
        &mut self,
        queue: Raw<Queue>,
        stretches: &[Stretch],
        site: RawSite,
    ) -> Result<()> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "copy", site)?;
        self.check_going(queue)?;
        self.attempt(Call::Submit, self.queues[queue].device)?;
        let what = stretches.first().map_or(What::CopyWithin, |first| self.what(first));
        let access = self.begin(queue, what, site);
        let mut pieces = Vec::with_capacity(stretches.len());
        for Stretch { from, to, len, reading } in
            stretches.iter().copied().filter(|one| one.len > 0)
        {
            let source = self.end(from, len, &access, false);
            let target = self.end(to, len, &access, true);
            let (from, host_bytes) = match source {
                Side::Host(address) => {
                    let stays = reading != Reading::AtOnce && matches!(target, Side::Device(_));
                    let side = if stays { source } else { Side::Staged };
                    // SAFETY: what is neither an allocation nor a device address is host memory
                    // that may be read, as the caller promises.
                    (side, unsafe { submit::snapshot(address, len) })
                }
                Side::Device(part) => (source, self.note(part)),
                other => (other, Box::default()),
            };
            let target_bytes = match (target, from) {
                (Side::Device(part), _) => self.mark_not_yet(part),
                (Side::Host(address), Side::Device(_)) => {
                    // SAFETY: what is neither an allocation nor a device address is host memory
                    // that may be written, as the caller promises.
                    unsafe { self.mark_host_bytes(address, len) }
                }
                _ => Box::default(),
            };
            if reading == Reading::AnyTime
                && let Side::Device(part) = from
            {
                self.must_be_complete(part, &access);
            }
            let host_bytes = match target {
                // Ordinary host memory is compared with what the host holds, as in `copy`.
                Side::Host(_) if matches!(from, Side::Device(_)) => target_bytes.clone(),
                _ => host_bytes,
            };
            pieces.push(Piece { from, to: target, len, watched: true, host_bytes, target_bytes });
        }
        for piece in &pieces {
            self.judge_side(piece.from, access, false);
        }
        for piece in &pieces {
            self.judge_side(piece.to, access, true);
        }
        self.judge_host_sides(&mut pieces, access);
        self.submit(queue, Work::Copy { pieces, access });
        Ok(())
    }

    /// Frees memory in the order of a queue. Work that comes earlier on that queue may use the
    /// memory, and no other work.
    pub(crate) fn free_in_order(
        &mut self,
        queue: Raw<Queue>,
        address: usize,
        site: RawSite,
    ) -> Result<()> {
        let site = self.sites.add(site);
        let queue = self.open_one(queue, "free", site)?;
        let Some(number) = self.by_address.get(&address).copied() else {
            return Err(crate::engine::misuse("the address is not the beginning of an allocation"));
        };
        let mut known = self.queues[queue].clock.clone();
        known.join(&self.over);
        let allocation = &self.allocations[number];
        if let Some(used) = allocation.history.unfinished(&known) {
            let subject = self.subject(number, used.bytes.clone());
            let first = self.action(&used.earlier, used.earlier_wrote);
            let report = Report::new(Mistake::FreedInUse).about(subject).first(first);
            let note = "The queue in whose order it is freed does not wait for it.";
            self.report(report.second(self.host_action("free in order", site)).note(note));
        }
        let work = Work::Free { allocation: number };
        self.begin(queue, What::Allocate, site);
        self.submit(queue, work);
        let allocation = &mut self.allocations[number];
        allocation.freed = Some(site);
        Ok(())
    }

    /// Reports writes that the host, which reads now, has not waited for. Only memory of the
    /// devices is looked at.
    pub(crate) fn host_reads(&mut self, address: usize, len: u64, site: RawSite) {
        let site = self.sites.add(site);
        let Whose::Allocation(number) = self.whose(address) else { return };
        let (here, device) = (self.host_action("read", site), self.allocations[number].device);
        let spot = Spot { base: Raw::from_bits(address), offset: 0 };
        let Some(part) = self.find(device, spot, len, |_| here.clone()) else { return };
        let bytes = part.offset..part.offset + part.len;
        let history = &self.allocations[part.allocation].history;
        if let Some(found) = history.unfinished_write(&bytes, &self.host) {
            let subject = self.subject(part.allocation, found.bytes);
            let report = Report::new(Mistake::UnorderedRead).about(subject);
            self.report(report.first(self.action(&found.earlier, true)).second(here));
        }
    }

    /// Shows managed memory of a device to the host, or hides it.
    pub(crate) fn take_turns(&mut self, device: usize) {
        self.forget_closed();
        let mut queues = self.live.iter().map(|queue| &self.queues[*queue]);
        let is_hosts = queues.all(|queue| queue.device != device || self.host.covers(queue.last()));
        for allocation in self.allocations.iter() {
            let is_managed = allocation.placement == Placement::Managed;
            if is_managed
                && allocation.device == device
                && let Some(block) = &allocation.block
            {
                let _ = if is_hosts { block.open_to_host() } else { block.close_to_host() };
            }
        }
    }

    /// Orders all later work of a queue behind all that another queue was given so far.
    pub(crate) fn order(&mut self, queue: usize, after: usize) {
        let (clock, work) = (self.queues[after].clock.clone(), self.queues[after].submitted);
        let mut known = self.host.clone();
        known.join(&self.queues[queue].clock);
        if queue == after || !known.join(&clock) {
            return;
        }
        self.queues[queue].clock.join(&clock);
        self.submit_wait(queue, after, work);
    }

    /// Returns what an address belongs to.
    pub(crate) fn whose(&self, address: usize) -> Whose {
        let nearest = self.by_address.range(..=address).next_back();
        let inside = nearest.filter(|(base, number)| {
            let reserved = (self.allocations[**number].len as usize).div_ceil(PAGE).max(1) * PAGE;
            // The page behind an allocation belongs to nobody: an address there has passed the end
            // of the allocation.
            address - **base <= reserved
        });
        match inside {
            Some((_, number)) => Whose::Allocation(*number),
            None if memory::is_device_address(address) => Whose::Nobody,
            None => Whose::Host,
        }
    }

    fn what(&self, first: &Stretch) -> What {
        let device = |address| match self.whose(address) {
            Whose::Allocation(number)
                if self.allocations[number].placement == Placement::Pinned =>
            {
                None
            }
            Whose::Allocation(number) => Some(self.allocations[number].device),
            Whose::Nobody => Some(usize::MAX),
            Whose::Host => None,
        };
        match (device(first.from), device(first.to)) {
            (None, _) => What::CopyFromHost,
            (_, None) => What::CopyToHost,
            (from, to) if from == to => What::CopyWithin,
            _ => What::CopyFromPeer,
        }
    }

    /// Returns one end of a copy. Copies between devices go through the host where they have to, so
    /// any device will do.
    fn end(&mut self, address: usize, len: u64, access: &Access, writes: bool) -> Side {
        let device = match self.whose(address) {
            Whose::Allocation(number) => self.allocations[number].device,
            Whose::Nobody => self.queues[access.queue].device,
            Whose::Host => {
                return Side::Host(HostAddress(std::ptr::with_exposed_provenance_mut(address)));
            }
        };
        let spot = Spot { base: Raw::from_bits(address), offset: 0 };
        self.find(device, spot, len, |state| state.action(access, writes))
            .map_or(Side::Nowhere, Side::Device)
    }

    /// Reports a write that the host has not waited for, whatever the queue is ordered behind.
    fn must_be_complete(&mut self, part: Span, access: &Access) {
        let bytes = part.offset..part.offset + part.len;
        let history = &self.allocations[part.allocation].history;
        let Some(found) = history.unfinished_write(&bytes, &self.host) else { return };
        let report = Report::new(Mistake::UnorderedRead)
            .about(self.subject(part.allocation, found.bytes))
            .first(self.action(&found.earlier, true))
            .second(self.action(access, false));
        self.report(
            report.note("The copy may read its source before earlier work of the same queue."),
        );
    }

    /// Returns what the host sees in memory that it shares, if no work is to change it any more.
    fn note(&self, part: Span) -> Box<[u8]> {
        if self.is_shared_and(part, |history, bytes| {
            history.unfinished_write(bytes, &self.host).is_none()
        }) && let Some(block) = &self.allocations[part.allocation].block
        {
            return block.read(part.offset, part.len).into();
        }
        Box::default()
    }

    /// Fills a destination that the host can see with bytes that look like no result, if no work
    /// uses it any more.
    fn mark_not_yet(&mut self, part: Span) -> Box<[u8]> {
        let is_free =
            self.is_shared_and(part, |history, _| history.unfinished(&self.host).is_none());
        if is_free && let Some(block) = &mut self.allocations[part.allocation].block {
            block.fill(part.offset, part.len, NOT_YET);
            return vec![NOT_YET; part.len as usize].into();
        }
        Box::default()
    }

    fn is_shared_and(
        &self,
        part: Span,
        is_so: impl FnOnce(&crate::track::History, &Range<u64>) -> bool,
    ) -> bool {
        let allocation = &self.allocations[part.allocation];
        allocation.placement.is_for_host()
            && is_so(&allocation.history, &(part.offset..part.offset + part.len))
    }
}
