//! [`GpuDriver`]: the [`Driver`] of one kind of memory of one device.
//!
//! A driver owns only the events that it keeps for the next use, and the streams on which it
//! announces events. Contexts are retained once per device and never released, because memory that
//! was exported outlives whoever opened the device. Each operation that calls the vendor's driver
//! makes the device the current one of the calling thread, and then makes the thread's former
//! device current again.
//!
//! Work is submitted only to streams that capture no graph. Calls that could disturb a capture of
//! another thread are made in the mode in which they do not ([`Apart`]). Destroyed events are kept
//! for their next use, up to a bound, so that an event is rarely made.

use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_device::driver::{
    Allocation, DefaultQueues, Driver, EventNotice, EventNotices, HostAccess, Properties, Raw,
    Region, Route, Runtime, Spot, SyncEvent, Waiting, WaitingCopies, ask_until, not_reachable,
};
use arrow_device::{DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::code::NOT_READY;
use crate::copy_list::address;
use crate::error::error_on;
use crate::notices::Announcers;
use crate::{Api, Code, Functions, Handle, Kind, Options, Pool, ReadyDevice};

/// The flag of a stream that does not wait for the legacy default stream.
pub(crate) const NON_BLOCKING: u32 = 1;
/// The flag of an event that records no time.
const WITHOUT_TIME: u32 = 2;
/// The mode in which a thread's calls do not disturb a graph capture on another thread.
const RELAXED: i32 = 2;
/// The most events that are kept for the next use.
const KEPT_EVENTS: usize = 64;

/// The driver of one kind of memory of one device.
pub struct GpuDriver<A: Api> {
    pub(crate) api: &'static A,
    pub(crate) kind: Kind,
    pub(crate) device: ReadyDevice,
    pub(crate) id: DeviceId,
    properties: Properties,
    /// Whether memory that is allocated in the order of queues comes from the device's own pool.
    pub(crate) from_own_pool: bool,
    /// Whether a list of copies is submitted in one call.
    pub(crate) batches: bool,
    /// Whether memory is allocated in the order of queues. Cleared when the device turns out not to
    /// be able to.
    pub(crate) allocates_in_order: AtomicBool,
    /// Events that are not in use, kept for the next use.
    events: Mutex<Vec<Raw<Event>>>,
    /// The streams that announce events.
    pub(crate) announcers: Arc<Mutex<Announcers>>,
    /// How memory is shared with other processes, once that was asked.
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    pub(crate) shares: std::sync::OnceLock<Option<crate::sharing::Shares>>,
    /// The numbers of devices that were asked about, and whether their memory can be reached.
    pub(crate) peers: Mutex<Vec<(i64, bool)>>,
}

/// From the manual: "For transfers from device memory to pageable host memory, the function will
/// return only once the copy has completed", and "for transfers from any host memory to any host
/// memory, the function is fully synchronous with respect to the host".
fn waiting_copies(kind: Kind) -> WaitingCopies {
    match kind {
        Kind::Host => WaitingCopies::All,
        Kind::Device | Kind::Managed => WaitingCopies::OfPlainMemory,
    }
}

/// Keeps the device the current one of this thread until it is dropped.
pub(crate) struct Entered<'a, A: Api> {
    api: &'a A,
    saved: Option<A::Saved>,
}

impl<A: Api> Drop for Entered<'_, A> {
    fn drop(&mut self) {
        if let Some(saved) = self.saved.take() {
            self.api.leave(saved);
        }
    }
}

/// Keeps this thread's calls from disturbing captures of other threads until it is dropped.
pub(crate) struct Apart<'a, A: Api> {
    api: &'a A,
    mode: Option<i32>,
}

impl<'a, A: Api> Apart<'a, A> {
    pub(crate) fn new(api: &'a A) -> Self {
        let mut mode = RELAXED;
        let exchanged = api.functions().exchange_capture_mode.is_some_and(|exchange| {
            // SAFETY: the mode is read and written.
            api.succeeded(unsafe { exchange(&mut mode) })
        });
        Self { api, mode: exchanged.then_some(mode) }
    }
}

impl<A: Api> Drop for Apart<'_, A> {
    fn drop(&mut self) {
        let exchange = self.api.functions().exchange_capture_mode;
        if let (Some(exchange), Some(mut mode)) = (exchange, self.mode) {
            // SAFETY: the function reads and writes the mode, which is alive during the call.
            self.api.succeeded(unsafe { exchange(&mut mode) });
        }
    }
}

