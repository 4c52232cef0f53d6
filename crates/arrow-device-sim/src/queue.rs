//! Virtual queues: the work that was submitted and has not run yet.

use std::collections::VecDeque;

use crate::clock::{Clock, Point};
use crate::kernel_work::KernelWork;
use crate::site::SiteId;
use crate::span::Span;
use crate::track::Access;

/// A queue, open or closed. The record is never removed, because work that was submitted before the
/// close still runs.
pub(crate) struct QueueState {
    pub(crate) device: usize,
    /// The queue's lane in the clocks. A lane is used again once the host knows all its work to be
    /// finished.
    pub(crate) lane: u32,
    /// The last number of the lane before this queue's first work.
    base: u64,
    /// How many pieces of work were submitted, and how many of them have run.
    pub(crate) submitted: u64,
    pub(crate) done: u64,
    /// The work that the next work is ordered behind, besides the work that the host has waited
    /// for.
    pub(crate) clock: Clock,
    pub(crate) pending: VecDeque<Work>,
    /// The first piece of work that fails, or waits for work that fails. From it on nothing is
    /// done.
    pub(crate) failed_from: Option<u64>,
    pub(crate) opened: SiteId,
    /// How often the queue is open. Only the one queue of a device can be open several times.
    pub(crate) openings: usize,
    pub(crate) closed: Option<SiteId>,
}

impl QueueState {
    pub(crate) fn new(device: usize, lane: u32, base: u64, opened: SiteId) -> Self {
        Self {
            device,
            lane,
            base,
            submitted: 0,
            done: 0,
            clock: Clock::default(),
            pending: VecDeque::new(),
            failed_from: None,
            opened,
            openings: 1,
            closed: None,
        }
    }

    /// Returns the point of the work that was submitted last.
    pub(crate) fn last(&self) -> Point {
        Point { lane: self.lane, number: self.base + self.submitted }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.done == self.submitted
    }

    /// Whether work up to this piece fails, or has failed.
    pub(crate) fn fails_by(&self, work: u64) -> bool {
        self.failed_from.is_some_and(|first| first <= work)
    }
}

/// One piece of work.
pub(crate) enum Work {
    /// Holds back all later work until another queue has done this many pieces of work.
    Wait {
        queue: usize,
        work: u64,
    },
    Copy {
        pieces: Vec<Piece>,
        access: Access,
    },
    Fill {
        at: Option<Span>,
        byte: u8,
    },
    /// Frees the bytes of an allocation that was freed in the order of the queue.
    Free {
        allocation: usize,
    },
    Kernel(KernelWork),
}

/// One side of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Device(Span),
    Host(HostAddress),
    /// Bytes of the host that were taken when the copy was submitted.
    Staged,
    /// A place that is no memory, and was reported. Reads return garbage, and writes are lost.
    Nowhere,
}

/// Host memory that the submitter promised not to change until the copy has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostAddress(pub(crate) *mut u8);

// SAFETY: an address. It is used under the engine's lock, and the submitter promised
// (`Driver::copy`) that it stays valid until the queue has passed, on whatever thread that happens.
unsafe impl Send for HostAddress {}

/// One region of a copy.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) from: Side,
    pub(crate) to: Side,
    pub(crate) len: u64,
    /// Whether changes by the host are looked for. They are not where the order of the copy was
    /// reported.
    pub(crate) watched: bool,
    /// The bytes of the host's side when the copy was submitted, to see later whether the host has
    /// changed them.
    pub(crate) host_bytes: Box<[u8]>,
    /// The bytes of a destination when the copy was submitted, in memory that the host and the
    /// device share.
    pub(crate) target_bytes: Box<[u8]>,
}

/// One piece of work that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the queue, in the order in which the simulator opened them, from 1.
    pub queue: usize,
    /// The number of the work, in the order in which it was submitted to that queue, from 1.
    pub work: u64,
}
