//! The engine: everything that a simulator knows, behind one lock.
//!
//! Calls are judged when they are made, in the order in which they take the lock. No foreign code
//! runs while the lock is held: kernels run between two periods of holding it, and work that is
//! thrown away is dropped after the lock is released.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::{Condvar, MutexGuard};
use std::thread::ThreadId;
use std::time::Duration;

use arrow_device::driver::{ForkMutex, LibraryUse};
use arrow_device::{DeviceId, Error, ErrorKind, Result};

use crate::allocation::{Allocation, PartHandle, Placement};
use crate::builder::{Kind, Schedule, Settings};
use crate::clock::Clock;
use crate::events::Events;
use crate::expect::HostSides;
use crate::fault::{self, Call, Effect, Faults};
use crate::host_memory::HostBytes;
use crate::leaks::Arrays;
use crate::notices::Expected;
use crate::queue::{QueueState, Step, Work};
use crate::queues::Lanes;
use crate::random::Random;
use crate::report::{Action, Actor, Report};
use crate::site::{RawSite, SiteId, Sites};
use crate::table::Table;
use crate::track::{Access, What};

/// The most reports that are kept. Further reports are counted only.
const MOST_REPORTS: usize = 1000;

pub(crate) struct Engine {
    state: ForkMutex<EngineState>,
    /// The process that made the simulator.
    home: LibraryUse,
    /// Notified when work has run, or the thread that runs it has stopped.
    pub(crate) turn: Condvar,
    /// Notified when there is an event to announce.
    pub(crate) expects: Condvar,
    /// Whether work runs when it is submitted.
    is_eager: bool,
    /// The number of this simulator in the process.
    pub(crate) number: usize,
    backtraces: bool,
    /// The code of this library, which is never reported as the place of a mistake.
    own_code: Range<usize>,
}

/// The state behind the engine's lock.
pub(crate) struct EngineState {
    pub(crate) kind: Kind,
    /// Whether others know memory by where its allocation begins.
    pub(crate) separate: bool,
    pub(crate) peer_access: bool,
    /// The accesses that were given one by one: a device, the device whose memory it may reach, and
    /// the placement of that memory. Not needed where all devices have access to one another.
    pub(crate) peers: HashSet<(usize, usize, Placement)>,
    /// Whether events may be recorded again, and be waited for before they are recorded. Drivers
    /// allow both; the library's trait allows neither.
    pub(crate) loose_events: bool,
    /// Whether the host may wait for work.
    pub(crate) may_wait: bool,
    /// Whether a copy reads its sources in host memory when it is submitted.
    pub(crate) host_sources_at_submission: bool,
    pub(crate) devices: Table<DeviceState>,
    pub(crate) queues: Table<QueueState>,
    pub(crate) queue_handles: BTreeMap<usize, usize>,
    /// The queues that may stay open without being a leak.
    pub(crate) permanent: HashSet<usize>,
    /// Contains all queues that are open, or have work that the host does not know to be finished,
    /// and for a while also others, until they are looked for.
    pub(crate) live: BTreeSet<usize>,
    /// The queues with work that has not run.
    pub(crate) busy: BTreeSet<usize>,
    pub(crate) host_sides: HostSides,
    pub(crate) lanes: Lanes,
    pub(crate) allocations: Table<Allocation>,
    /// Allocations by their address. A freed allocation stays until its address is used again.
    pub(crate) by_address: BTreeMap<usize, usize>,
    /// The handles for parts of allocations, by their number.
    pub(crate) parts: BTreeMap<usize, PartHandle>,
    pub(crate) events: Events,
    pub(crate) host_bytes: HostBytes,
    /// The arrays that exist, as far as the library tells.
    pub(crate) arrays: Arrays,
    /// How many reports the library has made to `watch`.
    pub(crate) watched: u64,
    /// The work that the host knows to be finished, because it has waited for it. All threads of
    /// the host share this clock.
    pub(crate) host: Clock,
    /// The work that the host knows to be over: finished or failed.
    pub(crate) over: Clock,
    pub(crate) sites: Sites,
    pub(crate) names: Table<String>,
    reports: Vec<Report>,
    more_reports: usize,
    pub(crate) faults: Faults,
    /// Whether the work that is submitted next is to fail when its turn comes.
    pub(crate) next_fails: bool,
    pub(crate) random: Random,
    /// The thread that runs a kernel at present.
    pub(crate) running: Option<ThreadId>,
    /// How many threads wait until that kernel has run.
    pub(crate) waiting: usize,
    /// Whether a device was lost and the waiting threads were not notified yet.
    pub(crate) has_lost: bool,
    /// Work to be dropped once the lock is released.
    pub(crate) discarded: Vec<Work>,
    pub(crate) log: Option<Vec<Step>>,
    /// How long a piece of work takes, and how much of that was waited for already. No real time
    /// passes.
    pub(crate) work_time: Duration,
    pub(crate) waited: Duration,
    /// The notices that are to be called.
    pub(crate) expected: Vec<Expected>,
    /// Whether a thread calls the notices.
    pub(crate) has_announcer: bool,
}