impl<A: Api> GpuDriver<A> {
    /// Opens a device.
    pub fn open(api: &'static A, ordinal: usize, options: Options) -> Result<Self> {
        let vendor = api.vendor();
        let options = options.or_environment(vendor)?;
        let kind = options.kind;
        let Some(device_type) = vendor.device_type(kind) else {
            let message = format!("Arrow has no type for {kind:?} memory of {}", vendor.name);
            return Err(Error::new(ErrorKind::Unsupported, message).during("open"));
        };
        let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let id = DeviceId::new(device_type, i64::from(number));
        let device = api.ready(number).map_err(|code| error_on(api, code, "open", id))?;
        let attribute = |number| {
            let value = crate::diagnosis::attribute(api, &device, number);
            value.map_err(|code| error_on(api, code, "open", id))
        };
        if kind == Kind::Managed && attribute(vendor.managed_memory)? == 0 {
            let message = "the device has no managed memory; open it with its own memory";
            return Err(Error::new(ErrorKind::Unsupported, message).during("open").on_device(id));
        }
        let host_access = match kind {
            Kind::Device => HostAccess::None,
            Kind::Host => HostAccess::Mapped,
            // Without concurrent access the host may not touch any managed memory while the device
            // does anything.
            Kind::Managed if attribute(vendor.concurrent_managed_access)? == 0 => HostAccess::None,
            Kind::Managed => HostAccess::Mapped,
        };
        let default_queues = DefaultQueues {
            of_device: Raw::from_bits(vendor.legacy_default_stream),
            of_thread: Some(Raw::from_bits(vendor.per_thread_default_stream)),
        };
        let properties = Properties::new(crate::diagnosis::name(api, &device))
            .with_host_access(host_access)
            .with_default_queues(default_queues)
            .with_gathered_writes(kind != Kind::Host)
            .with_waiting_copies(waiting_copies(kind))
            .with_event_notices(EventNotices::FromCallbacks);
        let pool = match options.pool {
            Some(pool) => pool,
            None => {
                let memory = crate::diagnosis::memory(api, &device);
                Pool::of_device(memory.map_err(|code| error_on(api, code, "open", id))?)
            }
        };
        let batches = match (options.batched_copies, vendor.batches_break_on) {
            (Some(batches), _) => batches,
            (None, Some((number, broken))) => attribute(number)? != broken,
            (None, None) => true,
        };
        let opened = Self {
            api,
            kind,
            device,
            id,
            properties,
            from_own_pool: matches!(pool, Pool::Own { .. }) && !device.pool.is_null(),
            batches,
            allocates_in_order: AtomicBool::new(kind == Kind::Device && pool != Pool::None),
            events: Mutex::default(),
            announcers: Arc::default(),
            #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
            shares: std::sync::OnceLock::new(),
            peers: Mutex::default(),
        };
        if let (Kind::Device, Pool::Own { keep }) = (kind, pool) {
            opened.keep_in_pool(keep);
        }
        Ok(opened)
    }

    pub(crate) fn error(&self, code: Code, operation: &'static str) -> Error {
        error_on(self.api, code, operation, self.id)
    }

    pub(crate) fn check(&self, code: Code, operation: &'static str) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(code, operation)) }
    }

