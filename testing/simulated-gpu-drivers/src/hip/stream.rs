//! Streams, events, capture.

use std::ffi::{c_int, c_uint};

use crate::call::{Then, give};
use crate::code::Code;
use crate::hip::call::{call, call_then};
use crate::thread;

/// The flag is 0, or 1 for a stream that is not ordered with the default stream.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamCreateWithFlags(out: *mut usize, flags: c_uint) -> c_int {
    call("hipStreamCreateWithFlags", &[("flags", u64::from(flags))], |machine| {
        let device = machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let stream = machine.make_stream(device, flags)?;
        // SAFETY: as the module says.
        unsafe { give(out, stream) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamDestroy(stream: usize) -> c_int {
    call("hipStreamDestroy", &[("stream", stream as u64)], |machine| {
        machine.chosen()?;
        machine.destroy_stream(stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamQuery(stream: usize) -> c_int {
    call_then("hipStreamQuery", &[("stream", stream as u64)], |machine| {
        let device = machine.chosen()?;
        machine.ask_stream(Some(device), stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamSynchronize(stream: usize) -> c_int {
    call_then("hipStreamSynchronize", &[("stream", stream as u64)], |machine| {
        let device = machine.chosen()?;
        machine.synchronize_stream(Some(device), stream)
    })
}

/// The event may be of another device than the stream.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamWaitEvent(stream: usize, event: usize, flags: c_uint) -> c_int {
    let arguments = [("stream", stream as u64), ("event", event as u64)];
    call("hipStreamWaitEvent", &arguments, |machine| {
        let device = machine.chosen()?;
        machine.wait_for_event(Some(device), stream, event, flags)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamGetDevice(stream: usize, out: *mut c_int) -> c_int {
    call("hipStreamGetDevice", &[("stream", stream as u64)], |machine| {
        let device = machine.chosen()?;
        let stream = machine.stream(Some(device), stream)?;
        let (_, home) = machine.lane(stream)?;
        // SAFETY: as the module says.
        unsafe { give(out, home as c_int) }
    })
}

/// Flags: as in CUDA, and two that say how far a release reaches.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventCreateWithFlags(out: *mut usize, flags: c_uint) -> c_int {
    call("hipEventCreateWithFlags", &[("flags", u64::from(flags))], |machine| {
        let device = machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // Releases to the device 0x40000000, to the system 0x80000000; a cache that is not flushed
        // 0x20000000.
        let event = machine.make_event(device, flags & !0xe000_0000)?;
        // SAFETY: as the module says.
        unsafe { give(out, event) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventDestroy(event: usize) -> c_int {
    call("hipEventDestroy", &[("event", event as u64)], |machine| {
        machine.chosen()?;
        machine.destroy_event(event)
    })
}

/// Event and stream must be of the same device.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventRecord(event: usize, stream: usize) -> c_int {
    let arguments = [("event", event as u64), ("stream", stream as u64)];
    call("hipEventRecord", &arguments, |machine| {
        let device = machine.chosen()?;
        machine.record_event(Some(device), event, stream)
    })
}

/// One that was never recorded has passed.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventQuery(event: usize) -> c_int {
    call_then("hipEventQuery", &[("event", event as u64)], |machine| {
        machine.chosen()?;
        machine.ask_event(event)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventSynchronize(event: usize) -> c_int {
    call_then("hipEventSynchronize", &[("event", event as u64)], |machine| {
        machine.chosen()?;
        machine.synchronize_event(event)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamBeginCapture(stream: usize, mode: c_int) -> c_int {
    let arguments = [("stream", stream as u64), ("mode", mode as u64)];
    call("hipStreamBeginCapture", &arguments, |machine| {
        let device = machine.chosen()?;
        machine.begin_capture(Some(device), stream, mode)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamEndCapture(stream: usize, graph: *mut usize) -> c_int {
    call("hipStreamEndCapture", &[("stream", stream as u64)], |machine| {
        let device = machine.chosen()?;
        let ended = machine.end_capture(Some(device), stream);
        // SAFETY: as the module says.
        unsafe { give(graph, ended.unwrap_or(0)) }?;
        ended.map(|_| ())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamIsCapturing(stream: usize, status: *mut c_int) -> c_int {
    call_then("hipStreamIsCapturing", &[("stream", stream as u64)], |machine| {
        let device = machine.chosen()?;
        let (is, _) = machine.capture_status(Some(device), stream)?;
        // SAFETY: as the module says.
        unsafe { give(status, is) }.map(|()| Then::Return)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) -> c_int {
    call("hipThreadExchangeStreamCaptureMode", &[], |_| {
        // SAFETY: as the module says.
        unsafe { thread::exchange_capture_mode(mode) }
    })
}
