//! [`Sim`]: a simulator, and what a test can do with it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
use std::time::Instant;

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Device, DeviceId, DeviceType, Queue, Result, deferred};

use crate::builder::{Builder, Settings};
use crate::driver::SimDriver;
use crate::engine::Engine;
use crate::fault::{Call, Effect};
use crate::kernel::Kernel;
use crate::memory::{self, Protection};
use crate::pump::Pump;
use crate::queue::Step;
use crate::report::Report;
use crate::site::Site;

/// A simulator: one or several software devices, and all that happened on them.
///
/// Make the simulator first and drop it last. When it is dropped, it looks for what was left
/// behind. It panics if there are reports that nobody has taken, unless the thread is panicking
/// already.
///
/// In a child of `fork` the devices of the parent's simulator answer with errors, and dropping the
/// simulator does nothing. Its other functions panic if a thread of the parent was in the simulator
/// at the fork. A child can make a simulator of its own.
pub struct Sim {
    engine: Arc<Engine>,
    devices: Vec<(SimDriver, Device)>,
    finished: bool,
}

/// The upper half of the `device_id` of a software device: the letters `ASIM`.
const TAG: i64 = 0x4153_494d << 32;

impl Sim {
    /// Returns a builder. By default a simulator has one discrete device and the seed 0.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(settings: &Settings) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let first = NEXT.fetch_add(settings.devices, Ordering::Relaxed);
        let fresh = (first..).map(|number| DeviceId::new(DeviceType::EXT_DEV, TAG | number as i64));
        let given = settings.ids.iter().copied();
        let ids = given.chain(fresh.skip(settings.ids.len()));
        let ids: Vec<DeviceId> = ids.take(settings.devices).collect();
        let engine = Engine::start(first, settings, &ids);
        let devices = ids.iter().enumerate().map(|(number, id)| {
            let name = format!("software device {}", number + 1);
            let properties = settings.kind.properties(name, settings.parts);
            let properties = properties.with_separate(settings.separate);
            let properties = properties.with_event_notices(settings.event_notices);
            let driver = SimDriver::new(engine.clone(), number, *id, properties);
            (driver.clone(), Device::new(driver))
        });
        let devices = devices.collect();
        Self { engine, devices, finished: false }
    }

    /// Whether the id is that of a software device.
    pub fn is_ours(id: DeviceId) -> bool {
        id.device_type == DeviceType::EXT_DEV && id.id & (-1 << 32) == TAG
    }

    /// Returns the device, or the first of several.
    pub fn device(&self) -> Device {
        self.device_number(0)
    }

    /// Returns one of several devices, from 0.
    ///
    /// # Panics
    /// Panics if there are not as many devices.
    #[expect(clippy::panic, reason = "a test asks for a device that it did not build")]
    pub fn device_number(&self, number: usize) -> Device {
        match self.devices.get(number) {
            Some((_, device)) => device.clone(),
            None => panic!("there are {} devices, and none is number {number}", self.devices.len()),
        }
    }

    /// Returns the driver of the first device, to be wrapped in another.
    pub fn driver(&self) -> SimDriver {
        #[expect(clippy::indexing_slicing, reason = "there is at least one device")]
        self.devices[0].0.clone()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = DeviceId> {
        self.devices.iter().map(|(_, device)| device.id())
    }

    /// Returns how the host is kept from reading device memory in this process.
    pub fn protection() -> Protection {
        memory::protection()
    }

    // ---- work

    /// Returns a kernel: work of the test, which declares what it reads and writes.
    pub fn kernel(&self, name: impl Into<String>) -> Kernel<'_> {
        Kernel::new(self, name.into())
    }

    /// Submits work that fills bytes with one value.
    #[track_caller]
    pub fn fill(&self, queue: &Queue, spot: Spot, len: u64, byte: u8) -> Result<()> {
        let site = Site::caller();
        self.engine.submit(|state| state.fill(queue.raw(), spot, len, byte, site))
    }

    /// Copies bytes to the host on a queue, and waits for them.
    #[track_caller]
    pub fn read(&self, queue: &Queue, spot: Spot, len: u64) -> Result<Vec<u8>> {
        let site = Site::caller();
        let mut bytes = vec![0_u8; len as usize];
        let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
        let region = [Region { from: spot, to, len }];
        let copied = self.engine.with(|state| {
            // SAFETY: the bytes are there until the queue has passed: the wait below ends when the
            // copy has run or was thrown away, or the bytes are forgotten.
            unsafe { state.copy(queue.raw(), &Route::ToHost, &region, site) }
        });
        copied?;
        if let Err(error) = queue.synchronize() {
            std::mem::forget(bytes);
            return Err(error);
        }
        Ok(bytes)
    }

    /// Runs all submitted work. The host does not learn of that until it waits or asks.
    pub fn run_until_idle(&self) {
        let state = self.engine.lock();
        let state = self.engine.run_all(state);
        self.engine.unlock(state);
        self.engine.call_notices();
    }

    /// Starts a thread that runs submitted work, for code that asks and never waits. The thread
    /// stops when the result is dropped.
    ///
    /// While it runs, the order of work does not depend on the seed alone.
    pub fn pump(&self) -> Pump {
        Pump::start(self.engine.clone())
    }

    // ---- reports

    /// Returns the mistakes so far. They count as unread until
    /// [`take_reports`](Self::take_reports).
    pub fn reports(&self) -> Vec<Report> {
        self.engine.with(|state| state.reports().to_vec())
    }

    /// Returns the mistakes since the last call of this function.
    pub fn take_reports(&self) -> Vec<Report> {
        self.engine.with(|state| state.take_reports())
    }

    /// Returns what would be left behind if the simulation ended now. A thread may be letting go of
    /// something at the moment: a test asks until nothing is left.
    pub fn leaks(&self) -> Vec<Report> {
        deferred::release_finished();
        self.engine.with(|state| state.grouped_leaks())
    }

    /// Ends the simulation: runs submitted work, lets the library release what waited for it, looks
    /// for what was left behind, and returns all mistakes that nobody has taken.
    pub fn finish(mut self) -> Vec<Report> {
        self.look_for_leaks();
        self.take_reports()
    }

    /// Returns what has run, in that order. Empty without [`Builder::log`].
    pub fn log(&self) -> Vec<Step> {
        self.engine.with(|state| state.log.clone().unwrap_or_default())
    }

    /// Returns how many bytes are allocated on all devices together.
    pub fn allocated(&self) -> u64 {
        self.engine.with(|state| state.devices.iter().map(|device| device.allocated).sum())
    }

    // ---- faults

    /// Makes one call fail: the n-th of its kind from now on, counted from 1.
    pub fn fail(&self, call: Call, nth: u64) {
        self.engine.with(|state| state.faults.plan(Some(call), nth, Effect::FailOnce));
    }

    /// Makes one piece of work (a copy, a fill, a kernel) fail after it was accepted: the n-th from
    /// now on, counted from 1. Such failures of real devices are reported later, by a callback of
    /// the runtime.
    ///
    /// The piece does nothing, and neither does any work behind it, on its queue or on queues that
    /// wait for it. Once that work had its turn, asking about it or waiting for it is always
    /// [`WorkFailed`](arrow_device::ErrorKind::WorkFailed). From then on these queues take no more
    /// work.
    pub fn fail_later(&self, nth: u64) {
        self.engine.with(|state| {
            state.faults.plan(Some(Call::Submit), nth, Effect::FailLater);
        });
    }

    /// Loses the device, or all of several devices. Submitted work that has not run never runs.
    ///
    /// Where a call loses one of several devices, other devices are lost with it if their queues
    /// wait for work that it has not done: nothing runs behind such a wait as if the data were
    /// there.
    pub fn lose_device(&self) {
        self.engine.with(|state| (0..state.devices.len()).for_each(|device| state.lose(device)));
    }

    /// Loses the device in one call: the n-th of its kind from now on, counted from 1.
    pub fn lose_device_in(&self, call: Call, nth: u64) {
        self.engine.with(|state| state.faults.plan(Some(call), nth, Effect::LoseDevice));
    }

    /// Sets how many bytes can be allocated on each device, including those that are allocated
    /// already.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.engine.with(|state| {
            state.devices.iter_mut().for_each(|device| device.limit = bytes);
        });
    }

    /// Sets how long each piece of work takes from now on: see [`Builder::work_time`].
    pub fn set_work_time(&self, time: Duration) {
        self.engine.with(|state| state.work_time = time);
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn look_for_leaks(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        self.run_until_idle();
        deferred::release_finished();
        // Another thread may be releasing memory of this device at the moment. WebAssembly without
        // an operating system has neither threads nor a clock.
        #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
        {
            let patience = Instant::now() + Duration::from_secs(20);
            while deferred::held_back().being_released > 0 && Instant::now() < patience {
                std::thread::yield_now();
            }
        }
        let leaks = self.engine.with(|state| state.grouped_leaks());
        self.engine.with(|state| leaks.into_iter().for_each(|leak| state.report(leak)));
    }
}

impl Drop for Sim {
    #[expect(clippy::panic, reason = "a test whose mistakes nobody looked at has to fail")]
    fn drop(&mut self) {
        if self.engine.is_of_a_parent() {
            // The reports and the memory belong to the parent.
            std::mem::forget(self.engine.clone());
            return;
        }
        self.look_for_leaks();
        if std::thread::panicking() {
            return;
        }
        let (reports, more) =
            self.engine.with(|state| (state.reports().to_vec(), state.more_reports()));
        if reports.is_empty() {
            return;
        }
        let count = reports.len() + more;
        let shown: Vec<String> = reports.iter().take(10).map(ToString::to_string).collect();
        panic!("the software device saw {count} mistakes:\n\n{}\n", shown.join("\n\n"));
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sim({} devices)", self.devices.len())
    }
}
