//! The software device behind a table of callbacks, as a program brings a device of its own:
//! whatever the library asks of such a device is judged by the simulator.
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Driver, HostAccess, Raw, Readiness, Region, Route, Spot, Waiting,
};
use arrow_device::{Device, DeviceId, Result};
use arrow_device_capi::*;
use arrow_device_sim::{Sim, SimDriver};

/// What the table leaves out, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Says that it has made a queue wait, and has not.
    WaitsNot,
    /// Says that an event has passed.
    KnowsNoEvents,
    /// No fault: events are shown as variables that hold their handles, and queues cannot wait, so
    /// that the host has to.
    HostWaits,
}

struct Behind {
    driver: SimDriver,
    fault: Fault,
    /// Kept until the table is released.
    _registered: Arc<()>,
}

/// Whether a table is still in use, for the test that registered it.
pub(crate) struct Registered(Weak<()>);

impl Registered {
    pub(crate) fn is_released(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Registers the simulator's device anew, as one of C callbacks. It has an id of its own, since
/// nobody could tell whose memory is whose by one id of two runtimes.
pub(crate) fn register(sim: &Sim, fault: Fault) -> (Device, Registered) {
    let driver = sim.driver();
    let (of, properties) = (driver.id(), driver.properties().clone());
    let id = DeviceId::new(of.device_type, of.id ^ (1 << 32));
    let kept = Arc::new(());
    let registered = Registered(Arc::downgrade(&kept));
    let behind = Box::new(Behind { driver, fault, _registered: kept });
    let shows_handles = fault == Fault::HostWaits;
    let shows_objects = properties.readiness == Readiness::Event && !shows_handles;
    let flags = [
        (properties.host_access == HostAccess::Mapped, ARDEV_DEVICE_HOST_READABLE),
        (properties.addressing == Addressing::Handle, ARDEV_DEVICE_HANDLES),
        (properties.readiness == Readiness::HostWait, ARDEV_DEVICE_NO_EVENTS),
        (properties.readiness == Readiness::QueueOrder, ARDEV_DEVICE_ONE_QUEUE),
        (properties.parts, ARDEV_DEVICE_PARTS),
        (properties.distinct_copies, ARDEV_DEVICE_DISTINCT_COPIES),
        (properties.separate, ARDEV_DEVICE_SEPARATE),
        (shows_objects, ARDEV_DEVICE_EVENT_OBJECTS),
    ];
    let table = ArdevDriver {
        struct_size: size_of::<ArdevDriver>(),
        device_type: id.device_type.0,
        flags: flags.iter().filter(|(is_so, _)| *is_so).fold(0, |all, (_, flag)| all | flag),
        device_id: id.id,
        alignment: properties.alignment as u64,
        copy_unit: properties.copy_unit,
        name: c"software, by callbacks".as_ptr(),
        context: Box::into_raw(behind).cast(),
        release: Some(release),
        allocate: Some(allocate),
        free: Some(free),
        open_queue: Some(open_queue),
        close_queue: Some(close_queue),
        synchronize: Some(synchronize),
        is_idle: Some(is_idle),
        record: Some(record),
        destroy_event: Some(destroy_event),
        wait: Some(wait),
        is_complete: Some(is_complete),
        wait_on_host: Some(wait_on_host),
        copy: Some(copy),
        map: Some(map),
        unmap: Some(unmap),
        read_event: if shows_handles { None } else { Some(read_event) },
        reaches: None,
        part: Some(part),
        free_part: Some(free_part),
    };
    let (mut out, mut error) = (std::ptr::null_mut(), ArdevError::EMPTY);
    let code = unsafe { ardev_device_register(&table, &mut out, &mut error) };
    assert_eq!(code, 0, "{}", error.text());
    let device = Device::find(id).unwrap();
    assert_eq!(device.properties().name, "software, by callbacks");
    unsafe { ardev_device_free(out) };
    (device, registered)
}

fn behind<'a>(context: *mut c_void) -> &'a Behind {
    unsafe { &*context.cast::<Behind>() }
}

fn code(result: Result<()>) -> c_int {
    result.map_or_else(|error| error.errno(), |()| 0)
}

fn give<T, U>(result: Result<T>, out: *mut U, convert: impl FnOnce(T) -> U) -> c_int {
    code(result.map(|value| unsafe { out.write(convert(value)) }))
}

fn spot(spot: ArdevSpot) -> Spot {
    Spot { base: Raw::from_ptr(spot.base), offset: spot.offset }
}

unsafe extern "C" fn release(context: *mut c_void) {
    drop(unsafe { Box::from_raw(context.cast::<Behind>()) });
}

unsafe extern "C" fn allocate(
    context: *mut c_void,
    size: u64,
    queue: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    let queue = (!queue.is_null()).then(|| Raw::from_ptr(queue));
    give(unsafe { behind(context).driver.allocate(size, queue) }, out, Raw::as_ptr)
}

unsafe extern "C" fn free(context: *mut c_void, memory: *mut c_void, size: u64) {
    unsafe { behind(context).driver.free(Raw::from_ptr(memory), size) }
}

unsafe extern "C" fn open_queue(context: *mut c_void, out: *mut *mut c_void) -> c_int {
    give(behind(context).driver.open_queue(), out, Raw::as_ptr)
}

unsafe extern "C" fn close_queue(context: *mut c_void, queue: *mut c_void) {
    unsafe { behind(context).driver.close_queue(Raw::from_ptr(queue)) }
}

unsafe extern "C" fn synchronize(context: *mut c_void, queue: *mut c_void) -> c_int {
    code(unsafe { behind(context).driver.synchronize(Raw::from_ptr(queue)) })
}

unsafe extern "C" fn is_idle(context: *mut c_void, queue: *mut c_void, out: *mut i32) -> c_int {
    give(unsafe { behind(context).driver.is_idle(Raw::from_ptr(queue)) }, out, i32::from)
}

unsafe extern "C" fn record(
    context: *mut c_void,
    queue: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    let driver = &behind(context).driver;
    let recorded = driver.make_event().and_then(|event| {
        let recorded = unsafe { driver.record(Raw::from_ptr(queue), event) };
        recorded.inspect_err(|_| unsafe { driver.destroy_event(event) })
    });
    give(recorded, out, Raw::as_ptr)
}

unsafe extern "C" fn destroy_event(context: *mut c_void, event: *mut c_void) {
    unsafe { behind(context).driver.destroy_event(Raw::from_ptr(event)) }
}

unsafe extern "C" fn wait(context: *mut c_void, queue: *mut c_void, event: *mut c_void) -> c_int {
    let Behind { driver, fault, .. } = behind(context);
    match fault {
        Fault::WaitsNot => return 0,
        Fault::HostWaits => return 18, // EXDEV
        _ => {}
    }
    match unsafe { driver.wait(Raw::from_ptr(queue), Raw::from_ptr(event)) } {
        Ok(Waiting::Queued) => 0,
        Ok(Waiting::HostMustWait) => 18, // EXDEV
        Err(error) => error.errno(),
    }
}

unsafe extern "C" fn is_complete(context: *mut c_void, event: *mut c_void, out: *mut i32) -> c_int {
    let Behind { driver, fault, .. } = behind(context);
    let lies = *fault == Fault::KnowsNoEvents;
    give(unsafe { driver.is_complete(Raw::from_ptr(event)) }, out, |passed| {
        i32::from(passed || lies)
    })
}

unsafe extern "C" fn wait_on_host(context: *mut c_void, event: *mut c_void, timeout: i64) -> c_int {
    let timeout = u64::try_from(timeout).ok().map(Duration::from_nanos);
    match unsafe { behind(context).driver.wait_on_host(Raw::from_ptr(event), timeout) } {
        Ok(true) => 0,
        Ok(false) => 110, // ETIMEDOUT
        Err(error) => error.errno(),
    }
}

unsafe extern "C" fn copy(
    context: *mut c_void,
    queue: *mut c_void,
    route: i32,
    regions: *const ArdevRegion,
    n_regions: usize,
) -> c_int {
    let regions = unsafe { std::slice::from_raw_parts(regions, n_regions) };
    let region = |it: &ArdevRegion| Region { from: spot(it.from), to: spot(it.to), len: it.size };
    let regions: Vec<Region> = regions.iter().map(region).collect();
    let route = match route {
        ARDEV_ROUTE_FROM_HOST => Route::FromHost,
        ARDEV_ROUTE_TO_HOST => Route::ToHost,
        ARDEV_ROUTE_WITHIN => Route::Within,
        _ => return 38, // ENOSYS
    };
    code(unsafe { behind(context).driver.copy(Raw::from_ptr(queue), route, &regions) })
}

unsafe extern "C" fn map(
    context: *mut c_void,
    at: ArdevSpot,
    size: u64,
    out: *mut *mut c_void,
) -> c_int {
    give(unsafe { behind(context).driver.map(spot(at), size) }, out, |address| {
        address.as_ptr().cast()
    })
}

unsafe extern "C" fn unmap(context: *mut c_void, at: ArdevSpot, size: u64, address: *mut c_void) {
    let address = NonNull::new(address.cast()).unwrap();
    unsafe { behind(context).driver.unmap(spot(at), size, address) }
}

unsafe extern "C" fn read_event(
    context: *mut c_void,
    sync_event: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    let sync_event = NonNull::new(sync_event).unwrap();
    give(unsafe { behind(context).driver.read_sync_event(sync_event) }, out, Raw::as_ptr)
}

unsafe extern "C" fn part(
    context: *mut c_void,
    memory: *mut c_void,
    offset: u64,
    size: u64,
    out: *mut *mut c_void,
) -> c_int {
    give(
        unsafe { behind(context).driver.part(Raw::from_ptr(memory), offset, size) },
        out,
        Raw::as_ptr,
    )
}

unsafe extern "C" fn free_part(context: *mut c_void, part: *mut c_void) {
    unsafe { behind(context).driver.free_part(Raw::from_ptr(part)) }
}
