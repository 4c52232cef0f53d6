//! A device in host memory behind a table of callbacks, whose work is done when it is submitted: it
//! answers what a test says, and calls back when it is called.
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use arrow_device_capi::*;

use super::face::made;

/// A device by callbacks whose answers a test chooses, and which tells the test each call.
pub(crate) struct Lab {
    /// What is written for "is it idle" and "has it passed".
    pub(crate) says: AtomicI32,
    /// Is told the name of each function that is called.
    pub(crate) hook: Box<dyn Fn(&str) + Send + Sync>,
}

impl Lab {
    /// Registers a device of this number. What it is stays for the process.
    pub(crate) fn register(self, device_id: i64) -> (*mut ArdevDevice, &'static Self) {
        let lab: &'static Self = Box::leak(Box::new(self));
        let table = ArdevDriver {
            struct_size: size_of::<ArdevDriver>(),
            device_type: 12, // ARROW_DEVICE_EXT_DEV
            flags: ARDEV_DEVICE_HOST_READABLE,
            device_id,
            alignment: 0,
            copy_unit: 0,
            name: c"lab".as_ptr(),
            context: ptr::from_ref(lab).cast_mut().cast(),
            release: None,
            allocate: Some(allocate),
            free: Some(free),
            open_queue: Some(open_queue),
            close_queue: Some(ignore),
            synchronize: Some(synchronize),
            is_idle: Some(is_idle),
            record: Some(record),
            destroy_event: Some(ignore),
            wait: Some(wait),
            is_complete: Some(is_complete),
            wait_on_host: Some(wait_on_host),
            copy: Some(copy),
            map: Some(map),
            unmap: Some(unmap),
            read_event: None,
            reaches: None,
            part: None,
            free_part: None,
        };
        let device = made(|out, error| unsafe { ardev_device_register(&table, out, error) });
        (device.unwrap(), lab)
    }
}

/// Something that is not null, as a queue or as an event.
static ANYTHING: u64 = 0;

fn anything() -> *mut c_void {
    (&raw const ANYTHING).cast_mut().cast()
}

fn called<'a>(context: *mut c_void, name: &str) -> &'a Lab {
    let lab = unsafe { &*context.cast::<Lab>() };
    (lab.hook)(name);
    lab
}

unsafe extern "C" fn allocate(
    context: *mut c_void,
    size: u64,
    _: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    called(context, "allocate");
    let bytes = vec![0_u128; (size as usize).div_ceil(16) + 4].leak();
    let address = bytes.as_mut_ptr().cast::<u8>();
    unsafe { out.write(address.add(address.align_offset(64)).cast()) };
    0
}

/// A test has little memory, which stays.
unsafe extern "C" fn free(context: *mut c_void, _: *mut c_void, _: u64) {
    called(context, "free");
}

unsafe extern "C" fn open_queue(context: *mut c_void, out: *mut *mut c_void) -> c_int {
    called(context, "open_queue");
    unsafe { out.write(anything()) };
    0
}

unsafe extern "C" fn ignore(_: *mut c_void, _: *mut c_void) {}

unsafe extern "C" fn synchronize(context: *mut c_void, _: *mut c_void) -> c_int {
    called(context, "synchronize");
    0
}

unsafe extern "C" fn is_idle(context: *mut c_void, _: *mut c_void, out: *mut i32) -> c_int {
    unsafe { out.write(called(context, "is_idle").says.load(Ordering::SeqCst)) };
    0
}

unsafe extern "C" fn record(context: *mut c_void, _: *mut c_void, out: *mut *mut c_void) -> c_int {
    called(context, "record");
    unsafe { out.write(anything()) };
    0
}

unsafe extern "C" fn wait(context: *mut c_void, _: *mut c_void, _: *mut c_void) -> c_int {
    called(context, "wait");
    0
}

unsafe extern "C" fn is_complete(context: *mut c_void, _: *mut c_void, out: *mut i32) -> c_int {
    unsafe { out.write(called(context, "is_complete").says.load(Ordering::SeqCst)) };
    0
}

unsafe extern "C" fn wait_on_host(context: *mut c_void, _: *mut c_void, _: i64) -> c_int {
    called(context, "wait_on_host");
    0
}

unsafe extern "C" fn copy(
    context: *mut c_void,
    _: *mut c_void,
    _: i32,
    regions: *const ArdevRegion,
    n_regions: usize,
) -> c_int {
    called(context, "copy");
    for region in unsafe { std::slice::from_raw_parts(regions, n_regions) } {
        let at = |spot: ArdevSpot| spot.base.cast::<u8>().wrapping_add(spot.offset as usize);
        unsafe { at(region.to).copy_from(at(region.from), region.size as usize) };
    }
    0
}

unsafe extern "C" fn map(
    context: *mut c_void,
    spot: ArdevSpot,
    _: u64,
    out: *mut *mut c_void,
) -> c_int {
    called(context, "map");
    unsafe { out.write(spot.base.wrapping_byte_add(spot.offset as usize)) };
    0
}

unsafe extern "C" fn unmap(_: *mut c_void, _: ArdevSpot, _: u64, _: *mut c_void) {}
