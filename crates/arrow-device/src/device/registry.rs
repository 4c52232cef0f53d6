//! The devices that are open in this process, by id.
//!
//! The registry holds no device open. It is asked only where no device is at hand: for waiting for
//! or reading an array that another party made.
//!
//! An id may have stood for several runtimes. The registry therefore remembers, for each id:
//!
//! 1. which runtimes were open by it, or reach memory by it;
//! 2. since when there are several;
//! 3. when devices that are closed by now were open. Up to `MOST_CLOSED` closed devices are told
//!    apart.
//!
//! From these a question such as "which device has memory that came at this moment?" is answered
//! ([`Moment`]). In a program with one runtime for each id, one flag says that there is nothing to
//! ask.
//!
//! What must stay true: a device is listed, and removed from the list, under the lock under which
//! the moment of that change is made, and no driver is called under a lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::driver::{Driver, Runtime};
use super::handle::OpenDevice;
use super::{ClaimedMemory, Device, Moment, deferred, host};
use crate::process::PerProcess;
use crate::{DeviceId, DeviceType, ErrorKind, Result};

/// The open devices. A child of `fork` has its own list, because its parent's devices are not open
/// there.
static OPEN: PerProcess<Mutex<Listed>> = PerProcess::new(Mutex::new(Vec::new()));

type Listed = Vec<ListedDevice>;

struct ListedDevice {
    id: DeviceId,
    runtime: Runtime,
    opened: Weak<OpenDevice>,
    /// The driver, for questions that do not keep the device open.
    driver: Weak<dyn Driver>,
    /// When the device was put on the list.
    since: Moment,
    /// Whether it was found out if the device's id stands for several runtimes. The device is not
    /// found by others before that.
    is_judged: bool,
}

/// The runtimes that were ever open by an id, or reached memory by it. Runtimes of closed devices
/// stay: data of them may still name the id. A child of `fork` begins with none, because it has no
/// devices.
static RUNTIMES: PerProcess<Mutex<Runtimes>> =
    PerProcess::new(Mutex::new(Runtimes { of_ids: None, are_many: false }));

#[derive(Default)]
struct Runtimes {
    of_ids: Option<HashMap<DeviceId, RuntimesOfId>>,
    /// Whether there were more ids than a driver is asked about. Each id then may stand for several
    /// runtimes.
    are_many: bool,
}

impl Runtimes {
    fn of(&self, id: DeviceId) -> Option<&RuntimesOfId> {
        self.of_ids.as_ref()?.get(&of_all(id))
    }

    fn of_mut(&mut self, id: DeviceId, if_none: Runtime) -> &mut RuntimesOfId {
        let of_id = self.of_ids.get_or_insert_default().entry(of_all(id));
        of_id.or_insert_with(|| RuntimesOfId::new(if_none))
    }
}

/// The runtimes of one id, as far as they are needed.
struct RuntimesOfId {
    first: Runtime,
    /// Since when the id stands for several runtimes. `None` where it does not.
    several_since: Option<Moment>,
    /// Whether there may be other runtimes: a driver could not say whether it reaches the id.
    may_be_several: bool,
    /// The closed devices, in the order in which they were closed.
    closed: Vec<ClosedDevice>,
}

/// The time during which a device was open, or several devices.
struct ClosedDevice {
    /// The runtime of the device. `None` where devices of several runtimes were put together.
    runtime: Option<Runtime>,
    opened: Moment,
    closed: Moment,
}

/// How many closed devices are told apart. Beyond that, the oldest ones are put together as one of
/// unknown runtime, and memory from that time is refused where no driver says that it is its own.
const MOST_CLOSED: usize = 256;

impl RuntimesOfId {
    fn new(first: Runtime) -> Self {
        Self { first, several_since: None, may_be_several: false, closed: Vec::new() }
    }

    fn note_closing(&mut self, runtime: Runtime, opened: Moment) {
        let closed = Moment::begin();
        // Overlapping times of one runtime are joined.
        let of_same = self.closed.last_mut().filter(|last| last.runtime == Some(runtime));
        if let Some(last) = of_same.filter(|last| !last.closed.is_before(opened)) {
            (last.opened, last.closed) = (last.opened.min(opened), closed);
            return;
        }
        self.closed.push(ClosedDevice { runtime: Some(runtime), opened, closed });
        if self.closed.len() > MOST_CLOSED {
            let oldest = self.closed.remove(0);
            if let Some(next) = self.closed.first_mut() {
                next.opened = next.opened.min(oldest.opened);
                next.runtime = next.runtime.filter(|known| oldest.runtime == Some(*known));
            }
        }
    }

