//! The software device as a C library. The functions are declared, and explained, in
//! `include/sim_c.h`.
//!
//! An [`ArrowDeviceSim`] is the caller's from `arrow_device_sim_open` to `arrow_device_sim_close`.
//! A panic never reaches C.

#![expect(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "the header says it for each function"
)]

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_device::driver::{Driver, Raw, Region, Route, Spot, Waiting};
use arrow_device::{Error, ErrorKind, Result};
use arrow_device_sim::{EventTable, Report, Sim, SimDriver};

/// A simulator that a C program opened.
#[derive(Debug)]
pub struct ArrowDeviceSim {
    sim: Sim,
    driver: SimDriver,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn explain(text: String) {
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // While a thread is being torn down there is nobody left to ask.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
}

/// Runs the body of a function; an error or a panic becomes an `errno` value and a text.
fn run(body: impl FnOnce() -> Result<()>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        // Its drop may panic as well.
        std::mem::forget(payload);
        Err(Error::new(ErrorKind::Panicked, "a panic in the simulator"))
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            explain(error.to_string());
            error.kind().errno()
        }
    }
}

fn missing() -> Error {
    Error::new(ErrorKind::InvalidArgument, "a null pointer where the simulator or `out` belongs")
}

/// # Safety
/// Null, or what `arrow_device_sim_open` gave and `arrow_device_sim_close` has not ended.
unsafe fn driver<'a>(sim: *const ArrowDeviceSim) -> Result<&'a SimDriver> {
    // SAFETY: null, or what `arrow_device_sim_open` gave and `arrow_device_sim_close` has not
    // ended, as the caller promises.
    unsafe { sim.as_ref() }.map(|sim| &sim.driver).ok_or_else(missing)
}

/// # Safety
/// `out` is null or may be written.
unsafe fn give<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(missing());
    }
    // SAFETY: `out` is null or may be written, as the caller promises.
    unsafe { out.write(value) };
    Ok(())
}

