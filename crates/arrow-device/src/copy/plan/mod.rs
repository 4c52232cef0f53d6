//! [`Plan`]: all that is known of a copy before it runs.
//!
//! 1. The way of the data and the source that is read on that way are chosen (`route::choose`).
//! 2. How the result is divided into allocations follows from the device and the options
//!    (`target_layout`).
//! 3. A walk over the nodes finds the bytes that travel, as pieces (`walk`). Nothing is walked
//!    where the array is shared.
//! 4. What a plan says of its cost is counted from the pieces when somebody asks (`hops`).

pub(super) mod chunks;
pub(super) mod columns;
pub(super) mod cut;
pub(super) mod indices;
pub(super) mod known;
pub(super) mod lengths;
pub(super) mod narrow;
pub(super) mod pack;
pub(super) mod piece;
pub(super) mod rebase;
mod report;
pub(super) mod stopped;
pub(super) mod target_layout;
pub(super) mod walk;

pub use cut::{Cut, Note};

use std::fmt;

use self::chunks::{StagedShape, shape_of};
use self::piece::{Change, Piece};
use self::target_layout::TargetLayout;
use self::walk::{KnownSizes, Learned, Terms, Walked};
use super::options::Options;
use super::route::{self, CopyRoute, Hop, Pace, Way};
use super::source::CopySource;
use super::step;
use crate::device::lead;
use crate::device::staging::Staging;
use crate::{Array, DeviceId, NodePath, Queue, Result};

/// How many times larger the chunks of a gathered copy are than [`Options::chunk`]. A gathered copy
/// does not wait for a first chunk to be read, so larger chunks cost it nothing.
const GATHERED_LARGER: u64 = 4;
/// How many chunks of one copy are on their way at a time.
pub(in crate::copy) const CHUNKS_IN_FLIGHT: usize = 2;
/// How many bytes a copy to the host submits before it waits for them, so that a driver which
/// stages data needs no more memory than that.
pub(in crate::copy) const DOWNLOADED_AT_ONCE: u64 = 64 << 20;

/// A copy that is planned and has not run: see [`copy`](crate::copy).
///
/// Printed, a plan says which way the data goes, how much work that is, and what was cut off and
/// why. The plan keeps the source.
pub struct Plan {
    pub(in crate::copy) array: Array,
    pub(in crate::copy) queue: Queue,
    pub(in crate::copy) options: Options,
    pub(in crate::copy) pace: Pace,
    pub(in crate::copy) route: CopyRoute,
    pub(in crate::copy) source: CopySource,
    pub(in crate::copy) layout: TargetLayout,
    /// `None` where nothing is copied.
    pub(in crate::copy) walked: Option<Walked>,
}

impl Plan {
    pub(in crate::copy) fn new(array: &Array, queue: &Queue, options: &Options) -> Result<Self> {
        let planned = Self::prepare(array, queue, options);
        planned.map_err(|error| named(error).on_device_if_none(array.device()))
    }

    fn prepare(array: &Array, queue: &Queue, options: &Options) -> Result<Self> {
        let mut plan = Self::draft(array, queue, options, Pace::Waits)?;
        if !matches!(plan.route, CopyRoute::Shared) {
            // SAFETY: `choose` chose the source for this array, and waited where the host reads it.
            plan.walked = Some(unsafe { walk::walk(plan.terms(&[])) }?);
        }
        Ok(plan)
    }

