//! Runs a plan: allocates the result and moves the bytes on the way that the plan chose.
//!
//! * From host to host: the host copies piece by piece (`gather`).
//! * From the host to a device: the host writes the pieces where it can map the device's memory
//!   (`gather`). Otherwise the device reads all pieces in one submission (`upload`), or in chunks
//!   that the host gathers (`gathered`).
//! * To the host: a queue of the source writes the pieces, with a wait after each 64 MiB
//!   (`to_host`).
//! * Within a device, and from a peer: the destination's queue copies in one submission. What has
//!   to change on its way makes a detour by the host (`directly`).
//! * Between devices without a common path: chunk by chunk through host memory (`staged`).
//!
//! What must stay true: memory that a queue may still read or write is kept until the queue has
//! passed, whatever fails (`keep_until_done`, `in_flight`).

mod gather;
mod gathered;
pub(super) mod in_flight;
mod memory_wait;
pub(super) mod polled;
mod result;
pub(super) mod staged;
mod target;

use self::target::{Target, Unallocated};
use super::plan::chunks::{ChunkPart, chunks, parts};
use super::plan::piece::{Change, Piece};
use super::plan::transfer::Transfer;
use super::plan::walk::Walked;
use super::plan::{DOWNLOADED_AT_ONCE, Plan, Planned};
use super::route::{CopyRoute, Pace};
use super::source::{CopySource, ShownBytes, Span, at_address, copy_bytes, host_address, host_len};
use super::step::{self, no_way};
use crate::array::{Pending, ReadyWhen};
use crate::device::driver::{
    self, Filled, Readiness as DeviceReadiness, Region, Spot, WaitingCopies,
};
use crate::device::staging::{Staging, StagingBlock, zeroed};
use crate::trace::told_while;
use crate::{Array, Error, Event, Queue, Result};

impl Plan {
    /// Copies as planned.
    ///
    /// A copy to a device returns as soon as all work is submitted, and the result is ready after
    /// an event. Where there is no common path, the data goes through host memory chunk by chunk,
    /// and the last chunk is submitted when this returns. Before the first chunk, the copy may wait
    /// for other copies (see [`copy`](crate::copy)). A copy to the host waits until the bytes have
    /// arrived.
    ///
    /// # Errors
    /// As for [`Array::copy_to`]. Whatever was allocated is freed again, after the queues have
    /// passed what was submitted.
    pub fn run(self) -> Result<Array> {
        match self.0 {
            Planned::Shared(array, _) => Ok(array),
            Planned::Moves(transfer, walked) => transfer.run(walked),
        }
    }
}

impl Transfer {
    /// [`Plan::run`] of a plan that moves something. Nothing is kept when this returns.
    pub(in crate::copy) fn run(self, walked: Walked) -> Result<Array> {
        let done = self.carry_out(&walked);
        done.map_err(|error| error.on_device_if_none(self.queue.device().id()))
    }

    fn carry_out(&self, walked: &Walked) -> Result<Array> {
        let pieces = walked.pieces.list();
        told_while!(
            "copy",
            route = ?self.route,
            bytes = walked.pieces.total(),
            from = %self.array.device(),
            to = %self.queue.device().id()
        );
        let mut target = self.allocate(walked)?;
        if pieces.is_empty() {
            // SAFETY: there are no pieces.
            return unsafe { result::build(self, walked, target, ReadyWhen::Now) };
        }
        let readiness = match &self.route {
            CopyRoute::Gather => {
                // SAFETY: the plan chose this way because the host reads the source and the target
                // is host memory.
                unsafe { gather::into_target(&self.source, pieces, &mut target) }?;
                ReadyWhen::Now
            }
            CopyRoute::ToHost => {
                target = self.to_host(pieces, target)?;
                ReadyWhen::Now
            }
            CopyRoute::FromHost if self.is_gathered() => {
                let last = gathered::run(self, walked, &target)?;
                self.finish_after(last)?
            }
            CopyRoute::FromHost => self.to_device(walked, &mut target)?,
            CopyRoute::Within => {
                self.directly(pieces, &target, driver::Route::Within)?;
                self.finish()?
            }
            CopyRoute::Peer(peer) => {
                // Orders the queue behind the source, and keeps the source until the queue has
                // passed.
                let view =
                    self.array.on(&self.queue).map_err(|error| error.at_step(step::ORDER))?;
                let route = driver::Route::FromPeer(&**peer.driver());
                self.directly(pieces, &target, route)?;
                drop(view);
                self.finish()?
            }
            CopyRoute::Staged => {
                let last = staged::run(self, walked, &target)?;
                self.finish_after(last)?
            }
        };
        // SAFETY: each way above wrote or submitted all pieces, and gave the event behind them or
        // waited.
        unsafe { result::build(self, walked, target, readiness) }
    }

