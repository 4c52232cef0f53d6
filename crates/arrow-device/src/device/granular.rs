//! Copies on devices that copy whole units, or between two allocations only.
//!
//! A [`Region`] names any bytes. Some runtimes take less: WebGPU copies four bytes at a time, at
//! multiples of four, and never inside one buffer. Their drivers say so in the
//! [`Properties`](super::driver::Properties), and a list of copies is changed here until such a
//! driver takes it:
//!
//! * Units that a region fills go to the driver as they are, if the source begins at a unit too.
//! * The host puts together a unit that regions fill in part: the bytes that are there are read,
//!   the new bytes are put in their places, and the unit is written.
//! * Bytes whose source begins at another position in its unit than the destination does pass
//!   through the host.
//! * A copy inside one allocation goes by fresh memory of the device.
//!
//! The host waits for the queue wherever it reads. None of this is done for memory that is fresh as
//! a whole. Copies of arrays fill such memory: every destination begins at a unit, and the bytes
//! behind it up to the next unit belong to nobody. Polled copies of arrays read their sources by
//! [`UnitReads`], and submit only copies that the driver takes unchanged.
//!
//! What must stay true: bytes outside of the destinations are written with what was there, and
//! nobody else writes to a unit meanwhile (UNS-21).

use super::Queue;
use super::driver::{Addressing, Driver, Properties, Raw, Region, Route, Spot};
use super::staging::{copy_bytes, host_address, zeroed};
use super::unit_reads::{ReadsTo, UnitReads};
use crate::{Error, ErrorKind, Result};

/// What may happen to the bytes between the end of a destination and the next unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slack {
    /// The bytes stay as they are.
    Kept,
    /// The bytes belong to nobody, wherever a destination begins at a unit: the driver may
    /// overwrite them.
    Nobodys,
}

/// Copies on a queue whose device, or peer, copies only whole units or only between allocations.
pub(super) struct GranularCopy<'a> {
    queue: &'a Queue,
    unit: u64,
    slack: Slack,
}

/// A part of a unit that is to be written, and the place of its new bytes in host memory.
struct UnitPart {
    to: Spot,
    len: u64,
    from: Spot,
}

/// A region, divided at the units of its destination.
struct RegionParts {
    head: u64,
    body: u64,
    tail: u64,
}

/// Whether a device takes any list of copies unchanged.
pub(super) fn takes_anything(properties: &Properties, route: &Route<'_>) -> bool {
    let is_any = properties.copy_unit == 1 && !properties.distinct_copies;
    match route {
        Route::FromPeer(peer) => is_any && peer.properties().copy_unit == 1,
        _ => is_any,
    }
}

impl<'a> GranularCopy<'a> {
    pub(super) fn new(queue: &'a Queue, slack: Slack) -> Self {
        Self { queue, unit: queue.device().properties().copy_unit, slack }
    }

    /// Submits the copies.
    ///
    /// # Safety
    /// UNS-21. Where the slack is nobody's, so are the bytes behind each destination, up to the
    /// next unit.
    pub(super) unsafe fn submit(&self, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let regions: Vec<_> = regions.iter().copied().filter(|region| region.len > 0).collect();
        let regions = regions.as_slice();
        match route {
            // SAFETY: UNS-21, and what the caller promises of slack.
            Route::FromHost => unsafe { self.write(regions) },
            // SAFETY: UNS-21, as the caller promises.
            Route::ToHost => unsafe { self.read(regions) },
            // SAFETY: UNS-21, and what the caller promises of slack.
            Route::Within => unsafe { self.within(regions) },
            // SAFETY: UNS-21 with this route, and what the caller promises of slack.
            Route::FromPeer(peer) => unsafe { self.copy_peer(peer, regions) },
        }
    }

    /// Submits copies unchanged that ask for whole units only. An error for other copies.
    ///
    /// # Safety
    /// UNS-21, and what is behind each destination up to the next unit is nobody's.
    pub(super) unsafe fn submit_as_is(&self, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let own = self.queue.device().properties();
        let source = match &route {
            Route::FromHost => None,
            Route::FromPeer(peer) => Some(peer.properties()),
            Route::ToHost | Route::Within => Some(own),
        };
        let begins_at_unit = |region: &Region| {
            let is_within = matches!(route, Route::Within) && own.distinct_copies;
            let is_apart = !is_within || region.from.base != region.to.base;
            let is_read = source.is_none_or(|source| lead(region.from, source) == 0);
            is_apart && is_read && (matches!(route, Route::ToHost) || self.lead(region.to) == 0)
        };
        let has_same_unit = source.is_none_or(|source| source.copy_unit == self.unit);
        if has_same_unit && regions.iter().all(begins_at_unit) {
            // SAFETY: UNS-21, as the caller promises.
            return unsafe { self.queue.submit_copies(route, regions) };
        }
        let message = "the device copies whole units, and this copy of other bytes would wait";
        let error = Error::new(ErrorKind::Unsupported, message);
        Err(error.during("copy").on_device(self.queue.device().id()))
    }

