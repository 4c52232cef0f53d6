//! The driver with a fault.

use std::borrow::Cow;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Allocation, Driver, EventNotice, Filled, Properties, Raw, Region, Route, Runtime,
    Sharing, Spot, SyncEvent, Waiting, Watched, WatchedPlace, may_not_wait,
};
use arrow_device::{Device, DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};

use super::Fault;
use super::blocks::{Blocks, FaultyBlock};
use super::late::{LateCopy, LateRoute, Lines, Mark, Point, scribble};
use super::shadows::Shadow;
use super::shared::{FaultyShared, FaultyState};
use super::{spoil, submit};

/// The bytes that fresh memory holds where work is late, and that stand where a copy was not made.
pub(super) const PATTERN: u8 = 0xd5;

/// How many bytes can be allocated where work is late, because the memory of a device is limited.
const MEMORY_LIMIT: u64 = 96 << 20;

/// A wait with a limit shorter than this does no work.
const SHORTEST_WAIT: Duration = Duration::from_millis(2);

/// The runtime refuses one in this many copies, for the fault of a driver that ignores errors.
const REFUSED: usize = 5;

/// The driver of a wrapped device.
#[derive(Debug)]
pub(super) struct FaultyDriver {
    pub(super) inner: Arc<dyn Driver>,
    pub(super) shared: Arc<FaultyShared>,
    own: Mutex<Own>,
}

/// The driver's own queue and event.
#[derive(Debug, Default)]
struct Own {
    queue: Option<Raw<Queue>>,
    /// An event that has passed.
    passed: Option<Raw<Event>>,
}

impl FaultyDriver {
    pub(super) fn new(inner: Arc<dyn Driver>, shared: Arc<FaultyShared>) -> Self {
        Self { inner, shared, own: Mutex::default() }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.shared.fault == Some(fault)
    }

    fn is_late(&self) -> bool {
        self.shared.is_late
    }

    pub(super) fn addressing(&self) -> Addressing {
        self.inner.properties().addressing
    }

    fn unit(&self) -> u64 {
        self.inner.properties().copy_unit
    }

    fn member(&self) -> usize {
        let is_it = |member: &Arc<dyn Driver>| Arc::ptr_eq(member, &self.inner);
        self.shared.members.iter().position(is_it).unwrap_or(0)
    }

