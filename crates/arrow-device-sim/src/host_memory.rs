//! Judges the host memory that copies read and write.
//!
//! A copy uses its host side when it runs, so two copies of one range of host memory need an order,
//! as two accesses to device memory do. The host's own reads are not seen.

use std::ops::Range;

use crate::engine::EngineState;
use crate::queue::{Piece, Side, Work};
use crate::report::{Mistake, Report};
use crate::track::{Access, Behind, Conflict, History};

/// The accesses of copies to host memory. A place in the history is an address.
pub(crate) struct HostBytes {
    history: History,
    /// How many stretches `history` had after finished copies were last forgotten.
    left: usize,
}

/// Nothing is forgotten while there are fewer stretches than this, because forgetting costs more
/// than it saves then.
const FEW: usize = 64;

impl HostBytes {
    pub(crate) fn new() -> Self {
        Self { history: History::new(u64::MAX, None), left: 0 }
    }
}

fn addresses(bytes: Range<usize>) -> Range<u64> {
    bytes.start as u64..bytes.end as u64
}

impl EngineState {
    /// Judges the host sides of a copy that is about to be submitted. Pieces whose order is wrong
    /// are not watched for changes any more, so that one mistake is reported once.
    pub(crate) fn judge_host_sides(&mut self, pieces: &mut [Piece], access: Access) {
        for writes in [false, true] {
            for index in 0..pieces.len() {
                let side = |piece: &Piece| if writes { piece.to } else { piece.from };
                let bytes = pieces.get(index).and_then(|piece| side(piece).host_range(piece.len));
                let Some(bytes) = bytes else { continue };
                let found = self.judge_host_bytes(bytes, access, writes);
                for conflict in &found {
                    stop_watching(pieces, &conflict.bytes);
                }
            }
        }
    }

    /// Judges the sources in host memory of a copy that is about to be submitted. A copy may read
    /// them in the call, so the host has to have waited for the work that writes there. If the
    /// device reads in the call, the bytes are taken now.
    pub(crate) fn judge_host_sources(&mut self, pieces: &mut [Piece], access: Access) {
        for index in 0..pieces.len() {
            let bytes = pieces.get(index).and_then(|piece| piece.from.host_range(piece.len));
            let Some(bytes) = bytes else { continue };
            // A source that is reported here is not judged again by its order.
            let found = self.host_bytes.history.unfinished_write(&addresses(bytes), &self.over);
            if let Some(conflict) = found {
                self.report_host_conflict(&conflict, &access, false);
                stop_watching(pieces, &conflict.bytes);
            }
            if let Some(piece) = pieces.get_mut(index)
                && (self.host_sources_at_submission || !piece.watched)
            {
                piece.from = Side::Staged;
            }
        }
    }

    fn judge_host_bytes(
        &mut self,
        bytes: Range<usize>,
        access: Access,
        writes: bool,
    ) -> Vec<Conflict> {
        let mut found = Vec::new();
        let clock = &self.queues[access.queue].clock;
        // Memory that failed work was to write may have another owner by now.
        let behind = Behind { clock, host: &self.over, twice: false };
        let HostBytes { history, left } = &mut self.host_bytes;
        if history.stretches() > 2 * *left + FEW {
            history.forget(&self.over);
            *left = history.stretches();
        }
        let bytes = addresses(bytes);
        if writes {
            history.write(&bytes, access, &behind, &mut found);
        } else {
            history.read(&bytes, access, &behind, &mut found);
        }
        for conflict in &found {
            self.report_host_conflict(conflict, &access, writes);
        }
        found
    }

    #[cold]
    fn report_host_conflict(&mut self, conflict: &Conflict, access: &Access, writes: bool) {
        let Conflict { bytes, earlier, earlier_wrote, within } = conflict;
        for work in &mut self.queues[earlier.queue].pending {
            if let Work::Copy { pieces, access } = work
                && access.point == earlier.point
            {
                stop_watching(pieces, bytes);
            }
        }
        let len = bytes.end - bytes.start;
        let report = Report::new(Mistake::of_conflict(*within, writes))
            .first(self.action(earlier, *earlier_wrote))
            .second(self.action(access, writes))
            .note(format!("It is about {len} bytes of the host."));
        let report = match writes {
            true => report,
            false => {
                report.note("A copy may read them when it is submitted: wait on the host first.")
            }
        };
        self.report(report);
    }

    /// Returns which of these bytes are used by a copy that has not run yet, in order.
    pub(crate) fn host_bytes_to_be_used(&self, bytes: Range<usize>) -> Vec<Range<usize>> {
        let is_to_run = |access: &Access| self.queues[access.queue].done < access.work;
        let used = self.host_bytes.history.used(&addresses(bytes), is_to_run);
        used.into_iter().map(|range| range.start as usize..range.end as usize).collect()
    }
}

/// Stops watching these bytes for changes, because their mistake was reported.
fn stop_watching(pieces: &mut [Piece], bytes: &Range<u64>) {
    pieces.iter_mut().for_each(|piece| piece.watched &= !touches(piece, bytes));
}

fn touches(piece: &Piece, bytes: &Range<u64>) -> bool {
    let ranges = [piece.from, piece.to].map(|side: Side| side.host_range(piece.len));
    ranges
        .into_iter()
        .flatten()
        .map(addresses)
        .any(|range| range.start < bytes.end && bytes.start < range.end)
}
