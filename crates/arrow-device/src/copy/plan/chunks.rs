//! Cuts the packed result of a copy into chunks that pass through host memory one after another.
//!
//! A chunk is a stretch of the packed result, and all chunks but the last are of one length. Pieces
//! lie in the packed result in the order of their numbers, so the pieces of a chunk are found by a
//! search for the first one, and follow each other.

use super::pack::Pieces;
use super::piece::Piece;
use super::target_layout::TargetLayout;

/// What a staged copy costs.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::copy) struct StagedShape {
    pub(in crate::copy) chunks: u64,
    /// The number of chunks for which something is read from the source.
    pub(in crate::copy) reads: u64,
    pub(in crate::copy) regions_in: u64,
    pub(in crate::copy) regions_out: u64,
    pub(in crate::copy) bytes_out: u64,
}

/// The part of a piece that lies in a chunk.
pub(in crate::copy) struct ChunkPart<'a> {
    pub(in crate::copy) number: usize,
    pub(in crate::copy) piece: &'a Piece,
    /// Where the part begins in the piece.
    pub(in crate::copy) at: u64,
    /// Where the part begins in the chunk.
    pub(in crate::copy) to: u64,
    pub(in crate::copy) len: u64,
}

/// What a copy of these pieces costs in chunks of `chunk` bytes.
pub(in crate::copy) fn shape_of(pieces: &Pieces, layout: TargetLayout, chunk: u64) -> StagedShape {
    let (pieces, total) = (pieces.list(), pieces.total());
    let mut shape = StagedShape::default();
    for (start, end) in chunks(total, chunk) {
        let parts = parts(pieces, start, end);
        shape.chunks += 1;
        let read = parts.iter().filter(|part| part.piece.has_source()).count() as u64;
        shape.regions_in += read;
        shape.reads += u64::from(read > 0);
        match layout {
            TargetLayout::Packed { .. } => {
                shape.regions_out += 1;
                shape.bytes_out += end - start;
            }
            TargetLayout::Separate { .. } => {
                shape.regions_out += parts.len() as u64;
                shape.bytes_out += parts.iter().map(|part| part.len).sum::<u64>();
            }
        }
    }
    shape
}

/// The chunks of the packed result, each as its start and its end.
pub(in crate::copy) fn chunks(total: u64, chunk: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..total.div_ceil(chunk)).map(move |index| (index * chunk, ((index + 1) * chunk).min(total)))
}

/// The parts of pieces that lie between `start` and `end`.
pub(in crate::copy) fn parts(pieces: &[Piece], start: u64, end: u64) -> Vec<ChunkPart<'_>> {
    let first = pieces.partition_point(|piece| piece.end() <= start);
    let within = pieces.iter().enumerate().skip(first).take_while(|(_, piece)| piece.to < end);
    within
        .map(|(number, piece)| {
            let (from, to) = (piece.to.max(start), piece.end().min(end));
            ChunkPart { number, piece, at: from - piece.to, to: from - start, len: to - from }
        })
        .collect()
}
