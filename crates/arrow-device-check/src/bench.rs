//! [`Bench`]: the place where a peer is tried, which is the host, an open device, or a device that
//! the checker moves on by hand.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::ArrowDeviceType;
use arrow_device::driver::{Raw, Readiness, Region, Route, Spot, SyncEvent, Waiting};
use arrow_device::{Device, DeviceId, Queue, Result};
use arrow_device_sim::{Mistake, Report, Sim};
use arrow_device_testkit::judge::Stage;

/// The place of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In host memory.
    Host,
    /// On a device.
    Device,
    /// On a device whose arrays have no events.
    WithoutEvents,
    /// Any place where the peer can be tried.
    Anywhere,
}

/// A place where a peer is tried.
#[derive(Debug)]
#[non_exhaustive]
pub enum Bench {
    /// The host.
    Host,
    /// A device.
    Device(Box<Opened>),
    /// A device that does nothing by itself.
    Hand(Stage),
}

/// An open device, with the means to watch it.
#[derive(Debug)]
pub struct Opened {
    /// The context that a peer in C gets.
    pub context: Context,
    /// The device.
    pub device: Device,
    /// The checker's queue.
    pub queue: Queue,
    sim: Option<Sim>,
}

impl Bench {
    /// Opens the software device.
    pub fn software() -> Result<Self> {
        Self::simulated(Sim::builder().seed(1).backtraces(false).build())
    }

    /// Opens a software device of another kind.
    pub fn simulated(sim: Sim) -> Result<Self> {
        Opened::new(sim.device(), Some(sim)).map(|opened| Self::Device(Box::new(opened)))
    }

    /// Uses a device that the caller has opened.
    pub fn device(device: Device) -> Result<Self> {
        Opened::new(device, None).map(|opened| Self::Device(Box::new(opened)))
    }

    /// Returns the device that arrays should name, `None` on the host, where arrays may name
    /// others.
    pub fn expected(&self) -> Option<DeviceId> {
        match self {
            Self::Host => None,
            Self::Device(opened) => Some(opened.device.id()),
            Self::Hand(stage) => Some(stage.device.id()),
        }
    }

    /// Whether arrays on the device carry events.
    pub fn has_events(&self) -> bool {
        match self {
            Self::Host => false,
            Self::Device(opened) => opened.device.properties().readiness == Readiness::Event,
            Self::Hand(stage) => stage.has_events(),
        }
    }

    /// Returns the context that a peer in C gets, which is null on the host.
    pub fn context(&self) -> *const Context {
        match self {
            Self::Device(opened) => &raw const opened.context,
            _ => ptr::null(),
        }
    }
}

impl Opened {
    fn new(device: Device, sim: Option<Sim>) -> Result<Self> {
        let queue = device.open_queue()?;
        let context = Context::of(&device);
        Ok(Self { context, device, queue, sim })
    }

    /// Returns the mistakes that the device has seen since the last call, if it looks for them.
    pub fn reports(&self) -> Vec<Report> {
        self.sim.as_ref().map(Sim::take_reports).unwrap_or_default()
    }

    /// Whether an address is memory of the device, `None` where the device cannot tell.
    pub fn owns(&self, address: *const c_void) -> Option<bool> {
        self.sim.as_ref()?;
        // SAFETY: the software device looks the address up and does not touch it.
        let found = unsafe { self.device.driver().locate(Raw::from_ptr(address.cast_mut())) };
        Some(found.ok().flatten().is_some())
    }

    /// Closes the device, and returns what was left behind.
    pub fn finish(self) -> Vec<Report> {
        let Self { sim, device, queue, context: _context } = self;
        drop((queue, device));
        sim.map(Sim::finish).unwrap_or_default()
    }

    /// Returns how often the peer made a queue wait.
    pub fn waits(&self) -> usize {
        self.context.waits.load(Ordering::SeqCst)
    }
}

/// Describes a mistake in one line.
pub(crate) fn words_of(report: &Report) -> String {
    let who = |action: &Option<arrow_device_sim::Action>| {
        action.as_ref().map(|action| format!("{}, by {}", action.what, action.by))
    };
    let actions: Vec<String> =
        [&report.first, &report.second].into_iter().filter_map(who).collect();
    if actions.is_empty() {
        return format!("the device saw: {}", report.kind);
    }
    format!("the device saw: {} ({})", report.kind, actions.join("; then "))
}

