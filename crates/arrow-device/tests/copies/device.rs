//! A device whose memory has no address: handles are numbers, work waits until somebody waits for
//! it.
//!
//! The bytes are host memory behind the driver's own lock. That work is put off shows every wait
//! that is missing: what was not waited for has not happened.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Allocation, Driver, Filled, PlaceOwner, Properties, Raw, Region, Route, Runtime,
    Spot, SyncEvent, Waiting, Watched, WatchedPlace, may_not_wait, not_reachable,
};
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result};

/// What happened on a device.
#[derive(Debug, Default)]
pub struct State {
    blocks: HashMap<usize, Vec<u8>>,
    next_block: usize,
    waiting: Vec<Copy>,
    submitted: usize,
    done: usize,
    /// Calls of `copy`, and of waits that had something to wait for.
    pub copies: usize,
    pub waits: usize,
    /// Calls that may wait: `synchronize`, `wait_on_host` and `map_to_fill`.
    pub may_wait: usize,
    /// The device is lost; whoever asks is told.
    pub is_lost: bool,
    /// Calls of `record`, and events that nobody destroyed yet.
    pub records: usize,
    pub events: usize,
    pub mistakes: Vec<String>,
    /// Blocks that the host fills at the moment, and how often it did.
    filling: Vec<usize>,
    pub fills: usize,
    /// Handles that were made for parts, and allocations that were shared.
    pub parts: usize,
    pub shared: usize,
    /// Those of parts that nobody gave back yet.
    pub parts_alive: Vec<usize>,
    /// The first handle of a part that is refused, counted from 0, as are all after it.
    pub refused_part: Option<usize>,
    /// Blocks of staging memory, and how many there ever were.
    pub staging: usize,
    pub staged: usize,
    /// How often somebody asked whose memory something is.
    pub asked: usize,
    /// What became of arrays in its memory, or used on its queues, where it watches.
    pub watched: Vec<Watched>,
    /// Whoever asks next what the device reaches gets the answer only after two meetings here.
    pub held_reach: Option<Arc<Barrier>>,
    /// So many more blocks can be allocated, where that is limited.
    pub room: Option<usize>,
    /// What the device can do beside copies.
    pub can: Abilities,
}

/// What a device can do that not every one can.
#[derive(Clone, Copy, Debug, Default)]
pub struct Abilities {
    /// The host fills fresh memory in place; and one allocation can be divided, or there would be
    /// nothing to gain.
    pub fill: bool,
    /// What it says then, if not that the data is there in the order of the queue; an event is made
    /// for it.
    pub filled: Option<Filled>,
    /// It has host memory of its own for copies.
    pub stage: bool,
    /// It does not tell whose memory something is, as a driver that says nothing about it.
    pub not_tell: bool,
    /// It is told what becomes of arrays.
    pub watch: bool,
    /// Its copies from the host are gathered first.
    pub gather: bool,
    /// Whoever would have to wait is refused.
    pub not_wait: bool,
    /// Every address is one of its memory.
    pub locate: bool,
    /// It copies units of so many bytes, unless this is 0.
    pub unit: u64,
    /// The number of another device, whose memory its queues reach.
    pub peer: Option<i64>,
}

#[derive(Debug)]
struct Copy {
    regions: Vec<Region>,
    to_host: bool,
}

#[derive(Debug)]
struct LazyDriver {
    id: DeviceId,
    runtime: usize,
    properties: Properties,
    state: Arc<Mutex<State>>,
}

/// Opens one, and gives what happens on it to be looked at.
pub fn open(number: i64) -> (Device, Arc<Mutex<State>>) {
    open_with(number, Abilities::default())
}

/// Opens one that can do more.
pub fn open_with(number: i64, can: Abilities) -> (Device, Arc<Mutex<State>>) {
    open_in(number as usize, number, can)
}

/// Opens one of a runtime, whose first hundred handles are those of no other among the first
/// hundred runtimes.
pub fn open_in(runtime: usize, number: i64, can: Abilities) -> (Device, Arc<Mutex<State>>) {
    open_as(runtime, DeviceId::new(DeviceType::EXT_DEV, number), can)
}

