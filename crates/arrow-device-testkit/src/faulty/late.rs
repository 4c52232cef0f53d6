//! Work that is done when somebody waits for it.
//!
//! A [`Line`] holds the work that was submitted to a queue and is not done. No work runs before
//! somebody waits for it, so a caller that does not wait sees that nothing was done. To run a piece
//! of work, the driver beneath makes a copy, which is waited for at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;

use arrow_device::driver::{Addressing, Driver, Raw, Readiness, Region, Route};
use arrow_device::{Error, ErrorKind, Event, Queue, Result};

use super::blocks::Blocks;
use super::driver::PATTERN;

/// The work that was submitted to a queue and is not done.
#[derive(Debug)]
pub(super) struct Line {
    driver: Arc<dyn Driver>,
    raw: Raw<Queue>,
    work: VecDeque<Pending>,
    submitted: u64,
    /// The first piece of work that counts as failed. All later work of the line fails too.
    failed_from: Option<u64>,
}

#[derive(Debug)]
struct Pending {
    position: u64,
    thread: ThreadId,
    task: Task,
}

#[derive(Debug)]
enum Task {
    Copy(LateCopy),
    Wait { event: Raw<Event>, mark: Mark, is_obeyed: bool },
}

/// The direction of a copy.
#[derive(Clone, Debug)]
pub(super) enum LateRoute {
    /// From host memory. The sources were read when the copy was submitted.
    FromHost(Vec<Vec<u8>>),
    ToHost,
    Within,
    FromPeer(Arc<dyn Driver>),
}

#[derive(Debug)]
pub(super) struct LateCopy {
    pub(super) route: LateRoute,
    /// The regions that are copied, spoiled by the fault.
    pub(super) regions: Vec<Region>,
    /// The regions that were to be copied.
    pub(super) asked: Vec<Region>,
}

/// A point in the order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    queue: Raw<Queue>,
    position: u64,
}

/// The two points of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// The point that the event stands for by the rules.
    pub(super) truth: Point,
    /// The point that this driver takes instead.
    pub(super) told: Point,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: HashMap<usize, Line>,
    events: HashMap<usize, Mark>,
    opened: usize,
    /// Whether later work runs first.
    pub(super) is_backwards: bool,
    /// Whether the copy that is submitted next fails.
    pub(super) fails_next: bool,
    /// The events whose failure was reported.
    told: Vec<Raw<Event>>,
}

impl Lines {
    /// Opens a line for a queue of the driver beneath, and returns the line's handle. A device with
    /// one queue has one line.
    pub(super) fn open(&mut self, driver: &Arc<dyn Driver>, raw: Raw<Queue>) -> Raw<Queue> {
        if driver.properties().readiness == Readiness::QueueOrder {
            let is_it = |line: &Line| line.raw == raw && Arc::ptr_eq(&line.driver, driver);
            let mut known = self.lines.iter().filter(|(_, line)| is_it(line));
            if let Some((handle, _)) = known.next() {
                return Raw::from_bits(*handle);
            }
        }
        self.opened += 1;
        let handle = Raw::from_bits(0x7a00_0000 + self.opened * 16);
        self.insert(handle, driver, raw);
        handle
    }

    fn insert(&mut self, handle: Raw<Queue>, driver: &Arc<dyn Driver>, raw: Raw<Queue>) {
        let (driver, work) = (driver.clone(), VecDeque::new());
        let line = Line { driver, raw, work, submitted: 0, failed_from: None };
        self.lines.insert(handle.bits(), line);
    }

    /// Returns the line of a queue. Makes one for a queue that was not opened here.
    fn line(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>) -> &mut Line {
        if !self.lines.contains_key(&queue.bits()) {
            self.insert(queue, driver, queue);
        }
        self.lines.get_mut(&queue.bits()).expect("just looked for")
    }

    /// Returns the queue of the driver beneath.
    pub(super) fn raw(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>) -> Raw<Queue> {
        self.line(driver, queue).raw
    }

    fn submit(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>, task: Task) {
        let line = self.line(driver, queue);
        line.submitted += 1;
        let thread = std::thread::current().id();
        line.work.push_back(Pending { position: line.submitted, thread, task });
    }

    pub(super) fn copy(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>, copy: LateCopy) {
        let fails = std::mem::take(&mut self.fails_next);
        let copy = if fails { LateCopy { regions: Vec::new(), ..copy } } else { copy };
        self.submit(driver, queue, Task::Copy(copy));
        if fails {
            self.fail(driver, queue);
        }
    }

    // ---- failures

    /// Makes the work that was submitted last fail.
    fn fail(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>) {
        let line = self.line(driver, queue);
        line.failed_from.get_or_insert(line.submitted);
    }

    /// Whether work up to this point fails.
    pub(super) fn fails_by(&self, point: Point) -> bool {
        let line = self.lines.get(&point.queue.bits());
        line.and_then(|line| line.failed_from).is_some_and(|first| first <= point.position)
    }