    /// Allocates memory for the result. Waits for memory that is held back.
    fn allocate(&self, walked: &Walked) -> Result<Target> {
        let allocator = self.options.allocator.as_deref();
        let allocate = |len| self.queue.allocate_by(len, allocator);
        let allocated = Target::allocate(self.layout, &walked.pieces, &self.queue, allocate);
        allocated.map_err(|Unallocated { error, .. }| error.at_step(step::ALLOCATE))
    }

    /// Allocates memory for the result, if some is free without a wait.
    fn allocate_at_once(&self, walked: &Walked) -> Result<Target, Unallocated> {
        let allocator = self.options.allocator.as_deref();
        let allocate = |len| self.queue.allocate_at_once(len, allocator);
        Target::allocate(self.layout, &walked.pieces, &self.queue, allocate)
    }

    /// When the result is ready. Called after all work was submitted.
    fn finish(&self) -> Result<ReadyWhen> {
        match self.queue.device().properties().readiness {
            DeviceReadiness::Event | DeviceReadiness::QueueOrder => {
                let event = self.queue.record().map_err(|error| error.at_step(step::RECORD))?;
                Ok(ReadyWhen::After(Pending::Event(event)))
            }
            DeviceReadiness::HostWait => {
                self.queue.synchronize().map_err(|error| error.at_step(step::FINISH))?;
                Ok(ReadyWhen::Now)
            }
        }
    }

    /// When the result is ready, where an event stands behind all work already.
    fn finish_after(&self, last: Option<Event>) -> Result<ReadyWhen> {
        match (self.queue.device().properties().readiness, last) {
            (DeviceReadiness::Event | DeviceReadiness::QueueOrder, Some(event)) => {
                Ok(ReadyWhen::After(Pending::Event(event)))
            }
            _ => self.finish(),
        }
    }

    /// Copies to the host, with one submission on a queue of the source and one wait. A large copy
    /// takes several submissions, and a wait after each.
    fn to_host(&self, pieces: &[Piece], target: Target) -> Result<Target> {
        let CopySource::Lane(lane) = &self.source else { return Err(no_way()) };
        let queue = lane.queue()?;
        let total = pieces.last().map_or(0, Piece::end);
        let download = |stretch| {
            let regions = regions_to_host(pieces, &target, stretch);
            // SAFETY: UNS-21: the sources were checked when the copy was planned, as far as anybody
            // can, and are kept by the lane; the target was allocated for these pieces, and is kept
            // below until the queue has passed.
            let submitted = unsafe { queue.copy(driver::Route::ToHost, &regions) };
            submitted
                .map_err(|error| error.at_step(step::SUBMIT))
                .and_then(|()| queue.synchronize().map_err(|error| error.at_step(step::FINISH)))
        };
        let copied = chunks(total, DOWNLOADED_AT_ONCE).try_for_each(download);
        if let Err(error) = copied {
            // After the failure, the device may still write to the target.
            queue.keep_until_done(target);
            return Err(error);
        }
        finish_on_host(pieces, target)
    }

    /// Copies from the host to a device, with one submission, or none where the host fills the
    /// target itself.
    fn to_device(&self, walked: &Walked, target: &mut Target) -> Result<ReadyWhen> {
        let pieces = walked.pieces.list();
        // SAFETY: the host reads the source, as the plan chose this way (W1 of `plan/walk.rs`); the
        // target was allocated for these pieces and this queue, and nothing was submitted for it
        // since.
        let filled = unsafe {
            gather::into_mapping(&self.source, pieces, target, &self.queue, walked.pieces.total())
        }?;
        match filled {
            None => {}
            Some(Filled::Now) => {
                target.was_filled_by_host();
                return Ok(ReadyWhen::Now);
            }
            Some(Filled::InOrder) => return self.finish(),
            Some(Filled::After(event)) => {
                let event = Event::owned_alone(self.queue.device().clone(), event);
                return self.finish_after(Some(event));
            }
        }
        self.upload(walked, target)?;
        self.finish()
    }

