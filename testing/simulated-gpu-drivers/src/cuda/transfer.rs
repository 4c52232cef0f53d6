//! Copies, fills, and functions of the host.

use std::ffi::{c_int, c_uint, c_void};

use arrow_device_sim::hardware::{Reading, Stretch};

use crate::batch::Batch;
use crate::call::{Arguments, Then, call, call_then, give};
use crate::code::{Answer, Code};
use crate::machine::Machine;
use crate::memory::{End, Pageable, Side};
use crate::work::HostFunction;

/// One copy, on a stream of any context.
fn copy(
    name: &'static str,
    (to, to_side): (usize, Side),
    (from, from_side): (usize, Side),
    len: usize,
    stream: usize,
) -> c_int {
    let arguments: Arguments<'_> = &[
        ("to", to as u64),
        ("from", from as u64),
        ("bytes", len as u64),
        ("stream", stream as u64),
    ];
    call_then(name, arguments, |machine| {
        let device = machine.current()?;
        if len > 0 {
            must_be(machine, to, to_side)?;
            must_be(machine, from, from_side)?;
        }
        let stretch = Stretch { from, to, len: len as u64, reading: Reading::AtOnce };
        // SAFETY: the manual asks the caller for host memory of that length, which is left alone
        // until the stream has passed the copy.
        unsafe { machine.copy(device, stream, stretch, Pageable::WaitsWhenWritten) }
    })
}

/// A device address has to be the driver's. A host address may be, if the host can use it.
fn must_be(machine: &mut Machine, address: usize, side: Side) -> Answer {
    let end = machine.end(address, 0);
    match side {
        Side::Device if end == Ok(End::Host) => Err(machine.misuse(
            "HostAddressOnDevice",
            Code::INVALID_VALUE,
            "An ordinary address of the host is given where memory of the driver belongs.",
        )),
        _ => Ok(()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyAsync(to: usize, from: usize, len: usize, stream: usize) -> c_int {
    copy("cuMemcpyAsync", (to, Side::Either), (from, Side::Either), len, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: usize,
    from: usize,
    len: usize,
    stream: usize,
) -> c_int {
    copy("cuMemcpyHtoDAsync_v2", (to, Side::Device), (from, Side::Host), len, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: usize,
    from: usize,
    len: usize,
    stream: usize,
) -> c_int {
    copy("cuMemcpyDtoHAsync_v2", (to, Side::Host), (from, Side::Device), len, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: usize,
    from: usize,
    len: usize,
    stream: usize,
) -> c_int {
    copy("cuMemcpyDtoDAsync_v2", (to, Side::Device), (from, Side::Device), len, stream)
}

/// Works with and without peer access. The contexts have to be those of the memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyPeerAsync(
    to: usize,
    to_context: usize,
    from: usize,
    from_context: usize,
    len: usize,
    stream: usize,
) -> c_int {
    let arguments = [
        ("to", to as u64),
        ("from", from as u64),
        ("bytes", len as u64),
        ("stream", stream as u64),
    ];
    call_then("cuMemcpyPeerAsync", &arguments, |machine| {
        let device = machine.current()?;
        let homes =
            (machine.device_of_context(to_context)?, machine.device_of_context(from_context)?);
        machine.must_be_at_home(to, homes.0)?;
        machine.must_be_at_home(from, homes.1)?;
        let stretch = Stretch { from, to, len: len as u64, reading: Reading::AtOnce };
        // SAFETY: both ends are memory of the driver, or refused.
        unsafe { machine.copy(device, stream, stretch, Pageable::WaitsWhenWritten) }
    })
}

/// The stream must not be the default stream.
///
/// # Safety
/// As for [`Batch::submit`].
unsafe fn submit_batch(machine: &mut Machine, batch: &Batch, stream: usize) -> Answer<Then> {
    let device = machine.current()?;
    if matches!(stream, 0 | 1) {
        return Err(machine.misuse(
            "DefaultStream",
            Code::INVALID_VALUE,
            "A batch of copies is given to the default stream, which takes none.",
        ));
    }
    // SAFETY: what `Batch::submit` asks for, which the caller promises.
    unsafe { batch.submit(machine, device, stream, Pageable::WaitsWhenWritten) }
}

/// The copies of a batch have no order among each other. With a failure, `fail` is told which copy
/// it was, or the greatest number where it was none of them.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyBatchAsync(
    to: *const usize,
    from: *const usize,
    len: *const usize,
    count: usize,
    attributes: *const c_void,
    attribute_starts: *const usize,
    attribute_count: usize,
    fail: *mut usize,
    stream: usize,
) -> c_int {
    let attributes = attributes.cast();
    let batch = Batch { to, from, len, count, attributes, attribute_starts, attribute_count };
    let arguments = [("count", count as u64), ("stream", stream as u64)];
    call_then("cuMemcpyBatchAsync", &arguments, |machine| {
        // SAFETY: as the module says.
        let submitted = unsafe { submit_batch(machine, &batch, stream) };
        if submitted.is_err() && !fail.is_null() {
            // SAFETY: as the module says.
            unsafe { give(fail, usize::MAX) }?;
        }
        submitted
    })
}

/// The same without the place of a failure.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyBatchAsync_v2(
    to: *const usize,
    from: *const usize,
    len: *const usize,
    count: usize,
    attributes: *const c_void,
    attribute_starts: *const usize,
    attribute_count: usize,
    stream: usize,
) -> c_int {
    let attributes = attributes.cast();
    let batch = Batch { to, from, len, count, attributes, attribute_starts, attribute_count };
    let arguments = [("count", count as u64), ("stream", stream as u64)];
    call_then("cuMemcpyBatchAsync_v2", &arguments, |machine| {
        // SAFETY: as the module says.
        unsafe { submit_batch(machine, &batch, stream) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(to: usize, value: u8, count: usize, stream: usize) -> c_int {
    let arguments = [("to", to as u64), ("count", count as u64), ("stream", stream as u64)];
    call("cuMemsetD8Async", &arguments, |machine| {
        let device = machine.current()?;
        machine.fill(device, stream, (to, count), (u32::from(value), 1))
    })
}

/// The address has to be a multiple of four.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD32Async(
    to: usize,
    value: c_uint,
    count: usize,
    stream: usize,
) -> c_int {
    let arguments = [("to", to as u64), ("count", count as u64), ("stream", stream as u64)];
    call("cuMemsetD32Async", &arguments, |machine| {
        let device = machine.current()?;
        machine.fill(device, stream, (to, count), (value, 4))
    })
}

/// The function must not call the driver.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchHostFunc(
    stream: usize,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> c_int {
    call("cuLaunchHostFunc", &[("stream", stream as u64)], |machine| {
        let device = machine.current()?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        machine.call_on_host(Some(device), stream, function, data)
    })
}
