//! The owners of places: which views and memories were told which bytes, as far as the library
//! reports it.
//!
//! The library tells a driver that watches when a view or a memory tells a place for a queue, and
//! when that view or memory is gone ([`Driver::watch`](arrow_device::driver::Driver::watch)). For
//! each place and queue this module counts the owners. Work on a place whose last owner for the
//! queue is gone is a mistake, even where the memory still waits for earlier work.
//!
//! Nothing is reported about memory whose place was told without the library, or that may be in use
//! by somebody outside of the library, because it was exported.

use std::ops::Range;

use arrow_device::driver::{PlaceOwner, Watched, WatchedPlace};

use crate::engine::EngineState;
use crate::report::{Mistake, Report};
use crate::site::{RawSite, SiteId};
use crate::span::Span;
use crate::track::Access;

/// The owners of the bytes of one allocation.
#[derive(Debug, Default)]
pub(crate) struct Custody {
    places: Vec<OwnedPlace>,
    outside: Vec<Outside>,
}

/// Bytes that were told for a queue.
#[derive(Debug)]
struct OwnedPlace {
    bytes: Range<u64>,
    queue: usize,
    by: PlaceOwner,
    /// The call of the library that told the place. A view tells all its places in one call.
    call: u64,
    /// How many owners the place has.
    owners: usize,
    /// Where the place was told to the first of its present owners, and where the last owner went.
    told_at: SiteId,
    gone: SiteId,
}

/// Bytes that were handed to somebody outside of the library.
#[derive(Debug)]
struct Outside {
    bytes: Range<u64>,
    /// How often the bytes were handed out and did not come back.
    count: usize,
    exported: SiteId,
}

/// The number of records from which on those whose owners are gone and whose queues are closed are
/// forgotten.
const MANY: usize = 16;

impl Custody {
    fn add(&mut self, bytes: Range<u64>, queue: usize, by: PlaceOwner, call: u64, site: SiteId) {
        if let Some(place) = self.of(bytes.start, queue, by) {
            if place.owners == 0 {
                (place.call, place.told_at) = (call, site);
            }
            place.bytes.end = place.bytes.end.max(bytes.end);
            place.owners += 1;
            return;
        }
        let place = OwnedPlace { bytes, queue, by, call, owners: 1, told_at: site, gone: site };
        self.places.push(place);
    }

    /// Finds a place by where it begins, because the length of text may become known later.
    fn of(&mut self, start: u64, queue: usize, by: PlaceOwner) -> Option<&mut OwnedPlace> {
        let known = |place: &&mut OwnedPlace| {
            place.bytes.start == start && place.queue == queue && place.by == by
        };
        self.places.iter_mut().find(known)
    }

    fn withdrawn(&mut self, start: u64, queue: usize, by: PlaceOwner, site: SiteId) {
        if let Some(place) = self.of(start, queue, by) {
            place.owners = place.owners.saturating_sub(1);
            place.gone = site;
        }
    }

    fn exported(&mut self, bytes: Range<u64>, exported: SiteId) {
        match self.outside.iter_mut().find(|known| known.bytes == bytes) {
            Some(known) => known.count += 1,
            None => self.outside.push(Outside { bytes, count: 1, exported }),
        }
    }

    /// Notes that exported bytes may have come back. Only where they begin is compared, because an
    /// import does not know the length of text.
    fn imported(&mut self, start: u64) {
        let known = |known: &Outside| known.bytes.start == start;
        if let Some(index) = self.outside.iter().position(known)
            && let Some(known) = self.outside.get_mut(index)
        {
            known.count -= 1;
            if known.count == 0 {
                self.outside.swap_remove(index);
            }
        }
    }

    /// Returns where bytes were exported that have not come back.
    pub(crate) fn exported_at(&self) -> Option<SiteId> {
        self.outside.first().map(|outside| outside.exported)
    }

    /// Forgets the owners of these bytes that are gone, because the bytes belong to one owner
    /// again.
    pub(crate) fn released(&mut self, bytes: &Range<u64>) {
        self.places.retain(|place| place.owners > 0 || !overlap(&place.bytes, bytes));
    }

    /// Returns the place whose last owner for this queue is gone, if these bytes touch one. An
    /// owner for another queue does not make use on this queue right.
    fn is_gone(&self, bytes: &Range<u64>, queue: usize) -> Option<&OwnedPlace> {
        let of_queue = |place: &&OwnedPlace| place.queue == queue && overlap(&place.bytes, bytes);
        let mut of_queue = self.places.iter().filter(of_queue);
        let gone = of_queue.clone().find(|place| place.owners == 0)?;
        let is_had = of_queue.any(|place| place.owners > 0)
            || self.outside.iter().any(|known| overlap(&known.bytes, bytes));
        (!is_had).then_some(gone)
    }