    /// Copies host memory to a device with one submission.
    fn upload(&self, walked: &Walked, target: &Target) -> Result<()> {
        let pieces = walked.pieces.list();
        let mut kept = KeptForQueue::default();
        let mut regions = Vec::with_capacity(pieces.len());
        for (number, piece) in pieces.iter().enumerate() {
            let to = target.spot(number, piece, 0).ok_or_else(no_way)?;
            let from = if piece.change == Change::Nothing {
                // SAFETY: the host reads the source, as the plan chose this way, so the source is
                // ready (W1 of `plan/walk.rs`).
                let shown = unsafe { self.source.show(piece.span()) };
                let shown = shown.map_err(|error| error.at_step(step::MAP))?;
                let address = shown.address();
                if matches!(shown, ShownBytes::Mapped(_)) {
                    kept.shown.push(shown);
                }
                at_address(address)
            } else {
                // SAFETY: the host reads the source, as the plan chose this way, so the source is
                // ready (W1 of `plan/walk.rs`).
                let bytes = unsafe { gather::changed(&self.source, piece) }?;
                let from = at_address(bytes.as_ptr());
                kept.made.push(bytes);
                from
            };
            regions.push(Region { from, to, len: piece.len });
        }
        kept.source = Some(self.array.clone());
        // SAFETY: the sources are `len` bytes of the array or were made just now, and are kept
        // below until the queue has passed; the target was allocated for these pieces, on this
        // queue.
        let submitted = unsafe { self.submit(driver::Route::FromHost, &regions) };
        self.queue.keep_until_done(kept);
        submitted.map_err(|error| error.at_step(step::SUBMIT))
    }

    /// Copies without host memory, with one submission. Two more submissions move the bytes that
    /// make a detour by the host.
    fn directly(&self, pieces: &[Piece], target: &Target, route: driver::Route<'_>) -> Result<()> {
        let spans = self.detour_spans(pieces);
        let bytes = match spans.is_empty() {
            true => Vec::new(),
            // SAFETY: checked when the copy was planned; the lane keeps the source.
            false => unsafe { self.source.read(&spans, step::FETCH) }?,
        };
        self.directly_with(bytes, pieces, target, route)
    }

    /// [`directly`](Self::directly), with the bytes of the detour read already.
    fn directly_with(
        &self,
        fetched: Vec<u8>,
        pieces: &[Piece],
        target: &Target,
        route: driver::Route<'_>,
    ) -> Result<()> {
        self.by_detour(fetched, pieces, target)?;
        let direct = regions(pieces, target, |piece| !self.comes_by_the_host(piece));
        if let (CopyRoute::Within, CopySource::Lane(lane)) = (&self.route, &self.source) {
            // Orders the queue behind the source. The view of the lane keeps the source.
            lane.queue()?;
        }
        // SAFETY: the sources were checked when the copy was planned, and a view on this queue
        // keeps them; the target was allocated for these pieces, on this queue.
        let submitted = unsafe { self.submit(route, &direct) };
        submitted.map_err(|error| error.at_step(step::SUBMIT))
    }

    /// Sends the bytes of the detour from the host to the target: offsets that begin at another
    /// number now, and bytes that begin between two units of the device.
    fn by_detour(&self, mut bytes: Vec<u8>, pieces: &[Piece], target: &Target) -> Result<()> {
        if !pieces.iter().any(|piece| self.comes_by_the_host(piece)) {
            return Ok(());
        }
        let mut rest = bytes.as_mut_slice();
        let (mut regions, mut made) = (Vec::new(), Vec::new());
        for (number, piece) in pieces.iter().enumerate() {
            let to = target.spot(number, piece, 0).ok_or_else(no_way)?;
            if !self.comes_by_the_host(piece) {
                continue;
            }
            let own = if piece.has_source() {
                let own;
                (own, rest) = rest.split_at_mut(host_len(piece.len).min(rest.len()));
                own
            } else {
                made.push(zeroed(piece.len).map_err(|error| error.at_step(step::STAGE))?);
                made.last_mut().ok_or_else(no_way)?
            };
            piece.change.apply(own, 0);
            regions.push(Region { from: at_address(own.as_ptr()), to, len: piece.len });
        }
        let may_wait = self.queue.device().properties().waiting_copies != WaitingCopies::None;
        let staged = match self.pace == Pace::Polled && may_wait {
            true => Some(staged_sources(&self.queue, &mut regions)?),
            false => None,
        };
        // SAFETY: the sources are parts of `bytes`, `made` or `staged`, which are kept below until
        // the queue has passed; the target was allocated for these pieces, on this queue.
        let submitted = unsafe { self.submit(driver::Route::FromHost, &regions) };
        self.queue.keep_until_done((bytes, made, staged));
        submitted.map_err(|error| error.at_step(step::SUBMIT))
    }