    /// Returns the handle that the driver beneath has for a queue.
    fn queue(&self, queue: Raw<Queue>) -> Raw<Queue> {
        if self.is_late() { self.shared.state().lines.raw(&self.inner, queue) } else { queue }
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a queue that only this driver uses.
    fn own_queue(&self) -> Result<Raw<Queue>> {
        let mut own = self.own();
        if let Some(queue) = own.queue {
            return Ok(queue);
        }
        let queue = self.inner.open_queue()?;
        own.queue = Some(queue);
        Ok(queue)
    }

    /// Returns an event that has passed.
    fn passed_event(&self) -> Result<Raw<Event>> {
        if let Some(event) = self.own().passed {
            return Ok(event);
        }
        let queue = self.own_queue()?;
        let made = self.inner.make_event()?;
        // SAFETY: UNS-22: a queue and an event of the driver's, which is recorded once.
        let event = unsafe { self.inner.record(queue, made) }?;
        // SAFETY: UNS-22: as long as this driver lives, so does its queue.
        unsafe { self.inner.synchronize(queue) }?;
        self.own().passed = Some(event);
        Ok(event)
    }

    /// Fills memory with the pattern.
    fn clear(&self, memory: Raw<Memory>, len: u64) -> Result<()> {
        let (bytes, region) = submit::clearing(memory, len);
        let from = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
        let queue = self.own_queue()?;
        // SAFETY: UNS-21 and UNS-22: the memory has at least these bytes, nobody else uses it, and
        // the bytes are kept until the queue has passed.
        unsafe { self.inner.copy(queue, Route::FromHost, &[Region { from, ..region }]) }?;
        // SAFETY: UNS-22: as long as this driver lives, so does its queue.
        unsafe { self.inner.synchronize(queue) }
    }

    /// Does all work up to a point, if the host may wait for that.
    fn wait_for(&self, lines: &mut Lines, point: Point, blocks: &Blocks) -> Result<()> {
        if self.shared.may_wait || lines.has_passed(point) {
            return lines.run(point, blocks);
        }
        Err(may_not_wait(self.inner.id()))
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(kind, message).on_device(self.inner.id())
    }
}

impl Drop for FaultyDriver {
    fn drop(&mut self) {
        let Own { queue, passed } = std::mem::take(&mut *self.own());
        if let Some(event) = passed {
            // SAFETY: UNS-22: recorded by this driver, and destroyed once.
            unsafe { self.inner.destroy_event(event) };
        }
        if let Some(queue) = queue {
            // SAFETY: UNS-22: opened by this driver, and closed once.
            unsafe { self.inner.close_queue(queue) };
        }
    }
}

// SAFETY: it breaks the promises of a driver on purpose, in programs that look for that. No copy
// leaves memory that its caller named or that is allocated, and no copy to the host is made after
// somebody was told that it is made.
unsafe impl Driver for FaultyDriver {
    fn id(&self) -> DeviceId {
        self.inner.id()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        // Claiming the ids of another runtime would make these ids ambiguous for the whole process,
        // and for other tests in it.
        let is_own =
            || Device::find(memory).is_some_and(|of| of.driver().runtime() == self.runtime());
        if self.has(Fault::Reach) && (memory.device_type.name().is_none() || is_own()) {
            return Ok(());
        }
        self.inner.reaches(memory)
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        self.takes_work()?;
        let member = self.member();
        let mut state = self.shared.state();
        let has = len.checked_next_multiple_of(self.unit()).unwrap_or(len);
        if self.has(Fault::RecycledEarly)
            && let Some(memory) = state.blocks.another_of(has, member)
        {
            return Ok(memory);
        }
        let shift = self.has(Fault::Misaligned) && self.addressing() == Addressing::Address;
        let more = if shift { 8 } else { 0 };
        // Without a queue, memory that is cleared late would count as ready at once.
        let named = queue.filter(|_| !self.is_late());
        let is_full = self.is_late() && len.saturating_add(state.blocks.bytes()) > MEMORY_LIMIT;
        let allocated = if is_full {
            Err(self.error(ErrorKind::OutOfMemory, "the wrapped device has no more memory"))
        } else {
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            unsafe { self.inner.allocate(len + more, named) }
        };
        let memory = allocated.map_err(|error| {
            let is_meant = self.has(Fault::OutOfMemory) && error.kind() == ErrorKind::OutOfMemory;
            if is_meant { self.error(ErrorKind::Driver, error.message().to_owned()) } else { error }
        })?;
        let memory = Raw::from_ptr(memory.as_ptr().wrapping_byte_add(more as usize));
        let is_to_clear = self.is_late() && self.has(Fault::AllocationUnordered) && queue.is_some();
        let (owners, whole) = (1, None);
        let block = FaultyBlock { memory, len: has, member, owners, queue, is_to_clear, whole };
        state.blocks.add(block);
        drop(state);
        if self.is_late() && !is_to_clear {
            self.clear(memory, len)?;
        }
        Ok(memory)
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        if self.has(Fault::NeverFreed) {
            return;
        }
        let mut state = self.shared.state();
        if let Some(block) = state.blocks.get_mut(memory) {
            block.owners -= 1;
            if block.owners > 0 {
                return;
            }
        }
        state.blocks.remove(memory);
        drop(state);
        let shift = self.has(Fault::Misaligned) && self.addressing() == Addressing::Address;
        let more = if shift { 8 } else { 0 };
        let memory = Raw::from_ptr(memory.as_ptr().wrapping_byte_sub(more));
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.free(memory, len + more as u64) }
    }

