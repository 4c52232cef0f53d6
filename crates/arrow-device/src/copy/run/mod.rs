//! Carrying a plan out.

mod gather;
mod gathered;
pub(super) mod in_flight;
pub(super) mod polled;
mod result;
mod staged;
mod target;

use self::target::Target;
use super::plan::chunks::{ChunkPart, chunks, parts};
use super::plan::piece::{Change, Piece, ZEROS};
use super::plan::walk::Walked;
use super::plan::{DOWNLOADED_AT_ONCE, Plan};
use super::route::{CopyRoute, Pace};
use super::source::{CopySource, ShownBytes, Span, at_address, host_address, host_len};
use super::step::{self, no_way};
use crate::array::{Pending, ReadyWhen};
use crate::device::driver::{self, Filled, Readiness as DeviceReadiness, Region, Spot};
use crate::{Array, Event, Queue, Result};

impl Plan {
    /// Copies, as planned.
    ///
    /// To a device this returns as soon as the work is submitted, and the result is ready after an
    /// event; where there is no common path and the data goes through host memory chunk by chunk,
    /// after the last chunk was submitted. To the host it waits.
    ///
    /// # Errors
    /// As for [`Array::copy_to`]. Whatever was allocated is freed again, after the queues have
    /// passed what was submitted.
    pub fn run(mut self) -> Result<Array> {
        let Some(walked) = self.walked.take() else { return Ok(self.array) };
        let done = self.carry_out(&walked);
        done.map_err(|error| error.on_device_if_none(self.queue.device().id()))
    }

