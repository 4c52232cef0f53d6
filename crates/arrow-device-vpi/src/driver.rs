//! The [`Driver`] of a simulator: translates operations to work for the engine.
//!
//! Handles of queues and events are numbers that the engine gives out, and are looked up, so that a
//! number that stands for nothing is an error. Memory is an address in the simulated memory.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, EventNotice, EventNotices, Properties, Raw, Readiness, Region, Route,
    Runtime, Spot, SyncEvent, Waiting,
};
use arrow_device::{DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};
use arrow_device_vpi_protocol::Step;

use crate::engine::Engine;
use crate::lanes::{Landing, Work};
use crate::simulator::Kept;

/// The most bytes that one message has, so that other queues have their turn.
const MESSAGE: u64 = 1 << 20;
/// The most steps that one message has.
const STEPS: usize = 4096;

pub(crate) struct VpiDriver {
    engine: Arc<Engine>,
    /// What [`Simulator`](crate::Simulator)s find, as long as the device is open.
    kept: Arc<Kept>,
    properties: Properties,
}

impl VpiDriver {
    pub(crate) fn new(kept: Arc<Kept>, name: String, alignment: usize, copy_unit: u64) -> Self {
        let properties = Properties::new(name)
            .with_alignment(alignment)
            .with_copy_unit(copy_unit)
            .with_readiness(Readiness::HostWait)
            .with_event_notices(EventNotices::FromCallbacks);
        Self { engine: kept.engine.clone(), kept, properties }
    }

    /// An address of the simulated memory where all of a region's side is.
    fn address(&self, spot: Spot, len: u64) -> Result<u64> {
        let at = (spot.base.bits() as u64).checked_add(spot.offset);
        let end = at.and_then(|at| at.checked_add(len));
        match (at, end) {
            (Some(at), Some(end)) if at != 0 && end <= self.engine.size() => Ok(at),
            _ => {
                let (base, offset, size) = (spot.base, spot.offset, self.engine.size());
                let message = format!(
                    "{len} bytes at {base:?} + {offset} are not inside the simulated memory of {size}"
                );
                Err(self.error(ErrorKind::InvalidArgument, message).during("copy"))
            }
        }
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message.into()).on_device(self.engine.id())
    }

    fn no_events(&self) -> Error {
        let message = "VPI devices have no events in the interface: exporters wait on the host";
        self.error(ErrorKind::Unsupported, message)
    }

    /// A length on the device, in whole units.
    fn whole(&self, len: u64) -> u64 {
        len.checked_next_multiple_of(self.properties.copy_unit).unwrap_or(len)
    }
}

/// Work that is put together from regions.
#[derive(Default)]
struct Batch {
    done: Vec<Work>,
    steps: Vec<Step>,
    landings: Vec<Landing>,
    bytes: u64,
}

impl Batch {
    fn push(&mut self, step: Step, landing: Option<Landing>, bytes: u64) {
        self.steps.push(step);
        self.landings.extend(landing);
        self.bytes += bytes;
        if self.bytes >= MESSAGE || self.steps.len() >= STEPS {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let (steps, landings) =
            (std::mem::take(&mut self.steps), std::mem::take(&mut self.landings));
        self.bytes = 0;
        if !steps.is_empty() {
            self.done.push(Work::Steps(steps, landings));
        }
    }

    fn end(mut self) -> Vec<Work> {
        self.cut();
        self.done
    }
}

/// The parts of a length that one message takes at most: how far from the beginning, and how long.
fn parts(len: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len.div_ceil(MESSAGE)).map(move |number| {
        let from = number * MESSAGE;
        (from, (len - from).min(MESSAGE))
    })
}

/// The host's address of a place.
fn host(spot: Spot, offset: u64) -> *mut u8 {
    let offset = (spot.offset + offset) as usize;
    spot.base.as_ptr().cast::<u8>().wrapping_add(offset)
}

fn number<T>(handle: Raw<T>) -> u64 {
    handle.bits() as u64
}

fn handle<T>(number: u64) -> Raw<T> {
    Raw::from_bits(number as usize)
}

impl fmt::Debug for VpiDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VpiDriver({}, {})", self.engine.id(), self.properties.name)
    }
}

impl Drop for VpiDriver {
    fn drop(&mut self) {
        self.engine.close();
    }
}