/// Whether something was left behind that the checker itself does not own.
pub(crate) fn is_leak(kind: Mistake) -> bool {
    use Mistake::{LeakedAllocation, LeakedArray, LeakedEvent, LeakedMapping, LeakedView};
    matches!(kind, LeakedAllocation | LeakedArray | LeakedEvent | LeakedMapping | LeakedView)
}

/// `struct ArrowDeviceCheckContext` of `check.h`. The members behind `checker` are for the checker
/// only.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    version: u32,
    size: u32,
    device_type: ArrowDeviceType,
    has_events: i32,
    device_id: i64,
    allocate: unsafe extern "C" fn(*const Self, u64, *mut *mut c_void) -> c_int,
    free: unsafe extern "C" fn(*const Self, *mut c_void, u64),
    open_queue: unsafe extern "C" fn(*const Self, *mut *mut c_void) -> c_int,
    close_queue: unsafe extern "C" fn(*const Self, *mut c_void),
    copy_to_device:
        unsafe extern "C" fn(*const Self, *mut c_void, *mut c_void, *const c_void, u64) -> c_int,
    copy_to_host:
        unsafe extern "C" fn(*const Self, *mut c_void, *mut c_void, *const c_void, u64) -> c_int,
    record: unsafe extern "C" fn(*const Self, *mut c_void, *mut *mut c_void) -> c_int,
    destroy_event: unsafe extern "C" fn(*const Self, *mut c_void),
    wait: unsafe extern "C" fn(*const Self, *mut c_void, *mut c_void) -> c_int,
    synchronize: unsafe extern "C" fn(*const Self, *mut c_void) -> c_int,
    checker: *mut c_void,
    device: Device,
    waits: AtomicUsize,
}

/// The size of the part that C knows: up to `checker`.
const SIZE: usize = std::mem::offset_of!(Context, device);

impl Context {
    fn of(device: &Device) -> Self {
        let id = device.id();
        Self {
            version: 1,
            size: SIZE as u32,
            device_type: id.device_type.0,
            has_events: i32::from(device.properties().readiness == Readiness::Event),
            device_id: id.id,
            allocate,
            free,
            open_queue,
            close_queue,
            copy_to_device,
            copy_to_host,
            record,
            destroy_event,
            wait,
            synchronize,
            checker: ptr::null_mut(),
            device: device.clone(),
            waits: AtomicUsize::new(0),
        }
    }
}

/// Returns the result of the body as an errno value.
fn answer(body: impl FnOnce() -> Result<()>) -> c_int {
    body().map_or_else(|error| error.kind().errno(), |()| 0)
}

/// # Safety
/// The context is what a peer was given, as the header says of all functions.
unsafe fn of<'a>(context: *const Context) -> &'a Context {
    // SAFETY: the context is what a peer was given, as the header says of all functions, as the
    // caller promises; the context lives as long as its bench.
    unsafe { &*context }
}

unsafe extern "C" fn allocate(context: *const Context, len: u64, out: *mut *mut c_void) -> c_int {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    answer(|| {
        // SAFETY: no queue is named, and the length is not 0.
        let memory = unsafe { driver.allocate(len.max(1), None) }?;
        // SAFETY: the header asks for a place to write to.
        unsafe { out.write(memory.as_ptr()) };
        Ok(())
    })
}

unsafe extern "C" fn free(context: *const Context, memory: *mut c_void, len: u64) {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    if !memory.is_null() {
        // SAFETY: what `allocate` gave, as the header asks; the software device looks.
        unsafe { driver.free(Raw::from_ptr(memory), len.max(1)) }
    }
}

unsafe extern "C" fn open_queue(context: *const Context, out: *mut *mut c_void) -> c_int {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    answer(|| {
        let queue = driver.open_queue()?;
        // SAFETY: the header asks for a place to write to.
        unsafe { out.write(queue.as_ptr()) };
        Ok(())
    })
}