    // ---- between the device and the host

    /// Copies from the device to the host. Waits for the queue where a source begins inside a unit.
    ///
    /// # Safety
    /// UNS-21.
    unsafe fn read(&self, regions: &[Region]) -> Result<()> {
        let reads = UnitReads::new(self.queue, regions.to_vec(), ReadsTo::AndWait)?;
        // SAFETY: UNS-21, as the caller promises; the list is kept below until the wait has
        // succeeded, or until the queue has passed.
        let submitted = unsafe { reads.submit(self.queue) };
        if reads.has_finished() {
            return submitted;
        }
        if let Err(error) = submitted.and_then(|()| self.queue.synchronize()) {
            self.queue.keep_until_done(reads);
            return Err(error);
        }
        // SAFETY: the queue has passed the copies; the caller's memory is there until then, and
        // nobody else has it meanwhile (UNS-21).
        unsafe { reads.finish() };
        Ok(())
    }

    /// Copies from the host to the device.
    ///
    /// # Safety
    /// UNS-21, and what [`submit`](Self::submit) says of slack.
    unsafe fn write(&self, regions: &[Region]) -> Result<()> {
        let (mut whole, mut parts) = (Vec::with_capacity(regions.len()), Vec::new());
        for region in regions {
            let Region { from, to, len } = *region;
            if self.lead(to) == 0 && self.slack == Slack::Nobodys {
                whole.push(*region);
                continue;
            }
            let RegionParts { head, body, tail } = self.parts(to, len);
            let part = |at: u64, len| UnitPart { to: behind(to, at), len, from: behind(from, at) };
            parts.extend([part(0, head), part(head + body, tail)]);
            whole.push(Region { from: behind(from, head), to: behind(to, head), len: body });
        }
        parts.retain(|part| part.len > 0);
        whole.retain(|region| region.len > 0);
        if parts.is_empty() {
            // SAFETY: UNS-21, and what the caller promises of slack.
            return unsafe { self.queue.submit_copies(Route::FromHost, &whole) };
        }
        // SAFETY: UNS-21, as the caller promises.
        let (units, written) = unsafe { self.put_together(parts) }?;
        whole.extend(written);
        // SAFETY: UNS-21, as the caller promises; the units that were put together are kept until
        // the queue has passed.
        let submitted = unsafe { self.queue.submit_copies(Route::FromHost, &whole) };
        self.queue.keep_until_done(units);
        submitted
    }

    /// Puts units together of which only parts are written. Returns their bytes, and the copies
    /// that write them. Waits for the queue where the parts of a unit do not fill it.
    ///
    /// # Safety
    /// UNS-21 holds of the parts, of which each lies in one unit.
    unsafe fn put_together(&self, mut parts: Vec<UnitPart>) -> Result<(Vec<u8>, Vec<Region>)> {
        parts.sort_by_key(|part| self.place(part.to));
        let is_same = |one: &UnitPart, other: &UnitPart| {
            self.place(self.unit_of(one.to)) == self.place(self.unit_of(other.to))
        };
        let count = parts.chunk_by(is_same).count() as u64;
        let mut units = zeroed(count * self.unit)?;
        let base = Raw::from_ptr(units.as_mut_ptr().cast());
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let in_order = (0..).step_by(self.unit as usize);
        for (offset, parts) in in_order.zip(parts.chunk_by(is_same)) {
            let [first, ..] = parts else { continue };
            let (here, there) = (Spot { base, offset }, self.unit_of(first.to));
            if parts.iter().map(|part| part.len).sum::<u64>() < self.unit {
                self.join(&mut read, Region { from: there, to: here, len: self.unit });
            }
            self.join(&mut written, Region { from: here, to: there, len: self.unit });
        }
        if !read.is_empty() {
            // SAFETY: UNS-21, as the caller promises: an allocation has whole units, and nobody
            // else writes to a unit that is filled in part. `units` has room, and is kept until the
            // wait has succeeded, or until the queue has passed.
            let submitted = unsafe { self.queue.submit_copies(Route::ToHost, &read) };
            if let Err(error) = submitted.and_then(|()| self.queue.synchronize()) {
                self.queue.keep_until_done(units);
                return Err(error);
            }
        }
        let in_order = (0..).step_by(self.unit as usize);
        for (offset, parts) in in_order.zip(parts.chunk_by(is_same)) {
            for part in parts {
                let to = Spot { base, offset: offset + self.lead(part.to) };
                // SAFETY: a source in host memory has its bytes when the copy is submitted
                // (UNS-21); the part lies inside its unit, for which `units` has room.
                unsafe { copy_bytes(host_address(part.from), host_address(to), part.len) };
            }
        }
        Ok((units, written))
    }