    /// The spans of the source that make a detour by the host in a direct copy.
    fn detour_spans(&self, pieces: &[Piece]) -> Vec<Span> {
        let read = pieces.iter().filter(|piece| piece.has_source());
        read.filter(|piece| self.comes_by_the_host(piece)).map(Piece::span).collect()
    }

    /// Submits copies into the target to the queue. For a polled copy this does not wait.
    ///
    /// # Safety
    /// UNS-21. The destinations lie in the target, each at the beginning of its piece or of a
    /// chunk.
    unsafe fn submit(&self, route: driver::Route<'_>, regions: &[Region]) -> Result<()> {
        match self.pace {
            // SAFETY: UNS-21, as the caller promises; pieces and chunks begin at units, and what is
            // behind the end of one up to the next unit is nobody's.
            Pace::Waits | Pace::Started => unsafe { self.queue.copy_into_fresh(route, regions) },
            // SAFETY: UNS-21, as the caller promises; pieces and chunks begin at units, and what is
            // behind the end of one up to the next unit is nobody's.
            Pace::Polled => unsafe { self.queue.copy_units_into_fresh(route, regions) },
        }
    }
}

/// Moves the sources of copies from the host to memory from which the queue's device copies without
/// a wait. The regions are changed to begin there.
fn staged_sources(queue: &Queue, regions: &mut [Region]) -> Result<StagingBlock> {
    let total = regions.iter().map(|region| region.len).sum::<u64>().max(1);
    let staged = || {
        let block = Staging::take(queue.device(), total)?;
        block.require_no_wait(queue.device())?;
        Ok(block)
    };
    let block: StagingBlock = staged().map_err(|error: Error| error.at_step(step::STAGE))?;
    let mut offset = 0;
    for region in regions {
        let address = block.address().wrapping_add(host_len(offset));
        // SAFETY: the sources are host memory of the caller's with so many bytes; the block has
        // room for all of them, one behind the other, and nobody else has it.
        unsafe { copy_bytes(host_address(region.from), address, region.len) };
        region.from = at_address(address);
        offset += region.len;
    }
    Ok(block)
}

/// Completes the pieces of a target in host memory, after the bytes of the source have arrived.
fn finish_on_host(pieces: &[Piece], mut target: Target) -> Result<Target> {
    for (number, piece) in pieces.iter().enumerate() {
        if !piece.has_source() {
            let to = host_address(target.spot(number, piece, 0).ok_or_else(no_way)?);
            // SAFETY: host memory that was allocated for this piece, and that nobody else has yet.
            unsafe { to.write_bytes(0, host_len(piece.len)) };
        }
        // SAFETY: host memory that was just written to as a whole, and that nobody else has yet.
        piece.change.apply(unsafe { target.bytes(number, piece) }, 0);
    }
    Ok(target)
}

/// Memory that a queue reads, kept until the queue has passed.
#[derive(Debug, Default)]
struct KeptForQueue {
    /// Dropped before the memory that they show.
    shown: Vec<ShownBytes>,
    made: Vec<Vec<u8>>,
    source: Option<Array>,
}

/// The regions to copy a stretch of the packed result to the host.
fn regions_to_host(pieces: &[Piece], target: &Target, (start, end): (u64, u64)) -> Vec<Region> {
    let total = pieces.last().map_or(0, Piece::end);
    match (start, end) == (0, total) {
        true => regions(pieces, target, Piece::has_source),
        false => regions_within(pieces, target, start, end),
    }
}

/// The regions for the parts of pieces in a stretch of the packed result that have a source.
fn regions_within(pieces: &[Piece], target: &Target, start: u64, end: u64) -> Vec<Region> {
    let region = |part: ChunkPart<'_>| {
        let Spot { base, offset } = part.piece.from;
        let to = target.spot(part.number, part.piece, part.at)?;
        Some(Region { from: Spot { base, offset: offset + part.at }, to, len: part.len })
    };
    let parts = parts(pieces, start, end).into_iter();
    parts.filter(|part| part.piece.has_source()).filter_map(region).collect()
}

fn regions(pieces: &[Piece], target: &Target, goes: impl Fn(&Piece) -> bool) -> Vec<Region> {
    let of = |(number, piece): (usize, &Piece)| {
        let to = target.spot(number, piece, 0)?;
        Some(Region { from: piece.from, to, len: piece.len })
    };
    pieces.iter().enumerate().filter(|(_, piece)| goes(piece)).filter_map(of).collect()
}