    fn share(&self, memory: Raw<Memory>, len: u64) {
        // Late copies may still write there.
        if !self.is_late() {
            self.inner.share(memory, len);
        }
    }

    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        if !self.is_late() {
            self.inner.reuse(memory, len);
        }
    }

    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        // Late copies use places that were withdrawn.
        if !self.is_late() {
            self.inner.watch(what, places);
        }
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        let step = self.inner.properties().alignment as u64;
        let mut state = self.shared.state();
        let whole = state.blocks.get_mut(memory).map_or(0, |block| block.len);
        let offset = match self.has(Fault::PartOffset) {
            true if offset + step + len <= whole => offset + step,
            true => offset.saturating_sub(step),
            false => offset,
        };
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        let part = unsafe { self.inner.part(memory, offset, len) }?;
        let member = self.member();
        let block = FaultyBlock {
            memory: part,
            len,
            member,
            owners: 1,
            queue: None,
            is_to_clear: false,
            whole: Some(memory),
        };
        state.blocks.add(block);
        Ok(part)
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        let removed = self.shared.state().blocks.remove(part);
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.free_part(part) };
        let whole = removed.and_then(|block| block.whole);
        if let Some(whole) = whole.filter(|_| self.has(Fault::PartFreesWhole)) {
            let len = self.shared.state().blocks.get_mut(whole).map_or(0, |block| block.len);
            if len > 0 {
                let _ = self.clear(whole, len);
            }
        }
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.inner.allocate_staging(len) }
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, len: u64) {
        // SAFETY: UNS-22, which the caller keeps: the address is of the driver beneath.
        unsafe { self.inner.free_staging(address, len) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.takes_work()?;
        let queue = self.inner.open_queue()?;
        if !self.is_late() {
            return Ok(queue);
        }
        Ok(self.shared.state().lines.open(&self.inner, queue))
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        let raw = self.queue(queue);
        if self.is_late() {
            let mut state = self.shared.state();
            let FaultyState { lines, blocks, .. } = &mut *state;
            if self.has(Fault::QueueClosed) {
                lines.throw_away(&self.inner, queue);
            }
            let end = lines.end(&self.inner, queue);
            if self.tells().is_ok() {
                let _ = lines.run(end, blocks);
            }
            let freed =
                if self.has(Fault::FreedWithQueue) { blocks.of_queue(queue) } else { Vec::new() };
            drop(state);
            for memory in freed {
                let len = self.shared.state().blocks.get_mut(memory).map_or(0, |block| block.len);
                let _ = self.clear(memory, len);
            }
            self.call_notices();
        }
        // SAFETY: UNS-22, which the caller keeps: the handle is that of the driver beneath.
        unsafe { self.inner.close_queue(raw) }
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        self.call_back();
        self.tells()?;
        if !self.is_late() {
            if self.has(Fault::Synchronize) {
                return Ok(());
            }
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            return unsafe { self.inner.synchronize(queue) };
        }
        let raw = self.queue(queue);
        let mut state = self.shared.state();
        let FaultyState { lines, blocks, .. } = &mut *state;
        let end = lines.end(&self.inner, queue);
        match self.shared.fault {
            Some(Fault::Synchronize) => {}
            Some(Fault::OtherThreads) => {
                let own = lines.end_of_thread(&self.inner, queue);
                self.wait_for(lines, own, blocks)?;
            }
            _ => self.wait_for(lines, end, blocks)?,
        }
        lines.give_up(end);
        let failed = self.failure(lines, end, None);
        drop(state);
        self.call_notices();
        failed?;
        // SAFETY: UNS-22, which the caller keeps: the handle is that of the driver beneath.
        unsafe { self.inner.synchronize(raw) }
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        self.call_back();
        self.tells()?;
        if self.is_late() {
            let mut state = self.shared.state();
            let end = state.lines.end(&self.inner, queue);
            if self.has(Fault::IsIdle) {
                state.lines.give_up(end);
                return Ok(true);
            }
            if !state.lines.has_passed(end) {
                return Ok(false);
            }
            self.failure(&mut state.lines, end, None)?;
        }
        if self.has(Fault::IsIdle) {
            return Ok(true);
        }
        // SAFETY: UNS-22, which the caller keeps: the handle is that of the driver beneath.
        unsafe { self.inner.is_idle(self.queue(queue)) }
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.takes_work()?;
        self.inner.make_event()
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if self.is_late() {
            let mut state = self.shared.state();
            state.lines.forget(event);
            if self.has(Fault::EventDestroyed) {
                state.lines.drop_waits(event);
            }
        }
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        self.takes_work()?;
        if !self.is_late() {
            let early = self.has(Fault::RecordedEarly).then(|| self.own_queue()).transpose()?;
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            return unsafe { self.inner.record(early.unwrap_or(queue), event) };
        }
        let raw = self.queue(queue);
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        let event = unsafe { self.inner.record(raw, event) }?;
        let mut state = self.shared.state();
        let lines = &mut state.lines;
        let truth = lines.end(&self.inner, queue);
        let told = match self.shared.fault {
            Some(Fault::RecordedEarly) => lines.before_last(&self.inner, queue),
            Some(Fault::OtherThreads) => lines.end_of_thread(&self.inner, queue),
            _ => truth,
        };
        if self.has(Fault::TakenBack) {
            lines.take_back(truth);
        }
        lines.mark(event, Mark { truth, told });
        Ok(event)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        self.takes_work()?;
        if self.is_late() {
            let mut state = self.shared.state();
            if let Some(mark) = state.lines.mark_of(event) {
                if self.has(Fault::QueueWaitBlocks) {
                    let FaultyState { lines, blocks, .. } = &mut *state;
                    lines.run(mark.told, blocks)?;
                }
                let is_obeyed = !self.has(Fault::QueueWait);
                let manner = (is_obeyed, !self.has(Fault::FailureKept));
                state.lines.wait(&self.inner, queue, event, mark, manner);
                return Ok(Waiting::Queued);
            }
        }
        if self.has(Fault::QueueWait) {
            return Ok(Waiting::Queued);
        }
        if self.has(Fault::QueueWaitBlocks) {
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            unsafe { self.inner.wait_on_host(event, None) }?;
        }
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.wait(self.queue(queue), event) }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        self.call_back();
        if let Some(answer) = self.answer_of_lost(false) {
            return answer;
        }
        let mut state = self.shared.state();
        let mark = state.lines.mark_of(event);
        if self.has(Fault::EventsComplete) {
            mark.into_iter().for_each(|mark| state.lines.give_up(mark.truth));
            return Ok(true);
        }
        if let Some(mark) = mark {
            if self.has(Fault::QuestionWaits) {
                let FaultyState { lines, blocks, .. } = &mut *state;
                lines.run(mark.told, blocks)?;
            }
            let passed = state.lines.has_passed(mark.told);
            if passed {
                state.lines.give_up(mark.truth);
                self.failure(&mut state.lines, mark.told, Some(event))?;
            }
            return Ok(passed);
        }
        drop(state);
        if self.has(Fault::QuestionWaits) {
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            return unsafe { self.inner.wait_on_host(event, None) };
        }
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.is_complete(event) }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        self.call_back();
        if let Some(answer) = self.answer_of_lost(timeout.is_none()) {
            return answer;
        }
        let mut state = self.shared.state();
        let FaultyState { lines, blocks, .. } = &mut *state;
        let mark = lines.mark_of(event);
        let is_short = timeout.is_some_and(|timeout| timeout < SHORTEST_WAIT);
        let is_early = self.has(Fault::HostWait) || (self.has(Fault::Timeout) && is_short);
        if is_early {
            mark.into_iter().for_each(|mark| lines.give_up(mark.truth));
            return Ok(true);
        }
        if let Some(mark) = mark {
            if is_short && self.shared.may_wait && !lines.has_passed(mark.told) {
                return Ok(false);
            }
            self.wait_for(lines, mark.told, blocks)?;
            lines.give_up(mark.truth);
            let answer = self.failure(lines, mark.told, Some(event)).map(|()| true);
            drop(state);
            self.call_notices();
            return answer;
        }
        drop(state);
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.wait_on_host(event, timeout) }
    }

    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.keep_notice(event, notice) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        let shown = self.has(Fault::SyncEvent).then(|| self.passed_event()).transpose()?;
        self.inner.sync_event(shown.unwrap_or(event))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        let event = unsafe { self.inner.read_sync_event(sync_event) }?;
        if self.has(Fault::ReadSyncEvent) { self.passed_event() } else { Ok(event) }
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        self.takes_work()?;
        let mut state = self.shared.state();
        state.copies += 1;
        if self.has(Fault::ErrorsLost) && state.copies.is_multiple_of(REFUSED) {
            return Ok(());
        }
        let properties = self.inner.properties();
        let left = spoil::spoiled(self.shared.fault, &route, regions, &state.blocks, properties);
        drop(state);
        if self.is_late() {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            return unsafe { self.copy_late(queue, route, regions, left) };
        }
        if self.has(Fault::Synchronize) && matches!(route, Route::ToHost) {
            regions.iter().for_each(scribble);
            return Ok(());
        }
        if left.is_empty() {
            return Ok(());
        }
        if self.has(Fault::CopyWaits) {
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            unsafe { self.inner.synchronize(queue) }?;
        }
        // SAFETY: UNS-21 and UNS-22, which the caller keeps; what was changed of the list stays
        // inside the memory that is named.
        unsafe { self.inner.copy(queue, route, &left) }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        self.call_back();
        self.takes_work()?;
        let spot = if self.has(Fault::MapOffset) { Spot { offset: 0, ..spot } } else { spot };
        let is_stale = self.has(Fault::MapStale);
        if !is_stale && !self.has(Fault::UnmapEndsAll) {
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            return unsafe { self.inner.map(spot, len) };
        }
        let mut bytes = vec![PATTERN; len as usize];
        if !is_stale {
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            let address = unsafe { self.inner.map(spot, len) }?;
            // SAFETY: DRV-24: the mapping has as many bytes, which the host may read.
            let mapped = unsafe { std::slice::from_raw_parts(address.as_ptr(), len as usize) };
            bytes.copy_from_slice(mapped);
            // SAFETY: UNS-22: mapped just now, and not used after this.
            unsafe { self.inner.unmap(spot, len, address) };
        }
        Ok(self.shared.state().shadows.add(Shadow { base: spot.base, bytes, mapped: None }))
    }

    fn sharing(&self) -> Option<&dyn Sharing> {
        self.inner.sharing()
    }

    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        self.inner.maps_in_place(base)
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        let mut state = self.shared.state();
        if state.shadows.take(address).is_some() {
            if self.has(Fault::UnmapEndsAll) {
                state.shadows.end_all_of(spot.base);
            }
            return;
        }
        drop(state);
        let spot = if self.has(Fault::MapOffset) { Spot { offset: 0, ..spot } } else { spot };
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.unmap(spot, len, address) }
    }

    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        self.call_back();
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        let mapped = unsafe { self.inner.map_to_fill(self.queue(queue), spot, len) }?;
        if mapped.is_none() || !(self.has(Fault::FillLost) || self.has(Fault::FilledNow)) {
            return Ok(mapped);
        }
        let bytes = vec![PATTERN; len as usize];
        Ok(Some(self.shared.state().shadows.add(Shadow { base: spot.base, bytes, mapped })))
    }

    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        address: NonNull<u8>,
    ) -> Result<Filled> {
        let shadow = self.shared.state().shadows.take(address);
        let mapped = shadow.as_ref().and_then(|shadow| shadow.mapped).unwrap_or(address);
        let raw = self.queue(queue);
        // SAFETY: UNS-22, which the caller keeps: the address is the one of the driver beneath.
        let filled = unsafe { self.inner.unmap_filled(raw, spot, len, mapped) }?;
        if self.is_late() {
            // The driver beneath does not know later work of this wrapper, so the mapping has to be
            // over first.
            // SAFETY: UNS-22, which the caller keeps: the handle is that of the driver beneath.
            unsafe { self.inner.synchronize(raw) }?;
        }
        let Some(shadow) = shadow.filter(|_| self.has(Fault::FilledNow)) else {
            return Ok(filled);
        };
        if let Filled::After(event) = filled {
            // SAFETY: UNS-22: the driver beneath gave it away, and it is destroyed once.
            unsafe { self.inner.destroy_event(event) };
        }
        let (regions, asked) = (vec![Region { from: spot, to: spot, len }], Vec::new());
        let route = LateRoute::FromHost(vec![shadow.bytes]);
        let copy = LateCopy { route, regions, asked };
        self.shared.state().lines.copy(&self.inner, queue, copy);
        Ok(Filled::Now)
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        // SAFETY: the caller keeps what `locate` asks of `base`.
        let mut located = unsafe { self.inner.locate(base) }?;
        if let Some(located) = &mut located {
            if self.has(Fault::LocatedElsewhere) {
                located.device.id += 1;
            }
            let spot = Spot { base, offset: 0 };
            let place = self.shared.state().blocks.place(spot, self.addressing());
            if let Some(place) = place.filter(|_| self.has(Fault::LocatedFromStart)) {
                located.remaining += place.begin;
            }
        }
        Ok(located)
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        // SAFETY: the caller keeps what `holds` asks of `base`.
        unsafe { self.inner.holds(base) }
    }
}