    /// Returns the places that views have not given up: the call that told each, where that was,
    /// the queue, and the bytes.
    pub(crate) fn viewed(&self) -> impl Iterator<Item = (u64, SiteId, usize, &Range<u64>)> {
        let viewed = |place: &&OwnedPlace| place.owners > 0 && place.by == PlaceOwner::OfView;
        self.places
            .iter()
            .filter(viewed)
            .map(|place| (place.call, place.told_at, place.queue, &place.bytes))
    }

    /// Returns the queues that places were told for.
    pub(crate) fn queues(&self) -> impl Iterator<Item = usize> {
        self.places.iter().map(|place| place.queue)
    }

    /// Whether any place was told.
    pub(crate) fn is_known(&self) -> bool {
        !self.places.is_empty()
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl EngineState {
    pub(crate) fn watch(&mut self, what: Watched, places: &[WatchedPlace], site: RawSite) {
        let site = self.sites.add(site);
        self.watched += 1;
        let call = self.watched;
        match what {
            Watched::Imported => self.arrays.made("imported", places, site),
            Watched::Built => self.arrays.made("built", places, site),
            Watched::Dropped => self.arrays.dropped(places),
            _ => {}
        }
        let queue = match what {
            Watched::Told(queue, _) | Watched::Withdrawn(queue, _) => {
                let Some(queue) = self.queue_handles.get(&queue.bits()).copied() else { return };
                queue
            }
            _ => 0,
        };
        if matches!(what, Watched::Exported) {
            self.judge_names(places, site);
        }
        for place in places {
            let Some((number, bytes)) = self.watched_bytes(place) else { continue };
            let custody = &mut self.allocations[number].custody;
            match what {
                Watched::Told(_, by) => {
                    if custody.places.len() >= MANY {
                        let queues = &self.queues;
                        let matters = |place: &OwnedPlace| {
                            place.owners > 0 || queues[place.queue].closed.is_none()
                        };
                        custody.places.retain(matters);
                    }
                    custody.add(bytes, queue, by, call, site);
                }
                Watched::Withdrawn(_, by) => custody.withdrawn(bytes.start, queue, by, site),
                Watched::Exported => custody.exported(bytes, site),
                Watched::Imported => custody.imported(bytes.start),
                Watched::Released => custody.released(&bytes),
                _ => {}
            }
        }
    }

    /// Reports an array that is shown to others with a buffer inside an allocation, on a device
    /// whose memory is known to others by where its allocation begins.
    fn judge_names(&mut self, places: &[WatchedPlace], site: SiteId) {
        if !self.separate {
            return;
        }
        let mut found = places.iter().filter_map(|place| self.watched_bytes(place));
        let Some((number, bytes)) = found.find(|(_, bytes)| bytes.start > 0) else { return };
        let here = self.host_action("exported", site);
        let report = Report::new(Mistake::UnnamedPlace).about(self.subject(number, bytes));
        self.report(report.second(here));
    }

    /// Returns the bytes of a place. Where only the device knows the length, these are all bytes
    /// that were shared together with the first one, or all up to the end.
    pub(crate) fn watched_bytes(&self, place: &WatchedPlace) -> Option<(usize, Range<u64>)> {
        let WatchedPlace { memory, len } = *place;
        let (number, offset, end) = self.inside(memory)?;
        let allocation = &self.allocations[number];
        let shared = allocation.shared.find(&(offset..offset + 1)).map(|(bytes, _)| bytes.end);
        let end = if len == 0 { shared.unwrap_or(end) } else { end.min(offset + len) };
        Some((number, offset..end))
    }

    /// Whether the last owner of bytes is gone that this work uses. If so, that is reported.
    pub(crate) fn is_withdrawn(&mut self, part: Span, access: &Access, writes: bool) -> bool {
        let Span { allocation: number, offset, len } = part;
        let bytes = offset..offset + len;
        let custody = &self.allocations[number].custody;
        let Some(OwnedPlace { bytes: place, gone, .. }) = custody.is_gone(&bytes, access.queue)
        else {
            return false;
        };
        let (bytes, gone) = (place.start.max(offset)..place.end.min(bytes.end), *gone);
        let report = Report::new(Mistake::UseAfterView)
            .about(self.subject(number, bytes))
            .first(self.host_action("the last view or memory that had the place dropped", gone))
            .second(self.action(access, writes));
        self.report(report);
        true
    }
}