    /// Whether this is the first time that the event's failure is reported.
    pub(super) fn tell_once(&mut self, event: Raw<Event>) -> bool {
        let is_first = !self.told.contains(&event);
        if is_first {
            self.told.push(event);
        }
        is_first
    }

    /// Throws away the work of all queues.
    pub(super) fn throw_all_away(&mut self) {
        for line in self.lines.values_mut() {
            for pending in line.work.drain(..) {
                if let Task::Copy(mut copy) = pending.task
                    && matches!(copy.route, LateRoute::ToHost)
                {
                    copy.give_up();
                }
            }
        }
    }

    /// Replaces the bytes of every copy from the host that did not run.
    pub(super) fn recycle_staging(
        &mut self,
        driver: &Arc<dyn Driver>,
        queue: Raw<Queue>,
        newer: &[Vec<u8>],
    ) {
        let Some(newer) = newer.first() else { return };
        for pending in &mut self.line(driver, queue).work {
            let Task::Copy(LateCopy { route: LateRoute::FromHost(bytes), .. }) = &mut pending.task
            else {
                continue;
            };
            for bytes in bytes {
                let common = bytes.len().min(newer.len());
                bytes[..common].copy_from_slice(&newer[..common]);
            }
        }
    }

    // ---- points

    /// Returns the point behind all that was submitted.
    pub(super) fn end(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>) -> Point {
        let position = self.line(driver, queue).submitted;
        Point { queue, position }
    }

    /// Returns the point behind all that was submitted, without the last work of other threads.
    pub(super) fn end_of_thread(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>) -> Point {
        let line = self.line(driver, queue);
        let this = std::thread::current().id();
        let others = line.work.iter().rev().take_while(|pending| pending.thread != this).count();
        Point { queue, position: line.submitted - others as u64 }
    }

    /// Returns the point before the last copy, if it is not done.
    pub(super) fn before_last(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>) -> Point {
        let line = self.line(driver, queue);
        let copy = line.work.iter().rfind(|pending| matches!(pending.task, Task::Copy(_)));
        Point { queue, position: copy.map_or(line.submitted, |pending| pending.position - 1) }
    }

    pub(super) fn has_passed(&self, point: Point) -> bool {
        let line = self.lines.get(&point.queue.bits());
        let mut work = line.into_iter().flat_map(|line| &line.work);
        work.all(|pending| pending.position > point.position)
    }

    // ---- events

    pub(super) fn mark(&mut self, event: Raw<Event>, mark: Mark) {
        if !event.is_null() {
            self.events.insert(event.bits(), mark);
        }
    }

    pub(super) fn mark_of(&self, event: Raw<Event>) -> Option<Mark> {
        self.events.get(&event.bits()).copied()
    }

    /// Makes all events of a queue stand for this point.
    pub(super) fn take_back(&mut self, point: Point) {
        let of_queue = self.events.values_mut().filter(|mark| mark.truth.queue == point.queue);
        of_queue.for_each(|mark| mark.told = point);
    }

    pub(super) fn forget(&mut self, event: Raw<Event>) {
        self.events.remove(&event.bits());
        self.told.retain(|told| *told != event);
    }

    /// Removes the waits of all queues for an event.
    pub(super) fn drop_waits(&mut self, destroyed: Raw<Event>) {
        for pending in self.lines.values_mut().flat_map(|line| &mut line.work) {
            if let Task::Wait { event, is_obeyed, .. } = &mut pending.task
                && *event == destroyed
            {
                *is_obeyed = false;
            }
        }
    }

    pub(super) fn wait(
        &mut self,
        driver: &Arc<dyn Driver>,
        queue: Raw<Queue>,
        event: Raw<Event>,
        mark: Mark,
        (is_obeyed, fails_along): (bool, bool),
    ) {
        self.submit(driver, queue, Task::Wait { event, mark, is_obeyed });
        if is_obeyed && fails_along && self.fails_by(mark.truth) {
            self.fail(driver, queue);
        }
    }

    // ---- the end of work