// SAFETY: memory is a part of the simulated memory that the engine gives to nobody else until
// `free`. A lane of the engine is done by one thread, one thing after the other; a mark gets its
// verdict when everything before it is answered, and nothing behind a wait begins before the mark
// has passed. Failures stay with a lane. After the loss of the simulator the engine refuses
// everything and touches no memory, and marks without a verdict are lost. Handles are looked up.
// `sync_event` and `read_sync_event` are refused, as the convention of the type has no events.
unsafe impl Driver for VpiDriver {
    fn id(&self) -> DeviceId {
        self.engine.id()
    }

    fn runtime(&self) -> Runtime {
        self.kept.runtime()
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        self.engine.allocate(len).map(handle)
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        self.engine.free(number(memory));
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.engine.open_lane().map(handle)
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        self.engine.close_lane(number(queue));
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        let mark = Arc::default();
        self.engine.submit(number(queue), [Work::Mark(Arc::clone(&mark))])?;
        self.engine.wait_for(&mark, None).map(drop)
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        self.engine.is_idle(number(queue))
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.engine.make_event().map(handle)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        self.engine.destroy_event(number(event));
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        let mark = self.engine.mark(number(event))?;
        self.engine.submit(number(queue), [Work::Mark(mark)])?;
        Ok(event)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        let mark = self.engine.mark(number(event))?;
        self.engine.submit(number(queue), [Work::Wait(mark)])?;
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        self.engine.is_complete(&*self.engine.mark(number(event))?)
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        self.engine.wait_for(&*self.engine.mark(number(event))?, timeout)
    }

    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        self.engine.announce(self.engine.mark(number(event))?, notice).map(|()| true)
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        Err(self.no_events())
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Err(self.no_events())
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let mut batch = Batch::default();
        for region in regions.iter().filter(|region| region.len > 0) {
            let (from, to, len) = (region.from, region.to, region.len);
            match route {
                Route::FromHost => {
                    let at = self.address(to, len)?;
                    for (offset, len) in parts(len) {
                        let source = host(from, offset).cast_const();
                        // SAFETY: UNS-21, which the caller keeps: the source holds `region.len`
                        // bytes, which were written before this call and are written by nobody now.
                        let bytes = unsafe { std::slice::from_raw_parts(source, len as usize) };
                        let step = Step::Write { at: at + offset, bytes: bytes.to_vec() };
                        batch.push(step, None, len);
                    }
                }
                Route::ToHost => {
                    let at = self.address(from, len)?;
                    for (offset, len) in parts(len) {
                        let place = host(to, offset);
                        // SAFETY: UNS-21, which the caller keeps: the destination holds
                        // `region.len` bytes, which this copy may write until the queue has passed
                        // it.
                        let landing = unsafe { Landing::new(place, len as usize) };
                        let step = Step::Read { at: at + offset, len };
                        batch.push(step, Some(landing), len);
                    }
                }
                Route::Within => {
                    let len = self.whole(len);
                    let (from, to) = (self.address(from, len)?, self.address(to, len)?);
                    for (offset, len) in parts(len) {
                        batch.push(
                            Step::Copy { from: from + offset, to: to + offset, len },
                            None,
                            len,
                        );
                    }
                }
                _ => {
                    let message = "a simulator reaches no memory of another one";
                    return Err(self.error(ErrorKind::Unsupported, message).during("copy"));
                }
            }
        }
        self.engine.submit(number(queue), batch.end())
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        self.engine.check_is_there()?;
        let remaining = self.engine.remaining(number(base));
        Ok(remaining.map(|remaining| Allocation { device: self.engine.id(), remaining }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_copy_is_several_messages() {
        assert_eq!(parts(0).count(), 0);
        let all: Vec<_> = parts(2 * MESSAGE + 5).collect();
        assert_eq!(all, [(0, MESSAGE), (MESSAGE, MESSAGE), (2 * MESSAGE, 5)]);
        let mut batch = Batch::default();
        for (at, len) in all {
            batch.push(Step::Read { at, len }, None, len);
        }
        assert_eq!(batch.end().len(), 3);
    }

    #[test]
    fn many_small_copies_are_one_message() {
        let mut batch = Batch::default();
        for at in 0..100 {
            batch.push(Step::Read { at, len: 1 }, None, 1);
        }
        assert_eq!(batch.end().len(), 1);
    }
}