pub(crate) struct DeviceState {
    pub(crate) id: DeviceId,
    pub(crate) allocated: u64,
    pub(crate) limit: u64,
    pub(crate) lost: bool,
    /// The handle and the number of the queue that was opened last.
    pub(crate) one_queue: Option<(usize, usize)>,
}

impl Engine {
    /// Makes an engine whose events have no functions yet: see [`start`](Self::start).
    pub(crate) fn new(number: usize, settings: &Settings, ids: &[DeviceId]) -> Self {
        let mut devices = Table::default();
        for id in ids {
            let limit = settings.memory_limit;
            devices.push(DeviceState {
                id: *id,
                allocated: 0,
                limit,
                lost: false,
                one_queue: None,
            });
        }
        let state = EngineState {
            kind: settings.kind,
            separate: settings.separate,
            peer_access: settings.peer_access,
            peers: HashSet::new(),
            loose_events: settings.loose_events,
            may_wait: settings.may_wait,
            host_sources_at_submission: settings.host_sources_at_submission,
            devices,
            queues: Table::default(),
            queue_handles: BTreeMap::new(),
            permanent: HashSet::new(),
            live: BTreeSet::new(),
            busy: BTreeSet::new(),
            host_sides: HostSides::default(),
            lanes: Lanes::default(),
            allocations: Table::default(),
            by_address: BTreeMap::new(),
            parts: BTreeMap::new(),
            events: Events::new(),
            host_bytes: HostBytes::new(),
            arrays: Arrays::default(),
            watched: 0,
            host: Clock::default(),
            over: Clock::default(),
            next_fails: false,
            sites: Sites::default(),
            names: Table::default(),
            reports: Vec::new(),
            more_reports: 0,
            faults: Faults::default(),
            random: Random::new(settings.seed),
            running: None,
            has_lost: false,
            waiting: 0,
            discarded: Vec::new(),
            log: settings.log.then(Vec::new),
            work_time: settings.work_time,
            waited: Duration::ZERO,
            expected: Vec::new(),
            has_announcer: false,
        };
        let home = LibraryUse::new();
        // Remembers this process, in which the simulator was made.
        let _ = home.enter();
        Self {
            state: ForkMutex::new(state),
            home,
            turn: Condvar::new(),
            expects: Condvar::new(),
            is_eager: settings.schedule == Some(Schedule::Eager),
            number,
            backtraces: settings.backtraces,
            own_code: settings.own_code.clone(),
        }
    }

