//! [`Guarded`]: the guard between the library and a driver.
//!
//! [`Device::new`](super::Device::new) puts the guard around every driver but the host's own. A
//! call is passed on only in the process that opened the driver, and only before the end of that
//! process begins. The check takes one load and one comparison. A panic of the driver ends in the
//! guard.

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::Duration;

use super::driver::{
    Allocation, Driver, EventNotice, Filled, MemoryHandle, OpenedMemory, Properties, Raw, Region,
    Route, Runtime, SharedPlace, SharedUse, Sharing, SharingDomain, Spot, SyncEvent, Waiting,
    Watched, WatchedPlace,
};
use super::{Event, Memory, Queue, deferred};
use crate::once::OnceBox;
use crate::process::{self, MadeIn};
use crate::{DeviceId, Error, ErrorKind, Result, unwind};

/// A driver behind a guard, with those answers of the driver that never change.
pub(super) struct Guarded<D: Driver> {
    made_in: MadeIn,
    id: DeviceId,
    runtime: Runtime,
    properties: Properties,
    /// How the driver shares memory, if it does. Asked when somebody first wants to know, because a
    /// driver may have to try it.
    shares: OnceBox<Option<Shares>>,
    driver: ManuallyDrop<D>,
}

impl<D: Driver> Guarded<D> {
    /// Asks the driver for the answers that never change. A panic of the driver goes on to the
    /// caller, who is just opening the device and has no queue, event or memory of it yet.
    pub(super) fn new(driver: D) -> Self {
        process::watch();
        let made_in = MadeIn::this();
        let (id, runtime) = (driver.id(), driver.runtime());
        let properties = driver.properties().clone();
        process::watch_end_of(runtime.name);
        Self {
            made_in,
            id,
            runtime,
            properties,
            shares: OnceBox::new(),
            driver: ManuallyDrop::new(driver),
        }
    }

    /// Calls the driver. An error where the driver may not be called, or where it panics.
    fn ask<T>(&self, operation: &'static str, call: impl FnOnce(&D) -> Result<T>) -> Result<T> {
        if !self.made_in.goes_on() {
            return Err(self.about(operation, self.made_in.refusal()));
        }
        let mut has_panicked = true;
        let answer = unwind::or_panicked(|| {
            let answer = call(&self.driver);
            has_panicked = false;
            answer
        });
        if has_panicked {
            return answer.map_err(|error| self.about(operation, error));
        }
        answer
    }

    /// Calls the driver for something without an answer. Returns whether the driver did it.
    fn tell(&self, call: impl FnOnce(&D)) -> bool {
        self.made_in.goes_on() && unwind::is_well(|| call(&self.driver))
    }

    /// Gives something back to the driver. What stays behind, because the driver may not be called
    /// or panics, is counted.
    fn give_back(&self, call: impl FnOnce(&D)) {
        if !self.tell(call) {
            deferred::count_abandoned();
        }
    }

    /// Asks the driver for a yes or a no. The answer is no where the driver cannot be asked.
    fn confirms(&self, call: impl FnOnce(&D) -> bool) -> bool {
        let mut answer = false;
        self.made_in.goes_on() && unwind::is_well(|| answer = call(&self.driver)) && answer
    }

    #[cold]
    fn about(&self, operation: &'static str, error: Error) -> Error {
        error.during(operation).on_device(self.id)
    }
}

impl<D: Driver> Drop for Guarded<D> {
    fn drop(&mut self) {
        let driver = &mut self.driver;
        let is_dropped = self.made_in.goes_on()
            && unwind::is_well(|| {
                // SAFETY: dropped once, here, and `self` is being dropped.
                unsafe { ManuallyDrop::drop(driver) }
            });
        if !is_dropped {
            deferred::count_abandoned();
        }
    }
}

impl<D: Driver> fmt::Debug for Guarded<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver's own `Debug` may read what another thread held at a fork.
        let mut shown = Ok(());
        let is_shown =
            self.made_in.goes_on() && unwind::is_well(|| shown = fmt::Debug::fmt(&*self.driver, f));
        if is_shown {
            return shown;
        }
        write!(f, "Guarded({} {:?})", self.id, self.properties.name)
    }
}

// SAFETY: every answer is the driver's own, which keeps the promises of the trait, or an error, a
// no, or nothing done, which promise nothing. What the driver is given is what the caller gave.
unsafe impl<D: Driver> Driver for Guarded<D> {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn runtime(&self) -> Runtime {
        self.runtime
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        self.ask("reach", |driver| driver.reaches(memory))
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("allocate", |driver| unsafe { driver.allocate(len, queue) })
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        // SAFETY: UNS-22, which the caller keeps.
        self.give_back(|driver| unsafe { driver.free(memory, len) });
    }

