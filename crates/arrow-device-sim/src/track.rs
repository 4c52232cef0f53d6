//! The last accesses to each byte of an allocation.
//!
//! A [`History`] keeps, for each stretch of bytes, the last write and the reads since. A new access
//! conflicts with those of them that neither its clock nor the host's clock covers. These accesses
//! are enough: whatever is ordered behind the last write is ordered behind all earlier writes, or
//! these were reported when they happened.
//!
//! Little is kept, so that an access costs little: a read that is ordered before another read of
//! the same bytes is dropped, a write drops all accesses before it, and a read drops everything
//! that the host knows to be finished, because whatever is submitted later comes after that.
//! Stretches are split where an access begins or ends, and joined again where they have the same
//! accesses, so their number stays small. A buffer that is used as a whole is one stretch, which is
//! found by where it begins.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::clock::{Clock, Point};
use crate::site::SiteId;

/// An access to device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) point: Point,
    /// The queue and the work on it, for reports.
    pub(crate) queue: usize,
    pub(crate) work: u64,
    pub(crate) what: What,
    pub(crate) site: SiteId,
}

/// The kind of work that made an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The allocation itself, made in the order of a queue.
    Allocate,
    CopyFromHost,
    CopyToHost,
    CopyWithin,
    CopyFromPeer,
    Fill,
    /// The host's writes to a mapping.
    HostFill,
    /// The number of a kernel's name.
    Kernel(usize),
}

/// Two accesses that nothing orders.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub(crate) bytes: Range<u64>,
    pub(crate) earlier: Access,
    pub(crate) earlier_wrote: bool,
    /// Whether both accesses are one piece of work.
    pub(crate) within: bool,
}

/// The order of a new access, and how to treat accesses of the same work.
pub(crate) struct Behind<'a> {
    /// The work that the queue of the access was ordered behind.
    pub(crate) clock: &'a Clock,
    /// The work that the host has waited for. Everything that is submitted now comes after that, on
    /// every queue.
    pub(crate) host: &'a Clock,
    /// Whether the work may touch bytes twice: kernels may, the regions of a copy may not.
    pub(crate) twice: bool,
}

