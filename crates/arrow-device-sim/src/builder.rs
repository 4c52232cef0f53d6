//! [`Builder`]: the settings of a simulator.

use std::ops::Range;
use std::time::Duration;

use arrow_device::DeviceId;
use arrow_device::driver::{Addressing, EventNotices, HostAccess, Properties, Readiness};

use crate::Sim;
use crate::fault::Effect;

/// The shape of a device: how the host and callers see its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Memory of its own, with addresses that the host cannot read: a GPU.
    #[default]
    Discrete,
    /// Memory that the host can read in place once it is ready, after `map`: pinned and managed
    /// memory.
    HostReadable,
    /// Memory behind handles, which know no offsets: OpenCL, Vulkan.
    Handles,
    /// Memory behind handles on a device that has one queue, in whose order arrays are ready:
    /// WebGPU, and Metal as many use it.
    ///
    /// `open_queue` returns the one queue each time, and each close ends one of these openings.
    /// There are events between the library and the driver, and none to show to others:
    /// `sync_event` and `read_sync_event` are
    /// [`ErrorKind::Unsupported`](arrow_device::ErrorKind::Unsupported), and the `sync_event` of an
    /// exported array is null. An array is ready in the order of the queue: the host and the queues
    /// of other devices wait for an event of the library's.
    OneQueue,
    /// Memory at addresses that the host can read in place, on a device that has one queue, as with
    /// [`OneQueue`](Self::OneQueue): Metal, where host and device share memory.
    OneQueueReadable,
    /// Memory behind handles on a device that copies whole units of four bytes, between two
    /// allocations only: WebGPU without a shader for copies.
    /// The driver reports regions that such a device cannot copy, and writes garbage behind a
    /// destination up to the next unit. The length of an allocation is a multiple of the unit.
    WholeUnits,
}

impl Kind {
    /// All kinds, for tests that have to hold for each of them.
    pub const ALL: [Self; 6] = [
        Self::Discrete,
        Self::HostReadable,
        Self::Handles,
        Self::OneQueue,
        Self::OneQueueReadable,
        Self::WholeUnits,
    ];

    /// Whether memory is named by handles, to which no offset can be added.
    pub(crate) fn has_handles(self) -> bool {
        matches!(self, Self::Handles | Self::OneQueue | Self::WholeUnits)
    }

    /// Whether all work of a device is in the order of one queue.
    pub(crate) fn has_one_queue(self) -> bool {
        matches!(self, Self::OneQueue | Self::OneQueueReadable)
    }

    /// Whether the host reads and fills memory in place.
    pub(crate) fn is_readable(self) -> bool {
        matches!(self, Self::HostReadable | Self::OneQueueReadable)
    }

    /// Returns the unit in which a device copies: lengths and places are multiples of it.
    pub(crate) fn copy_unit(self) -> u64 {
        if self == Self::WholeUnits { 4 } else { 1 }
    }

    /// Whether a device copies between two allocations only.
    pub(crate) fn copies_are_distinct(self) -> bool {
        self == Self::WholeUnits
    }

    pub(crate) fn properties(self, name: String, parts: bool) -> Properties {
        let properties = Properties::new(name).with_alignment(256).with_watches(true);
        let properties = properties
            .with_copy_unit(self.copy_unit())
            .with_distinct_copies(self.copies_are_distinct());
        let properties = match self.has_handles() {
            true => properties
                .with_addressing(Addressing::Handle)
                .with_parts(parts && !self.copies_are_distinct()),
            false => properties,
        };
        let properties = match self.is_readable() {
            true => properties.with_host_access(HostAccess::Mapped),
            false => properties,
        };
        match self.has_one_queue() {
            true => properties.with_readiness(Readiness::QueueOrder),
            false => properties,
        }
    }
}

/// When work runs. All orders of both schedules are legal, and each schedule shows other mistakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schedule {
    /// When somebody waits for the work: results come as late as the order allows, and memory that
    /// is given up stays as long as it can.
    #[default]
    Late,
    /// In the call that submits the work, unless the work has to wait for something: memory that is
    /// given up goes at once. The host learns of finished work only when it waits or asks, as
    /// always.
    Eager,
}

