//! Streams: from C and for C.

use std::ffi::c_int;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::async_stream::{AsyncStream, Blocking, block_on};
use arrow_device::driver::Turns;
use arrow_device::{Array, ArrayStream, DeviceType, Error, Result, Schema};

use crate::array::ArdevArray;
use crate::call::{Out, free, get, invalid, run};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;
use crate::schema::ArdevSchema;

/// What a stream is of is told at any time. Calls that take arrays out come one at a time, whatever
/// threads they are made on, and hold no lock: a source may ask its own stream.
pub struct ArdevStream {
    /// What is left. Changed by whoever has the turn.
    rest: Turns<StreamRest>,
    /// Noted once it is known.
    of: OnceLock<StreamOf>,
    /// Whether nothing is left, because the stream was handed on, or failed before it began.
    is_empty: AtomicBool,
}

/// What all arrays of a stream have in common.
struct StreamOf {
    schema: Schema,
    device_type: DeviceType,
}

enum StreamRest {
    Open(ArrayStream),
    /// What an asynchronous producer will fill, which has not said of what type.
    Awaited(AsyncStream),
    /// In use, or as [`ArdevStream::is_empty`] says.
    Empty,
}

/// What errors call a stream.
const STREAM: &str = "the stream";

impl ArdevStream {
    pub(crate) fn new(stream: ArrayStream) -> Self {
        let of = StreamOf { schema: stream.schema().clone(), device_type: stream.device_type() };
        Self::with_rest(StreamRest::Open(stream), OnceLock::from(of))
    }

    pub(crate) fn awaited(stream: AsyncStream) -> Self {
        Self::with_rest(StreamRest::Awaited(stream), OnceLock::new())
    }

    fn with_rest(rest: StreamRest, of: OnceLock<StreamOf>) -> Self {
        Self { rest: Turns::new(rest), of, is_empty: AtomicBool::new(false) }
    }

    /// What the stream is of. Waits only until an asynchronous producer has said it.
    fn of(&self) -> Result<&StreamOf> {
        if self.is_empty.load(Ordering::Acquire) {
            return Err(empty());
        }
        if let Some(of) = self.of.get() {
            return Ok(of);
        }
        let mut rest = self.rest.take_turn(STREAM)?;
        *rest = StreamRest::Open(self.open(&mut rest)?);
        self.of.get().ok_or_else(empty)
    }

    /// The next array. Waits until the stream is there.
    fn next(&self) -> Result<Option<Array>> {
        let mut rest = self.rest.take_turn(STREAM)?;
        let mut stream = self.open(&mut rest)?;
        // A stream that panics is empty after that.
        let next = stream.next().transpose();
        *rest = StreamRest::Open(stream);
        next
    }

    /// Takes the stream out. Waits until it is there.
    pub(crate) fn take(&self) -> Result<ArrayStream> {
        let mut rest = self.rest.take_turn(STREAM)?;
        let stream = self.open(&mut rest)?;
        self.is_empty.store(true, Ordering::Release);
        Ok(stream)
    }

    /// Takes out what is left as an open stream, which is noted to be of its type.
    fn open(&self, rest: &mut StreamRest) -> Result<ArrayStream> {
        let opened = match std::mem::replace(rest, StreamRest::Empty) {
            StreamRest::Open(stream) => return Ok(stream),
            StreamRest::Awaited(stream) => wait_until_open(stream),
            StreamRest::Empty => Err(empty()),
        };
        let Ok(stream) = &opened else {
            self.is_empty.store(true, Ordering::Release);
            return opened;
        };
        // Whoever has the turn is alone here, so the value is not there yet.
        let _ = self
            .of
            .set(StreamOf { schema: stream.schema().clone(), device_type: stream.device_type() });
        opened
    }
}

fn empty() -> Error {
    invalid("the stream was handed on, or failed before it began")
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
        out.give(ArdevSchema::new(stream.of()?.schema.clone()))
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
        out.put(stream.of()?.device_type.0)
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
        match stream.next()? {
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
