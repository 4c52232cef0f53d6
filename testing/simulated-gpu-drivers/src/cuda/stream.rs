//! Streams, events, capture.

use std::ffi::{c_int, c_uint};

use crate::call::{Then, call, call_then, give};
use crate::code::Code;
use crate::thread;

/// The flag is 0, or 1 for a stream that is not ordered with the default stream.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(out: *mut usize, flags: c_uint) -> c_int {
    call("cuStreamCreate", &[("flags", u64::from(flags))], |machine| {
        let device = machine.current()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let stream = machine.make_stream(device, flags)?;
        // SAFETY: as the module says.
        unsafe { give(out, stream) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: usize) -> c_int {
    call("cuStreamDestroy_v2", &[("stream", stream as u64)], |machine| {
        machine.current()?;
        machine.destroy_stream(stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamQuery(stream: usize) -> c_int {
    call_then("cuStreamQuery", &[("stream", stream as u64)], |machine| {
        let device = machine.current()?;
        machine.ask_stream(Some(device), stream)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: usize) -> c_int {
    call_then("cuStreamSynchronize", &[("stream", stream as u64)], |machine| {
        let current = machine.current_if_any()?;
        let device = match machine.streams.get(&stream).map(|stream| stream.device) {
            Some(device) if machine.config.lenient && current.is_none() => device,
            _ => machine.current()?,
        };
        machine.synchronize_stream(Some(device), stream)
    })
}

/// The event may be of another context than the stream.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) -> c_int {
    let arguments = [("stream", stream as u64), ("event", event as u64)];
    call("cuStreamWaitEvent", &arguments, |machine| {
        let device = machine.current()?;
        machine.wait_for_event(Some(device), stream, event, flags)
    })
}

/// The default streams have the context that is current, which must be one; all others know theirs.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCtx(stream: usize, out: *mut usize) -> c_int {
    call("cuStreamGetCtx", &[("stream", stream as u64)], |machine| {
        let current = machine.current_if_any()?;
        let stream = machine.stream(current, stream)?;
        let context = machine.context_of(stream)?;
        // SAFETY: as the module says.
        unsafe { give(out, context) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetDevice(stream: usize, out: *mut c_int) -> c_int {
    call("cuStreamGetDevice", &[("stream", stream as u64)], |machine| {
        let current = machine.current_if_any()?;
        let stream = machine.stream(current, stream)?;
        let (_, device) = machine.lane(stream)?;
        // SAFETY: as the module says.
        unsafe { give(out, device as c_int) }
    })
}

/// Flags: 1 waits without spinning, 2 keeps no time, 4 crosses processes and needs 2.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventCreate(out: *mut usize, flags: c_uint) -> c_int {
    call("cuEventCreate", &[("flags", u64::from(flags))], |machine| {
        let device = machine.current()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let event = machine.make_event(device, flags)?;
        // SAFETY: as the module says.
        unsafe { give(out, event) }
    })
}

/// An event may be destroyed before it has passed.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventDestroy_v2(event: usize) -> c_int {
    call("cuEventDestroy_v2", &[("event", event as u64)], |machine| {
        machine.current()?;
        machine.destroy_event(event)
    })
}

/// Event and stream must be of the same context.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventRecord(event: usize, stream: usize) -> c_int {
    let arguments = [("event", event as u64), ("stream", stream as u64)];
    call("cuEventRecord", &arguments, |machine| {
        let device = machine.current()?;
        machine.record_event(Some(device), event, stream)
    })
}

/// One that was never recorded has passed. No context needs to be current.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventQuery(event: usize) -> c_int {
    call_then("cuEventQuery", &[("event", event as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.ask_event(event)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuEventSynchronize(event: usize) -> c_int {
    call_then("cuEventSynchronize", &[("event", event as u64)], |machine| {
        machine.current()?;
        machine.synchronize_event(event)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) -> c_int {
    let arguments = [("stream", stream as u64), ("mode", mode as u64)];
    call("cuStreamBeginCapture_v2", &arguments, |machine| {
        let device = machine.current()?;
        machine.begin_capture(Some(device), stream, mode)
    })
}

/// A spoilt capture gives a null graph.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> c_int {
    call("cuStreamEndCapture", &[("stream", stream as u64)], |machine| {
        let device = machine.current()?;
        let ended = machine.end_capture(Some(device), stream);
        // SAFETY: as the module says.
        unsafe { give(graph, ended.unwrap_or(0)) }?;
        ended.map(|_| ())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> c_int {
    call_then("cuStreamIsCapturing", &[("stream", stream as u64)], |machine| {
        let current = machine.current_if_any()?;
        let (is, _) = machine.capture_status(current, stream)?;
        // SAFETY: as the module says.
        unsafe { give(status, is) }.map(|()| Then::Return)
    })
}

/// All but the status may be null: what the caller does not want to know.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: usize,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut usize,
    dependencies: *mut usize,
    count: *mut usize,
) -> c_int {
    call("cuStreamGetCaptureInfo_v2", &[("stream", stream as u64)], |machine| {
        let current = machine.current_if_any()?;
        let (is, number) = machine.capture_status(current, stream)?;
        // SAFETY: as the module says.
        unsafe { give(status, is) }?;
        if is == 0 {
            return Ok(());
        }
        if !id.is_null() {
            // SAFETY: as the module says.
            unsafe { give(id, number as u64) }?;
        }
        for out in [graph, dependencies, count] {
            if !out.is_null() {
                // SAFETY: as the module says.
                unsafe { give(out, 0) }?;
            }
        }
        Ok(())
    })
}

/// Exchanges how strict this thread's calls are about captures: 0 global, 1 this thread, 2 relaxed.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> c_int {
    call("cuThreadExchangeStreamCaptureMode", &[], |machine| {
        machine.must_be_initialised()?;
        // SAFETY: as the module says.
        unsafe { thread::exchange_capture_mode(mode) }
    })
}
