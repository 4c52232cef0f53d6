//! The state of a sequence, and the checks at its end.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::async_stream::{Arrays, Drive};
use arrow_device::copy::{Copying, Job, PolledCopy};
use arrow_device::dlpack::{Tensor, TensorView};
use arrow_device::{
    Allocator, Array, ArrayStream, Device, DeviceId, Error, ErrorKind, Event, Memory, Queue,
    Recycler, Result, Schema, View, deferred,
};
use arrow_device_sim::{Kind, Schedule, Sim};

use super::exchange::Items;
use super::owners::OwnerBooks;
use super::values::Values;
use crate::generate::Choices;

/// The state that the threads of a sequence share.
pub(super) struct Common {
    /// Two runtimes: the first with two devices, the second with one.
    pub(super) sims: Vec<Arc<Sim>>,
    pub(super) devices: Vec<Device>,
    /// Whether the first and the third device have the same id.
    pub(super) are_twins: bool,
    /// Two queues of each device, and the number of their runtime.
    pub(super) queues: Vec<(Queue, usize)>,
    /// The arrays that the threads give each other.
    pub(super) pool: Mutex<Vec<(Array, Values)>>,
    pub(super) findings: Findings,
    pub(super) books: Arc<OwnerBooks>,
    /// Whether calls were told to fail. From then on errors are no findings.
    pub(super) has_faults: AtomicBool,
    /// For each runtime, whether devices were told to be lost, or work to fail.
    pub(super) losses: [AtomicBool; 2],
    pub(super) recycler: Recycler,
    next_number: AtomicI64,
    abandoned_before: usize,
}

/// The mistakes that were found.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings(Arc<Mutex<Vec<String>>>);

impl Findings {
    pub(super) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

impl Common {
    pub(super) fn new(choices: &mut Choices<'_>, are_twins: bool) -> Self {
        let mut sims: Vec<Arc<Sim>> = Vec::new();
        let mut kind_of_first = None;
        for devices in [2, 1] {
            // An array tells an id, and not the kind of its device, so twins are of one kind.
            let kind = choices.pick(&Kind::ALL);
            let kind = if are_twins { *kind_of_first.get_or_insert(kind) } else { kind };
            let seed = choices.byte();
            let are_read_at_once = seed % 2 == 1;
            let builder = Sim::builder()
                .kind(kind)
                .seed(u64::from(seed))
                .schedule(choices.pick(&[Schedule::Late, Schedule::Eager]))
                .backtraces(false)
                .parts(choices.once_in(3))
                .host_sources_at_submission(are_read_at_once)
                .devices(devices);
            let has_peers = devices > 1 && choices.once_in(2);
            let builder = if has_peers { builder.peers(devices) } else { builder };
            let builder = match sims.first() {
                Some(first) if are_twins => builder.ids_of(first),
                _ => builder,
            };
            sims.push(Arc::new(builder.build()));
        }
        let devices = vec![
            sims[0].device_number(0),
            sims[0].device_number(1),
            sims[1].device(),
            Device::host(),
        ];
        let queues = [(0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1)]
            .map(|(device, sim)| (devices[device].open_queue().expect("no faults yet"), sim));
        Self {
            sims,
            devices,
            are_twins,
            queues: queues.into(),
            pool: Mutex::default(),
            findings: Findings::default(),
            books: Arc::default(),
            has_faults: AtomicBool::new(false),
            losses: Default::default(),
            recycler: Recycler::new(2048),
            next_number: AtomicI64::new(1),
            abandoned_before: deferred::held_back().abandoned,
        }
    }

    /// Returns the runtime of the device with this number.
    pub(super) fn sim(&self, device: usize) -> &Arc<Sim> {
        &self.sims[usize::from(device == 2)]
    }

    /// Whether an error says that a device is lost or that work has failed, and the device belongs
    /// to a runtime that was told so.
    fn is_of_a_lost_device(&self, error: &Error) -> bool {
        let is_lost = |device: usize| {
            self.losses[usize::from(device == 2)].load(Ordering::Relaxed)
                && error.device().is_none_or(|id| id == self.devices[device].id())
        };
        let kinds = [ErrorKind::DeviceLost, ErrorKind::WorkFailed];
        kinds.contains(&error.kind()) && (0..3).any(is_lost)
    }

    /// Whether two devices have this id.
    pub(super) fn is_of_twins(&self, id: DeviceId) -> bool {
        self.are_twins && id == self.devices[2].id()
    }

    /// Whether any device was told to be lost, or any work to fail.
    pub(super) fn has_losses(&self) -> bool {
        self.losses.iter().any(|is_lost| is_lost.load(Ordering::Relaxed))
    }

    /// Returns integers that no other array of the sequence has.
    pub(super) fn fresh_numbers(&self, count: usize) -> Vec<i64> {
        let first = self.next_number.fetch_add(count as i64, Ordering::Relaxed);
        (first..first + count as i64).collect()
    }

