//! Corrects what pending copies expect their host memory to hold.
//!
//! A pending copy has noted the bytes of its host side, to see whether the host changes them. When
//! a copy that is ordered before it runs and writes to these bytes, the notes of the pending copy
//! are made anew. The copies behind the one that runs are found by following the waits of all
//! queues until nothing changes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::engine::EngineState;
use crate::queue::{Piece, Side, Work};

impl Side {
    /// Returns the addresses of the host's side of a piece.
    pub(crate) fn host_range(self, len: u64) -> Option<Range<usize>> {
        let start = self.host()?.0.addr();
        Some(start..start.saturating_add(len as usize))
    }
}

impl EngineState {
    /// Notes that the work of this queue that runs now has written to host memory.
    pub(crate) fn expect_written(&mut self, queue: usize, mut written: Vec<Range<usize>>) {
        if written.is_empty() || !self.is_expected(&written) {
            return;
        }
        written.sort_unstable_by_key(|range| range.start);
        let behind = self.works_behind(queue);
        for (queue, first) in behind {
            let state = &mut self.queues[queue];
            let skipped = usize::try_from(first - state.done - 1).unwrap_or(usize::MAX);
            for work in state.pending.iter_mut().skip(skipped) {
                let Work::Copy { pieces, .. } = work else { continue };
                pieces.iter_mut().for_each(|piece| expect(piece, &written));
            }
        }
    }

    /// Whether any pending copy has its host side in one of these ranges.
    fn is_expected(&self, written: &[Range<usize>]) -> bool {
        let pending = self.busy.iter().flat_map(|queue| &self.queues[*queue].pending);
        let mut pieces = pending.flat_map(|work| match work {
            Work::Copy { pieces, .. } => pieces.as_slice(),
            _ => &[],
        });
        let start = written.iter().map(|range| range.start).min().unwrap_or_default();
        let end = written.iter().map(|range| range.end).max().unwrap_or_default();
        pieces
            .any(|piece| host_side(piece).is_some_and(|host| host.start < end && start < host.end))
    }

    /// Returns for each queue the first work that is ordered by waits behind the work that this
    /// queue runs now.
    fn works_behind(&self, queue: usize) -> BTreeMap<usize, u64> {
        let none = |queue: &usize| (*queue, self.queues[*queue].submitted + 1);
        let mut first: BTreeMap<usize, u64> = self.busy.iter().map(none).collect();
        // The running work was taken out of the queue already, and is not counted as done yet.
        let now = self.queues[queue].done + 1;
        let is_behind = |first: &BTreeMap<usize, u64>, queue: usize, work: u64| {
            first.get(&queue).is_some_and(|first| work >= *first)
        };
        first.insert(queue, now);
        loop {
            let mut is_settled = true;
            for index in self.busy.iter().copied().filter(|index| *index != queue) {
                let state = &self.queues[index];
                let waits = state.pending.iter().position(|work| match work {
                    Work::Wait { queue, work } => is_behind(&first, *queue, *work),
                    _ => false,
                });
                let number = waits.map(|place| state.done + 1 + place as u64);
                if let (Some(number), Some(first)) = (number, first.get_mut(&index))
                    && number < *first
                {
                    *first = number;
                    is_settled = false;
                }
            }
            if is_settled {
                return first;
            }
        }
    }
}

/// Returns the host's side of a piece if its contents were noted.
fn host_side(piece: &Piece) -> Option<Range<usize>> {
    let side = if piece.to.host().is_some() { piece.to } else { piece.from };
    side.host_range(piece.len).filter(|_| !matches!(piece.from, Side::Staged))
}

/// Updates the notes of a piece where it was written. The ranges are in order and do not overlap.
fn expect(piece: &mut Piece, written: &[Range<usize>]) {
    let Some(host) = host_side(piece) else { return };
    let first = written.partition_point(|range| range.end <= host.start);
    for range in written.iter().skip(first).take_while(|range| range.start < host.end) {
        let (start, end) = (range.start.max(host.start), range.end.min(host.end));
        let side = if piece.to.host().is_some() { piece.to } else { piece.from };
        let Some(address) = side.host() else { return };
        let at = start - host.start;
        if let Some(noted) = piece.host_bytes.get_mut(at..end - host.start) {
            // SAFETY: the submitter promised that the host's side can be read until the queue has
            // passed the piece, and it was written when the copy was submitted, so it is
            // initialised; nothing overlaps the piece's own notes.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    address.0.wrapping_add(at),
                    noted.as_mut_ptr(),
                    noted.len(),
                );
            }
        }
    }
}
