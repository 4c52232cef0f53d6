//! Copies, fills, and functions of the host.

use std::ffi::{c_int, c_void};

use arrow_device_sim::hardware::{Reading, Stretch};

use crate::batch::Batch;
use crate::call::give;
use crate::code::{Answer, Code};
use crate::hip::call::{call, call_then};
use crate::machine::Machine;
use crate::memory::{End, Pageable, Side};
use crate::work::HostFunction;

/// One copy, on a stream of any device. Ordinary host memory makes the host wait.
fn copy(
    name: &'static str,
    (to, to_side): (usize, Side),
    (from, from_side): (usize, Side),
    len: usize,
    stream: usize,
) -> c_int {
    let arguments = [
        ("to", to as u64),
        ("from", from as u64),
        ("bytes", len as u64),
        ("stream", stream as u64),
    ];
    call_then(name, &arguments, |machine| {
        let device = machine.chosen()?;
        if len > 0 {
            must_be(machine, to, to_side)?;
            must_be(machine, from, from_side)?;
        }
        let stretch = Stretch { from, to, len: len as u64, reading: Reading::AtOnce };
        // SAFETY: the manual asks the caller for host memory of that length, which is left alone
        // until the stream has passed the copy.
        unsafe { machine.copy(device, stream, stretch, Pageable::Waits) }
    })
}

/// What is named as the device's has to be memory of the driver, what is named as the host's not
/// that of a device alone.
fn must_be(machine: &mut Machine, address: usize, side: Side) -> Answer {
    let is_wrong = match machine.end(address, 0) {
        Ok(End::Host) => side == Side::Device,
        Ok(End::Memory(found)) => side == Side::Host && !found.placement.is_for_host(),
        Err(_) => false,
    };
    if is_wrong {
        return Err(machine.misuse(
            "WrongDirection",
            Code::INVALID_VALUE,
            "A copy is named for another direction than its addresses have.",
        ));
    }
    Ok(())
}

/// The kind is the direction: host to host 0, host to device 1, device to host 2, device to device
/// 3, or 4 for whatever the addresses are.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyAsync(
    to: usize,
    from: usize,
    len: usize,
    kind: c_int,
    stream: usize,
) -> c_int {
    let (to_side, from_side) = match kind {
        0 => (Side::Host, Side::Host),
        1 => (Side::Device, Side::Host),
        2 => (Side::Host, Side::Device),
        3 => (Side::Device, Side::Device),
        4 => (Side::Either, Side::Either),
        _ => {
            return call("hipMemcpyAsync", &[("kind", kind as u64)], |_| {
                Err(Code::INVALID_DIRECTION)
            });
        }
    };
    copy("hipMemcpyAsync", (to, to_side), (from, from_side), len, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyHtoDAsync(
    to: usize,
    from: usize,
    len: usize,
    stream: usize,
) -> c_int {
    copy("hipMemcpyHtoDAsync", (to, Side::Device), (from, Side::Host), len, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyDtoHAsync(
    to: usize,
    from: usize,
    len: usize,
    stream: usize,
) -> c_int {
    copy("hipMemcpyDtoHAsync", (to, Side::Host), (from, Side::Device), len, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyDtoDAsync(
    to: usize,
    from: usize,
    len: usize,
    stream: usize,
) -> c_int {
    copy("hipMemcpyDtoDAsync", (to, Side::Device), (from, Side::Device), len, stream)
}

/// The devices have to be those of the memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyPeerAsync(
    to: usize,
    to_device: c_int,
    from: usize,
    from_device: c_int,
    len: usize,
    stream: usize,
) -> c_int {
    let arguments = [
        ("to", to as u64),
        ("from", from as u64),
        ("bytes", len as u64),
        ("stream", stream as u64),
    ];
    call_then("hipMemcpyPeerAsync", &arguments, |machine| {
        let device = machine.chosen()?;
        let homes = (machine.device_number(to_device)?, machine.device_number(from_device)?);
        machine.must_be_at_home(to, homes.0)?;
        machine.must_be_at_home(from, homes.1)?;
        let stretch = Stretch { from, to, len: len as u64, reading: Reading::AtOnce };
        // SAFETY: both ends are memory of the driver, or refused.
        unsafe { machine.copy(device, stream, stretch, Pageable::Waits) }
    })
}

/// As in CUDA 12: with a failure `fail` is told the greatest number, since it was no single copy.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemcpyBatchAsync(
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
    let arguments = [("count", count as u64), ("stream", stream as u64)];
    call_then("hipMemcpyBatchAsync", &arguments, |machine| {
        let device = machine.chosen()?;
        let attributes = attributes.cast();
        let batch = Batch { to, from, len, count, attributes, attribute_starts, attribute_count };
        // SAFETY: as the module says.
        let submitted = unsafe { batch.submit(machine, device, stream, Pageable::Waits) };
        if submitted.is_err() && !fail.is_null() {
            // SAFETY: as the module says.
            unsafe { give(fail, usize::MAX) }?;
        }
        submitted
    })
}

/// The value is taken as a byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemsetAsync(to: usize, value: c_int, len: usize, stream: usize) -> c_int {
    let arguments = [("to", to as u64), ("bytes", len as u64), ("stream", stream as u64)];
    call("hipMemsetAsync", &arguments, |machine| {
        let device = machine.chosen()?;
        machine.fill(device, stream, (to, len), (value as u32 & 0xff, 1))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipLaunchHostFunc(
    stream: usize,
    function: Option<HostFunction>,
    data: *mut c_void,
) -> c_int {
    call("hipLaunchHostFunc", &[("stream", stream as u64)], |machine| {
        let device = machine.chosen()?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        machine.call_on_host(Some(device), stream, function, data)
    })
}
