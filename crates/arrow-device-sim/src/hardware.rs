//! The engine with another interface: simulated drivers of vendors use it by addresses and numbers.
//!
//! Only the simulated drivers use this module. It is not a part of the crate's interface.

use std::sync::Arc;

use arrow_device::driver::{Raw, Spot};
use arrow_device::{DeviceId, DeviceType, Event, Queue, Result};

use crate::builder::Settings;
use crate::engine::Engine;
use crate::kernel_work::{KernelMemory, Launch};
use crate::report::Report;
use crate::site::Site;
use crate::{Builder, memory, site};

pub use crate::allocation::Placement;
pub use crate::transfer::{Reading, Stretch, Whose};

/// The devices of one driver, and all that happened on them.
#[derive(Clone)]
pub struct Hardware {
    engine: Arc<Engine>,
}

/// A queue of a [`Hardware`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(usize);

/// An event of a [`Hardware`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(Raw<Event>);

/// The allocation that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The number of the allocation's device, from 0.
    pub device: usize,
    /// The number of the allocation, from 0.
    pub number: usize,
    /// Where the allocation begins.
    pub base: usize,
    /// How long the allocation is.
    pub len: u64,
    /// Where the allocation lies.
    pub placement: Placement,
    /// Whether the allocation was freed.
    pub freed: bool,
}

/// Address space of device memory that has nothing in it.
#[cfg(all(target_os = "linux", not(miri)))]
#[derive(Debug)]
pub struct Reserved(crate::memory::DeviceBytes);

#[cfg(all(target_os = "linux", not(miri)))]
impl Reserved {
    /// Where the address space begins.
    pub fn address(&self) -> usize {
        self.0.address().addr()
    }
}

impl std::fmt::Debug for Hardware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hardware")
    }
}

impl Lane {
    fn raw(self) -> Raw<Queue> {
        Raw::from_bits(self.0)
    }
}

/// Limits the address space that device memory takes in this process, if none was taken yet.
pub fn limit_address_space(bytes: usize) {
    memory::limit_address_space(bytes);
}

impl Hardware {
    /// Makes devices with `memory` bytes each. The seed chooses the order in which work runs.
    pub fn new(devices: usize, memory: u64, seed: u64) -> Self {
        let settings = Settings {
            devices: devices.max(1),
            memory_limit: memory,
            seed,
            loose_events: true,
            own_code: site::own_library(),
            ..Builder::settings()
        };
        let ids: Vec<DeviceId> =
            (0..settings.devices).map(|n| DeviceId::new(DeviceType::EXT_DEV, n as i64)).collect();
        Self { engine: Engine::start(0, &settings, &ids) }
    }

    // ---- memory

    /// Allocates memory. With a queue, it is there in the order of the queue.
    pub fn allocate(
        &self,
        device: usize,
        len: u64,
        placement: Placement,
        lane: Option<Lane>,
    ) -> Result<usize> {
        let site = self.engine.site();
        let queue = lane.map(Lane::raw);
        let allocate = |state: &mut crate::engine::EngineState| {
            state.allocate_at(device, len, placement, queue, site)
        };
        Ok(self.engine.with(allocate)?.bits())
    }

    /// Frees memory at once. If submitted work may still use it, that is reported.
    pub fn free(&self, address: usize) {
        let site = self.engine.site();
        let len = self.locate(address).map_or(0, |found| found.len);
        self.engine.with(|state| state.free(Raw::from_bits(address), len, site));
    }

    /// Frees memory in the order of a queue.
    pub fn free_in_order(&self, lane: Lane, address: usize) -> Result<()> {
        let site = self.engine.site();
        self.engine.with(|state| state.free_in_order(lane.raw(), address, site))
    }