    /// Takes the lock. A panic cannot leave the state half changed where it matters, because
    /// nothing in this crate panics under the lock.
    ///
    /// # Panics
    /// Panics in a child of `fork`, where a thread of the parent had the lock at the fork.
    #[expect(clippy::panic, reason = "a lock that is never given back would hang the child")]
    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(|error| panic!("the software device: {error}"))
    }

    /// Whether this process is a child of `fork` of the process that made the simulator.
    pub(crate) fn is_of_a_parent(&self) -> bool {
        self.home.enter().is_err_and(|error| error.kind() == ErrorKind::Unsupported)
    }

    /// Calls `act` under the lock, and drops what it threw away after the lock is released.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut EngineState) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state);
        self.unlock(state);
        result
    }

    /// Calls `act`, which submits work, under the lock. An eager device then runs the work.
    pub(crate) fn submit<R>(&self, act: impl FnOnce(&mut EngineState) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state);
        // Work that a kernel submits, or that is submitted beside a kernel, runs later.
        if self.is_eager && state.running.is_none() {
            state = self.run_all(state);
        }
        self.unlock(state);
        result
    }

    /// Releases the lock, and drops what was thrown away under it.
    pub(crate) fn unlock(&self, mut state: MutexGuard<'_, EngineState>) {
        let discarded = std::mem::take(&mut state.discarded);
        if std::mem::take(&mut state.has_lost) {
            // Wakes the threads that wait for work of a lost device.
            self.turn.notify_all();
        }
        drop(state);
        drop(discarded);
    }

    /// Returns where the user's program is now.
    pub(crate) fn site(&self) -> RawSite {
        if self.backtraces { RawSite::stack(&self.own_code) } else { RawSite::Unknown }
    }
}

impl EngineState {
    pub(crate) fn report(&mut self, report: Report) {
        if self.reports.len() < MOST_REPORTS {
            self.reports.push(report);
        } else {
            self.more_reports += 1;
        }
    }

    pub(crate) fn reports(&self) -> &[Report] {
        &self.reports
    }

    pub(crate) fn take_reports(&mut self) -> Vec<Report> {
        self.more_reports = 0;
        std::mem::take(&mut self.reports)
    }

    /// Returns how many reports there were beyond those that are kept.
    pub(crate) fn more_reports(&self) -> usize {
        self.more_reports
    }

    /// Counts a call that can fail. Fails it where that was planned, or where the device is lost.
    pub(crate) fn attempt(&mut self, call: Call, device: usize) -> Result<()> {
        let id = self.devices[device].id;
        match self.faults.count(call) {
            Some(Effect::FailOnce) => return Err(fault::planned(call).on_device(id)),
            Some(Effect::LoseDevice) => self.lose(device),
            Some(Effect::FailLater) => self.next_fails = true,
            None => {}
        }
        self.check_alive(device).map_err(|error| error.during(call.name()))
    }

    pub(crate) fn check_alive(&self, device: usize) -> Result<()> {
        let DeviceState { id, lost, .. } = &self.devices[device];
        if !lost {
            return Ok(());
        }
        Err(Error::new(ErrorKind::DeviceLost, "the device was told to be lost").on_device(*id))
    }

    /// Notes that the host has waited for all that this clock covers.
    pub(crate) fn host_knows(&mut self, clock: &Clock) {
        self.host.join(clock);
        self.over.join(clock);
    }

    // ---- words for reports

    pub(crate) fn host_action(&self, what: impl Into<String>, site: SiteId) -> Action {
        Action { by: Actor::Host, what: what.into(), site: self.sites.of(site) }
    }

    pub(crate) fn action(&self, access: &Access, writes: bool) -> Action {
        let what = match access.what {
            What::Allocate => "allocation in the order of the queue".to_owned(),
            What::CopyFromHost => "copy from the host".to_owned(),
            What::CopyToHost => "copy to the host".to_owned(),
            What::CopyWithin => "copy within the device".to_owned(),
            What::CopyFromPeer => "copy from a peer".to_owned(),
            What::Fill => "fill".to_owned(),
            What::HostFill => "the host, which filled a mapping".to_owned(),
            What::Kernel(name) => format!("kernel `{}`", self.names[name]),
        };
        let what = match access.what {
            What::Allocate => what,
            _ => format!("{} by {what}", if writes { "written" } else { "read" }),
        };
        let by = Actor::Queue { queue: access.queue + 1, work: access.work };
        Action { by, what, site: self.sites.of(access.site) }
    }
}

/// Returns the error of a call that was reported as a mistake and cannot go on.
pub(crate) fn misuse(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