    /// Does all work up to a point.
    pub(super) fn run(&mut self, point: Point, blocks: &Blocks) -> Result<()> {
        while let Some(line) = self.lines.get_mut(&point.queue.bits()) {
            let is_due = |pending: &Pending| pending.position <= point.position;
            let mut index = 0;
            if self.is_backwards {
                let is_copy = |pending: &&Pending| matches!(pending.task, Task::Copy(_));
                let due = line.work.iter().take_while(|pending| is_due(pending));
                index = due.take_while(is_copy).count().saturating_sub(1);
            }
            if !line.work.get(index).is_some_and(is_due) {
                return Ok(());
            }
            match line.work.remove(index).map(|pending| pending.task) {
                Some(Task::Copy(copy)) => copy.make(&*line.driver, line.raw, blocks)?,
                Some(Task::Wait { mark, is_obeyed: true, .. }) => self.run(mark.told, blocks)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Does all work. Queues that were told to wait come first, and of the others the one that was
    /// opened last. So a queue that does not wait for another one runs before its work.
    pub(super) fn run_all(&mut self, blocks: &Blocks) -> Result<()> {
        let is_wait = |pending: &Pending| matches!(pending.task, Task::Wait { .. });
        let last = |(queue, line): (&usize, &Line)| {
            (line.work.iter().any(is_wait), *queue, line.submitted)
        };
        let mut ends: Vec<(bool, usize, u64)> = self.lines.iter().map(last).collect();
        ends.sort_unstable_by(|one, other| other.cmp(one));
        for (_, queue, position) in ends {
            self.run(Point { queue: Raw::from_bits(queue), position }, blocks)?;
        }
        Ok(())
    }

    /// Throws away the work of a queue. Copies to the host are given up.
    pub(super) fn throw_away(&mut self, driver: &Arc<dyn Driver>, queue: Raw<Queue>) {
        let end = self.end(driver, queue);
        self.give_up(end);
        self.line(driver, queue).work.clear();
    }

    /// Gives up the copies to the host up to a point, because somebody was told that they are made.
    pub(super) fn give_up(&mut self, point: Point) {
        let mut points = vec![point];
        let mut seen = Vec::new();
        while let Some(point) = points.pop() {
            if seen.contains(&point) {
                continue;
            }
            seen.push(point);
            let Some(line) = self.lines.get_mut(&point.queue.bits()) else { continue };
            let due = line.work.iter_mut().filter(|pending| pending.position <= point.position);
            for pending in due {
                match &mut pending.task {
                    Task::Copy(copy) if matches!(copy.route, LateRoute::ToHost) => copy.give_up(),
                    Task::Copy(_) => {}
                    Task::Wait { mark, .. } => points.push(mark.truth),
                }
            }
        }
    }
}

impl LateCopy {
    /// Makes the copy now, and waits for it. Leaves out regions whose memory was freed meanwhile.
    /// Also leaves out regions that would be copied over themselves because their memory was given
    /// away twice, which a driver need not support.
    fn make(&self, driver: &dyn Driver, queue: Raw<Queue>, blocks: &Blocks) -> Result<()> {
        let addressing = driver.properties().addressing;
        let mut regions = self.regions.clone();
        let route = match &self.route {
            LateRoute::FromHost(bytes) => {
                for (region, bytes) in regions.iter_mut().zip(bytes) {
                    region.from.base = Raw::from_ptr(bytes.as_ptr().cast_mut().cast());
                    region.from.offset = 0;
                }
                Route::FromHost
            }
            LateRoute::ToHost => Route::ToHost,
            LateRoute::Within => Route::Within,
            LateRoute::FromPeer(peer) => Route::FromPeer(&**peer),
        };
        regions.retain(|region| require_inside(&route, region, blocks, addressing, driver).is_ok());
        if matches!(route, Route::Within) {
            regions.retain(|region| !overlaps_itself(region, blocks, addressing));
        }
        if regions.is_empty() {
            return Ok(());
        }
        // SAFETY: UNS-21 and UNS-22: the memory is allocated, as was looked up just now; the host
        // memory is the wrapper's own or has been kept, because nobody was told that the queue has
        // passed; the queue is one of the driver's.
        unsafe { driver.copy(queue, route, &regions) }?;
        // SAFETY: UNS-22: the queue is one of the driver's.
        unsafe { driver.synchronize(queue) }
    }

    fn give_up(&mut self) {
        self.regions.clear();
        self.asked.drain(..).for_each(|region| scribble(&region));
    }
}

/// Fills the destination of a copy to the host with bytes that look like no result.
pub(super) fn scribble(region: &Region) {
    let to = region.to.base.as_ptr().cast::<u8>().wrapping_add(region.to.offset as usize);
    // SAFETY: UNS-21: as many bytes can be written there until the copy is said to be made.
    unsafe { to.write_bytes(PATTERN, region.len as usize) }
}

/// Whether the two sides of a region within a device have bytes in common.
fn overlaps_itself(region: &Region, blocks: &Blocks, addressing: Addressing) -> bool {
    let sides = [region.from, region.to].map(|spot| blocks.place(spot, addressing));
    let [Some(from), Some(to)] = sides else { return false };
    from.block == to.block && from.begin.abs_diff(to.begin) < region.len
}

/// Checks that a region lies inside what is allocated on either side.
pub(super) fn require_inside(
    route: &Route<'_>,
    region: &Region,
    blocks: &Blocks,
    addressing: Addressing,
    driver: &dyn Driver,
) -> Result<()> {
    let is_inside =
        |spot| blocks.place(spot, addressing).is_some_and(|place| place.remaining() >= region.len);
    let is_from_ok = matches!(route, Route::FromHost) || is_inside(region.from);
    let is_to_ok = matches!(route, Route::ToHost) || is_inside(region.to);
    if is_from_ok && is_to_ok {
        return Ok(());
    }
    let message = format!("{region:?} is not inside memory that is allocated");
    Err(Error::new(ErrorKind::InvalidArgument, message).during("copy").on_device(driver.id()))
}