    /// Returns the allocation that an address lies in. Freed allocations are found until their
    /// addresses are used again.
    pub fn locate(&self, address: usize) -> Option<Located> {
        self.engine.with(|state| match state.whose(address) {
            Whose::Allocation(number) => {
                let allocation = &state.allocations[number];
                Some(Located {
                    device: allocation.device,
                    number,
                    base: allocation.address,
                    len: allocation.len,
                    placement: allocation.placement,
                    freed: allocation.freed.is_some(),
                })
            }
            _ => None,
        })
    }

    /// Whether an address belongs to device memory, allocated or not.
    pub fn is_device_address(&self, address: usize) -> bool {
        memory::is_device_address(address)
    }

    /// Returns how many bytes are allocated on a device, and how many there can be.
    pub fn used_and_limit(&self, device: usize) -> (u64, u64) {
        let of = |state: &mut crate::engine::EngineState| {
            (state.devices[device].allocated, state.devices[device].limit)
        };
        self.engine.with(of)
    }

    /// Sets how many bytes can be allocated on each device.
    pub fn set_limit(&self, bytes: u64) {
        self.engine.with(|state| state.devices.iter_mut().for_each(|device| device.limit = bytes));
    }

    /// Gives a device access to memory of another device: to its own allocations, or to those of
    /// its pool.
    pub fn give_access(&self, device: usize, to: usize, placement: Placement) {
        self.engine.with(|state| state.peers.insert((device, to, placement)));
    }

    // ---- memory that is mapped by hand