    /// The moments at which the id may have begun to stand for another runtime, as far as closed
    /// devices tell.
    fn divisions(&self) -> impl Iterator<Item = Moment> {
        let closed = self.closed.iter().flat_map(|device| [device.opened, device.closed]);
        closed.chain(self.several_since)
    }

    /// Whether the id ever stood for another runtime than this.
    fn is_of_another(&self, runtime: Runtime) -> bool {
        self.several_since.is_some() || self.first != runtime
    }

    /// Whether a device of another runtime was open at that moment and is closed by now.
    fn was_another_open(&self, runtime: Runtime, at: Moment) -> bool {
        self.closed.iter().any(|device| {
            let was_open = !at.is_before(device.opened) && at.is_before(device.closed);
            was_open && device.runtime != Some(runtime)
        })
    }
}

/// Whether a device was ever listed. Before that forks are not counted, and the lock is not taken.
static USED: AtomicBool = AtomicBool::new(false);

/// Whether any id ever stood for several runtimes: several were open by it, or one reaches memory
/// by an id by which another one was open. Every copy within a device asks this.
static AMBIGUOUS: AtomicBool = AtomicBool::new(false);

/// Whether there ever was a device whose arrays are ready in the order of its queue.
static IN_QUEUE_ORDER: AtomicBool = AtomicBool::new(false);

pub(super) fn add(device: &Device, opened: &Arc<OpenDevice>) {
    // The driver's guard counts forks already.
    USED.store(true, Ordering::Release);
    if device.is_in_queue_order() {
        IN_QUEUE_ORDER.store(true, Ordering::Relaxed);
    }
    // Drivers of other devices may be closed meanwhile, and then end here. A wait for all releases
    // waits for that, too.
    deferred::in_hand(|| {
        let (others, since) = list(device, opened);
        let driver = &**device.driver();
        note_runtime(driver.id(), driver.runtime(), since);
        for other in others.iter().filter(|other| other.runtime() != driver.runtime()) {
            note_reach(driver, other.id(), since);
            note_reach(&**other, driver.id(), since);
        }
        for id in ids_of_others(driver.runtime()) {
            note_reach(driver, id, since);
        }
        // The lock makes the answer visible to everybody who finds the device from here on.
        let mut open = crate::sync::lock(OPEN.get());
        let is_it = |known: &&mut ListedDevice| known.opened.as_ptr() == Arc::as_ptr(opened);
        if let Some(known) = open.iter_mut().find(is_it) {
            known.is_judged = true;
        }
    });
}

/// Puts a device on the list. Returns the drivers of the other devices, and the moment of the
/// listing. Both are taken under one lock, so that of two devices that are opened at once, one sees
/// the other.
fn list(device: &Device, opened: &Arc<OpenDevice>) -> (Vec<Arc<dyn Driver>>, Moment) {
    // Dropped without the lock: each may be the last share of a driver whose device is closed
    // meanwhile.
    let mut others = Vec::new();
    let mut open = crate::sync::lock(OPEN.get());
    others.extend(open.iter().filter_map(|other| other.driver.upgrade()));
    let since = Moment::begin();
    open.push(ListedDevice {
        id: device.id(),
        runtime: device.driver().runtime(),
        opened: Arc::downgrade(opened),
        driver: Arc::downgrade(device.driver()),
        since,
        is_judged: false,
    });
    (others, since)
}

/// Removes a device from the list when its last share goes.
pub(super) fn remove(opened: &OpenDevice) {
    if !USED.load(Ordering::Acquire) {
        return;
    }
    let mut open = crate::sync::lock(OPEN.get());
    let is_it = |known: &ListedDevice| std::ptr::eq(known.opened.as_ptr(), opened);
    let Some(index) = open.iter().position(is_it) else { return };
    let ListedDevice { id, runtime, since, .. } = open.remove(index);
    // Under the lock of the list: a thread that does not find the device there any more finds this
    // note.
    let mut known = crate::sync::lock(RUNTIMES.get());
    known.of_mut(id, runtime).note_closing(runtime, since);
}