    fn share(&self, memory: Raw<Memory>, len: u64) {
        self.tell(|driver| driver.share(memory, len));
    }

    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        self.tell(|driver| driver.reuse(memory, len));
    }

    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        self.tell(|driver| driver.watch(what, places));
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("part", |driver| unsafe { driver.part(memory, offset, len) })
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        // SAFETY: UNS-22, which the caller keeps.
        self.give_back(|driver| unsafe { driver.free_part(part) });
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("allocate staging", |driver| unsafe { driver.allocate_staging(len) })
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, len: u64) {
        // SAFETY: UNS-22, which the caller keeps.
        self.give_back(|driver| unsafe { driver.free_staging(address, len) });
    }

    fn sharing(&self) -> Option<&dyn Sharing> {
        self.shares().is_some().then_some(self)
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.ask("open a queue", |driver| driver.open_queue())
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: UNS-22, which the caller keeps.
        self.give_back(|driver| unsafe { driver.close_queue(queue) });
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("wait for a queue", |driver| unsafe { driver.synchronize(queue) })
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("ask a queue", |driver| unsafe { driver.is_idle(queue) })
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.ask("make an event", |driver| driver.make_event())
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if event.is_null() {
            return;
        }
        // SAFETY: UNS-22, which the caller keeps.
        self.give_back(|driver| unsafe { driver.destroy_event(event) });
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("record an event", |driver| unsafe { driver.record(queue, event) })
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("wait for an event", |driver| unsafe { driver.wait(queue, event) })
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("ask an event", |driver| unsafe { driver.is_complete(event) })
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("wait on the host", |driver| unsafe { driver.wait_on_host(event, timeout) })
    }

    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("announce an event", |driver| unsafe { driver.notify(event, notice) })
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        self.ask("show an event", |driver| driver.sync_event(event))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("read an event", |driver| unsafe { driver.read_sync_event(sync_event) })
    }

    /// The peer's driver stays behind its own guard: a driver asks the driver of a peer only for
    /// the id of its device.
    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("copy", |driver| unsafe { driver.copy(queue, route, regions) })
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("map", |driver| unsafe { driver.map(spot, len) })
    }

    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        self.confirms(|driver| driver.maps_in_place(base))
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        // SAFETY: UNS-22, which the caller keeps.
        self.give_back(|driver| unsafe { driver.unmap(spot, len, address) });
    }

    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("map to fill", |driver| unsafe { driver.map_to_fill(queue, spot, len) })
    }

    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        address: NonNull<u8>,
    ) -> Result<Filled> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("unmap", |driver| unsafe { driver.unmap_filled(queue, spot, len, address) })
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("locate", |driver| unsafe { driver.locate(base) })
    }

    unsafe fn object_of(&self, memory: Raw<Memory>) -> Result<Option<Spot>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask("name an object", |driver| unsafe { driver.object_of(memory) })
    }

    unsafe fn memory_of(&self, object: NonNull<c_void>) -> Result<Option<(DeviceId, Raw<Memory>)>> {
        // SAFETY: the caller keeps what `memory_of` asks of the object.
        self.ask("ask an object", |driver| unsafe { driver.memory_of(object) })
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        let mut answer = Some(false);
        // SAFETY: UNS-22, which the caller keeps.
        let ask = || answer = unsafe { self.driver.holds(base) };
        // Memory of a driver that cannot be asked may not be used.
        if self.made_in.goes_on() && unwind::is_well(ask) { answer } else { Some(false) }
    }
}

/// Those answers of a driver's sharing that never change.
#[derive(Clone, Copy)]
struct Shares {
    domain: SharingDomain,
    needs_trust: bool,
}

impl<D: Driver> Guarded<D> {
    /// How the driver shares memory. `None` where the driver shares none, and where nobody asked as
    /// long as the driver could be called.
    fn shares(&self) -> Option<Shares> {
        if let Some(known) = self.shares.get() {
            return *known;
        }
        let of = |sharing: &dyn Sharing| Shares {
            domain: sharing.domain(),
            needs_trust: sharing.needs_trust(),
        };
        let asked = self.ask("share", |driver| Ok(driver.sharing().map(of))).ok()?;
        *self.shares.get_or_make(|| asked)
    }

    /// Calls the driver's sharing. The driver had one when [`shares`](Self::shares) asked.
    fn ask_sharing<T>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&dyn Sharing) -> Result<T>,
    ) -> Result<T> {
        self.ask(operation, |driver| match driver.sharing() {
            Some(sharing) => call(sharing),
            None => Err(Error::new(ErrorKind::Unsupported, "the driver shares memory no more")),
        })
    }
}

// SAFETY: every answer is the driver's own, which keeps the promises of the trait, or an error, or
// nothing done, which promise nothing. What the driver is given is what the caller gave.
unsafe impl<D: Driver> Sharing for Guarded<D> {
    fn domain(&self) -> SharingDomain {
        self.shares().map_or(SharingDomain::NONE, |shares| shares.domain)
    }

    fn needs_trust(&self) -> bool {
        self.shares().is_some_and(|shares| shares.needs_trust)
    }

    unsafe fn allocate(
        &self,
        len: u64,
        queue: Option<Raw<Queue>>,
        used: SharedUse,
    ) -> Result<Raw<Memory>> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask_sharing("allocate", |sharing| unsafe { sharing.allocate(len, queue, used) })
    }

    fn find(&self, place: Raw<Memory>) -> Option<SharedPlace> {
        self.ask_sharing("find memory", |sharing| Ok(sharing.find(place))).ok().flatten()
    }

    unsafe fn export(&self, memory: Raw<Memory>, fixed: bool) -> Result<MemoryHandle> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask_sharing("export memory", |sharing| unsafe { sharing.export(memory, fixed) })
    }

    unsafe fn open(&self, handle: MemoryHandle, len: u64) -> Result<OpenedMemory> {
        // SAFETY: UNS-22, which the caller keeps.
        self.ask_sharing("open memory", |sharing| unsafe { sharing.open(handle, len) })
    }

    unsafe fn close(&self, memory: Raw<Memory>, len: u64) {
        self.give_back(|driver| {
            if let Some(sharing) = driver.sharing() {
                // SAFETY: UNS-22, which the caller keeps.
                unsafe { sharing.close(memory, len) }
            }
        });
    }
}
