//! A device that the caller brings, as a table of functions: [`Driver`] over it.
//!
//! The table is copied. Its functions that have to be there are looked at once, when the device is
//! registered.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Driver, HostAccess, Properties, Raw, Readiness, Region, Route, Runtime, Spot,
    SyncEvent, Waiting, not_reachable,
};
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::allocator::{ArdevAllocate, ArdevFree};
use crate::backends::{
    ARDEV_DEVICE_DISTINCT_COPIES, ARDEV_DEVICE_EVENT_OBJECTS, ARDEV_DEVICE_HANDLES,
    ARDEV_DEVICE_HOST_READABLE, ARDEV_DEVICE_NO_EVENTS, ARDEV_DEVICE_ONE_QUEUE, ARDEV_DEVICE_PARTS,
    ARDEV_DEVICE_SEPARATE,
};
use crate::call::{Out, invalid, null, run};
use crate::context::{ArdevRelease, Context, answer};
use crate::device::ArdevDevice;
use crate::error::ArdevError;
use crate::sized;

pub const ARDEV_ROUTE_FROM_HOST: i32 = 0;
pub const ARDEV_ROUTE_TO_HOST: i32 = 1;
pub const ARDEV_ROUTE_WITHIN: i32 = 2;
pub const ARDEV_ROUTE_FROM_PEER: i32 = 3;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevSpot {
    pub base: *mut c_void,
    pub offset: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevRegion {
    pub from: ArdevSpot,
    pub to: ArdevSpot,
    pub size: u64,
}

type Take = unsafe extern "C" fn(context: *mut c_void, handle: *mut c_void);
type Give = unsafe extern "C" fn(context: *mut c_void, out: *mut *mut c_void) -> c_int;
type Convert =
    unsafe extern "C" fn(*mut c_void, handle: *mut c_void, out: *mut *mut c_void) -> c_int;
/// An integer, because a Rust `bool` may hold 0 and 1 only, and C code may write anything.
type Ask = unsafe extern "C" fn(*mut c_void, handle: *mut c_void, out: *mut i32) -> c_int;
type Order = unsafe extern "C" fn(*mut c_void, queue: *mut c_void) -> c_int;
type Wait = unsafe extern "C" fn(*mut c_void, queue: *mut c_void, event: *mut c_void) -> c_int;
type WaitOnHost = unsafe extern "C" fn(*mut c_void, event: *mut c_void, timeout: i64) -> c_int;
type CopyRegions = unsafe extern "C" fn(
    context: *mut c_void,
    queue: *mut c_void,
    route: i32,
    regions: *const ArdevRegion,
    n_regions: usize,
) -> c_int;
type Map =
    unsafe extern "C" fn(*mut c_void, spot: ArdevSpot, size: u64, out: *mut *mut c_void) -> c_int;
type Unmap = unsafe extern "C" fn(*mut c_void, spot: ArdevSpot, size: u64, address: *mut c_void);
type Reaches = unsafe extern "C" fn(*mut c_void, device_type: i32, device_id: i64) -> c_int;
type Part = unsafe extern "C" fn(
    context: *mut c_void,
    memory: *mut c_void,
    offset: u64,
    size: u64,
    out: *mut *mut c_void,
) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevDriver {
    pub struct_size: usize,
    pub device_type: i32,
    pub flags: u32,
    pub device_id: i64,
    pub alignment: u64,
    pub copy_unit: u64,
    pub name: *const c_char,
    pub context: *mut c_void,
    pub release: ArdevRelease,
    pub allocate: Option<ArdevAllocate>,
    pub free: Option<ArdevFree>,
    pub open_queue: Option<Give>,
    pub close_queue: Option<Take>,
    pub synchronize: Option<Order>,
    pub is_idle: Option<Ask>,
    pub record: Option<Convert>,
    pub destroy_event: Option<Take>,
    pub wait: Option<Wait>,
    pub is_complete: Option<Ask>,
    pub wait_on_host: Option<WaitOnHost>,
    pub copy: Option<CopyRegions>,
    pub map: Option<Map>,
    pub unmap: Option<Unmap>,
    pub read_event: Option<Convert>,
    pub reaches: Option<Reaches>,
    pub part: Option<Part>,
    pub free_part: Option<Take>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_register(
    driver: *const ArdevDriver,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: rule 6 of the header: null, or a table of the caller's.
        let given = unsafe { sized::read(driver, "driver") }?;
        let context = Context::new(given.context, given.release);
        // SAFETY: the header says what the members of a table are: its functions are of their
        // types, and its name is null or ends with a NUL.
        let table = unsafe { Table::new(&given, context) }?;
        out?.give(ArdevDevice(Device::new(table)))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

/// A driver that a program brought.
struct Table {
    id: DeviceId,
    runtime: Runtime,
    properties: Properties,
    functions: DriverFunctions,
    has_event_objects: bool,
    context: Context,
}

/// The functions of a driver that a program brought. Those that have to be there are there.
struct DriverFunctions {
    allocate: ArdevAllocate,
    free: ArdevFree,
    open_queue: Give,
    close_queue: Take,
    synchronize: Order,
    is_idle: Ask,
    record: Convert,
    destroy_event: Take,
    wait: Wait,
    is_complete: Ask,
    wait_on_host: WaitOnHost,
    copy: CopyRegions,
    map: Option<(Map, Unmap)>,
    read_event: Option<Convert>,
    reaches: Option<Reaches>,
    part: Option<(Part, Take)>,
}

impl DriverFunctions {
    fn of(given: &ArdevDriver) -> Result<Self> {
        fn required<T>(function: Option<T>, name: &str) -> Result<T> {
            function.ok_or_else(|| null(&format!("driver.{name}")))
        }
        let is_readable = given.flags & ARDEV_DEVICE_HOST_READABLE != 0;
        let has_parts = given.flags & ARDEV_DEVICE_PARTS != 0;
        Ok(Self {
            allocate: required(given.allocate, "allocate")?,
            free: required(given.free, "free")?,
            open_queue: required(given.open_queue, "open_queue")?,
            close_queue: required(given.close_queue, "close_queue")?,
            synchronize: required(given.synchronize, "synchronize")?,
            is_idle: required(given.is_idle, "is_idle")?,
            record: required(given.record, "record")?,
            destroy_event: required(given.destroy_event, "destroy_event")?,
            wait: required(given.wait, "wait")?,
            is_complete: required(given.is_complete, "is_complete")?,
            wait_on_host: required(given.wait_on_host, "wait_on_host")?,
            copy: required(given.copy, "copy")?,
            map: match is_readable {
                true => Some((required(given.map, "map")?, required(given.unmap, "unmap")?)),
                false => None,
            },
            read_event: given.read_event,
            reaches: given.reaches,
            part: match has_parts {
                true => {
                    Some((required(given.part, "part")?, required(given.free_part, "free_part")?))
                }
                false => None,
            },
        })
    }
}

impl Table {
    /// # Safety
    /// The table is what the header says; its name is null or ends with a NUL.
    unsafe fn new(given: &ArdevDriver, context: Context) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let functions = DriverFunctions::of(given)?;
        let id = DeviceId::new(DeviceType(given.device_type), given.device_id);
        if id.device_type == DeviceType::CPU {
            return Err(invalid("ARROW_DEVICE_CPU is the host, and there is one already"));
        }
        let name = match given.name.is_null() {
            true => format!("registered device {id}"),
            // SAFETY: the table is what the header says; its name is null or ends with a NUL, as
            // the caller promises.
            false => unsafe { CStr::from_ptr(given.name) }.to_string_lossy().into_owned(),
        };
        let instance = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            id,
            runtime: Runtime { name: "registered", instance },
            properties: properties(given, name)?,
            functions,
            has_event_objects: given.flags & ARDEV_DEVICE_EVENT_OBJECTS != 0,
            context,
        })
    }

    /// What a function of the table returned.
    fn answer(&self, code: c_int, function: &'static str) -> Result<()> {
        answer(code, function).map_err(|error| error.during(function).on_device(self.id))
    }

    fn context(&self) -> *mut c_void {
        self.context.pointer
    }
}

