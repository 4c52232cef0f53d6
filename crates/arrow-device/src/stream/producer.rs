//! Streams that another party reads: filling the C structs.
//!
//! `private_data` is a [`Producer`] in an allocation of its own. The producer is used by the
//! callbacks alone, which the consumer calls one at a time, and freed by `release`. Nothing in the
//! producer points into the consumer's struct, which may be moved.
//!
//! `get_next` does the work of each array:
//!
//! 1. The iterator is asked for the next array.
//! 2. The array is exported straight into the consumer's place ([`export_chunk`]). At the end of
//!    the iterator, [`END`] is written there.
//! 3. An error, or a panic of the iterator, drops the iterator, is kept, and is the answer of all
//!    later calls.
//!
//! Why this is fast: the array goes out from the place where the iterator has put it, without a
//! move, and a call without an error allocates nothing here.
//!
//! What must stay true: no panic passes through C, and the consumer's place is written on every
//! path on which there is a stream and the place is not null.
//!
//! [`export_chunk`]: CStream::export_chunk
//! [`END`]: CStream::END

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};

use super::ArrayStream;
use super::c_stream::{CStream, Callbacks};
use crate::abi::{ArrowArrayStream, ArrowDeviceArrayStream, ArrowSchema};
use crate::array::Manner;
use crate::ffi::guard;
use crate::schema::Schema;
use crate::{DeviceType, Error, ErrorKind, Queue, Result, error};

/// The `private_data` of a stream.
struct Producer {
    schema: Schema,
    /// The stream. `None` after an error.
    stream: Option<ArrayStream>,
    manner: Manner,
    /// The error that `get_next` returned, and returns from then on.
    failure: Option<LastError>,
    /// The text of the error that the last call returned.
    last_error: Option<CString>,
}

struct LastError {
    errno: c_int,
    text: CString,
}

impl ArrayStream {
    /// Hands the stream to a consumer: fills the struct that the consumer allocated.
    ///
    /// The struct is overwritten without being released. From then on the stream is the consumer's
    /// until it calls `release`, and it may use and release it on any thread.
    ///
    /// Each array is handed on as by [`Array::export`](crate::Array::export): no device is called,
    /// its event goes out unchanged, and columns with different events are an error; for those use
    /// [`export_on`](Self::export_on).
    ///
    /// An error or a panic of the iterator, or an array that does not belong into the stream,
    /// reaches the consumer as an `errno` value ([`Error::errno`]) and a text with the error and
    /// its causes. A consumer that goes on asking gets the same error again, so that nobody takes
    /// the arrays before it for the whole stream.
    pub fn export(self, out: &mut ArrowDeviceArrayStream) {
        *out = export(self, Manner::AsItIs);
    }

    /// [`export`](Self::export), with the events of each array joined on this queue: see
    /// [`Array::export_on`](crate::Array::export_on). Arrays with columns on different queues need
    /// this, such as those of a [`Batch`](crate::Batch).
    pub fn export_on(self, queue: &Queue, out: &mut ArrowDeviceArrayStream) {
        *out = export(self, Manner::On(queue.clone()));
    }

    /// [`export`](Self::export) without events, for consumers that are known to ignore them:
    /// `get_next` waits on the host until the array is ready.
    pub fn export_settled(self, out: &mut ArrowDeviceArrayStream) {
        *out = export(self, Manner::Settled);
    }

    /// Hands the stream to a consumer that only knows plain `ArrowArray`s, which lie in host
    /// memory.
    ///
    /// A stream on another type of device is an error. `out` is then left as it was, and the stream
    /// is dropped.
    pub fn export_host(self, out: &mut ArrowArrayStream) -> Result<()> {
        if self.device_type != DeviceType::CPU {
            let message = format!(
                "only host memory travels without the device interface, and these arrays lie on {}",
                self.device_type
            );
            return Err(Error::new(ErrorKind::Unsupported, message).during("export"));
        }
        *out = export(self, Manner::AsItIs);
        Ok(())
    }
}

/// The struct of a stream, which the consumer owns from now on.
fn export<S: CStream>(stream: ArrayStream, manner: Manner) -> S {
    let (schema, device_type) = (stream.schema.clone(), stream.device_type);
    let stream = Some(stream);
    let producer = Producer { schema, stream, manner, failure: None, last_error: None };
    let callbacks = Callbacks {
        get_schema: Some(get_schema::<S>),
        get_next: Some(get_next::<S>),
        get_last_error: Some(get_last_error::<S>),
        release: Some(release::<S>),
    };
    S::new(device_type, callbacks, Box::into_raw(Box::new(producer)).cast())
}