fn told(reports: &[Report]) -> String {
    reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_open(seed: u64, out: *mut *mut ArrowDeviceSim) -> c_int {
    run(|| {
        let sim = Sim::builder().seed(seed).build();
        let driver = sim.driver();
        let opened = Box::into_raw(Box::new(ArrowDeviceSim { sim, driver }));
        // SAFETY: the header asks for a place to write to.
        unsafe { give(out, opened) }.inspect_err(|_| {
            // SAFETY: made above, and nobody else has it.
            drop(unsafe { Box::from_raw(opened) });
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_close(sim: *mut ArrowDeviceSim) -> c_int {
    run(|| {
        if sim.is_null() {
            return Ok(());
        }
        // SAFETY: the header asks for what `arrow_device_sim_open` gave, once.
        let ArrowDeviceSim { sim, driver } = *unsafe { Box::from_raw(sim) };
        drop(driver);
        match &sim.finish()[..] {
            [] => Ok(()),
            reports => Err(Error::new(ErrorKind::InvalidArgument, told(reports))),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_device_id(sim: *const ArrowDeviceSim) -> i64 {
    // SAFETY: the header asks for an open simulator.
    unsafe { driver(sim) }.map_or(0, |driver| driver.id().id)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_mistakes(sim: *mut ArrowDeviceSim) -> u64 {
    // SAFETY: the header asks for an open simulator.
    let Some(sim) = (unsafe { sim.as_ref() }) else { return 0 };
    let reports = sim.sim.take_reports();
    if !reports.is_empty() {
        explain(told(&reports));
    }
    reports.len() as u64
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_allocate(
    sim: *mut ArrowDeviceSim,
    length: u64,
    out: *mut *mut c_void,
) -> c_int {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        // SAFETY: no queue is named, and a length of 0 is made 1, as `allocate` asks.
        let memory = unsafe { driver.allocate(length.max(1), None) }?;
        // SAFETY: the header asks for a place to write to.
        unsafe { give(out, memory.as_ptr()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_free(
    sim: *mut ArrowDeviceSim,
    memory: *mut c_void,
    length: u64,
) {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        if !memory.is_null() {
            // SAFETY: the simulator checks what it is given, and reports what is wrong with it.
            unsafe { driver.free(Raw::from_ptr(memory), length.max(1)) }
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_open_queue(
    sim: *mut ArrowDeviceSim,
    out: *mut *mut c_void,
) -> c_int {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let queue = unsafe { driver(sim) }?.open_queue()?;
        // SAFETY: the header asks for a place to write to.
        unsafe { give(out, queue.as_ptr()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_close_queue(
    sim: *mut ArrowDeviceSim,
    queue: *mut c_void,
) {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        // SAFETY: the simulator checks what it is given, and reports what is wrong with it.
        unsafe { driver.close_queue(Raw::from_ptr(queue)) };
        Ok(())
    });
}

/// # Safety
/// As the header says of both copies.
unsafe fn copy(
    sim: *mut ArrowDeviceSim,
    queue: *mut c_void,
    route: Route<'_>,
    to: *mut c_void,
    from: *const c_void,
    len: u64,
) -> c_int {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        let spot = |base: *mut c_void| Spot { base: Raw::from_ptr(base), offset: 0 };
        let region = Region { from: spot(from.cast_mut()), to: spot(to), len };
        // SAFETY: the header asks for host memory that holds `length` bytes and is left alone until
        // the queue has passed; the rest is checked by the simulator.
        unsafe { driver.copy(Raw::from_ptr(queue), route, &[region]) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_copy_to_device(
    sim: *mut ArrowDeviceSim,
    queue: *mut c_void,
    to: *mut c_void,
    from: *const c_void,
    length: u64,
) -> c_int {
    // SAFETY: UNS-21: the bytes on both sides stay until the queue has passed, as the header asks.
    unsafe { copy(sim, queue, Route::FromHost, to, from, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_copy_to_host(
    sim: *mut ArrowDeviceSim,
    queue: *mut c_void,
    to: *mut c_void,
    from: *const c_void,
    length: u64,
) -> c_int {
    // SAFETY: UNS-21: the bytes on both sides stay until the queue has passed, as the header asks.
    unsafe { copy(sim, queue, Route::ToHost, to, from, length) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_record(
    sim: *mut ArrowDeviceSim,
    queue: *mut c_void,
    out: *mut *mut EventTable,
) -> c_int {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        let event = driver.make_event()?;
        // SAFETY: the event was made just now; the simulator checks the queue.
        let recorded = unsafe { driver.record(Raw::from_ptr(queue), event) }.and_then(|event| {
            // SAFETY: the header asks for a place to write to.
            unsafe { give(out, event.as_ptr().cast::<EventTable>()) }
        });
        recorded.inspect_err(|_| {
            // SAFETY: nobody was given the event.
            unsafe { driver.destroy_event(event) }
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_destroy_event(
    sim: *mut ArrowDeviceSim,
    event: *mut EventTable,
) {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        // SAFETY: the simulator checks what it is given, and reports what is wrong with it.
        unsafe { driver.destroy_event(Raw::from_ptr(event.cast())) };
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_wait(
    sim: *mut ArrowDeviceSim,
    queue: *mut c_void,
    event: *const EventTable,
) -> c_int {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        let event = std::ptr::NonNull::new(event.cast_mut().cast()).ok_or_else(missing)?;
        // SAFETY: the header asks for an event table.
        let event = unsafe { driver.read_sync_event(event) }?;
        // SAFETY: the simulator checks the queue, and looked at the event.
        match unsafe { driver.wait(Raw::from_ptr(queue), event) }? {
            Waiting::Queued => Ok(()),
            // SAFETY: the simulator checks the queue, and looked at the event.
            Waiting::HostMustWait => unsafe { driver.wait_on_host(event, None) }.map(|_| ()),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn arrow_device_sim_synchronize(
    sim: *mut ArrowDeviceSim,
    queue: *mut c_void,
) -> c_int {
    run(|| {
        // SAFETY: the header asks for an open simulator.
        let driver = unsafe { driver(sim) }?;
        // SAFETY: the simulator checks what it is given, and reports what is wrong with it.
        unsafe { driver.synchronize(Raw::from_ptr(queue)) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn arrow_device_sim_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
