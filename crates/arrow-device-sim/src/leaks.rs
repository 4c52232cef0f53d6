//! Finds what is left behind when a simulator ends, and reports it by its cause.
//!
//! A forgotten view keeps its array, the array its memory, and the memory the queues that it was
//! used on. That is one mistake, so it is one report. The search collects all that is left, and all
//! possible causes. It then takes the cause that keeps the most, reports it together with
//! everything that stays because of it, removes all of that, and goes on with the next cause. What
//! no cause explains is reported by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use arrow_device::driver::WatchedPlace;

use crate::allocation::Allocation;
use crate::engine::EngineState;
use crate::report::{Mistake, Report};
use crate::site::SiteId;

/// The arrays that the library reported and that are not dropped, by where their first place
/// begins.
#[derive(Default)]
pub(crate) struct Arrays(BTreeMap<usize, Vec<OpenArray>>);

struct OpenArray {
    places: Box<[WatchedPlace]>,
    what: &'static str,
    made: SiteId,
}

impl Arrays {
    pub(crate) fn made(&mut self, what: &'static str, places: &[WatchedPlace], made: SiteId) {
        if let Some(first) = places.first() {
            let array = OpenArray { places: places.into(), what, made };
            self.0.entry(first.memory.bits()).or_default().push(array);
        }
    }

    pub(crate) fn dropped(&mut self, places: &[WatchedPlace]) {
        let Some(first) = places.first().map(|place| place.memory.bits()) else { return };
        let Some(arrays) = self.0.get_mut(&first) else { return };
        if let Some(index) = arrays.iter().rposition(|array| *array.places == *places) {
            arrays.remove(index);
        }
        if arrays.is_empty() {
            self.0.remove(&first);
        }
    }
}

/// An array that is not dropped, and its memory.
struct FoundArray<'a> {
    array: &'a OpenArray,
    /// The first bytes of the array: the number of the allocation, and the range.
    bytes: (usize, Range<u64>),
    allocations: BTreeSet<usize>,
}

/// A forgotten thing that keeps others.
struct Cause {
    kind: Mistake,
    /// The bytes to report. If there are several ranges, the first.
    bytes: Option<(usize, Range<u64>)>,
    /// The allocations that stay because of this cause.
    allocations: BTreeSet<usize>,
    queue: Option<usize>,
    what: String,
    site: SiteId,
}

/// Everything that is left and was not reported yet.
struct Left {
    arrays: Vec<BTreeSet<usize>>,
    allocations: BTreeSet<usize>,
    /// Parts by their handles, with the allocation that each is part of.
    parts: BTreeMap<usize, usize>,
    queues: BTreeSet<usize>,
    /// Events by number: where each was made, and the queue that it was recorded on.
    events: BTreeMap<u64, (SiteId, Option<usize>)>,
}

impl EngineState {
    /// Reports everything that still exists and should not, each thing by itself.
    pub(crate) fn leaks(&self) -> Vec<Report> {
        let mut left = self.left();
        left.arrays.clear();
        let mut leaks = Vec::new();
        for number in std::mem::take(&mut left.allocations) {
            leaks.push(self.leaked_allocation(number));
            leaks.extend(self.leaked_mappings(number));
        }
        self.tell_the_rest(&left, &mut leaks);
        leaks
    }

    /// Reports all leaks, one report for each cause. A report names what stays because of its
    /// cause.
    pub(crate) fn grouped_leaks(&self) -> Vec<Report> {
        let mut left = self.left();
        let mut leaks = Vec::new();
        for cause in self.causes(&left) {
            let is_told = !cause.allocations.iter().any(|number| left.allocations.contains(number));
            if is_told && cause.kind != Mistake::LeakedMapping {
                continue;
            }
            let stay = self.take_with(&mut left, &cause);
            let mut report = Report::new(cause.kind);
            if let Some((number, bytes)) = cause.bytes {
                report = report.about(self.subject(number, bytes));
            }
            let report = report.first(self.host_action(cause.what, cause.site));
            leaks.push(self.with_notes(report, &cause.allocations, &stay));
        }
        while let Some(number) = left.allocations.first().copied() {
            let cause = Cause {
                kind: Mistake::LeakedAllocation,
                bytes: None,
                allocations: BTreeSet::from([number]),
                queue: None,
                what: String::new(),
                site: self.allocations[number].made,
            };
            let stay = self.take_with(&mut left, &cause);
            let stay: Vec<String> = stay.into_iter().skip(1).collect();
            leaks.push(self.with_notes(self.leaked_allocation(number), &cause.allocations, &stay));
        }
        self.tell_the_rest(&left, &mut leaks);
        leaks
    }

    fn left(&self) -> Left {
        let is_there = |number: &usize| self.allocations[*number].freed.is_none();
        let is_open = |number: &usize| {
            self.queues[*number].closed.is_none() && !self.permanent.contains(number)
        };
        Left {
            arrays: self.open_arrays().into_iter().map(|found| found.allocations).collect(),
            allocations: (0..self.allocations.len()).filter(is_there).collect(),
            parts: self.parts.iter().map(|(handle, part)| (*handle, part.allocation)).collect(),
            queues: self.live.iter().copied().filter(is_open).collect(),
            events: self.events.alive().collect(),
        }
    }

