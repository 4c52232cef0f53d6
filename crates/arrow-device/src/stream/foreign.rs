//! Streams that another party makes: reading the C structs.
//!
//! 1. The struct is moved in and kept whole, behind one owner that releases it once.
//! 2. The callbacks are called one at a time, since taking an array needs `&mut`.
//! 3. The text of an error is fetched right after the call that failed, and at no other time.

use std::ffi::{CStr, c_int};

use super::c_stream::{CStream, Callbacks, GetLastError, GetNext};
use super::{ArrayStream, Iterated};
use crate::abi::{ArrowArrayStream, ArrowDeviceArrayStream, ArrowSchema};
use crate::schema::Schema;
use crate::{Array, Error, ErrorKind, Result};

impl ArrayStream {
    /// Takes a stream over from the producer that filled the struct, and asks it for the schema.
    ///
    /// The struct is moved: the source is marked released, whatever the outcome. The producer's
    /// `release` is called once: after the end, after an error, or when the stream is dropped, on
    /// the thread where that happens.
    ///
    /// # Errors
    /// * [`Released`](ErrorKind::Released): the stream is released.
    /// * [`Malformed`](ErrorKind::Malformed): a callback is missing, or the schema is malformed.
    /// * What the producer says, if it fails to give the schema.
    ///
    /// # Safety
    /// `stream` is null, or points to a struct that may be read and written and that holds what the
    /// Arrow C device stream interface says (UNS-1): either it is released, or its callbacks, where
    /// they are not null (UNS-9),
    ///
    /// * can be called on any thread, one at a time, with the struct at any address,
    /// * write a struct that is as [`Schema::import`] or [`Array::import`] wants it, or return an
    ///   error, and then nothing is owed for what was written,
    /// * give a text, after an error, that ends with a NUL byte, or null.
    ///
    /// The caller need not rule out what the errors name.
    pub unsafe fn import(stream: *mut ArrowDeviceArrayStream) -> Result<Self> {
        // SAFETY: UNS-1 and UNS-9, which the caller promises.
        unsafe { import(stream) }
    }

    /// Takes over a stream of plain `ArrowArray`s, which lie in host memory. The result is a stream
    /// on the type of device [`CPU`](crate::DeviceType::CPU).
    ///
    /// # Safety
    /// UNS-1 and UNS-9, as [`import`](Self::import) has them, where each array that is written
    /// keeps UNS-7: its buffers lie in host memory and can be read at once.
    pub unsafe fn import_host(stream: *mut ArrowArrayStream) -> Result<Self> {
        // SAFETY: UNS-1, UNS-9 and UNS-7, which the caller promises.
        unsafe { import(stream) }
    }
}

/// # Safety
/// UNS-1 and UNS-9.
unsafe fn import<S: CStream>(stream: *mut S) -> Result<ArrayStream> {
    let refused = |kind, message: &'static str| Error::new(kind, message).during("import");
    // SAFETY: UNS-1, which the caller promises.
    let Some(source) = (unsafe { stream.as_mut() }) else {
        return Err(refused(ErrorKind::InvalidArgument, "no stream: a null pointer"));
    };
    // "The consumer can move the structure by bitwise copying". The source is then marked as
    // released.
    let mut moved = Moved(std::mem::replace(source, S::EMPTY));
    let callbacks = moved.0.callbacks();
    if callbacks.release.is_none() {
        return Err(refused(ErrorKind::Released, "the stream is released"));
    }
    let Callbacks { get_schema, get_next, get_last_error, .. } = callbacks;
    let missing = |name: &str| {
        Error::new(ErrorKind::Malformed, format!("`{name}` of the stream is null")).during("import")
    };
    let get_schema = get_schema.ok_or_else(|| missing("get_schema"))?;
    let get_next = get_next.ok_or_else(|| missing("get_next"))?;
    let get_last_error = get_last_error.ok_or_else(|| missing("get_last_error"))?;

    let mut c_schema = ArrowSchema::empty();
    // SAFETY: the stream is not released; nobody else calls it, since it was moved here.
    let errno = unsafe { get_schema(&raw mut moved.0, &raw mut c_schema) };
    if errno != 0 {
        // SAFETY: the last call returned an error.
        return Err(unsafe { moved.last_error(errno, get_last_error) }.during("get_schema"));
    }
    // SAFETY: UNS-9: the producer wrote a schema, or left the released one that was there.
    let schema = unsafe { Schema::import(&raw mut c_schema) }?;
    let device_type = moved.0.device_type();
    let foreign = Foreign { moved, get_next, get_last_error, schema: schema.clone() };
    Ok(ArrayStream::from_source(schema, device_type, Iterated(foreign)))
}

/// A stream of another party.
struct Foreign<S: CStream> {
    moved: Moved<S>,
    get_next: GetNext<S>,
    get_last_error: GetLastError<S>,
    schema: Schema,
}

// SAFETY: the specification asks only that calls are not concurrent, which `&mut` sees to; they may
// come from any thread (UNS-9).
unsafe impl<S: CStream> Send for Foreign<S> {}

impl<S: CStream> Iterator for Foreign<S> {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        let mut chunk = S::END;
        // SAFETY: the stream is not released, and `&mut self` keeps other calls away.
        let errno = unsafe { (self.get_next)(&raw mut self.moved.0, &raw mut chunk) };
        if errno != 0 {
            // SAFETY: the last call returned an error. What it wrote all the same is not looked at:
            // nothing was handed over.
            let error = unsafe { self.moved.last_error(errno, self.get_last_error) };
            return Some(Err(error.during("get_next")));
        }
        if S::is_end(&chunk) {
            return None;
        }
        // SAFETY: "otherwise, the `ArrowDeviceArray` contains a valid data chunk" (UNS-9).
        Some(unsafe { S::import_chunk(&mut chunk, &self.schema) })
    }
}

/// A struct that was moved in. Dropping it releases the stream.
struct Moved<S: CStream>(S);

impl<S: CStream> Moved<S> {
    /// The error that the last call returned, with the producer's text.
    ///
    /// # Safety
    /// The last call on the stream returned `errno`, which is not 0, and `get_last_error` is the
    /// stream's own.
    unsafe fn last_error(&mut self, errno: c_int, get_last_error: GetLastError<S>) -> Error {
        // SAFETY: the last call on the stream returned `errno`, which is not 0, and
        // `get_last_error` is the stream's own, as the caller promises: it "must ONLY be called if
        // the last operation on the stream returned an error".
        let text = unsafe { get_last_error(&raw mut self.0) };
        // SAFETY: "a pointer to a NULL-terminated character string", or null; valid until the next
        // call on the stream.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        let text = text.map(|text| text.to_string_lossy().into_owned());
        Error::from_peer(errno, text.filter(|text| !text.is_empty()))
    }
}

impl<S: CStream> Drop for Moved<S> {
    fn drop(&mut self) {
        if let Some(release) = *self.0.release_mut() {
            // SAFETY: moved here and not released yet; the producer's callback frees it once, at
            // whatever address it is.
            unsafe { release(&raw mut self.0) }
        }
    }
}