fn properties(given: &ArdevDriver, name: String) -> Result<Properties> {
    let has = |flag| given.flags & flag != 0;
    let alignment = given.alignment.max(64);
    if !alignment.is_power_of_two() || alignment > 1 << 32 {
        return Err(invalid(format!("`driver.alignment` is {alignment}: it is a power of two")));
    }
    // Not larger than that, so it fits on every platform that has such alignments.
    let alignment =
        usize::try_from(alignment).map_err(|_| invalid("`driver.alignment` is too large"))?;
    let copy_unit = given.copy_unit.max(1);
    if !copy_unit.is_power_of_two() || copy_unit > 1 << 30 {
        return Err(invalid(format!("`driver.copy_unit` is {copy_unit}: it is a power of two")));
    }
    let addressing =
        if has(ARDEV_DEVICE_HANDLES) { Addressing::Handle } else { Addressing::Address };
    let access =
        if has(ARDEV_DEVICE_HOST_READABLE) { HostAccess::Mapped } else { HostAccess::None };
    let readiness = match (has(ARDEV_DEVICE_NO_EVENTS), has(ARDEV_DEVICE_ONE_QUEUE)) {
        (true, true) => return Err(invalid("`driver.flags` says both NO_EVENTS and ONE_QUEUE")),
        (true, false) => Readiness::HostWait,
        (false, true) => Readiness::QueueOrder,
        (false, false) => Readiness::Event,
    };
    Ok(Properties::new(name)
        .with_alignment(alignment)
        .with_addressing(addressing)
        .with_host_access(access)
        .with_readiness(readiness)
        .with_copy_unit(copy_unit)
        .with_distinct_copies(has(ARDEV_DEVICE_DISTINCT_COPIES))
        .with_separate(has(ARDEV_DEVICE_SEPARATE))
        .with_parts(has(ARDEV_DEVICE_PARTS)))
}

