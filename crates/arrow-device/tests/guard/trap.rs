//! A driver that counts its calls, and panics in one operation of the test's choice.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, Filled, HostAccess, Properties, Raw, Region, Route, Runtime, Spot,
    SyncEvent, Waiting, Watched, WatchedPlace,
};
use arrow_device::{Device, DeviceId, Error, Event, Memory, Queue, Result};
use arrow_device_testkit::manual::Manual;

/// The operations of a driver that a runtime may be called in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Reaches,
    Allocate,
    Free,
    Share,
    Reuse,
    Watch,
    Part,
    FreePart,
    AllocateStaging,
    FreeStaging,
    OpenQueue,
    CloseQueue,
    Synchronize,
    IsIdle,
    MakeEvent,
    DestroyEvent,
    Record,
    Wait,
    IsComplete,
    WaitOnHost,
    SyncEvent,
    ReadSyncEvent,
    Copy,
    Map,
    MapsInPlace,
    Unmap,
    MapToFill,
    UnmapFilled,
    Locate,
    Holds,
    /// The end of the driver itself.
    Drop,
}

impl Op {
    /// All that can be called through the trait.
    pub(crate) const ALL: [Self; 30] = [
        Self::Reaches,
        Self::Allocate,
        Self::Free,
        Self::Share,
        Self::Reuse,
        Self::Watch,
        Self::Part,
        Self::FreePart,
        Self::AllocateStaging,
        Self::FreeStaging,
        Self::OpenQueue,
        Self::CloseQueue,
        Self::Synchronize,
        Self::IsIdle,
        Self::MakeEvent,
        Self::DestroyEvent,
        Self::Record,
        Self::Wait,
        Self::IsComplete,
        Self::WaitOnHost,
        Self::SyncEvent,
        Self::ReadSyncEvent,
        Self::Copy,
        Self::Map,
        Self::MapsInPlace,
        Self::Unmap,
        Self::MapToFill,
        Self::UnmapFilled,
        Self::Locate,
        Self::Holds,
    ];

    /// What an operation that was not executed leaves behind for ever.
    pub(crate) fn abandons(self) -> bool {
        matches!(
            self,
            Self::Free
                | Self::FreePart
                | Self::FreeStaging
                | Self::CloseQueue
                | Self::DestroyEvent
                | Self::Unmap
        )
    }
}

/// What an operation answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It has no result.
    Nothing,
    /// Yes or no.
    Said(bool),
    Done,
    Refused(Error),
}

/// Calls one operation, with nothing in its arguments that the driver beneath may look at.
pub(crate) fn call(driver: &dyn Driver, op: Op) -> Answer {
    fn answer<T>(result: Result<T>) -> Answer {
        result.map_or_else(Answer::Refused, |_| Answer::Done)
    }
    let (memory, queue, event) = (Raw::from_bits(64), Raw::from_bits(1), Raw::from_bits(1));
    let spot = Spot { base: memory, offset: 0 };
    let mut bytes = [0_u64; 8];
    let address = NonNull::from(&mut bytes).cast::<u8>();
    unsafe {
        match op {
            Op::Reaches => answer(driver.reaches(driver.id())),
            Op::Allocate => answer(driver.allocate(64, None)),
            Op::Free => {
                driver.free(memory, 64);
                Answer::Nothing
            }
            Op::Share => {
                driver.share(memory, 64);
                Answer::Nothing
            }
            Op::Reuse => {
                driver.reuse(memory, 64);
                Answer::Nothing
            }
            Op::Watch => {
                driver.watch(Watched::Exported, &[]);
                Answer::Nothing
            }
            Op::Part => answer(driver.part(memory, 0, 64)),
            Op::FreePart => {
                driver.free_part(memory);
                Answer::Nothing
            }
            Op::AllocateStaging => answer(driver.allocate_staging(64)),
            Op::FreeStaging => {
                driver.free_staging(address, 64);
                Answer::Nothing
            }
            Op::OpenQueue => answer(driver.open_queue()),
            Op::CloseQueue => {
                driver.close_queue(queue);
                Answer::Nothing
            }
            Op::Synchronize => answer(driver.synchronize(queue)),
            Op::IsIdle => answer(driver.is_idle(queue)),
            Op::MakeEvent => answer(driver.make_event()),
            Op::DestroyEvent => {
                driver.destroy_event(event);
                Answer::Nothing
            }
            Op::Record => answer(driver.record(queue, event)),
            Op::Wait => answer(driver.wait(queue, event)),
            Op::IsComplete => answer(driver.is_complete(event)),
            Op::WaitOnHost => answer(driver.wait_on_host(event, None)),
            Op::SyncEvent => answer(driver.sync_event(event)),
            Op::ReadSyncEvent => answer(driver.read_sync_event(address.cast())),
            Op::Copy => answer(driver.copy(queue, Route::Within, &[])),
            Op::Map => answer(driver.map(spot, 64)),
            Op::MapsInPlace => Answer::Said(driver.maps_in_place(memory)),
            Op::Unmap => {
                driver.unmap(spot, 64, address);
                Answer::Nothing
            }
            Op::MapToFill => answer(driver.map_to_fill(queue, spot, 64)),
            Op::UnmapFilled => answer(driver.unmap_filled(queue, spot, 64, address)),
            Op::Locate => answer(driver.locate(memory)),
            Op::Holds => Answer::Said(driver.holds(memory) == Some(true)),
            Op::Drop => unreachable!("it is no operation"),
        }
    }
}