/// Takes the settings of a simulator, and makes it. [`Sim::builder`] returns one.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    /// `None` is late, except in a sweep, where the seed chooses.
    pub(crate) schedule: Option<Schedule>,
    pub(crate) parts: bool,
    pub(crate) separate: bool,
    pub(crate) devices: usize,
    /// The ids of the first devices. The other devices get ids that no device has.
    pub(crate) ids: Vec<DeviceId>,
    pub(crate) peer_access: bool,
    pub(crate) memory_limit: u64,
    pub(crate) work_time: Duration,
    pub(crate) backtraces: bool,
    pub(crate) log: bool,
    pub(crate) loose_events: bool,
    pub(crate) may_wait: bool,
    pub(crate) host_sources_at_submission: bool,
    pub(crate) event_notices: EventNotices,
    pub(crate) own_code: Range<usize>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            settings: Settings {
                kind: Kind::Discrete,
                seed: 0,
                schedule: None,
                parts: false,
                separate: false,
                devices: 1,
                ids: Vec::new(),
                peer_access: false,
                memory_limit: u64::MAX,
                work_time: Duration::ZERO,
                backtraces: true,
                log: false,
                loose_events: false,
                may_wait: true,
                host_sources_at_submission: false,
                event_notices: EventNotices::None,
                own_code: 0..0,
            },
        }
    }

    /// Returns the default settings.
    pub(crate) fn settings() -> Settings {
        Self::new().settings
    }

    /// Sets the shape of the devices. The default is discrete.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.settings.kind = kind;
        self
    }

    /// Sets whether parts of an allocation can get handles, as with OpenCL and Vulkan. This has an
    /// effect only on kinds with handles that copy inside one allocation.
    pub fn parts(mut self, parts: bool) -> Self {
        self.settings.parts = parts;
        self
    }

    /// Sets whether every buffer of an array needs an allocation of its own although there are
    /// addresses, as on Hexagon, whose memory travels by file descriptors. Work that names a place
    /// by an address inside an allocation is then a mistake, and so is an array that shows such an
    /// address to others. This has an effect only on kinds with addresses.
    pub fn separate(mut self, separate: bool) -> Self {
        self.settings.separate = separate;
        self
    }

    /// Sets the seed, which chooses in which of the legal orders work runs. The default is 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Sets when work runs. By default work runs late, and in a [`sweep`](Self::sweep) eagerly on
    /// every other seed.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.settings.schedule = Some(schedule);
        self
    }

    /// Makes several devices of one runtime, at least one, that cannot reach each other's memory.
    pub fn devices(mut self, devices: usize) -> Self {
        self.settings.devices = devices.max(1);
        self
    }

    /// Makes several devices of one runtime, each with access to the memory of all.
    pub fn peers(mut self, devices: usize) -> Self {
        self.settings.peer_access = true;
        self.devices(devices)
    }

    /// Gives each device the id of the device with the same number in another simulator, as far as
    /// there is one: two runtimes are open under one id, as two OpenCL contexts of one device are.
    /// Both simulators have to be of one [`Kind`], because an array tells the id of its device, and
    /// not what its buffers are.
    ///
    /// From then on, until the process ends, the library asks the drivers which memory belongs to
    /// which of them.
    pub fn ids_of(mut self, other: &Sim) -> Self {
        self.settings.ids = other.ids().collect();
        self
    }

    /// Sets how many bytes can be allocated on each device.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.settings.memory_limit = bytes;
        self
    }

    /// Sets how long each piece of work takes, for waits with a time limit: such a wait can run out
    /// of time although no real time passes.
    pub fn work_time(mut self, time: Duration) -> Self {
        self.settings.work_time = time;
        self
    }

    /// Sets whether the host may wait for work. If not, as on the thread of a browser's page,
    /// waiting for unfinished work is [`ErrorKind::NotReady`](arrow_device::ErrorKind::NotReady),
    /// and work runs in [`Sim::run_until_idle`], in a [`Sim::pump`], or eagerly.
    pub fn may_wait(mut self, may_wait: bool) -> Self {
        self.settings.may_wait = may_wait;
        self
    }

    /// Sets whether a copy from the host reads its sources when it is submitted, as WebGPU's
    /// `writeBuffer` does, or in its turn on the queue. Callers have to allow for both (UNS-21): a
    /// source that unfinished work has still to write is a mistake on every device. By default
    /// copies read in their turn, so that it shows where a source is freed or changed too early.
    pub fn host_sources_at_submission(mut self, at_submission: bool) -> Self {
        self.settings.host_sources_at_submission = at_submission;
        self
    }

    /// Sets whether the device announces events that somebody awaits, and what may be done there.
    /// By default it announces none, and a thread of the library waits for the events.
    ///
    /// A device that announces has a thread that runs the awaited work. Where the host may not wait
    /// ([`may_wait`](Self::may_wait)) there is no such thread, and [`Sim::run_until_idle`]
    /// announces.
    pub fn event_notices(mut self, event_notices: EventNotices) -> Self {
        self.settings.event_notices = event_notices;
        self
    }

    /// Sets whether calls that come through the library look at the stack to learn where in the
    /// program they are. The default is yes. Looking is most of what a call costs.
    pub fn backtraces(mut self, on: bool) -> Self {
        self.settings.backtraces = on;
        self
    }

    /// Sets whether a log of what has run is kept, for [`Sim::log`].
    pub fn log(mut self, on: bool) -> Self {
        self.settings.log = on;
        self
    }

    /// Makes the simulator.
    pub fn build(mut self) -> Sim {
        // Handles say by themselves what they name.
        self.settings.separate &= !self.settings.kind.has_handles();
        Sim::new(&self.settings)
    }

    /// Runs a test once for each seed, each time with a new simulator, which is dropped after the
    /// run. Unless a [`schedule`](Self::schedule) was chosen, work runs late on even seeds and
    /// eagerly on odd ones.
    ///
    /// A panic is followed by a line that names the seed. `sweep([seed], test)` repeats that run.
    pub fn sweep(self, seeds: impl IntoIterator<Item = u64>, mut test: impl FnMut(&Sim)) {
        for seed in seeds {
            let _named = Named(format!("with seed {seed}"));
            let sim = self.clone().in_sweep(seed).build();
            test(&sim);
        }
    }

    fn in_sweep(self, seed: u64) -> Self {
        let of_seed = if seed.is_multiple_of(2) { Schedule::Late } else { Schedule::Eager };
        let schedule = self.settings.schedule.unwrap_or(of_seed);
        self.seed(seed).schedule(schedule)
    }

    /// Runs a test once for each call in it that can fail, and makes that call fail. Then runs it
    /// once more for each such call, and loses the device in that call. The test passes if every
    /// run leaks nothing, makes no mistake, and returns errors as values.
    ///
    /// Returns the number of runs. A panic is followed by a line that names the call.
    pub fn for_each_fault(self, mut test: impl FnMut(&Sim)) -> usize {
        let mut runs = 0;
        for effect in [Effect::FailOnce, Effect::LoseDevice] {
            for nth in 1.. {
                let mut named = Named(format!("with call {nth} failing"));
                let sim = self.clone().build();
                sim.engine().with(|state| state.faults.plan(None, nth, effect));
                test(&sim);
                runs += 1;
                let fired = sim.engine().with(|state| state.faults.fired().first().copied());
                let Some(call) = fired else { break };
                named.0 = format!("with call {nth} (`{call}`) failing: {effect:?}");
                drop(sim);
            }
        }
        runs
    }
}