    /// Returns the arrays that are not dropped, with their first bytes and all their allocations.
    fn open_arrays(&self) -> Vec<FoundArray<'_>> {
        let mut open = Vec::new();
        for array in self.arrays.0.values().flatten() {
            let places = || array.places.iter().filter_map(|place| self.watched_bytes(place));
            if let Some(bytes) = places().next() {
                let allocations = places().map(|(number, _)| number).collect();
                open.push(FoundArray { array, bytes, allocations });
            }
        }
        open
    }

    /// Returns all possible causes. A cause that keeps more comes first.
    fn causes(&self, left: &Left) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut views: BTreeMap<u64, Cause> = BTreeMap::new();
        for number in left.allocations.iter().copied() {
            let allocation = &self.allocations[number];
            for (bytes, site) in allocation.mappings.iter().chain(&allocation.fillings) {
                causes.push(Cause {
                    kind: Mistake::LeakedMapping,
                    bytes: Some((number, bytes.clone())),
                    allocations: BTreeSet::from([number]),
                    queue: None,
                    what: "map".into(),
                    site: *site,
                });
            }
            for (call, site, queue, bytes) in allocation.custody.viewed() {
                let cause = views.entry(call).or_insert_with(|| Cause {
                    kind: Mistake::LeakedView,
                    bytes: Some((number, bytes.clone())),
                    allocations: BTreeSet::new(),
                    queue: Some(queue),
                    what: format!("told for queue {}", queue + 1),
                    site,
                });
                cause.allocations.insert(number);
            }
        }
        causes.extend(views.into_values());
        let mut arrays = self.open_arrays();
        // A later array may have been made from an earlier one, and so is looked at first.
        arrays.reverse();
        arrays.sort_by_key(|found| std::cmp::Reverse(found.allocations.len()));
        causes.extend(arrays.into_iter().map(|found| Cause {
            kind: Mistake::LeakedArray,
            bytes: Some(found.bytes),
            allocations: found.allocations,
            queue: None,
            what: found.array.what.into(),
            site: found.array.made,
        }));
        causes
    }

    /// Removes what stays because of a cause, and returns it in words.
    fn take_with(&self, left: &mut Left, cause: &Cause) -> Vec<String> {
        let mut stay = Vec::new();
        let arrays = left.arrays.len();
        left.arrays.retain(|numbers| !numbers.is_subset(&cause.allocations));
        let arrays = arrays - left.arrays.len();
        let arrays = arrays - usize::from(cause.kind == Mistake::LeakedArray && arrays > 0);
        match arrays {
            0 => {}
            1 => stay.push("an array".into()),
            several => stay.push(format!("{several} arrays")),
        }
        let mut queues: BTreeSet<usize> = cause.queue.into_iter().collect();
        for number in &cause.allocations {
            if left.allocations.remove(number) {
                stay.push(format!("allocation {}", number + 1));
            }
            let allocation = &self.allocations[*number];
            left.parts.retain(|_, of| of != number);
            // Memory that the library never saw is reported piece by piece.
            if allocation.custody.is_known() || !allocation.shared.is_empty() {
                queues.extend(&allocation.used_on);
                queues.extend(allocation.custody.queues());
            } else if self.was_in_an_array(*number) {
                queues.extend(&allocation.used_on);
            }
        }
        for queue in &queues {
            if left.queues.remove(queue) {
                stay.push(format!("queue {}", queue + 1));
            }
        }
        // A view has an event of its own for its end.
        let mut ends = usize::from(cause.kind == Mistake::LeakedView);
        left.events.retain(|number, (_, queue)| {
            let is_kept = match queue {
                Some(queue) => queues.contains(queue),
                None => ends > 0,
            };
            if is_kept {
                ends -= usize::from(queue.is_none());
                stay.push(format!("event {number}"));
            }
            !is_kept
        });
        stay
    }

    fn was_in_an_array(&self, number: usize) -> bool {
        self.open_arrays().iter().any(|found| found.allocations.contains(&number))
    }

    fn with_notes(&self, report: Report, allocations: &BTreeSet<usize>, stay: &[String]) -> Report {
        let mut notes = Vec::new();
        let exported = |number: &usize| self.allocations[*number].custody.exported_at();
        if let Some(site) = allocations.iter().find_map(exported) {
            notes.push(format!("It was exported at {}.", self.sites.of(site)));
        }
        if !stay.is_empty() {
            notes.push(format!("With it stay {}.", stay.join(", ")));
        }
        if notes.is_empty() { report } else { report.note(notes.join("\n  ")) }
    }

    fn leaked_allocation(&self, number: usize) -> Report {
        let subject = self.subject(number, 0..self.allocations[number].len);
        Report::new(Mistake::LeakedAllocation).about(subject)
    }

    fn leaked_mappings(&self, number: usize) -> impl Iterator<Item = Report> {
        let Allocation { mappings, fillings, .. } = &self.allocations[number];
        mappings.iter().chain(fillings).map(move |(bytes, mapped)| {
            let report = Report::new(Mistake::LeakedMapping);
            let report = report.about(self.subject(number, bytes.clone()));
            report.first(self.host_action("map", *mapped))
        })
    }

    /// Reports what no cause explains.
    fn tell_the_rest(&self, left: &Left, leaks: &mut Vec<Report>) {
        for part in left.parts.keys().filter_map(|handle| self.parts.get(handle)) {
            let first = self.host_action("part", part.made);
            let report = Report::new(Mistake::LeakedAllocation);
            let report = report.about(self.subject(part.allocation, part.bytes()));
            leaks.push(report.first(first).note("It is the handle of a part."));
        }
        for number in &left.queues {
            let first = self.host_action("open", self.queues[*number].opened);
            let note = format!("It is queue {}.", number + 1);
            leaks.push(Report::new(Mistake::LeakedQueue).first(first).note(note));
        }
        leaks.extend(left.events.iter().map(|(number, (made, _))| {
            let first = self.host_action("make an event", *made);
            Report::new(Mistake::LeakedEvent).first(first).note(format!("It is event {number}."))
        }));
    }
}