    /// Reserves address space. `None` where there is none left.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub fn reserve(&self, len: u64) -> Option<Reserved> {
        crate::memory::DeviceBytes::reserve(len, false).map(Reserved)
    }

    /// Maps a file to address space, as memory of a device that no device has access to. Returns
    /// the address space where the file is too short, or cannot be mapped.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub fn map(
        &self,
        space: Reserved,
        file: &arrow_device::driver::SealedFile,
        device: usize,
        number: usize,
    ) -> Result<(), Reserved> {
        let (site, home) = (self.engine.site(), (device, Placement::Mapped(number)));
        self.engine.with(|state| state.map_file(space.0, file, home, site)).map_err(Reserved)
    }

    /// Ends a mapping, and returns its address space. If submitted work may still use the memory,
    /// that is reported.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub fn unmap(&self, address: usize) -> Option<Reserved> {
        let site = self.engine.site();
        let space = self.engine.with(|state| state.unmap_file(Raw::from_bits(address), site));
        space.map(Reserved)
    }

    /// Lets devices read bytes and not write to them: a write is reported.
    pub fn forbid_writing(&self, address: usize, len: u64) {
        let site = self.engine.site();
        self.engine.with(|state| state.share(Raw::from_bits(address), len, site));
    }

    // ---- queues and events

    /// Opens a queue. A permanent queue may stay open without being a leak.
    pub fn open(&self, device: usize, handle: usize, permanent: bool) -> Result<Lane> {
        let site = self.engine.site();
        self.engine.with(|state| {
            state.open_queue(device, handle, site)?;
            if permanent {
                state.permanent.insert(state.queues.len() - 1);
            }
            Ok(Lane(handle))
        })
    }

    /// Closes a queue. Submitted work still runs.
    pub fn close(&self, lane: Lane) {
        let site = self.engine.site();
        self.engine.with(|state| state.close_queue(lane.raw(), site));
    }

    /// Orders all later work of a queue behind all work that another queue was given so far.
    pub fn order(&self, lane: Lane, after: Lane) {
        self.engine.with(|state| {
            let number = |lane: Lane| state.queue_handles.get(&lane.0).copied();
            if let (Some(lane), Some(after)) = (number(lane), number(after)) {
                state.order(lane, after);
            }
        });
    }

    /// Whether all work of a queue has run. If so, the host knows it.
    pub fn is_idle(&self, lane: Lane) -> Result<bool> {
        self.engine.is_idle(lane.raw())
    }

    /// Waits for a queue on the host.
    pub fn synchronize(&self, lane: Lane) -> Result<()> {
        self.engine.synchronize(lane.raw())
    }

    /// Waits for all queues of a device on the host, closed ones included.
    pub fn synchronize_device(&self, device: usize) -> Result<()> {
        self.engine.synchronize_device(device)
    }

    /// Runs all submitted work. The host does not learn of that.
    pub fn run_all(&self) {
        let state = self.engine.lock();
        let state = self.engine.run_all(state);
        self.engine.unlock(state);
    }

    /// Makes an event, which is not recorded yet.
    pub fn make_event(&self, device: usize) -> Result<Mark> {
        let site = self.engine.site();
        self.engine.with(|state| state.make_event(device, site)).map(Mark)
    }

    /// Destroys an event. Waits that were submitted stay.
    pub fn destroy_event(&self, mark: Mark) {
        let site = self.engine.site();
        self.engine.with(|state| state.destroy_event(mark.0, site));
    }

    /// Records an event behind all work that a queue was given.
    pub fn record(&self, lane: Lane, mark: Mark) -> Result<()> {
        let site = self.engine.site();
        self.engine.with(|state| state.record(lane.raw(), mark.0, site))
    }

    /// Makes a queue wait for an event. An event that was never recorded counts as passed.
    pub fn wait(&self, lane: Lane, mark: Mark) -> Result<()> {
        self.engine.wait(lane.raw(), mark.0).map(|_| ())
    }

    /// Whether an event has passed. An event that was never recorded counts as passed.
    pub fn is_complete(&self, mark: Mark) -> Result<bool> {
        self.engine.is_complete(mark.0)
    }

    /// Waits for an event on the host.
    pub fn wait_on_host(&self, mark: Mark) -> Result<()> {
        self.engine.wait_on_host(mark.0, None).map(|_| ())
    }

    // ---- work

    /// Submits copies that are in no order among each other.
    ///
    /// # Safety
    /// What is no device address and no allocation is host memory that may be read or written; a
    /// destination until the queue has passed the copy.
    pub unsafe fn transfer(&self, lane: Lane, stretches: &[Stretch]) -> Result<()> {
        let site = self.engine.site();
        // SAFETY: what is no device address and no allocation is host memory that may be read or
        // written; a destination until the queue has passed the copy, as the caller promises.
        self.engine.with(|state| unsafe { state.transfer(lane.raw(), stretches, site) })
    }

    /// Submits work that fills bytes with one value.
    pub fn fill(&self, lane: Lane, address: usize, len: u64, byte: u8) -> Result<()> {
        let site = self.engine.site();
        let spot = Spot { base: Raw::from_bits(address), offset: 0 };
        self.engine.with(|state| state.fill(lane.raw(), spot, len, byte, site))
    }

    /// Submits work of the caller, which reads and writes these bytes.
    pub fn launch(
        &self,
        lane: Lane,
        name: String,
        reads: &[(usize, u64)],
        writes: &[(usize, u64)],
        run: Box<dyn FnOnce(&mut KernelMemory) + Send>,
    ) -> Result<()> {
        let site = self.engine.site();
        let spots = |parts: &[(usize, u64)]| {
            let spot = |(base, len): &(usize, u64)| {
                (Spot { base: Raw::from_bits(*base), offset: 0 }, *len)
            };
            parts.iter().map(spot).collect()
        };
        let launch = Launch { name, reads: spots(reads), writes: spots(writes), run };
        self.engine.with(|state| state.launch(lane.raw(), launch, site))
    }

    /// Notes that the host reads memory that it shares with the devices. Reports it if the host has
    /// not waited for the work that writes there.
    pub fn host_reads(&self, address: usize, len: u64) {
        let site = self.engine.site();
        self.engine.with(|state| state.host_reads(address, len, site));
    }

    /// Hides managed memory of a device from the host while the device has work that the host does
    /// not know to be finished, as on devices that share it with the host in turns.
    pub fn take_turns(&self, device: usize) {
        self.engine.with(|state| state.take_turns(device));
    }

    // ---- the end

    /// Loses a device, and all devices that wait for it. Submitted work that has not run never
    /// runs.
    pub fn lose(&self, device: usize) {
        self.engine.with(|state| state.lose(device));
    }

    /// Returns the place in the program that called the simulator.
    pub fn here(&self) -> Site {
        let site = self.engine.site();
        self.engine.with(|state| {
            let site = state.sites.add(site);
            state.sites.of(site)
        })
    }

    /// Returns the mistakes since the last call of this function.
    pub fn take_reports(&self) -> Vec<Report> {
        self.engine.with(|state| state.take_reports())
    }

    /// Returns what still exists and should not.
    pub fn leaks(&self) -> Vec<Report> {
        self.engine.with(|state| state.leaks())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::Mistake;

    fn hardware() -> Hardware {
        Hardware::new(2, u64::MAX, 0)
    }

    fn address<T>(bytes: &mut [T]) -> usize {
        bytes.as_mut_ptr().expose_provenance()
    }

    fn copy(hardware: &Hardware, lane: Lane, from: usize, to: usize, len: u64) {
        let copy = Stretch { from, to, len, reading: Reading::AtOnce };
        // SAFETY: what is no memory of the hardware is an array that the test keeps.
        unsafe { hardware.transfer(lane, &[copy]) }.unwrap();
    }

    fn kinds(hardware: &Hardware) -> Vec<Mistake> {
        hardware.take_reports().iter().map(|report| report.kind).collect()
    }

    #[test]
    fn memory_that_is_freed_in_order_is_there_for_earlier_work_and_gone_for_later() {
        let hardware = hardware();
        let lane = hardware.open(0, 1, false).unwrap();
        let memory = hardware.allocate(0, 8, Placement::Device, Some(lane)).unwrap();
        hardware.fill(lane, memory, 8, 7).unwrap();
        let mut out = [0_u8; 8];
        copy(&hardware, lane, memory, address(&mut out), 8);
        hardware.free_in_order(lane, memory).unwrap();
        hardware.synchronize(lane).unwrap();
        assert_eq!((out, kinds(&hardware)), ([7; 8], vec![]));
        assert_eq!(hardware.used_and_limit(0).0, 0);
        hardware.fill(lane, memory, 8, 7).unwrap();
        assert_eq!(kinds(&hardware), [Mistake::UseAfterFree]);
    }

    #[test]
    fn memory_that_is_freed_in_the_order_of_another_queue_is_reported() {
        let hardware = hardware();
        let (used, other) =
            (hardware.open(0, 1, true).unwrap(), hardware.open(0, 2, true).unwrap());
        let memory = hardware.allocate(0, 8, Placement::Device, None).unwrap();
        hardware.fill(used, memory, 8, 7).unwrap();
        hardware.free_in_order(other, memory).unwrap();
        assert_eq!(kinds(&hardware), [Mistake::FreedInUse]);
        let memory = hardware.allocate(0, 8, Placement::Device, None).unwrap();
        hardware.fill(used, memory, 8, 7).unwrap();
        hardware.order(other, used);
        hardware.free_in_order(other, memory).unwrap();
        assert_eq!(kinds(&hardware), []);
    }

    #[test]
    fn shared_memory_that_the_host_changes_under_a_copy_is_reported() {
        let hardware = hardware();
        let lane = hardware.open(1, 1, true).unwrap();
        let pinned = hardware.allocate(0, 8, Placement::Pinned, None).unwrap();
        let memory = hardware.allocate(1, 8, Placement::Device, None).unwrap();
        let first = std::ptr::with_exposed_provenance_mut::<AtomicU8>(pinned);
        // SAFETY: the first of eight bytes that the host may read and write, and the hardware too.
        let first = unsafe { &*first };
        first.store(3, Relaxed);
        copy(&hardware, lane, pinned, memory, 8);
        first.store(4, Relaxed);
        hardware.synchronize(lane).unwrap();
        assert_eq!(kinds(&hardware), [Mistake::HostSourceChanged]);
        copy(&hardware, lane, memory, pinned, 8);
        assert_eq!(first.load(Relaxed), 0xd5, "no result before the copy has run");
        hardware.synchronize(lane).unwrap();
        assert_eq!((first.load(Relaxed), kinds(&hardware)), (4, vec![]));
    }

    #[test]
    fn the_host_may_change_ordinary_memory_once_a_copy_is_submitted() {
        let hardware = hardware();
        let lane = hardware.open(0, 1, true).unwrap();
        let memory = hardware.allocate(0, 4, Placement::Device, None).unwrap();
        let (mut bytes, mut out) = ([1_u8, 2, 3, 4], [0_u8; 4]);
        copy(&hardware, lane, address(&mut bytes), memory, 4);
        bytes.fill(9);
        copy(&hardware, lane, memory, address(&mut out), 4);
        hardware.synchronize_device(0).unwrap();
        assert_eq!((out, kinds(&hardware), bytes), ([1, 2, 3, 4], vec![], [9; 4]));
    }

    #[test]
    fn a_device_reaches_another_once_it_has_access() {
        let hardware = hardware();
        let lane = hardware.open(0, 1, true).unwrap();
        let memory = hardware.allocate(1, 4, Placement::Device, None).unwrap();
        hardware.fill(lane, memory, 4, 1).unwrap();
        assert_eq!(kinds(&hardware), [Mistake::UnreachableMemory]);
        hardware.give_access(0, 1, Placement::Device);
        hardware.fill(lane, memory, 4, 1).unwrap();
        assert_eq!(kinds(&hardware), []);
        let pooled = hardware.allocate(1, 4, Placement::Pooled(1), None).unwrap();
        hardware.give_access(0, 1, Placement::Pooled(2));
        hardware.fill(lane, pooled, 4, 1).unwrap();
        assert_eq!(kinds(&hardware), [Mistake::UnreachableMemory], "the pool is asked for");
        hardware.give_access(0, 1, Placement::Pooled(1));
        hardware.fill(lane, pooled, 4, 1).unwrap();
        assert_eq!(kinds(&hardware), []);
    }

    #[test]
    fn a_source_that_may_be_read_out_of_order_must_be_complete() {
        let hardware = hardware();
        let lane = hardware.open(0, 1, true).unwrap();
        let memory = hardware.allocate(0, 8, Placement::Device, None).unwrap();
        hardware.fill(lane, memory, 4, 7).unwrap();
        let copy = Stretch { from: memory, to: memory + 4, len: 4, reading: Reading::AnyTime };
        // SAFETY: both ends are memory of the hardware.
        unsafe { hardware.transfer(lane, &[copy]) }.unwrap();
        assert_eq!(kinds(&hardware), [Mistake::UnorderedRead]);
        hardware.synchronize(lane).unwrap();
        // SAFETY: both ends are memory of the hardware.
        unsafe { hardware.transfer(lane, &[copy]) }.unwrap();
        assert_eq!(kinds(&hardware), []);
    }

    #[test]
    fn ordinary_memory_that_is_read_in_order_must_stay_as_it_is() {
        let hardware = hardware();
        let lane = hardware.open(0, 1, true).unwrap();
        let memory = hardware.allocate(0, 4, Placement::Device, None).unwrap();
        let mut bytes = [1_u8, 2, 3, 4];
        let from = address(&mut bytes);
        let copy = Stretch { from, to: memory, len: 4, reading: Reading::InOrder };
        // SAFETY: the source is an array that the test keeps.
        unsafe { hardware.transfer(lane, &[copy]) }.unwrap();
        bytes.fill(9);
        hardware.synchronize(lane).unwrap();
        assert_eq!((kinds(&hardware), bytes), (vec![Mistake::HostSourceChanged], [9; 4]));
    }
}