/// The same by any id.
pub fn open_as(runtime: usize, id: DeviceId, can: Abilities) -> (Device, Arc<Mutex<State>>) {
    let next_block = 1 + runtime % 100 * 100;
    let state = Arc::new(Mutex::new(State { next_block, can, ..State::default() }));
    let properties = Properties::new("a lazy device").with_addressing(Addressing::Handle);
    let properties = properties.with_parts(can.fill).with_watches(can.watch);
    let properties = properties.with_gathered_writes(can.gather).with_copy_unit(can.unit.max(1));
    (Device::new(LazyDriver { id, runtime, properties, state: state.clone() }), state)
}

/// The handle of a part is that of its block and so many times its offset.
const PART: usize = 1 << 16;

impl State {
    /// Does what was submitted, up to this point.
    fn run_until(&mut self, point: usize) {
        self.waits += usize::from(self.done < point);
        while self.done < point {
            let copy = self.waiting.remove(0);
            for region in copy.regions {
                self.run(region, copy.to_host);
            }
            self.done += 1;
        }
    }

    fn run(&mut self, Region { from, to, len }: Region, to_host: bool) {
        let (device, host) = if to_host { (from, to) } else { (to, from) };
        let (part, base) = (device.base.bits() / PART, device.base.bits() % PART);
        let unit = self.can.unit.max(1) as usize;
        let (offset, len) = (device.offset as usize + part, len as usize);
        if !offset.is_multiple_of(unit) {
            self.mistakes.push(format!("{device:?} is between two units of {unit} bytes"));
        }
        if self.filling.contains(&base) {
            self.mistakes.push(format!("block {base} is used while the host fills it"));
        }
        let block = self.blocks.get_mut(&base);
        let Some(bytes) = block.and_then(|block| block.get_mut(offset..offset + len)) else {
            self.mistakes.push(format!("{device:?}+{len} is not allocated"));
            return;
        };
        let host = host.base.as_ptr().cast::<u8>().wrapping_add(host.offset as usize);
        if to_host {
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), host, len) };
        } else {
            unsafe { std::ptr::copy_nonoverlapping(host, bytes.as_mut_ptr(), len) };
        }
    }

    /// Does all that was submitted.
    pub fn finish(&mut self) {
        self.run_until(self.submitted);
    }

    /// An error where this would have to be waited for, and may not.
    fn wait_until(&mut self, point: usize, id: DeviceId) -> Result<()> {
        self.may_wait += 1;
        if self.is_lost {
            return Err(Error::new(ErrorKind::DeviceLost, "lost").on_device(id));
        }
        if self.can.not_wait && self.done < point {
            return Err(may_not_wait(id));
        }
        self.run_until(point);
        Ok(())
    }

    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }
}

