//! [`Simulator`]: what a program asks of a simulator beside its memory.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use arrow_device::driver::{PerProcess, Runtime};
use arrow_device::{Device, DeviceId, Error, ErrorKind, Queue, Result};
use arrow_device_vpi_protocol::{Done, MOST_REGISTERS, Outcome, Step, Unit};

use crate::engine::Engine;
use crate::lanes::Work;

/// The simulators of this process.
static OPENED: PerProcess<Mutex<Vec<Weak<Kept>>>> = PerProcess::new(Mutex::new(Vec::new()));

/// What is known of an open simulator. The driver keeps it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) engine: Arc<Engine>,
    /// Tells simulators from each other.
    pub(crate) instance: usize,
    /// The number of the child process, if the simulator is one.
    pub(crate) process: Option<u32>,
    pub(crate) precision: i32,
}

impl Kept {
    pub(crate) fn runtime(&self) -> Runtime {
        Runtime { name: "vpi", instance: self.instance }
    }
}

/// The numbers of simulators of this process.
static NUMBERS: PerProcess<(Mutex<Numbers>, Condvar)> =
    PerProcess::new((Mutex::new(Numbers::new()), Condvar::new()));

#[derive(Debug, Default)]
struct Numbers {
    /// Those that simulators have or had.
    had: BTreeSet<i64>,
    /// Those by which a thread opens a simulator now.
    opening: BTreeSet<i64>,
}

impl Numbers {
    const fn new() -> Self {
        Self { had: BTreeSet::new(), opening: BTreeSet::new() }
    }
}

fn numbers() -> (MutexGuard<'static, Numbers>, &'static Condvar) {
    let (numbers, changed) = NUMBERS.get();
    (numbers.lock().unwrap_or_else(PoisonError::into_inner), changed)
}

/// A number by which this thread opens a simulator, and no other thread does meanwhile.
#[derive(Debug)]
pub(crate) struct Opening(pub(crate) i64);

impl Opening {
    /// Waits until no other thread opens a simulator by this number.
    pub(crate) fn by(number: i64) -> Self {
        let (mut numbers, changed) = numbers();
        while !numbers.opening.insert(number) {
            numbers = changed.wait(numbers).unwrap_or_else(PoisonError::into_inner);
        }
        Self(number)
    }

    /// Takes the lowest number that no simulator of this process has or had, so that an array that
    /// outlives its simulator is never taken for one of another simulator.
    pub(crate) fn by_a_new_number() -> Self {
        let (mut numbers, _) = numbers();
        let Numbers { had, opening } = &mut *numbers;
        let is_new = |number: &i64| !had.contains(number) && !opening.contains(number);
        let number = (0..).find(is_new).unwrap_or_default();
        opening.insert(number);
        Self(number)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let (mut numbers, changed) = numbers();
        numbers.opening.remove(&self.0);
        drop(numbers);
        changed.notify_all();
    }
}

/// Remembers a simulator as long as somebody has it.
pub(crate) fn remember(kept: &Arc<Kept>) {
    numbers().0.had.insert(kept.engine.id().id);
    let mut opened = OPENED.get().lock().unwrap_or_else(PoisonError::into_inner);
    opened.retain(|one| one.strong_count() > 0);
    opened.push(Arc::downgrade(kept));
}

fn find(is_wanted: impl Fn(&Kept) -> bool) -> Option<Arc<Kept>> {
    let opened = OPENED.get().lock().unwrap_or_else(PoisonError::into_inner);
    opened.iter().filter_map(Weak::upgrade).find(|kept| is_wanted(kept))
}

/// Whether a simulator with this number is open and there.
pub(crate) fn is_open(id: DeviceId) -> bool {
    find(|kept| kept.engine.id() == id && kept.engine.check_is_there().is_ok()).is_some()
}

/// An open simulator, for what goes beyond Arrow data: the design's registers, its accelerators and
/// its time. All clones are the same simulator, and none keeps it open: that is what the
/// [`Device`] does, and what is made of it.
#[derive(Clone, Debug)]
pub struct Simulator(Arc<Kept>);

/// A job of a part of the design: registers are set, the part is started, and the job ends when the
/// part's counter changes. As with [`Dma`](crate::Dma), the part begins when it is idle and `start`
/// is 1 at an edge of its clock.
#[derive(Clone, Debug, Default)]
pub struct Job {
    unit: Unit,
    registers: Vec<(String, u64)>,
}

impl Job {
    /// A job of the part that is started by one register and counts its jobs in another one.
    pub fn new(start: impl Into<String>, done: impl Into<String>) -> Self {
        let unit = Unit { start: start.into(), done: done.into() };
        Self { unit, registers: Vec::new() }
    }

    /// Sets a register before the part is started.
    pub fn register(mut self, path: impl Into<String>, value: u64) -> Self {
        self.registers.push((path.into(), value));
        self
    }
}