/// Records that a runtime is open by an id, or reaches memory by it, since a moment.
pub(super) fn note_runtime(id: DeviceId, runtime: Runtime, since: Moment) {
    let mut known = crate::sync::lock(RUNTIMES.get());
    let of_id = known.of_mut(id, runtime);
    if of_id.is_of_another(runtime) {
        let earlier = of_id.several_since.filter(|earlier| earlier.is_before(since));
        of_id.several_since = Some(earlier.unwrap_or(since));
        AMBIGUOUS.store(true, Ordering::Relaxed);
    }
}

/// Records the runtime of a driver for the id of another runtime's device, if the driver reaches
/// memory by that id. Asks the driver, without a lock.
fn note_reach(driver: &dyn Driver, id: DeviceId, since: Moment) {
    match reaches_by_number(driver, id) {
        Ok(true) => note_runtime(id, driver.runtime(), since),
        Ok(false) => {}
        Err(_) => {
            let mut known = crate::sync::lock(RUNTIMES.get());
            known.of_mut(id, driver.runtime()).may_be_several = true;
            AMBIGUOUS.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether this id has stood for several runtimes, or may have.
pub(super) fn has_several_runtimes(id: DeviceId) -> bool {
    let known = crate::sync::lock(RUNTIMES.get());
    let are_several = |of_id: &RuntimesOfId| of_id.several_since.is_some() || of_id.may_be_several;
    known.are_many || known.of(id).is_some_and(are_several)
}

/// Since when this id is known to stand for several runtimes.
fn several_since(id: DeviceId) -> Option<Moment> {
    crate::sync::lock(RUNTIMES.get()).of(id)?.several_since
}

/// Whether a device of this id and of another runtime was open at a moment, and is closed by now.
pub(super) fn was_another_open(id: DeviceId, runtime: Runtime, at: Moment) -> bool {
    let open = crate::sync::lock(OPEN.get());
    // A device that is still on the list, but has no share left, is being closed.
    let was_it = |known: &ListedDevice| {
        let is_closing = known.opened.strong_count() == 0;
        let is_another = of_all(known.id) == of_all(id) && known.runtime != runtime;
        is_closing && is_another && !at.is_before(known.since)
    };
    if at.is_unknown() || open.iter().any(was_it) {
        return true;
    }
    let known = crate::sync::lock(RUNTIMES.get());
    known.of(id).is_some_and(|of_id| of_id.was_another_open(runtime, at))
}

/// Whether no device was opened or closed by this id between two moments. What came at the two
/// moments is then of one runtime.
pub(super) fn is_undivided(id: DeviceId, between: [Moment; 2]) -> bool {
    let divides = |division: Moment| {
        let [one, other] = between.map(|moment| moment.is_before(division));
        one != other
    };
    // A device gets its moment under the lock under which it is listed or removed.
    let open = crate::sync::lock(OPEN.get());
    let mut opened = open.iter().filter(|known| of_all(known.id) == of_all(id));
    if between.iter().any(|moment| moment.is_unknown()) || opened.any(|known| divides(known.since))
    {
        return false;
    }
    let known = crate::sync::lock(RUNTIMES.get());
    !known.of(id).is_some_and(|of_id| of_id.divisions().any(divides))
}

/// How many ids of other runtimes a driver is asked about, at most, when it is opened.
const MOST_ASKED: usize = 64;

/// The ids by which other runtimes than this one are known, including closed ones. Empty where
/// there are too many, which is noted: from then on each id may stand for several runtimes.
fn ids_of_others(runtime: Runtime) -> Vec<DeviceId> {
    let mut known = crate::sync::lock(RUNTIMES.get());
    if known.are_many {
        return Vec::new();
    }
    let others = known.of_ids.iter().flatten();
    let others = others.filter(|(_, of_id)| of_id.is_of_another(runtime)).map(|(id, _)| *id);
    let others: Vec<_> = others.take(MOST_ASKED + 1).collect();
    if others.len() <= MOST_ASKED {
        return others;
    }
    known.are_many = true;
    AMBIGUOUS.store(true, Ordering::Relaxed);
    Vec::new()
}

/// Whether an id has stood for another runtime than this.
pub(super) fn has_another_runtime(id: DeviceId, runtime: Runtime) -> bool {
    let known = crate::sync::lock(RUNTIMES.get());
    known.of(id).is_some_and(|of_id| of_id.is_of_another(runtime))
}

/// Whether a device's runtime has been open by its id since that moment or longer.
pub(super) fn is_open_since(device: &Device, moment: Moment) -> bool {
    let runtime = device.driver().runtime();
    let known = of_each_runtime(device.id());
    known
        .iter()
        .any(|(known, since)| known.driver().runtime() == runtime && !moment.is_before(*since))
}

/// Whether a driver reaches memory by the id of a device. Memory that belongs to all devices of its
/// runtime comes with any number: the driver is asked about the usual numbers, too. An error where
/// the driver cannot say now; it may say yes later.
fn reaches_by_number(driver: &dyn Driver, id: DeviceId) -> Result<bool> {
    let usual = if is_of_all_devices(id.device_type) { -1..16 } else { 0..0 };
    let usual = usual.map(|number| DeviceId::new(id.device_type, number));
    let mut reached = Ok(false);
    for id in usual.chain([id]) {
        match driver.reaches(id) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::NotReachable => {}
            Err(error) => reached = Err(error),
        }
    }
    reached
}

/// Whether an id may stand for several runtimes.
pub(super) fn is_ambiguous() -> bool {
    AMBIGUOUS.load(Ordering::Relaxed)
}

/// Whether arrays of any device may be ready in the order of its queue.
#[inline(always)]
pub(super) fn any_in_queue_order() -> bool {
    IN_QUEUE_ORDER.load(Ordering::Relaxed)
}

/// The device of this id that has this memory: the only one whose driver says so. Where none says
/// so, the result is the only device whose driver cannot tell. If the id has stood for several
/// runtimes, that device has to be open since the memory came, and no other device that was open
/// then may be closed by now.
///
/// # Safety
/// The memory is a `buffers[i]` of an array that claims to be on this device and is alive.
pub(super) unsafe fn find_holding(id: DeviceId, claimed: ClaimedMemory) -> Option<Device> {
    let ClaimedMemory { memory, came } = claimed;
    let (mut having, mut unsure) = (Vec::new(), Vec::new());
    for (device, since) in of_each_runtime(id) {
        // SAFETY: the memory is of a live array that claims to be on this device, as the caller
        // promises.
        match unsafe { device.driver().holds(memory) } {
            Some(true) => having.push(device),
            None => unsure.push((device, since)),
            Some(false) => {}
        }
    }
    if !having.is_empty() {
        return the_only_one(having);
    }
    find_by_time(id, unsure, came)
}

/// The open device of this id to whose runtime the event of a producer belongs. The producer's
/// array came at that moment, and has no memory that could tell the runtime. `None` where the id
/// stood for several runtimes at that moment.
pub(super) fn find_sending(id: DeviceId, came: Moment) -> Option<Device> {
    let was_one = several_since(id).is_none_or(|since| came.is_before(since));
    if was_one { find_by_time(id, of_each_runtime(id), came) } else { None }
}

/// The only one of these devices. Where the id has stood for several runtimes, the only one that
/// was open at that moment, provided that no other device that was open then is closed by now.
fn find_by_time(id: DeviceId, mut of: Vec<(Device, Moment)>, came: Moment) -> Option<Device> {
    if !has_several_runtimes(id) {
        return the_only_one(of).map(|(device, _)| device);
    }
    of.retain(|(_, since)| !came.is_before(*since));
    let (device, _) = the_only_one(of)?;
    let is_told = !was_another_open(id, device.driver().runtime(), came);
    is_told.then_some(device)
}

fn the_only_one<T>(of: Vec<T>) -> Option<T> {
    <[T; 1]>::try_from(of).ok().map(|[only]| only)
}

/// The open devices of this id, one of each runtime, and since when each runtime is open.
pub(super) fn of_each_runtime(id: DeviceId) -> Vec<(Device, Moment)> {
    let mut found: Vec<(Device, Moment)> = Vec::new();
    for (device, since) in all(id) {
        let runtime = device.driver().runtime();
        match found.iter_mut().find(|(known, _)| known.driver().runtime() == runtime) {
            Some((_, first)) => *first = since.min(*first),
            None => found.push((device, since)),
        }
    }
    found
}

/// All devices of this id, the one opened last first, and since when each is open. Behind them come
/// devices with another number whose memory belongs to all devices of their runtime.
fn all(id: DeviceId) -> Vec<(Device, Moment)> {
    if !USED.load(Ordering::Acquire) {
        return Vec::new();
    }
    // Where there are several runtimes, each may name memory of all its devices by any number.
    let by_any = is_of_all_devices(id.device_type);
    let open = crate::sync::lock(OPEN.get());
    let of_others =
        |known: &ListedDevice| by_any && known.id != id && known.id.device_type == id.device_type;
    let own = open.iter().rev().filter(|known| known.id == id);
    let known = own.chain(open.iter().rev().filter(|known| of_others(known)));
    let with_moment =
        |known: &ListedDevice| Some((Device::from_opened(known.opened.upgrade()?), known.since));
    known.filter(|known| known.is_judged).filter_map(with_moment).collect()
}

pub(super) fn find(id: DeviceId) -> Option<Device> {
    if id.device_type == DeviceType::CPU {
        return Some(host::device());
    }
    if !USED.load(Ordering::Acquire) {
        return None;
    }
    let open = crate::sync::lock(OPEN.get());
    let find = |is_it: &dyn Fn(DeviceId) -> bool| {
        let found = open.iter().rev().filter(|known| known.is_judged && is_it(known.id));
        found.into_iter().find_map(|known| known.opened.upgrade())
    };
    let found = find(&|known| known == id).or_else(|| match is_any(id) {
        true => find(&|known| known.device_type == id.device_type),
        false => None,
    });
    drop(open);
    found.map(Device::from_opened)
}

/// Whether an id stands for no device in particular. Pinned and managed memory belong to all
/// devices of their runtime, and producers write -1 or 0 as the number of their device.
fn is_any(id: DeviceId) -> bool {
    is_of_all_devices(id.device_type) && matches!(id.id, -1 | 0)
}

/// Whether memory of this type belongs to all devices of its runtime.
fn is_of_all_devices(device_type: DeviceType) -> bool {
    matches!(device_type, DeviceType::CUDA_HOST | DeviceType::CUDA_MANAGED | DeviceType::ROCM_HOST)
}

/// The id by which runtimes are recorded. Memory that belongs to all devices of its runtime has one
/// id.
fn of_all(id: DeviceId) -> DeviceId {
    if is_of_all_devices(id.device_type) { DeviceId::new(id.device_type, -1) } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(instance: usize) -> Runtime {
        Runtime { name: "closings", instance }
    }

    // Requirement: SAF-12
    #[test]
    fn closed_devices_are_known_by_when_they_were_open() {
        let mut of_id = RuntimesOfId::new(runtime(0));
        let (before, opened) = (Moment::now(), Moment::begin());
        let while_open = Moment::now();
        of_id.note_closing(runtime(1), opened);
        let after = Moment::now();
        let asked = |of_id: &RuntimesOfId, by: usize| {
            [before, while_open, after].map(|at| of_id.was_another_open(runtime(by), at))
        };
        assert_eq!((asked(&of_id, 0), asked(&of_id, 1)), ([false, true, false], [false; 3]));
        let first = Moment::begin();
        of_id.note_closing(runtime(2), Moment::begin());
        of_id.note_closing(runtime(2), first);
        let between = Moment::now();
        of_id.note_closing(runtime(2), Moment::begin());
        // Two that were open at the same time are one.
        assert_eq!(of_id.closed.len(), 3);
        assert_eq!(asked(&of_id, 0), [false, true, false]);
        assert!(!of_id.was_another_open(runtime(0), between));
        // What is not told apart any more counts as open all the time.
        for instance in 3..2 * MOST_CLOSED {
            of_id.note_closing(runtime(instance), Moment::begin());
        }
        assert_eq!(of_id.closed.len(), MOST_CLOSED);
        assert_eq!(
            (asked(&of_id, 0), asked(&of_id, 1)),
            ([false, true, true], [false, true, true])
        );
        assert!(!of_id.was_another_open(runtime(0), Moment::now()));
    }

    #[cfg(all(unix, not(miri)))]
    #[test]
    fn a_child_finds_devices_though_a_thread_of_its_parent_held_the_list() {
        use arrow_device_testkit::process::{alone, forked};

        alone(|| {
            let id = DeviceId::new(DeviceType::EXT_DEV, 5);
            crate::process::watch();
            USED.store(true, Ordering::Release);
            let (locked, wait) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let holder = std::thread::spawn(move || {
                let open = crate::sync::lock(OPEN.get());
                locked.send(()).unwrap();
                let _ = ended.recv();
                drop(open);
            });
            wait.recv().unwrap();
            forked(|| {
                let found = find(id).is_some() || !all(id).is_empty();
                if found { Err("a device that nobody opened".into()) } else { Ok(()) }
            });
            drop(end);
            holder.join().unwrap();
        });
    }
}
