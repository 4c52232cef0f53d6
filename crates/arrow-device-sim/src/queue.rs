//! Virtual queues: work that was submitted and has not run yet.

use std::collections::VecDeque;

use crate::clock::{Clock, Point};
use crate::kernel_work::KernelWork;
use crate::site::SiteId;
use crate::span::Span;
use crate::track::Access;

/// A queue, open or closed. Never removed: work that was submitted before the close still finishes.
pub(crate) struct QueueState {
    pub(crate) device: usize,
    /// Its lane in the clocks. A lane is used again once the host knows everything in it to be
    /// finished.
    pub(crate) lane: u32,
    /// The number in the lane that this queue's first work comes after.
    base: u64,
    /// How many pieces of work were submitted, and how many of them have run.
    pub(crate) submitted: u64,
    pub(crate) done: u64,
    /// What the next work is ordered behind, beside what the host has waited for.
    pub(crate) clock: Clock,
    pub(crate) pending: VecDeque<Work>,
    /// From this piece of work on nothing is done: that one fails, or waits for work that does.
    pub(crate) failed_from: Option<u64>,
    pub(crate) opened: SiteId,
    /// How often it is open: the one queue of a device may be several times.
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

    /// The point of the work that was submitted last.
    pub(crate) fn last(&self) -> Point {
        Point { lane: self.lane, number: self.base + self.submitted }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.done == self.submitted
    }

    /// Whether what was submitted up to this piece of work fails, or has failed.
    pub(crate) fn fails_by(&self, work: u64) -> bool {
        self.failed_from.is_some_and(|first| first <= work)
    }
}

/// One piece of work.
pub(crate) enum Work {
    /// Nothing later starts before that queue has done that much.
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
    /// The bytes of an allocation that was freed in the order of the queue go.
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
    /// What was named is no memory, and was reported. Reads as garbage; what is written is lost.
    Nowhere,
}

/// Host memory that the submitter promised to leave alone until the copy has passed.
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
    /// Whether changes by the host are looked for. Not where the order of the copy was reported.
    pub(crate) watched: bool,
    /// What the host's side held when the copy was submitted, to see whether the host changed it
    /// since.
    pub(crate) host_bytes: Box<[u8]>,
    /// The same of a destination in memory that the host and the device share.
    pub(crate) target_bytes: Box<[u8]>,
}

/// One piece of work that has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The queue, in the order in which the simulator opened them, from 1.
    pub queue: usize,
    /// The work, in the order in which it was submitted to that queue, from 1.
    pub work: u64,
}
