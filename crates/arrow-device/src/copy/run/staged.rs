//! A copy between two devices that have no common path: chunk by chunk through host memory.
//!
//! A chunk is a stretch of the packed result. For each chunk:
//!
//! 1. A queue of the source writes the chunk's parts of pieces to host memory, and the host waits
//!    for that.
//! 2. The host changes offsets, and clears the gaps between the parts.
//! 3. The destination's queue reads the chunk while the next one is on its way from the source.
//!
//! Up to two chunks of host memory are used in turn. The host memory in use for copies to one
//! device is bounded. A copy waits for other copies only before its first chunk. A copy that has a
//! chunk goes on with that chunk alone if there is no room for a second one, so no two copies wait
//! for each other.

use super::in_flight::InFlight;
use super::target::Target;
use crate::copy::plan::CHUNKS_IN_FLIGHT;
use crate::copy::plan::chunks::{ChunkPart, chunks, parts};
use crate::copy::plan::transfer::Transfer;
use crate::copy::plan::walk::Walked;
use crate::copy::source::{CopySource, at_address, host_len};
use crate::copy::step::{self, no_way};
use crate::device::driver::{Region, Route, Spot};
use crate::device::staging::{Staging, StagingBlock};
use crate::{Device, Event, Queue, Result};

/// The smallest chunk of memory that is asked for.
pub(in crate::copy) const SMALLEST: u64 = 4096;

/// A chunk that the destination's queue still reads.
pub(in crate::copy) type SentChunk = InFlight<StagingBlock>;

/// The host memory for the chunks of one copy, which is used in turn.
pub(in crate::copy) struct ChunkMemory<'transfer> {
    device: &'transfer Device,
    /// How many bytes a chunk has at most.
    room: u64,
    /// The chunks that are on their way, oldest first.
    in_flight: Vec<SentChunk>,
    /// Whether the copy waits where other copies have too much memory in use.
    is_bounded: bool,
}

impl<'transfer> ChunkMemory<'transfer> {
    /// Memory for the chunks of a copy of `total` bytes to the device. The size of a chunk is
    /// rounded up and at least `smallest`, so that copies of similar sizes reuse the same memory.
    pub(in crate::copy) fn new(
        device: &'transfer Device,
        chunk: u64,
        total: u64,
        smallest: u64,
    ) -> Self {
        let room = chunk.min(total.next_power_of_two().max(smallest));
        let in_flight = Vec::with_capacity(CHUNKS_IN_FLIGHT);
        Self { device, room, in_flight, is_bounded: true }
    }

    /// This memory, for a copy that does not wait for other copies.
    pub(in crate::copy) fn without_bound(self) -> Self {
        Self { is_bounded: false, ..self }
    }

    /// Whether there is room for one more chunk beside those that are on their way.
    fn has_room(&self) -> bool {
        !self.is_bounded || Staging::has_room(self.device, self.room)
    }

    /// Whether the copy has to wait for others before it takes its first chunk. A copy that has a
    /// chunk reuses it, and so never waits for copies that wait for it.
    pub(in crate::copy) fn is_in_want(&self) -> bool {
        self.in_flight.is_empty() && !self.has_room()
    }

    /// The device whose memory it is.
    pub(in crate::copy) fn device(&self) -> &Device {
        self.device
    }

    /// Memory for the next chunk. Waits for the oldest chunk where as many are on their way as may
    /// be.
    pub(in crate::copy) fn next(&mut self) -> Result<StagingBlock> {
        if self.is_in_want() {
            Staging::wait_for_room(self.device, self.room);
        }
        match self.oldest_in_the_way() {
            None => self.fresh(),
            Some(oldest) => oldest.wait().map_err(|error| error.at_step(step::WRITE)),
        }
    }

    /// The chunk that the device has to read before there may be another one.
    pub(in crate::copy) fn oldest_in_the_way(&mut self) -> Option<SentChunk> {
        let is_enough = match self.in_flight.len() {
            0 => false,
            count => count >= CHUNKS_IN_FLIGHT || !self.has_room(),
        };
        is_enough.then(|| self.in_flight.remove(0))
    }

    /// Memory for one more chunk.
    pub(in crate::copy) fn fresh(&self) -> Result<StagingBlock> {
        Staging::take(self.device, self.room).map_err(|error| error.at_step(step::STAGE))
    }

    /// Memory for one more chunk, which the device copies without a wait.
    pub(in crate::copy) fn fresh_without_waits(&self) -> Result<StagingBlock> {
        let block = self.fresh()?;
        block.require_no_wait(self.device).map_err(|error| error.at_step(step::STAGE))?;
        Ok(block)
    }

    /// Adds a chunk that was submitted to the chunks in flight.
    pub(in crate::copy) fn send(&mut self, chunk: SentChunk) {
        self.in_flight.push(chunk);
    }

