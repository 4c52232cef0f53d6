//! What the tests share: one bench with a device, two queues and memory, and raw calls that no
//! owner would make.
#![allow(dead_code)]

pub(crate) mod producer;

use std::any::Any;
use std::cell::RefCell;

use arrow_device::driver::{Driver, Raw, Region, Route, Spot};
use arrow_device::{Device, Event, Memory, Queue, Result};
use arrow_device_sim::Sim;

thread_local! {
    static FORGOTTEN: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a value until [`forgotten`] gives it back: for a simulator that ends before, the value is
/// left behind.
pub(crate) fn forget(value: impl Any) {
    FORGOTTEN.with_borrow_mut(|all| all.push(Box::new(value)));
}

/// What was forgotten on this thread.
pub(crate) fn forgotten() -> Vec<Box<dyn Any>> {
    FORGOTTEN.take()
}

/// So many seeds, and few under Miri, which is a thousand times slower.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if cfg!(miri) { 2 } else { count }
}

/// A device with two queues.
pub(crate) struct Bench<'sim> {
    pub(crate) sim: &'sim Sim,
    pub(crate) device: Device,
    pub(crate) one: Queue,
    pub(crate) two: Queue,
}

impl<'sim> Bench<'sim> {
    pub(crate) fn new(sim: &'sim Sim) -> Self {
        let device = sim.device();
        let (one, two) = (device.open_queue().unwrap(), device.open_queue().unwrap());
        Self { sim, device, one, two }
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &**self.device.driver()
    }

    pub(crate) fn allocate(&self, len: u64) -> Raw<Memory> {
        unsafe { self.driver().allocate(len, None) }.unwrap()
    }

    pub(crate) fn free(&self, memory: Raw<Memory>, len: u64) {
        unsafe { self.driver().free(memory, len) }
    }

    pub(crate) fn fill(&self, queue: &Queue, memory: Raw<Memory>, len: u64) {
        self.sim.fill(queue, at(memory, 0), len, 7).unwrap();
    }

    /// A kernel that only reads.
    pub(crate) fn consume(&self, queue: &Queue, memory: Raw<Memory>, len: u64) {
        self.sim.kernel("consume").reads(at(memory, 0), len).launch(queue, |_| {}).unwrap();
    }

    /// Orders `later` behind what `earlier` was given.
    pub(crate) fn order(&self, earlier: &Queue, later: &Queue) {
        later.wait(&earlier.record().unwrap()).unwrap();
    }

    pub(crate) fn idle(&self) {
        self.one.synchronize().unwrap();
        self.two.synchronize().unwrap();
    }

    pub(crate) fn event(&self) -> Raw<Event> {
        self.driver().make_event().unwrap()
    }

    pub(crate) fn copy(&self, queue: &Queue, route: Route<'_>, regions: &[Region]) -> Result<()> {
        unsafe { queue.copy(route, regions) }
    }
}

pub(crate) fn at(memory: Raw<Memory>, offset: u64) -> Spot {
    Spot { base: memory, offset }
}

pub(crate) fn host(bytes: &[u8]) -> Spot {
    at(Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), 0)
}

pub(crate) fn host_mut(bytes: &mut [u8]) -> Spot {
    at(Raw::from_ptr(bytes.as_mut_ptr().cast()), 0)
}

pub(crate) fn region(from: Spot, to: Spot, len: u64) -> Region {
    Region { from, to, len }
}