impl LazyDriver {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

unsafe impl Driver for LazyDriver {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "lazy", instance: self.runtime }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        let held = self.state().held_reach.take();
        if let Some(barrier) = held {
            barrier.wait();
            barrier.wait();
        }
        let peer = self.state().can.peer.map(|peer| DeviceId::new(self.id.device_type, peer));
        let is_reached = memory == self.id || Some(memory) == peer;
        if is_reached { Ok(()) } else { Err(not_reachable(self.id, memory)) }
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        if len > 1 << 20 {
            return Err(Error::new(ErrorKind::OutOfMemory, format!("{len} bytes asked for")));
        }
        let mut state = self.state();
        if state.room == Some(0) {
            return Err(Error::new(ErrorKind::OutOfMemory, "no room is left"));
        }
        state.room = state.room.map(|room| room - 1);
        let len = self.properties.copy_unit * len.div_ceil(self.properties.copy_unit);
        let handle = state.next_block;
        state.next_block += 1;
        state.blocks.insert(handle, vec![0xee; len as usize]);
        Ok(Raw::from_bits(handle))
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        let mut state = self.state();
        state.room = state.room.map(|room| room + 1);
        let len = self.properties.copy_unit * len.div_ceil(self.properties.copy_unit);
        let names = |spot: &Spot| spot.base.bits() % PART == memory.bits();
        let is_used = state.waiting.iter().any(|copy| {
            copy.regions
                .iter()
                .any(|region| names(if copy.to_host { &region.from } else { &region.to }))
        });
        let block = state.blocks.remove(&memory.bits());
        if state.filling.contains(&memory.bits()) {
            state.mistakes.push(format!("{memory:?} was freed while the host fills it"));
        }
        let parts = state.parts_alive.iter().filter(|part| **part % PART == memory.bits()).count();
        if parts > 0 {
            state
                .mistakes
                .push(format!("{memory:?} was freed before {parts} handles of its parts"));
        }
        if is_used || block.is_none_or(|block| block.len() as u64 != len) {
            state.mistakes.push(format!("{memory:?} was freed while in use, twice, or in part"));
        }
    }

    fn share(&self, _memory: Raw<Memory>, _len: u64) {
        self.state().shared += 1;
    }

    fn watch(&self, what: Watched, _places: &[WatchedPlace]) {
        let is_of_memory = matches!(
            what,
            Watched::Told(_, PlaceOwner::OfMemory) | Watched::Withdrawn(_, PlaceOwner::OfMemory)
        );
        if !is_of_memory {
            self.state().watched.push(what);
        }
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, _len: u64) -> Result<Raw<Memory>> {
        let mut state = self.state();
        if state.refused_part.is_some_and(|first| state.parts >= first) {
            return Err(Error::new(ErrorKind::OutOfMemory, "no more handles"));
        }
        state.parts += 1;
        let part = memory.bits() + offset as usize * PART;
        state.parts_alive.push(part);
        Ok(Raw::from_bits(part))
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        let mut state = self.state();
        match state.parts_alive.iter().position(|known| *known == part.bits()) {
            Some(index) => drop(state.parts_alive.remove(index)),
            None => state.mistakes.push(format!("the part {part:?} was given back and is none")),
        }
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        let mut state = self.state();
        if !state.can.stage {
            return Ok(None);
        }
        state.staging += 1;
        state.staged += 1;
        let bytes = vec![0_u8; len as usize].into_boxed_slice();
        Ok(NonNull::new(Box::into_raw(bytes).cast()))
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, len: u64) {
        self.state().staging -= 1;
        let bytes = std::ptr::slice_from_raw_parts_mut(address.as_ptr(), len as usize);
        drop(unsafe { Box::from_raw(bytes) });
    }

    unsafe fn map_to_fill(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        let mut state = self.state();
        state.may_wait += 1;
        if !state.can.fill {
            return Ok(None);
        }
        state.filling.push(spot.base.bits());
        let block = state.blocks.get_mut(&spot.base.bits()).unwrap();
        Ok(Some(NonNull::from(&mut block[spot.offset as usize..][..len as usize]).cast()))
    }

    unsafe fn unmap_filled(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        _len: u64,
        _address: NonNull<u8>,
    ) -> Result<Filled> {
        let mut state = self.state();
        state.filling.retain(|block| *block != spot.base.bits());
        state.fills += 1;
        match state.can.filled {
            None => Ok(Filled::InOrder),
            Some(Filled::After(_)) => {
                state.events += 1;
                Ok(Filled::After(Raw::from_bits(state.submitted + 1)))
            }
            Some(now) => Ok(now),
        }
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        let mut state = self.state();
        state.asked += 1;
        (!state.can.not_tell).then(|| state.blocks.contains_key(&(base.bits() % PART)))
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        Ok(Raw::NULL)
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {}

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        let mut state = self.state();
        let all = state.submitted;
        state.wait_until(all, self.id)
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        let state = self.state();
        Ok(state.done == state.submitted)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        self.state().events -= usize::from(!event.is_null());
    }

    /// The number of what was submitted before, and one more, so that it is not null.
    unsafe fn record(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        let mut state = self.state();
        state.records += 1;
        state.events += 1;
        Ok(Raw::from_bits(state.submitted + 1))
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        let state = self.state();
        if state.is_lost {
            return Err(Error::new(ErrorKind::DeviceLost, "lost").on_device(self.id));
        }
        Ok(state.done + 1 >= event.bits())
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let state = self.state();
        let block = state.blocks.get(&base.bits()).filter(|_| state.can.locate);
        Ok(block.map(|block| Allocation { device: self.id, remaining: block.len() as u64 }))
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, _timeout: Option<Duration>) -> Result<bool> {
        self.state().wait_until(event.bits() - 1, self.id)?;
        Ok(true)
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(event.as_ptr()))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Ok(Raw::from_ptr(unsafe { sync_event.cast::<*mut c_void>().read() }))
    }

    unsafe fn copy(&self, _queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let to_host = match route {
            Route::ToHost => true,
            Route::FromHost => false,
            _ => return Err(Error::new(ErrorKind::Unsupported, "only to and from the host")),
        };
        let mut state = self.state();
        state.waiting.push(Copy { regions: regions.to_vec(), to_host });
        state.submitted += 1;
        state.copies += 1;
        Ok(())
    }
}