    /// The event behind the last chunk.
    pub(in crate::copy) fn last_event(&self) -> Option<Event> {
        self.in_flight.last().map(|last| last.event().clone())
    }
}

/// Copies all pieces, and returns the event behind the last chunk. The last chunks may still be on
/// their way to the destination when this returns.
pub(in crate::copy) fn run(
    transfer: &Transfer,
    walked: &Walked,
    target: &Target,
) -> Result<Option<Event>> {
    let CopySource::Lane(lane) = &transfer.source else { return Err(no_way()) };
    let (from, to) = (lane.queue()?, &transfer.queue);
    let (pieces, total) = (walked.pieces.list(), walked.pieces.total());
    let mut memory = ChunkMemory::new(to.device(), transfer.options.chunk, total, SMALLEST);
    for (start, end) in chunks(total, transfer.options.chunk) {
        let block = memory.next()?;
        let parts = parts(pieces, start, end);
        let mut block = read(from, &parts, block)?;
        change(&parts, bytes_of(&mut block, end - start))?;
        memory.send(write(transfer, &parts, (start, end), target, block)?);
    }
    Ok(memory.last_event())
}

/// Reads the parts of a chunk into host memory and waits.
fn read(queue: &Queue, parts: &[ChunkPart<'_>], block: StagingBlock) -> Result<StagingBlock> {
    let regions = regions_to_read(parts, &block);
    // SAFETY: UNS-21: the sources were checked when the copy was planned, and the lane keeps them;
    // the block has room for a chunk and is kept below until the queue has passed.
    let submitted = unsafe { queue.copy(Route::ToHost, &regions) };
    match submitted.and_then(|()| queue.synchronize()) {
        Ok(()) => Ok(block),
        Err(error) => {
            queue.keep_until_done(block);
            Err(error.at_step(step::READ))
        }
    }
}

/// The copies that read the parts of a chunk into the block, which has room for a chunk.
pub(in crate::copy) fn regions_to_read(
    parts: &[ChunkPart<'_>],
    block: &StagingBlock,
) -> Vec<Region> {
    let region = |part: &ChunkPart<'_>| {
        let Spot { base, offset } = part.piece.from;
        let from = Spot { base, offset: offset + part.at };
        let to = at_address(block.address().wrapping_add(host_len(part.to)));
        Region { from, to, len: part.len }
    };
    let read = parts.iter().filter(|part| part.piece.has_source());
    read.map(region).collect()
}

/// The bytes of a chunk of this length.
pub(in crate::copy) fn bytes_of(block: &mut StagingBlock, len: u64) -> &mut [u8] {
    // SAFETY: the block is at least as long as a chunk, all of it is initialised, and nobody else
    // has it.
    unsafe { std::slice::from_raw_parts_mut(block.address(), host_len(len)) }
}

/// Completes the pieces of a chunk.
pub(in crate::copy) fn change(parts: &[ChunkPart<'_>], bytes: &mut [u8]) -> Result<()> {
    fill_chunk(parts, bytes, |part, own| {
        part.piece.change.apply(own, part.at);
        Ok(())
    })
}

/// Calls `fill` with each part of a chunk and the bytes of the part. Clears the gaps between the
/// parts, where bytes of an earlier copy may be.
pub(in crate::copy) fn fill_chunk(
    parts: &[ChunkPart<'_>],
    bytes: &mut [u8],
    fill: impl Fn(&ChunkPart<'_>, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut end = 0;
    for part in parts {
        let (start, len) = (host_len(part.to), host_len(part.len));
        if let Some(gap) = bytes.get_mut(end..start) {
            gap.fill(0);
        }
        end = start + len;
        fill(part, bytes.get_mut(start..end).ok_or_else(no_way)?)?;
    }
    if let Some(gap) = bytes.get_mut(end..) {
        gap.fill(0);
    }
    Ok(())
}

/// Submits a chunk to the destination.
pub(in crate::copy) fn write(
    transfer: &Transfer,
    parts: &[ChunkPart<'_>],
    (start, end): (u64, u64),
    target: &Target,
    block: StagingBlock,
) -> Result<SentChunk> {
    let mut regions = Vec::new();
    if let Some(to) = target.packed_spot(start).filter(|_| target.is_packed()) {
        regions.push(Region { from: at_address(block.address()), to, len: end - start });
    } else {
        for part in parts {
            let from = at_address(block.address().wrapping_add(host_len(part.to)));
            let to = target.spot(part.number, part.piece, part.at).ok_or_else(no_way)?;
            regions.push(Region { from, to, len: part.len });
        }
    }
    // SAFETY: the block holds the chunk and is kept until the queue has passed, below; the target
    // was allocated for these pieces, on this queue.
    let submitted = unsafe { transfer.submit(Route::FromHost, &regions) };
    InFlight::behind(&transfer.queue, block, submitted).map_err(|error| error.at_step(step::WRITE))
}