    /// Ends everything that is left, and collects what was wrong.
    ///
    /// # Panics
    /// Panics if something was wrong.
    pub(super) fn judge(self) {
        self.pool.lock().unwrap().clear();
        let findings = self.findings;
        // Released memory may go to the recycler, and memory that the recycler gives up may have to
        // wait for a use. Threads of other tests release memory of this sequence too.
        for _ in 0..3 {
            if let Err(error) = wait_until_released(&self.sims) {
                findings.add(format!("{error}"));
            }
            self.recycler.clear();
        }
        let has_faults = self.has_faults.load(Ordering::Relaxed);
        let abandoned = deferred::held_back().abandoned - self.abandoned_before;
        let (live, panicked) =
            (self.books.live.load(Ordering::SeqCst), self.books.panicked.load(Ordering::SeqCst));
        if live > 0 && !has_faults {
            findings.add(format!("{live} owners were never dropped"));
        }
        if abandoned > panicked && !has_faults {
            findings.add(format!("{abandoned} things abandoned, and {panicked} owners panicked"));
        }
        drop((self.queues, self.devices));
        for sim in self.sims {
            let Ok(sim) = Arc::try_unwrap(sim) else {
                findings.add("a kernel or an allocator was kept");
                continue;
            };
            for report in sim.finish() {
                findings.add(report.to_string());
            }
        }
        let findings = findings.0.lock().unwrap();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}

/// Does the work of these devices, and waits until everything is released.
fn wait_until_released(sims: &[Arc<Sim>]) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let began = Instant::now();
    loop {
        sims.iter().for_each(|sim| sim.run_until_idle());
        match deferred::wait_until_released(PATIENCE) {
            // A driver of another test may not wait on this thread.
            Err(error) if error.kind() == ErrorKind::NotReady && began.elapsed() < PATIENCE => {
                std::thread::yield_now();
            }
            waited => return waited,
        }
    }
}

/// A thing that a sequence has, with the values that it is expected to hold.
pub(super) enum Thing {
    Array(Array, Values),
    View(View, Values),
    Tensor(Tensor, Vec<i64>),
    TensorView(TensorView, Vec<i64>),
    Struct(Box<ArrowDeviceArray>, Schema, Values),
    /// A struct whose children were moved out, and which only has to be released.
    Hull(Box<ArrowDeviceArray>),
    Stream(ArrayStream, Vec<Values>),
    CStream(Box<ArrowDeviceArrayStream>, Vec<Values>),
    Async(Option<Drive<Items>>, Arrays, Vec<Values>),
    Copying(Copying, Values),
    Polled(PolledCopy, Values),
    Event(Event),
}

/// The state of one thread.
pub(super) struct World<'a> {
    pub(super) shared: &'a Common,
    pub(super) things: Vec<Thing>,
    /// Work of copies that is to be run some time.
    pub(super) jobs: Arc<Mutex<Vec<Job>>>,
}

impl<'a> World<'a> {
    pub(super) fn new(shared: &'a Common) -> Self {
        Self { shared, things: Vec::new(), jobs: Arc::default() }
    }

    pub(super) fn queue(&self, choices: &mut Choices<'_>) -> (Queue, Arc<Sim>) {
        let (queue, sim) = &self.shared.queues[choices.below(self.shared.queues.len())];
        (queue.clone(), self.shared.sims[*sim].clone())
    }

    /// Chooses a device, perhaps with an allocator of its own.
    pub(super) fn device(&self, choices: &mut Choices<'_>) -> Device {
        let number = choices.below(self.shared.devices.len());
        let device = &self.shared.devices[number];
        match choices.below(4) {
            2 => device.with_allocator(self.shared.recycler.clone()),
            3 if number < 3 => device.with_allocator(self.untidy(number)),
            _ => device.clone(),
        }
    }

    /// Returns an allocator whose memory a queue of the device still writes.
    pub(super) fn untidy(&self, device: usize) -> Untidy {
        let queues = [0, 1].map(|number| self.shared.queues[2 * device + number].0.clone());
        let sim = self.shared.sim(device).clone();
        Untidy { sim, queues, recycler: self.shared.recycler.clone(), count: Arc::default() }
    }

    /// Returns the result of a call, `None` where it is an error that may come.
    pub(super) fn may_fail<T>(&self, what: &str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let is_expected = self.shared.has_faults.load(Ordering::Relaxed)
                    || self.shared.is_of_a_lost_device(&error)
                    || super::sequence::may_come(error.kind());
                if !is_expected {
                    self.shared.findings.add(format!("{what}: {error}"));
                }
                None
            }
        }
    }

    /// Drops everything that the thread has.
    pub(super) fn end(mut self) {
        let jobs = std::mem::take(&mut *self.jobs.lock().unwrap());
        jobs.into_iter().for_each(|job| job());
        self.things.drain(..).for_each(discard);
    }
}

/// Drops a thing in the way that its kind needs.
pub(super) fn discard(thing: Thing) {
    match thing {
        Thing::Struct(mut array, ..) | Thing::Hull(mut array) => {
            if let Some(release) = array.array.release {
                // SAFETY: exported, not released, and released once (UNS-14).
                unsafe { release(&raw mut array.array) };
            }
        }
        Thing::CStream(mut stream, _) => {
            if let Some(release) = stream.release {
                // SAFETY: exported, not released, and released once (UNS-14).
                unsafe { release(&raw mut *stream) };
            }
        }
        thing => drop(thing),
    }
}

/// An allocator that writes to the memory that it hands out, on queues of its own choice, and hands
/// out again what was given back.
#[derive(Clone)]
pub(super) struct Untidy {
    sim: Arc<Sim>,
    queues: [Queue; 2],
    recycler: Recycler,
    count: Arc<AtomicUsize>,
}

impl Allocator for Untidy {
    fn allocate(&self, device: &Device, len: u64, queue: Option<&Queue>) -> Result<Memory> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let own = &self.queues[count % 2];
        let mut memory = match count % 4 {
            0 => device.allocate(len + 64)?,
            1 => self.recycler.allocate(device, len, queue)?,
            2 => own.allocate(len)?,
            _ => queue.map_or_else(|| device.allocate(len), |queue| queue.allocate(len))?,
        };
        if count.is_multiple_of(3) {
            return Ok(memory);
        }
        let spot = memory.spot(own)?;
        let scribble = self.sim.kernel("an allocator's own").writes(spot, len);
        scribble.launch(own, |memory| memory.output(0).fill(0x77))?;
        Ok(memory)
    }
}