    /// A plan that has a route. What travels is not known yet.
    pub(in crate::copy) fn draft(
        array: &Array,
        queue: &Queue,
        options: &Options,
        pace: Pace,
    ) -> Result<Self> {
        let (route, source) = route::choose(array, queue, options, pace)?;
        let layout = TargetLayout::choose(queue.device().properties(), options);
        let (array, queue, mut options) = (array.clone(), queue.clone(), options.clone());
        // Each chunk begins at a unit of the device that it goes to.
        let unit = queue.device().properties().copy_unit;
        options.chunk = options.chunk.next_multiple_of(unit);
        Ok(Self { array, queue, options, pace, route, source, layout, walked: None })
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

    /// The array that is copied.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The way of the data, hop by hop. Reads that were needed for the plan are not counted.
    pub fn hops(&self) -> Vec<Hop> {
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
        let all = self.count(|_| true);
        let read = self.count(Piece::has_source);
        let once = |(_, regions): (u64, u64)| u64::from(regions > 0);
        match &self.route {
            CopyRoute::Shared => vec![hop(Way::Shared, from, to, (0, 0), 0)],
            CopyRoute::Gather => vec![hop(Way::HostCopy, from, to, all, 0)],
            CopyRoute::FromHost if self.is_gathered() => {
                let shape = self.shape(self.gathered_chunk());
                let moved = (shape.bytes_out, shape.regions_out);
                vec![hop(Way::FromHost, from, to, moved, shape.chunks)]
            }
            CopyRoute::FromHost => vec![hop(Way::FromHost, from, to, all, once(all))],
            CopyRoute::ToHost => {
                let shape = self.shape(DOWNLOADED_AT_ONCE);
                let (moved, waits) = ((read.0, shape.regions_in), shape.reads);
                vec![hop(Way::ToHost, from, to, moved, waits)]
            }
            CopyRoute::Within | CopyRoute::Peer(_) => {
                let way = match self.route {
                    CopyRoute::Within => Way::Within,
                    _ => Way::FromPeer,
                };
                let direct = self.count(|piece| !self.comes_by_the_host(piece));
                let detour = self.count(|piece| self.comes_by_the_host(piece));
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
                let shape = self.shape(self.options.chunk);
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

    /// How many bytes of the array move.
    pub fn bytes(&self) -> u64 {
        self.walked.as_ref().map_or(0, |walked| walked.pieces.bytes())
    }

    /// How many regions move, on all hops together.
    pub fn regions(&self) -> u64 {
        self.hops().iter().map(|hop| hop.regions).sum()
    }

    /// How often the drivers are called with work, those calls included that read lengths.
    pub fn submissions(&self) -> u64 {
        let of_hops: u64 = self.hops().iter().map(|hop| hop.submissions).sum();
        of_hops + self.learned().waits
    }

    /// How many allocations the result is made of.
    pub fn allocations(&self) -> u64 {
        self.walked.as_ref().map_or(0, |walked| self.layout.allocations(&walked.pieces))
    }

    /// How many bytes the allocations have, gaps for the alignment included.
    pub fn allocated(&self) -> u64 {
        self.walked.as_ref().map_or(0, |walked| self.layout.allocated(&walked.pieces))
    }

    /// The alignment of every buffer in bytes.
    pub fn alignment(&self) -> u64 {
        self.walked.as_ref().map_or(64, |walked| walked.pieces.alignment())
    }

    /// How many bytes occur more than once in the array, and move only once.
    pub fn shared_bytes(&self) -> u64 {
        self.walked.as_ref().map_or(0, |walked| walked.pieces.shared())
    }

    /// How many bytes were read for the plan.
    pub fn bytes_read_ahead(&self) -> u64 {
        self.learned().bytes
    }

    /// What was cut off, node by node.
    pub fn notes(&self) -> &[Note] {
        self.walked.as_ref().map_or(&[], |walked| &walked.notes)
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
    pub(in crate::copy) fn waits_for_chunks(&self) -> bool {
        if !self.is_gathered() {
            return false;
        }
        let (total, chunk) =
            (self.walked.as_ref().map_or(0, |walked| walked.pieces.total()), self.gathered_chunk());
        total.div_ceil(chunk) > CHUNKS_IN_FLIGHT as u64
            || !Staging::has_room(self.queue.device(), total.min(chunk))
    }

    /// What the copy costs in chunks of this size.
    fn shape(&self, chunk: u64) -> StagedShape {
        let pieces = self.walked.as_ref().map(|walked| &walked.pieces);
        pieces.map_or_else(StagedShape::default, |pieces| shape_of(pieces, self.layout, chunk))
    }

    pub(in crate::copy) fn learned(&self) -> Learned {
        self.walked.as_ref().map_or_else(Learned::default, |walked| walked.learned)
    }

    pub(in crate::copy) fn place(&self, node: u32) -> NodePath {
        self.walked.as_ref().map_or(NodePath::ROOT, |walked| walked.schema.place(node))
    }

    pub(in crate::copy) fn pieces(&self) -> &[Piece] {
        self.walked.as_ref().map_or(&[], |walked| walked.pieces.list())
    }

    /// The bytes and the number of regions of the pieces that count.
    fn count(&self, counts: impl Fn(&Piece) -> bool) -> (u64, u64) {
        let pieces = self.pieces().iter().filter(|piece| counts(piece));
        pieces.fold((0, 0), |(bytes, regions), piece| (bytes + piece.len, regions + 1))
    }
}

/// An error that names a step of the copy. Without another step, the error names the planning.
pub(in crate::copy) fn named(error: crate::Error) -> crate::Error {
    match error.operation() {
        Some(operation) if operation.starts_with("copy") => error,
        _ => error.at_step(step::PLAN),
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
