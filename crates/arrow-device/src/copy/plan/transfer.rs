//! [`Transfer`]: a copy that moves bytes, before it is known which.

use super::chunks::{StagedShape, shape_of};
use super::piece::{Change, Piece};
use super::target_layout::TargetLayout;
use super::walk::{KnownSizes, Terms, Walked};
use super::{CHUNKS_IN_FLIGHT, DOWNLOADED_AT_ONCE};
use crate::copy::options::Options;
use crate::copy::route::{self, CopyRoute, Hop, Pace, Way};
use crate::copy::source::CopySource;
use crate::device::lead;
use crate::device::staging::Staging;
use crate::{Array, DeviceId, Queue, Result};

/// How many times larger the chunks of a gathered copy are than [`Options::chunk`]. A gathered copy
/// does not wait for a first chunk to be read, so larger chunks cost it nothing.
const GATHERED_LARGER: u64 = 4;

/// A copy that moves bytes: from where and to where, on which way, with what choices. What travels
/// is in a [`Walked`], which a walk by these [terms](Self::terms) finds.
pub(in crate::copy) struct Transfer {
    pub(in crate::copy) array: Array,
    pub(in crate::copy) queue: Queue,
    pub(in crate::copy) options: Options,
    pub(in crate::copy) pace: Pace,
    pub(in crate::copy) route: CopyRoute,
    pub(in crate::copy) source: CopySource,
    pub(in crate::copy) layout: TargetLayout,
}

impl Transfer {
    /// `None` where the array is shared, so that nothing moves.
    pub(in crate::copy) fn choose(
        array: &Array,
        queue: &Queue,
        options: &Options,
        pace: Pace,
    ) -> Result<Option<Self>> {
        let Some((route, source)) = route::choose(array, queue, options, pace)? else {
            return Ok(None);
        };
        let layout = TargetLayout::choose(queue.device().properties(), options);
        let (array, queue, mut options) = (array.clone(), queue.clone(), options.clone());
        // Each chunk begins at a unit of the device that it goes to.
        let unit = queue.device().properties().copy_unit;
        options.chunk = options.chunk.next_multiple_of(unit);
        Ok(Some(Self { array, queue, options, pace, route, source, layout }))
    }

    /// The terms for a walk, which finds out what travels.
    pub(in crate::copy) fn terms<'a>(&'a self, sizes: &'a [KnownSizes]) -> Terms<'a> {
        let least = self.queue.device().properties().alignment as u64;
        Terms {
            array: &self.array,
            source: &self.source,
            trims: self.options.trim,
            is_direct: self.route.is_direct(),
            unit: self.source.unit(),
            alignment: self.options.alignment.max(least),
            sizes,
        }
    }

    /// The way of the data, hop by hop. Reads that were needed for the plan are not counted.
    pub(super) fn hops(&self, walked: &Walked) -> Vec<Hop> {
        let (from, to) = (self.array.device(), self.queue.device().id());
        let hop = |way, from, to, (bytes, regions): (u64, u64), submissions| Hop {
            way,
            from,
            to,
            bytes,
            regions,
            submissions,
        };
        let host = DeviceId::CPU;
        let all = count(walked, |_| true);
        let read = count(walked, Piece::has_source);
        let once = |(_, regions): (u64, u64)| u64::from(regions > 0);
        match &self.route {
            CopyRoute::Gather => vec![hop(Way::HostCopy, from, to, all, 0)],
            CopyRoute::FromHost if self.is_gathered() => {
                let shape = self.shape(walked, self.gathered_chunk());
                let moved = (shape.bytes_out, shape.regions_out);
                vec![hop(Way::FromHost, from, to, moved, shape.chunks)]
            }
            CopyRoute::FromHost => vec![hop(Way::FromHost, from, to, all, once(all))],
            CopyRoute::ToHost => {
                let shape = self.shape(walked, DOWNLOADED_AT_ONCE);
                let (moved, waits) = ((read.0, shape.regions_in), shape.reads);
                vec![hop(Way::ToHost, from, to, moved, waits)]
            }
            CopyRoute::Within | CopyRoute::Peer(_) => {
                let way = match self.route {
                    CopyRoute::Within => Way::Within,
                    _ => Way::FromPeer,
                };
                let direct = count(walked, |piece| !self.comes_by_the_host(piece));
                let detour = count(walked, |piece| self.comes_by_the_host(piece));
                let fetched = (read.0 - direct.0, read.1 - direct.1);
                let mut hops = vec![hop(way, from, to, direct, once(direct))];
                if fetched.1 > 0 {
                    hops.push(hop(Way::ToHost, from, host, fetched, 1));
                }
                if detour.1 > 0 {
                    hops.push(hop(Way::FromHost, host, to, detour, 1));
                }
                hops
            }
            CopyRoute::Staged => {
                let shape = self.shape(walked, self.options.chunk);
                vec![
                    hop(Way::ToHost, from, host, (read.0, shape.regions_in), shape.chunks),
                    hop(
                        Way::FromHost,
                        host,
                        to,
                        (shape.bytes_out, shape.regions_out),
                        shape.chunks,
                    ),
                ]
            }
        }
    }

    /// Whether the host gathers the data in staging memory, chunk by chunk, because the device
    /// prefers few large pieces.
    pub(in crate::copy) fn is_gathered(&self) -> bool {
        matches!(self.route, CopyRoute::FromHost)
            && self.queue.device().properties().gathered_writes
    }

    /// The size of a chunk of a gathered copy in bytes.
    pub(in crate::copy) fn gathered_chunk(&self) -> u64 {
        self.options.chunk.saturating_mul(GATHERED_LARGER)
    }

    /// Whether a piece of a direct copy makes a detour by the host. Such a piece changes on its
    /// way, has no source, or begins between two units that the device copies.
    pub(in crate::copy) fn comes_by_the_host(&self, piece: &Piece) -> bool {
        let source = match &self.route {
            CopyRoute::Peer(peer) => peer.properties(),
            _ => self.queue.device().properties(),
        };
        let is_odd = || source.copy_unit > 1 && lead(piece.from, source) > 0;
        !matches!(piece.change, Change::Nothing) || is_odd()
    }

    /// Whether a copy from the host may wait before its last chunk is filled: for the first one to
    /// be read, or for chunks of other copies.
    pub(in crate::copy) fn waits_for_chunks(&self, walked: &Walked) -> bool {
        if !self.is_gathered() {
            return false;
        }
        let (total, chunk) = (walked.pieces.total(), self.gathered_chunk());
        total.div_ceil(chunk) > CHUNKS_IN_FLIGHT as u64
            || !Staging::has_room(self.queue.device(), total.min(chunk))
    }

    /// What the copy costs in chunks of this size.
    fn shape(&self, walked: &Walked, chunk: u64) -> StagedShape {
        shape_of(&walked.pieces, self.layout, chunk)
    }
}

/// The bytes and the number of regions of the pieces that count.
fn count(walked: &Walked, counts: impl Fn(&Piece) -> bool) -> (u64, u64) {
    let pieces = walked.pieces.list().iter().filter(|piece| counts(piece));
    pieces.fold((0, 0), |(bytes, regions), piece| (bytes + piece.len, regions + 1))
}