/// What a panic carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Text,
    /// Something that panics in its own turn when it is dropped.
    Stubborn,
    /// No panic of the operation's: its answer is an error, whose cause panics when it is dropped.
    /// A question answers so, or the record of an event.
    InError,
}

#[derive(Debug)]
struct StubbornPayload;

impl std::fmt::Display for StubbornPayload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("planted")
    }
}

impl std::error::Error for StubbornPayload {}

impl Drop for StubbornPayload {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new(()));
    }
}

/// Panics, without a word on the error output.
pub(crate) fn panic_with(payload: Payload) -> ! {
    match payload {
        Payload::Text => std::panic::resume_unwind(Box::new("planted")),
        Payload::Stubborn | Payload::InError => {
            std::panic::resume_unwind(Box::new(StubbornPayload))
        }
    }
}

/// The test's hand on the driver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trap(Arc<State>);

#[derive(Debug, Default)]
struct State {
    armed: Mutex<Option<(Op, Payload)>>,
    calls: AtomicUsize,
    is_gone: AtomicBool,
}

impl Trap {
    /// A device over one whose work is complete when the test says so.
    pub(crate) fn open() -> (Self, Manual, Device) {
        let (manual, beneath) = Manual::open();
        let inner = beneath.driver().clone();
        let properties = inner.properties().clone().with_host_access(HostAccess::Mapped);
        let trap = Self::default();
        let (id, runtime) = (inner.id(), inner.runtime());
        let driver = TrapDriver { id, runtime, inner, properties, trap: trap.clone() };
        (trap, manual, Device::new(driver))
    }

    /// A driver that was not opened yet, of this device of one runtime of several.
    pub(crate) fn of_runtime(id: DeviceId, instance: usize) -> impl Driver {
        let (_, beneath) = Manual::open();
        let inner = beneath.driver().clone();
        let properties = inner.properties().clone();
        let runtime = Runtime { name: "one of several", instance };
        TrapDriver { id, runtime, inner, properties, trap: Self::default() }
    }

    /// From now on this operation panics.
    pub(crate) fn arm(&self, op: Op, payload: Payload) {
        *self.0.armed.lock().unwrap() = Some((op, payload));
    }

    pub(crate) fn disarm(&self) {
        *self.0.armed.lock().unwrap() = None;
    }