    pub(crate) fn enter(&self, operation: &'static str) -> Result<Entered<'_, A>> {
        let saved = self.api.enter(&self.device).map_err(|code| self.error(code, operation))?;
        Ok(Entered { api: self.api, saved: Some(saved) })
    }

    /// Calls a function while the device is current.
    pub(crate) fn call(
        &self,
        operation: &'static str,
        function: impl FnOnce(&Functions) -> Code,
    ) -> Result<()> {
        let _entered = self.enter(operation)?;
        self.check(function(self.api.functions()), operation)
    }

    /// [`call`](Self::call) for a function that would disturb a capture of another thread.
    pub(crate) fn call_apart(
        &self,
        operation: &'static str,
        function: impl FnOnce(&Functions) -> Code,
    ) -> Result<()> {
        let _entered = self.enter(operation)?;
        let functions = self.api.functions();
        let _apart = Apart::new(self.api);
        self.check(function(functions), operation)
    }

    /// [`call`](Self::call) for a function that adds work to a stream. Refuses a stream that is
    /// capturing a graph, because such a stream records the work instead of doing it.
    pub(crate) fn submit(
        &self,
        stream: Handle,
        operation: &'static str,
        function: impl FnOnce(&Functions) -> Code,
    ) -> Result<()> {
        let _entered = self.enter(operation)?;
        let functions = self.api.functions();
        self.require_no_capture(stream, operation)?;
        self.check(function(functions), operation)
    }

    /// Returns an error where the stream is capturing a graph, or would have to wait for a stream
    /// that is. Asking does not end a capture.
    fn require_no_capture(&self, stream: Handle, operation: &'static str) -> Result<()> {
        let Some(is_capturing) = self.api.functions().stream_is_capturing else { return Ok(()) };
        let mut status = 0;
        // SAFETY: the stream is alive, as the caller of every operation on a queue promises.
        self.check(unsafe { is_capturing(stream, &mut status) }, operation)?;
        if status == 0 {
            return Ok(());
        }
        let message = "the stream is capturing a graph; exchange data outside of the capture";
        Err(Error::new(ErrorKind::Unsupported, message).during(operation).on_device(self.id))
    }

    fn take_event(&self) -> Option<Raw<Event>> {
        lock(&self.events).pop()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Api> fmt::Debug for GpuDriver<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuDriver({} {:?})", self.id, self.properties.name)
    }
}

impl<A: Api> Drop for GpuDriver<A> {
    fn drop(&mut self) {
        let events = std::mem::take(self.events.get_mut().unwrap_or_else(PoisonError::into_inner));
        let Ok(_entered) = self.enter("close") else { return };
        for event in events {
            // SAFETY: `make_event` gave it and nobody has it any more.
            let code = unsafe { (self.api.functions().event_destroy)(event.as_ptr()) };
            self.api.succeeded(code);
        }
        self.close_announcers();
    }
}

// SAFETY: memory is an allocation of its own. An event is complete when the work before its record
// is ("cuEventRecord: captures in hEvent the contents of hStream at the time of this call"), and a
// stream that is told to wait starts nothing submitted later before that ("cuStreamWaitEvent: makes
// all future work submitted to hStream wait for all work captured in hEvent"); HIP says the same of
// its own. A stream that captures a graph, where neither holds, is refused. The legacy default
// stream waits for all blocking streams of its context, and the default streams of threads are such
// ("The per-thread default stream is not a non-blocking stream and will synchronize with the legacy
// default stream"); neither can be destroyed. Streams are synchronised by the function for it.
// `map` is for memory that the host reads at the address itself. `sync_event` is the event's
// handle, told without a call. `reaches` says yes for this device, for pinned and managed memory,
// which all devices of the runtime reach ("portable"), and for peers whose access was enabled.
unsafe impl<A: Api> Driver for GpuDriver<A> {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: self.api.vendor().runtime, instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        let reached = match self.api.vendor().kind(memory.device_type) {
            None => false,
            Some(Kind::Host | Kind::Managed) => true,
            Some(Kind::Device) => self.reaches_peer(memory.id)?,
        };
        if reached { Ok(()) } else { Err(not_reachable(self.id, memory)) }
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.allocate_kind(len, queue) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.free_kind(memory.as_ptr(), self.kind) };
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    fn sharing(&self) -> Option<&dyn arrow_device::driver::Sharing> {
        self.shares().map(|_| self as _)
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        if self.kind == Kind::Host {
            return Ok(None);
        }
        self.allocate_pinned_staging(len)
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, _len: u64) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.free_kind(address.as_ptr().cast(), Kind::Host) };
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        let mut stream = ptr::null_mut();
        self.call("open a queue", |functions| {
            // SAFETY: the handle is written.
            unsafe { (functions.stream_create)(&mut stream, NON_BLOCKING) }
        })?;
        Ok(Raw::from_ptr(stream))
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: `open_queue` gave it. Work that was submitted still finishes ("the resources
        // associated with hStream will be released automatically once the device has completed all
        // work in hStream").
        let _ = self.call("close a queue", |functions| unsafe {
            (functions.stream_destroy)(queue.as_ptr())
        });
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        // SAFETY: UNS-22, which the caller keeps.
        self.call_apart("finish a queue", |functions| unsafe {
            (functions.stream_synchronize)(queue.as_ptr())
        })
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        let operation = "ask a queue";
        // `stream_query` itself would end a capture.
        let _entered = self.enter(operation)?;
        self.require_no_capture(queue.as_ptr(), operation)?;
        self.ask(operation, |functions| {
            // SAFETY: UNS-22, which the caller keeps.
            unsafe { (functions.stream_query)(queue.as_ptr()) }
        })
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        if let Some(event) = self.take_event() {
            return Ok(event);
        }
        let mut event = ptr::null_mut();
        self.call("make an event", |functions| {
            // SAFETY: the handle is written.
            unsafe { (functions.event_create)(&mut event, WITHOUT_TIME) }
        })?;
        Ok(Raw::from_ptr(event))
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if event.is_null() {
            return;
        }
        // The event is recorded anew for its next use. That does not change waits that were
        // submitted before ("subsequent calls to cuEventRecord do not modify them").
        {
            let mut events = lock(&self.events);
            if events.len() < KEPT_EVENTS {
                events.push(event);
                return;
            }
        }
        // SAFETY: UNS-22, which the caller keeps.
        let _ = self.call("destroy an event", |functions| unsafe {
            (functions.event_destroy)(event.as_ptr())
        });
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        self.submit(queue.as_ptr(), "record an event", |functions| {
            // SAFETY: UNS-22, which the caller keeps.
            unsafe { (functions.event_record)(event.as_ptr(), queue.as_ptr()) }
        })?;
        Ok(event)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        self.submit(queue.as_ptr(), "wait for an event", |functions| {
            // SAFETY: UNS-22, which the caller keeps.
            unsafe { (functions.stream_wait_event)(queue.as_ptr(), event.as_ptr(), 0) }
        })?;
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        self.ask("ask an event", |functions| {
            // SAFETY: UNS-22, which the caller keeps.
            unsafe { (functions.event_query)(event.as_ptr()) }
        })
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        let Some(timeout) = timeout else {
            self.call_apart("wait for an event", |functions| {
                // SAFETY: UNS-22, which the caller keeps.
                unsafe { (functions.event_synchronize)(event.as_ptr()) }
            })?;
            return Ok(true);
        };
        // The runtime has no wait with a limit of time.
        // SAFETY: UNS-22, which the caller keeps.
        ask_until(Some(timeout), || unsafe { self.is_complete(event) })
    }

    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.announce(event.as_ptr(), notice) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(event.as_ptr()))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: by the convention it points to the event's handle; nothing is known of how it is
        // aligned.
        let event = unsafe { sync_event.cast::<Handle>().read_unaligned() };
        if event.is_null() {
            let message =
                "sync_event points to a null event; without an event it has to be null itself";
            let error = Error::new(ErrorKind::Malformed, message);
            return Err(error.during("read_sync_event").on_device(self.id));
        }
        Ok(Raw::from_ptr(event))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let stream = queue.as_ptr();
        self.submit(stream, "copy", |_| {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            if let Some(code) = unsafe { self.copy_all(stream, route, regions) } {
                return code;
            }
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            let copied =
                regions.iter().map(|region| unsafe { self.copy_one(stream, route, region) });
            copied.into_iter().find(|code| *code != 0).unwrap_or(0)
        })
    }

    unsafe fn map(&self, spot: Spot, _len: u64) -> Result<NonNull<u8>> {
        if self.properties.host_access == HostAccess::None {
            let message = "the host cannot read this memory in place; copy it to the host";
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error.during("map").on_device(self.id));
        }
        NonNull::new(address(spot).cast()).ok_or_else(|| {
            let message = "there is nothing at a null address";
            Error::new(ErrorKind::InvalidArgument, message).on_device(self.id)
        })
    }

    unsafe fn map_to_fill(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        _len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        // What the host writes to pinned memory is visible to all work that is submitted later.
        Ok(NonNull::new(address(spot).cast()).filter(|_| self.kind == Kind::Host))
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        // SAFETY: the driver looks the address up and does not follow it.
        unsafe { self.locate_address(base.as_ptr()) }
    }
}

impl<A: Api> GpuDriver<A> {
    /// Calls a function that answers with success for yes, with [`NOT_READY`] for not yet, or with
    /// an error.
    fn ask(
        &self,
        operation: &'static str,
        function: impl FnOnce(&Functions) -> Code,
    ) -> Result<bool> {
        let _entered = self.enter(operation)?;
        let functions = self.api.functions();
        let _apart = Apart::new(self.api);
        match function(functions) {
            0 => Ok(true),
            NOT_READY => {
                self.api.forget_error();
                Ok(false)
            }
            code => Err(self.error(code, operation)),
        }
    }

    /// Whether memory is allocated in the order of queues.
    pub(crate) fn allocates_in_order(&self) -> bool {
        self.allocates_in_order.load(Ordering::Relaxed)
    }
}
