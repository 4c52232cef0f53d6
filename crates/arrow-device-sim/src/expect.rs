//! Corrects what pending copies expect their host memory to hold.
//!
//! A pending copy has noted the bytes of its host side, to see whether the host changes them. When
//! a copy that is ordered before it runs and writes to these bytes, the notes of the pending copy
//! are made anew. The copies behind the one that runs are found by following the waits of all
//! queues until nothing changes. Most copies write where no pending copy has its host side, and
//! [`HostSides`] tells that without a look at each pending copy.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
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

/// Where the pending copies of all queues have their host sides.
#[derive(Debug, Default)]
pub(crate) struct HostSides {
    /// How many pieces have each range, by the start and the end of the range.
    counts: BTreeMap<(usize, usize), usize>,
    /// No range is longer. A range that leads into others begins at most so far before them.
    longest: usize,
}

impl HostSides {
    /// Notes the pieces of a copy that is pending from now on.
    pub(crate) fn add(&mut self, work: &Work) {
        for host in host_sides(work) {
            self.longest = self.longest.max(host.len());
            *self.counts.entry((host.start, host.end)).or_default() += 1;
        }
    }

    /// Forgets the pieces of a copy that is not pending any more.
    pub(crate) fn remove(&mut self, work: &Work) {
        for host in host_sides(work) {
            if let Entry::Occupied(mut count) = self.counts.entry((host.start, host.end)) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        if self.counts.is_empty() {
            self.longest = 0;
        }
    }

    /// Whether any piece has some of these bytes.
    fn touch(&self, bytes: &Range<usize>) -> bool {
        let first = bytes.start.saturating_sub(self.longest);
        let mut nearby = self.counts.range((first, 0)..(bytes.end.max(first), 0));
        nearby.any(|((_, end), _)| *end > bytes.start)
    }
}

/// Returns the host's sides of the pieces of a copy whose contents were noted.
fn host_sides(work: &Work) -> impl Iterator<Item = Range<usize>> {
    let pieces = match work {
        Work::Copy { pieces, .. } => pieces.as_slice(),
        _ => &[],
    };
    pieces.iter().filter_map(host_side).filter(|host| !host.is_empty())
}

impl EngineState {
    /// Notes that the work of this queue that runs now has written to host memory.
    pub(crate) fn expect_written(&mut self, queue: usize, mut written: Vec<Range<usize>>) {
        if !written.iter().any(|written| self.host_sides.touch(written)) {
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

#[cfg(test)]
mod tests {
    use arrow_device::Array;
    use arrow_device::types::Int64;

    use crate::Sim;

    #[test]
    fn host_sides_are_noted_until_their_copies_have_run_or_never_will() {
        let sim = Sim::builder().backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let noted = || sim.engine().lock().host_sides.counts.len();
        let numbers = Array::of::<Int64>((0..100).map(Some)).unwrap();
        let copies = |count: usize| -> Vec<Array> {
            (0..count).map(|_| numbers.copy_to(&queue).unwrap()).collect()
        };
        let first = copies(10);
        assert!(noted() > 0);
        sim.run_until_idle();
        assert_eq!(noted(), 0);
        let second = copies(10);
        assert!(noted() > 0);
        sim.lose_device();
        assert_eq!((noted(), sim.engine().lock().host_sides.longest), (0, 0));
        drop((first, second));
    }
}