    /// How many operations were called.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Whether the driver was dropped.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Relaxed)
    }

    /// As `enter`, in an operation that can answer an error.
    fn answer(&self, op: Op) -> Result<()> {
        if *self.0.armed.lock().unwrap() == Some((op, Payload::InError)) {
            self.0.calls.fetch_add(1, Ordering::Relaxed);
            return Err(Error::other(StubbornPayload));
        }
        self.enter(op);
        Ok(())
    }

    fn enter(&self, op: Op) {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let armed = *self.0.armed.lock().unwrap();
        if let Some((_, payload)) = armed.filter(|(armed, _)| *armed == op) {
            panic_with(payload);
        }
    }
}

#[derive(Debug)]
struct TrapDriver {
    id: DeviceId,
    runtime: Runtime,
    inner: Arc<dyn Driver>,
    properties: Properties,
    trap: Trap,
}

impl Drop for TrapDriver {
    fn drop(&mut self) {
        self.trap.0.is_gone.store(true, Ordering::Relaxed);
        self.trap.enter(Op::Drop);
    }
}

unsafe impl Driver for TrapDriver {
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
        self.trap.enter(Op::Reaches);
        if memory == self.id { Ok(()) } else { self.inner.reaches(memory) }
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        self.trap.enter(Op::Allocate);
        unsafe { self.inner.allocate(len, queue) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        self.trap.enter(Op::Free);
        unsafe { self.inner.free(memory, len) }
    }

    fn share(&self, memory: Raw<Memory>, len: u64) {
        self.trap.enter(Op::Share);
        self.inner.share(memory, len);
    }

    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        self.trap.enter(Op::Reuse);
        self.inner.reuse(memory, len);
    }

    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        self.trap.enter(Op::Watch);
        self.inner.watch(what, places);
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        self.trap.enter(Op::Part);
        unsafe { self.inner.part(memory, offset, len) }
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        self.trap.enter(Op::FreePart);
        unsafe { self.inner.free_part(part) }
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        self.trap.enter(Op::AllocateStaging);
        unsafe { self.inner.allocate_staging(len) }
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, len: u64) {
        self.trap.enter(Op::FreeStaging);
        unsafe { self.inner.free_staging(address, len) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.trap.enter(Op::OpenQueue);
        self.inner.open_queue()
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        self.trap.enter(Op::CloseQueue);
        unsafe { self.inner.close_queue(queue) }
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        self.trap.enter(Op::Synchronize);
        unsafe { self.inner.synchronize(queue) }
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        self.trap.answer(Op::IsIdle)?;
        unsafe { self.inner.is_idle(queue) }
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.trap.enter(Op::MakeEvent);
        self.inner.make_event()
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        self.trap.enter(Op::DestroyEvent);
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        self.trap.answer(Op::Record)?;
        unsafe { self.inner.record(queue, event) }
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        self.trap.enter(Op::Wait);
        unsafe { self.inner.wait(queue, event) }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        self.trap.answer(Op::IsComplete)?;
        unsafe { self.inner.is_complete(event) }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        self.trap.enter(Op::WaitOnHost);
        unsafe { self.inner.wait_on_host(event, timeout) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        self.trap.enter(Op::SyncEvent);
        self.inner.sync_event(event)
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        self.trap.enter(Op::ReadSyncEvent);
        unsafe { self.inner.read_sync_event(sync_event) }
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        self.trap.enter(Op::Copy);
        unsafe { self.inner.copy(queue, route, regions) }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        self.trap.enter(Op::Map);
        unsafe { self.inner.map(spot, len) }
    }

    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        self.trap.enter(Op::MapsInPlace);
        self.inner.maps_in_place(base)
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        self.trap.enter(Op::Unmap);
        unsafe { self.inner.unmap(spot, len, address) }
    }

    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        self.trap.enter(Op::MapToFill);
        unsafe { self.inner.map_to_fill(queue, spot, len) }
    }

    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        address: NonNull<u8>,
    ) -> Result<Filled> {
        self.trap.enter(Op::UnmapFilled);
        unsafe { self.inner.unmap_filled(queue, spot, len, address) }
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        self.trap.enter(Op::Locate);
        unsafe { self.inner.locate(base) }
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        self.trap.enter(Op::Holds);
        unsafe { self.inner.holds(base) }
    }
}
