//! The events of an engine: their tables, the work that they stand for, and the events of other
//! libraries.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ptr::NonNull;

use arrow_device::Event;
use arrow_device::driver::Raw;

use crate::clock::Clock;
use crate::event_table::EventTable;
use crate::site::SiteId;

/// How many destroyed events are remembered before their tables are used again.
const REMEMBERED: usize = 1024;

/// All events of an engine.
pub(crate) struct Events {
    slots: Vec<EventSlot>,
    pub(crate) by_table: HashMap<usize, usize>,
    /// The numbers of destroyed events, the oldest first.
    pub(crate) retired: VecDeque<usize>,
    /// The addresses of other libraries' tables that were checked.
    pub(crate) foreign: HashSet<usize>,
    /// The contents of an event's table while the event is alive.
    alive: EventTable,
    made: u64,
}

// SAFETY: what `alive` points to is only written into tables. The tables are this value's own.
unsafe impl Send for Events {}

/// An event.
pub(crate) struct EventSlot {
    pub(crate) table: NonNull<EventTable>,
    /// The number of the event in reports, from 1.
    pub(crate) number: u64,
    pub(crate) device: usize,
    pub(crate) made: SiteId,
    pub(crate) recorded: Option<Recorded>,
    pub(crate) destroyed: Option<SiteId>,
}

/// The work that an event stands for.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) queue: usize,
    pub(crate) work: u64,
    pub(crate) clock: Clock,
    pub(crate) site: SiteId,
}

impl Events {
    /// Contains no event yet. [`set_table`](Self::set_table) sets the functions of later events.
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            by_table: HashMap::new(),
            retired: VecDeque::new(),
            foreign: HashSet::new(),
            alive: EventTable::alive(None, None, None, std::ptr::null_mut()),
            made: 0,
        }
    }

    /// Sets the contents of the tables of later events.
    pub(crate) fn set_table(&mut self, alive: EventTable) {
        self.alive = alive;
    }

    /// Returns the events that are not destroyed: for each number, where the event was made, and
    /// the queue that it was recorded on.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (u64, (SiteId, Option<usize>))> {
        let alive = self.slots.iter().filter(|slot| slot.destroyed.is_none());
        let queue = |slot: &EventSlot| slot.recorded.as_ref().map(|recorded| recorded.queue);
        alive.map(move |slot| (slot.number, (slot.made, queue(slot))))
    }

    pub(crate) fn make(&mut self, device: usize, made: SiteId) -> Raw<Event> {
        self.made += 1;
        let number = self.made;
        let table = if self.retired.len() > REMEMBERED
            && let Some(oldest) = self.retired.pop_front()
            && let Some(slot) = self.slots.get_mut(oldest)
        {
            // SAFETY: a table of ours that was retired.
            unsafe { EventTable::revive(slot.table, &self.alive) };
            *slot = EventSlot {
                table: slot.table,
                number,
                device,
                made,
                recorded: None,
                destroyed: None,
            };
            slot.table
        } else {
            let table = EventTable::allocate(&self.alive);
            self.by_table.insert(table.addr().get(), self.slots.len());
            self.slots.push(EventSlot {
                table,
                number,
                device,
                made,
                recorded: None,
                destroyed: None,
            });
            table
        };
        Raw::from_ptr(table.as_ptr().cast())
    }

    pub(crate) fn slot(&mut self, event: Raw<Event>) -> Option<&mut EventSlot> {
        let number = self.by_table.get(&event.bits())?;
        self.slots.get_mut(*number)
    }

    pub(crate) fn is_foreign(&self, event: Raw<Event>) -> bool {
        self.foreign.contains(&event.bits()) && !self.by_table.contains_key(&event.bits())
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for slot in &self.slots {
            // SAFETY: the engine goes, and with it everything that could name the event.
            unsafe { EventTable::free(slot.table) }
        }
    }
}
