//! Streams: from C and for C.

use std::ffi::c_int;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::async_stream::{AsyncStream, Blocking, block_on};
use arrow_device::{ArrayStream, Result};

use crate::array::ArdevArray;
use crate::call::{Out, free, get, invalid, run};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;
use crate::schema::ArdevSchema;

/// Calls come one at a time, whatever threads they are made on.
pub struct ArdevStream(Mutex<StreamState>);

enum StreamState {
    Open(ArrayStream),
    /// What an asynchronous producer will fill, which has not said of what type.
    Awaited(AsyncStream),
    /// Handed on, or failed before it began.
    Empty,
}

impl ArdevStream {
    pub(crate) fn new(stream: ArrayStream) -> Self {
        Self(Mutex::new(StreamState::Open(stream)))
    }

    pub(crate) fn awaited(stream: AsyncStream) -> Self {
        Self(Mutex::new(StreamState::Awaited(stream)))
    }

    /// Uses the stream. Waits until it is there.
    fn with<T>(&self, act: impl FnOnce(&mut ArrayStream) -> Result<T>) -> Result<T> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stream = take(&mut state)?;
        // A stream that panics is empty after that.
        let outcome = act(&mut stream);
        *state = StreamState::Open(stream);
        outcome
    }

    /// Takes the stream out. Waits until it is there.
    pub(crate) fn take(&self) -> Result<ArrayStream> {
        take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn take(state: &mut StreamState) -> Result<ArrayStream> {
    match std::mem::replace(state, StreamState::Empty) {
        StreamState::Open(stream) => Ok(stream),
        StreamState::Awaited(stream) => wait_until_open(stream),
        StreamState::Empty => Err(invalid("the stream was handed on, or failed before it began")),
    }
}

/// Waits for the schema, and makes the rest a stream that waits for each array.
fn wait_until_open(mut stream: AsyncStream) -> Result<ArrayStream> {
    let info = block_on(stream.opened())?;
    Ok(ArrayStream::new(info.schema.clone(), info.device_type, Blocking::new(stream.arrays())))
}

impl fmt::Debug for ArdevStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArdevStream")
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_import(
    c_stream: *mut ArrowDeviceArrayStream,
    out: *mut *mut ArdevStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: rule 3 of the header.
        let stream = unsafe { ArrayStream::import(c_stream) }?;
        out?.give(ArdevStream::new(stream))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_import_host(
    c_stream: *mut ArrowArrayStream,
    out: *mut *mut ArdevStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: rule 3 of the header.
        let stream = unsafe { ArrayStream::import_host(c_stream) }?;
        out?.give(ArdevStream::new(stream))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_schema(
    stream: *const ArdevStream,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let stream = unsafe { get(stream, "stream") }?;
        out.give(ArdevSchema(stream.with(|stream| Ok(stream.schema().clone()))?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_device_type(
    stream: *const ArdevStream,
    out: *mut i32,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, 0, "out") }?;
        // SAFETY: rule 2 of the header.
        let stream = unsafe { get(stream, "stream") }?;
        out.put(stream.with(|stream| Ok(stream.device_type().0))?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_next(
    stream: *const ArdevStream,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let stream = unsafe { get(stream, "stream") }?;
        match stream.with(|stream| stream.next().transpose())? {
            Some(array) => out.give(ArdevArray(array)),
            None => Ok(()),
        }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_export(
    stream: *const ArdevStream,
    queue: *const ArdevQueue,
    out: *mut ArrowDeviceArrayStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 3 of the header.
        let out = unsafe { Out::new(out, ArrowDeviceArrayStream::empty(), "out") }?;
        // SAFETY: rule 2 of the header.
        let stream = unsafe { get(stream, "stream") }?.take()?;
        let mut exported = ArrowDeviceArrayStream::empty();
        // SAFETY: rule 2 of the header.
        match unsafe { queue.as_ref() } {
            Some(queue) => stream.export_on(&queue.0, &mut exported),
            None => stream.export(&mut exported),
        }
        out.put(exported)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_export_settled(
    stream: *const ArdevStream,
    out: *mut ArrowDeviceArrayStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 3 of the header.
        let out = unsafe { Out::new(out, ArrowDeviceArrayStream::empty(), "out") }?;
        // SAFETY: rule 2 of the header.
        let stream = unsafe { get(stream, "stream") }?.take()?;
        let mut exported = ArrowDeviceArrayStream::empty();
        stream.export_settled(&mut exported);
        out.put(exported)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_export_host(
    stream: *const ArdevStream,
    out: *mut ArrowArrayStream,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 3 of the header.
        let out = unsafe { Out::new(out, ArrowArrayStream::empty(), "out") }?;
        // SAFETY: rule 2 of the header.
        let stream = unsafe { get(stream, "stream") }?.take()?;
        let mut exported = ArrowArrayStream::empty();
        stream.export_host(&mut exported)?;
        out.put(exported)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_stream_free(stream: *mut ArdevStream) {
    // SAFETY: rule 2 of the header.
    unsafe { free(stream) }
}
