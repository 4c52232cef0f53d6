//! [`Plan`]: all that is known of a copy before it runs.
//!
//! 1. The way of the data and the source that is read on that way are chosen (`route::choose`). An
//!    array that is on the destination already is shared, and the plan ends here.
//! 2. How the result is divided into allocations follows from the device and the options
//!    (`target_layout`). The choices so far are a [`Transfer`].
//! 3. A walk over the nodes finds the bytes that travel, as pieces (`walk`).
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
pub(super) mod transfer;
pub(super) mod walk;

pub use cut::{Cut, Note};

use std::fmt;

use self::transfer::Transfer;
use self::walk::{Learned, Walked};
use super::options::Options;
use super::route::{Hop, Pace, Way};
use super::step;
use crate::{Array, DeviceId, NodePath, Queue, Result};

/// How many chunks of one copy are on their way at a time.
pub(in crate::copy) const CHUNKS_IN_FLIGHT: usize = 2;
/// How many bytes a copy to the host submits before it waits for them, so that a driver which
/// stages data needs no more memory than that.
pub(in crate::copy) const DOWNLOADED_AT_ONCE: u64 = 64 << 20;

/// A copy that is planned and has not run: see [`copy`](crate::copy).
///
/// Printed, a plan says which way the data goes, how much work that is, and what was cut off and
/// why. The plan keeps the source.
pub struct Plan(pub(in crate::copy) Planned);

/// What a plan does.
#[expect(clippy::large_enum_variant, reason = "a plan is made once, and most plans move something")]
pub(in crate::copy) enum Planned {
    /// Nothing moves: the array is on this device already, and the result is the array.
    Shared(Array, DeviceId),
    Moves(Transfer, Walked),
}

impl Plan {
    pub(in crate::copy) fn new(array: &Array, queue: &Queue, options: &Options) -> Result<Self> {
        let planned = Self::prepare(array, queue, options);
        planned.map_err(|error| named(error).on_device_if_none(array.device()))
    }

    fn prepare(array: &Array, queue: &Queue, options: &Options) -> Result<Self> {
        let Some(transfer) = Transfer::choose(array, queue, options, Pace::Waits)? else {
            return Ok(Self(Planned::Shared(array.clone(), queue.device().id())));
        };
        // SAFETY: W1: `choose` chose the source for this array, and waited where the host reads it.
        let walked = unsafe { walk::walk(transfer.terms(&[])) }?;
        Ok(Self(Planned::Moves(transfer, walked)))
    }

    /// What travels, unless the array is shared.
    fn walked(&self) -> Option<&Walked> {
        match &self.0 {
            Planned::Shared(..) => None,
            Planned::Moves(_, walked) => Some(walked),
        }
    }

    /// The array that is copied.
    pub fn array(&self) -> &Array {
        match &self.0 {
            Planned::Shared(array, _) => array,
            Planned::Moves(transfer, _) => &transfer.array,
        }
    }

    /// The way of the data, hop by hop. Reads that were needed for the plan are not counted.
    pub fn hops(&self) -> Vec<Hop> {
        match &self.0 {
            Planned::Shared(array, to) => {
                let (from, to, way) = (array.device(), *to, Way::Shared);
                vec![Hop { way, from, to, bytes: 0, regions: 0, submissions: 0 }]
            }
            Planned::Moves(transfer, walked) => transfer.hops(walked),
        }
    }

    /// How many bytes of the array move.
    pub fn bytes(&self) -> u64 {
        self.walked().map_or(0, |walked| walked.pieces.bytes())
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
        match &self.0 {
            Planned::Shared(..) => 0,
            Planned::Moves(transfer, walked) => transfer.layout.allocations(&walked.pieces),
        }
    }

    /// How many bytes the allocations have, gaps for the alignment included.
    pub fn allocated(&self) -> u64 {
        match &self.0 {
            Planned::Shared(..) => 0,
            Planned::Moves(transfer, walked) => transfer.layout.allocated(&walked.pieces),
        }
    }

    /// The alignment of every buffer in bytes.
    pub fn alignment(&self) -> u64 {
        self.walked().map_or(64, |walked| walked.pieces.alignment())
    }

    /// How many bytes occur more than once in the array, and move only once.
    pub fn shared_bytes(&self) -> u64 {
        self.walked().map_or(0, |walked| walked.pieces.shared())
    }

    /// How many bytes were read for the plan.
    pub fn bytes_read_ahead(&self) -> u64 {
        self.learned().bytes
    }

    /// What was cut off, node by node.
    pub fn notes(&self) -> &[Note] {
        self.walked().map_or(&[], |walked| &walked.notes)
    }

    fn learned(&self) -> Learned {
        self.walked().map_or_else(Learned::default, |walked| walked.learned)
    }

    fn place(&self, node: u32) -> NodePath {
        self.walked().map_or(NodePath::ROOT, |walked| walked.schema.place(node))
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
