//! A copy from the host to a device that prefers few large pieces.
//!
//! The host gathers a chunk of the packed result in staging memory: host memory that is kept for
//! copies to the device. While the device reads that chunk, the host gathers the next one. Up to
//! two chunks of memory are used in turn.
//!
//! Why this is fast: the host touches the bytes of the source once, and a packed result takes one
//! region for each chunk instead of one for each piece. What must stay true: a chunk is not filled
//! again before the device has read it.

use super::staged::{self, ChunkMemory};
use super::target::Target;
use crate::copy::plan::chunks::{ChunkPart, chunks, parts};
use crate::copy::plan::piece::Piece;
use crate::copy::plan::transfer::Transfer;
use crate::copy::plan::walk::Walked;
use crate::copy::route::Pace;
use crate::copy::source::{CopySource, Span, copy_bytes};
use crate::copy::step;
use crate::device::driver::Spot;
use crate::{Event, Result};

/// The smallest chunk of memory that is asked for. Many small copies then use the same memory in
/// turn.
pub(in crate::copy) const SMALLEST: u64 = 64 << 10;

/// Copies all pieces and returns the event behind them. When this returns, the source was read, but
/// the last chunks may still be on their way to the device.
pub(in crate::copy) fn run(
    transfer: &Transfer,
    walked: &Walked,
    target: &Target,
) -> Result<Option<Event>> {
    let (pieces, total) = (walked.pieces.list(), walked.pieces.total());
    let chunk = transfer.gathered_chunk();
    let mut memory = ChunkMemory::new(transfer.queue.device(), chunk, total, SMALLEST);
    if transfer.pace == Pace::Started {
        memory = memory.without_bound();
    }
    for (start, end) in chunks(total, chunk) {
        let mut block = memory.next()?;
        let parts = parts(pieces, start, end);
        gather(&transfer.source, &parts, staged::bytes_of(&mut block, end - start))?;
        memory.send(staged::write(transfer, &parts, (start, end), target, block)?);
    }
    Ok(memory.last_event())
}

/// Fills a chunk with the bytes of its parts.
pub(in crate::copy) fn gather(
    source: &CopySource,
    parts: &[ChunkPart<'_>],
    bytes: &mut [u8],
) -> Result<()> {
    staged::fill_chunk(parts, bytes, |part, own| fill(source, part.piece, part.at, own))
}

/// Fills `to` with bytes of a piece, from `at` on.
fn fill(source: &CopySource, piece: &Piece, at: u64, to: &mut [u8]) -> Result<()> {
    if piece.has_source() {
        let Spot { base, offset } = piece.from;
        let span = Span { spot: Spot { base, offset: offset + at }, len: to.len() as u64 };
        // SAFETY: the host reads the source, which is ready, as the plan chose this way; the span
        // is a part of a piece.
        let shown = unsafe { source.show(span) }.map_err(|error| error.at_step(step::MAP))?;
        // SAFETY: `to` has as many bytes as are shown, and is memory of the driver's and no part of
        // the source.
        unsafe { copy_bytes(shown.address(), to.as_mut_ptr(), span.len) };
    }
    piece.change.apply(to, at);
    Ok(())
}