unsafe extern "C" fn close_queue(context: *const Context, queue: *mut c_void) {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    // SAFETY: what `open_queue` gave, as the header asks.
    unsafe { driver.close_queue(Raw::from_ptr(queue)) }
}

/// # Safety
/// The caller keeps the contract that the header has for both copies.
unsafe fn copy(
    context: *const Context,
    queue: *mut c_void,
    route: Route<'_>,
    [to, from]: [*mut c_void; 2],
    len: u64,
) -> c_int {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    let spot = |base| Spot { base: Raw::from_ptr(base), offset: 0 };
    let region = [Region { from: spot(from), to: spot(to), len }];
    if len == 0 {
        return 0;
    }
    // SAFETY: the header asks for memory that holds so many bytes and is left alone until the queue
    // has passed.
    answer(|| unsafe { driver.copy(Raw::from_ptr(queue), route, &region) })
}

unsafe extern "C" fn copy_to_device(
    context: *const Context,
    queue: *mut c_void,
    to: *mut c_void,
    from: *const c_void,
    len: u64,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe { copy(context, queue, Route::FromHost, [to, from.cast_mut()], len) }
}

unsafe extern "C" fn copy_to_host(
    context: *const Context,
    queue: *mut c_void,
    to: *mut c_void,
    from: *const c_void,
    len: u64,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe { copy(context, queue, Route::ToHost, [to, from.cast_mut()], len) }
}

unsafe extern "C" fn record(
    context: *const Context,
    queue: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    answer(|| {
        let made = driver.make_event()?;
        // SAFETY: made just now; the queue is one of `open_queue`.
        let event = unsafe { driver.record(Raw::from_ptr(queue), made) }?;
        let shown = match driver.sync_event(event)? {
            SyncEvent::Address(address) => address.as_ptr(),
            SyncEvent::Handle(handle) => Box::into_raw(Box::new(handle)).cast(),
        };
        // SAFETY: the header asks for a place to write to.
        unsafe { out.write(shown) };
        Ok(())
    })
}

unsafe extern "C" fn destroy_event(context: *const Context, sync_event: *mut c_void) {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    let Some(shown) = NonNull::new(sync_event) else { return };
    // SAFETY: what `record` gave, as the header asks.
    if let Ok(event) = unsafe { driver.read_sync_event(shown) } {
        if let Ok(SyncEvent::Handle(_)) = driver.sync_event(event) {
            // SAFETY: made in `record`, and destroyed once.
            drop(unsafe { Box::from_raw(sync_event.cast::<*mut c_void>()) });
        }
        // SAFETY: UNS-22: the event is one that `record` gave and that `read_sync_event` gave
        // again, and the header lets it be destroyed once.
        unsafe { driver.destroy_event(event) }
    }
}

unsafe extern "C" fn wait(
    context: *const Context,
    queue: *mut c_void,
    sync_event: *mut c_void,
) -> c_int {
    // SAFETY: the header's contract.
    let context = unsafe { of(context) };
    context.waits.fetch_add(1, Ordering::SeqCst);
    let Some(shown) = NonNull::new(sync_event) else { return 0 };
    let driver = context.device.driver();
    answer(|| {
        // SAFETY: the event of an array that is not released, as the header asks.
        let event = unsafe { driver.read_sync_event(shown) }?;
        // SAFETY: UNS-22: the event is that of an array that is not released, and the queue is one
        // of `open_queue` that is not closed, as the header asks of both.
        match unsafe { driver.wait(Raw::from_ptr(queue), event) }? {
            Waiting::Queued => Ok(()),
            // SAFETY: UNS-22: the event is that of an array that is not released, as the header
            // asks.
            Waiting::HostMustWait => unsafe { driver.wait_on_host(event, None) }.map(|_| ()),
        }
    })
}

unsafe extern "C" fn synchronize(context: *const Context, queue: *mut c_void) -> c_int {
    // SAFETY: the header's contract.
    let driver = unsafe { of(context) }.device.driver();
    // SAFETY: what `open_queue` gave, as the header asks.
    answer(|| unsafe { driver.synchronize(Raw::from_ptr(queue)) })
}