impl Builder {
    /// Runs a test once for each piece of work in it, and makes that piece fail after it was
    /// accepted: see [`Sim::fail_later`]. The test passes as in
    /// [`for_each_fault`](Self::for_each_fault).
    ///
    /// Returns the number of runs. The last run had no failure.
    pub fn for_each_late_failure(self, mut test: impl FnMut(&Sim)) -> usize {
        for nth in 1.. {
            let _named = Named(format!("with work {nth} failing after it was accepted"));
            let sim = self.clone().build();
            sim.fail_later(nth);
            test(&sim);
            let is_over = sim.engine().with(|state| state.faults.fired().is_empty());
            drop(sim);
            if is_over {
                return nth as usize;
            }
        }
        0
    }
}

/// Prints what was tried when a panic unwinds past it.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("software device: {}", self.0);
        }
    }
}

/// Runs a test once for each seed with a discrete device: see [`Builder::sweep`].
pub fn sweep(seeds: impl IntoIterator<Item = u64>, test: impl FnMut(&Sim)) {
    Sim::builder().sweep(seeds, test);
}

/// Runs a test once for each call in it that can fail: see [`Builder::for_each_fault`].
pub fn for_each_fault(test: impl FnMut(&Sim)) -> usize {
    Sim::builder().for_each_fault(test)
}