    fn carry_out(&self, walked: &Walked) -> Result<Array> {
        let pieces = walked.pieces.list();
        let mut target = self.allocate(walked, Pace::Waits)?;
        if pieces.is_empty() {
            // SAFETY: there are none.
            return unsafe { result::build(self, walked, target, ReadyWhen::Now) };
        }
        let readiness = match &self.route {
            CopyRoute::Shared | CopyRoute::Gather => {
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
                // Orders the queue behind the source, which it keeps until the queue has passed.
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

    fn allocate(&self, walked: &Walked, pace: Pace) -> Result<Target> {
        Target::allocate(self.layout, &walked.pieces, &self.queue, &self.options, pace)
            .map_err(|error| error.at_step(step::ALLOCATE))
    }

    /// When the result is ready, after all was submitted.
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

    /// The same where an event stands behind all of it already.
    fn finish_after(&self, last: Option<Event>) -> Result<ReadyWhen> {
        match (self.queue.device().properties().readiness, last) {
            (DeviceReadiness::Event | DeviceReadiness::QueueOrder, Some(event)) => {
                Ok(ReadyWhen::After(Pending::Event(event)))
            }
            _ => self.finish(),
        }
    }

    /// One submission on a queue of the source, and a wait; several where there is much.
    fn to_host(&self, pieces: &[Piece], target: Target) -> Result<Target> {
        let CopySource::Lane(lane) = &self.source else { return Err(no_way()) };
        let queue = lane.queue()?;
        let total = pieces.last().map_or(0, Piece::end);
        let download = |stretch| {
            self.download(queue, pieces, &target, stretch)
                .and_then(|()| queue.synchronize().map_err(|error| error.at_step(step::FINISH)))
        };
        let copied = chunks(total, DOWNLOADED_AT_ONCE).try_for_each(download);
        if let Err(error) = copied {
            // The device may still write there.
            queue.keep_until_done(target);
            return Err(error);
        }
        finish_on_host(pieces, target)
    }

    /// Submits the copies of a stretch to the host. The caller keeps the target until the queue has
    /// passed them, whatever the outcome.
    fn download(
        &self,
        queue: &Queue,
        pieces: &[Piece],
        target: &Target,
        (start, end): (u64, u64),
    ) -> Result<()> {
        let total = pieces.last().map_or(0, Piece::end);
        let regions = match (start, end) == (0, total) {
            true => regions(pieces, target, Piece::has_source),
            false => regions_within(pieces, target, start, end),
        };
        // SAFETY: UNS-21: the sources were checked when the copy was planned, as far as anybody
        // can, and are kept by the lane; the target was allocated for these pieces and is kept by
        // the caller until the queue has passed.
        let submitted = unsafe { queue.copy(driver::Route::ToHost, &regions) };
        submitted.map_err(|error| error.at_step(step::SUBMIT))
    }

    /// One submission that reads host memory; or none, where the host fills the target itself.
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

    /// One submission that reads host memory.
    fn upload(&self, walked: &Walked, target: &Target) -> Result<()> {
        let pieces = walked.pieces.list();
        let mut kept = KeptForQueue::default();
        let mut regions = Vec::with_capacity(pieces.len());
        for (number, piece) in pieces.iter().enumerate() {
            let to = target.spot(number, piece, 0).ok_or_else(no_way)?;
            let from = match &piece.change {
                Change::Nothing => {
                    // SAFETY: the host reads the source, as the plan chose this way, so the source
                    // is ready (W1 of `plan/walk.rs`).
                    let shown = unsafe { self.source.show(piece.span()) };
                    let shown = shown.map_err(|error| error.at_step(step::MAP))?;
                    let address = shown.address();
                    if matches!(shown, ShownBytes::Mapped(_)) {
                        kept.shown.push(shown);
                    }
                    at_address(address)
                }
                changed => {
                    // SAFETY: the host reads the source, as the plan chose this way, so the source
                    // is ready (W1 of `plan/walk.rs`).
                    let bytes = unsafe { gather::changed(&self.source, piece, changed) }?;
                    let from = at_address(bytes.as_ptr());
                    kept.made.push(bytes);
                    from
                }
            };
            regions.push(Region { from, to, len: piece.len });
        }
        kept.source = Some(self.array.clone());
        // SAFETY: the sources are `len` bytes of the array or were made just now, and are kept
        // below until the queue has passed; the target was allocated for these pieces, on this
        // queue.
        let submitted = unsafe { self.queue.copy_into_fresh(driver::Route::FromHost, &regions) };
        self.queue.keep_until_done(kept);
        submitted.map_err(|error| error.at_step(step::SUBMIT))
    }

    /// One submission that does not come by the host; two more where offsets have to.
    fn directly(&self, pieces: &[Piece], target: &Target, route: driver::Route<'_>) -> Result<()> {
        let spans = detour_spans(pieces);
        let bytes = match spans.is_empty() {
            true => Vec::new(),
            // SAFETY: checked when the copy was planned; the lane keeps the source.
            false => unsafe { self.source.read(&spans, step::FETCH) }?,
        };
        self.directly_with(bytes, pieces, target, route)
    }

    /// The same with the bytes of what comes by the host.
    fn directly_with(
        &self,
        fetched: Vec<u8>,
        pieces: &[Piece],
        target: &Target,
        route: driver::Route<'_>,
    ) -> Result<()> {
        self.by_detour(fetched, pieces, target)?;
        let direct = regions(pieces, target, |piece| !comes_by_the_host(piece));
        if let (CopyRoute::Within, CopySource::Lane(lane)) = (&self.route, &self.source) {
            // Orders the queue behind the source, which the lane keeps.
            lane.queue()?;
        }
        // SAFETY: the sources were checked when the copy was planned, and a view on this queue
        // keeps them; the target was allocated for these pieces, on this queue.
        let submitted = unsafe { self.queue.copy_into_fresh(route, &direct) };
        submitted.map_err(|error| error.at_step(step::SUBMIT))
    }

    /// Offsets that begin at another number went to the host, and go back.
    fn by_detour(&self, mut bytes: Vec<u8>, pieces: &[Piece], target: &Target) -> Result<()> {
        if !pieces.iter().any(comes_by_the_host) {
            return Ok(());
        }
        let mut rest = bytes.as_mut_slice();
        let mut regions = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let to = target.spot(number, piece, 0).ok_or_else(no_way)?;
            if !piece.has_source() {
                regions.push(Region { from: at_address(ZEROS.as_ptr()), to, len: piece.len });
            }
            let Change::Rebase(rebase) = piece.change else { continue };
            let len = host_len(piece.len).min(rest.len());
            let (own, others) = rest.split_at_mut(len);
            rest = others;
            rebase.apply(own, 0);
            regions.push(Region { from: at_address(own.as_ptr()), to, len: piece.len });
        }
        // SAFETY: the sources are parts of `bytes`, which is kept below until the queue has passed,
        // or never go; the target was allocated for these pieces, on this queue.
        let submitted = unsafe { self.queue.copy_into_fresh(driver::Route::FromHost, &regions) };
        self.queue.keep_until_done(bytes);
        submitted.map_err(|error| error.at_step(step::SUBMIT))
    }
}

/// Whether a piece of a direct copy changes on its way, or has no source.
fn comes_by_the_host(piece: &Piece) -> bool {
    !matches!(piece.change, Change::Nothing)
}

/// Which parts of the source of a direct copy come by the host.
fn detour_spans(pieces: &[Piece]) -> Vec<Span> {
    let read = pieces.iter().filter(|piece| comes_by_the_host(piece) && piece.has_source());
    read.map(Piece::span).collect()
}

/// Completes the pieces of a target on the host, after those with a source have arrived.
fn finish_on_host(pieces: &[Piece], mut target: Target) -> Result<Target> {
    for (number, piece) in pieces.iter().enumerate() {
        if let Change::Rebase(rebase) = piece.change {
            // SAFETY: host memory that was just written to as a whole, and that nobody else has
            // yet.
            rebase.apply(unsafe { target.bytes(number, piece) }, 0);
        }
        if !piece.has_source() {
            let to = host_address(target.spot(number, piece, 0).ok_or_else(no_way)?);
            // SAFETY: host memory that was allocated for this piece, and that nobody else has yet.
            unsafe { to.write_bytes(0, host_len(piece.len)) };
        }
    }
    Ok(target)
}

/// What a queue reads, until it has passed.
#[derive(Debug, Default)]
struct KeptForQueue {
    /// Dropped before what they show.
    shown: Vec<ShownBytes>,
    made: Vec<Vec<u8>>,
    source: Option<Array>,
}

/// What of the pieces is in a stretch of the packed result, and has a source.
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