/// Keeps the work of all queues of a simulator from beginning, as long as this value lives.
#[derive(Debug)]
#[must_use = "work begins when this is dropped"]
pub struct Hold(Arc<Engine>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

impl Simulator {
    /// The simulator of a device that this crate has opened.
    pub fn of(device: &Device) -> Result<Self> {
        let id = device.id();
        // Another simulator may have the number of one that is lost.
        let runtime = device.driver().runtime();
        let found = find(|kept| kept.engine.id() == id && kept.runtime() == runtime);
        found.map(Self).ok_or_else(|| {
            let message = "the device is no simulator that this process has opened";
            Error::new(ErrorKind::InvalidArgument, message).on_device(id)
        })
    }

    /// The device's id.
    pub fn id(&self) -> DeviceId {
        self.0.engine.id()
    }

    /// The value of a register or net: its lowest 64 bits, of which unknown ones (`x`, `z`) are 0.
    /// Waits until the work that runs is done, and comes before work that waits.
    pub fn value(&self, path: &str) -> Result<u64> {
        let done = self.ask(Step::Get { name: path.to_owned() })?;
        let bytes = done.data.first_chunk().copied().unwrap_or_default();
        Ok(u64::from_le_bytes(bytes))
    }

    /// Sets a register. Waits as [`value`](Self::value) does.
    ///
    /// # Safety
    /// What the design does because of the value keeps UNS-15 and UNS-16: it writes to no memory of
    /// an array, and to other memory of the device only as the memory's owner has allowed.
    pub unsafe fn set(&self, path: &str, value: u64) -> Result<()> {
        self.ask(Step::Set { name: path.to_owned(), value }).map(drop)
    }

    /// Lets simulated time go on, while nothing else is done. The unit is the simulator's
    /// precision.
    pub fn run(&self, time: u64) -> Result<()> {
        self.ask(Step::Run { time }).map(drop)
    }

    /// Submits a job to a queue of this simulator.
    ///
    /// # Safety
    /// UNS-15 and UNS-16: the part of the design uses only addresses that were told for this queue,
    /// inside the bytes that they were told for; it only reads what views told, and writes what
    /// memory told.
    pub unsafe fn submit(&self, queue: &Queue, job: Job) -> Result<()> {
        let refused = |message: &'static str| {
            let error = Error::new(ErrorKind::InvalidArgument, message);
            Err(error.during("submit a job").on_device(self.id()))
        };
        let device = queue.device();
        if device.id() != self.id() || device.driver().runtime() != self.0.runtime() {
            return refused("the queue is one of another device");
        }
        if job.registers.len() > MOST_REGISTERS {
            return refused("the job sets too many registers");
        }
        let Job { unit, registers } = job;
        let step = Step::Job { unit, registers };
        self.0.engine.submit(queue.raw().bits() as u64, [Work::Steps(vec![step], Vec::new())])
    }

    /// Keeps work that has not begun from beginning, so that a test can look at a program whose
    /// work is pending for as long as the test likes. Waits for such work do not end meanwhile.
    pub fn hold(&self) -> Hold {
        self.0.engine.hold(true);
        Hold(self.0.engine.clone())
    }

    /// The simulated time when the last work was done, in units of the simulator's precision.
    pub fn time(&self) -> u64 {
        self.0.engine.time()
    }

    /// The simulator's precision, as a power of ten of a second: -9 is a nanosecond.
    pub fn precision(&self) -> i32 {
        self.0.precision
    }

    /// How many bytes were read of which at least one bit was unknown (`x` or `z`). Such bits read
    /// as 0. The number of an accelerator that forgets to write its result is not 0.
    pub fn unknown_bytes(&self) -> u64 {
        self.0.engine.unknown_bytes()
    }

    /// How many bytes of the simulated memory are allocated.
    pub fn memory_in_use(&self) -> u64 {
        self.0.engine.in_use()
    }

    /// The size of the simulated memory in bytes.
    pub fn memory_size(&self) -> u64 {
        self.0.engine.size()
    }

    /// Whether the simulator is gone. In a child of `fork`, the simulators of its parent are.
    pub fn is_lost(&self) -> bool {
        self.0.engine.check_is_there().is_err()
    }

    /// The number of the simulator's process, if the driver has started it. The number stays the
    /// same after the process has ended, and may then be that of another process.
    pub fn process(&self) -> Option<u32> {
        self.0.process
    }

    fn ask(&self, step: Step) -> Result<Done> {
        let done = self.0.engine.ask(vec![step])?;
        let refused = |kind, message: String| Err(Error::new(kind, message).on_device(self.id()));
        match done.outcome {
            Outcome::Well => Ok(done),
            Outcome::Refused { reason, .. } => refused(ErrorKind::InvalidArgument, reason),
            Outcome::Fault { code, .. } => {
                refused(ErrorKind::WorkFailed, format!("the design reports a fault, {code}"))
            }
            Outcome::Stuck { .. } => refused(ErrorKind::Driver, "the job did not end".into()),
        }
    }
}