impl From<Spot> for ArdevSpot {
    fn from(spot: Spot) -> Self {
        Self { base: spot.base.as_ptr(), offset: spot.offset }
    }
}

/// Waits are told in whole nanoseconds; one that is too long for C has no limit.
fn nanoseconds(timeout: Option<Duration>) -> i64 {
    timeout.map_or(-1, |timeout| i64::try_from(timeout.as_nanos()).unwrap_or(-1))
}

// SAFETY: the header asks the same of the functions of a table as the trait asks of its own, each
// of which calls one; and whoever registers a table promises it. An event of NULL has passed, as
// the header says, and is never passed on.
unsafe impl Driver for Table {
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
        if memory == self.id {
            return Ok(());
        }
        let Some(reaches) = self.functions.reaches else {
            return Err(not_reachable(self.id, memory));
        };
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { reaches(self.context(), memory.device_type.0, memory.id) };
        if code == 0 { Ok(()) } else { Err(not_reachable(self.id, memory)) }
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let queue = queue.map_or(std::ptr::null_mut(), Raw::as_ptr);
        let mut out = std::ptr::null_mut();
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { (self.functions.allocate)(self.context(), len, queue, &raw mut out) };
        self.answer(code, "allocate")?;
        if out.is_null() {
            let error = Error::new(ErrorKind::Driver, "`allocate` succeeded and gave no memory");
            return Err(error.on_device(self.id));
        }
        Ok(Raw::from_ptr(out))
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        // SAFETY: a function of the table, called as the header says.
        unsafe { (self.functions.free)(self.context(), memory.as_ptr(), len) }
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        let Some((part, _)) = self.functions.part else {
            let error = Error::new(ErrorKind::Unsupported, "handles of this device have no parts");
            return Err(error.during("part").on_device(self.id));
        };
        let mut out = std::ptr::null_mut();
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { part(self.context(), memory.as_ptr(), offset, len, &raw mut out) };
        self.answer(code, "part")?;
        Ok(Raw::from_ptr(out))
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        if let Some((_, free_part)) = self.functions.part {
            // SAFETY: a function of the table, called as the header says.
            unsafe { free_part(self.context(), part.as_ptr()) }
        }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        let mut out = std::ptr::null_mut();
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { (self.functions.open_queue)(self.context(), &raw mut out) };
        self.answer(code, "open_queue")?;
        Ok(Raw::from_ptr(out))
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: a function of the table, called as the header says.
        unsafe { (self.functions.close_queue)(self.context(), queue.as_ptr()) }
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { (self.functions.synchronize)(self.context(), queue.as_ptr()) };
        self.answer(code, "synchronize")
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        let mut out = 0;
        // SAFETY: a function of the table, called as the header says.
        let code =
            unsafe { (self.functions.is_idle)(self.context(), queue.as_ptr(), &raw mut out) };
        self.answer(code, "is_idle").map(|()| out != 0)
    }

    /// A table makes its events when it records them.
    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // SAFETY: a function of the table, called as the header says.
            unsafe { (self.functions.destroy_event)(self.context(), event.as_ptr()) }
        }
    }

    unsafe fn record(&self, queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        let mut out = std::ptr::null_mut();
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { (self.functions.record)(self.context(), queue.as_ptr(), &raw mut out) };
        self.answer(code, "record")?;
        Ok(Raw::from_ptr(out))
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        if event.is_null() {
            return Ok(Waiting::Queued);
        }
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { (self.functions.wait)(self.context(), queue.as_ptr(), event.as_ptr()) };
        if code == ErrorKind::NotReachable.errno() {
            return Ok(Waiting::HostMustWait);
        }
        self.answer(code, "wait").map(|()| Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        if event.is_null() {
            return Ok(true);
        }
        let mut out = 0;
        // SAFETY: a function of the table, called as the header says.
        let code =
            unsafe { (self.functions.is_complete)(self.context(), event.as_ptr(), &raw mut out) };
        self.answer(code, "is_complete").map(|()| out != 0)
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        if event.is_null() {
            return Ok(true);
        }
        let timeout = nanoseconds(timeout);
        // SAFETY: a function of the table, called as the header says.
        let code =
            unsafe { (self.functions.wait_on_host)(self.context(), event.as_ptr(), timeout) };
        if code == ErrorKind::TimedOut.errno() && timeout >= 0 {
            return Ok(false);
        }
        self.answer(code, "wait_on_host").map(|()| true)
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(match NonNull::new(event.as_ptr()).filter(|_| self.has_event_objects) {
            Some(object) => SyncEvent::Address(object),
            None => SyncEvent::Handle(event.as_ptr()),
        })
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        let Some(read_event) = self.functions.read_event else {
            if self.has_event_objects {
                return Ok(Raw::from_ptr(sync_event.as_ptr()));
            }
            // SAFETY: the caller promises what the convention says: a variable with the handle.
            return Ok(Raw::from_ptr(unsafe { sync_event.cast::<*mut c_void>().read_unaligned() }));
        };
        let mut out = std::ptr::null_mut();
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { read_event(self.context(), sync_event.as_ptr(), &raw mut out) };
        self.answer(code, "read_event")?;
        Ok(Raw::from_ptr(out))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let route = match route {
            Route::FromHost => ARDEV_ROUTE_FROM_HOST,
            Route::ToHost => ARDEV_ROUTE_TO_HOST,
            Route::Within => ARDEV_ROUTE_WITHIN,
            Route::FromPeer(_) => ARDEV_ROUTE_FROM_PEER,
            _ => {
                let error =
                    Error::new(ErrorKind::Unsupported, "a registered device has no such way");
                return Err(error.during("copy").on_device(self.id));
            }
        };
        let region =
            |it: &Region| ArdevRegion { from: it.from.into(), to: it.to.into(), size: it.len };
        let regions: Vec<ArdevRegion> = regions.iter().map(region).collect();
        let (first, count) = (regions.as_ptr(), regions.len());
        // SAFETY: a function of the table, called as the header says.
        let code =
            unsafe { (self.functions.copy)(self.context(), queue.as_ptr(), route, first, count) };
        self.answer(code, "copy")
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        let Some((map, _)) = self.functions.map else {
            let error = Error::new(ErrorKind::Unsupported, "the host cannot read this memory");
            return Err(error.during("map").on_device(self.id));
        };
        let mut out = std::ptr::null_mut();
        // SAFETY: a function of the table, called as the header says.
        let code = unsafe { map(self.context(), spot.into(), len, &raw mut out) };
        self.answer(code, "map")?;
        NonNull::new(out.cast()).ok_or_else(|| {
            Error::new(ErrorKind::Driver, "`map` succeeded and gave no address").on_device(self.id)
        })
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        if let Some((_, unmap)) = self.functions.map {
            // SAFETY: a function of the table, called as the header says.
            unsafe { unmap(self.context(), spot.into(), len, address.as_ptr().cast()) }
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({} {:?})", self.id, self.properties.name)
    }
}
