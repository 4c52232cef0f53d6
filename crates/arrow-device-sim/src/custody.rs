//! Who was told which bytes, as far as the library says so.
//!
//! The library tells a driver that watches when a view or a memory tells a place for a queue, and
//! when that view or memory is gone ([`Driver::watch`](arrow_device::driver::Driver::watch)). Work
//! on a place of which the last owner for the queue is gone is a mistake, even where the memory
//! still waits for earlier work.
//!
//! Nothing is said of memory that nobody told through the library, and of memory that somebody
//! outside of the library may have.

use std::ops::Range;

use arrow_device::driver::{Watched, WatchedPlace};

use crate::engine::State;
use crate::report::{Mistake, Report};
use crate::site::{RawSite, SiteId};
use crate::span::Span;
use crate::track::Access;

/// What is known of who has the bytes of an allocation.
#[derive(Debug, Default)]
pub(crate) struct Custody {
    told: Vec<Told>,
    /// Where bytes begin that were handed to somebody outside of the library, and how often.
    outside: Vec<(Range<u64>, usize)>,
}

/// Bytes that were told for a queue.
#[derive(Debug)]
struct Told {
    bytes: Range<u64>,
    queue: usize,
    /// How many owners of the place there are.
    owners: usize,
    /// Where it was told first, and where the last owner went.
    told: SiteId,
    gone: SiteId,
}

/// More of these than that, and closed queues are forgotten.
const MANY: usize = 16;

impl Custody {
    fn told(&mut self, bytes: Range<u64>, queue: usize, site: SiteId) {
        if let Some(told) = self.of(bytes.start, queue) {
            if told.owners == 0 {
                told.told = site;
            }
            told.bytes.end = told.bytes.end.max(bytes.end);
            told.owners += 1;
            return;
        }
        self.told.push(Told { bytes, queue, owners: 1, told: site, gone: site });
    }

    /// A place is known by where it begins: the length of text is told as it is known.
    fn of(&mut self, start: u64, queue: usize) -> Option<&mut Told> {
        let known = |told: &&mut Told| told.bytes.start == start && told.queue == queue;
        self.told.iter_mut().find(known)
    }

    fn withdrawn(&mut self, bytes: &Range<u64>, queue: usize, site: SiteId) {
        if let Some(told) = self.of(bytes.start, queue) {
            told.owners = told.owners.saturating_sub(1);
            told.gone = site;
        }
    }

    fn exported(&mut self, bytes: Range<u64>) {
        match self.outside.iter_mut().find(|(known, _)| *known == bytes) {
            Some((_, count)) => *count += 1,
            None => self.outside.push((bytes, 1)),
        }
    }

    /// What was exported may have come back. An import knows the length of no text.
    fn imported(&mut self, bytes: &Range<u64>) {
        let known = |(known, _): &(Range<u64>, usize)| known.start == bytes.start;
        if let Some(index) = self.outside.iter().position(known)
            && let Some((_, count)) = self.outside.get_mut(index)
        {
            *count -= 1;
            if *count == 0 {
                self.outside.swap_remove(index);
            }
        }
    }

    /// Whoever owns the bytes has them again, and nobody of those that are gone matters.
    pub(crate) fn released(&mut self, bytes: &Range<u64>) {
        self.told.retain(|told| told.owners > 0 || !overlap(&told.bytes, bytes));
    }

    /// Where the last owner of bytes went that are used on this queue all the same.
    fn is_gone(&self, bytes: &Range<u64>, queue: usize) -> Option<&Told> {
        let mut of_bytes = self.told.iter().filter(|told| overlap(&told.bytes, bytes));
        let gone = of_bytes.clone().find(|told| told.owners == 0 && told.queue == queue)?;
        let is_had = of_bytes.any(|told| told.owners > 0)
            || self.outside.iter().any(|(known, _)| overlap(known, bytes));
        (!is_had).then_some(gone)
    }

    /// The places that still have an owner: where they were told, and for which queue.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (&Range<u64>, usize, SiteId)> {
        let owned = self.told.iter().filter(|told| told.owners > 0);
        owned.map(|told| (&told.bytes, told.queue, told.told))
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl State {
    pub(crate) fn watch(&mut self, what: Watched, places: &[WatchedPlace], site: RawSite) {
        let site = self.sites.add(site);
        let queue = match what {
            Watched::Told(queue) | Watched::Withdrawn(queue) => {
                let Some(queue) = self.queue_handles.get(&queue.bits()).copied() else { return };
                queue
            }
            _ => 0,
        };
        for place in places {
            let Some((number, bytes)) = self.watched_bytes(place) else { continue };
            let custody = &mut self.allocations[number].custody;
            match what {
                Watched::Told(_) => {
                    if custody.told.len() >= MANY {
                        let queues = &self.queues;
                        let matters =
                            |told: &Told| told.owners > 0 || queues[told.queue].closed.is_none();
                        custody.told.retain(matters);
                    }
                    custody.told(bytes, queue, site);
                }
                Watched::Withdrawn(_) => custody.withdrawn(&bytes, queue, site),
                Watched::Exported => custody.exported(bytes),
                Watched::Imported => custody.imported(&bytes),
                Watched::Released => custody.released(&bytes),
                _ => {}
            }
        }
    }

    /// The bytes of a place. Where only the device has the length, they are all that was shared
    /// with the first one, or all to the end.
    fn watched_bytes(&self, place: &WatchedPlace) -> Option<(usize, Range<u64>)> {
        let WatchedPlace { memory, len } = *place;
        let (number, offset, end) = self.inside(memory)?;
        let allocation = &self.allocations[number];
        let shared = allocation.shared.find(&(offset..offset + 1)).map(|(bytes, _)| bytes.end);
        let end = if len == 0 { shared.unwrap_or(end) } else { end.min(offset + len) };
        Some((number, offset..end))
    }

    /// Whether the last owner of bytes is gone that work is to use. That is reported.
    pub(crate) fn is_withdrawn(&mut self, part: Span, access: &Access, writes: bool) -> bool {
        let Span { allocation: number, offset, len } = part;
        let bytes = offset..offset + len;
        let custody = &self.allocations[number].custody;
        let Some(Told { bytes: told, gone, .. }) = custody.is_gone(&bytes, access.queue) else {
            return false;
        };
        let (bytes, gone) = (told.start.max(offset)..told.end.min(bytes.end), *gone);
        let report = Report::new(Mistake::UseAfterView)
            .about(self.subject(number, bytes))
            .first(self.host_action("the last view or memory that had the place dropped", gone))
            .second(self.action(access, writes));
        self.report(report);
        true
    }
}