impl Behind<'_> {
    fn conflicts(&self, earlier: &Access, later: &Access) -> bool {
        if earlier.point == later.point {
            return !self.twice;
        }
        !self.clock.covers(earlier.point) && !self.host.covers(earlier.point)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct HistoryStretch {
    end: u64,
    write: Option<Access>,
    reads: Vec<Access>,
}

/// The stretches of one allocation, by where they begin. Together they cover the allocation without
/// gaps.
#[derive(Debug)]
pub(crate) struct History(BTreeMap<u64, HistoryStretch>);

impl History {
    pub(crate) fn new(len: u64, allocated: Option<Access>) -> Self {
        let all = HistoryStretch { end: len, write: allocated, reads: Vec::new() };
        Self(BTreeMap::from([(0, all)]))
    }

    /// Notes a read. Adds its conflicts to `found`.
    pub(crate) fn read(
        &mut self,
        bytes: &Range<u64>,
        by: Access,
        behind: &Behind<'_>,
        found: &mut Vec<Conflict>,
    ) {
        self.each(bytes, |start, stretch| stretch.read(start, by, behind, found));
    }

    /// Notes a write. Adds its conflicts to `found`.
    pub(crate) fn write(
        &mut self,
        bytes: &Range<u64>,
        by: Access,
        behind: &Behind<'_>,
        found: &mut Vec<Conflict>,
    ) {
        self.each(bytes, |start, stretch| stretch.write(start, by, behind, found));
    }

    /// Changes the stretches of these bytes and no others.
    fn each(&mut self, bytes: &Range<u64>, mut change: impl FnMut(u64, &mut HistoryStretch)) {
        if let Some(stretch) = self.exactly(bytes) {
            return change(bytes.start, stretch);
        }
        self.cut(bytes);
        for (start, stretch) in self.0.range_mut(bytes.clone()) {
            change(*start, stretch);
        }
        self.join(bytes);
    }

    /// Returns the stretch that is exactly these bytes. This is the usual case, because buffers are
    /// used whole.
    fn exactly(&mut self, bytes: &Range<u64>) -> Option<&mut HistoryStretch> {
        self.0.get_mut(&bytes.start).filter(|stretch| stretch.end == bytes.end)
    }

    /// Returns an access that the host does not know to be finished.
    pub(crate) fn unfinished(&self, host: &Clock) -> Option<Conflict> {
        self.0.iter().find_map(|(start, stretch)| {
            let used =
                |access: &&Access| !host.covers(access.point) && access.what != What::Allocate;
            let write = stretch.write.as_ref().filter(used).map(|write| (*write, true));
            let (earlier, earlier_wrote) =
                write.or_else(|| stretch.reads.iter().find(used).map(|read| (*read, false)))?;
            let bytes = *start..stretch.end;
            Some(Conflict { bytes, earlier, earlier_wrote, within: false })
        })
    }

    /// Returns the first access to these bytes that meets a condition: its bytes, and whether it
    /// wrote.
    pub(crate) fn first_used(
        &self,
        bytes: &Range<u64>,
        is_like: impl Fn(&Access) -> bool,
    ) -> Option<(Range<u64>, Access, bool)> {
        let mut accesses = self.touched(bytes).flat_map(|(start, stretch)| {
            let cut = bytes.start.max(*start)..bytes.end.min(stretch.end);
            let write = stretch.write.iter().map(|write| (write, true));
            let all = write.chain(stretch.reads.iter().map(|read| (read, false)));
            all.map(move |(access, wrote)| (cut.clone(), *access, wrote))
        });
        accesses.find(|(_, access, _)| is_like(access))
    }

    /// Returns a write that the host does not know to be finished, where the host reads now.
    pub(crate) fn unfinished_write(&self, bytes: &Range<u64>, host: &Clock) -> Option<Conflict> {
        self.touched(bytes).find_map(|(start, stretch)| {
            let earlier = stretch.write.filter(|write| !host.covers(write.point))?;
            let bytes = bytes.start.max(*start)..bytes.end.min(stretch.end);
            Some(Conflict { bytes, earlier, earlier_wrote: true, within: false })
        })
    }

    /// Returns the stretches that have some of these bytes, in order, without a look at the
    /// stretches before them.
    fn touched(&self, bytes: &Range<u64>) -> impl Iterator<Item = (&u64, &HistoryStretch)> {
        let first = self.0.range(..=bytes.start).next_back().map_or(bytes.start, |it| *it.0);
        // Bytes that end before they begin have no stretch, and make no range.
        let stretches = self.0.range(first..bytes.end.max(first));
        let start = bytes.start;
        stretches.filter(move |(_, stretch)| stretch.end > start)
    }

    /// Splits stretches at both ends of the bytes.
    fn cut(&mut self, bytes: &Range<u64>) {
        for at in [bytes.start, bytes.end] {
            let Some((start, stretch)) = self.0.range_mut(..=at).next_back() else { continue };
            if *start == at || stretch.end <= at {
                continue;
            }
            let behind = stretch.clone();
            stretch.end = at;
            self.0.insert(at, behind);
        }
    }

    /// Joins stretches that say the same, from the one before the bytes to the one behind.
    fn join(&mut self, bytes: &Range<u64>) {
        let first =
            self.0.range(..bytes.start).next_back().map_or(bytes.start, |(start, _)| *start);
        if self.0.range(first..=bytes.end).nth(1).is_none() {
            return;
        }
        let starts: Vec<u64> = self.0.range(first..=bytes.end).map(|(start, _)| *start).collect();
        let mut kept = first;
        for start in starts.into_iter().skip(1) {
            let same =
                self.0.get(&kept).zip(self.0.get(&start)).is_some_and(|(one, other)| {
                    one.write == other.write && one.reads == other.reads
                });
            if !same {
                kept = start;
            } else if let Some(gone) = self.0.remove(&start)
                && let Some(stretch) = self.0.get_mut(&kept)
            {
                stretch.end = gone.end;
            }
        }
    }

    /// Returns how many stretches there are.
    pub(crate) fn stretches(&self) -> usize {
        self.0.len()
    }

    /// Returns which of these bytes have an access that meets a condition, in order.
    pub(crate) fn used(
        &self,
        bytes: &Range<u64>,
        is_like: impl Fn(&Access) -> bool,
    ) -> Vec<Range<u64>> {
        let of_bytes = self
            .touched(bytes)
            .filter(|(_, stretch)| stretch.write.iter().chain(&stretch.reads).any(&is_like));
        let cut = |(start, stretch): (&u64, &HistoryStretch)| {
            bytes.start.max(*start)..bytes.end.min(stretch.end)
        };
        of_bytes.map(cut).collect()
    }

    /// Forgets all accesses that the host knows to be finished.
    pub(crate) fn forget(&mut self, host: &Clock) {
        let mut joined: BTreeMap<u64, HistoryStretch> = BTreeMap::new();
        for (start, mut stretch) in std::mem::take(&mut self.0) {
            stretch.forget(host);
            match joined.last_entry() {
                Some(mut last)
                    if last.get().write == stretch.write && last.get().reads == stretch.reads =>
                {
                    last.get_mut().end = stretch.end;
                }
                _ => {
                    joined.insert(start, stretch);
                }
            }
        }
        self.0 = joined;
    }
}

impl HistoryStretch {
    fn read(&mut self, start: u64, by: Access, behind: &Behind<'_>, found: &mut Vec<Conflict>) {
        self.forget(behind.host);
        if let Some(write) = self.write.filter(|write| behind.conflicts(write, &by)) {
            conflict(found, start..self.end, write, true, &by);
        }
        self.reads.retain(|read| !behind.clock.covers(read.point));
        self.reads.push(by);
    }

    fn write(&mut self, start: u64, by: Access, behind: &Behind<'_>, found: &mut Vec<Conflict>) {
        if let Some(write) = self.write.filter(|write| behind.conflicts(write, &by)) {
            conflict(found, start..self.end, write, true, &by);
        }
        for read in self.reads.iter().filter(|read| behind.conflicts(read, &by)) {
            conflict(found, start..self.end, *read, false, &by);
        }
        self.write = Some(by);
        self.reads.clear();
    }

    fn forget(&mut self, host: &Clock) {
        self.write = self.write.filter(|write| !host.covers(write.point));
        self.reads.retain(|read| !host.covers(read.point));
    }
}

/// Adds a conflict, or extends the last one where it is the same conflict.
fn conflict(
    found: &mut Vec<Conflict>,
    bytes: Range<u64>,
    earlier: Access,
    earlier_wrote: bool,
    by: &Access,
) {
    let same = found.iter_mut().find(|known| {
        known.earlier == earlier
            && known.earlier_wrote == earlier_wrote
            && known.bytes.end == bytes.start
    });
    match same {
        Some(known) => known.bytes.end = bytes.end,
        None => {
            let within = earlier.point == by.point;
            found.push(Conflict { bytes, earlier, earlier_wrote, within });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{RawSite, Sites};

    fn access(lane: u32, number: u64) -> Access {
        let site = Sites::default().add(RawSite::Unknown);
        let point = Point { lane, number };
        Access { point, queue: lane as usize, work: number, what: What::Fill, site }
    }

    fn after(points: &[(u32, u64)]) -> Clock {
        let mut clock = Clock::default();
        points.iter().for_each(|(lane, number)| {
            clock.advance(Point { lane: *lane, number: *number });
        });
        clock
    }

    /// Notes an access, and returns the bytes that it conflicts on.
    fn note(
        history: &mut History,
        write: bool,
        bytes: Range<u64>,
        by: Access,
        clock: &Clock,
    ) -> Vec<(u64, u64)> {
        let host = Clock::default();
        let behind = Behind { clock, host: &host, twice: false };
        let mut found = Vec::new();
        if write {
            history.write(&bytes, by, &behind, &mut found);
        } else {
            history.read(&bytes, by, &behind, &mut found);
        }
        found.into_iter().map(|Conflict { bytes, .. }| (bytes.start, bytes.end)).collect()
    }

    #[test]
    fn a_read_conflicts_with_the_part_that_is_written_without_order() {
        let mut history = History::new(100, None);
        assert_eq!(note(&mut history, true, 20..40, access(0, 1), &after(&[(0, 1)])), []);
        assert_eq!(note(&mut history, false, 0..30, access(1, 1), &after(&[(1, 1)])), [(20, 30)]);
        assert_eq!(note(&mut history, false, 0..30, access(1, 2), &after(&[(1, 2), (0, 1)])), []);
    }

    #[test]
    fn a_write_conflicts_with_reads_that_it_is_not_behind() {
        let mut history = History::new(100, None);
        note(&mut history, false, 0..50, access(0, 1), &after(&[(0, 1)]));
        note(&mut history, false, 30..80, access(1, 1), &after(&[(1, 1)]));
        let found = note(&mut history, true, 0..100, access(2, 1), &after(&[(2, 1), (0, 1)]));
        assert_eq!(found, [(30, 80)]);
    }

    #[test]
    fn a_read_that_is_behind_no_other_takes_no_place() {
        let mut history = History::new(100, None);
        note(&mut history, false, 0..100, access(0, 1), &after(&[(0, 1)]));
        note(&mut history, false, 0..100, access(1, 1), &after(&[(1, 1)]));
        let found = note(&mut history, true, 0..100, access(2, 1), &after(&[(2, 1), (1, 1)]));
        assert_eq!(found, [(0, 100)], "the first read is still there");
    }

    #[test]
    fn a_read_behind_another_takes_its_place() {
        let mut history = History::new(10, None);
        for number in 1..100 {
            note(&mut history, false, 0..10, access(0, number), &after(&[(0, number)]));
        }
        assert_eq!(history.0[&0].reads.len(), 1);
        // The write is ordered behind the last read only, and so behind all reads.
        assert_eq!(note(&mut history, true, 0..10, access(1, 1), &after(&[(0, 99)])), []);
    }

    #[test]
    fn stretches_that_say_the_same_grow_together() {
        let mut history = History::new(1000, None);
        for at in 0..100 {
            note(
                &mut history,
                true,
                at * 10..at * 10 + 10,
                access(0, at + 1),
                &after(&[(0, at + 1)]),
            );
        }
        assert_eq!(history.stretches(), 100);
        note(&mut history, true, 0..1000, access(0, 200), &after(&[(0, 200)]));
        assert_eq!(history.stretches(), 1);
    }

    #[test]
    fn the_bytes_of_one_conflict_are_told_once() {
        let mut history = History::new(100, None);
        note(&mut history, true, 0..100, access(0, 1), &after(&[(0, 1)]));
        note(&mut history, false, 40..60, access(0, 2), &after(&[(0, 2)]));
        let found = note(&mut history, false, 0..100, access(1, 1), &after(&[(1, 1)]));
        assert_eq!(found, [(0, 100)]);
    }

    #[test]
    fn bytes_before_those_that_are_asked_for_cost_nothing() {
        const STRETCHES: u64 = 50_000;
        let mut history = History::new(2 * STRETCHES, None);
        for at in 0..STRETCHES {
            let clock = after(&[(0, at + 1)]);
            note(&mut history, true, 2 * at..2 * at + 1, access(0, at + 1), &clock);
        }
        assert!(history.stretches() as u64 >= STRETCHES);
        let host = after(&[(0, STRETCHES)]);
        let started = std::time::Instant::now();
        for at in 0..STRETCHES {
            let bytes = 2 * at..2 * at + 2;
            assert!(history.unfinished_write(&bytes, &host).is_none());
            let used = history.first_used(&bytes, |_| true).unwrap();
            assert_eq!((used.0, used.1.work), (2 * at..2 * at + 1, at + 1));
            assert_eq!(history.used(&bytes, |_| true).first(), Some(&(2 * at..2 * at + 1)));
        }
        // A look at all stretches before each took a minute.
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }
}