    // ---- between places of the device

    /// # Safety
    /// UNS-21, and what [`submit`](Self::submit) says of slack.
    unsafe fn within(&self, regions: &[Region]) -> Result<()> {
        let (direct, by_host) = self.divide(regions, |from| self.lead(from));
        if !by_host.is_empty() {
            // SAFETY: UNS-21, and what the caller promises of slack.
            unsafe { self.by_host(&by_host) }?;
        }
        if !self.queue.device().properties().distinct_copies {
            // SAFETY: UNS-21, and what the caller promises of slack.
            return unsafe { self.queue.submit_copies(Route::Within, &direct) };
        }
        let (inside, apart): (Vec<_>, Vec<_>) =
            direct.into_iter().partition(|region| region.from.base == region.to.base);
        // SAFETY: UNS-21, and what the caller promises of slack.
        unsafe { self.queue.submit_copies(Route::Within, &apart) }?;
        // SAFETY: UNS-21, and what the caller promises of slack.
        unsafe { self.by_fresh_memory(Route::Within, &inside, |from| from) }
    }

    /// # Safety
    /// UNS-21 with the route from this peer, and what [`submit`](Self::submit) says of slack.
    unsafe fn copy_peer(&self, peer: &dyn Driver, regions: &[Region]) -> Result<()> {
        let route = Route::FromPeer(peer);
        if peer.properties().copy_unit != self.unit {
            let message = format!("{} copies other units; copy by the host", peer.id());
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error.during("copy").on_device(self.queue.device().id()));
        }
        let lead = |from| lead(from, peer.properties());
        let (direct, odd) = self.divide(regions, lead);
        // SAFETY: UNS-21, and what the caller promises of slack.
        unsafe { self.queue.submit_copies(route, &direct) }?;
        // SAFETY: UNS-21, and what the caller promises of slack.
        unsafe { self.by_fresh_memory(route, &odd, |from| back(from, lead(from))) }
    }

    /// Divides regions into those that the driver copies itself and the others. `lead` says how far
    /// into its unit a source begins.
    fn divide(&self, regions: &[Region], lead: impl Fn(Spot) -> u64) -> (Vec<Region>, Vec<Region>) {
        let (mut direct, mut rest) = (Vec::with_capacity(regions.len()), Vec::new());
        for region in regions {
            let Region { from, to, len } = *region;
            if lead(from) != self.lead(to) {
                rest.push(*region);
            } else if self.lead(to) == 0 && self.slack == Slack::Nobodys {
                direct.push(*region);
            } else {
                let RegionParts { head, body, tail } = self.parts(to, len);
                let part =
                    |at: u64, len| Region { from: behind(from, at), to: behind(to, at), len };
                direct.push(part(head, body));
                rest.extend([part(0, head), part(head + body, tail)]);
            }
        }
        direct.retain(|region| region.len > 0);
        rest.retain(|region| region.len > 0);
        (direct, rest)
    }

    /// Copies within the device by way of the host. Waits for the queue.
    ///
    /// # Safety
    /// UNS-21, and what [`submit`](Self::submit) says of slack.
    unsafe fn by_host(&self, regions: &[Region]) -> Result<()> {
        let mut staged = zeroed(regions.iter().map(|region| region.len).sum())?;
        let (base, mut offset) = (Raw::from_ptr(staged.as_mut_ptr().cast()), 0);
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for Region { from, to, len } in regions.iter().copied() {
            let here = Spot { base, offset };
            read.push(Region { from, to: here, len });
            written.push(Region { from: here, to, len });
            offset += len;
        }
        // A device may read host memory as soon as a copy is submitted, so the bytes have to be
        // there.
        // SAFETY: UNS-21, as the caller promises; `staged` has room, and is kept until the queue
        // has passed, below.
        let submitted = unsafe { self.read(&read) }.and_then(|()| self.queue.synchronize());
        // SAFETY: UNS-21, and what the caller promises of slack; `staged` has the bytes, and is
        // kept until the queue has passed, below.
        let submitted = submitted.and_then(|()| unsafe { self.write(&written) });
        self.queue.keep_until_done(staged);
        submitted
    }

    /// Copies by way of fresh memory of the device. `widened` says where to begin to read for a
    /// source, at most one unit before it.
    ///
    /// # Safety
    /// UNS-21 with this route, and what [`submit`](Self::submit) says of slack; what is read before
    /// a source lies in the same allocation.
    unsafe fn by_fresh_memory(
        &self,
        route: Route<'_>,
        regions: &[Region],
        widened: impl Fn(Spot) -> Spot,
    ) -> Result<()> {
        if regions.is_empty() {
            return Ok(());
        }
        let lead = |from: Spot| {
            let (whole, begin) = (from.base.bits() as u64, widened(from));
            whole.wrapping_add(from.offset).wrapping_sub(begin.base.bits() as u64 + begin.offset)
        };
        let room = |region: &Region| (lead(region.from) + region.len).next_multiple_of(self.unit);
        let mut memory = self.queue.allocate(regions.iter().map(room).sum())?;
        let mut there = memory.spot(self.queue)?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for region in regions {
            let (from, lead) = (widened(region.from), lead(region.from));
            first.push(Region { from, to: there, len: lead + region.len });
            second.push(Region { from: behind(there, lead), ..*region });
            there = behind(there, room(region));
        }
        // SAFETY: UNS-21, as the caller promises; the fresh memory has whole units for each region,
        // which are nobody else's, and goes after the queue has passed.
        unsafe { self.queue.submit_copies(route, &first) }?;
        // SAFETY: UNS-21, and what the caller promises of slack; the fresh memory is another
        // allocation than that of any destination.
        unsafe { self.within(&second) }
    }

    // ---- places

    /// How far into its unit a place on the device is.
    fn lead(&self, spot: Spot) -> u64 {
        lead(spot, self.queue.device().properties())
    }

    /// The beginning of the unit that a place is in.
    fn unit_of(&self, spot: Spot) -> Spot {
        back(spot, self.lead(spot))
    }

    fn place(&self, spot: Spot) -> (usize, u64) {
        place(spot, self.queue.device().properties().addressing)
    }

    /// The parts of a destination that fill a unit in part, and the part that fills whole units.
    fn parts(&self, to: Spot, len: u64) -> RegionParts {
        let lead = self.lead(to);
        let head = if lead == 0 { 0 } else { len.min(self.unit - lead) };
        let tail = (len - head) % self.unit;
        RegionParts { head, body: len - head - tail, tail }
    }

    /// Adds a region. If it continues the last region on both sides, the last region grows instead.
    fn join(&self, regions: &mut Vec<Region>, region: Region) {
        match regions.last_mut() {
            Some(last)
                if behind(last.from, last.len) == region.from
                    && behind(last.to, last.len) == region.to =>
            {
                last.len += region.len;
            }
            _ => regions.push(region),
        }
    }
}

/// How far into its unit a place is, on a device with these properties.
pub(crate) fn lead(spot: Spot, properties: &Properties) -> u64 {
    place(spot, properties.addressing).1 % properties.copy_unit
}

/// Identifies a place: its handle, where memory is named by handles, and the offset from there.
fn place(spot: Spot, addressing: Addressing) -> (usize, u64) {
    match addressing {
        Addressing::Address => (0, (spot.base.bits() as u64).wrapping_add(spot.offset)),
        Addressing::Handle => (spot.base.bits(), spot.offset),
    }
}

fn behind(spot: Spot, bytes: u64) -> Spot {
    Spot { offset: spot.offset + bytes, ..spot }
}

/// The place so many bytes before a place. An address may lie before the base from which it counts.
pub(super) fn back(spot: Spot, bytes: u64) -> Spot {
    match spot.offset.checked_sub(bytes) {
        Some(offset) => Spot { offset, ..spot },
        None => {
            let missing = (bytes - spot.offset) as usize;
            Spot { base: Raw::from_ptr(spot.base.as_ptr().wrapping_byte_sub(missing)), offset: 0 }
        }
    }
}