impl Producer {
    /// Writes the next array for C, if there is one, and returns whether there was. Nothing is
    /// written at the end and after an error.
    fn next<S: CStream>(&mut self, out: &mut MaybeUninit<S::Chunk>) -> Result<bool, &LastError> {
        if self.failure.is_none() {
            let (stream, manner) = (&mut self.stream, &self.manner);
            let next = guard::or_panicked(|| {
                let Some(stream) = stream else { return Ok(false) };
                // The array goes out from where it is: a move of the array would take a good part
                // of the time of this call.
                let next = ManuallyDrop::new(stream.next());
                if let Some(Ok(array)) = &*next {
                    // SAFETY: it is neither used nor dropped after this.
                    return unsafe { S::export_chunk(array, manner, out) }.map(|()| true);
                }
                ManuallyDrop::into_inner(next).map_or(Ok(false), |error| error.map(|_| true))
            });
            match next {
                Ok(is_there) => return Ok(is_there),
                Err(error) => {
                    let stream = self.stream.take();
                    guard::silent(|| drop(stream));
                    self.failure = Some(LastError::of(error));
                }
            }
        }
        self.failure.as_ref().map_or(Ok(false), Err)
    }

    fn schema(&self) -> Result<ArrowSchema> {
        let mut out = ArrowSchema::empty();
        guard::or_panicked(|| self.schema.export(&mut out))?;
        Ok(out)
    }
}

impl LastError {
    /// Renders an error for C and drops it. Both run code of whoever made the error, which may
    /// panic. If the rendering panics, the panic is reported instead.
    fn of(error: Error) -> Self {
        let told = guard::or_panicked(|| Ok(Self::new(&error)));
        guard::silent(|| drop(error));
        told.unwrap_or_else(|panic| Self::new(&panic))
    }

    /// An error as C is told of it: its text, followed by the texts of its causes. A text of
    /// another party is repeated unchanged, however often it is handed on.
    fn new(error: &Error) -> Self {
        let mut text = if error.is_from_peer() {
            error.message().as_bytes().to_vec()
        } else {
            let texts: Vec<String> = error::chain(error).map(ToString::to_string).collect();
            texts.join(": ").into_bytes()
        };
        text.retain(|byte| *byte != 0);
        // A code of another party that is no `errno` value is not handed on.
        let errno = Some(error.errno()).filter(|errno| *errno > 0);
        let errno = errno.unwrap_or_else(|| error.kind().errno());
        Self { errno, text: CString::new(text).unwrap_or_default() }
    }
}

/// The result of a call without a stream, or without a place for the result.
fn no_place() -> c_int {
    ErrorKind::InvalidArgument.errno()
}

/// # Safety
/// `stream` is null or a struct that this module filled, and nothing else uses it during `'a`.
unsafe fn producer<'a, S: CStream>(stream: *mut S) -> Option<&'a mut Producer> {
    // SAFETY: `stream` is null or a struct that this module filled, and nothing else uses it during
    // `'a`, as the caller promises.
    let stream = unsafe { stream.as_mut() }?;
    let producer = NonNull::new(stream.private_data_mut().cast::<Producer>())?;
    // SAFETY: `export` put a producer there, which lives until `release` sets the pointer to null.
    Some(unsafe { &mut *producer.as_ptr() })
}

unsafe extern "C" fn get_schema<S: CStream>(stream: *mut S, out: *mut ArrowSchema) -> c_int {
    // SAFETY: called by the consumer, with its stream, one call at a time.
    let Some(producer) = (unsafe { producer(stream) }) else { return no_place() };
    producer.last_error = None;
    if out.is_null() {
        return no_place();
    }
    let (schema, errno) = match producer.schema() {
        Ok(schema) => (schema, 0),
        Err(error) => {
            let LastError { errno, text } = LastError::of(error);
            producer.last_error = Some(text);
            (ArrowSchema::empty(), errno)
        }
    };
    // SAFETY: UNS-13: the consumer's place for the result, which holds anything.
    unsafe { out.write(schema) };
    errno
}

unsafe extern "C" fn get_next<S: CStream>(stream: *mut S, out: *mut S::Chunk) -> c_int {
    // SAFETY: called by the consumer, with its stream, one call at a time.
    let Some(producer) = (unsafe { producer(stream) }) else { return no_place() };
    producer.last_error = None;
    if out.is_null() {
        return no_place();
    }
    // SAFETY: the consumer's place for the result, which holds anything and which nobody else uses
    // during the call.
    let out = unsafe { &mut *out.cast::<MaybeUninit<S::Chunk>>() };
    match producer.next::<S>(out) {
        Ok(true) => 0,
        Ok(false) => {
            out.write(S::END);
            0
        }
        Err(LastError { errno, text }) => {
            let (errno, text) = (*errno, text.clone());
            out.write(S::END);
            producer.last_error = Some(text);
            errno
        }
    }
}

unsafe extern "C" fn get_last_error<S: CStream>(stream: *mut S) -> *const c_char {
    // SAFETY: called by the consumer, with its stream, one call at a time.
    let Some(producer) = (unsafe { producer(stream) }) else { return ptr::null() };
    producer.last_error.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

unsafe extern "C" fn release<S: CStream>(stream: *mut S) {
    // SAFETY: called by the consumer, with its stream, after all other calls.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    *stream.release_mut() = None;
    let producer: *mut c_void = std::mem::replace(stream.private_data_mut(), ptr::null_mut());
    if producer.is_null() {
        return;
    }
    // SAFETY: `export` made it with `Box::into_raw`, and the pointer to it is gone from the struct.
    let producer = unsafe { Box::from_raw(producer.cast::<Producer>()) };
    // The iterator is foreign code, and may panic when it is dropped.
    guard::silent(|| drop(producer));
}
